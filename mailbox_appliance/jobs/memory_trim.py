"""Gives memory back to the system after large work: a large message, a file, a restore.

glibc keeps what was freed, for each thread, in case it is wanted again: ten messages of 25 MiB left 600 MB that nobody
used. `malloc_trim(3)` gives it back. It takes a few milliseconds without the GIL, so it runs only after such work, and
only once in `PAUSE` seconds.
"""

import threading

from mailbox_appliance.events import Events, LargeWorkEnded
from mailbox_appliance.system import files

#: Seconds between the end of large work and the trim: what comes meanwhile is trimmed with it.
PAUSE = 2.0


class MemoryTrimmer:
    """Trims on a thread of its own, which sleeps while there is no large work."""

    def __init__(self, events: Events) -> None:
        self._stopping, self._noticed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        events.subscribe(LargeWorkEnded, lambda _: self._noticed.set())

    def start(self) -> None:
        """Begin, where the C library has something to give back."""
        if files.can_trim_memory():
            self._thread = threading.Thread(target=self._run, name="memory-trimmer", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """Trim no more."""
        self._stopping.set()
        self._noticed.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while self._noticed.wait() and not self._stopping.wait(PAUSE):
            self._noticed.clear()
            files.trim_memory()
