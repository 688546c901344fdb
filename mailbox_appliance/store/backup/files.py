"""Writing backups into the folder `backups/`, and copying an open database for a backup.

backups/20260131T020000Z-daily.mbxbackup        a backup, verified when it was made
backups/.making-...                             being made, or left by a crash; removed by the next start
"""

import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import BackupNotMade, NotEnoughRoom
from mailbox_appliance.model.backups import BackupReason, Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.backup.container import (
    AuditEnd,
    BackupFacts,
    Manifest,
    SectionSource,
    open_container,
    write_container,
)
from mailbox_appliance.store.database import BUSY_SECONDS, Database, set_cipher_key
from mailbox_appliance.store.key import Slot, StoreKey
from mailbox_appliance.store.open_file import open_immutable, wal_path
from mailbox_appliance.system.files import BINARY, read_at, replace_file, sync_folder, write_at

BACKUPS_FOLDER, BACKUP_SUFFIX, HIDDEN_PREFIX = "backups", ".mbxbackup", ".making-"
#: Reserve that stays free beyond the size of a backup.
SPARE_ROOM = 16 * files.MIB
_DISK_FULL_NUMBERS = (errno.ENOSPC, errno.EDQUOT)


class StagedBackup:
    """A complete, verified backup under a hidden name, until `publish` gives it its final name."""

    def __init__(
        self, hidden: Path, folder: Path, named_for: datetime, manifest: Manifest, seconds: dict[str, float]
    ) -> None:
        self.manifest = manifest
        #: Durations of the steps `encrypt` and `verify`.
        self.seconds = seconds
        self._hidden, self._folder, self._named_for = hidden, folder, named_for

    def publish(self) -> Path:
        """Rename the backup to its final name, sync that to the disk, and return the path."""
        target = _free_path(self._folder, self._named_for, self.manifest.reason)
        replace_file(self._hidden, target)
        sync_folder(self._folder)
        return target


@contextmanager
def stage_backup(
    folder: Path,
    reason: BackupReason,
    sources: Sequence[SectionSource],
    key: StoreKey,
    slots: Sequence[Slot],
    format: int,  # noqa: A002 - as in the manifest
    clock: Clock,
    progress: Progress | None = None,
    *,
    passphrase: str | None = None,
    audit: AuditEnd | None = None,
) -> Iterator[StagedBackup]:
    """Yield a new backup under a hidden name, already verified by reading it back.

    When the block ends, the backup is deleted, unless the block has called its method `publish`. `folder`: the data
    directory. `sources`: the files to back up. `key`, `slots`: the store's key and the ways to unlock it. `format`: of
    the store. `audit`: the end of its audit log. Raises NotEnoughRoom and BackupNotMade.
    """
    backups, now = make_backups_folder(folder), clock.now()
    with failures_as_backup_errors(backups):
        files.require_room(backups, sum(_source_size(source) for source in sources) + SPARE_ROOM)
    hidden = new_hidden_path(backups)
    try:
        with failures_as_backup_errors(backups):
            facts = BackupFacts(reason, to_timestamp(now), format, audit)
            began = time.perf_counter()
            manifest = write_container(hidden, facts, sources, key, slots, passphrase=passphrase, progress=progress)
            written = time.perf_counter()
            open_container(hidden, passphrase=passphrase, key=key).check(progress)
            seconds = {"encrypt": written - began, "verify": time.perf_counter() - written}
        yield StagedBackup(hidden, backups, now, manifest, seconds)
    finally:
        hidden.unlink(missing_ok=True)


def make_backups_folder(folder: Path) -> Path:
    """Return the folder for the backups of a data directory, created if missing. Raises BackupNotMade."""
    backups = folder / BACKUPS_FOLDER
    with failures_as_backup_errors(backups):
        if not backups.is_dir():
            backups.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder)  # Otherwise a power failure may lose all of them with the folder.
    return backups


@contextmanager
def failures_as_backup_errors(backups: Path) -> Iterator[None]:
    """Context manager: raise NotEnoughRoom or BackupNotMade instead of an error of the disk or of SQLite."""
    try:
        yield
    except (OSError, apsw.Error) as error:
        if is_disk_full(error):
            raise not_enough_room(backups) from error
        if isinstance(error, OSError):
            raise BackupNotMade(reason=f"{error.filename or backups}: {error.strerror}.") from error
        raise BackupNotMade(reason=f"the database cannot be copied ({error}).") from error


def is_disk_full(error: Exception) -> bool:
    """Whether an error means that the disk is full."""
    return isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in _DISK_FULL_NUMBERS)


def not_enough_room(folder: Path) -> NotEnoughRoom:
    """Return the error to raise for a full disk, with the space that is free on the disk of `folder`."""
    return NotEnoughRoom(needed="more", folder=folder, free=f"only {files.format_size(files.free_bytes(folder))}")


def remove_unfinished_backups(folder: Path) -> None:
    """Remove incomplete backups that an interrupted run left. The caller must hold the lock of the data directory.

    A file that cannot be removed is left without an error, so that the store can still be opened.
    """
    for left in (folder / BACKUPS_FOLDER).glob(f"{HIDDEN_PREFIX}*"):
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def new_hidden_path(backups: Path) -> Path:
    """Return an unused path in the folder `backups` with a hidden name; backups under such names are never listed."""
    return backups / f"{HIDDEN_PREFIX}{secrets.token_hex(8)}"


def _free_path(folder: Path, moment: datetime, reason: BackupReason) -> Path:
    while True:
        file = folder / f"{moment:%Y%m%dT%H%M%SZ}-{reason}{BACKUP_SUFFIX}"
        if not os.path.lexists(file):
            return file
        moment += timedelta(seconds=1)


def _source_size(source: SectionSource) -> int:
    return len(source.content) if isinstance(source.content, bytes) else source.content.stat().st_size


# --- Copying the database of an open store at one moment, while others read and write ---
#
#     write, BEGIN, read     This makes a reader of the log only. From now on SQLite checkpoints no later page into the
#                            file, and does not reset the log during the copy, which would mix old and new pages.
#     copy the file          A page of it may be half checkpointed; then the log has the whole page.
#     copy the log           Up to wherever writers have come. An incomplete end is not a commit (its checksums).
#     checkpoint the copied log into the copied file
#
# The copy is what a power failure would leave, so SQLite itself recovers it (sqlite.org/walformat.html 4). The bytes
# stay encrypted; the backup API would decrypt and encrypt every page, and takes four times as long. Writers are not
# delayed, but the log of the store grows until the copy is complete.


_LOG_HEADER_SIZE = 32  # Its salts change when the log is reset (sqlite.org/fileformat2.html 4.1).
# Changes nothing in the end. Writing the same value at once would not write a page.
_EMPTY_WRITE = """
BEGIN IMMEDIATE;
UPDATE meta SET value = value || '.' WHERE name = 'created_at';
UPDATE meta SET value = substr(value, 1, length(value) - 1) WHERE name = 'created_at';
COMMIT"""
COPYING, CHECKING = "copying", "checking"
# The system copies this much at once: each return to Python waits for its turn while the appliance serves requests.
_LARGE_PIECE = 16 << 20
# Used if the system cannot do that. This size fits the cache of a core; four times the size takes three times as long.
_PIECE, _COPY_UNSUPPORTED = 1 << 18, (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
# Virtual machine steps of SQLite between two calls of a progress handler, which may end the statement.
_STEPS_BETWEEN_REPORTS = 2_000_000
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 UNION ALL SELECT 'sqlite_schema'"


class OnlineCopier:
    """Copies the database of a store while this process has it open.

    The file stays open from the first copy until `close`. Closing it before SQLite's last connection would release
    SQLite's locks on it (sqlite.org/howtocorrupt.html 2.2).
    """

    def __init__(self, source: Path, key: StoreKey, database: Database) -> None:
        self._source, self._key, self._database = source, key, database
        self._guard = threading.Lock()
        self._file: int | None = None

    def copy(self, target: Path, progress: Progress | None = None) -> None:
        """Copy the database to the new file `target`, with all that was committed; no write-ahead log is left beside
        it.

        The copy is complete, but not yet synced to the disk. Raises BackupNotMade, apsw.Error and OSError.
        """
        with self._hold_log():
            log = os.open(wal_path(self._source), os.O_RDONLY | BINARY)
            try:
                began_with = read_at(log, _LOG_HEADER_SIZE, 0)
                _copy_file(self._open_source(), target, progress)
                _copy_file(log, wal_path(target))
                if read_at(log, _LOG_HEADER_SIZE, 0) != began_with:
                    raise BackupNotMade(reason="the write-ahead log of the store was reset during the copy. Try again.")
            finally:
                os.close(log)
        checkpoint_copy(target, self._key)

    @contextmanager
    def _hold_log(self) -> Iterator[None]:
        """Context manager: until the block ends, keep SQLite from resetting the store's write-ahead log.

        So later writes are appended to the log. SQLite keeps a log while a reader needs a page that is only in the log.
        Therefore this writes a page while no other connection writes, and then remains a reader of that page.
        """
        with _connect(str(self._source), self._key, apsw.SQLITE_OPEN_READWRITE) as held:
            held.wal_autocheckpoint(0)
            held.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            with self._database.block_writers():
                held.execute(_EMPTY_WRITE)
                held.execute("BEGIN")
                held.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            yield

    def close(self) -> None:
        """Close the database file, after SQLite's last connection was closed. No copy can be made afterwards."""
        with self._guard:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open_source(self) -> int:
        with self._guard:
            if self._file is None:
                self._file = os.open(self._source, os.O_RDONLY | BINARY)
            return self._file


def check_copy(copy: Path, key: StoreKey, progress: Progress | None = None) -> AuditEnd:
    """Check every page of a copied database, and return the end of its audit log. Raises BackupNotMade, apsw.Error.

    The tables are checked one by one. A check of the whole database would also compare the search index with itself,
    which takes five times as long and finds no further damaged page.
    """
    with open_immutable(copy, key) as connection:
        tables = [row[0] for row in connection.execute(_TABLES)]
        for done, table in enumerate(tables):
            if progress is not None:
                progress(CHECKING, done, len(tables))
                connection.set_progress_handler(_progress_handler(progress, done, len(tables)), _STEPS_BETWEEN_REPORTS)
            if (found := connection.pragma("quick_check", table)) != "ok":
                raise BackupNotMade(reason=f"the store is damaged ({found}). Run `mailbox-appliance store check`.")
        return read_audit_end(connection)


def _progress_handler(progress: Progress, done: int, total: int) -> Callable[[], bool]:
    def tell() -> bool:
        progress(CHECKING, done, total)
        return False

    return tell


def read_audit_end(connection: apsw.Connection) -> AuditEnd:
    """Return the end of the audit log of a store of format 5; 0 rows if the store does not record it."""
    found: dict[str, str] = dict(connection.execute("SELECT name, value FROM meta WHERE name LIKE 'audit_%'"))
    count = found.get("audit_count", "")
    return AuditEnd(int(count) if count.isdecimal() else 0, found.get("audit_head", ""))


def _copy_file(source: int, target: Path, progress: Progress | None = None) -> None:
    """Copy an open file to the new file `target`, without moving the shared read position of `source`."""
    done, total = 0, os.fstat(source).st_size
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as out:
        while length := _copy_piece(source, out.fileno(), done):
            done += length
            if progress is not None:
                progress(COPYING, done, max(done, total))


def _copy_piece(source: int, target: int, offset: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, _LARGE_PIECE, offset, offset)
        except OSError as error:
            if error.errno not in _COPY_UNSUPPORTED:
                raise
    return write_at(target, read_at(source, _PIECE, offset), offset)


def checkpoint_copy(copy: Path, key: StoreKey) -> None:
    """Write the write-ahead log beside a copied database into it, and remove the log."""
    log = wal_path(copy)
    if log.stat().st_size:
        with _connect(str(copy), key, apsw.SQLITE_OPEN_READWRITE) as connection:
            connection.pragma("synchronous", "off")  # Nothing that a crash leaves of it is used.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    log.unlink(missing_ok=True)


@contextmanager
def _connect(name: str, key: StoreKey, flags: int) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(name, flags=flags)
    try:
        connection.set_busy_timeout(BUSY_SECONDS * 1000)
        set_cipher_key(connection, key.cipher, key.derive("database"))
        yield connection
    finally:
        connection.close(True)
