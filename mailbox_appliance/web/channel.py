"""One connection: its deadlines, the answers of the server itself in our error shape, and how it is closed.

Waitress internals used (pinned to 3.0.*): HTTPChannel's `request`, `requests`, `requests_lock`, `received`, `service`,
`cancel`, `handle_write`, `handle_close`, `handle_error`, `_flush_exception`, `_flush_some`, `total_outbufs_len`,
`close_when_flushed`, `will_close`, `sent_continue`, `last_activity`, `connected`, `server`, `logger`; Task's `status`,
`version`, `response_headers`, `content_length`, `set_close_on_finish`, `build_response_header`, `get_environment`.
"""

import logging
import math
import socket
import time
from http import HTTPStatus
from typing import Any

import msgspec
from waitress.channel import HTTPChannel
from waitress.task import ErrorTask, WSGITask

from mailbox_appliance.ids import new_id
from mailbox_appliance.web.framing import Request, RequestTimeout

log = logging.getLogger(__name__)

#: Environ key: the size of a body that was over the listener's bound; it was thrown away and `wsgi.input` is empty.
BODY_DISCARDED = "mailbox.body_discarded"

#: Status, code and text of the answers that the server gives without asking the application.
_REFUSALS = {
    400: ("invalid_request", "This is not a valid HTTP request: {reason}."),
    408: ("request_timeout", "The request was not complete in time. Send it again, without pauses."),
    413: ("body_too_large", "The body is far larger than anything this service takes."),
    431: ("headers_too_large", "The header of the request is too large."),
    500: ("internal_error", "Something went wrong here. The log tells more under this request id."),
    501: ("invalid_request", "This is not a valid HTTP request: {reason}."),
}


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


class Refusal(ErrorTask):
    """An answer of the server itself, after which the connection is closed."""

    def execute(self) -> None:
        """Write the answer; the request has an `error`."""
        error, request_id = self.request.error, new_id("req")
        code, text = _REFUSALS[error.code]
        status = HTTPStatus(400 if error.code == 501 else error.code)
        # Waitress quotes what was sent behind its reason.
        message = text.format(reason=str(error.body).partition(' "')[0])
        body = msgspec.json.encode({"error": {"code": code, "message": message, "requestId": request_id}})
        level = logging.ERROR if status >= 500 else logging.INFO
        log.log(level, "request refused", extra={"status": int(status), "code": code, "requestId": request_id})
        self.version, self.status = "1.1", f"{status.value} {status.phrase}"
        self.response_headers = [("Content-Type", "application/json; charset=utf-8"), ("X-Request-Id", request_id)]
        self.content_length = len(body)
        self.set_close_on_finish()
        self.channel.lingers = True
        self.write(body)


class Answer(WSGITask):
    """An answer of the application."""

    def get_environment(self) -> dict[str, Any]:
        """The WSGI environment, telling of a body that was thrown away."""
        environ: dict[str, Any] = super().get_environment()
        if self.request.too_large:
            environ[BODY_DISCARDED] = self.request.discarded_bytes
        return environ

    def build_response_header(self) -> bytes:
        """The header, saying so when the connection ends with this answer."""
        if self.request.unread or self.channel.server.draining:
            self.channel.lingers = True
            self.set_close_on_finish()
        return super().build_response_header()


class Channel(HTTPChannel):
    """A connection. Times are seconds of the monotonic clock."""

    parser_class, task_class, error_task_class = Request, Answer, Refusal
    logger = Discreet()
    request: Any = None
    will_close: bool = False
    lingers = False  # close only after the client has had the time to read the answer
    lingers_until: float | None = None
    drained = 0
    progress: tuple[float, float] = (0.0, 0.0)  # the last activity seen, and when it was new

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self.peer = server.peer_of(addr[0])
        self.rested = time.monotonic()
        super().__init__(server, sock, addr, adj, map=map)

    def waiting(self, now: float) -> float:
        """Seconds for which we have waited for this client, beyond those that what it sent may take.

        None of it while we owe the client an answer: then it is 0 or less.
        """
        if self.requests or self.total_outbufs_len or self.close_when_flushed or self.will_close:
            return 0.0
        request = self.request
        if request is None:
            return now - self.rested
        return now - max(request.started, self.rested) - request.received_bytes / self.server.bounds.upload_rate

    def check(self, now: float) -> None:
        """Close the connection, or refuse its request, when a deadline has passed. Called by the loop."""
        if self.request is not None and self.waiting(now) > self.server.request_timeout:
            self._time_out()
        elif self._is_over(now):
            # Not by `will_close`: Waitress acts on it when the socket takes data, which this one may never do again.
            self.handle_close()

    def _is_over(self, now: float) -> bool:
        if self.lingers_until is not None:
            return now > self.lingers_until
        if self.total_outbufs_len:
            return self._unread_for(now) > float(self.server.request_timeout)
        return self.request is None and self.waiting(now) > self.server.bounds.idle_timeout

    def _unread_for(self, now: float) -> float:
        # While output is pending nothing is read, so only what the client takes moves `last_activity`.
        if self.progress[0] != self.last_activity:
            self.progress = (self.last_activity, now)
        return now - self.progress[1]

    def _time_out(self) -> None:
        with self.requests_lock:
            request = self.request
            if request is None or self.requests:
                return
            request.error, request.completed, request.expect_continue = RequestTimeout(), True, False
            self.request, self.sent_continue = None, False
            self.requests.append(request)
            self.server.add_task(self)

    def received(self, data: bytes) -> bool:
        """Take what the client sent; while the connection lingers it is thrown away, up to a bound."""
        if self.lingers_until is None:
            return bool(super().received(data))
        self.drained += len(data)
        if self.drained > self.server.bounds.linger_bytes:
            self.handle_close()
        return False

    def service(self) -> None:
        """Answer one request, in a worker."""
        self.rested = math.inf
        try:
            super().service()
        finally:
            self.rested = time.monotonic()

    def handle_write(self) -> None:
        """Send what is pending. When all is sent, a connection that lingers is closed on our side only."""
        if not (self.lingers and self.close_when_flushed):
            super().handle_write()
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
        """Close the connection and what a half-received request holds."""
        if self.request is not None:
            self.request.close()
        super().handle_close()

    def handle_error(self) -> None:
        """Report what must not happen, and go on without this connection."""
        log.exception("a connection failed")
        self.handle_close()
