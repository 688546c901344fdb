"""Bodies and answers while they are here: bounded for all connections, and large bodies in encrypted temporary files.

A connection holds up to `Bounds.free_memory` of a body, or of an answer that its client has not read yet; what is
larger takes its part of one `Memory`, which all listeners share, and is refused when there is none left. With the
usual bounds that is, at worst:

    small ones   1 MiB a connection: 32 MiB for a remote peer, 256 MiB for a local address, and 1 GiB for a listener
                 that many peers fill together (1024 connections), until their deadlines end it
    large ones   192 MiB for everybody together: bodies on the disk, and unread answers in memory
    workers      8 requests in work at most, with what the application makes of them; that is not counted here

A part is given back when the request is answered or the connection closed. Stands where Waitress has its
OverflowableBuffer.
"""

import logging
from collections import deque
from io import BytesIO
from pathlib import Path
from threading import Lock

from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.system.spool import Spool

log = logging.getLogger(__name__)

_JOINED = 16 * 1024


class Memory:
    """So many bytes, shared by everybody who takes a part. `folder`: where large bodies lie, encrypted."""

    def __init__(self, size: int, folder: Path | None = None) -> None:
        self.size, self.taken, self.folder = size, 0, folder
        self._lock = Lock()

    def exchange(self, old: int, new: int) -> bool:
        """Take a part of this size for one of that size; False, and nothing done, where there is too little left."""
        with self._lock:
            if new > old and self.taken + new - old > self.size:
                return False
            self.taken += new - old
            return True


class Part:
    """What one holder has of the memory. One thread at a time may resize it."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self.size = memory, 0

    def resize(self, size: int) -> bool:
        """Have this many bytes from now on; False, and nothing done, where there is too little left."""
        if not self._memory.exchange(self.size, size):
            return False
        self.size = size
        return True


class Body:
    """A body as it comes in: in memory, and from `LARGE` bytes on in an encrypted temporary file."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file, self._size, self._folder = BytesIO(), 0, folder
        self._spool: Spool | None = None
        #: The disk did not take it.
        self.has_failed = False

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Keep these bytes behind those that are here."""
        self._size += len(data)
        if self.has_failed:
            return
        try:
            if self._spool is not None:
                self._spool.append(data)
                return
            self._file.write(data)
            if self._size > LARGE:
                self._spool = Spool(self._folder)
                self._spool.append(self._file.getvalue())
                self._file = BytesIO()
        except OSError as error:
            log.warning("a large body could not be kept", extra={"error": type(error).__name__})
            self.has_failed = True

    def getfile(self) -> "BytesIO | SpooledFile":
        """What the application reads. Reading all of it gives the bytes that are kept here, not a copy."""
        if self._spool is not None:
            return SpooledFile(self._spool.content())
        self._file.getvalue()  # cuts what was allotted beyond the end: only then is there no copy
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Forget it. What the application has read of a small body stays with it; a large one is gone."""
        self._file.close()
        if self._spool is not None:
            self._spool.close()


class SpooledFile:
    """A large body as a WSGI application reads it (PEP 3333), or takes it as `content`."""

    def __init__(self, content: Content) -> None:
        self.content, self._position = content, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, all that are left without a size."""
        end = len(self.content) if size < 0 else min(len(self.content), self._position + size)
        start, self._position = self._position, end
        return self.content.part(start, end).read()


class Output:
    """What is still to be sent, in the pieces in which it was written: large ones are not copied."""

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Send this, too. Small pieces are joined: short answers travel together."""
        self._size += len(data)
        if self._pieces and len(self._pieces[-1]) + len(data) <= _JOINED:
            data = bytes(self._pieces.pop()) + data
        self._pieces.append(memoryview(data))

    def get(self, size: int) -> memoryview | bytes:
        """What to send next, this many bytes at most."""
        return self._pieces[0][:size] if self._pieces else b""

    def skip(self, size: int, _prune: bool = False) -> None:
        """So many bytes of what `get` gave are sent."""
        self._size -= size
        first = self._pieces.popleft()
        if size < len(first):
            self._pieces.appendleft(first[size:])

    def close(self) -> None:
        """Forget it."""
        self._pieces.clear()
        self._size = 0
