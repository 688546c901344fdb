"""Runs a task repeatedly on a thread of its own. A failure is logged, and the next run follows as usual."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class PeriodicTask:
    """A thread that runs a function, then waits a fixed time before the next run."""

    def __init__(self, name: str, look: Callable[[], None], every: float, *, at_once: bool = True) -> None:
        """`name`: of the thread. `look`: the function to run. `every`: the seconds between two runs. `at_once`: whether
        the first run is immediate, not after `every` seconds.
        """
        self._name, self._task, self._every, self._at_once = name, look, every, at_once
        self._stopping, self._wakeup = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called; a long run should check this and end early."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Start no further run, and wait up to `timeout` seconds for a run in progress."""
        self._stopping.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def wake(self) -> None:
        """Start the next run as soon as possible, without waiting for the usual interval."""
        self._wakeup.set()

    def _loop(self) -> None:
        if not self._at_once:
            self._wakeup.wait(self._every)
        while not self._stopping.is_set():
            self._wakeup.clear()  # first, so that a wake during the run is not lost
            try:
                self._task()
            except Exception:  # such as a full disk or a damaged page; the next run tries again
                if not self._stopping.is_set():
                    log.exception("periodic_task_failed", extra={"what": self._name})
            if not self._stopping.is_set():
                self._wakeup.wait(self._every)
