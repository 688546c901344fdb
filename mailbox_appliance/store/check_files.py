"""The check of a store that nobody has open: whatever its format, whatever is wrong with it. Nothing is changed.

What opening refuses because a page cannot be read is what a check is for, so it looks on page by page. A log beside
the file stays where it is: it is read with it, and not folded in.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import StoreDamaged
from mailbox_appliance.model.records import Progress, StoreCheck, StoreFault
from mailbox_appliance.store import swap
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.check import MOST, Subject, check
from mailbox_appliance.store.database import FAILED, give_key
from mailbox_appliance.store.failing import failures_as_unusable
from mailbox_appliance.store.files import DATABASE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.lock import DirectoryLock
from mailbox_appliance.store.opening import format_of, key_in, log_of, open_database, require_uncut


def check_files(
    folder: Path, key_file: Path, *, full: bool, passphrase: str | None = None, progress: Progress | None = None
) -> StoreCheck:
    """Look through the store in a data directory. One of an older format is looked at as the plain file that it is.

    Raises StoreInUse, KeyUnusable, and StoreUnusable for what is no store, or a newer one's.
    """
    lock, file = DirectoryLock(folder), folder / DATABASE
    try:
        with failures_as_unusable(folder, then="Nothing was changed."):
            swap.finish(folder, key_file)
            if (number := format_of(file)) is None:
                return _check(file, key_file, full=full, passphrase=passphrase, progress=progress)
            found = (*_cut_off(file), *_look(file, None, full=full, progress=progress))
            return StoreCheck(ok=not found, full=full, format=number, checked=("pages", "references"), problems=found)
    finally:
        lock.release()


def _check(file: Path, key_file: Path, *, full: bool, passphrase: str | None, progress: Progress | None) -> StoreCheck:
    had_log = _has_log(file)
    with file.open("rb") as handle:
        salt = handle.read(16).hex()
    try:
        database, key = open_database(file, key_file, passphrase)
    except StoreDamaged as damaged:
        first = StoreFault(code=damaged.code, message=damaged.message)
        key = key_in(key_file, file, passphrase)
        found = (first, *_look(file, key, full=full, progress=progress))
        return StoreCheck(ok=False, full=full, format=format_5.NUMBER, checked=("pages",), problems=found)
    audit = Audit(database, key.derive("audit"), SystemClock())
    is_whole = False
    try:
        subject = Subject(database, key.with_salt(salt), key_file, audit, file.parent)
        answer = check(subject, full=full, progress=progress)
        is_whole = answer.ok
    finally:
        # A log is folded in only where nothing is wrong.
        database.close() if is_whole or not had_log else database.close_without_checkpoint()
    return answer


def _cut_off(file: Path) -> Iterator[StoreFault]:
    """What SQLite does not find in a plain file: it reads zeros beyond its end."""
    try:
        require_uncut(file)
    except StoreDamaged as damaged:
        yield StoreFault(code=damaged.code, message=damaged.message)


def _look(file: Path, key: StoreKey | None, *, full: bool, progress: Progress | None) -> Iterator[StoreFault]:
    """What SQLite finds in the pages of a file, encrypted or plain."""
    if progress is not None:
        progress("reading every page", 0, 0)
    try:
        with _reading(file, key) as connection:
            for (text,) in connection.execute(f"PRAGMA {'integrity' if full else 'quick'}_check({MOST})"):
                if text != "ok":
                    yield StoreFault(code="page_damaged", message=f"SQLite: {text}.")
            if broken := len(list(connection.execute("PRAGMA foreign_key_check"))):
                yield StoreFault(code="reference_broken", message=f"{broken} rows belong to rows that are not there.")
    except FAILED as error:
        yield StoreFault(code="unreadable", message=f"The store cannot be read any further: {error}.")


@contextmanager
def _reading(file: Path, key: StoreKey | None) -> Iterator[Any]:
    """A connection that changes neither the file nor its log."""
    index = file.with_name(file.name + "-shm")
    has_log, had_index = _has_log(file), index.exists()
    place, flags = f"{file.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    if has_log:  # only file and log together are whole; SQLite reads a log by an index that it writes
        place, flags = str(file), apsw.SQLITE_OPEN_READWRITE
    with closing(apsw.Connection(place, flags=flags)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if key is not None:
            give_key(connection, key.cipher, key.derive("database"))
        yield connection
    if has_log and not had_index:
        index.unlink(missing_ok=True)


def _has_log(file: Path) -> bool:
    log = log_of(file)
    return log.exists() and log.stat().st_size > 0
