"""Standard input and output as a wire for lines, with nothing else on it.

The SDK's own reads in a thread that nothing ends while the input stays open; so a signal could not end the process.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from mailbox_appliance.mcp_server.handing_over import handed_over

_CHUNK = 64 * 1024
_AHEAD = 4  # lines

#: Stands for a line that is too long; it is no JSON.
TOO_LONG = b"!"


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Input and output, for the wire alone: whoever else reads finds nothing, and what they print goes to stderr."""
    private = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    try:
        yield private
    finally:
        for number, kept in enumerate(private):
            os.dup2(kept, number)


async def read_lines(fd: int, longest: int) -> AsyncGenerator[bytes, None]:
    """The lines of a file, which are read in a thread of its own: a few at most before they are taken."""
    loop, places = asyncio.get_running_loop(), threading.Semaphore(_AHEAD)
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended
            for line in lines_of(_chunks(fd), longest):
                loop.call_soon_threadsafe(lines.put_nowait, line)
                places.acquire()
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, name="mcp-input", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
        places.release()


def lines_of(chunks: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """The lines in what is read, also the last one without an end; TOO_LONG for those of more than `longest` bytes."""
    kept: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, begun = chunk.split(b"\n")
        for rest in ended:
            yield b"".join((*kept, rest)) if size + len(rest) <= longest else TOO_LONG
            kept, size = [], 0
        size += len(begun)
        if size > longest:
            kept.clear()
        else:
            kept.append(begun)
    if size:
        yield b"".join(kept) if size <= longest else TOO_LONG


class Writer:
    """Writes lines in a thread of its own, so that who does not read holds up nothing but what is said to them."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._write, name="mcp-output", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line. Raises OSError where nobody reads any more."""
        await handed_over(lambda: _write_all(self._fd, line + b"\n"), self._work.put)

    def _write(self) -> None:
        while True:
            self._work.get()()


def _chunks(fd: int) -> Iterator[bytes]:
    # Not through a buffered file: a thread that waits in one holds its lock when the process ends.
    while chunk := _chunk(fd):
        yield chunk


def _chunk(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:  # a terminal that has gone
        return b""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
