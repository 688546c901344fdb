"""What lies in a backup, looked at as a whole: every byte, every page of its database, and how much is in it.

A database of this format is unpacked for it: it is encrypted where it lies then, too. One of an older format is plain,
so it is read inside the backup (store/sealed_vfs), and nothing of it reaches the disk.

What a restore replaced lies in its backup as it was, whether anything opened it or not: a database that does not open
there is no fault of the backup.
"""

import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path

import apsw

from mailbox_appliance.errors import BackupAltered, Problem, ReplacedUnopened
from mailbox_appliance.model.records import BackupSummary, Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.backup_files import hidden_name
from mailbox_appliance.store.container import Container
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.online_copy import audit_end, fold_in, opened_as_is
from mailbox_appliance.store.opening import log_of
from mailbox_appliance.store.schema import TABLE_NAMES, missing_table
from mailbox_appliance.store.sealed_vfs import opened_in

CHECKING = "checking"
# A statement that takes long is asked after so many steps of SQLite's machine whether to go on, and tells how far it
# is; a page takes some of them.
_EVERY, _STEPS_A_PAGE = 500_000, 500
_COUNTS = """SELECT (SELECT count(*) FROM members), (SELECT count(*) FROM accounts WHERE status <> 'removed'),
  (SELECT count(*) FROM messages m JOIN accounts a ON a.number = m.account WHERE a.status <> 'removed')"""
_OLDER_COUNTS = "SELECT (SELECT count(*) FROM members), (SELECT count(*) FROM accounts), 0"


def keeps_what_was_replaced(container: Container) -> bool:
    """Whether it holds the files of a store as they lay there, about which nothing else is said."""
    return container.manifest.reason == "pre-restore"


def summary_of(container: Container, scratch: Path, progress: Progress | None = None) -> BackupSummary:
    """Look through a backup. Where a database has to be unpacked, it is in `scratch`, and gone afterwards.

    Raises BackupAltered, ReplacedUnopened, NotEnoughRoom, OSError.
    """
    try:
        if container.manifest.format == format_5.NUMBER:
            counts = _look_at_current(container, scratch, progress)
        else:
            counts = _look_at_older(container, progress)
    except apsw.FullError:
        raise
    except apsw.Error as error:
        raise _unopened(container, error) from error
    return _summary(container, counts)


def summary_of_unpacked(container: Container, database: Path, progress: Progress | None = None) -> BackupSummary:
    """The same for a database of this format that was unpacked already, with its log, which is folded in."""
    try:
        return _summary(container, _look_at_unpacked(container, database, progress))
    except apsw.FullError:
        raise
    except apsw.Error as error:
        raise _unopened(container, error) from error


def _summary(container: Container, counts: tuple[int, int, int]) -> BackupSummary:
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


def _look_at_current(container: Container, scratch: Path, progress: Progress | None) -> tuple[int, int, int]:
    room.require_room(scratch, container.manifest.content_size + 16 * room.MIB)
    folder = hidden_name(scratch)
    folder.mkdir(mode=0o700)
    try:
        database = folder / "mailbox.db"
        for section in container.manifest.sections:
            if section.name in ("mailbox.db", "mailbox.db-wal"):
                container.extract(section.name, folder / section.name, progress)
            else:
                deque(container.pieces(section.name), 0)
        return _look_at_unpacked(container, database, progress)
    finally:
        shutil.rmtree(folder)


def _look_at_unpacked(container: Container, database: Path, progress: Progress | None) -> tuple[int, int, int]:
    if log_of(database).exists():
        fold_in(database, container.key)
    with opened_as_is(database, container.key) as connection:
        _check(container, connection, progress)
        if missing := missing_table(row[0] for row in connection.execute(TABLE_NAMES)):
            raise _damaged(container, f"its table {missing} is missing")
        end = container.manifest.audit
        if end is not None and audit_end(connection) != end:
            raise _damaged(container, "its audit log ends elsewhere than it did")
        return next(connection.execute(_COUNTS))


def _look_at_older(container: Container, progress: Progress | None) -> tuple[int, int, int]:
    container.check(progress)
    with opened_in(container) as connection:
        _check(container, connection, progress)
        return next(connection.execute(_OLDER_COUNTS))


def _check(container: Container, connection: apsw.Connection, progress: Progress | None) -> None:
    connection.set_progress_handler(_telling(progress, connection.pragma("page_count")), _EVERY)
    number, application = connection.pragma("user_version"), connection.pragma("application_id")
    if (number, application) != (container.manifest.format, format_5.APPLICATION_ID):
        raise _damaged(container, "it is of another format than the backup says")
    # Of virtual tables too: the search index is compared with itself (sqlite.org/pragma.html#pragma_integrity_check).
    if (found := connection.pragma("integrity_check", 1)) != "ok":
        raise _damaged(container, str(found))
    if broken := next(connection.execute("PRAGMA foreign_key_check"), None):
        raise _damaged(container, f"rows of its table {broken[0]} belong to rows that are not there")


def _telling(progress: Progress | None, pages: int) -> Callable[[], bool]:
    """What SQLite calls now and then: it tells how far a check is, roughly, and what it raises ends it."""
    steps = 0

    def tell() -> bool:
        nonlocal steps
        steps += _EVERY
        if progress is not None:
            progress(CHECKING, min(steps // _STEPS_A_PAGE, pages), pages)
        return False

    return tell


def _unopened(container: Container, error: apsw.Error) -> Problem:
    if keeps_what_was_replaced(container) and isinstance(error, apsw.NotADBError):
        what = "does not open with the key of the backup"
        return ReplacedUnopened(file=container.file.name, what=what, reason=str(error))
    return _damaged(container, str(error))


def _damaged(container: Container, reason: str) -> Problem:
    if keeps_what_was_replaced(container):
        return ReplacedUnopened(file=container.file.name, what="is damaged", reason=reason)
    return BackupAltered(file=container.file.name, reason=f"the database in it is damaged ({reason})")
