"""The examination finds errors, and no packet leaves while it runs."""

import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.web.api.examination import examine
from tests.web.api.household import Household
from tests.web.api.outage import no_network

Wsgi = Callable[..., Iterable[bytes]]


def altered(app: Wsgi, status: str, body: bytes, **headers: str) -> Wsgi:
    """Return the application with another status, body or headers in its successes."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        given: list[Any] = []
        content = app(environ, lambda *start: given.extend(start))
        if not given[0].startswith("2"):
            start_response(*given)
            return content
        start_response(status, list((dict(given[1]) | {"Content-Length": str(len(body))} | headers).items()))
        return [body]

    return answer


GOOD = b'{"data":[]}'


@pytest.mark.parametrize(
    ("status", "body", "headers", "told"),
    [
        ("500 Internal Server Error", b"{}", {}, "a fault of ours"),
        ("418 Teapot", GOOD, {}, "418"),
        ("200 OK", b'{"data":[{"id":7}]}', {}, "schema"),
        ("200 OK", GOOD, {"Content-Type": "text/plain"}, "Content-Type"),
        ("200 OK", GOOD, {"X-Content-Type-Options": "none"}, "nosniff"),
    ],
)
def test_an_answer_that_is_not_as_described(
    tmp_path: Path, status: str, body: bytes, headers: dict[str, str], told: str
) -> None:
    household = Household(tmp_path / "household")
    household.app = altered(household.app, status, body, **headers)
    with pytest.raises(AssertionError, match=f"(?is){told}.*GET http://127.0.0.1:8025/api/v1/accounts"):
        examine("listAccounts", household, 5)
    household.close()


def test_what_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    household = Household(tmp_path / "household")
    real = household.app
    household.app = lambda environ, start: real(environ | {"QUERY_STRING": ""}, start)
    with pytest.raises(AssertionError, match=r"(?i)unknown parameters are taken|violating request accepted"):
        examine("listAuditEvents", household, 50)
    household.close()


def test_nothing_is_reached_meanwhile() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with no_network():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            with pytest.raises(socket.gaierror):
                socket.getaddrinfo("mail.example.org", 993)
        socket.create_connection(address).close()
