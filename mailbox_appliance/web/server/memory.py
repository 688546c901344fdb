"""The memory that request bodies and unsent responses may use. Large bodies are kept in encrypted temporary files.

Each connection may hold up to `ServerBounds.free_memory` bytes of a body, and as many of a response that its client has
not read yet. Anything larger must reserve its size in one `MemoryBudget` that all listeners share, and is refused if
too little is left. With the usual limits these are the maximum amounts:

    without reservation   1 MiB for each connection: 32 MiB for a remote client, 256 MiB for a local address, and 1 GiB
                          for a listener whose 1024 connections are all in use, until their deadlines end them;
                          a connection that is kept open for events has 64 KiB and one batch of events
    with reservation      208 MiB in total, for bodies on the disk and unread responses in memory
    not counted           what the application uses for at most 8 requests in progress

A reservation ends when the request is answered or the connection closed.
"""

import logging
import sys
from collections import deque
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock

from waitress.adjustments import Adjustments

from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.system.spool import Spool

# --- Reservations and buffers; `OutputBuffer` replaces Waitress's OverflowableBuffer ---


log = logging.getLogger(__name__)

_JOIN_BELOW = 16 * 1024


class MemoryBudget:
    """A number of bytes that all reservations share. `folder`: the folder for encrypted files with large bodies."""

    def __init__(self, size: int, folder: Path | None = None) -> None:
        self.size, self.taken, self.folder = size, 0, folder
        self._lock = Lock()

    def exchange(self, old: int, new: int) -> bool:
        """Change the size of a reservation from `old` to `new` bytes. Returns False, and changes nothing, if too little
        is left.
        """
        with self._lock:
            if new > old and self.taken + new - old > self.size:
                return False
            self.taken += new - old
            return True


class MemoryReservation:
    """The bytes that one request or connection has reserved in a `MemoryBudget`. One thread at a time may resize it."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory, self.size = memory, 0

    def resize(self, size: int) -> bool:
        """Change the reservation to `size` bytes in total. Returns False, and changes nothing, if too little is
        left.
        """
        if not self._memory.exchange(self.size, size):
            return False
        self.size = size
        return True


class RequestBody:
    """Collects a request body while it arrives: in memory, and beyond `LARGE` bytes in an encrypted temporary file."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file, self._size, self._folder = BytesIO(), 0, folder
        self._spool: Spool | None = None
        #: Whether the disk refused the body.
        self.has_failed = False

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Add bytes at the end. If the disk refuses them, set `has_failed`."""
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
            log.warning("request_body_not_stored", extra={"error": type(error).__name__})
            self.has_failed = True

    def getfile(self) -> "BytesIO | SpooledFile":
        """Return the body as a file for the application. If it is in memory, reading all of it makes no copy."""
        if self._spool is not None:
            return SpooledFile(self._spool.content())
        self._file.getvalue()  # cuts surplus memory at the end, without which reading would copy
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Release the memory or delete the temporary file. Bytes that the application read from memory stay valid."""
        self._file.close()
        if self._spool is not None:
            self._spool.close()


class SpooledFile:
    """A large body in a temporary file: readable as a file, as WSGI requires (PEP 3333), or piece by piece as
    `content`.
    """

    def __init__(self, content: Content) -> None:
        self.content, self._position = content, 0

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, fewer at the end; without a size, all remaining bytes."""
        end = len(self.content) if size < 0 else min(len(self.content), self._position + size)
        start, self._position = self._position, end
        return self.content.part(start, end).read()


class OutputBuffer:
    """Output that is still to be sent. It stays in the pieces in which it was written, so that large ones are not
    copied.
    """

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Add data at the end. Small pieces are joined, so that short responses are sent together."""
        self._size += len(data)
        if self._pieces and len(self._pieces[-1]) + len(data) <= _JOIN_BELOW:
            data = bytes(self._pieces.pop()) + data
        self._pieces.append(memoryview(data))

    def get(self, size: int) -> memoryview | bytes:
        """Return the next bytes to send, at most `size`, without removing them; empty if there are none."""
        return self._pieces[0][:size] if self._pieces else b""

    def skip(self, size: int, _prune: bool = False) -> None:
        """Remove the first `size` bytes after they were sent. They must all be in the first piece.

        Waitress passes `_prune`, which has no effect here.
        """
        self._size -= size
        first = self._pieces.popleft()
        if size < len(first):
            self._pieces.appendleft(first[size:])

    def close(self) -> None:
        """Drop all output."""
        self._pieces.clear()
        self._size = 0


# --- The limits of one connection, and of all of them ---


MEBIBYTE = 1 << 20
# Windows waits for at most 512 sockets at once, two of which are the listener's own.
_MAX_CONNECTIONS, _MAX_READERS = (320, 160) if sys.platform == "win32" else (1024, 1000)


@dataclass(frozen=True)
class ServerBounds:
    """Limits of the server that are not settings, in bytes, seconds, and connections of one listener.

    The docstring of this module adds up the memory that they allow.
    """

    max_body: int = 38 * MEBIBYTE  # larger ones are discarded, and the application is informed
    max_discarded: int = 256 * MEBIBYTE  # larger ones are refused without reading them
    memory: int = 208 * MEBIBYTE  # for large bodies and responses of all listeners: 8 uploads, and a little more
    free_memory: int = MEBIBYTE  # a connection's own share for a body, and for pending output
    ahead: int = MEBIBYTE // 4  # while more than this is unread, the connection's next request does not start
    max_header: int = 32 * 1024
    upload_rate: int = 32 * 1024  # bytes a second: received data extends the deadline by the time that it may take
    handshake_timeout: float = 10
    idle_timeout: float = 120
    first_bytes: float = 3  # how long a silent new connection is waited for when its listener ends
    linger_seconds: float = 2
    linger_bytes: int = 8 * MEBIBYTE
    connections: int = _MAX_CONNECTIONS  # without readers
    readers: int = _MAX_READERS  # connections whose request waits for an event, or whose response is kept open
    readers_per_peer: int = 100  # of a remote client
    patience: float = 2  # how long the server waits for a connection before a new one can replace it
    local_patience: float = 0.1


DEFAULT_BOUNDS = ServerBounds()


def waitress_adjustments(bounds: ServerBounds, request_timeout: float, scheme: str) -> Adjustments:
    """Return the configuration of Waitress for these limits.

    It contains no address to listen on, since Waitress would look it up. `request_timeout`: seconds. `scheme`: `http`
    or `https`.
    """
    told = Adjustments(
        host="127.0.0.1",
        ident=None,
        url_scheme=scheme,
        # The application alone judges forwarding header fields, so it must see them.
        trusted_proxy=None,
        clear_untrusted_proxy_headers=False,
        recv_bytes=16384,  # one TLS record
        outbuf_high_watermark=bounds.ahead,
        max_request_header_size=bounds.max_header,
        max_request_body_size=bounds.max_discarded + 1,
    )
    told.max_stored_body, told.free_memory = bounds.max_body, bounds.free_memory
    told.cleanup_interval = min(1.0, request_timeout / 4, bounds.handshake_timeout / 4)
    return told
