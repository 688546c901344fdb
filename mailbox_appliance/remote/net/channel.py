"""Bytes to and from a server, bounded in time and size: a server that sends one byte a second cannot block a thread."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable

from mailbox_appliance.remote.errors import Contact

CHUNK = 1 << 16
MOST_BUFFERED = 1 << 20
SLOWEST_RATE = 4096  # bytes a second below which a long transfer counts as stalled
MOST_SAVED_SECONDS = 60.0  # seconds of credit that fast data earns for slow data
LONGEST_ANSWER = 3600.0  # seconds for one response in any case


class TooLong(Exception):
    """A line or a response is longer than allowed."""


class Channel:
    """A connected socket with a buffer of its own. Raises TimeoutError, OSError or TooLong; the end is empty bytes.

    A response must be complete `timeout` seconds after `restart_timeout`. With `patient` it may last up to
    LONGEST_ANSWER, as long as it moves at the slowest rate and no silence exceeds `timeout`. `contact` may end it
    earlier.
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
        """Start the time limit of a new response, with another timeout if one is given."""
        self._allowed = self._timeout if timeout is None else timeout
        self._began = self._clock()
        self._until = self._began + self._allowed
        self._received = 0

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS. Earlier bytes are dropped, since an attacker may have injected them (RFC 3207 4.2)."""
        self._buffer.clear()
        self.sock.settimeout(min(self._timeout, max(0.001, self.contact.deadline - self._clock())))
        self.sock = context.wrap_socket(self.sock, server_hostname=host)

    def has_buffered_data(self) -> bool:
        """Whether bytes have arrived that the socket no longer shows as readable: buffered here, or already
        decrypted.
        """
        return bool(self._buffer) or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0)

    def has_unsolicited_data(self) -> bool:
        """Whether the server sent something unasked, or closed the connection. Does not wait."""
        if not self._buffer:
            self.sock.settimeout(0)
            try:
                self._buffer += self.sock.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
        return True

    def receive_available(self) -> bool:
        """Read what has arrived, up to MOST_BUFFERED bytes, without waiting. Returns False at the end of the
        connection.
        """
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
        """Return the next line if it has arrived completely. It stays buffered until it is read or skipped."""
        end = self._buffer.find(b"\n")
        if end < 0 and len(self._buffer) >= MOST_BUFFERED:
            raise TooLong
        return None if end < 0 else bytes(memoryview(self._buffer)[: end + 1])

    def skip(self, size: int) -> None:
        """Drop buffered bytes."""
        del self._buffer[:size]

    def read_line(self, longest: int) -> bytes:
        """Return the next line with its end; without an end if the connection ended in it, empty if before it."""
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
        """Return the next `size` bytes; fewer if the connection ended in them."""
        while len(self._buffer) < size and self._receive():
            pass
        return self._take(min(size, len(self._buffer)))

    def send(self, data: bytes) -> None:
        """Send all data. No chunk may take longer than the timeout, nor the whole longer than at the slowest rate."""
        self.send_pieces((data,))

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Send data piece by piece, as `send` does. An error while reading the pieces is raised here."""
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
        """Lower the timeout from now on, for an orderly close."""
        self._timeout, self._patient = min(timeout, self._timeout), False
        self.restart_timeout()

    def abort(self) -> None:
        """End the connection from another thread; a thread that waits on it sees the end. Never raises."""
        try:
            # Below the TLS layer, whose own shutdown is not safe from two threads.
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
