"""One connection: its deadlines, what is still to be sent on it, and how it is closed.

What is to be sent waits in memory. A worker does not wait for the reader of an answer: the connection's next request
does, and so does the rest of a streamed answer. Only an answer that the application writes in several parts itself
holds its worker up, until the client reads or its time is over.

Waitress internals used (pinned to 3.0.*): HTTPChannel's `request`, `requests`, `requests_lock`, `received`, `service`,
`cancel`, `writable`, `handle_write`, `handle_close`, `handle_error`, `write_soon`, `_flush_exception`, `_flush_some`,
`_flush_outbufs_below_high_watermark`, `outbufs`, `outbuf_lock`, `total_outbufs_len`, `close_when_flushed`,
`will_close`, `sent_continue`, `last_activity`, `connected`, `server`, `adj`, `logger`; ClientDisconnected.
"""

import logging
import math
import socket
import time
from typing import Any

from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.utilities import BadRequest

from mailbox_appliance.errors import TooBusy
from mailbox_appliance.web.answers import Refusal, begin
from mailbox_appliance.web.framing import Request, RequestTimeout
from mailbox_appliance.web.memory import Output, Part

log = logging.getLogger(__name__)

_RETRY_AFTER = 5


class Discreet:
    """Stands for Waitress's logger: its lines quote paths (a download's is a secret) and addresses, ours do not."""

    def info(self, message: str) -> None:
        """A client that went away is no news."""

    def warning(self, message: str, *counts: int) -> None:
        """How many threads or requests did not end in time."""
        log.warning(message, *counts)

    def exception(self, message: str, *_: object) -> None:
        """The kind of the failure and where it happened."""
        log.log(logging.DEBUG if message == "Socket error" else logging.ERROR, "a connection failed", exc_info=True)

    def log(self, level: int, _message: str) -> None:
        """What wasyncore reports about sockets."""
        log.log(level, "a socket reported an event")


class Channel(HTTPChannel):
    """A connection. Times are seconds of the monotonic clock."""

    parser_class, task_class, error_task_class = Request, staticmethod(begin), Refusal
    logger = Discreet()
    request: Any = None
    will_close: bool = False
    sendbuf_len: int
    lingers = False  # close only after the client has had the time to read the answer
    lingers_until: float | None = None
    paused = False  # a request waits until enough of the answers before it is read
    promised = 0  # bytes of the answer being written that are still to come
    drained = 0
    progress: tuple[float, float] = (0.0, 0.0)  # the last activity seen, and when it was new

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self.peer = server.peer_of(addr[0])
        self.rested = time.monotonic()
        self.expected_until = self.rested + server.bounds.first_bytes
        self.part = Part(adj.memory)
        super().__init__(server, sock, addr, adj, map=map)
        self.outbufs = [Output()]

    def waiting(self, now: float) -> float:
        """Seconds for which we have waited for this client, beyond those that what it sent may take.

        None of it while we owe the client an answer: then it is 0 or less.
        """
        if self.owes() or self.will_close:
            return 0.0
        request = self.request
        if request is None:
            return now - self.rested
        return now - max(request.started, self.rested) - request.received_bytes / self.server.bounds.upload_rate

    @property
    def is_with_worker(self) -> bool:
        """Whether a worker may change what the loop is to do here."""
        return bool(self.requests) and not self.paused

    def owes(self) -> bool:
        """Whether a complete request is still to be answered, or some of its answer to be sent."""
        return bool(self.requests or self.total_outbufs_len or self.close_when_flushed)

    def is_idle(self) -> bool:
        """Whether nothing is lost when it is closed, but for what is half received."""
        return not self.owes() and self.lingers_until is None

    def is_sending(self) -> bool:
        """Whether a request is coming in, or may be on its way: the client has only just come."""
        return self.request is not None or time.monotonic() < self.expected_until

    def has_unread(self) -> bool:
        """Whether something of the client is here that was not read yet; what is done to it tells nothing to TLS."""
        try:
            return bool(socket.socket.recv(self.socket, 1, socket.MSG_PEEK))
        except OSError:
            return False

    def expect(self) -> None:
        """Wait for a request for a moment, if the listener ends now."""
        self.expected_until = time.monotonic() + self.server.bounds.first_bytes

    def check(self, now: float) -> None:
        """Close the connection, or refuse its request, when a deadline has passed. Called by the loop."""
        if self.request is not None and self.waiting(now) > self.server.request_timeout:
            self.refuse(RequestTimeout())
        elif self._has_timed_out(now):
            # Not by `will_close`: Waitress acts on it when the socket takes data, which this one may never do again.
            self.handle_close()

    def _has_timed_out(self, now: float) -> bool:
        if self.lingers_until is not None:
            return now > self.lingers_until
        if self.total_outbufs_len or self.close_when_flushed:
            return self._unread_for(now) > float(self.server.request_timeout)
        return self.request is None and self.waiting(now) > self.server.bounds.idle_timeout

    def _unread_for(self, now: float) -> float:
        # While output is pending nothing is read, so only what the client takes moves `last_activity`.
        if self.progress[0] != self.last_activity:
            self.progress = (self.last_activity, now)
        return now - self.progress[1]

    def refuse(self, error: BadRequest) -> None:
        """Answer a request that is not complete with this error, and close. For the loop."""
        with self.requests_lock:
            request = self.request
            if request is None or self.requests or self.lingers_until is not None:
                return
            request.error, request.completed, request.expect_continue = error, True, False
            self.request, self.sent_continue = None, False
            self.requests.append(request)
            self.server.add_task(self)

    def received(self, data: bytes) -> bool:
        """Take what the client sent; while the connection lingers it is thrown away, up to a bound."""
        if self.lingers_until is None:
            self.expected_until = 0.0
            return bool(super().received(data))
        self.drained += len(data)
        if self.drained > self.server.bounds.linger_bytes:
            self.handle_close()
        return False

    def service(self) -> None:
        """Answer one request, in a worker."""
        request, self.rested = self.requests[0], math.inf
        try:
            super().service()
        finally:
            request.close()
            with self.outbuf_lock:
                self.promised = 0
                self._reserve()
            self.rested = time.monotonic()

    # What is to be sent, and its memory: `part` covers what is pending or promised beyond the connection's own.

    def make_room(self, size: int, *, waits: bool) -> None:
        """Have memory for so much that will be written next; `waits`: until the client has read of what is pending.

        Raises TooBusy where there is none, ClientDisconnected.
        """
        with self.outbuf_lock:
            while waits and self.connected and self.is_ahead():
                self.server.pull_trigger()
                self.outbuf_lock.wait()
            if not self.connected:
                raise ClientDisconnected
            self.promised = size
            if not self._reserve():
                self.promised = 0
                raise TooBusy(retry_after=_RETRY_AFTER)

    def _reserve(self) -> bool:
        return self.part.resize(max(0, self.total_outbufs_len + self.promised - self.adj.free_memory))

    def is_ahead(self) -> bool:
        """Whether the client has read too little of what was written for more to be written now."""
        return bool(self.total_outbufs_len > self.adj.outbuf_high_watermark)

    def write_soon(self, data: bytes) -> int:
        """Send this, now or when the client reads. Raises ClientDisconnected."""
        with self.outbuf_lock:
            if not self.connected:
                raise ClientDisconnected
            self.outbufs[-1].append(data)
            self.total_outbufs_len += len(data)
            self.promised = max(0, self.promised - len(data))
            self._flush_exception(self._flush_some, do_close=False)
            if self.total_outbufs_len:
                self.server.pull_trigger()
        return len(data)

    def _flush_some(self, do_close: bool = False) -> bool:
        # Waitress says nothing of closing where it sends 100 Continue, in a worker maybe: only the loop closes.
        with self.outbuf_lock:
            sent = bool(super()._flush_some(do_close=do_close))
            self._reserve()
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Waitress would have the worker wait before the next request; here that request waits (see `pauses`)."""

    def pauses(self) -> bool:
        """Whether the next request is to wait until enough is read; then the loop takes it up."""
        with self.outbuf_lock:
            self.paused = self.connected and self.is_ahead()
            return self.paused

    def _resume(self) -> None:
        with self.outbuf_lock:
            ready = self.paused and not (self.connected and self.is_ahead())
            self.paused = self.paused and not ready
        if ready:
            self.server.resume(self)

    def writable(self) -> bool:
        """Whether the loop has something to do here when the socket takes data."""
        return self.paused or bool(super().writable())

    def handle_write(self) -> None:
        """Send what is pending. When all is sent, a connection that lingers is closed on our side only."""
        if not (self.lingers and self.close_when_flushed):
            super().handle_write()
            self._resume()
            return
        self._flush_exception(self._flush_some)
        if self.connected and not self.total_outbufs_len and not self.will_close:
            self._begin_lingering()
        if self.will_close:
            self.handle_close()

    def _begin_lingering(self) -> None:
        # RFC 9112 9.6: closing while the client still sends resets the connection, and the answer is lost with it.
        self.lingers_until = time.monotonic() + self.server.bounds.linger_seconds
        self.close_when_flushed = False
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True

    def cancel(self) -> None:
        """Forget the requests that no worker has begun."""
        for request in self.requests:
            request.close()
        super().cancel()

    def handle_close(self) -> None:
        """Close the connection, and give back what a half-received request and unsent answers hold."""
        if self.request is not None:
            self.request.close()
        super().handle_close()
        with self.outbuf_lock:
            self.promised = 0
            self._reserve()
        self._resume()

    def handle_error(self) -> None:
        """Report what must not happen, and go on without this connection."""
        log.exception("a connection failed")
        self.handle_close()
