"""A copy of the database of an open store, as it is at one moment, while others go on reading and writing.

    write, BEGIN, read     a reader of what stands in the log only: from now on nothing that we have not seen is folded
                           into the file, and the log does not begin anew while we copy it, which would mix old and new
    copy the file          a page of it may be half folded in: then the log has the whole of it
    copy the log           up to wherever others have come; what is cut off at its end is no commit (its checksums)
    fold the copied log into the copied file

It is what a power cut would leave, so SQLite itself puts it in order (sqlite.org/walformat.html 4). The bytes stay
sealed as they are; the backup API would open and seal every page, and takes four times as long. Writers notice nothing,
but the log of the store grows until the copy is done.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from mailbox_appliance.errors import BackupNotMade
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store.database import BUSY_SECONDS, Database, give_key
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.manifest import AuditEnd
from mailbox_appliance.store.opening import log_of
from mailbox_appliance.system.files import BINARY, read_at, write_at

_LOG_HEADER = 32  # its salts change when it begins anew (sqlite.org/fileformat2.html 4.1)
# Changes nothing, but SQLite does not see that: a value that is written as it was would not be written at all.
_WRITE = """
BEGIN IMMEDIATE;
UPDATE meta SET value = value || '.' WHERE name = 'created_at';
UPDATE meta SET value = substr(value, 1, length(value) - 1) WHERE name = 'created_at';
COMMIT"""
COPYING, CHECKING = "copying", "checking"
# By the system itself, without a turn of Python for every piece of it: who serves takes a while to give one.
_LARGE_PIECE = 16 << 20
# Where it does not do that; this much fits the cache of a core, and four times as much takes three times as long.
_PIECE, _CANNOT = 1 << 18, (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
# A statement that takes long is asked after so many steps of SQLite's machine whether to go on.
_ASKED_AFTER = 2_000_000
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 UNION ALL SELECT 'sqlite_schema'"


class OnlineCopier:
    """Copies the database of a store that this process has open.

    The file is kept open from the first copy until `close`, after SQLite's last connection: to close it earlier would
    end the locks that SQLite has on it (sqlite.org/howtocorrupt.html 2.2).
    """

    def __init__(self, source: Path, key: StoreKey, database: Database) -> None:
        self._source, self._key, self._database = source, key, database
        self._guard = threading.Lock()
        self._file: int | None = None

    def copy(self, target: Path, progress: Progress | None = None) -> None:
        """Copy it to a file that is not there yet; when this returns nothing lies beside that.

        It is not on the disk then, but can be read. Raises apsw.Error and OSError.
        """
        with self._hold_log():
            log = os.open(log_of(self._source), os.O_RDONLY | BINARY)
            try:
                began_with = read_at(log, _LOG_HEADER, 0)
                _copy(self._open_source(), target, progress)
                _copy(log, log_of(target))
                if read_at(log, _LOG_HEADER, 0) != began_with:
                    raise BackupNotMade(reason="the log of the store began anew while it was copied: try again.")
            finally:
                os.close(log)
        fold_in(target, self._key)

    @contextmanager
    def _hold_log(self) -> Iterator[None]:
        """The log of the store is not begun anew meanwhile, and what is written from now on stays in it.

        SQLite spares the log for a reader of something that stands in nothing but the log; so there has to be
        something: what this connection writes, while nobody else does, and does not fold in.
        """
        with _connected(str(self._source), self._key, apsw.SQLITE_OPEN_READWRITE) as held:
            held.wal_autocheckpoint(0)
            held.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            with self._database.block_writers():
                held.execute(_WRITE)
                held.execute("BEGIN")
                held.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            yield

    def close(self) -> None:
        """Let go of the file. Nothing is copied any more."""
        with self._guard:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open_source(self) -> int:
        with self._guard:
            if self._file is None:
                self._file = os.open(self._source, os.O_RDONLY | BINARY)
            return self._file


def look_over(copy: Path, key: StoreKey, progress: Progress | None = None) -> AuditEnd:
    """See that every page of a copy can be read and is in its place; answers where its audit log ends.

    The tables one by one: of all together, the search index would be compared with itself, which takes five times as
    long, and finds no page that was not found before. Raises BackupNotMade, and apsw.Error.
    """
    with opened_as_is(copy, key) as connection:
        tables = [row[0] for row in connection.execute(_TABLES)]
        for done, table in enumerate(tables):
            if progress is not None:
                progress(CHECKING, done, len(tables))
                connection.set_progress_handler(_going_on(progress, done, len(tables)), _ASKED_AFTER)
            if (found := connection.pragma("quick_check", table)) != "ok":
                raise BackupNotMade(reason=f"the store is damaged ({found}): run `mailbox-appliance store check`.")
        return audit_end(connection)


def _going_on(progress: Progress, done: int, total: int) -> Callable[[], bool]:
    """What is raised by who is told of the progress ends the statement."""

    def tell() -> bool:
        progress(CHECKING, done, total)
        return False

    return tell


def audit_end(connection: apsw.Connection) -> AuditEnd:
    """Where the audit log of a store of format 5 ends."""
    found: dict[str, str] = dict(connection.execute("SELECT name, value FROM meta WHERE name LIKE 'audit_%'"))
    count = found.get("audit_count", "")
    return AuditEnd(int(count) if count.isdecimal() else 0, found.get("audit_head", ""))


@contextmanager
def opened_as_is(file: Path, key: StoreKey) -> Iterator[apsw.Connection]:
    """A database that nobody else has open and that has no log: nothing is made beside it, nothing in it changes."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with _connected(f"{file.absolute().as_uri()}?immutable=1", key, flags) as connection:
        yield connection


def _copy(source: int, target: Path, progress: Progress | None = None) -> None:
    """By position, since others may copy from the same open file."""
    done, total = 0, os.fstat(source).st_size
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as out:
        while length := _copy_piece(source, out.fileno(), done):
            done += length
            if progress is not None:
                progress(COPYING, done, max(done, total))


def _copy_piece(source: int, target: int, offset: int) -> int:
    """Copy what comes next; answers how much, 0 at the end."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, _LARGE_PIECE, offset, offset)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
    return write_at(target, read_at(source, _PIECE, offset), offset)


def fold_in(copy: Path, key: StoreKey) -> None:
    """Fold the log that lies beside a copy into it; nothing lies beside it then."""
    log = log_of(copy)
    if log.stat().st_size:
        with _connected(str(copy), key, apsw.SQLITE_OPEN_READWRITE) as connection:
            connection.pragma("synchronous", "off")  # of what a crash leaves of it, nothing is used
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    log.unlink(missing_ok=True)


@contextmanager
def _connected(name: str, key: StoreKey, flags: int) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(name, flags=flags)
    try:
        connection.set_busy_timeout(BUSY_SECONDS * 1000)
        give_key(connection, key.cipher, key.derive("database"))
        yield connection
    finally:
        connection.close(True)
