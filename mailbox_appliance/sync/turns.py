"""What takes turns, and what comes after one: the little that pool, watcher and mailboxes know of each other.

    submit -> queued -> a thread of the pool: turn() -> AGAIN: queued
                                                     -> Rest: with the watcher; heard, woken, or time is up: queued
                                                     -> ENDED

At any moment a task is in one of these places, and only who has it there may touch it.
"""

import socket
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class After(Enum):
    """What comes after a turn, apart from a rest."""

    AGAIN = "there is more to do; others first"
    ENDED = "it is over"


@dataclass(frozen=True)
class Rest:
    """Nothing to do for so many seconds (None: until woken), or until this socket becomes readable."""

    seconds: float | None
    sock: socket.socket | None = None


Next = After | Rest


class Task(Protocol):
    """Works in turns."""

    @property
    def is_slow(self) -> bool:
        """Whether its next turn may wait for a server that does not even answer."""
        ...

    @property
    def server(self) -> str:
        """Which server it talks to; empty where it does not know."""
        ...

    def turn(self) -> Next:
        """Work for about a second at most, but for what a server takes. Never raises."""
        ...

    def has_heard(self) -> bool:
        """Whether what its socket shows is work, or the end of the connection. Does not wait. Never raises."""
        ...
