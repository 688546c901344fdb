"""The workers that answer requests, and the queue in which requests wait for them.

Python runs one thread at a time, and passing the turn between threads costs more than a small request. So usually one
worker answers all requests, one after another. Another one joins only while a request waits and every running one is
late. A late request most likely waits for the disk or for a server, or it is large.

    add_task -> queue -> the worker that was idle for the shortest time, if no request runs, or all of them are late
                      -> else a worker that has just answered a request, or the first one after a request became late
"""

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from mailbox_appliance.web.server.connection import READER_PATHS, QuietLogger

# --- The queue, with a limit for requests that may take seconds ---


#: Reading a body can mean analyzing HTML of a hostile sender.
_SLOW_PATHS = ("/body", "/body/")
_MOST_AHEAD = 3


class TaskQueue:
    """Requests that wait for a worker, oldest first. The lock of the pool protects it.

    Requests for the body of a message are slow: analyzing a hostile mail can take seconds. At most `most_slow` of them
    run at once. Further slow requests wait without occupying a worker, while newer requests of other kinds are
    answered.

    Requests for events come in bursts: an event goes to all who wait, and each asks for the next one. So requests
    of other kinds go first; after `_MOST_AHEAD` of them, one for events is next.
    """

    def __init__(self, most_slow: int) -> None:
        """Create an empty queue. `most_slow`: the maximum number of slow requests that run at once."""
        self._most_slow = most_slow
        self._count = 0
        self._quick: deque[tuple[int, Any]] = deque()
        self._slow: deque[tuple[int, Any]] = deque()
        self._slow_at_work = 0
        self._told: deque[tuple[int, Any]] = deque()  # requests for events that have waited, and are now answered
        self._asking: deque[tuple[int, Any]] = deque()  # new ones
        self._ahead = 0  # requests of other kinds that went first in sequence

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._quick) + len(self._slow) + len(self._told) + len(self._asking)

    def __bool__(self) -> bool:
        """Whether a request may start now. Slow requests over the limit do not count."""
        return bool(self._quick or self._told or self._asking) or self._may_take_slow()

    def append(self, task: Any) -> None:
        """Queue a connection (`task`), so that a worker answers its oldest request. The path of that request decides
        of which kind it is.
        """
        self._count += 1
        self._queue_of(task).append((self._count, task))

    def popleft(self) -> Any:
        """Remove and return the oldest request that may start now. Raises IndexError if there is none."""
        if not (self._quick or self._may_take_slow()) or self._ahead >= _MOST_AHEAD:
            self._ahead = 0
            return (self._told or self._asking).popleft()[1]
        self._ahead = self._ahead + 1 if self._told or self._asking else 0
        if self._may_take_slow() and (not self._quick or self._slow[0] < self._quick[0]):
            self._slow_at_work += 1
            return _SlowTask(self._slow.popleft()[1])
        return self._quick.popleft()[1]

    def end(self, task: Any) -> None:
        """Record that a request was answered. If it was slow, the next slow one can start."""
        self._slow_at_work -= isinstance(task, _SlowTask)

    def clear(self) -> list[Any]:
        """Remove and return all waiting requests."""
        waiting = [
            task for _, task in sorted((*self._quick, *self._slow, *self._told, *self._asking), key=lambda one: one[0])
        ]
        for queue in (self._quick, self._slow, self._told, self._asking):
            queue.clear()
        return waiting

    def _queue_of(self, task: Any) -> deque[tuple[int, Any]]:
        request = next(iter(list(getattr(task, "requests", ()))), None)
        path = str(getattr(request, "path", ""))
        if path.endswith(READER_PATHS):
            return self._asking if getattr(request, "hold", None) is None else self._told
        return self._slow if path.endswith(_SLOW_PATHS) else self._quick

    def _may_take_slow(self) -> bool:
        return bool(self._slow) and self._slow_at_work < self._most_slow


class _SlowTask:
    """A request for the body of a message, as the queue returns it."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def service(self) -> None:
        """Answer the request."""
        self._task.service()


# --- The pool ---


#: Seconds after which a running request is late, so that it does not delay waiting requests any longer.
LATE = 0.002
#: The number of requests that run at once while none is late.
_MOST_PROMPT = 1


class WorkerPool:
    """The threads that answer the requests of all listeners.

    The loops of the listeners call `check_lateness` while requests wait, so no thread is needed for that.
    """

    logger = QuietLogger()

    def __init__(self, most_slow: int) -> None:
        """Create a pool without threads. `most_slow`: the maximum number of workers that read bodies of mail at
        once.
        """
        self._lock = threading.Lock()
        self._queue = TaskQueue(most_slow)
        #: A locked lock for each idle worker, the last one to become idle at the end: its caches are the warmest.
        self._idle: list[threading.Lock] = []
        self._called = 0  # workers that were woken and have not started yet
        self._running: dict[threading.Lock, float] = {}  # by worker: the monotonic time at which its request started
        self._threads: list[threading.Thread] = []
        self._is_stopped = False

    @property
    def busy_count(self) -> int:
        """The number of requests that are being answered. Takes no lock."""
        return len(self._running)

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait for a worker. Takes no lock."""
        return len(self._queue)

    def start(self, count: int) -> None:
        """Start `count` workers."""
        for number in range(count):
            thread = threading.Thread(target=self._work, name=f"web-worker-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def add_task(self, task: Any) -> None:
        """Queue a connection (`task`), so that a worker answers its oldest request."""
        with self._lock:
            self._queue.append(task)
            self._wake_if_possible()

    def check_lateness(self) -> float | None:
        """Wake another worker if requests wait and all running ones are late.

        Returns the seconds after which to call this again; None if no request waits that could start then.
        """
        if not self._queue:
            return None
        with self._lock:
            self._wake_if_possible()
            return self._until_late(has_worker=bool(self._idle))

    def stop(self, timeout: float) -> bool:
        """Let each worker finish its request, and drop the requests that wait. Returns whether all workers ended within
        `timeout` seconds.
        """
        with self._lock:
            self._is_stopped = True
            idle, self._idle = self._idle, []
            self._called += len(idle)
        for wake in idle:
            wake.release()
        has_ended = join_threads(self._threads, time.monotonic() + timeout)
        with self._lock:
            waiting = self._queue.clear()
        if not has_ended:
            self.logger.warning("%d thread(s) still running", sum(thread.is_alive() for thread in self._threads))
        if waiting:
            self.logger.warning("Canceling %d pending task(s)", len(waiting))
        for task in waiting:
            task.cancel()
        return has_ended

    def _work(self) -> None:
        wake = threading.Lock()
        wake.acquire()
        task: Any = None
        while (task := self._next_task(task, wake)) is not None:
            try:
                task.service()
            except BaseException:
                self.logger.exception("Exception when servicing %r", task)

    def _next_task(self, ended: Any, wake: threading.Lock) -> Any:
        """Return the next request for this worker; None if it must end. `ended`: the one that it has answered."""
        with self._lock:
            if ended is not None:
                del self._running[wake]
                self._queue.end(ended)
            while not self._is_stopped:
                if self._may_start():
                    task = self._queue.popleft()
                    self._running[wake] = time.monotonic()
                    return task
                self._wait(wake)
            return None

    def _wait(self, wake: threading.Lock) -> None:
        """Wait until this worker is called, or until waiting requests may start because a running one is late."""
        seconds = self._until_late(has_worker=True)
        self._idle.append(wake)
        self._lock.release()
        try:
            is_called = wake.acquire(timeout=-1 if seconds is None else seconds)
        finally:
            self._lock.acquire()
        if not is_called and wake in self._idle:
            self._idle.remove(wake)
            return
        if not is_called:  # called just after the time was up
            wake.acquire()
        self._called -= 1

    def _wake_if_possible(self) -> None:
        if self._idle and self._may_start():
            self._called += 1
            self._idle.pop().release()

    def _may_start(self) -> bool:
        return bool(self._queue) and self._called + len(self._prompt()) < _MOST_PROMPT

    def _until_late(self, *, has_worker: bool) -> float | None:
        """Return for how many seconds waiting requests cannot start; None if there are none, or no end is known.

        `has_worker`: whether a worker is free. A request that has just become late lets it start at once.
        """
        if self._queue and self._called:
            return LATE  # after which the called worker has started
        if not self._queue:
            return None
        if prompt := self._prompt():
            return max(0.0, min(prompt) + LATE - time.monotonic())
        return 0.0 if has_worker else None

    def _prompt(self) -> list[float]:
        """Return when the requests started that run now and are not late."""
        if not self._running:
            return []
        late = time.monotonic() - LATE
        return [began for began in self._running.values() if began > late]


def join_threads(threads: Iterable[threading.Thread], deadline: float) -> bool:
    """Wait for threads until `deadline`, a time of the monotonic clock. Returns whether all have ended."""
    alive = False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        alive = alive or thread.is_alive()
    return not alive
