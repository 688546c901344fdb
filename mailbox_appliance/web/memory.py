"""Bodies and answers while they are here: in memory, never in a temporary file, and bounded for all connections.

A connection holds up to `Bounds.free_memory` of a body, or of an answer that its client has not read yet; what is
larger takes its part of one `Memory`, which all listeners share, and is refused when there is none left. With the
usual bounds that is, at worst:

    small ones   1 MiB a connection: 32 MiB for a remote peer, 256 MiB for a local address, and 1 GiB for a listener
                 that many peers fill together (1024 connections), until their deadlines end it
    large ones   192 MiB for everybody together; while a body grows, Python allots an eighth more of it
    workers      8 requests in work at most, with what the application makes of them; that is not counted here

A part is given back when the request is answered or the connection closed. Stands where Waitress has its
OverflowableBuffer.
"""

from collections import deque
from io import BytesIO
from threading import Lock

_JOINED = 16 * 1024


class Memory:
    """So many bytes, shared by everybody who takes a part."""

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0
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
    """A body as it comes in."""

    def __init__(self) -> None:
        self._file, self._size = BytesIO(), 0

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Keep these bytes behind those that are here."""
        self._size += self._file.write(data)

    def getfile(self) -> BytesIO:
        """What the application reads. Reading all of it gives the bytes that are kept here, not a copy."""
        self._file.getvalue()  # cuts what was allotted beyond the end: only then is there no copy
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Forget it; what the application has read stays with the application."""
        self._file.close()


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
