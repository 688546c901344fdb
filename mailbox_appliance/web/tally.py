"""Counts the requests that were answered, and how long that took: in a microsecond each, for `/metrics`.

What a client may choose freely is never a label: requests are told apart by the template of their route, by one of the
known methods, and by status. Those that mean no route are of one template together.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

#: The template of what is no route.
UNKNOWN = "unknown"
#: Upper bounds of the durations, in seconds; the last one is without a bound.
BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "other"


@dataclass(frozen=True)
class Tallied:
    """Requests of one route and method with one status: how many lie within each bound, and their seconds together."""

    route: str
    method: str
    status: int
    within: tuple[int, ...]
    seconds: float

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(self.within)


class Tally:
    """Goes on while a restore replaces the appliance. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By template, method and status: a count for each bound and for what lies beyond, then the seconds.
        self._rows: dict[tuple[str, str, int], tuple[list[int], list[float]]] = {}

    def count(self, template: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `template`: method and path of its route, or UNKNOWN."""
        key = template, method if method in _METHODS else _OTHER, status
        place = bisect_left(BOUNDS, seconds)
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = [0] * (len(BOUNDS) + 1), [0.0]
            within, total = row
            within[place] += 1
            total[0] += seconds

    def snapshot(self) -> Iterable[Tallied]:
        """What was counted so far, in the order of routes."""
        with self._lock:
            rows = [(key, tuple(within), total[0]) for key, (within, total) in self._rows.items()]
        for (template, method, status), within, seconds in sorted(rows):
            yield Tallied(template.partition(" ")[2] or template, method, status, within, seconds)
