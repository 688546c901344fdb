"""What must hold of a directory after an action met a fault: it is the old store or the new one, complete.

The product itself says what is in it, in fresh processes that open it twice: the first may finish or clean up.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.store_proof.actions import Action, Breach, Known, audit_is_kept, require
from tests.store_proof.children import Ended
from tests.store_proof.directories import copy
from tests.store_proof.facts import difference, plain_facts
from tests.store_proof.looking import Seen, Witnesses

#: Words that stand in the stores of this proof, and may lie readable nowhere in a backup or a store of this format.
PLAIN = (b"quokka umbrella", b"proof.example", b"@example.test", b"@example.org", b"@Example.org", b"CREATE TABLE")
_FILES = ("mailbox.db", "mailbox.db-wal", "encryption.key", "config.toml")


@dataclass(frozen=True)
class Verdict:
    """How an action ended, and what it left."""

    ended: str  # killed, succeeded, or the code of an error
    left: str  # old or new


def judge(action: Action, known: Known, template: Path, folder: Path, ended: Ended, witnesses: Witnesses) -> Verdict:
    """Raises Breach with what does not hold."""
    said = how_it_ended(ended)
    nothing_readable(folder, action)
    was_plain = action.is_upgrade and is_plain(folder)
    if was_plain:
        old_files_are_whole(template, folder)
    else:
        key_is_there(folder)
    seen = opened(folder, action, witnesses)
    is_new = action.is_new(known, seen)
    audit_is_kept(action, known, seen)
    twice = opened(folder, action, witnesses)
    require(twice == seen, f"another opening finds something else: {difference(seen.facts, twice.facts)}")
    if said == "succeeded":
        require(is_new and not was_plain, "it was told as done, and is not")
    repeat(action, template, folder, is_new=is_new, witnesses=witnesses)
    done = opened(folder, action, witnesses)
    require(action.is_new(known, done), "done again, it is not new")
    audit_is_kept(action, known, done)
    nothing_readable(folder, action)
    return Verdict(said, "old" if was_plain or not is_new else "new")


def how_it_ended(ended: Ended) -> str:
    """Killed, well, or with one named error."""
    require("Traceback" not in ended.complaints, f"a traceback: {ended.complaints[-2000:]}")
    if ended.is_killed:
        return "killed"
    if ended.code == 0:
        return "succeeded"
    lines = [line for line in ended.complaints.splitlines() if line.startswith("{")]
    require(len(lines) == 1, f"exit code {ended.code} with {ended.complaints!r}")
    error = json.loads(lines[0])["error"]
    require(error["code"] != "internal_error", f"no name for this: {error['message']}")
    return str(error["code"])


def opened(folder: Path, action: Action, witnesses: Witnesses) -> Seen:
    """What a process sees that opens the directory. It is whole, and everything is tidy."""
    seen = witnesses.look(folder, action.without)
    require(not seen.refusal, f"it does not open: {seen.refusal}")
    require(not seen.leftovers, f"left over after a start: {seen.leftovers}")
    require(not any(seen.backups.values()), f"a backup that is not one: {seen.backups}")
    return seen


def repeat(action: Action, template: Path, folder: Path, *, is_new: bool, witnesses: Witnesses) -> None:
    """The action can be done (again)."""
    again = witnesses.command(folder, action.argv_on(template), action.given)
    said = how_it_ended(again)
    require(said == "succeeded" or (is_new and said in action.again), f"done again: {again.complaints}")


# --- what lies on the disk, before anybody has opened it --------------------------------------------------------------


def is_plain(folder: Path) -> bool:
    """Whether the database is one of an older format."""
    with (folder / "mailbox.db").open("rb") as handle:
        return handle.read(16) == b"SQLite format 3\0"


def old_files_are_whole(template: Path, folder: Path) -> None:
    """Release 0.10 would find every row, and its key."""
    for name in ("encryption.key", "config.toml"):
        require((folder / name).read_bytes() == (template / name).read_bytes(), f"the old {name} was changed")
    if any(_content(folder / name) != _content(template / name) for name in _FILES[:2]):
        found = difference(plain_facts(template), plain_facts(folder))
        require(not found, f"the old store was changed: {found}")


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def key_is_there(folder: Path) -> None:
    """A database never lies there without its key."""
    if (folder / "mailbox.db").exists():
        require((folder / "encryption.key").exists(), "a database without its key")


def nothing_readable(folder: Path, action: Action) -> None:
    """No plain text lies in backups, in files that are being made, or in a store of this format."""
    for file in folder.rglob("*"):
        is_old = action.is_upgrade and file.name in ("mailbox.db", "mailbox.db-wal", "mailbox.db-shm")
        if not file.is_file() or (is_old and is_plain(folder)):
            continue
        content = file.read_bytes()
        found = [word for word in PLAIN if word in content]
        require(not found, f"{file.relative_to(folder)} holds {found}")


def known_of(action: Action, template: Path, folder: Path, done: Path, witnesses: Witnesses) -> Known:
    """What is known of an action: its directory before, and what doing it without a fault made of it.

    Doing it twice gives the same, but for the columns that it names; else comparing would be comparing nothing.
    """
    other = copy(template, folder) if template.exists() else folder
    old = witnesses.look(other, action.without) if template.exists() and not action.is_upgrade else Seen()
    known = Known(old, opened(done, action, witnesses))
    again = witnesses.command(other, action.argv_on(template), action.given)
    if again.code != 0:
        raise Breach(f"without a fault: {again.complaints}")
    second = opened(other, action, witnesses)
    require(action.is_new(known, known.new) and action.is_new(known, second), "done twice, it gives two things")
    return known
