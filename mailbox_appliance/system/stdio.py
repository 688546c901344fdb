"""The standard streams of a process that goes on without them: closed by whoever started it, or led to a full disk."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def reopen_closed_streams() -> tuple[int, ...]:
    """Lead standard streams that are closed to nowhere, so that no other file gets their numbers; which these were.

    What is written to number 2 in haste would else go into the store, say.
    """
    closed = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return tuple(closed)


def write_quietly(stream: TextIO, text: str) -> None:
    """Write at once what may be lost: where it cannot be written, it is let go."""
    with suppress(OSError, ValueError):  # ValueError: closed by somebody
        stream.write(text)
    flush_quietly(stream)


def flush_quietly(stream: TextIO) -> None:
    """Let go what cannot be written: Python would try again at its end, and make an exit code of it."""
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
