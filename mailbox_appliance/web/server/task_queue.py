"""The queue of requests that wait for a worker, with a limit for those that may take seconds."""

import sys
import threading
from collections import deque
from typing import Any

#: Reading a body can mean analyzing HTML of a hostile sender.
_SLOW_PATHS = ("/body", "/body/")


class TaskQueue:
    """Requests that wait for a worker, oldest first. It replaces the queue of Waitress's dispatcher, and the lock of
    the dispatcher protects it.

    Requests for the body of a message are slow: analyzing a hostile mail can take seconds. At most `most_slow` of them
    run at once. Further slow requests wait without occupying a worker, while newer requests of other kinds are
    answered.
    """

    def __init__(self, most_slow: int, changed: threading.Condition) -> None:
        """Create an empty queue. `most_slow`: the maximum number of slow requests that run at once. `changed`: the
        dispatcher's condition, on which idle workers wait.
        """
        self._most_slow, self._changed = most_slow, changed
        self._slow_at_work = self._count = 0
        self._quick: deque[tuple[int, Any]] = deque()
        self._slow: deque[tuple[int, Any]] = deque()

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._quick) + len(self._slow)

    def __bool__(self) -> bool:
        """Whether a request may start now. Slow requests over the limit do not count."""
        return bool(self._quick) or self._may_take_slow()

    def append(self, task: Any) -> None:
        """Queue a connection (`task`), so that a worker answers its oldest request. The path of that request decides
        whether it counts as slow.
        """
        self._count += 1
        (self._slow if _is_slow(task) else self._quick).append((self._count, task))

    def popleft(self) -> Any:
        """Remove and return the oldest request that may start now. Raises IndexError if there is none."""
        if self._may_take_slow() and (not self._quick or self._slow[0] < self._quick[0]):
            self._slow_at_work += 1
            return _SlowTask(self, self._slow.popleft()[1])
        return self._quick.popleft()[1]

    def end_slow(self) -> None:
        """Record that a slow request was answered, so that the next one can start."""
        with self._changed:
            self._slow_at_work -= 1
            self._changed.notify()

    def lift_limit(self) -> None:
        """End the limit of slow requests, because the server stops. Then no request waits any more, and every worker
        can end.
        """
        self._most_slow = sys.maxsize

    def _may_take_slow(self) -> bool:
        return bool(self._slow) and self._slow_at_work < self._most_slow


class _SlowTask:
    """A request for the body of a message. The queue counts it while a worker answers it."""

    def __init__(self, queue: TaskQueue, task: Any) -> None:
        self._queue, self._task = queue, task

    def service(self) -> None:
        """Answer the request."""
        try:
            self._task.service()
        finally:
            self._queue.end_slow()

    def cancel(self) -> None:
        """Drop the request when the server stops."""
        self._task.cancel()


def _is_slow(task: Any) -> bool:
    return any(
        str(getattr(request, "path", "")).endswith(_SLOW_PATHS) for request in list(getattr(task, "requests", ()))[:1]
    )
