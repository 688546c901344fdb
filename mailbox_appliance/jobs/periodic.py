"""A task that runs again and again on a thread of its own; a failure is logged, and the next run follows."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class PeriodicTask:
    """A thread that looks, and waits so many seconds before it looks again."""

    def __init__(self, name: str, look: Callable[[], None], every: float, *, at_once: bool = True) -> None:
        """`at_once`: the first look is not waited for."""
        self._name, self._task, self._every, self._at_once = name, look, every, at_once
        self._stopping, self._wakeup = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether it is to end: a look that takes long may ask."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Look no more; a look that is under way is waited for so many seconds."""
        self._stopping.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def wake(self) -> None:
        """Look as soon as may be: there is news."""
        self._wakeup.set()

    def _loop(self) -> None:
        if not self._at_once:
            self._wakeup.wait(self._every)
        while not self._stopping.is_set():
            self._wakeup.clear()  # first, so that news of now is not lost
            try:
                self._task()
            except Exception:  # a full disk, a damaged page, say: it is looked at again
                if not self._stopping.is_set():
                    log.exception("periodic_task_failed", extra={"what": self._name})
            if not self._stopping.is_set():
                self._wakeup.wait(self._every)
