"""How busy the machine was: its load, and which part of its processors others took while we measured."""

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil


@dataclass(frozen=True)
class Busy:
    """`others`: the part of all processors, from 0 to 1, that was not idle and not ours; and the load around it."""

    others: float
    load_before: float
    load_after: float

    def __str__(self) -> str:
        return f"others took {self.others:.0%} of the processors, load {self.load_before:.1f} to {self.load_after:.1f}"


class BusyWatch:
    """Compares the processor time of the machine with that of this process and all that come from it."""

    busy: Busy

    def __enter__(self) -> Self:
        self._load, self._before = os.getloadavg()[0], _times()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        whole, used, ours = (after - before for after, before in zip(_times(), self._before, strict=True))
        others = max(0.0, used - ours) / whole if whole else 0.0
        self.busy = Busy(others, self._load, os.getloadavg()[0])


def _times() -> tuple[float, float, float]:
    """Seconds that all processors have had, that they worked or were withheld from this machine, and that we took."""
    times = psutil.cpu_times()
    parts = times._asdict()
    # Linux counts the time of guests within `user` and `nice` already.
    whole = sum(seconds for name, seconds in parts.items() if not name.startswith("guest"))
    return whole, whole - parts["idle"] - parts.get("iowait", 0.0), _ours()


def _ours() -> float:
    """Of this process, of its descendants that live, and of all that any of them has waited for."""
    me, total = psutil.Process(), 0.0
    for each in (me, *me.children(recursive=True)):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
