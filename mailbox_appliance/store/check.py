"""Whether a store is whole: looked at, never mended. What is found has a name and a sentence each; nothing is raised.

    quick   every page and row as SQLite checks them, rows that belong to others, the schema, the key file
    full    the order of every index too, the search index against the messages, the chain of the audit log

Pages are authenticated when they are read, so one that was changed from outside is found by reading it. What no check
can find is an older copy of a page, or of the whole file, that was put back with its key.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from mailbox_appliance.errors import KeyDamaged, StoreUnusable
from mailbox_appliance.model.records import Progress, StoreCheck, StoreFault
from mailbox_appliance.store.agreement import broken_references, disagreements, index_disagreements
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.database import FAILED, Database
from mailbox_appliance.store.failing import is_full, unusable
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey, read_file, read_key
from mailbox_appliance.store.schema import differences

#: What is told of one kind at most: a damaged file has it without end.
MOST = 20
_EVERY = 20_000  # steps of SQLite's between two looks: some milliseconds
_PAUSE = 0.001
# Steps that a page takes, roughly: nobody knows how many it will be.
_STEPS, _FULL_STEPS = 200, 500

_Finding = Iterator[StoreFault]


@dataclass(frozen=True)
class Subject:
    """What is looked at: the open database with its key, which knows how the file begins; the key file; the audit log;
    and the folder it lies in, where that is to be asked why it cannot be read.

    The database's file itself is not opened here: to close it again would end SQLite's locks on it
    (sqlite.org/howtocorrupt.html 2.2).
    """

    database: Database
    key: StoreKey
    key_file: Path
    audit: Audit
    folder: Path | None = None


@dataclass(frozen=True)
class _Step:
    name: str
    label: str  # while it is done
    find_faults: Callable[[], _Finding]


def check(subject: Subject, *, full: bool, progress: Progress | None = None, serving: bool = False) -> StoreCheck:
    """Look through a store. Where it is `serving` there are pauses, so that nobody has to wait for it.

    Raises LogBeingChecked where the audit log is being checked already, StoreUnusable where the store is closed.
    """
    steps = (*_quick(subject, full=full), *(_more(subject) if full else ()))
    pace = _Pace(progress or (lambda _what, _done, _total: None), serving=serving)
    problems = tuple(fault for step in steps for fault in _found(subject, step, pace, full=full))
    names = tuple(step.name for step in steps)
    return StoreCheck(ok=not problems, full=full, format=format_5.NUMBER, checked=names, problems=problems)


def _quick(subject: Subject, *, full: bool) -> tuple[_Step, ...]:
    pragma = "integrity_check" if full else "quick_check"
    database = subject.database
    return (
        _Step("pages", "reading every page", lambda: _pages(database, f"PRAGMA {pragma}({MOST})")),
        _Step("references", "looking for rows without their owner", lambda: broken_references(database)),
        _Step("schema", "comparing the schema", lambda: _schema(database)),
        _Step("key", "comparing the key file", lambda: _key(subject)),
    )


def _more(subject: Subject) -> tuple[_Step, ...]:
    database = subject.database
    return (
        _Step("counts", "counting what belongs together", lambda: disagreements(database)),
        _Step("search", "asking the search index", lambda: index_disagreements(database)),
        _Step("audit", "checking the audit log", lambda: _audit(subject.audit)),
    )


class _Pace:
    """Tells how far a step is, and lets others have a turn."""

    def __init__(self, progress: Progress, *, serving: bool) -> None:
        self._progress, self._serving = progress, serving
        self._label, self._done, self._expected = "", 0, 0

    def begin_step(self, told: str, expected: int) -> None:
        """A step of so many steps of SQLite's, roughly; 0: nobody knows."""
        self._label, self._done, self._expected = told, 0, expected
        self._progress(told, 0, expected)

    def advance(self) -> None:
        """Some more are done."""
        self._done += _EVERY
        self._progress(self._label, min(self._done, self._expected), self._expected)
        if self._serving:
            time.sleep(_PAUSE)


def _found(subject: Subject, step: _Step, pace: _Pace, *, full: bool) -> list[StoreFault]:
    """What a step finds; where the file cannot be read for it, that, unless it is the disk that is full."""
    found: list[StoreFault] = []
    database = subject.database
    try:
        pages = int(database.value("PRAGMA page_count")) if step.name == "pages" else 0
        pace.begin_step(step.label, pages * (_FULL_STEPS if full else _STEPS))
        with database.progress_handler(_EVERY, pace.advance):
            found += step.find_faults()
        database.release_memory()
    except apsw.InterruptError as error:
        raise StoreUnusable(reason="it was closed while it was checked.") from error
    except FAILED as error:
        if subject.folder is not None and is_full(error, subject.folder):
            raise unusable(error, subject.folder) from error
        found.append(_fault("unreadable", f"The store cannot be read while {step.label}: {error}."))
    return found


def _pages(database: Database, pragma: str) -> _Finding:
    for (text,) in database.rows(pragma):
        if text != "ok":
            yield _fault("page_damaged", f"SQLite: {text}.")


def _schema(database: Database) -> _Finding:
    for text in differences(database):
        yield _fault("schema_differs", text)


def _key(subject: Subject) -> _Finding:
    """Whether the next start will find the key: who has the store open does not need the file any more."""
    file = subject.key_file
    try:
        there = read_file(file)
        is_it = there.find_key(subject.key.master) is not None if there else read_key(file).master == subject.key.master
    except FileNotFoundError:
        yield _fault("key_missing", f"The key file {file} is gone. Put it back: the next start needs it.")
    except (KeyDamaged, OSError) as error:
        text = error.message if isinstance(error, KeyDamaged) else f"{file} cannot be read: {error.strerror}."
        yield _fault("key_damaged", text)
    else:
        if not is_it:
            yield _fault("key_differs", f"The key file {file} holds another key. Put the right one back.")
        elif there and subject.key.salt not in (None, there.salt) and os.access(file, os.W_OK):
            yield _fault("key_differs", f"The key file {file} was written for another state of the store.")


def _audit(audit: Audit) -> _Finding:
    broken = audit.verify().broken
    if broken is not None:
        row = f"row {broken.number}" + (f" ({broken.id})" if broken.id else "")
        yield _fault("audit_broken", f"The audit log is not as it was written, at {row}: {broken.reason}.")


def _fault(code: str, message: str) -> StoreFault:
    return StoreFault(code=code, message=message)
