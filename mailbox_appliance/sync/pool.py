"""The threads that talk to servers: a few, for any number of mailboxes, which take turns.

sync-watcher ... waits for what rests, and queues it     sync-1, sync-2 ... work, one turn at a time
sync-minder .... starts a spare thread when turns are late
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mailbox_appliance.sync.turns import After, Next, Rest, Task
from mailbox_appliance.sync.watcher import Watcher

log = logging.getLogger(__name__)

_AFTER_A_FAULT = 60.0
#: Seconds after which a turn is late: most likely its server is silent.
LATE = 2.0
_MOST_SPARE = 12  # threads


@dataclass
class _Turn:
    """A turn that is taken now. `is_wanted`: its task is to have another one."""

    is_slow: bool
    is_wanted: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.began >= LATE


class Pool:
    """Gives tasks their turns, one at a time each, the longest waiting first. May be called from any thread.

    Servers that do not answer hold nobody else up. At most half of the threads are with slow tasks: those that say so,
    those whose last turn was late, and those of a server that keeps another one waiting, unless it has just answered
    them. When turns are late all the same, others have a spare thread for each of these, up to as many again.
    """

    def __init__(self, size: int) -> None:
        self._size, self._watcher = size, Watcher()
        lock = threading.Lock()
        self._changed, self._crowded = threading.Condition(lock), threading.Condition(lock)
        self._queue: deque[Task] = deque()
        self._running: dict[Task, _Turn] = {}
        #: Tasks whose last turn was late, and those that wait and whose server has just answered.
        self._stalled: set[Task] = set()
        self._answering: set[Task] = set()
        self._threads: list[threading.Thread] = []
        self._minder: threading.Thread | None = None
        self._watch_thread: threading.Thread | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin; before the first task is submitted."""
        self._watcher.open()
        self._watch_thread = self._start_thread(self._watch, "sync-watcher")

    def submit(self, task: Task, *, is_heard: bool = False) -> None:
        """Give a task a turn soon, also when it rests; one that has its turn gets another.

        `is_heard`: its server has just shown that it answers.
        """
        with self._changed:
            if task in self._running:
                self._running[task].is_wanted = True
            elif task in self._queue or self._watcher.release(task):
                self._enqueue(task, is_answering=is_heard)

    def stop(self, timeout: float) -> None:
        """End the threads, each after the turn that it is at; waits so many seconds for all of them.

        Then it stops watching, for which it waits as long again at most.
        """
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
            self._watch_thread.join(timeout)
            if not self._watch_thread.is_alive():
                self._watcher.close()

    def _watch(self) -> None:
        while not self._watcher.is_stopped:
            try:
                for task, is_heard in self._watcher.wait():
                    self.submit(task, is_heard=is_heard)
            except Exception:
                log.exception("the watcher of sync met a fault of ours")
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
        self._changed.notify()
        self._crowded.notify()

    def _start_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def _thread_limit(self) -> int:
        """How many turns there may be at once."""
        late = sum(turn.is_late for turn in self._running.values())
        return self._size + min(late, self._size, _MOST_SPARE)

    def _watch_lateness(self) -> None:
        """See that others have their turns when some are late."""
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
                log.exception("a turn of sync failed")
                after = Rest(_AFTER_A_FAULT)
            with self._changed:
                self._put_back(task, after, self._running.pop(task))
                self._changed.notify()

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
        return None

    def _put_back(self, task: Task, after: Next, turn: _Turn) -> None:
        (self._stalled.add if turn.is_late and after is not After.ENDED else self._stalled.discard)(task)
        if after is After.ENDED or self._is_stopped:
            return
        if isinstance(after, Rest) and not turn.is_wanted:
            self._watcher.watch(task, after)
        else:
            self._enqueue(task, is_answering=not turn.is_late)
