"""What goes wrong in the rounds of an action: which of its system calls meets what, and how small a disk is."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from tests.store_proof.children import DECISIVE, Fault, Step


@dataclass(frozen=True)
class SmallDisk:
    """The directory lies on a file system of so many KiB."""

    size: int

    def __str__(self) -> str:
        return f"a disk of {self.size} KiB"


Hazard = Fault | SmallDisk
#: Calls that can fail for want of room, or since the medium does.
_FULL = frozenset(("write", "pwrite64", "openat", "mkdir", "sendfile", "copy_file_range"))
_BROKEN = frozenset(("write", "pwrite64", "fsync", "fdatasync", "rename", "ftruncate", "unlink", "sendfile", "rmdir"))


def plan_of(steps: Sequence[Step], size: int, chance: random.Random, *, disks: bool) -> Iterator[Hazard]:
    """Hazards without end, of each kind in turn: every decisive call once before one comes again, others by chance.

    `size`: KiB of what lies on the disk before. A disk is as tight as that, or has room for a few times as much.
    """
    decisive = [step for step in steps if step.call in DECISIVE]
    others = [step for step in steps if step.call == "pwrite64"] or decisive
    kinds: list[Iterator[Hazard]] = [
        _kills(decisive, chance),
        _errors([step for step in steps if step.call in _BROKEN | _FULL and step.call != "pwrite64"], chance),
        _kills(decisive, chance),
        _errors(others, chance),
        _kills(others, chance),
    ]
    if disks:
        kinds.append(SmallDisk(size + 8 + int(chance.random() ** 2 * (3 * size + 1500))) for _ in cycle("."))
    for kind in cycle(kinds):
        yield next(kind)


def _over_and_over(steps: Sequence[Step], chance: random.Random) -> Iterator[Step]:
    while True:
        yield from chance.sample(steps, len(steps))


def _kills(steps: Sequence[Step], chance: random.Random) -> Iterator[Fault]:
    return (Fault(step.call, step.nth) for step in _over_and_over(steps, chance))


def _errors(steps: Sequence[Step], chance: random.Random) -> Iterator[Fault]:
    for step in _over_and_over(
        [step for step in steps if step.call in _FULL | _BROKEN and ".making-" not in step.file], chance
    ):
        full, broken = step.call in _FULL, step.call in _BROKEN
        is_full = full and (not broken or chance.random() < 0.5)
        # What is written to the output is one of these calls too: it must get through.
        onwards = step.call not in ("write", "openat") and chance.random() < 0.4
        yield Fault(step.call, step.nth, "ENOSPC" if is_full else "EIO", onwards, step.file)
