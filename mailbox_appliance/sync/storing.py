"""Store fetched messages on a thread of its own, while the next ones are fetched.

    StoringThread.submit .. queues work; the thread starts on first use, and ends when it is idle
    StoringTask.result .... waits for the work, and returns its result or raises its error

One thread suffices for all mailboxes, since only one thread at a time may write to the store. A caller that has tasks
under way must wait for them before it reads from the store what they write.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

IDLE = 10.0  # Seconds without work after which the thread ends.


class StoringTask(Generic[T]):
    """Work that was queued for the storing thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._ended = threading.Event()
        self._result: T
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether the work is done, or has failed."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Wait until the work is done, or has failed."""
        self._ended.wait()

    def run(self) -> None:
        """Do the work. Never raises: `result` reports its error."""
        assert self._work is not None  # noqa: S101 - each task runs once
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is expected
            self._error = error
        finally:
            self._work = None  # the raw messages
            self._ended.set()

    def result(self) -> T:
        """Wait until the work is done, and return its result. Raises what the work raised."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result


class StoringThread:
    """A thread that does one task after the other, in the order of `submit`. Any thread may use it."""

    def __init__(self, *, idle: float = IDLE) -> None:
        self._idle = idle
        self._changed = threading.Condition()
        self._queue: deque[StoringTask[object]] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, work: Callable[[], T]) -> StoringTask[T]:
        """Queue work. After `close`, it is done at once by the caller's thread."""
        task = StoringTask(work)
        with self._changed:
            is_open = not self._is_closed
            if is_open:
                self._queue.append(task)  # type: ignore[arg-type]
                self._changed.notify()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="sync-storing", daemon=True)
                    self._thread.start()
        if not is_open:
            task.run()
        return task

    def close(self, within: float = 5.0) -> None:
        """Finish the queued tasks, and end the thread. `within`: seconds to wait for it."""
        with self._changed:
            self._is_closed = True
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(within)

    def _run(self) -> None:
        while (task := self._take()) is not None:
            task.run()
            del task  # A waiting thread holds no messages.

    def _take(self) -> StoringTask[object] | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._is_closed, self._idle)
            if not self._queue:
                self._thread = None
                return None
            return self._queue.popleft()
