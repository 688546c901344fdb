"""What is answered on a connection: the application's answers, and the server's own errors in the same shape.

Waitress internals used (pinned to 3.0.*): of Task `status`, `version`, `response_headers`, `content_length`,
`wrote_header`, `write`, `execute`, `set_close_on_finish`, `build_response_header`, `get_environment`.
"""

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from waitress.task import ErrorTask, WSGITask

from mailbox_appliance.errors import TooBusy
from mailbox_appliance.ids import new_id

log = logging.getLogger(__name__)

#: Environ key: the size of a body that was over the listener's bound; it was thrown away and `wsgi.input` is empty.
BODY_DISCARDED = "mailbox.body_discarded"
#: Environ key: the size of a body that there was no memory for; it was thrown away and `wsgi.input` is empty.
BODY_POSTPONED = "mailbox.body_postponed"

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
        code, text = _REFUSALS[error.code]
        # Waitress quotes what was sent behind its reason.
        message = text.format(reason=str(error.body).partition(' "')[0])
        self.version = "1.1"
        body = _begin_error(self, 400 if error.code == 501 else error.code, code, message)
        self.set_close_on_finish()
        self.channel.lingers = True
        self.write(body)


def _begin_error(task: Any, number: int, code: str, message: str) -> bytes:
    """Make a task's answer an error of the server itself; gives its body, which is still to be written."""
    status, request_id = HTTPStatus(number), new_id("req")
    level = logging.ERROR if status == HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO
    log.log(level, "request refused", extra={"status": int(status), "code": code, "requestId": request_id})
    body = msgspec.json.encode({"error": {"code": code, "message": message, "requestId": request_id}})
    task.status, task.content_length = f"{status.value} {status.phrase}", len(body)
    task.response_headers = [("Content-Type", "application/json; charset=utf-8"), ("X-Request-Id", request_id)]
    return body


class Answer(WSGITask):
    """An answer of the application."""

    wrote_header = False

    def execute(self) -> None:
        """Ask the application and write its answer; where there is no memory for it, say so instead."""
        try:
            super().execute()
        except TooBusy as busy:
            if self.wrote_header:
                raise
            body = _begin_error(self, HTTPStatus.SERVICE_UNAVAILABLE, busy.code, busy.message)
            self.response_headers.append(("Retry-After", str(busy.retry_after)))
            self.channel.write_soon(self.build_response_header() + body)
            self.wrote_header = True

    def write(self, data: bytes) -> None:
        """Write one part of the answer, mostly all of it; raises TooBusy where there is no memory for it."""
        self.channel.make_room(len(data) + _HEADER, waits=self.wrote_header)
        super().write(data)

    def get_environment(self) -> dict[str, Any]:
        """The WSGI environment, telling of a body that was thrown away."""
        environ: dict[str, Any] = super().get_environment()
        environ.pop("wsgi.file_wrapper", None)  # it writes what is no bytes
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
