"""How values and errors are written out: the envelope, the error object, the statuses of the families."""

from dataclasses import dataclass
from typing import Any

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
from mailbox_appliance.records import Answer

JSON = "application/json; charset=utf-8"

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


@dataclass(frozen=True)
class Response:
    """A response, written out."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON


class _Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    data: Any
    warnings: tuple[str, ...] = ()


_ALWAYS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_encoder = msgspec.json.Encoder()


def success(status: int, answer: Answer[Any]) -> Response:
    """`{"data": ..., "warnings"?: [...]}`."""
    return Response(status, _encoder.encode(_Envelope(answer.data, answer.warnings)))


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


def _listed(status: int, problem: Problem) -> tuple[int, Problem]:
    """What an endpoint says that does not list 413, 415 or 503: a 400, or 429 where it is to be tried again."""
    if status == 413:
        return 400, MessageTooLarge(what="The body", limit="this endpoint")
    if status == 415:
        return 400, Invalid.at("header:Content-Type", "The body must be `application/json`.")
    if status == 503 and problem.retry_after is not None:
        return 429, Throttled(retry_after=problem.retry_after)
    return status, problem


def headers_of(response: Response, request_id: str) -> list[tuple[str, str]]:
    """The header fields that go with a response."""
    return [
        ("Content-Type", response.media_type),
        ("Content-Length", str(len(response.body))),
        ("X-Request-Id", request_id),
        *_ALWAYS,
        *response.headers,
    ]
