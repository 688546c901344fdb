"""Bytes to and from a server, bounded in time and in size: a server that drips one byte a second cannot hold us."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable

from mailbox_appliance.remote.errors import Contact

CHUNK = 1 << 16
MOST_BUFFERED = 1 << 20
SLOWEST_RATE = 4096  # bytes a second below which a long transfer counts as stalled
MOST_SAVED_SECONDS = 60.0  # seconds that what came fast may be followed by what drips
LONGEST_ANSWER = 3600.0  # seconds of one answer, however it comes


class TooLong(Exception):
    """A line or an answer is longer than we accept."""


class Channel:
    """A connected socket with our own buffer. Raises TimeoutError, OSError or TooLong; an end of file is empty bytes.

    An answer, from `restart_timeout` on, must be complete after `timeout` seconds; with `patient` after LONGEST_ANSWER,
    as long as it moves at the slowest rate, and no silence may be longer than `timeout`. `contact` may end it earlier.
    """

    def __init__(
        self,
        sock: socket.socket,
        timeout: float,
        *,
        patient: bool = False,
        limit: int = 1 << 28,
        clock: Callable[[], float] = time.monotonic,
        contact: Contact | None = None,
    ) -> None:
        self.sock = sock
        self.contact = contact or Contact()
        self._clock = clock
        self._timeout = timeout
        self._patient = patient
        self._limit = limit
        self._buffer = bytearray()
        self.restart_timeout()

    def restart_timeout(self, timeout: float | None = None) -> None:
        """A new answer is awaited from now on, with another timeout if one is given."""
        self._allowed = self._timeout if timeout is None else timeout
        self._began = self._clock()
        self._until = self._began + self._allowed
        self._received = 0

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """TLS from here on. Earlier bytes are dropped: an attacker may have put them there (RFC 3207 4.2)."""
        self._buffer.clear()
        self.sock.settimeout(min(self._timeout, max(0.001, self.contact.deadline - self._clock())))
        self.sock = context.wrap_socket(self.sock, server_hostname=host)

    def has_buffered_data(self) -> bool:
        """Whether bytes have arrived that the socket no longer shows as readable (ours, or already decrypted ones)."""
        return bool(self._buffer) or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0)

    def has_unsolicited_data(self) -> bool:
        """Whether the server has said something, or hung up, without being asked. Does not wait."""
        if not self._buffer:
            self.sock.settimeout(0)
            try:
                self._buffer += self.sock.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
        return True

    def receive_available(self) -> bool:
        """Take in what has arrived, up to MOST_BUFFERED bytes, without waiting; False at the end of the connection."""
        self.sock.settimeout(0)
        while len(self._buffer) < MOST_BUFFERED:
            try:
                data = self.sock.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            if not data:
                return False
            self._buffer += data
        return True

    def buffered_line(self) -> bytes | None:
        """The next line, if all of it has been taken in; it stays there until it is read, or skipped."""
        end = self._buffer.find(b"\n")
        if end < 0 and len(self._buffer) >= MOST_BUFFERED:
            raise TooLong
        return None if end < 0 else bytes(memoryview(self._buffer)[: end + 1])

    def skip(self, size: int) -> None:
        """Drop bytes that were taken in."""
        del self._buffer[:size]

    def read_line(self, longest: int) -> bytes:
        """The next line with its end; without one when the connection ended in it, empty when it ended before it."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > longest:
                raise TooLong
            if not self._receive():
                return self._take(searched)
        if end >= longest:
            raise TooLong
        return self._take(end + 1)

    def read_exactly(self, size: int) -> bytes:
        """The next `size` bytes; fewer when the connection ended in them."""
        while len(self._buffer) < size and self._receive():
            pass
        return self._take(min(size, len(self._buffer)))

    def send(self, data: bytes) -> None:
        """Send all of it: no chunk may take longer than the timeout, nor the whole longer than at the slowest rate."""
        self.send_pieces((data,))

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """As `send`, piece by piece; what reading the pieces raises is raised here."""
        began, sent = self._clock(), 0
        for piece in pieces:
            view = memoryview(piece)
            for start in range(0, len(view), CHUNK):
                left = began + self._timeout + sent / SLOWEST_RATE - self._clock()
                if left <= 0:
                    raise TimeoutError
                self.sock.settimeout(min(left, self._timeout))
                self.sock.sendall(view[start : start + CHUNK])
                sent += len(view[start : start + CHUNK])

    def shorten_timeout(self, timeout: float) -> None:
        """Wait no longer than this from now on: we are leaving."""
        self._timeout, self._patient = min(timeout, self._timeout), False
        self.restart_timeout()

    def abort(self) -> None:
        """End the connection while another thread may be waiting on it, which then sees its end. Never raises."""
        try:
            # Past the TLS layer, whose own shutdown is not made for two threads.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        """Close the socket; never raises."""
        try:
            self.sock.close()
        except OSError:
            pass

    def _receive(self) -> bool:
        self.sock.settimeout(self._seconds_left())
        data = self.sock.recv(CHUNK)
        self._received += len(data)
        if self._received > self._limit:
            raise TooLong
        self._buffer += data
        if self._patient:
            saved = min(self._until + len(data) / SLOWEST_RATE, self._clock() + self._allowed + MOST_SAVED_SECONDS)
            self._until = min(saved, self._began + max(LONGEST_ANSWER, self._allowed))
        return bool(data)

    def _seconds_left(self) -> float:
        left = min(self._until, self.contact.deadline) - self._clock()
        if left <= 0:
            raise TimeoutError
        return min(left, self._allowed)

    def _take(self, size: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken
