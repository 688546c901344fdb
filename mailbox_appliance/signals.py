"""What signals mean to a process that serves, from its start to its end.

              before it serves            while it serves
SIGTERM       it ends: nothing is left     what is in flight is answered, then it ends
SIGBREAK      the same: CTRL_BREAK of      the same
              Windows
SIGINT        as Python has it             the same
SIGHUP        nothing: it reads its        configuration, certificate and log files are taken up anew;
              configuration anyway         as SIGTERM where its terminal has gone, unless nohup said otherwise

On Windows no signal reaches a process without a console: what `system.tell_to_end` says there counts as SIGTERM.
"""

import _thread
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from mailbox_appliance import system

# What Windows has not, and what it alone has.
_HANG_UP, _BREAK = getattr(signal, "SIGHUP", None), getattr(signal, "SIGBREAK", None)


class Served(Protocol):
    """What is told; from a signal handler, so at any moment of the main thread's."""

    def stop(self) -> None:
        """It is to end."""

    def reload(self) -> None:
        """It is to take up its configuration anew."""


class Ended(BaseException):
    """It was told to end before it served."""


class Signals:
    """Listens from the moment it is made. For the main thread."""

    def __init__(self, begin_to_end: Callable[[], None] = lambda: None) -> None:
        """`begin_to_end` is told of the first word that it is to end, whatever is done then; from a signal handler."""
        self._service: Served | None = None
        self._begin_to_end = begin_to_end
        #: Whether it was told to end.
        self.is_ended = False
        self._may_hang_up = _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN and _has_terminal()
        signal.signal(signal.SIGTERM, self._end)
        if _BREAK is not None:
            signal.signal(_BREAK, self._end)
        system.when_told_to_end(lambda: _thread.interrupt_main(signal.SIGTERM))
        if _HANG_UP is not None:
            signal.signal(_HANG_UP, self._hang_up)

    @property
    def has_service(self) -> bool:
        """Whether somebody is told, who ends in order."""
        return self._service is not None

    def hand_to(self, service: Served) -> None:
        """From now on this one is told."""
        self._service = service
        signal.signal(signal.SIGINT, self._end)
        if self.is_ended:  # what it raised was lost on its way, as in a callback of a library's
            service.stop()

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls it
        was_ended, self.is_ended = self.is_ended, True
        self._begin_to_end()
        if self._service is not None:
            self._service.stop()
        elif not was_ended:  # the second one leaves alone what tidies up after the first
            raise Ended

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        if self._may_hang_up and not _has_terminal():
            self._end(number, frame)
        elif self._service is not None:
            self._service.reload()


def _has_terminal() -> bool:
    """Whether there is a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True
