"""Verifying a backup: every byte, every page of its database, and the counts of its content.

A database of the current format is unpacked for this, and stays encrypted on the disk. One of an older format is
unencrypted, so SQLite reads it inside the backup, and nothing of it reaches the disk.

A backup with the reason `pre-restore` contains the files that a restore replaced, damaged or not. If its database does
not open, that does not mean that the backup is damaged.
"""

import secrets
import shutil
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from mailbox_appliance.errors import BackupAltered, Problem, ReplacedUnopened
from mailbox_appliance.model.backups import BackupSummary, Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.backup.container import CHUNK_SIZE, Container, SectionName
from mailbox_appliance.store.backup.files import checkpoint_copy, new_hidden_path, read_audit_end
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.open_file import open_immutable, wal_path
from mailbox_appliance.store.schema import TABLE_NAMES, find_missing_table

# ruff: noqa: N802, ARG002 - the names and arguments are SQLite's (sqlite.org/c3ref/io_methods.html)

# --- A virtual file system with which SQLite reads an unencrypted database inside a backup ---
#
# SQLite asks for pages; each is read from the encrypted chunk that contains it, and the last few chunks are cached. It
# is read-only, and the sections of the one backup are its only files.


_CHUNKS_KEPT = 32  # chunks of 1 MiB
_DATABASE_SECTIONS: dict[str, SectionName] = {"/mailbox.db": "mailbox.db", "/mailbox.db-wal": "mailbox.db-wal"}


@contextmanager
def open_database_in(container: Container) -> Iterator[apsw.Connection]:
    """Yield a connection to the plain database inside a backup. Reading can raise apsw.Error and BackupAltered."""
    vfs = _BackupVfs(f"backup-{secrets.token_hex(8)}", container)
    connection = None
    try:
        connection = apsw.Connection("/mailbox.db", flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs.name)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Otherwise SQLite wants memory shared with other processes, which this file system does not offer.
        connection.pragma("locking_mode", "exclusive")
        yield connection
    finally:
        if connection is not None:
            connection.close(True)
        vfs.unregister()


class _BackupVfs(apsw.VFS):
    def __init__(self, name: str, container: Container) -> None:
        super().__init__(name, base="unix")
        self.name = name
        self._container = container
        self._chunks: OrderedDict[tuple[SectionName, int], bytes] = OrderedDict()

    def xOpen(self, name: object, flags: list[int]) -> "_SectionFile":  # type: ignore[override]
        section = _DATABASE_SECTIONS.get(name.filename() if isinstance(name, apsw.URIFilename) else str(name))
        if section is None:
            raise apsw.CantOpenError("a backup has no such file")
        flags[1] = apsw.SQLITE_OPEN_READONLY
        place = self._container.manifest.find_section(section)
        # A missing log counts as an empty one.
        return _SectionFile(self, section, 0 if place is None else place[1].size)

    def xAccess(self, pathname: str, flags: int) -> bool:
        section = _DATABASE_SECTIONS.get(pathname)
        return section is not None and self._container.manifest.find_section(section) is not None

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        raise apsw.ReadOnlyError("a backup is read-only")

    def read_chunk(self, section: SectionName, number: int) -> bytes:
        """Return chunk `number` (1 MiB) of a section, from a cache or the backup."""
        key = (section, number)
        if key not in self._chunks:
            self._chunks[key] = self._container.part(section, number * CHUNK_SIZE, CHUNK_SIZE)
            if len(self._chunks) > _CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(key)
        return self._chunks[key]


class _SectionFile:
    """A read beyond its end returns fewer bytes."""

    def __init__(self, vfs: _BackupVfs, section: SectionName, size: int) -> None:
        self._vfs, self._section, self._size = vfs, section, size

    def xRead(self, amount: int, offset: int) -> bytes:
        end, found = min(offset + amount, self._size), bytearray()
        while offset < end:
            inside = offset % CHUNK_SIZE
            found += self._vfs.read_chunk(self._section, offset // CHUNK_SIZE)[inside : inside + end - offset]
            offset += min(CHUNK_SIZE - inside, end - offset)
        return bytes(found)

    def xFileSize(self) -> int:
        return self._size

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xSync(self, flags: int) -> None: ...

    def xClose(self) -> None: ...

    def xWrite(self, data: bytes, offset: int) -> None:
        raise apsw.ReadOnlyError("a backup is read-only")

    def xTruncate(self, size: int) -> None:
        raise apsw.ReadOnlyError("a backup is read-only")


# --- Checking and counting ---


CHECKING = "checking"
# Virtual machine steps of SQLite between two calls of a progress handler, and the approximate number of steps for a
# page.
_STEPS_BETWEEN_REPORTS, _STEPS_A_PAGE = 500_000, 500
_COUNTS = """SELECT (SELECT count(*) FROM members), (SELECT count(*) FROM accounts WHERE status <> 'removed'),
  (SELECT count(*) FROM messages m JOIN accounts a ON a.number = m.account WHERE a.status <> 'removed')"""
_OLDER_COUNTS = "SELECT (SELECT count(*) FROM members), (SELECT count(*) FROM accounts), 0"


def is_pre_restore(container: Container) -> bool:
    """Whether a backup contains the files that a restore replaced. They were not checked when it was made."""
    return container.manifest.reason == "pre-restore"


def summarize_backup(container: Container, scratch: Path, progress: Progress | None = None) -> BackupSummary:
    """Verify a whole backup, and return a count of its content.

    `scratch`: the folder into which a database of the current format is unpacked until this returns. Raises
    BackupAltered, ReplacedUnopened for a damaged store that a restore replaced, NotEnoughRoom, apsw.FullError, OSError.
    """
    with _errors_as_damage(container):
        if container.manifest.format == format_5.NUMBER:
            return _to_summary(container, _count_current(container, scratch, progress))
        return _to_summary(container, _count_older(container, progress))


def summarize_unpacked(container: Container, database: Path, progress: Progress | None = None) -> BackupSummary:
    """Verify a database of the current format that was unpacked from a backup, and return a count of its content.

    A write-ahead log beside it is first written into it. Raises BackupAltered, ReplacedUnopened, apsw.FullError.
    """
    with _errors_as_damage(container):
        return _to_summary(container, _count_unpacked(container, database, progress))


@contextmanager
def _errors_as_damage(container: Container) -> Iterator[None]:
    try:
        yield
    except apsw.FullError:
        raise
    except apsw.Error as error:
        if not is_pre_restore(container) or not isinstance(error, apsw.NotADBError):
            raise _damage_problem(container, str(error)) from error
        what = "does not open with the key of the backup"
        raise ReplacedUnopened(file=container.file.name, what=what, reason=str(error)) from error


def _to_summary(container: Container, counts: tuple[int, int, int]) -> BackupSummary:
    manifest = container.manifest
    return BackupSummary(
        ok=True,
        created_at=manifest.created_at,
        format=manifest.format,
        version=manifest.version,
        members=counts[0],
        accounts=counts[1],
        messages=counts[2],
    )


def _count_current(container: Container, scratch: Path, progress: Progress | None) -> tuple[int, int, int]:
    files.require_room(scratch, container.manifest.content_size + 16 * files.MIB)
    folder = new_hidden_path(scratch)
    folder.mkdir(mode=0o700)
    try:
        database = folder / "mailbox.db"
        for section in container.manifest.sections:
            if section.name in ("mailbox.db", "mailbox.db-wal"):
                container.extract(section.name, folder / section.name, progress)
            else:
                deque(container.pieces(section.name), 0)
        return _count_unpacked(container, database, progress)
    finally:
        shutil.rmtree(folder)


def _count_unpacked(container: Container, database: Path, progress: Progress | None) -> tuple[int, int, int]:
    if wal_path(database).exists():
        checkpoint_copy(database, container.key)
    with open_immutable(database, container.key) as connection:
        _check_database(container, connection, progress)
        if missing := find_missing_table(row[0] for row in connection.execute(TABLE_NAMES)):
            raise _damage_problem(container, f"its table {missing} is missing")
        end = container.manifest.audit
        if end is not None and read_audit_end(connection) != end:
            raise _damage_problem(container, "the end of its audit log differs from the one in the manifest")
        return next(connection.execute(_COUNTS))


def _count_older(container: Container, progress: Progress | None) -> tuple[int, int, int]:
    container.check(progress)
    with open_database_in(container) as connection:
        _check_database(container, connection, progress)
        return next(connection.execute(_OLDER_COUNTS))


def _check_database(container: Container, connection: apsw.Connection, progress: Progress | None) -> None:
    connection.set_progress_handler(
        _progress_handler(progress, connection.pragma("page_count")), _STEPS_BETWEEN_REPORTS
    )
    number, application = connection.pragma("user_version"), connection.pragma("application_id")
    if (number, application) != (container.manifest.format, format_5.APPLICATION_ID):
        raise _damage_problem(container, "its format differs from the one in the manifest")
    # This includes virtual tables: the search index is compared with itself
    # (sqlite.org/pragma.html#pragma_integrity_check).
    if (found := connection.pragma("integrity_check", 1)) != "ok":
        raise _damage_problem(container, str(found))
    if broken := next(connection.execute("PRAGMA foreign_key_check"), None):
        raise _damage_problem(container, f"rows of its table {broken[0]} refer to missing rows")


def _progress_handler(progress: Progress | None, pages: int) -> Callable[[], bool]:
    steps = 0

    def tell() -> bool:
        nonlocal steps
        steps += _STEPS_BETWEEN_REPORTS
        if progress is not None:
            progress(CHECKING, min(steps // _STEPS_A_PAGE, pages), pages)
        return False

    return tell


def _damage_problem(container: Container, reason: str) -> Problem:
    if is_pre_restore(container):
        return ReplacedUnopened(file=container.file.name, what="is damaged", reason=reason)
    return BackupAltered(file=container.file.name, reason=f"the database in it is damaged ({reason})")
