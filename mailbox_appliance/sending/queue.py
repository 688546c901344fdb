"""What waits to be sent, and what of it is next. Pure: no threads, no network, and the time is told.

Each mailbox has two lines, of what somebody waits for and of what was scheduled. Who is first in a line may begin as
soon as all its places are free. Lines of the first kind come before those of the other; those of a kind take turns.
What is looked at does not grow with what waits: only servers and mailboxes are passed over that are at work already.
"""

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

MOST_PER_SERVER = 16
MOST_PER_ACCOUNT = 2
MOST_SCHEDULED = 12
MOST_SCHEDULED_PER_SERVER = 8
MOST_SCHEDULED_PER_ACCOUNT = 1


@dataclass(frozen=True)
class Place:
    """What is taken while a message is being sent, and how many may have it at once."""

    name: str
    most: int


@dataclass(frozen=True)
class Line:
    """Whose turn it is together: what waits for one mailbox, scheduled or not."""

    server: str
    account_id: str
    is_scheduled: bool
    shared: tuple[Place, ...] = field(init=False, compare=False)
    own: tuple[Place, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        shared = [Place(f"server {self.server}", MOST_PER_SERVER)]
        own = [Place(f"mailbox {self.account_id}", MOST_PER_ACCOUNT)]
        if self.is_scheduled:
            shared += [
                Place("scheduled", MOST_SCHEDULED),
                Place(f"scheduled server {self.server}", MOST_SCHEDULED_PER_SERVER),
            ]
            own += [Place(f"scheduled mailbox {self.account_id}", MOST_SCHEDULED_PER_ACCOUNT)]
        object.__setattr__(self, "shared", tuple(shared))
        object.__setattr__(self, "own", tuple(own))

    @property
    def names(self) -> Iterator[str]:
        """What it takes."""
        return (place.name for place in (*self.shared, *self.own))


class Waiting(Protocol):
    """What can stand in a line."""

    @property
    def line(self) -> Line: ...


T = TypeVar("T", bound=Waiting)
_Lines = dict[str, dict[Line, deque[T]]]


class Queue(Generic[T]):
    """May be used by one thread at a time."""

    def __init__(self) -> None:
        # By kind, in the order of their turns: first what somebody waits for, by server, then by mailbox.
        self._lines: dict[bool, _Lines[T]] = {False: {}, True: {}}
        self._put_off: list[tuple[float, int, T]] = []
        self._numbers = itertools.count()
        self._taken: Counter[str] = Counter()

    @property
    def is_busy(self) -> bool:
        """Whether anything that was taken is still under way."""
        return bool(self._taken)

    def count(self, line: Line) -> int:
        """How many stand in a line."""
        return len(self._lines[line.is_scheduled].get(line.server, {}).get(line, ()))

    def add(self, one: T) -> None:
        """To the end of its line."""
        self._line_of(one).append(one)

    def put_off(self, one: T, until: float) -> None:
        """It comes back to the head of its line at that time."""
        heapq.heappush(self._put_off, (until, next(self._numbers), one))

    def next_at(self) -> float | None:
        """When the first of what was put off comes back; None where nothing was."""
        return self._put_off[0][0] if self._put_off else None

    def take(self, now: float) -> T | None:
        """The next that may begin: it has its places until `leave`."""
        self._bring_back(now)
        line = next(self._ready(self._taken), None)
        if line is None:
            return None
        servers = self._lines[line.is_scheduled]
        lines = servers.pop(line.server)
        waiting = lines.pop(line)
        one = waiting.popleft()
        if waiting:
            lines[line] = waiting  # behind the others
        if lines:
            servers[line.server] = lines
        self._taken.update(line.names)
        return one

    def leave(self, one: T) -> None:
        """Its places are free again."""
        for name in one.line.names:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]

    def count_ready(self, now: float, most: int) -> int:
        """How many of those that wait may begin now together, besides what is under way; counted up to `most`."""
        self._bring_back(now)
        taken, count = self._taken.copy(), 0
        for line in self._ready(taken):
            left = self.count(line)
            while left and count < most and _are_free(line.shared, taken) and _are_free(line.own, taken):
                taken.update(line.names)
                left, count = left - 1, count + 1
            if count == most:
                break
        return count

    def _ready(self, taken: Counter[str]) -> Iterator[Line]:
        """The lines whose first may begin, in their order; `taken` may change between two of them."""
        for servers in self._lines.values():
            for lines in servers.values():
                for line in lines:
                    if not _are_free(line.shared, taken):
                        break  # nor are they for any other line of the server
                    if _are_free(line.own, taken):
                        yield line

    def _bring_back(self, now: float) -> None:
        while self._put_off and self._put_off[0][0] <= now:
            one = heapq.heappop(self._put_off)[2]
            self._line_of(one).appendleft(one)

    def _line_of(self, one: T) -> deque[T]:
        line = one.line
        return self._lines[line.is_scheduled].setdefault(line.server, {}).setdefault(line, deque())


def _are_free(places: tuple[Place, ...], taken: Counter[str]) -> bool:
    return all(taken[place.name] < place.most for place in places)
