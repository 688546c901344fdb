"""The threads that talk to mail servers. A few threads serve all mailboxes, each in turns of about a second.

sync-1, sync-2 ... run the turns of tasks (a task is the sync of one mailbox)
sync-watcher ..... watches the sockets of tasks that wait for their server, and queues a task that has work
sync-minder ...... starts a spare thread if turns take too long
"""

import heapq
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

# --- Tasks, and what comes after a turn ---
#
#     submit -> queued -> a thread of the pool: turn() -> AGAIN: queued
#                                                      -> Rest: with the watcher; heard, woken, or time is up: queued
#                                                      -> ENDED
#
# At any moment a task is in one of these places, and only the holder of that place may touch it.


class After(Enum):
    """Returned by a turn that does not end in a `Rest`: the task continues soon, or has ended."""

    AGAIN = "there is more to do; others first"
    ENDED = "it is over"


@dataclass(frozen=True)
class Rest:
    """Returned by a turn: the task waits for `seconds`, or until `sock` becomes readable or someone submits the task.

    `seconds`: None for no limit.
    """

    seconds: float | None
    sock: socket.socket | None = None


Next = After | Rest


class Task(Protocol):
    """Work that a thread does in turns of about a second, such as the sync of one mailbox."""

    @property
    def is_slow(self) -> bool:
        """Whether the next turn may have to wait for a server that does not answer."""
        ...

    @property
    def server(self) -> str:
        """The name of the server that the task talks to; empty if not known yet."""
        ...

    def turn(self) -> Next:
        """Work for about one second, plus the time that the server takes. Returns when to continue. Never raises."""
        ...

    def has_heard(self) -> bool:
        """Whether the server has sent something to act on, or closed the connection. Does not wait. Never raises."""
        ...


# --- The watcher: sockets of connections in IDLE, and the ends of rests ---


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _WatchEntry:
    until: float | None
    sock: socket.socket | None


class Watcher:
    """Watches the sockets and times of waiting tasks. One thread calls `wait`, any thread the other methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: dict[Task, _WatchEntry] = {}
        #: A heap of the ends of rests, with a number for their order. Rests that ended early are dropped in their time.
        self._ends: list[tuple[float, int, Task, _WatchEntry]] = []
        self._numbers = itertools.count()
        #: Tasks whose sockets are being read without a lock, and whether they are wanted at the same time.
        self._asked: dict[Task, bool] = {}
        self.is_stopped = False

    def open(self) -> None:
        """Create the selector with which `wait` watches sockets. Call it before `watch` and `wait`."""
        self._selector = selectors.DefaultSelector()
        #: Whether `wait` also watches sockets that are registered while it runs.
        self._notices_new_sockets = hasattr(selectors, "EpollSelector")
        self._woken, self._signal = socket.socketpair()
        for end in (self._woken, self._signal):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def stop(self) -> None:
        """Make `wait` return, and watch no task from now on."""
        with self._lock:
            self.is_stopped = True
        self._wake()

    def close(self) -> None:
        """Close the selector. Call it after the last `wait` has returned."""
        self._selector.close()
        self._woken.close()
        self._signal.close()

    def wait(self) -> Iterator[tuple[Task, bool]]:
        """Wait until tasks have work or their time is up. Yields each with whether its socket was readable.

        A yielded task is no longer watched. No lock is held during the wait.
        """
        ready = [key.data for key, _ in self._selector.select(self._find_timeout())]
        if None in ready:
            self._drain_wakes()
        for task in self._collect_heard(ready):
            yield task, True
        for task in self._collect_expired():
            yield task, False

    def watch(self, task: Task, rest: Rest) -> None:
        """Watch a task until its rest ends. Only after `wait` yields it, or `release`, may other code touch it."""
        until = None if rest.seconds is None else time.monotonic() + rest.seconds
        with self._lock:
            if self.is_stopped:
                return
            is_first = until is not None and (not self._ends or until < self._ends[0][0])
            self._watch(task, _WatchEntry(until, rest.sock))
        if is_first or not self._notices_new_sockets:
            self._wake()

    def _watch(self, task: Task, resting: _WatchEntry) -> None:
        self._resting[task] = resting
        if resting.until is not None:
            heapq.heappush(self._ends, (resting.until, next(self._numbers), task, resting))
        if resting.sock is not None:
            self._selector.register(resting.sock, selectors.EVENT_READ, task)

    def release(self, task: Task) -> bool:
        """Stop watching a task. Returns True if the caller may use the task now.

        Returns False if `wait` is just checking the task's socket. Then `wait` yields the task right afterwards.
        """
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
            return max(0.0, self._ends[0][0] - time.monotonic()) if self._ends else None

    def _collect_heard(self, ready: list[Task | None]) -> list[Task]:
        """Return the tasks that must run now, and stop watching them. `ready`: the tasks whose sockets are readable.

        A task of these must run if its server sent something, or if `release` was called for it during this check.
        """
        with self._lock:
            # Others were released during the wait: their sockets belong to someone else now.
            resting = {task: found for task in ready if task is not None and (found := self._release(task)) is not None}
            self._asked = dict.fromkeys(resting, False)
        heard = {task for task in resting if _has_heard(task)}  # This takes time if a server reports very much.
        with self._lock:
            asked, self._asked = self._asked, {}
            for task in resting.keys() - heard:
                if not asked[task] and not self.is_stopped:
                    self._watch(task, resting[task])
        return [task for task in resting if task in heard or asked[task]]

    def _collect_expired(self) -> list[Task]:
        """Stop watching, and return, the tasks whose time is up."""
        now, over = time.monotonic(), []
        with self._lock:
            while self._ends and self._ends[0][0] <= now:
                _, _, task, resting = heapq.heappop(self._ends)
                if self._resting.get(task) is resting:
                    self._release(task)
                    over.append(task)
        return over

    def _wake(self) -> None:
        try:
            self._signal.send(b"!")
        except OSError:  # Full: it will wake anyway. Closed: it has ended.
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
        log.exception("sync_task_error")
        return True


# --- The pool: its threads, and the turns they take ---


_AFTER_A_FAULT = 60.0
#: Seconds after which a turn is late, most likely because its server is silent.
LATE = 2.0
_MOST_SPARE = 12  # threads


@dataclass
class _Turn:
    """A turn that is running now. `is_wanted`: the task was submitted during this turn, so it must get another one."""

    is_slow: bool
    is_wanted: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.began >= LATE


class Pool:
    """Runs the turns of all tasks in a few threads: one turn of a task at a time, longest waiting first. Thread-safe.

    Silent servers do not delay other mailboxes, because at most half of the threads work on slow tasks. A task is slow
    if

    - its `is_slow` is true,
    - its last turn was late, which means that it took longer than `LATE` seconds, or
    - its server keeps another turn late now.

    A task of the last two kinds is not slow if its server has just answered. If turns are late anyway, the pool starts
    a spare thread for each, up to the usual number of threads.
    """

    def __init__(self, size: int) -> None:
        self._size, self._watcher = size, Watcher()
        lock = threading.Lock()
        self._changed, self._crowded = threading.Condition(lock), threading.Condition(lock)
        self._queue: deque[Task] = deque()
        self._running: dict[Task, _Turn] = {}
        #: Tasks whose last turn was late, and waiting tasks whose server has just answered.
        self._stalled: set[Task] = set()
        self._answering: set[Task] = set()
        self._threads: list[threading.Thread] = []
        self._minder: threading.Thread | None = None
        self._watch_thread: threading.Thread | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the watcher thread. Call it before the first `submit`."""
        self._watcher.open()
        self._watch_thread = self._start_thread(self._watch, "sync-watcher")

    def submit(self, task: Task, *, is_heard: bool = False) -> None:
        """Give a task a turn soon, even if it waits for its server. If a turn is running, the task gets another one.

        `is_heard`: its server has just answered, so the turn should not be slow.
        """
        with self._changed:
            if task in self._running:
                self._running[task].is_wanted = True
            elif task in self._queue or self._watcher.release(task):
                self._enqueue(task, is_answering=is_heard)

    def stop(self, timeout: float) -> None:
        """Stop all threads after their current turns. Waits about `timeout` seconds for all of them together."""
        with self._changed:
            self._is_stopped = True
            self._queue.clear()
            self._changed.notify_all()
            self._crowded.notify_all()
        deadline = time.monotonic() + timeout
        for thread in [*self._threads, *([self._minder] if self._minder else [])]:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._watch_thread is not None:
            self._watcher.stop()
            self._watch_thread.join(max(0.1, deadline - time.monotonic()))
            if not self._watch_thread.is_alive():
                self._watcher.close()

    def _watch(self) -> None:
        while not self._watcher.is_stopped:
            try:
                for task, is_heard in self._watcher.wait():
                    self.submit(task, is_heard=is_heard)
            except Exception:
                log.exception("sync_watcher_error")
                time.sleep(1)

    def _enqueue(self, task: Task, *, is_answering: bool) -> None:
        if self._is_stopped:
            return
        if task not in self._queue:
            self._queue.append(task)
        if is_answering:
            self._answering.add(task)
        self._wake_thread()

    def _wake_thread(self) -> None:
        idle = len(self._threads) - len(self._running)
        if idle < len(self._queue) and len(self._threads) < self._thread_limit():
            self._threads.append(self._start_thread(self._work, f"sync-{len(self._threads) + 1}"))
        self._minder = self._minder or self._start_thread(self._watch_lateness, "sync-minder")
        # An idle thread looks at the queue, and calls the minder if it must leave something there.
        (self._changed if idle > 0 else self._crowded).notify()

    def _start_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def _thread_limit(self) -> int:
        """The number of tasks that may be in their turn at once, with those in spare threads (see `Pool`)."""
        late = sum(turn.is_late for turn in self._running.values())
        return self._size + min(late, self._size, _MOST_SPARE)

    def _watch_lateness(self) -> None:
        """Start a spare thread when a turn becomes late while other tasks wait. Runs until the pool stops."""
        with self._crowded:
            while not self._is_stopped:
                ends = [turn.began + LATE for turn in self._running.values() if not turn.is_late]
                is_late = not self._crowded.wait(min(ends) - time.monotonic() if ends and self._queue else None)
                if is_late and self._queue and not self._is_stopped:
                    self._wake_thread()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._is_stopped and (task := self._take_task()) is None:
                    self._changed.wait()
                if self._is_stopped or task is None:
                    return
            after: Next
            try:
                after = task.turn()
            except Exception:
                log.exception("sync_turn_failed")
                after = Rest(_AFTER_A_FAULT)
            with self._changed:
                self._put_back(task, after, self._running.pop(task))

    def _take_task(self) -> Task | None:
        silent = {task.server for task, turn in self._running.items() if turn.is_late} - {""}
        slow, room = sum(turn.is_slow or turn.is_late for turn in self._running.values()), self._thread_limit()
        for position, task in enumerate(self._queue):
            is_stalled = task in self._stalled or task.server in silent
            is_slow = task.is_slow or (is_stalled and task not in self._answering)
            if len(self._running) < room and not (is_slow and slow >= max(1, self._size // 2)):
                del self._queue[position]
                self._answering.discard(task)
                self._running[task] = _Turn(is_slow)
                if self._queue:
                    self._wake_thread()
                return task
        if self._queue:
            self._crowded.notify()
        return None

    def _put_back(self, task: Task, after: Next, turn: _Turn) -> None:
        (self._stalled.add if turn.is_late and after is not After.ENDED else self._stalled.discard)(task)
        if after is After.ENDED or self._is_stopped:
            return
        if isinstance(after, Rest) and not turn.is_wanted:
            self._watcher.watch(task, after)
        else:
            self._enqueue(task, is_answering=not turn.is_late)
