"""A store's database under another key: a copy of it, in which the audit log is sealed for that key as well.

The copy is made page by page by SQLite itself, so that every row, index and number stays what it is. Rows of the audit
log change nothing but their seals; a log that was not right before is found not right, at the same row, afterwards.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import StoreDamaged
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store.audit import Audit, AuditCheck
from mailbox_appliance.store.database import Database, give_key
from mailbox_appliance.store.files import remove_database
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.long_work import tell_nobody
from mailbox_appliance.store.schema import TRIGGERS
from mailbox_appliance.system.files import sync_file

_PAGES = 2000  # that are copied in a step: some 10 ms
_STAY = "audit_events_stay"  # the trigger that lets nobody change a row of the log


@dataclass(frozen=True)
class Reencrypted:
    """What was made: the key as its file should have it, which knows how the new database begins; and what looking
    through the audit log found on the way. None: its seals were good for the new key already.
    """

    key: StoreKey
    audit: AuditCheck | None


def reencrypt(
    source: Path, old: StoreKey, target: Path, new: StoreKey, progress: Progress | None = None
) -> Reencrypted:
    """Copy the database `source`, of this format, to a new file `target` that opens with another key.

    `target` is complete, checked and on the disk when this returns; where this raises there is none. Nobody may write
    `source` meanwhile. Raises StoreDamaged where a page cannot be read, apsw.Error (a full disk, say), and OSError.
    """
    tell = progress or tell_nobody
    try:
        _copy(source, old, target, new, tell)
        audit = None
        if old.derive("audit") != new.derive("audit"):
            audit = _reseal(target, old, new, tell)
        require_whole(source, target, new)
        sync_file(target)
    except BaseException:
        remove_database(target)
        raise
    with target.open("rb") as handle:
        return Reencrypted(new.with_salt(handle.read(16).hex()), audit)


def _copy(source: Path, old: StoreKey, target: Path, new: StoreKey, tell: Progress) -> None:
    remove_database(target)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(apsw.Connection(str(source))) as read, closing(apsw.Connection(str(target))) as written:
        give_key(read, old.cipher, old.derive("database"))
        give_key(written, new.cipher, new.derive("database"))
        written.pragma("synchronous", "off")  # on the disk at the end, all at once
        # Without a transaction of its own a copy begins anew whenever somebody commits.
        read.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            with written.backup("main", read, "main") as backup:
                while not backup.done:
                    backup.step(_PAGES)
                    tell("encrypting the store anew", backup.page_count - backup.remaining, backup.page_count)
        except apsw.CorruptError as error:
            raise StoreDamaged(file=source, reason="a page of it cannot be read") from error
        read.execute("ROLLBACK")


def _reseal(target: Path, old: StoreKey, new: StoreKey, tell: Progress) -> AuditCheck:
    database = Database(target, new.cipher, new.derive("database"))
    try:
        with database.transaction():
            database.change(f"DROP TRIGGER IF EXISTS {_STAY}")
        check = Audit(database, old.derive("audit"), SystemClock()).rechain(
            new.derive("audit"), lambda done, count: tell("sealing the audit log anew", done, count)
        )
        with database.transaction():
            database.change(TRIGGERS[_STAY])
    finally:
        database.close()
    return check


def require_whole(source: Path, target: Path, new: StoreKey) -> None:
    """Read the whole of a copy once, as it lies there. Raises StoreDamaged, of its source."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(f"{target.absolute().as_uri()}?immutable=1", flags=flags)) as connection:
        give_key(connection, new.cipher, new.derive("database"))
        try:
            found = connection.pragma("quick_check", 1)
        except apsw.CorruptError as error:
            found = str(error)
        if found != "ok":
            raise StoreDamaged(file=source, reason=f"a copy of it does not pass SQLite's check ({found})")
