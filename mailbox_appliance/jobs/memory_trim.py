"""Returns memory to the operating system after work that needed much of it: a large message, a file, a restore.

glibc keeps freed memory for each thread, in case it is needed again: ten messages of 25 MiB left 600 MB unused.
`malloc_trim(3)` returns it. It takes a few milliseconds without the GIL, so it runs only after such work, and at most
once in `PAUSE` seconds.
"""

import threading

from mailbox_appliance.events import Events, LargeWorkEnded
from mailbox_appliance.system import files

#: Seconds between the end of large work and the trim, which then covers large work in between too.
PAUSE = 2.0


class MemoryTrimmer:
    """Returns unused memory to the system after each event LargeWorkEnded, on a thread that sleeps in between."""

    def __init__(self, events: Events) -> None:
        self._stopping, self._noticed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        events.subscribe(LargeWorkEnded, lambda _: self._noticed.set())

    def start(self) -> None:
        """Start the thread, if the C library has `malloc_trim`."""
        if files.can_trim_memory():
            self._thread = threading.Thread(target=self._run, name="memory-trimmer", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop, and wait up to `timeout` seconds for the thread to end."""
        self._stopping.set()
        self._noticed.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while self._noticed.wait() and not self._stopping.wait(PAUSE):
            self._noticed.clear()
            files.trim_memory()
