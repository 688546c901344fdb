"""Checks a store, open or closed, without changing it. Faults are returned, not raised.

    quick   every page and row as SQLite checks them, references between rows, the schema, the key file
    full    also the order of every index, the search index against the messages, the HMACs of the audit log

SQLite authenticates each encrypted page when it reads it, so a changed page is found by reading it. No check can find
that a page, or the whole file, was replaced by an older copy of the same store.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyDamaged, StoreDamaged, StoreUnusable
from mailbox_appliance.model.backups import Progress, StoreCheck, StoreFault
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.database import (
    DATABASE_ERRORS,
    Database,
    failures_as_unusable,
    is_disk_full,
    set_cipher_key,
    to_unusable,
)
from mailbox_appliance.store.exclusive_job import ignore_progress
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import StoreKey, read_key, read_key_file, read_salt
from mailbox_appliance.store.open_file import (
    DirectoryLock,
    detect_plain_format,
    has_wal,
    load_store_key,
    open_database,
    require_complete,
)
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.schema import find_schema_differences

# --- An open store ---


#: The maximum of reported faults of one kind: a damaged file has any number of them.
MAX_FAULTS_OF_A_KIND = 20
_STEPS_BETWEEN_REPORTS = 20_000  # virtual machine steps between two reports: some milliseconds
_SERVING_PAUSE = 0.001
# Estimated steps for a page; the exact number is unknown.
_STEPS_A_PAGE, _FULL_STEPS_A_PAGE = 200, 500

_Faults = Iterator[StoreFault]


@dataclass(frozen=True)
class CheckedStore:
    """The parts of an open store that a check needs.

    `folder`: the data directory; used to tell a full disk from a damaged file. The check does not open the database
    file itself: closing it again would end SQLite's locks on it (sqlite.org/howtocorrupt.html 2.2).
    """

    database: Database
    key: StoreKey
    key_file: Path
    audit: Audit
    folder: Path | None = None


@dataclass(frozen=True)
class _CheckStep:
    name: str
    label: str  # progress label
    find_faults: Callable[[], _Faults]


def check_open_store(
    subject: CheckedStore, *, full: bool, progress: Progress | None = None, serving: bool = False
) -> StoreCheck:
    """Check an open store, and return the faults found.

    `full`: also check all indexes, the search index and the audit log, which takes longer. `serving`: whether requests
    use the store during the check; it then pauses regularly for other threads. Raises LogBeingChecked if another check
    of the audit log is running, and StoreUnusable if the store is closed.
    """
    steps = _check_steps(subject, full=full)
    pace = _CheckPace(progress or ignore_progress, serving=serving)
    problems = tuple(fault for step in steps for fault in _run_step(subject, step, pace, full=full))
    names = tuple(step.name for step in steps)
    return StoreCheck(ok=not problems, full=full, format=format_5.NUMBER, checked=names, problems=problems)


def _check_steps(subject: CheckedStore, *, full: bool) -> tuple[_CheckStep, ...]:
    database, pragma = subject.database, f"{'integrity' if full else 'quick'}_check({MAX_FAULTS_OF_A_KIND})"
    quick = (
        _CheckStep("pages", "reading every page", lambda: _check_pages(database, f"PRAGMA {pragma}")),
        _CheckStep("references", "looking for references to missing rows", lambda: find_broken_references(database)),
        _CheckStep("schema", "comparing the schema", lambda: _check_schema(database)),
        _CheckStep("key", "comparing the key file", lambda: _check_key_file(subject)),
    )
    if not full:
        return quick
    return (
        *quick,
        _CheckStep("counts", "comparing related tables", lambda: find_inconsistent_rows(database)),
        _CheckStep("search", "checking the search index", lambda: find_index_gaps(database)),
        _CheckStep("audit", "checking the audit log", lambda: _check_audit_log(subject.audit)),
    )


class _CheckPace:
    def __init__(self, progress: Progress, *, serving: bool) -> None:
        self._progress, self._serving = progress, serving
        self._label, self._done, self._expected = "", 0, 0

    def begin_step(self, label: str, expected: int) -> None:
        """Begin a step. `label`: its name. `expected`: estimated SQLite virtual machine steps; 0 means unknown."""
        self._label, self._done, self._expected = label, 0, expected
        self._progress(label, 0, expected)

    def advance(self) -> None:
        """Report progress. SQLite calls it after every `_STEPS_BETWEEN_REPORTS` virtual machine steps."""
        self._done += _STEPS_BETWEEN_REPORTS
        self._progress(self._label, min(self._done, self._expected), self._expected)
        if self._serving:
            time.sleep(_SERVING_PAUSE)


def _run_step(subject: CheckedStore, step: _CheckStep, pace: _CheckPace, *, full: bool) -> list[StoreFault]:
    """A read error of SQLite is a fault. Raises StoreUnusable if the disk is full or the store was closed."""
    found: list[StoreFault] = []
    database = subject.database
    try:
        pages = int(database.value("PRAGMA page_count")) if step.name == "pages" else 0
        pace.begin_step(step.label, pages * (_FULL_STEPS_A_PAGE if full else _STEPS_A_PAGE))
        with database.progress_handler(_STEPS_BETWEEN_REPORTS, pace.advance):
            found += step.find_faults()
        database.release_memory()
    except apsw.InterruptError as error:
        raise StoreUnusable(reason="it was closed during the check.") from error
    except DATABASE_ERRORS as error:
        if subject.folder is not None and is_disk_full(error, subject.folder):
            raise to_unusable(error, subject.folder) from error
        found.append(_fault("unreadable", f"The store cannot be read while {step.label}: {error}."))
    return found


def _check_pages(database: Database, pragma: str) -> _Faults:
    for (text,) in database.rows(pragma):
        if text != "ok":
            yield _fault("page_damaged", f"SQLite: {text}.")


def _check_schema(database: Database) -> _Faults:
    for text in find_schema_differences(database):
        yield _fault("schema_differs", text)


def _check_key_file(subject: CheckedStore) -> _Faults:
    """An open store no longer reads its key file, but the next start does."""
    file = subject.key_file
    try:
        there = read_key_file(file)
        is_it = there.find_key(subject.key.master) is not None if there else read_key(file).master == subject.key.master
    except FileNotFoundError:
        yield _fault("key_missing", f"The key file {file} is missing. Put it back: the next start needs it.")
    except (KeyDamaged, OSError) as error:
        text = error.message if isinstance(error, KeyDamaged) else f"{file} cannot be read: {error.strerror}."
        yield _fault("key_damaged", text)
    else:
        if not is_it:
            yield _fault(
                "key_differs", f"The key file {file} contains another key. Put back the key file of this store."
            )
        elif there and subject.key.salt not in (None, there.salt) and os.access(file, os.W_OK):
            yield _fault("key_differs", f"The key file {file} was written for another state of the store.")


def _check_audit_log(audit: Audit) -> _Faults:
    broken = audit.verify().broken
    if broken is not None:
        row = f"row {broken.number}" + (f" ({broken.id})" if broken.id else "")
        yield _fault("audit_broken", f"The audit log was altered at {row}: {broken.reason}.")


def _fault(code: str, message: str) -> StoreFault:
    return StoreFault(code=code, message=message)


# --- Rows that should agree with others: checked in SQL, reported as counts ---


_MAX_TABLES = 20
#: Code, message and query of each rule; a query reads an index or two once.
_OF_OTHER_MAILBOX = """messages m JOIN folders f ON f.number = m.folder JOIN threads t ON t.number = m.thread
  WHERE f.account <> m.account OR t.account <> m.account"""
_INCOMPLETE_PARTS = """cached_parts p WHERE p.size >= 0 AND p.size <>
  (SELECT coalesce(sum(length(c.content)), 0) FROM cached_chunks c WHERE c.part = p.number)"""
_LABEL_DIFFERENCES = """(
  SELECT * FROM (SELECT folder, number, flags FROM message_labels EXCEPT SELECT * FROM messages_by_label)
  UNION ALL SELECT * FROM (SELECT * FROM messages_by_label EXCEPT SELECT folder, number, flags FROM message_labels))"""
_CONSISTENCY_RULES: tuple[tuple[str, str, str], ...] = (
    (
        "index_incomplete",
        "{} messages are not in the search index, so no search finds them",
        "messages m LEFT JOIN message_index_docsize d ON d.id = m.number WHERE d.id IS NULL",
    ),
    (
        "index_outdated",
        "the search index contains {} messages that do not exist",
        "message_index_docsize d LEFT JOIN messages m ON m.number = d.id WHERE m.number IS NULL",
    ),
    (
        "bodies_missing",
        "{} messages have no content row",
        "messages m LEFT JOIN bodies b ON b.number = m.number WHERE b.number IS NULL",
    ),
    ("mailbox_differs", "{} messages are in a folder or thread of another mailbox", _OF_OTHER_MAILBOX),
    ("labels_differ", "{} entries of messages in label folders are missing or wrong", _LABEL_DIFFERENCES),
    ("parts_incomplete", "{} cached attachments are incomplete", _INCOMPLETE_PARTS),
)
# In one statement, so that both counts are of one moment.
_INDEX_COUNTS = """
SELECT (SELECT count(*) FROM messages WHERE account = ?),
  (SELECT count(*) FROM message_index WHERE message_index MATCH ?)"""


def find_broken_references(database: Database) -> Iterator[StoreFault]:
    """Yield a fault for each table with references to missing rows, with their number."""
    counts: dict[tuple[str, str], int] = {}
    for table, _row, parent, _key in database.iterate("PRAGMA foreign_key_check"):
        counts[table, parent] = counts.get((table, parent), 0) + 1
    for (table, parent), count in list(counts.items())[:_MAX_TABLES]:
        text = f"{count} rows of the table {table} refer to missing rows of {parent}."
        yield StoreFault(code="reference_broken", message=text)


def find_inconsistent_rows(database: Database) -> Iterator[StoreFault]:
    """Yield a fault for each broken rule about rows of several tables, such as messages without an index entry.

    Each fault contains the number of rows that break the rule.
    """
    for code, text, rows in _CONSISTENCY_RULES:
        if count := database.value(f"SELECT count(*) FROM {rows}"):
            yield StoreFault(code=code, message=_sentence(text.format(count)))


def find_index_gaps(database: Database) -> Iterator[StoreFault]:
    """Yield a fault for each mailbox whose number of messages differs from the number in the full-text index."""
    for number, account in database.rows("SELECT number, id FROM accounts"):
        there, found = database.row(_INDEX_COUNTS, (number, f"scope: a{number}")) or (0, 0)
        if found != there:
            text = f"the search index finds {found} of the {there} messages of the mailbox {account}"
            yield StoreFault(code="index_differs", message=_sentence(text))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# --- A closed store, whatever its format and its damage ---
#
# A store that does not open, because a page cannot be read, is checked page by page. A log beside the file is read with
# it, and not checkpointed.


def check_closed_store(
    folder: Path, key_file: Path, *, full: bool, passphrase: str | None = None, progress: Progress | None = None
) -> StoreCheck:
    """Check the store in a data directory that no process uses, and return the faults found.

    `full`: also check all indexes, the search index and the audit log, which takes longer. In a store of an older
    format, only pages and references are checked. Raises StoreInUse, KeyUnusable, and StoreUnusable for a file that is
    not a store or has a newer format.
    """
    lock, file = DirectoryLock(folder), folder / DATABASE_FILE
    try:
        with failures_as_unusable(folder, then="Nothing was changed."):
            swap.finish(folder, key_file)
            if (number := detect_plain_format(file)) is None:
                return _check_encrypted(file, key_file, full=full, passphrase=passphrase, progress=progress)
            found = (*_find_truncation(file), *_find_page_faults(file, None, full=full, progress=progress))
            return StoreCheck(ok=not found, full=full, format=number, checked=("pages", "references"), problems=found)
    finally:
        lock.release()


def _check_encrypted(
    file: Path, key_file: Path, *, full: bool, passphrase: str | None, progress: Progress | None
) -> StoreCheck:
    had_log = has_wal(file)
    salt = read_salt(file)
    try:
        database, key = open_database(file, key_file, passphrase)
    except StoreDamaged as damaged:
        first = StoreFault(code=damaged.code, message=damaged.message)
        key = load_store_key(key_file, file, passphrase)
        found = (first, *_find_page_faults(file, key, full=full, progress=progress))
        return StoreCheck(ok=False, full=full, format=format_5.NUMBER, checked=("pages",), problems=found)
    audit = Audit(database, key.derive("audit"), SystemClock())
    is_whole = False
    try:
        subject = CheckedStore(database, key.with_salt(salt), key_file, audit, file.parent)
        answer = check_open_store(subject, full=full, progress=progress)
        is_whole = answer.ok
    finally:
        # A log is checkpointed only if nothing is wrong.
        database.close() if is_whole or not had_log else database.close_without_checkpoint()
    return answer


def _find_truncation(file: Path) -> Iterator[StoreFault]:
    try:
        require_complete(file)
    except StoreDamaged as damaged:
        yield StoreFault(code=damaged.code, message=damaged.message)


def _find_page_faults(
    file: Path, key: StoreKey | None, *, full: bool, progress: Progress | None
) -> Iterator[StoreFault]:
    """`key`: None for an unencrypted database."""
    if progress is not None:
        progress("reading every page", 0, 0)
    try:
        with _open_for_reading(file, key) as connection:
            for (text,) in connection.execute(
                f"PRAGMA {'integrity' if full else 'quick'}_check({MAX_FAULTS_OF_A_KIND})"
            ):
                if text != "ok":
                    yield StoreFault(code="page_damaged", message=f"SQLite: {text}.")
            if broken := len(list(connection.execute("PRAGMA foreign_key_check"))):
                yield StoreFault(code="reference_broken", message=f"{broken} rows refer to missing rows.")
    except DATABASE_ERRORS as error:
        yield StoreFault(code="unreadable", message=f"The store cannot be read any further: {error}.")


@contextmanager
def _open_for_reading(file: Path, key: StoreKey | None) -> Iterator[Any]:
    """The file and its write-ahead log are not changed. `key`: None for an unencrypted database."""
    index = file.with_name(file.name + "-shm")
    has_log, had_index = has_wal(file), index.exists()
    place, flags = f"{file.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    if has_log:  # Only file and log together are complete; SQLite reads a log with an index that it writes.
        place, flags = str(file), apsw.SQLITE_OPEN_READWRITE
    with closing(apsw.Connection(place, flags=flags)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if key is not None:
            set_cipher_key(connection, key.cipher, key.derive("database"))
        yield connection
    if has_log and not had_index:
        index.unlink(missing_ok=True)
