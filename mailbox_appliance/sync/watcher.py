"""Watches over everything that rests: the sockets of connections in IDLE, and when a rest is over."""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from mailbox_appliance.sync.turns import Rest, Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _WatchEntry:
    until: float | None
    sock: socket.socket | None


class Watcher:
    """Watches tasks, and returns each that has something to do. One thread waits; others may call the rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: dict[Task, _WatchEntry] = {}
        #: Those that are being asked what they heard, with nothing locked, and whether they are wanted meanwhile.
        self._asked: dict[Task, bool] = {}
        self.is_stopped = False

    def open(self) -> None:
        """Open what `wait` waits on; before anything is to be watched."""
        self._selector = selectors.DefaultSelector()
        self._woken, self._signal = socket.socketpair()
        for end in (self._woken, self._signal):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def stop(self) -> None:
        """End the waiting, and forget whatever rests."""
        with self._lock:
            self.is_stopped = True
        self._wake()

    def close(self) -> None:
        """Close what `open` opened, once nobody waits any more."""
        self._selector.close()
        self._woken.close()
        self._signal.close()

    def wait(self) -> Iterator[tuple[Task, bool]]:
        """Wait until tasks have something to do, or somebody calls; yield these tasks, which are no longer watched.

        With each: whether it was heard, rather than that its time is up. Nothing is locked meanwhile.
        """
        ready = [key.data for key, _ in self._selector.select(self._find_timeout())]
        if None in ready:
            self._drain_wakes()
        for task in self._collect_heard(ready):
            yield task, True
        for task in self._collect_expired():
            yield task, False

    def watch(self, task: Task, rest: Rest) -> None:
        """Watch over the rest of a task; from now on it is the watcher's."""
        until = None if rest.seconds is None else time.monotonic() + rest.seconds
        with self._lock:
            if self.is_stopped:
                return
            self._watch(task, _WatchEntry(until, rest.sock))
        self._wake()

    def _watch(self, task: Task, resting: _WatchEntry) -> None:
        self._resting[task] = resting
        if resting.sock is not None:
            self._selector.register(resting.sock, selectors.EVENT_READ, task)

    def release(self, task: Task) -> bool:
        """Watch this task no longer. False: it is being asked what it heard; `wait` yields it right after that."""
        with self._lock:
            if task in self._asked:
                self._asked[task] = True
                return False
            self._release(task)
            return True

    def _release(self, task: Task) -> _WatchEntry | None:
        resting = self._resting.pop(task, None)
        if resting is not None and resting.sock is not None and not self.is_stopped:
            self._selector.unregister(resting.sock)
        return resting

    def _find_timeout(self) -> float | None:
        with self._lock:
            ends = [resting.until for resting in self._resting.values() if resting.until is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _collect_heard(self, ready: list[Task | None]) -> list[Task]:
        """Those of the tasks that heard of work, or are wanted; they are released."""
        with self._lock:
            # Others were released while we were looking: their sockets are somebody else's now.
            resting = {task: found for task in ready if task is not None and (found := self._release(task)) is not None}
            self._asked = dict.fromkeys(resting, False)
        heard = {task for task in resting if _has_heard(task)}  # which takes its time when a server says very much
        with self._lock:
            asked, self._asked = self._asked, {}
            for task in resting.keys() - heard:
                if not asked[task] and not self.is_stopped:
                    self._watch(task, resting[task])
        return [task for task in resting if task in heard or asked[task]]

    def _collect_expired(self) -> list[Task]:
        """The tasks whose time is up; they are released."""
        now = time.monotonic()
        with self._lock:
            over = [task for task, rest in self._resting.items() if rest.until is not None and rest.until <= now]
            for task in over:
                self._release(task)
        return over

    def _wake(self) -> None:
        try:
            self._signal.send(b"!")
        except OSError:  # full: it will wake anyway; closed: it has ended
            pass

    def _drain_wakes(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except OSError:  # nothing more to read
            pass


def _has_heard(task: Task) -> bool:
    try:
        return task.has_heard()
    except Exception:
        log.exception("a task of sync cannot be asked")
        return True
