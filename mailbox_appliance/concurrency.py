"""Limits on requests that hold a worker while they wait, so that at least one worker is left for reading.

of 8 workers   4 wait for other servers; while these are free, remote log-ins wait there for a place to hash
               3 hash passwords, one of them for this computer only
               1 or more read
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

# Log-ins from elsewhere that wait to be hashed, whatever else is free: each waits for some hundredths of a second.
_MAX_QUEUED = 4
#: Seconds for which one of them waits at most.
HASHING_WAIT_SECONDS = 1.0


class WorkerLimits:
    """Counts who holds a worker, and says who may."""

    def __init__(self, workers: int, waiting: int, patience: float = HASHING_WAIT_SECONDS) -> None:
        # One at least is left for reading, whatever the settings say.
        self._most_waiting = min(waiting, workers - 1)
        # Beside those that wait for servers there is one left for reading still.
        self._most_hashing = max(1, workers - waiting - 1)
        # Nor does a crowd from elsewhere keep out who sits at this computer.
        self._most_remote = max(1, self._most_hashing - 1)
        self.patience = patience
        self._changed = threading.Condition()
        #: How many requests wait for other servers now.
        self.waiting = 0
        self._hashing = self._hashing_remote = self._queued_local = 0
        self._queue: deque[object] = deque()

    @contextmanager
    def slot_for_io(self) -> Iterator[bool]:
        """A place of those that wait for other servers; False where all are taken.

        A log-in that waits there for hashing gives way to it.
        """
        with self._changed:
            has_place = self.waiting < self._most_waiting
            self.waiting += has_place
            self._changed.notify_all()
        try:
            yield has_place
        finally:
            with self._changed:
                self.waiting -= has_place

    @contextmanager
    def slot_for_hashing(self, *, is_local: bool) -> Iterator[bool]:
        """A place of those that hash a password; False for one from elsewhere who would wait for too long."""
        has_place = self._wait_as_local() if is_local else self._wait_as_remote()
        try:
            yield has_place
        finally:
            if has_place:
                with self._changed:
                    self._hashing -= 1
                    self._hashing_remote -= not is_local
                    self._changed.notify_all()

    def _wait_as_local(self) -> bool:
        # Who knows no password does not come by often from here, and is refused soon.
        with self._changed:
            self._queued_local += 1
            self._changed.notify_all()  # somebody from elsewhere gives way, if it must be
            self._changed.wait_for(lambda: self._hashing < self._most_hashing)
            self._queued_local -= 1
            self._hashing += 1
        return True

    def _wait_as_remote(self) -> bool:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._is_next(ticket) or self._must_give_way(ticket), self.patience)
            has_place = self._is_next(ticket)
            self._queue.remove(ticket)
            self._hashing += has_place
            self._hashing_remote += has_place
            self._changed.notify_all()  # somebody else is the next one now
        return has_place

    def _is_next(self, ticket: object) -> bool:
        is_free = self._hashing < self._most_hashing and self._hashing_remote < self._most_remote
        return is_free and self._queue[0] is ticket

    def _must_give_way(self, ticket: object) -> bool:
        """Those who came last give way: to requests that wait for servers, and to this computer's log-ins."""
        room = min(_MAX_QUEUED, self._most_waiting - self.waiting - self._queued_local)
        return self._queue.index(ticket) >= room
