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
        self._target: Served | None = None
        self._on_first_stop = begin_to_end
        #: Whether it was told to end.
        self.is_stopping = False
        self._may_hang_up = _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN and _has_terminal()
        signal.signal(signal.SIGTERM, self._on_stop)
        if _BREAK is not None:
            signal.signal(_BREAK, self._on_stop)
        system.when_told_to_end(lambda: _thread.interrupt_main(signal.SIGTERM))
        if _HANG_UP is not None:
            signal.signal(_HANG_UP, self._on_hang_up)

    @property
    def has_target(self) -> bool:
        """Whether somebody is told, who ends in order."""
        return self._target is not None

    def forward_to(self, service: Served) -> None:
        """From now on this one is told."""
        self._target = service
        signal.signal(signal.SIGINT, self._on_stop)
        if self.is_stopping:  # what it raised was lost on its way, as in a callback of a library's
            service.stop()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls it
        was_ended, self.is_stopping = self.is_stopping, True
        self._on_first_stop()
        if self._target is not None:
            self._target.stop()
        elif not was_ended:  # the second one leaves alone what tidies up after the first
            raise Ended

    def _on_hang_up(self, number: int, frame: FrameType | None) -> None:
        if self._may_hang_up and not _has_terminal():
            self._on_stop(number, frame)
        elif self._target is not None:
            self._target.reload()


def _has_terminal() -> bool:
    """Whether there is a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True
