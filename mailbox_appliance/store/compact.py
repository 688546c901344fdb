"""Compacting: the database written anew without the room that deleted rows left in it.

The copy has the same key and the same rows; it begins with other random bytes, so the key file that notes these
changes with it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import apsw

from mailbox_appliance.errors import StoreDamaged
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import open_private, write_private
from mailbox_appliance.store.keyfile import read_file, render
from mailbox_appliance.store.reencrypt import require_whole
from mailbox_appliance.store.renewal import Renewal, renewing, require_writable
from mailbox_appliance.store.schema import TABLES
from mailbox_appliance.store.upgrade import Upgraded

_EVERY = 20_000
_STEPS = 150  # that writing a page takes, roughly
# What is found by words has no rows of its own that could be counted.
_COUNTED = tuple(table for table in TABLES if table not in ("message_index", "message_words"))


@dataclass(frozen=True)
class Compacted:
    """How much the database took, and takes, in bytes. `upgraded`: where it had to be, first."""

    bytes_before: int
    bytes_after: int
    upgraded: Upgraded | None


def compact(
    folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None
) -> Compacted:
    """Compact the store of a data directory that nobody uses; whatever stops it leaves the old one or the new one.

    Raises StoreInUse, NotEnoughRoom, StoreDamaged, StoreUnusable, KeyUnusable where the key file cannot be written.
    """
    tell: Progress = progress or (lambda _what, _done, _total: None)
    with renewing(folder, key_file, passphrase=passphrase, progress=progress) as renewal:
        if read_file(key_file) is not None:
            require_writable(key_file)
        room.require_room(folder, room.needed_for_copy(renewal.old_database))
        before = room.bytes_on_disk(renewal.old_database)
        _write(renewal, tell)
        tell("checking the new database", 0, 0)
        require_whole(renewal.old_database, renewal.database, renewal.store.key)
        _require_same_counts(renewal)
        _note_beginning(renewal)
        after = room.bytes_on_disk(renewal.database)
    return Compacted(before, after, renewal.store.upgraded)


def _write(renewal: Renewal, tell: Progress) -> None:
    database, done = renewal.store.database, 0
    expected = int(database.value("PRAGMA page_count")) * _STEPS

    def look() -> None:
        nonlocal done
        done += _EVERY
        tell("writing the database anew", min(done, expected), expected)

    os.close(open_private(renewal.database))  # SQLite writes into an empty file, and would make it as the umask says
    with database.progress_handler(_EVERY, look):
        try:
            # A plain path: the copy gets this connection's key, which is written out nowhere.
            database.rows("VACUUM INTO ?", (str(renewal.database),))
        except apsw.CorruptError as error:
            raise StoreDamaged(file=renewal.old_database, reason="a page of it cannot be read") from error


def _require_same_counts(renewal: Renewal) -> None:
    key = renewal.store.key
    copy = Database(renewal.database, key.cipher, key.derive("database"))
    try:
        for table in _COUNTED:
            sql = f"SELECT count(*) FROM {table}"
            if copy.value(sql) != renewal.store.database.value(sql):
                raise StoreDamaged(file=renewal.old_database, reason=f"not every row of its table {table} is copied")
    finally:
        copy.close()


def _note_beginning(renewal: Renewal) -> None:
    """Write the key file that knows how the new database begins; one that is nothing but the key stays as it is."""
    there = read_file(renewal.store.key_file)
    known = there.find_key(renewal.store.key.master) if there else None
    if there is not None and known is not None:
        with renewal.database.open("rb") as handle:
            known = known.with_salt(handle.read(16).hex())
        write_private(renewal.key_file, render(known, there.slots))
