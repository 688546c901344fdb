"""Limits on requests that wait or hash passwords, so that at least one worker thread is always left for reading.

Of 8 workers, with the default settings:

- at most 4 wait for other servers; remote sign-ins that wait for a slot to hash may also occupy free ones of these
- at most 3 hash passwords, one of which is reserved for sign-ins from this computer
- at least 1 answers requests that only read
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

# Remote sign-ins that may wait to be hashed, even if more workers are free. A hash takes some hundredths of a second.
_MAX_QUEUED = 4
#: Seconds for which a remote sign-in waits at most.
HASHING_WAIT_SECONDS = 1.0


class WorkerLimits:
    """Counts the requests that occupy a worker while they wait or hash a password, and limits them."""

    def __init__(self, workers: int, waiting: int, patience: float = HASHING_WAIT_SECONDS) -> None:
        # At least one worker is left for reading, whatever the settings are.
        self._most_waiting = min(waiting, workers - 1)
        # One more is left for reading beside those that wait for servers.
        self._most_hashing = max(1, workers - waiting - 1)
        # A burst of remote sign-ins must not block a sign-in on this computer.
        self._most_remote = max(1, self._most_hashing - 1)
        self.patience = patience
        self._changed = threading.Condition()
        #: The number of requests that wait for other servers now.
        self.waiting = 0
        self._hashing = self._hashing_remote = self._queued_local = 0
        self._queue: deque[object] = deque()

    @contextmanager
    def slot_for_io(self) -> Iterator[bool]:
        """Context manager: try to take a slot for a request that waits for other servers, until the block ends. Yields
        whether a slot was free.

        If too few workers are left after that, the remote sign-in that queued last for hashing stops waiting.
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
        """Context manager: wait for a slot to hash a password, and take it until the block ends. Yields whether a slot
        was taken.

        A remote caller waits only for a short time, and gets no slot after that. A caller on this computer (`is_local`)
        waits without a limit.
        """
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
        # Local callers without a password are rare and are refused quickly, so they may wait without a limit.
        with self._changed:
            self._queued_local += 1
            self._changed.notify_all()  # a remote caller gives way if needed
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
            self._changed.notify_all()  # another caller is next now
        return has_place

    def _is_next(self, ticket: object) -> bool:
        is_free = self._hashing < self._most_hashing and self._hashing_remote < self._most_remote
        return is_free and self._queue[0] is ticket

    def _must_give_way(self, ticket: object) -> bool:
        """Whether this remote sign-in must stop waiting, to leave workers for requests to other servers and local
        sign-ins.

        `ticket`: its entry in the queue. Those that came last must stop first.
        """
        room = min(_MAX_QUEUED, self._most_waiting - self.waiting - self._queued_local)
        return self._queue.index(ticket) >= room
