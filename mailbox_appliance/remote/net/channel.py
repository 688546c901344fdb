"""Read and write bytes on a connection, with limits of time and size.

The limits apply to a whole response. So a server that sends one byte a second cannot block a thread.
"""

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
    """A connected socket with a buffer and limits. Reading returns empty bytes at the end of the connection.

    - timeout: seconds after `restart_timeout` within which a response must be complete.
    - patient: allow LONGEST_ANSWER seconds at SLOWEST_RATE or faster, if no pause is longer than `timeout`.
    - limit: the largest response in bytes.
    - contact: may set an earlier time limit (`Contact.deadline`).

    Methods raise TimeoutError, TooLong, or OSError.
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
        """Start the time limit of a new response: `timeout` seconds if given, otherwise the channel's usual timeout."""
        self._allowed = self._timeout if timeout is None else timeout
        self._began = self._clock()
        self._until = self._began + self._allowed
        self._received = 0

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS and check the certificate for `host`.

        Bytes that arrived before are dropped, since an attacker may have injected them (RFC 3207 4.2).
        """
        self._buffer.clear()
        self.sock.settimeout(min(self._timeout, max(0.001, self.contact.deadline - self._clock())))
        self.sock = context.wrap_socket(self.sock, server_hostname=host)

    def has_buffered_data(self) -> bool:
        """Whether bytes wait in this buffer or in the TLS layer. For such bytes the socket does not become readable."""
        return bool(self._buffer) or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0)

    def has_unsolicited_data(self) -> bool:
        """Whether the server has sent unread data, or has closed the connection. Does not wait."""
        if not self._buffer:
            self.sock.settimeout(0)
            try:
                self._buffer += self.sock.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
        return True

    def receive_available(self) -> bool:
        """Move the data that has arrived into the buffer, without waiting, until it holds MOST_BUFFERED bytes.

        Returns False if the connection has ended.
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
        """Return the next line if it has arrived completely, else None. It stays in the buffer until `skip`."""
        end = self._buffer.find(b"\n")
        if end < 0 and len(self._buffer) >= MOST_BUFFERED:
            raise TooLong
        return None if end < 0 else bytes(memoryview(self._buffer)[: end + 1])

    def skip(self, size: int) -> None:
        """Remove the first `size` bytes from the buffer."""
        del self._buffer[:size]

    def read_line(self, longest: int) -> bytes:
        """Return the next line with its line end. Raises TooLong if it has more than `longest` bytes.

        If the connection ends first, return the rest without a line end; empty if there is none.
        """
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
        """Return the next `size` bytes, or fewer if the connection ends first."""
        while len(self._buffer) < size and self._receive():
            pass
        return self._take(min(size, len(self._buffer)))

    def send(self, data: bytes) -> None:
        """Send all data. Raises TimeoutError if a chunk takes longer than the timeout, or below SLOWEST_RATE."""
        self.send_pieces((data,))

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Send the pieces one after the other, with the limits of `send`. Errors of `pieces` are raised unchanged."""
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
        """Lower the timeout and restart it. Used before an orderly close, which should be quick."""
        self._timeout, self._patient = min(timeout, self._timeout), False
        self.restart_timeout()

    def abort(self) -> None:
        """End the connection from another thread. A thread that waits for data then sees the end. Never raises."""
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
