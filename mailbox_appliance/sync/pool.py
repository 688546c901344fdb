"""The threads that talk to servers: a few, for any number of mailboxes, which take turns."""

import logging
import threading
import time
from collections import deque

from mailbox_appliance.sync.turns import After, Next, Rest, Task
from mailbox_appliance.sync.watcher import Watcher

log = logging.getLogger(__name__)

_AFTER_A_FAULT = 60.0


class Pool:
    """Gives tasks their turns, one at a time each, the longest waiting first. May be called from any thread.

    At most half of the threads are with slow ones, so that servers which do not answer hold nobody else up.
    """

    def __init__(self, size: int, watcher: Watcher) -> None:
        self._size, self._watcher = size, watcher
        self._changed = threading.Condition()
        self._queue: deque[Task] = deque()
        self._running: dict[Task, bool] = {}  # and whether it is wanted again
        self._slow = 0
        self._threads: list[threading.Thread] = []
        self._is_stopped = False

    def submit(self, task: Task) -> None:
        """Give a task a turn soon, also when it rests; one that has its turn gets another."""
        with self._changed:
            if task in self._running:
                self._running[task] = True
            elif task not in self._queue:
                self._watcher.release(task)
                self._enqueue(task)

    def stop(self, timeout: float) -> None:
        """End the threads, each after the turn that it is at; waits so many seconds for all of them."""
        with self._changed:
            self._is_stopped = True
            self._queue.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _enqueue(self, task: Task) -> None:
        if self._is_stopped:
            return
        self._queue.append(task)
        idle = len(self._threads) - len(self._running)
        if idle < len(self._queue) and len(self._threads) < self._size:
            name = f"sync-{len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                taken = self._changed.wait_for(lambda: self._is_stopped or self._take(), None)
                if self._is_stopped or not isinstance(taken, tuple):
                    return
            task, is_slow = taken
            after = _turn(task)
            with self._changed:
                self._slow -= is_slow
                is_wanted = self._running.pop(task)
                self._place(task, after, is_wanted)
                if is_slow:
                    self._changed.notify()

    def _take(self) -> tuple[Task, bool] | None:
        for position, task in enumerate(self._queue):
            is_slow = task.is_slow
            if not is_slow or self._slow < max(1, self._size // 2):
                del self._queue[position]
                self._running[task] = False
                self._slow += is_slow
                return task, is_slow
        return None

    def _place(self, task: Task, after: Next, is_wanted: bool) -> None:
        if after is After.ENDED or self._is_stopped:
            return
        if isinstance(after, Rest) and not is_wanted:
            self._watcher.watch(task, after)
        else:
            self._enqueue(task)


def _turn(task: Task) -> Next:
    try:
        return task.turn()
    except Exception:
        log.exception("a turn of sync failed")
        return Rest(_AFTER_A_FAULT)
