"""Stopping the appliance in the background, and a watchdog that kills the process if stopping takes too long."""

import logging
import os
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from mailbox_appliance.appliance import Appliance

log = logging.getLogger(__name__)

# Seconds for what is under way: sends, of which longer ones become uncertain; and whoever still reads.
_STOP_SECONDS, _CLOSE_SECONDS = 20.0, 30.0


def shut_down_in_background(appliance: Appliance) -> Future[bool]:
    """Stop an appliance and close its files, in a thread of its own, so that who waits may have to do something else.

    The result: whether the files are closed. Else somebody still has one open.
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


# --- The watchdog, for a disk that does not answer, say. The store survives any end of the process ---


#: Seconds after which the process ends, whatever does not: closing gives up before.
KILL_AFTER = 9.6
_LOG_SECONDS = 0.2


class ShutdownWatchdog:
    """Watches from the moment it is made, in a thread of its own: one that hangs need not be able to act."""

    def __init__(self, within: float = KILL_AFTER) -> None:
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
            saying.join(_LOG_SECONDS)
            os._exit(0)
