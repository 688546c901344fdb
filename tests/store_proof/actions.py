"""What is done to a store while everything fails, what it begins with, and what is the old and what the new store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.store_proof.directories import make_old_store, make_restorable, make_store
from tests.store_proof.facts import Facts, difference
from tests.store_proof.looking import Seen

PASSPHRASE = "fourteen umbrellas of Rottnest"


class Breach(AssertionError):
    """What must hold does not."""


@dataclass(frozen=True)
class Known:
    """An action's directory before it, and after it where nothing went wrong."""

    old: Seen
    new: Seen


#: Whether what was seen is the new store. Raises Breach where it is neither the old one nor the new one.
Which = Callable[[Known, Seen], bool]


@dataclass(frozen=True)
class Action:
    """A command and what is known of it."""

    name: str
    argv: tuple[str, ...]  # `BACKUP` in it stands for the backup that the directory begins with
    make: Callable[[Path], None]  # the directory that it begins with
    is_new: Which
    given: str = ""
    #: What it may add to the audit log; None: the log is compared by `is_new`.
    audited: frozenset[str] | None = frozenset()
    #: Columns that differ each time that it is done.
    without: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: How it may end when it is done once more on the new store, other than well.
    again: frozenset[str] = frozenset()
    #: Plain files of an older format are what it begins with.
    is_upgrade: bool = False

    def argv_on(self, template: Path) -> list[str]:
        """The command line; what it begins with lies in `template`."""
        first = next(iter(sorted((template / "backups").glob("*"))), Path())
        return [str(first) if word == "BACKUP" else word for word in self.argv]


def require(holds: bool, what: str) -> None:
    """Raise Breach where something does not hold."""
    if not holds:
        raise Breach(what)


def same(expected: Facts, seen: Facts, what: str) -> None:
    """Every fact is the same."""
    require(not (found := difference(expected, seen)), f"{what}: {found}")


def audit_is_kept(action: Action, known: Known, seen: Seen) -> None:
    """The log begins as it was, and goes on with nothing but what the action adds."""
    if action.audited is None:
        return
    count = len(known.old.audit)
    require(seen.audit[:count] == known.old.audit, "the audit log is not what it was")
    added = {str(row[3]) for row in seen.audit[count:]}
    require(added <= action.audited, f"the audit log has more in it: {added - action.audited}")


# --- creation ---------------------------------------------------------------------------------------------------------


def nothing(folder: Path) -> None:
    """There is no directory yet."""


def _has_administrator(known: Known, seen: Seen) -> bool:
    """All of the first administrator, or nothing of it."""
    rows = {table: counted.total() for table, counted in seen.facts.items() if counted and table != "meta"}
    whole = {table: counted.total() for table, counted in known.new.facts.items() if counted and table != "meta"}
    empty = {table: count for table, count in whole.items() if table in ("message_words", "settings")}
    require(rows in (whole, empty), f"half of an administrator: {rows}")
    return rows == whole


# --- on a store of this format ----------------------------------------------------------------------------------------


def store(folder: Path) -> None:
    """A store of this format, with room in it that compacting gives back."""
    make_store(folder, spare=True)


def _has_passphrase(known: Known, seen: Seen) -> bool:
    same(known.old.facts, seen.facts, "adding a passphrase changed the store")
    require(seen.key == known.old.key, "it is another key")
    require(seen.slots in (known.old.slots, known.new.slots), f"odd slots: {seen.slots}")
    return seen.slots == known.new.slots


def _has_another_key(known: Known, seen: Seen) -> bool:
    same(known.old.facts, seen.facts, "a new key changed the store")
    require(seen.slots == known.old.slots, f"odd slots: {seen.slots}")
    return seen.key != known.old.key


def _is_compact(known: Known, seen: Seen) -> bool:
    same(known.old.facts, seen.facts, "compacting changed the store")
    require((seen.key, seen.slots) == (known.old.key, known.old.slots), "it is another key")
    require(seen.size <= known.old.size, "it has grown")
    return seen.size < known.old.size


def _has_backup(known: Known, seen: Seen) -> bool:
    same(known.old.facts, seen.facts, "a backup changed the store")
    return len(seen.backups) > len(known.old.backups)


# --- on a store of an older format ------------------------------------------------------------------------------------


def old_store(number: int) -> Callable[[Path], None]:
    """A store of format 3 or 4, as a process leaves it that was killed."""

    def make(folder: Path) -> None:
        make_old_store(folder, number)

    return make


def _is_upgraded(known: Known, seen: Seen) -> bool:
    """Opening finishes what was begun; so it is always the new one, with every fact."""
    same(known.new.facts, seen.facts, "the upgraded store is not as it should be")
    require(seen.audit[:-1] == known.new.audit[:-1], "the audit log is not what it was")
    require(seen.audit[-1][1:] == known.new.audit[-1][1:], "the audit log does not end with the upgrade")
    require(seen.key == known.new.key, "it is another key")
    require(bool(seen.backups), "there is no migration backup")
    return True


def restorable(folder: Path) -> None:
    """A store with a backup that is older than it."""
    make_restorable(folder)


def _is_restored(known: Known, seen: Seen) -> bool:
    if not difference(known.old.facts, seen.facts):
        return False
    same(known.new.facts, seen.facts, "neither the old store nor the restored one")
    require((seen.key, seen.slots) == (known.old.key, known.old.slots), "it is another key")
    return True


CREATION = Action(
    "creation",
    ("setup", "--name", "Ada", "--email", "ada@example.org", "--password-stdin"),
    nothing,
    _has_administrator,
    given="correct horse battery\n",
    audited=frozenset({"setup", "session.create"}),
    again=frozenset({"conflict"}),
)
ADD_PASSPHRASE = Action(
    "key add-passphrase",
    ("key", "add-passphrase", "--passphrase-stdin"),
    store,
    _has_passphrase,
    given=f"{PASSPHRASE}\n",
    audited=frozenset({"key.change"}),
)
REKEY = Action("rekey", ("store", "rekey"), store, _has_another_key, audited=frozenset({"key.replace"}))
COMPACT = Action("compact", ("store", "compact"), store, _is_compact)
BACKUP = Action("backup create", ("backup", "create"), store, _has_backup, audited=frozenset({"backup.create"}))
#: What a scheduled send of the old release gets for the first time.
_GIVEN = {
    "delivery_operations": frozenset({"id", "result_id", "result_thread_id", "uncertain_at", "evidence_next_at"}),
    "delivery_messages": frozenset({"operation"}),
}
UPGRADES = [
    Action(
        f"upgrade from {number}",
        ("store", "migrate"),
        old_store(number),
        _is_upgraded,
        audited=None,
        without=_GIVEN,
        is_upgrade=True,
    )
    for number in (3, 4)
]
RESTORE = Action(
    "restore",
    ("backup", "restore", "BACKUP"),
    restorable,
    _is_restored,
    audited=frozenset({"backup.restore"}),
)
ACTIONS = {action.name: action for action in (CREATION, *UPGRADES, ADD_PASSPHRASE, REKEY, COMPACT, BACKUP, RESTORE)}
