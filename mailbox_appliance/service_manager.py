"""Tells systemd how the service is, where it was started with `Type=notify` (sd_notify(3)); elsewhere nothing."""

import os
import socket
import time
from contextlib import suppress

from mailbox_appliance.records import Progress

#: Seconds that a start may take from each sign of progress on, and between two of them.
_START_WITHIN, _EVERY = 60, 10
_SEND_WITHIN = 1.0


def ready() -> None:
    """It answers; a reload is over."""
    _tell("READY=1")


def reloading() -> None:
    """It takes up its configuration anew."""
    _tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def stopping() -> None:
    """It ends."""
    _tell("STOPPING=1")


def starting(tell: Progress | None) -> Progress:
    """Progress of an upgrade that tells this one as well, and keeps the start from being given up as too slow."""
    told_at = 0.0

    def progress(step: str, done: int, total: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > _EVERY:
            told_at = time.monotonic()
            _tell(f"EXTEND_TIMEOUT_USEC={_START_WITHIN * 1_000_000}")
        if tell is not None:
            tell(step, done, total)

    return progress


def _tell(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return
    place = "\0" + address[1:] if address.startswith("@") else address
    # Whoever does not listen, or not any more, is not told.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        teller.settimeout(_SEND_WITHIN)
        teller.sendto("\n".join(lines).encode(), place)
