"""Requests that wait for a worker, in order, with a limit for those that may take seconds."""

import sys
import threading
from collections import deque
from typing import Any

#: Reading a body can mean analyzing HTML of a hostile sender.
_SLOW_PATHS = ("/body", "/body/")


class TaskQueue:
    """Replaces the deque of Waitress's dispatcher, whose lock guards it.

    At most `most_slow` requests for bodies are with workers at once. Further ones wait here without a worker while
    other requests pass them, so that reading hostile mail delays nothing else.
    """

    def __init__(self, most_slow: int, changed: threading.Condition) -> None:
        """`changed`: the dispatcher's condition, on which idle workers wait."""
        self._most_slow, self._changed = most_slow, changed
        self._slow_at_work = self._count = 0
        self._quick: deque[tuple[int, Any]] = deque()
        self._slow: deque[tuple[int, Any]] = deque()

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._quick) + len(self._slow)

    def __bool__(self) -> bool:
        """Whether a worker may take one."""
        return bool(self._quick) or self._may_take_slow()

    def append(self, task: Any) -> None:
        """Queue a request. A connection has one request in progress at a time, so its first one decides the kind."""
        self._count += 1
        (self._slow if _is_slow(task) else self._quick).append((self._count, task))

    def popleft(self) -> Any:
        """Remove and return the oldest request that may run now. Raises IndexError."""
        if self._may_take_slow() and (not self._quick or self._slow[0] < self._quick[0]):
            self._slow_at_work += 1
            return _SlowTask(self, self._slow.popleft()[1])
        return self._quick.popleft()[1]

    def end_slow(self) -> None:
        """Record that a slow request was answered, so that a worker can start the next one."""
        with self._changed:
            self._slow_at_work -= 1
            self._changed.notify()

    def lift_limit(self) -> None:
        """Let every request run, since the workers end and the remaining requests are canceled."""
        self._most_slow = sys.maxsize

    def _may_take_slow(self) -> bool:
        return bool(self._slow) and self._slow_at_work < self._most_slow


class _SlowTask:
    """A request for a body, counted while a worker has it."""

    def __init__(self, queue: TaskQueue, task: Any) -> None:
        self._queue, self._task = queue, task

    def service(self) -> None:
        """Answer the request."""
        try:
            self._task.service()
        finally:
            self._queue.end_slow()

    def cancel(self) -> None:
        """Drop the request; no worker is left for another one."""
        self._task.cancel()


def _is_slow(task: Any) -> bool:
    return any(
        str(getattr(request, "path", "")).endswith(_SLOW_PATHS) for request in list(getattr(task, "requests", ()))[:1]
    )
