"""Signals that stop or reload the service, and the state reported to systemd (sd_notify(3)).

              before it serves             while it serves
SIGTERM       ends; nothing is left over   finishes requests in progress, then ends
SIGBREAK      as SIGTERM (CTRL_BREAK on    as SIGTERM
              Windows)
SIGINT        Python's default             as SIGTERM
SIGHUP        ignored: the configuration   reloads configuration, certificate and log files;
              is read anyway               as SIGTERM if its terminal has closed, except under nohup

On Windows no signal reaches a process without a console. There, `files.request_end` in another process counts as
SIGTERM.
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

# Signals that Windows does not have, and one that only Windows has.
_HANG_UP, _BREAK = getattr(signal, "SIGHUP", None), getattr(signal, "SIGBREAK", None)


class SignalTarget(Protocol):
    """An object that signals stop or reload.

    Its methods run in a signal handler, that is, at any point of the main thread.
    """

    def stop(self) -> None:
        """Begin to stop the service."""

    def reload(self) -> None:
        """Reload the configuration of the service."""


class StoppedBeforeStart(BaseException):
    """Raised if a stop signal arrives before the service is ready."""


class SignalHandler:
    """Handles the process's signals from its creation on. Only for the main thread."""

    def __init__(self, begin_to_end: Callable[[], None] = lambda: None) -> None:
        """Install the signal handlers. `begin_to_end`: called at the first stop signal, inside the signal handler."""
        self._target: SignalTarget | None = None
        self._on_first_stop = begin_to_end
        #: Whether a stop signal has arrived.
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
        """Whether signals are forwarded to a service already, which then stops in order."""
        return self._target is not None

    def forward_to(self, service: SignalTarget) -> None:
        """Forward signals to this service from now on."""
        self._target = service
        signal.signal(signal.SIGINT, self._on_stop)
        if self.is_stopping:  # its exception may have been swallowed, for example in a callback of a library
            service.stop()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls it
        was_ended, self.is_stopping = self.is_stopping, True
        self._on_first_stop()
        if self._target is not None:
            self._target.stop()
        elif not was_ended:  # a second signal must not interrupt the cleanup after the first
            raise StoppedBeforeStart

    def _on_hang_up(self, number: int, frame: FrameType | None) -> None:
        if self._may_hang_up and not _has_terminal():
            self._on_stop(number, frame)
        elif self._target is not None:
            self._target.reload()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


# --- The state for systemd (sd_notify(3)); without `Type=notify` nothing is sent ---


#: Seconds that systemd grants after each sign of progress, and seconds between two such signs.
_START_SECONDS, _EXTEND_EVERY = 60, 10
_SEND_SECONDS = 1.0


def notify_ready() -> None:
    """Report to systemd that the service is ready, or that a reload is finished."""
    _notify_systemd("READY=1")


def notify_reloading() -> None:
    """Report to systemd that the service is reloading its configuration."""
    _notify_systemd("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def notify_stopping() -> None:
    """Report to systemd that the service is stopping."""
    _notify_systemd("STOPPING=1")


def extend_start_timeout(tell: Progress | None) -> Progress:
    """Return a progress function that also extends systemd's start timeout, so that a long upgrade is not aborted.

    `tell`: a progress function that the returned one also calls.
    """
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
    # Nobody may be listening any more.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        teller.settimeout(_SEND_SECONDS)
        teller.sendto("\n".join(lines).encode(), place)
