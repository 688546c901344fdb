"""What was asked for on the command line, for the measurements that heed it."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_QUICK_MOST = 2000
#: The value that a module's constant of this name has in a quick run.
_QUICK: dict[str, object] = {
    "_ROUNDS": 1,
    "_STARTS": 1,
    "_CALLS": 2,
    "_EACH": 4,
    "_VIEWS": 3,
    "_DOWNLOADS": 1,
    "_SECONDS": 0.4,
    "_SETTLED": 0.4,
    "_WARM": 1,
    "_PEACE": 1.0,
}
_BAD = ("half-hello", "silent", "slow-header", "slow-body")
#: The same for one module alone.
_QUICK_ALONE: dict[str, dict[str, object]] = {
    "growing": {"_NEW": 50},
    "sending": {"_MESSAGES": 20},
    "watching": {"_STEPS": (20,), "_WARM": 10, "_QUIET": 3.0},
    "telling": {"_MEMBERS": 2, "_DELIVERIES": 2, "_EVERY": 0.4},
    "crowding": {"_SECURE": dict.fromkeys(_BAD, 5), "_PLAIN": dict.fromkeys(_BAD[1:], 5), "_MANY": 20},
}


@dataclass
class Options:
    """`scale` multiplies how many messages there are; `cache`: where a large store lies between two runs.

    `quick`: each measurement is to run through, as fast as it can; nobody reads its figures.
    """

    scale: float = 1.0
    cache: Path = Path(tempfile.gettempdir()) / "mailbox-appliance-bench"
    quick: bool = False

    def scaled(self, count: int, least: int = 100) -> int:
        """So many, in a run of this size."""
        if self.quick:
            return min(count, least, _QUICK_MOST)
        return max(least, int(count * self.scale))

    def hurry(self, module: ModuleType) -> None:
        """In a quick run, make a module's rounds and seconds few."""
        if self.quick:
            mine = _QUICK | _QUICK_ALONE.get(module.__name__.rpartition(".")[2], {})
            for name in mine.keys() & vars(module).keys():
                setattr(module, name, mine[name])


#: In force; set before anything is measured.
OPTIONS = Options()


class LeftOut(Exception):
    """What stands beside us is not installed here; the text says what."""
