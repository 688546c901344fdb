"""Rewriting the database of a closed store: compacting it, and encrypting it under another key.

The new files are made in a folder of their own while the old ones stay as they are. One rename puts database and key
file in place together (restore/swap.py). Whatever stops it before that leaves the old store; after it, the next start
finishes.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyMissing, KeyUnusable, StoreDamaged, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.audit import Actor, Audit, AuditCheck
from mailbox_appliance.store.database import Database, failures_as_unusable, set_cipher_key
from mailbox_appliance.store.exclusive_job import ignore_progress
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, open_private, remove_database, write_private
from mailbox_appliance.store.key import (
    StoreKey,
    new_key,
    read_key_file,
    render_key_file,
    require_no_credential,
    rewrap_slots,
)
from mailbox_appliance.store.open_file import DirectoryLock
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.schema import TABLES, TRIGGERS
from mailbox_appliance.store.store import Store
from mailbox_appliance.system.files import sync_file

if TYPE_CHECKING:
    from mailbox_appliance.store.upgrade.upgrade import UpgradeResult

# --- Replacing the database and the key file of a store that nobody uses ---


@dataclass(frozen=True)
class StoreRewrite:
    """The open store, and where the files that take the place of its own are to be made."""

    store: Store
    database: Path
    key_file: Path

    @property
    def old_database(self) -> Path:
        """The database that is there."""
        return self.store.folder / DATABASE_FILE


@contextmanager
def rewrite_store(
    folder: Path, key_file: Path, *, passphrase: str | None, progress: Progress | None = None
) -> Iterator[StoreRewrite]:
    """Let the block make new files, and put them in place when it ends well; where it raises, nothing has changed.

    Raises StoreInUse, NotEnoughRoom, and StoreUnusable for a store that cannot be opened or a disk that fails.
    """
    with failures_as_unusable(folder, then="Nothing was changed."):
        lock = DirectoryLock(folder)
        try:
            store = Store.open_locked(folder, lock, SystemClock(), key_file, passphrase=passphrase, progress=progress)
            try:
                making = swap.begin(folder)
                yield StoreRewrite(store, making / DATABASE_FILE, making / KEY_FILE)
            except BaseException:
                store.close_files()
                swap.discard(folder)
                raise
            store.close_files()
            _put_in_place(folder, key_file)
        finally:
            lock.release()


def require_writable(key_file: Path) -> None:
    """Raise KeyUnusable where a key file cannot be replaced, or is a systemd credential; tried on the disk."""
    require_no_credential(key_file, os.environ)
    real = key_file.resolve()
    probe = real.with_name(f".{real.name}.new")  # the name under which it would be written
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        probe.unlink()
    except OSError as error:
        reason = (
            f"{key_file} must be rewritten, but cannot be ({error.strerror}). Move it to a writable place and set"
            " MAILBOX_APPLIANCE_KEY_FILE to its path. Nothing was changed."
        )
        raise KeyUnusable(reason=reason) from error


def _put_in_place(folder: Path, key_file: Path) -> None:
    try:
        swap.commit(folder, key_file)
        swap.finish(folder, key_file)
    except OSError as error:
        if not swap.is_committed(folder):
            swap.discard(folder)
            raise
        reason = (
            f"its new files are complete but could not be put in place ({error.filename or folder}: {error.strerror})."
            " Fix the cause; the next start then completes the change."
        )
        raise StoreUnusable(reason=reason) from error


# --- Compacting ---


_COMPACT_STEPS_BETWEEN_REPORTS = 20_000
_COMPACT_STEPS_A_PAGE = 150  # that writing a page takes, roughly
# What is found by words has no rows of its own that could be counted.
_COUNTED_TABLES = tuple(table for table in TABLES if table not in ("message_index", "message_words"))


@dataclass(frozen=True)
class CompactResult:
    """How much the database took, and takes, in bytes. `upgraded`: where it had to be, first."""

    bytes_before: int
    bytes_after: int
    upgraded: "UpgradeResult | None"


def compact_closed_store(
    folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None
) -> CompactResult:
    """Compact the store of a data directory that nobody uses; whatever stops it leaves the old one or the new one.

    Raises StoreInUse, NotEnoughRoom, StoreDamaged, StoreUnusable, KeyUnusable where the key file cannot be written.
    """
    tell: Progress = progress or (lambda _what, _done, _total: None)
    with rewrite_store(folder, key_file, passphrase=passphrase, progress=progress) as rewrite:
        if read_key_file(key_file) is not None:
            require_writable(key_file)
        files.require_room(folder, files.room_for_copy(rewrite.old_database))
        before = files.database_size(rewrite.old_database)
        _write_compacted(rewrite, tell)
        tell("checking the new database", 0, 0)
        require_sound_copy(rewrite.old_database, rewrite.database, rewrite.store.key)
        _require_same_counts(rewrite)
        _write_new_key_file(rewrite)
        after = files.database_size(rewrite.database)
    return CompactResult(before, after, rewrite.store.upgraded)


def _write_compacted(rewrite: StoreRewrite, tell: Progress) -> None:
    database, done = rewrite.store.database, 0
    expected = int(database.value("PRAGMA page_count")) * _COMPACT_STEPS_A_PAGE

    def look() -> None:
        nonlocal done
        done += _COMPACT_STEPS_BETWEEN_REPORTS
        tell("writing the compacted database", min(done, expected), expected)

    os.close(open_private(rewrite.database))  # SQLite writes into an empty file, and would make it as the umask says
    with database.progress_handler(_COMPACT_STEPS_BETWEEN_REPORTS, look):
        try:
            # A plain path: the copy gets this connection's key, which is written out nowhere.
            database.rows("VACUUM INTO ?", (str(rewrite.database),))
        except apsw.CorruptError as error:
            raise StoreDamaged(file=rewrite.old_database, reason="one of its pages cannot be read") from error


def _require_same_counts(rewrite: StoreRewrite) -> None:
    key = rewrite.store.key
    copy = Database(rewrite.database, key.cipher, key.derive("database"))
    try:
        for table in _COUNTED_TABLES:
            sql = f"SELECT count(*) FROM {table}"
            if copy.value(sql) != rewrite.store.database.value(sql):
                raise StoreDamaged(file=rewrite.old_database, reason=f"not every row of its table {table} was copied")
    finally:
        copy.close()


def _write_new_key_file(rewrite: StoreRewrite) -> None:
    """Write the key file that knows how the new database begins; one that is nothing but the key stays as it is."""
    there = read_key_file(rewrite.store.key_file)
    known = there.find_key(rewrite.store.key.master) if there else None
    if there is not None and known is not None:
        with rewrite.database.open("rb") as handle:
            known = known.with_salt(handle.read(16).hex())
        write_private(rewrite.key_file, render_key_file(known, there.slots))


# --- A new master key: the database encrypted under it, and a key file with the same slots around it ---
#
# The old key still opens backups that were made before, and copies of the old files.


@dataclass(frozen=True)
class RekeyResult:
    """How many rows the audit log has, and the first that was not right before: it is found so afterwards too.
    `upgraded`: where the store had to be, first.
    """

    audit: AuditCheck
    upgraded: "UpgradeResult | None"


def rekey_closed_store(
    folder: Path, key_file: Path, *, passphrase: str | None = None, progress: Progress | None = None
) -> RekeyResult:
    """Give the store of a data directory that nobody uses a new master key; whatever stops it leaves the old or the
    new one.

    `passphrase` opens the passphrase slot, where there is one, and opens the new one. Raises StoreInUse, KeyUnusable
    (PassphraseNeeded, PassphraseWrong and KeychainLocked among them), NotEnoughRoom, StoreDamaged, StoreUnusable.
    """
    require_writable(key_file)
    with rewrite_store(folder, key_file, passphrase=passphrase, progress=progress) as rewrite:
        there = read_key_file(key_file)
        if there is None:  # it was one line, and opening has rewritten it where it could
            raise KeyMissing(store=rewrite.old_database, file=key_file)
        old = replace(rewrite.store.key, store_id=there.store_id)
        new = replace(old, master=new_key().master)
        slots = rewrap_slots(there.slots, old, new, passphrase, file=key_file)
        files.require_room(folder, files.room_for_copy(rewrite.old_database))
        made = reencrypt_database(rewrite.old_database, old, rewrite.database, new, progress)
        _record_rekey(rewrite, made.key)
        write_private(rewrite.key_file, render_key_file(made.key, slots))
    assert made.audit is not None  # noqa: S101 - the keys differ
    return RekeyResult(made.audit, rewrite.store.upgraded)


def _record_rekey(rewrite: StoreRewrite, key: StoreKey) -> None:
    """Write into the new log, which alone it concerns, that it was begun under another key."""
    database = Database(rewrite.database, key.cipher, key.derive("database"))
    try:
        Audit(database, key.derive("audit"), SystemClock()).record(Actor("local"), "key.replace", ("key", key.store_id))
    finally:
        database.close()


# --- Encrypting a database under another key: a copy, with the audit log sealed for that key ---
#
# SQLite itself copies page by page, so that every row, index and number stays what it is. Of the audit log only the
# seals change; a log that was broken before is found broken at the same row afterwards.


_PAGES_AT_ONCE = 2000  # that are copied in a step: some 10 ms
_LOG_TRIGGER = "audit_events_stay"  # the trigger that lets nobody change a row of the log


@dataclass(frozen=True)
class ReencryptResult:
    """What was made: the key as its file should have it, which knows how the new database begins; and what looking
    through the audit log found on the way. None: its seals were good for the new key already.
    """

    key: StoreKey
    audit: AuditCheck | None


def reencrypt_database(
    source: Path, old: StoreKey, target: Path, new: StoreKey, progress: Progress | None = None
) -> ReencryptResult:
    """Copy the database `source`, of this format, to a new file `target` that opens with another key.

    `target` is complete, checked and on the disk when this returns; where this raises there is none. Nobody may write
    `source` meanwhile. Raises StoreDamaged where a page cannot be read, apsw.Error (a full disk, say), and OSError.
    """
    tell = progress or ignore_progress
    try:
        _copy_encrypted(source, old, target, new, tell)
        audit = None
        if old.derive("audit") != new.derive("audit"):
            audit = _rechain_log(target, old, new, tell)
        require_sound_copy(source, target, new)
        sync_file(target)
    except BaseException:
        remove_database(target)
        raise
    with target.open("rb") as handle:
        return ReencryptResult(new.with_salt(handle.read(16).hex()), audit)


def _copy_encrypted(source: Path, old: StoreKey, target: Path, new: StoreKey, tell: Progress) -> None:
    remove_database(target)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(apsw.Connection(str(source))) as read, closing(apsw.Connection(str(target))) as written:
        set_cipher_key(read, old.cipher, old.derive("database"))
        set_cipher_key(written, new.cipher, new.derive("database"))
        written.pragma("synchronous", "off")  # on the disk at the end, all at once
        # Without a transaction of its own a copy begins anew whenever somebody commits.
        read.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            with written.backup("main", read, "main") as backup:
                while not backup.done:
                    backup.step(_PAGES_AT_ONCE)
                    tell("re-encrypting the store", backup.page_count - backup.remaining, backup.page_count)
        except apsw.CorruptError as error:
            raise StoreDamaged(file=source, reason="one of its pages cannot be read") from error
        read.execute("ROLLBACK")


def _rechain_log(target: Path, old: StoreKey, new: StoreKey, tell: Progress) -> AuditCheck:
    database = Database(target, new.cipher, new.derive("database"))
    try:
        with database.transaction():
            database.change(f"DROP TRIGGER IF EXISTS {_LOG_TRIGGER}")
        check = Audit(database, old.derive("audit"), SystemClock()).rechain(
            new.derive("audit"), lambda done, count: tell("resealing the audit log", done, count)
        )
        with database.transaction():
            database.change(TRIGGERS[_LOG_TRIGGER])
    finally:
        database.close()
    return check


def require_sound_copy(source: Path, target: Path, new: StoreKey) -> None:
    """Read the whole of a copy once, as it lies there. Raises StoreDamaged, of its source."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(f"{target.absolute().as_uri()}?immutable=1", flags=flags)) as connection:
        set_cipher_key(connection, new.cipher, new.derive("database"))
        try:
            found = connection.pragma("quick_check", 1)
        except apsw.CorruptError as error:
            found = str(error)
        if found != "ok":
            raise StoreDamaged(file=source, reason=f"a copy of it does not pass SQLite's check ({found})")
