"""Handles standard streams that cannot be used: closed by the parent process, or redirected to a full disk."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def reopen_closed_streams() -> tuple[int, ...]:
    """Open the null device for each closed standard stream; return their file descriptors (0 to 2).

    Otherwise the next opened file, such as the store, would get descriptor 2, and error output would be written to it.
    """
    closed = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
            os.open(os.devnull, os.O_RDWR)  # this takes the lowest free number, which is `number`
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return tuple(closed)


def write_quietly(stream: TextIO, text: str) -> None:
    """Write text and flush, ignoring errors; the text may be lost."""
    with suppress(OSError, ValueError):  # ValueError: the stream was closed
        stream.write(text)
    flush_quietly(stream)


def flush_quietly(stream: TextIO) -> None:
    """Flush the stream, and discard text that cannot be written.

    Python would retry at exit and change the exit code.
    """
    try:
        stream.flush()
    except ValueError:
        return
    except OSError:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            stream.flush()
