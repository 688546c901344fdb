"""One connection of the HTTP server: deadlines, responses, unsent output, closing, and TLS.

Output that the client has not read yet waits in memory, so a worker does not wait for slow clients. Until the client
has read enough, the connection's next request and the rest of a streamed response wait too. Only a response that the
application itself writes in several parts occupies its worker until the client reads it or its deadline passes.

Waitress internals used (pinned to 3.0.*), in addition to ClientDisconnected:

    HTTPChannel   `request`, `requests`, `requests_lock`, `received`, `service`, `cancel`, `writable`, `handle_write`,
                  `handle_close`, `handle_error`, `write_soon`, `_flush_exception`, `_flush_some`,
                  `_flush_outbufs_below_high_watermark`, `outbufs`, `outbuf_lock`, `total_outbufs_len`,
                  `close_when_flushed`, `will_close`, `sent_continue`, `last_activity`, `connected`, `server`, `adj`,
                  `logger`, `recv`

    Task          `status`, `version`, `response_headers`, `content_length`, `wrote_header`, `write`, `service`,
                  `execute`, `finish`, `close_on_finish`, `content_bytes_written`, `set_close_on_finish`,
                  `build_response_header`, `get_environment`
"""

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import BadRequest

from mailbox_appliance.errors import Problem, TooBusy
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.web.server.framing import (
    BadField,
    Hold,
    IncomingRequest,
    RequestAborted,
    RequestTimeout,
    ResponseSink,
    may_wait,
)
from mailbox_appliance.web.server.memory import MemoryReservation, OutputBuffer

if TYPE_CHECKING:
    from mailbox_appliance.web.http import StreamedBody

# --- Responses: the application's, and the server's own errors in the same shape ---


log = logging.getLogger(__name__)

#: Environ key: the size of a body over the listener's limit; it was discarded, and `wsgi.input` is empty.
BODY_DISCARDED = "mailbox.body_discarded"
#: Environ key: the size of a body for which no memory was left; it was discarded, and `wsgi.input` is empty.
BODY_POSTPONED = "mailbox.body_postponed"

#: Environ key: a function that takes a body to write in pieces as the client reads; the application then returns
#: nothing.
STREAM_BODY = "mailbox.hand_over"

#: Environ key: a function that sets the request aside; the application then returns nothing. Its argument is called
#: with the `HeldRequest`. Raises ReadersBusy if too many requests of the client wait. The key is missing while the
#: listener ends, and if the request has waited.
HOLD_REQUEST = "mailbox.hold"
#: Environ key, in a request that is continued: the value for which it kept its body.
HELD_VALUE = "mailbox.held"
#: Environ key: a function that keeps the response open; the application calls it before it starts the response, and
#: returns nothing. Its argument is called with the `ResponseSink`, once the header is written. Raises ReadersBusy.
KEEP_OPEN = "mailbox.keep_open"

#: The ends of the paths of requests that may be held, or whose response may be kept open.
READER_PATHS = ("/events", "/events/stream")
#: Bytes that wait for the client of a response that is kept open, before no more is written.
_HEADER_ALLOWANCE = 4096  # about the bytes of a response without its body

#: Status, code and text of the responses that the server sends without the application.
_SERVER_ERRORS = {
    400: ("invalid_request", "This is not a valid HTTP request: {reason}."),
    408: ("request_timeout", "The request did not arrive in time. Send it again without pauses."),
    413: ("body_too_large", "The body is larger than any endpoint accepts."),
    431: ("headers_too_large", "The header fields of the request are too large."),
    500: ("internal_error", "Internal error. The log of the appliance has details under this request ID."),
    501: ("invalid_request", "This is not a valid HTTP request: {reason}."),
}


class ErrorResponseTask(ErrorTask):
    """Sends the error response for a request that the server refuses before the application sees it, then closes the
    connection.
    """

    def execute(self) -> None:
        """Write the response for `self.request.error`."""
        error = self.request.error
        code, message = _error_text(error)
        self.version = "1.1"
        places = (f"header:{error.name}",) if isinstance(error, BadField) else ()
        body = _prepare_error(self, 400 if error.code == 501 else error.code, code, message, places)
        if isinstance(error, RequestAborted):
            _add_retry_after(self, error.problem)
        self.set_close_on_finish()
        self.channel.lingers = True
        self.write(body)


def _error_text(error: Any) -> tuple[str, str]:
    if isinstance(error, RequestAborted):
        return error.problem.code, error.problem.message
    code, text = _SERVER_ERRORS[error.code]
    # Waitress appends a quote of the request to its reason.
    return code, text.format(reason=str(error.body).partition(' "')[0])


def _prepare_error(task: Any, number: int, code: str, message: str, places: tuple[str, ...] = ()) -> bytes:
    """Set status and header fields of a task for an error response, log the error, and return the JSON body, which the
    caller writes.

    `number`: the HTTP status. `code`, `message`: the API error. `places`: the faulty parts of the request, such as
    `header:Cookie`.
    """
    status, request_id = HTTPStatus(number), new_id("req")
    level = logging.ERROR if status == HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO
    log.log(level, "request_refused", extra={"status": int(status), "code": code, "requestId": request_id})
    told: dict[str, object] = {"code": code, "message": message, "requestId": request_id}
    if places:
        told["details"] = [{"path": place, "message": message} for place in places]
    body = msgspec.json.encode({"error": told})
    task.status, task.content_length = f"{status.value} {status.phrase}", len(body)
    task.response_headers = [("Content-Type", "application/json; charset=utf-8"), ("X-Request-Id", request_id)]
    return body


def _add_retry_after(task: Any, problem: Problem) -> None:
    if problem.retry_after is not None:
        task.response_headers.append(("Retry-After", str(problem.retry_after)))


class ResponseTask(WSGITask):
    """Runs the application for one request and writes its response.

    A streamed body occupies no worker while the client reads: the rest is queued as a `ResponseRemainder` before the
    connection's next request, and continues once the client has read enough.
    """

    wrote_header = False
    close_on_finish = False
    content_length: int | None = None
    rest: "ResponseRemainder | None" = None  # the remainder that continues it
    was_held = False  # whether it continues a request that was set aside
    held_body = b""  # the body of that request
    held_value: object = None  # what it waited for, if it kept its body
    then: "Callable[[], None] | None" = None  # of a request that was answered while it was set aside
    _is_held = False
    _begin_sink: "Callable[[ResponseSink], None] | None" = None
    _sink: "ResponseSink | None" = None
    _body: "StreamedBody | None" = None
    _pieces: Iterator[bytes] = iter(())
    _size: int | None = None
    _is_last = False

    def service(self) -> None:
        """Write the response, or as much of it as the client accepts now."""
        self.rest = None
        try:
            super().service()
        finally:
            if not self._is_paused():
                self.close()

    def close(self) -> None:
        """Close the streamed body, if there is one."""
        if self._body is not None:
            self._body.close()

    def execute(self) -> None:
        """Run the application and write its response, or continue a streamed one.

        If no memory is left for the response, send 503 instead.
        """
        if self.then is not None:
            self.then()
            return
        if self._sink is not None:  # it has ended
            self.close_on_finish = self._is_last
            return
        if self._is_streamed():
            self._continue()
            return
        try:
            super().execute()
            if self._begin_sink is not None:
                self._open_sink(self._begin_sink)
            elif self._is_streamed():
                self.content_length = self._size
                self._continue()
        except TooBusy as busy:
            if self.wrote_header:
                raise
            body = _prepare_error(self, HTTPStatus.SERVICE_UNAVAILABLE, busy.code, busy.message)
            _add_retry_after(self, busy)
            self.channel.write_soon(self.build_response_header() + body)
            self.wrote_header = True

    def finish(self) -> None:
        """End the response, unless the rest of it is still to be written."""
        if not self._is_paused() and not self._is_held:
            super().finish()

    def _hold(self, begin: "Callable[[HeldRequest], None]") -> None:
        """Set the request aside until it is released."""
        self.channel.server.check_readers(self.channel)
        held, self._is_held = HeldRequest(self.channel, self.request), True
        with self.channel.requests_lock:
            self.channel.requests.insert(1, held)
        begin(held)

    def _keep_open(self, begin: "Callable[[ResponseSink], None]") -> None:
        self.channel.server.check_readers(self.channel)
        self._begin_sink = begin

    def _open_sink(self, begin: "Callable[[ResponseSink], None]") -> None:
        self.write(b"")  # the header
        self._is_last, self.close_on_finish = self.close_on_finish, False
        self.rest = rest = ResponseRemainder(self)
        self._sink = sink = ResponseSink(self.channel, is_chunked=self.chunked_response)
        rest.hold = sink.hold
        with self.channel.requests_lock:
            self.channel.requests.insert(1, rest)
        begin(sink)

    def _is_streamed(self) -> bool:
        return self._body is not None

    def _is_paused(self) -> bool:
        return self.rest is not None

    def _take_stream(self, body: "StreamedBody") -> None:
        self._body, self._pieces = body, iter(body)
        # Waitress would report a missing body, since it is written after the application returned.
        self._size, self.content_length = self.content_length, None

    def _continue(self) -> None:
        self.close_on_finish = self.close_on_finish or self._is_last
        for piece in self._pieces:
            self.write(piece)
            if self.channel.is_ahead():
                self._pause()
                return
        if self._size is not None and self.content_bytes_written != self._size:
            log.error("response_cut")
            self.close_on_finish = True

    def _pause(self) -> None:
        # While more follows, the connection must stay open.
        self._is_last, self.close_on_finish = self.close_on_finish, False
        self.rest = ResponseRemainder(self)
        with self.channel.requests_lock:
            self.channel.requests.insert(1, self.rest)

    def write(self, data: bytes) -> None:
        """Send one part of the response, usually all of it, or keep it in memory until the client reads. Raises TooBusy
        if there is no memory for it.
        """
        self.channel.make_room(len(data) + _HEADER_ALLOWANCE, waits=self.wrote_header)
        super().write(data)

    def get_environment(self) -> dict[str, Any]:
        """Return the WSGI environment of the request, including the size of a body that the server did not keep."""
        environ: dict[str, Any] = super().get_environment()
        environ.pop("wsgi.file_wrapper", None)  # it would write objects that are not bytes
        environ[STREAM_BODY] = self._take_stream
        environ[KEEP_OPEN] = self._keep_open
        if self.held_value is not None:
            environ[HELD_VALUE] = self.held_value
        elif self.was_held:
            environ["wsgi.input"] = BytesIO(self.held_body)
        if not (self.was_held or self.channel.server.draining):
            environ[HOLD_REQUEST] = self._hold
        if self.request.postponed:
            environ[BODY_POSTPONED] = self.request.discarded_bytes
        if self.request.too_large:
            environ[BODY_DISCARDED] = self.request.discarded_bytes
        return environ

    def build_response_header(self) -> bytes:
        """Return the header. It contains `Connection: close` if the server will close the connection after this
        response.
        """
        if self.request.unread or self.channel.server.draining:
            self.channel.lingers = True
            self.set_close_on_finish()
        return super().build_response_header()


class ResponseRemainder:
    """The rest of a streamed response. It waits in the connection's queue of requests, before the next request."""

    error = None
    hold: "Hold | None" = None  # if no worker may continue it yet

    def __init__(self, answer: ResponseTask) -> None:
        self.answer = answer
        request = answer.request
        self.version, self.headers, self.path = request.version, request.headers, request.path

    def close(self) -> None:
        """Close the response, unless a worker has continued it and queued a newer remainder."""
        if self.answer.rest is self:
            self.answer.rest = None
            self.answer.close()


class HeldRequest:
    """A request that was set aside. It waits in the connection's queue, before the next request.

    `body`: what the application read of its body, to read it again. `value`: what it waits for, if that needs the body.
    """

    error, body = None, b""
    value: object = None

    def __init__(self, channel: Any, request: Any) -> None:
        self.request, self.hold, self._channel = request, Hold(channel), channel
        self.version, self.headers, self.path = request.version, request.headers, request.path
        self._answered: ResponseTask | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may wait: the client is still connected, as far as is known, and the listener does not end."""
        return may_wait(self._channel)

    def answer(self, status: str, headers: list[tuple[str, str]], body: bytes, then: "Callable[[], None]") -> None:
        """Send the whole response. It must be released then, and a worker only calls `then`.

        If no memory is left for the response, nothing is sent, and the application runs again. One thread at a time may
        call this.
        """
        task = ResponseTask(self._channel, self.request)
        task.start()
        task.status, task.response_headers, task.content_length = status, headers, len(body)
        task.complete, task.then = True, then
        try:
            task.write(body)
        except ClientDisconnected:
            task.close_on_finish = True
        except TooBusy:
            return
        self._answered = task

    def keep(self, value: object) -> None:
        """Keep the body of the request until it is continued, and give the application this value then."""
        self.value, self.request.holder = value, self

    def release(self) -> None:
        """Let a worker run the application again, which must answer now. May be called from any thread, and again."""
        self.hold.release()

    def create_task(self) -> "ResponseTask":
        """Return the task that continues the request."""
        if self._answered is not None:
            return self._answered
        if self.value is None:
            self.request.body_rcv = None  # it was closed
        task = ResponseTask(self._channel, self.request)
        task.was_held, task.held_body, task.held_value = True, self.body, self.value
        return task

    def close(self) -> None:
        """Close the request, unless it was continued and set aside again."""
        if self.request.holder is self:
            self.request.holder = None
            self.request.close()


def _may_be_held(request: Any) -> bool:
    return str(getattr(request, "path", "")).endswith(READER_PATHS)


def create_task(channel: Any, request: Any) -> ResponseTask:
    """Return the task for a queued entry: a new task for a request, the existing one for a `ResponseRemainder`."""
    if isinstance(request, ResponseRemainder):
        return request.answer
    if isinstance(request, HeldRequest):
        return request.create_task()
    return ResponseTask(channel, request)


# --- The connection ---


_RETRY_AFTER = 5
_LARGE_RECEIVE = 64 * 1024


class QuietLogger:
    """Replaces Waitress's logger, whose lines would reveal client addresses and request paths, including secret
    download links.
    """

    def info(self, message: str) -> None:
        """Log nothing: Waitress uses this level only for clients that disconnected."""

    def warning(self, message: str, *counts: int) -> None:
        """Log that threads or requests did not end in time. `counts`: the numbers for the placeholders in `message`."""
        log.warning("server_stop_incomplete", extra={"why": message % counts})

    def exception(self, message: str, *_: object) -> None:
        """Log the type of the exception and its traceback, without the message."""
        # "Socket error" is Waitress's text for a client that disconnected; it passes nothing else to tell it by.
        log.log(logging.DEBUG if message == "Socket error" else logging.ERROR, "connection_failed", exc_info=True)

    def log(self, level: int, _message: str) -> None:
        """Log that wasyncore, Waitress's event loop, reported an event of a socket. The message is dropped."""
        log.log(level, "socket_event")


class HttpConnection(HTTPChannel):
    """One connection of a client: reads requests, queues them for workers, and sends responses.

    Times are seconds of the monotonic clock.
    """

    parser_class, task_class, error_task_class = IncomingRequest, staticmethod(create_task), ErrorResponseTask
    logger = QuietLogger()
    request: Any = None
    will_close: bool = False
    sendbuf_len: int
    lingers = False  # close only after the client had time to read the response
    lingers_until: float | None = None
    held = False  # the next entry in the queue waits for its `Hold`
    is_reader = False  # its last request was set aside, or its response kept open; counted by `server.count_reader`
    paused = False  # a request waits until the client has read enough of the earlier responses
    promised = 0  # bytes of the current response that are not written yet
    drained = 0
    progress: tuple[float, float] = (0.0, 0.0)  # the last activity, and when it was noticed

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self.peer = server.peer_of(addr[0])
        self.rested = time.monotonic()
        self.expected_until = self.rested + server.bounds.first_bytes
        self.part = MemoryReservation(adj.memory)
        super().__init__(server, sock, addr, adj, map=map)
        self.outbufs = [OutputBuffer()]

    def waiting(self, now: float) -> float:
        """Return for how many seconds this client has kept the server waiting for a request, or for the rest of one.

        For an incomplete request, time is subtracted for the bytes that have arrived, as many seconds as they take at
        the slowest accepted upload rate. So the value can be negative. It is 0 while the client waits for a response.
        """
        if self.owes() or self.will_close:
            return 0.0
        request = self.request
        if request is None:
            return now - self.rested
        return now - max(request.started, self.rested) - request.received_bytes / self.server.bounds.upload_rate

    @property
    def is_with_worker(self) -> bool:
        """Whether a worker is answering a request of this connection.

        While that is so, the loop must ask the connection in each pass whether it wants to read or write, because the
        worker can change that.
        """
        return bool(self.requests) and not self.paused and not self.held

    def owes(self) -> bool:
        """Whether a complete request is still to be answered, or part of a response still to be sent."""
        return bool(self.requests or self.total_outbufs_len or self.close_when_flushed)

    def is_idle(self) -> bool:
        """Whether the connection can be closed without losing a response; at most an incomplete request is lost."""
        return not self.owes() and self.lingers_until is None

    def is_sending(self) -> bool:
        """Whether a request is arriving, or may still arrive because the connection is new."""
        return self.request is not None or time.monotonic() < self.expected_until

    def has_unread(self) -> bool:
        """Whether data from the client waits in the socket. Also works for TLS, because the data is only peeked at."""
        try:
            return bool(socket.socket.recv(self.socket, 1, socket.MSG_PEEK))
        except OSError:
            return False

    def expect(self) -> None:
        """Do not close this connection for the next few seconds, in which the client may send a request. Called when
        the listener is ending.
        """
        self.expected_until = time.monotonic() + self.server.bounds.first_bytes

    def check(self, now: float) -> None:
        """Refuse an incomplete request with 408, or close the connection, if its deadline has passed. Called by the
        loop.

        `now`: the monotonic time.
        """
        if self.request is not None and self.waiting(now) > self.server.request_timeout:
            self.refuse(RequestTimeout())
        elif self._has_timed_out(now):
            # Not through `will_close`: Waitress acts on it when the socket accepts data, which may never happen again.
            self.handle_close()

    def _has_timed_out(self, now: float) -> bool:
        if self.lingers_until is not None:
            return now > self.lingers_until
        if self.total_outbufs_len or self.close_when_flushed:
            return self._unread_for(now) > float(self.server.request_timeout)
        return self.request is None and self.waiting(now) > self.server.bounds.idle_timeout

    def _unread_for(self, now: float) -> float:
        # While output is pending nothing is read from the socket, so only the client's reading changes `last_activity`.
        if self.progress[0] != self.last_activity:
            self.progress = (self.last_activity, now)
        return now - self.progress[1]

    def refuse(self, error: BadRequest) -> None:
        """Answer a request that has not arrived completely with this error, then close the connection. Called by the
        loop.

        Does nothing if no request is arriving.
        """
        with self.requests_lock:
            request = self.request
            if request is None or self.requests or self.lingers_until is not None:
                return
            request.error, request.completed, request.expect_continue = error, True, False
            self.request, self.sent_continue = None, False
            self.requests.append(request)
            self.server.add_task(self)

    def recv(self, buffer_size: int) -> bytes:
        """Return data from the client: of a large body more at once than `buffer_size`, which takes less time."""
        is_large = self.request is not None and self.request.part.size > 0
        return bytes(super().recv(max(buffer_size, _LARGE_RECEIVE) if is_large else buffer_size))

    def received(self, data: bytes) -> bool:
        """Process data from the client; return whether it was accepted.

        After the last response, while the connection waits for the client to close, data is discarded up to a limit.
        """
        if self.lingers_until is None:
            self.expected_until = 0.0
            is_accepted = bool(super().received(data))
            if not self.is_reader and any(_may_be_held(request) for request in list(self.requests)[:1]):
                self.server.count_early(self)
            return is_accepted
        self.drained += len(data)
        if self.drained > self.server.bounds.linger_bytes:
            self.handle_close()
        return False

    def service(self) -> None:
        """Answer the first queued request. Called in a worker thread."""
        request, self.rested = self.requests[0], math.inf
        is_continued = getattr(request, "hold", None) is not None
        if is_continued:
            self.server.ask(self, wakes=False)  # the loop does so when it is woken at the end
        try:
            super().service()
        finally:
            request.close()
            if self.is_reader and not (self.held or is_continued):
                self.server.count_reader(self, is_reader=False)
            with self.outbuf_lock:
                self.promised = 0
                self._reserve()
            self.rested = time.monotonic()

    # Pending output and its memory: `part` covers pending or promised bytes beyond the connection's own share.

    def make_room(self, size: int, *, waits: bool) -> None:
        """Reserve memory for `size` more bytes of output.

        `waits`: block first until the client has read enough of the earlier output. Raises TooBusy if no memory is
        left, and ClientDisconnected.
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
        """Whether so much output is unsent that no more should be written now."""
        return bool(self.total_outbufs_len > self.adj.outbuf_high_watermark)

    def write_soon(self, data: bytes) -> int:
        """Queue data and send as much as the socket accepts now; return the length of `data`. Raises
        ClientDisconnected.
        """
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
        # Waitress omits `do_close` when it sends 100 Continue, possibly in a worker; only the loop may close.
        with self.outbuf_lock:
            sent = bool(super()._flush_some(do_close=do_close))
            self._reserve()
        return sent

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Do nothing. Waitress would block the worker until the client has read enough; here the next request stays
        queued instead (see `pauses`).
        """

    def pauses(self) -> bool:
        """Return whether the next request must stay queued until the client has read enough of the earlier responses.

        The loop starts it then. A request that is held stays queued until it is released.
        """
        hold: Hold | None = getattr(self.requests[0], "hold", None) if self.requests else None
        if hold is not None and hold.waits():
            self.held = True
            self.server.count_reader(self, is_reader=True)
            return True
        with self.outbuf_lock:
            self.paused = self.connected and self.is_ahead()
            return self.paused

    def _resume(self) -> None:
        with self.outbuf_lock:
            ready = self.paused and not (self.connected and self.is_ahead())
            self.paused = self.paused and not ready
        if ready:
            self.server.resume(self)

    def readable(self) -> bool:
        """Whether the loop should wait for data from the client.

        While a request is held, this is how the loop learns that the client has disconnected. One further request may
        arrive in that time.
        """
        if self.held and len(self.requests) == 1:
            return not (self.will_close or self.close_when_flushed or self.total_outbufs_len)
        return bool(super().readable())

    def writable(self) -> bool:
        """Whether the loop should call `handle_write` when the socket accepts data."""
        return self.paused or bool(super().writable())

    def handle_write(self) -> None:
        """Send output, then let the next request start if enough was read.

        After the last response on a connection that waits for the client to close, shut down only the sending side.
        """
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
        # RFC 9112 9.6: closing while the client still sends resets the connection, which loses the response.
        self.lingers_until = time.monotonic() + self.server.bounds.linger_seconds
        self.close_when_flushed = False
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True

    def cancel(self) -> None:
        """Drop the requests that no worker has started, when the server stops."""
        for request in self.requests:
            request.close()
        super().cancel()

    def handle_close(self) -> None:
        """Close the connection, and release the memory of an incomplete request and of unsent output."""
        if self.request is not None:
            self.request.close()
        super().handle_close()
        with self.outbuf_lock:
            self.promised = 0
            self._reserve()
        self._resume()
        self.server.count_reader(self, is_reader=False)
        for request in list(self.requests)[:1]:
            hold: Hold | None = getattr(request, "hold", None)
            if hold is not None:
                hold.release()  # a worker drops it

    def handle_error(self) -> None:
        """Log an unexpected failure and close this connection."""
        log.exception("connection_failed")
        self.handle_close()


# --- TLS connections: the handshake and the records, in the same loop as every other connection ---
#
# The loop reads while workers write, and an SSLSocket serves one thread at a time (CPython 3.11 does not lock it):
# every use of it holds `_tls`, and the holder takes no other lock.


# The size of one send. OpenSSL reports a send only when the system has all of it, so with a larger one the client would
# seem to read nothing.
_RECEIVE_SIZE = 64 * 1024


class TlsConnection(HttpConnection):
    """A TLS connection. Uses the certificate that the listener (`server.context`) had when the connection was
    accepted.
    """

    handshaking = True
    wants_write = False  # OpenSSL must send something of its own before it reads: a flight, or an answer to KeyUpdate
    said_goodbye = False  # close_notify is sent; from here on Python may treat the socket as a plain one

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self._tls = threading.Lock()
        sock.setblocking(False)
        wrapped = server.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(server, wrapped, addr, adj, map=map)
        self.sendbuf_len = min(self.sendbuf_len, _RECEIVE_SIZE)

    def _has_timed_out(self, now: float) -> bool:
        if self.handshaking:
            return now - self.rested > float(self.server.bounds.handshake_timeout)
        return super()._has_timed_out(now)

    def readable(self) -> bool:
        """Whether the loop should wait for data from the client.

        False while OpenSSL must send something first: unread data would otherwise wake the loop again and again.
        """
        if self.wants_write:
            return False
        return not self.will_close if self.handshaking else bool(super().readable())

    def writable(self) -> bool:
        """Whether the loop should call `handle_write` when the socket accepts data."""
        return self.wants_write or (self.will_close if self.handshaking else super().writable())

    def handle_read(self) -> None:
        """Continue the handshake, or read and process one TLS record.

        OpenSSL keeps no further record in its buffer, so the loop learns of the next one from the socket.
        """
        if not self.connected or self.will_close:
            return
        data = self._receive()
        if data:
            self.last_activity = time.time()
            self.received(data)
        elif data is not None:
            self.handle_close()
        elif self.handshaking:  # and has started it: its own deadline applies now
            self.expected_until = math.inf

    def _receive(self) -> bytes | None:
        """Return data from the client. Empty: the client closed the connection or broke the protocol. None: nothing to
        read now.
        """
        size = self.adj.recv_bytes
        try:
            with self._tls:
                self.wants_write = False
                if self.said_goodbye:  # data that still arrives is discarded without decryption
                    return socket.socket.recv(self.socket, size)
                if self.handshaking:
                    self.socket.do_handshake()
                    self.handshaking, self.rested = False, time.monotonic()
                    self.expect()
                return bytes(self.socket.recv(size))
        except (ssl.SSLWantReadError, BlockingIOError):
            return None
        except ssl.SSLWantWriteError:
            self.wants_write = True
            return None
        except OSError:  # including SSLError: plain HTTP, garbage, an old version, or a reset
            return b""

    def send(self, data: Any, do_close: bool = True) -> int:
        """Send as many bytes as the socket accepts now, and return their number: 0 if it accepts none or sending fails.

        `do_close`: close the connection if sending fails. Threads other than that of the listener must hold
        `outbuf_lock`.
        """
        try:
            with self._tls:
                if self.connected and not self.said_goodbye:  # otherwise it would be sent unencrypted
                    return int(self.socket.send(data))
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError:
            pass
        self.will_close = True
        if do_close:
            self.handle_close()
        return 0

    def handle_write(self) -> None:
        """Send output in this order: OpenSSL's own data, the responses, and close_notify after the last response."""
        if self.wants_write:
            self.handle_read()
        if self.handshaking:
            if self.will_close:
                self.handle_close()
        elif self.connected and not self._holds_goodbye_back():
            super().handle_write()

    def _holds_goodbye_back(self) -> bool:
        """Whether a connection that is about to close has sent all output, but cannot send close_notify yet."""
        if not self.close_when_flushed or self.will_close:
            return False
        self._flush_exception(self._flush_some)
        return not (self.total_outbufs_len or self.will_close or self._say_goodbye())

    def _say_goodbye(self) -> bool:
        """Send close_notify (RFC 8446 6.1), the end of the TLS connection, without waiting for the client's own.

        Returns False if the socket accepts nothing now.
        """
        with self._tls:
            if self.connected and not self.said_goodbye:
                try:
                    self.socket.unwrap()
                except ssl.SSLWantWriteError:
                    return False
                except (OSError, ValueError):  # usually SSLWantReadError: the client's close_notify has not arrived
                    pass
                self.said_goodbye = True
        return True

    def handle_close(self) -> None:
        """Close the connection. Send close_notify first, except after an incomplete response, which must not look
        complete.
        """
        if self.handshaking:
            self.server.handshakes_failed += self.connected
        elif not (self.requests or self.total_outbufs_len):
            self._say_goodbye()
        super().handle_close()
