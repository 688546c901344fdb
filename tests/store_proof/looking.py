"""What a fresh process finds in a directory: it opens the store, reads all of it, closes it, and looks at what is left.

The processes are forked from one that has imported everything before, so that each costs little.
"""

import hashlib
import logging
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, TypeVar

from mailbox_appliance import (
    appliance,  # noqa: F401 - so that forked processes have it
    errors,
)
from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli import main
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import read_key_file
from mailbox_appliance.store.store import Store
from tests.store_proof.children import Ended, environment
from tests.store_proof.facts import Facts, facts_of

#: What no start may leave behind.
LEFTOVERS = ("*.new*", ".*.new", ".next*", "*.making*", ".making*", "backups/.*", "*-shm", "*-wal", "*-journal")
_AUDIT = "SELECT at, actor_kind, actor_id, action, target_kind, target_id, outcome FROM audit_events ORDER BY number"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Seen:
    """A directory, as a process saw it that opened it and closed it again."""

    refusal: str = ""  # code and message of the error, where it could not be opened
    facts: Facts = field(default_factory=dict)  # all but the audit log
    audit: tuple[tuple[Any, ...], ...] = ()  # its rows without their seals, which were found right
    key: str = ""  # a digest of the master key
    slots: tuple[str, ...] = ()
    backups: Mapping[str, str] = field(default_factory=dict)  # file name -> what is wrong with it; empty: nothing
    leftovers: tuple[str, ...] = ()
    size: int = 0  # of the database


def look(folder: Path, without: Mapping[str, frozenset[str]]) -> Seen:
    """Open the store in a directory and say all of it; `without` names columns that are left out."""
    try:
        store = Store.open(folder)
    except errors.Problem as error:
        return Seen(refusal=f"{error.code}: {error.message}")
    try:
        check = store.audit.verify()
        if check.broken is not None:
            return Seen(refusal=f"the audit log is broken: {check.broken}")
        facts = facts_of(store, without)
        audit = tuple(tuple(row) for row in store.database.rows(_AUDIT))
        key = hashlib.sha256(store.key.master).hexdigest()[:16]
    finally:
        store.close()
    size = (folder / DATABASE_FILE).stat().st_size
    return Seen("", facts, audit, key, slots_of(folder), backups_in(folder), leftovers_in(folder), size)


def slots_of(folder: Path) -> tuple[str, ...]:
    """The kinds of slots in the key file; one that holds nothing but the key has none."""
    found = read_key_file(folder / KEY_FILE)
    return () if found is None else tuple(type(slot).__name__ for slot in found.slots)


def backups_in(folder: Path) -> dict[str, str]:
    """Every file in `backups/`, each verified."""
    found = {}
    for file in sorted((folder / "backups").glob("*")):
        ended = command(folder, ("backup", "verify", str(file)), "")
        found[file.name] = "" if ended.code == 0 else ended.complaints
    return found


def leftovers_in(folder: Path) -> tuple[str, ...]:
    """What should have been cleaned up, below the directory."""
    return tuple(sorted({str(path.relative_to(folder)) for name in LEFTOVERS for path in folder.glob(name)}))


def command(folder: Path, argv: Sequence[str], given: str) -> Ended:
    """Run a command on a directory."""
    output, complaints = StringIO(), StringIO()
    os.environ.clear()
    os.environ.update(environment(folder))
    terminal = Terminal(BytesIO(given.encode()), output, complaints, dict(os.environ))
    code = main.run(["--data-dir", str(folder), *argv], SERVICES, terminal)
    return Ended(code, output.getvalue(), complaints.getvalue())


class Witnesses:
    """Fresh processes, one after the other, each for one look."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(Path("/nowhere")),
        )

    def close(self) -> None:
        """There are no more of them."""
        self._parent.communicate()

    def look(self, folder: Path, without: Mapping[str, frozenset[str]] | None = None) -> Seen:
        """See `look`."""
        return self._ask(look, folder, without or {})

    def command(self, folder: Path, argv: Sequence[str], given: str = "") -> Ended:
        """See `command`."""
        return self._ask(command, folder, tuple(argv), given)

    def _ask(self, what: Callable[..., Answer], *given: object) -> Answer:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        pickle.dump((what.__name__, given), self._parent.stdin)
        self._parent.stdin.flush()
        answer: Answer | str = pickle.load(self._parent.stdout)
        assert not isinstance(answer, str), answer
        return answer


def main_loop() -> None:
    """Fork for each question that comes in, and have the child answer it."""
    questions: dict[str, Callable[..., object]] = {"look": look, "command": command}
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            name, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        child = os.fork()
        if child == 0:
            try:
                answer: object = questions[name](*given)
            except BaseException:  # noqa: BLE001 - whatever it is, the one who asked is told
                answer = traceback.format_exc()
            pickle.dump(answer, answers)
            answers.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    from tests.store_proof import looking  # what is pickled has this module's name, not that of a program

    looking.main_loop()
