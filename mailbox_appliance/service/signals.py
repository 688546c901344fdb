"""Signals that stop or reload the service, and the state that systemd is told (sd_notify(3)).

              before it serves            while it serves
SIGTERM       it ends: nothing is left     what is in flight is answered, then it ends
SIGBREAK      the same: CTRL_BREAK of      the same
              Windows
SIGINT        as Python has it             the same
SIGHUP        nothing: it reads its        configuration, certificate and log files are taken up anew;
              configuration anyway         as SIGTERM where its terminal has gone, unless nohup said otherwise

On Windows no signal reaches a process without a console: there, the event of `files.request_end` counts as SIGTERM.
"""

import _thread
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Protocol

from mailbox_appliance.model.backups import Progress
from mailbox_appliance.system import files

# What Windows has not, and what it alone has.
_HANG_UP, _BREAK = getattr(signal, "SIGHUP", None), getattr(signal, "SIGBREAK", None)


class SignalTarget(Protocol):
    """What is told; from a signal handler, so at any moment of the main thread's."""

    def stop(self) -> None:
        """It is to end."""

    def reload(self) -> None:
        """It is to take up its configuration anew."""


class StoppedBeforeStart(BaseException):
    """It was told to end before it served."""


class SignalHandler:
    """Listens from the moment it is made. For the main thread."""

    def __init__(self, begin_to_end: Callable[[], None] = lambda: None) -> None:
        """`begin_to_end` is told of the first word that it is to end, whatever is done then; from a signal handler."""
        self._target: SignalTarget | None = None
        self._on_first_stop = begin_to_end
        #: Whether it was told to end.
        self.is_stopping = False
        self._may_hang_up = _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN and _has_terminal()
        signal.signal(signal.SIGTERM, self._on_stop)
        if _BREAK is not None:
            signal.signal(_BREAK, self._on_stop)
        files.on_end_request(lambda: _thread.interrupt_main(signal.SIGTERM))
        if _HANG_UP is not None:
            signal.signal(_HANG_UP, self._on_hang_up)

    @property
    def has_target(self) -> bool:
        """Whether somebody is told, who ends in order."""
        return self._target is not None

    def forward_to(self, service: SignalTarget) -> None:
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
            raise StoppedBeforeStart

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


# --- The state for systemd (sd_notify(3)); without `Type=notify` nothing is sent ---


#: Seconds that a start may take from each sign of progress on, and between two of them.
_START_SECONDS, _EXTEND_EVERY = 60, 10
_SEND_SECONDS = 1.0


def notify_ready() -> None:
    """It answers; a reload is over."""
    _notify_systemd("READY=1")


def notify_reloading() -> None:
    """It takes up its configuration anew."""
    _notify_systemd("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def notify_stopping() -> None:
    """It ends."""
    _notify_systemd("STOPPING=1")


def extend_start_timeout(tell: Progress | None) -> Progress:
    """Progress of an upgrade that tells this one as well, and keeps the start from being given up as too slow."""
    told_at = 0.0

    def progress(step: str, done: int, total: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > _EXTEND_EVERY:
            told_at = time.monotonic()
            _notify_systemd(f"EXTEND_TIMEOUT_USEC={_START_SECONDS * 1_000_000}")
        if tell is not None:
            tell(step, done, total)

    return progress


def _notify_systemd(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return
    place = "\0" + address[1:] if address.startswith("@") else address
    # Whoever does not listen, or not any more, is not told.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        teller.settimeout(_SEND_SECONDS)
        teller.sendto("\n".join(lines).encode(), place)
