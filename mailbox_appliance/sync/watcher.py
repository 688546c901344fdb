"""One thread that watches over everything that rests: the sockets of connections in IDLE, and when a rest is over."""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from mailbox_appliance.sync.turns import Rest, Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Resting:
    until: float | None
    sock: socket.socket | None


class Watcher:
    """Watches tasks, and hands each on that has something to do. May be called from any thread."""

    def __init__(self, has_work: Callable[[Task], None]) -> None:
        """`has_work` is called in the watcher's thread, with nothing locked, for a task it no longer watches."""
        self._has_work = has_work
        self._lock = threading.Lock()
        self._resting: dict[Task, _Resting] = {}
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="sync-watcher", daemon=True)

    def start(self) -> None:
        """Begin; before anything is to be watched."""
        self._selector = selectors.DefaultSelector()
        self._woken, self._signal = socket.socketpair()
        for end in (self._woken, self._signal):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End, and forget whatever rests."""
        with self._lock:
            self._is_stopped = True
        if self._thread.ident is None:
            return
        self._wake()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._selector.close()
            self._woken.close()
            self._signal.close()

    def watch(self, task: Task, rest: Rest) -> None:
        """Watch over the rest of a task; from now on it is the watcher's."""
        until = None if rest.seconds is None else time.monotonic() + rest.seconds
        with self._lock:
            if self._is_stopped:
                return
            self._resting[task] = _Resting(until, rest.sock)
            if rest.sock is not None:
                self._selector.register(rest.sock, selectors.EVENT_READ, task)
        self._wake()

    def release(self, task: Task) -> bool:
        """Give a task back, if it rests here; whether it did."""
        with self._lock:
            return self._release(task)

    def _release(self, task: Task) -> bool:
        resting = self._resting.pop(task, None)
        if resting is not None and resting.sock is not None and not self._is_stopped:
            self._selector.unregister(resting.sock)
        return resting is not None

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                ready = [key.data for key, _ in self._selector.select(self._left())]
                for task in self._due(ready):
                    self._has_work(task)
            except Exception:
                log.exception("the watcher of sync met a fault of ours")
                time.sleep(1)

    def _left(self) -> float | None:
        with self._lock:
            ends = [resting.until for resting in self._resting.values() if resting.until is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _due(self, ready: list[Task | None]) -> list[Task]:
        """The tasks with something to do, which are released."""
        if None in ready:
            self._forget_wakes()
        now = time.monotonic()
        with self._lock:
            # Released while we were looking: its socket is somebody else's now.
            heard = [task for task in ready if task in self._resting and task is not None and task.has_heard()]
            over = [
                task for task, resting in self._resting.items() if resting.until is not None and resting.until <= now
            ]
            due = list(dict.fromkeys([*heard, *over]))
            for task in due:
                self._release(task)
        return due

    def _wake(self) -> None:
        try:
            self._signal.send(b"!")
        except OSError:  # full: it will wake anyway; closed: it has ended
            pass

    def _forget_wakes(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except OSError:  # nothing more to read
            pass
