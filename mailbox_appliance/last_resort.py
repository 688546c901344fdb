"""Ends the process where ending takes too long, say with a disk that does not answer: the store stands every end."""

import logging
import os
import threading
from queue import Empty, SimpleQueue

log = logging.getLogger(__name__)

#: Seconds after which the process ends, whatever does not: closing gives up before.
WITHIN = 9.6
_SAID_WITHIN = 0.2


class LastResort:
    """Watches from the moment it is made, in a thread of its own: one that hangs need not be able to act."""

    def __init__(self, within: float = WITHIN) -> None:
        self._within = within
        # What a signal handler may put something into at any moment.
        self._armed, self._canceled = SimpleQueue[None](), SimpleQueue[None]()
        threading.Thread(target=self._wait_and_kill, name="last-resort", daemon=True).start()

    def arm(self) -> None:
        """It is to end from now on; only the first time counts. For signal handlers as well."""
        self._armed.put(None)

    def cancel(self) -> None:
        """It has ended in order."""
        self._canceled.put(None)
        self._armed.put(None)

    def _wait_and_kill(self) -> None:
        self._armed.get()
        try:
            self._canceled.get(timeout=self._within)
        except Empty:
            # The log may be what hangs: its disk, or a pipe that nobody reads.
            saying = threading.Thread(
                target=log.warning, args=("it did not end in time, so it was ended",), daemon=True
            )
            saying.start()
            saying.join(_SAID_WITHIN)
            os._exit(0)
