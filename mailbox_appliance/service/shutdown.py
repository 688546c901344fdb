"""Stops the appliance in the background, and kills the process if that takes too long."""

import logging
import os
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from mailbox_appliance.appliance import Appliance

log = logging.getLogger(__name__)

# Seconds for work in progress (longer sends become uncertain), and then for threads that still read.
_STOP_SECONDS, _CLOSE_SECONDS = 20.0, 30.0


def shut_down_in_background(appliance: Appliance) -> Future[bool]:
    """Stop an appliance and close its files in a separate thread, and return at once.

    The future's result is True if all files are closed, False if a thread still has one open.
    """
    is_closed = Future[bool]()

    def shut_down() -> None:
        try:
            appliance.stop_workers(_STOP_SECONDS)
            is_closed.set_result(appliance.store.close_files(_CLOSE_SECONDS))
        except BaseException as failure:  # noqa: BLE001 - who waits is told
            is_closed.set_exception(failure)

    threading.Thread(target=shut_down, name="resting", daemon=True).start()
    return is_closed


# --- The watchdog, for example for a disk that does not respond. Ending the process abruptly is safe for the store ---


#: Seconds after which the process ends in any case. An orderly shutdown gives up before.
KILL_AFTER = 9.6
_LOG_SECONDS = 0.2


class ShutdownWatchdog:
    """A thread that kills the process if the shutdown takes longer than a time limit, even if the main thread is
    blocked.
    """

    def __init__(self, within: float = KILL_AFTER) -> None:
        self._within = within
        # A signal handler may put an item into these queues at any moment.
        self._armed, self._canceled = SimpleQueue[None](), SimpleQueue[None]()
        threading.Thread(target=self._wait_and_kill, name="last-resort", daemon=True).start()

    def arm(self) -> None:
        """Start the time limit, at the beginning of the shutdown. Only the first call counts.

        Safe in signal handlers.
        """
        self._armed.put(None)

    def cancel(self) -> None:
        """Stop the watchdog, since the shutdown is complete."""
        self._canceled.put(None)
        self._armed.put(None)

    def _wait_and_kill(self) -> None:
        self._armed.get()
        try:
            self._canceled.get(timeout=self._within)
        except Empty:
            # The log itself may hang: its disk, or a pipe that nobody reads.
            saying = threading.Thread(target=lambda: log.warning("shutdown_timeout"), daemon=True)
            saying.start()
            saying.join(_LOG_SECONDS)
            os._exit(0)
