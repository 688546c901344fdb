"""What is answered on a connection: the application's answers, and the server's own errors in the same shape.

Waitress internals used (pinned to 3.0.*): of Task `status`, `version`, `response_headers`, `content_length`,
`wrote_header`, `write`, `service`, `execute`, `finish`, `close_on_finish`, `content_bytes_written`,
`set_close_on_finish`, `build_response_header`, `get_environment`.
"""

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
from waitress.task import ErrorTask, WSGITask

from mailbox_appliance.errors import Problem, TooBusy
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.web.framing import BadField, Unfinished

log = logging.getLogger(__name__)

#: Environ key: the size of a body that was over the listener's bound; it was thrown away and `wsgi.input` is empty.
BODY_DISCARDED = "mailbox.body_discarded"
#: Environ key: the size of a body that there was no memory for; it was thrown away and `wsgi.input` is empty.
BODY_POSTPONED = "mailbox.body_postponed"

#: Environ key: takes a body that is written bit by bit as the client reads it; the application then returns nothing.
HAND_OVER = "mailbox.hand_over"

_HEADER = 4096  # bytes, about: what an answer is besides its body

#: Status, code and text of the answers that the server gives without asking the application.
_REFUSALS = {
    400: ("invalid_request", "This is not a valid HTTP request: {reason}."),
    408: ("request_timeout", "The request was not complete in time. Send it again, without pauses."),
    413: ("body_too_large", "The body is far larger than anything this service takes."),
    431: ("headers_too_large", "The header of the request is too large."),
    500: ("internal_error", "Something went wrong here. The log tells more under this request id."),
    501: ("invalid_request", "This is not a valid HTTP request: {reason}."),
}


class Refusal(ErrorTask):
    """An answer of the server itself, after which the connection is closed."""

    def execute(self) -> None:
        """Write the answer; the request has an `error`."""
        error = self.request.error
        code, message = _refusal(error)
        self.version = "1.1"
        places = (f"header:{error.name}",) if isinstance(error, BadField) else ()
        body = _begin_error(self, 400 if error.code == 501 else error.code, code, message, places)
        if isinstance(error, Unfinished):
            _add_retry_after(self, error.problem)
        self.set_close_on_finish()
        self.channel.lingers = True
        self.write(body)


def _refusal(error: Any) -> tuple[str, str]:
    if isinstance(error, Unfinished):
        return error.problem.code, error.problem.message
    code, text = _REFUSALS[error.code]
    # Waitress quotes what was sent behind its reason.
    return code, text.format(reason=str(error.body).partition(' "')[0])


def _begin_error(task: Any, number: int, code: str, message: str, places: tuple[str, ...] = ()) -> bytes:
    """Make a task's answer an error of the server itself; gives its body, which is still to be written.

    `places`: where its message has its reason.
    """
    status, request_id = HTTPStatus(number), new_id("req")
    level = logging.ERROR if status == HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO
    log.log(level, "request refused", extra={"status": int(status), "code": code, "requestId": request_id})
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


class Body(Protocol):
    """A body that the application makes while it is written."""

    def __iter__(self) -> Iterator[bytes]:
        """Its pieces."""

    def close(self) -> None:
        """It is written, or never will be."""


class Answer(WSGITask):
    """An answer of the application.

    A body that is handed over holds no worker up: what is to come of it stands as a `Rest` in front of the connection's
    next request, and is gone on with when the client has read enough of what is there.
    """

    wrote_header = False
    close_on_finish = False
    content_length: int | None = None
    rest: "Rest | None" = None  # where it is to be gone on with
    _body: Body | None = None
    _pieces: Iterator[bytes] = iter(())
    _size: int | None = None
    _is_last = False

    def service(self) -> None:
        """Write the answer, or as much of it as the client can take now."""
        self.rest = None
        try:
            super().service()
        finally:
            if not self._is_paused():
                self.close()

    def close(self) -> None:
        """Nothing more is written."""
        if self._body is not None:
            self._body.close()

    def execute(self) -> None:
        """Ask the application and write its answer; where there is no memory for it, say so instead."""
        if self._is_streamed():
            self._continue()
            return
        try:
            super().execute()
            if self._is_streamed():
                self.content_length = self._size
                self._continue()
        except TooBusy as busy:
            if self.wrote_header:
                raise
            body = _begin_error(self, HTTPStatus.SERVICE_UNAVAILABLE, busy.code, busy.message)
            _add_retry_after(self, busy)
            self.channel.write_soon(self.build_response_header() + body)
            self.wrote_header = True

    def finish(self) -> None:
        """End the answer, unless more of it is to come."""
        if not self._is_paused():
            super().finish()

    def _is_streamed(self) -> bool:
        return self._body is not None

    def _is_paused(self) -> bool:
        return self.rest is not None

    def _take_stream(self, body: Body) -> None:
        self._body, self._pieces = body, iter(body)
        # Waitress would miss the body, which is written after the application returned.
        self._size, self.content_length = self.content_length, None

    def _continue(self) -> None:
        self.close_on_finish = self.close_on_finish or self._is_last
        for piece in self._pieces:
            self.write(piece)
            if self.channel.is_ahead():
                self._pause()
                return
        if self._size is not None and self.content_bytes_written != self._size:
            log.error("a streamed body ended early")
            self.close_on_finish = True

    def _pause(self) -> None:
        # While more is to come the connection must not be closed.
        self._is_last, self.close_on_finish = self.close_on_finish, False
        self.rest = Rest(self)
        with self.channel.requests_lock:
            self.channel.requests.insert(1, self.rest)

    def write(self, data: bytes) -> None:
        """Write one part of the answer, mostly all of it; raises TooBusy where there is no memory for it."""
        self.channel.make_room(len(data) + _HEADER, waits=self.wrote_header)
        super().write(data)

    def get_environment(self) -> dict[str, Any]:
        """The WSGI environment, telling of a body that was thrown away."""
        environ: dict[str, Any] = super().get_environment()
        environ.pop("wsgi.file_wrapper", None)  # it writes what is no bytes
        environ[HAND_OVER] = self._take_stream
        if self.request.postponed:
            environ[BODY_POSTPONED] = self.request.discarded_bytes
        if self.request.too_large:
            environ[BODY_DISCARDED] = self.request.discarded_bytes
        return environ

    def build_response_header(self) -> bytes:
        """The header, saying so when the connection ends with this answer."""
        if self.request.unread or self.channel.server.draining:
            self.channel.lingers = True
            self.set_close_on_finish()
        return super().build_response_header()


class Rest:
    """What is to come of an answer; stands where the connection's next request would."""

    error = None

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        request = answer.request
        self.version, self.headers, self.path = request.version, request.headers, request.path

    def close(self) -> None:
        """Unless it was gone on with, it never will be."""
        if self.answer.rest is self:
            self.answer.rest = None
            self.answer.close()


def begin(channel: Any, request: Any) -> Answer:
    """The task of a request: a new one, or that which is to be gone on with."""
    return request.answer if isinstance(request, Rest) else Answer(channel, request)
