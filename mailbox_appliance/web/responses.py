"""How values and errors are written out: the envelope, the error object, the statuses of the families."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from mailbox_appliance.errors import (
    Conflict,
    Denied,
    Detail,
    Invalid,
    MessageTooLarge,
    NotFound,
    Problem,
    Throttled,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
    Unverified,
    WrongMedia,
)
from mailbox_appliance.model.records import Download, OperationResult
from mailbox_appliance.store.files import DISK_FULL_MESSAGE

JSON = "application/json; charset=utf-8"
#: Bytes of a streamed body that are handed over at once: small beside what a connection may hold of its own.
PIECE = 128 * 1024
#: Says that an answer is one of an earlier release, given again.
REPLAYED = "Idempotency-Replayed"
_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
)  # RFC 6838 4.2
_NOT_IN_NAME = re.compile(r"[^ !#-$&-\[\]-~]")  # no quote, backslash or percent: readers differ about them

_STATUS: tuple[tuple[type[Problem], int], ...] = (
    (Invalid, 400),
    (Unauthenticated, 401),
    (Denied, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (WrongMedia, 415),
    (Unsupported, 422),
    (Throttled, 429),
    (Unverified, 502),
    (Unavailable, 503),
)


class ErrorDetail(msgspec.Struct, frozen=True):
    """Where in the request the fault lies."""

    path: str
    message: str


class Error(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What went wrong: a code to switch on, a sentence for a person, the id under which it is logged."""

    code: str
    message: str
    request_id: str
    details: tuple[ErrorDetail, ...] = ()


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The body of every error."""

    error: Error


class Streamed:
    """A body that is made while it is sent; `size` where it is known. Close it, sent or not."""

    def __init__(self, pieces: Iterator[bytes], size: int | None) -> None:
        self._pieces, self.size = pieces, size

    def __iter__(self) -> Iterator[bytes]:
        """In pieces of at most PIECE bytes."""
        for chunk in self._pieces:
            view = memoryview(chunk)
            for start in range(0, len(chunk), PIECE):
                yield bytes(view[start : start + PIECE])

    def close(self) -> None:
        """Let go of what it is made from."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


@dataclass(frozen=True)
class Response:
    """A response, written out; with `stream` in place of a body where that is made while it is sent."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON
    stream: Streamed | None = None


class _Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    data: Any
    warnings: tuple[str, ...] = ()


_NOSNIFF, _NO_STORE = ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")
_encoder = msgspec.json.Encoder()


def success(status: int, answer: OperationResult[Any]) -> Response:
    """`{"data": ..., "warnings"?: [...]}`, or a file."""
    if isinstance(answer.data, Download):
        return _download(status, answer.data)
    headers = ((REPLAYED, "true"),) if answer.is_replayed else ()
    return Response(status, _encoder.encode(_Envelope(answer.data, answer.warnings)), headers)


def _download(status: int, file: Download) -> Response:
    """A file that a browser saves and never shows: a sender wrote it."""
    media_type = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else "application/octet-stream"
    headers = (("Content-Disposition", disposition(file.filename)), ("Content-Security-Policy", "sandbox"))
    return Response(status, b"", headers, media_type, Streamed(file.chunks, file.size))


def disposition(filename: str) -> str:
    """`attachment` with a file name (RFC 6266 4), in UTF-8 as well where it is not plain ASCII (RFC 8187)."""
    plain = _NOT_IN_NAME.sub("_", filename)
    extended = "" if plain == filename else f"; filename*=UTF-8''{quote(filename, safe='', errors='replace')}"
    return f'attachment; filename="{plain}"{extended}'


def failure(problem: Problem, request_id: str, allowed: frozenset[int]) -> Response:
    """The error object of a problem, with a status that the endpoint lists.

    What is no fault of the request's, and what the endpoint does not list, is a fault of ours: it tells no details.
    """
    status = next((number for family, number in _STATUS if isinstance(problem, family)), 500)
    if status not in allowed:
        status, problem = _listed(status, problem)
    if status == 500 or status not in allowed:
        return internal_error(request_id)
    headers = []
    if status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    if problem.retry_after is not None:
        headers.append(("Retry-After", str(problem.retry_after)))
    return error(status, problem.code, problem.message, request_id, problem.details, tuple(headers))


def error(
    status: int,
    code: str,
    message: str,
    request_id: str,
    details: tuple[Detail, ...] = (),
    headers: tuple[tuple[str, str], ...] = (),
) -> Response:
    """An error object."""
    shown = tuple(ErrorDetail(detail.path, detail.message) for detail in details)
    body = _encoder.encode(ErrorEnvelope(Error(code, message, request_id, shown)))
    return Response(status, body, headers)


def internal_error(request_id: str) -> Response:
    """A fault of ours. What happened stands in the log, under the request's id."""
    return error(500, "internal_error", "Something went wrong here. The log has it under this request id.", request_id)


def disk_full(request_id: str) -> Response:
    """The same where the disk of the store is full."""
    return error(500, "internal_error", DISK_FULL_MESSAGE, request_id)


def _listed(status: int, problem: Problem) -> tuple[int, Problem]:
    """What an endpoint says that does not list 413, 415 or 503: a 400, or 429 where it is to be tried again."""
    if isinstance(problem, TooLarge):
        return 400, MessageTooLarge(what=problem.what, limit=problem.limit)
    if status == 415:
        return 400, Invalid.at("header:Content-Type", "The body must be `application/json`.")
    if status == 503 and problem.retry_after is not None:
        return 429, Throttled(retry_after=problem.retry_after)
    return status, problem


def headers_of(response: Response, request_id: str) -> list[tuple[str, str]]:
    """The header fields that go with a response."""
    size = len(response.body) if response.stream is None else response.stream.size
    return [
        ("Content-Type", response.media_type),
        *((("Content-Length", str(size)),) if size is not None else ()),
        ("X-Request-Id", request_id),
        _NOSNIFF,
        *(() if any(name == _NO_STORE[0] for name, _ in response.headers) else (_NO_STORE,)),
        *response.headers,
    ]
