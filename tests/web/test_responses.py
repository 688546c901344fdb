"""Each family of problems becomes its status, and only statuses that the endpoint lists are sent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mailbox_appliance import errors
from mailbox_appliance.errors import Detail, Invalid, NotFound, Problem, StoreUnusable, Throttled, Unavailable
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.messages import Download
from mailbox_appliance.web import http
from mailbox_appliance.web.routes import ROUTES
from tests.checked_client import CODES

EVERY = frozenset(range(400, 600))


def problems() -> Iterator[type[Problem]]:
    """Yield every problem except those of a store that does not open, which no request meets."""
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, Problem) and not issubclass(found, StoreUnusable):
            yield found


def make(kind: type[Problem]) -> Problem:
    values: dict[str, Any] = {part.partition("}")[0]: "x" for part in (kind.__doc__ or "").split("{")[1:]}
    return kind(**values)


@pytest.mark.parametrize("kind", list(problems()))
def test_the_code_of_a_problem_belongs_to_its_status(kind: type[Problem]) -> None:
    response = http.failure(make(kind), "req_1", EVERY)
    error = json.loads(response.body)["error"]
    # The last one is about licenses.
    assert error["code"] in CODES.get(response.status, {"license_unverified"})
    assert error["message"]
    assert "details" not in error


# The problem, and the response of an endpoint that lists 400, 413 and 429, or only 400 and 429.
UNLISTED: tuple[tuple[Problem, tuple[int, str], tuple[int, str]], ...] = (
    (errors.TooLarge(what="The body", limit="1 MiB"), (413, "body_too_large"), (400, "message_too_large")),
    (errors.WrongMedia(), (400, "invalid_request"), (400, "invalid_request")),
    (errors.TooBusy(retry_after=5), (429, "too_many_attempts"), (429, "too_many_attempts")),
    (Unavailable(reason="x"), (500, "internal_error"), (500, "internal_error")),
    (NotFound(what="x"), (500, "internal_error"), (500, "internal_error")),
)


def test_a_body_that_is_too_large_names_the_limit_whatever_its_status() -> None:
    problem = errors.TooLarge(what="The message", limit="36 MiB")
    for allowed, told in (
        ({413}, "The message is larger than the limit of 36 MiB for this endpoint."),
        ({400}, "The message is larger than the limit of 36 MiB."),
    ):
        error = json.loads(http.failure(problem, "req_1", frozenset(allowed)).body)["error"]
        assert error["message"] == told


@pytest.mark.parametrize(("problem", "with_413", "without"), UNLISTED)
def test_a_status_that_is_not_listed_does_not_leave(
    problem: Problem, with_413: tuple[int, str], without: tuple[int, str]
) -> None:
    for allowed, expected in (({400, 413, 429}, with_413), ({400, 429}, without)):
        response = http.failure(problem, "req_1", frozenset(allowed))
        assert (response.status, json.loads(response.body)["error"]["code"]) == expected
        assert response.headers == ((("Retry-After", "5"),) if response.status == 429 else ())


def test_no_endpoint_answers_with_a_status_that_it_does_not_list() -> None:
    for route in ROUTES:
        for kind in problems():
            response = http.failure(make(kind), "req_1", route.errors | {500})
            assert response.status in route.errors | {500}, (route.path, kind)


def test_what_cannot_be_said_of_a_store_stays_inside() -> None:
    response = http.failure(StoreUnusable(reason="/secret/folder is gone."), "req_1", EVERY)
    assert response.status == 500
    assert b"secret" not in response.body


def test_the_headers_that_go_with_a_status() -> None:
    assert http.failure(errors.Unauthenticated(), "r", EVERY).headers == (("WWW-Authenticate", "Bearer"),)
    assert http.failure(errors.InvalidCredentials(), "r", EVERY).headers == (("WWW-Authenticate", "Bearer"),)
    assert http.failure(Throttled(retry_after=7), "r", EVERY).headers == (("Retry-After", "7"),)
    assert http.failure(Unavailable(reason="x", retry_after=7), "r", EVERY).headers == (("Retry-After", "7"),)
    assert http.failure(NotFound(what="x"), "r", EVERY).headers == ()


def test_details_are_written_out() -> None:
    details = (Detail("/to/0/email", "Wrong."), Detail("query:limit", "Wrong too."))
    body = json.loads(http.failure(Invalid(reason="x", details=details), "r", EVERY).body)
    assert body["error"]["details"] == [
        {"path": "/to/0/email", "message": "Wrong."},
        {"path": "query:limit", "message": "Wrong too."},
    ]


SUCCESSES: tuple[tuple[OperationResult[object], str], ...] = (
    (OperationResult(None), '{"data":null}'),
    (OperationResult(()), '{"data":[]}'),
    (OperationResult({"a": "ü"}), '{"data":{"a":"ü"}}'),
    (OperationResult(1, ("Careful.",)), '{"data":1,"warnings":["Careful."]}'),
)


@pytest.mark.parametrize(("answer", "text"), SUCCESSES)
def test_a_success_is_an_envelope(answer: OperationResult[object], text: str) -> None:
    response = http.success(201, answer)
    assert (response.status, response.body.decode()) == (201, text)
    assert http.headers_of(response, "req_1") == [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(text.encode()))),
        ("X-Request-Id", "req_1"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
    ]


@pytest.mark.parametrize(
    ("filename", "written"),
    [
        ("a.pdf", 'attachment; filename="a.pdf"'),
        ("a b;c.pdf", 'attachment; filename="a b;c.pdf"'),
        ('a"b\\c', "attachment; filename=\"a_b_c\"; filename*=UTF-8''a%22b%5Cc"),
        ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
        ("€.txt", "attachment; filename=\"_.txt\"; filename*=UTF-8''%E2%82%AC.txt"),
        ("a\r\nX-Bad: 1", "attachment; filename=\"a__X-Bad: 1\"; filename*=UTF-8''a%0D%0AX-Bad%3A%201"),
        ("\ud800", "attachment; filename=\"_\"; filename*=UTF-8''%3F"),
        ("", 'attachment; filename=""'),
    ],
)
def test_the_name_of_a_file_is_one_header_field(filename: str, written: str) -> None:
    assert http.disposition(filename) == written


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ("image/png", "image/png"),
        ("application/vnd.x+json", "application/vnd.x+json"),
        ("text/html", "text/html"),
        ("text/html; charset=utf-7", "application/octet-stream"),
        ("text", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("a/b\r\nX-Bad: 1", "application/octet-stream"),
        ("a/ü", "application/octet-stream"),
        ("a/" + "b" * 200, "application/octet-stream"),
    ],
)
def test_the_type_of_a_file_is_a_type(given: str, answered: str) -> None:
    file = OperationResult(Download(given, "x", 3, iter([b"abc"])))
    response = http.success(200, file)
    fields = dict(http.headers_of(response, "req_1"))
    assert (fields["Content-Type"], fields["Content-Length"]) == (answered, "3")
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Content-Security-Policy"] == "sandbox"
