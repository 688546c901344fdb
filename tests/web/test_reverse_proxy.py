"""Behind a real nginx on this computer, with the settings that the guide shows, nobody is local who is not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.nginx import Nginx
from tests.servers.running import PASSWORD, RunningAppliance

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guide.md"
HOST = "mail.example.org"
ENVIRONMENT = {"MAILBOX_APPLIANCE_SERVER_ALLOWED_HOSTS": HOST}
LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "far away"}

#: What a client from the internet may add, to be taken for this computer.
CLAIMS: tuple[tuple[str, ...], ...] = (
    (),
    ("X-Forwarded-For: 127.0.0.1",),
    ("X-Forwarded-For:",),
    ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: ::1"),
    ("Forwarded: for=127.0.0.1;proto=https;host=127.0.0.1", "X-Forwarded-Proto: https"),
    ("X-Real-IP: 127.0.0.1", "Client-IP: 127.0.0.1", "True-Client-IP: 127.0.0.1"),
    ("X_Forwarded_For: 127.0.0.1", "X-Forwarded-Host: 127.0.0.1:8025"),
    # Fields that are named here belong to the connection and are taken off by some proxies (RFC 9110 7.6.1).
    ("Connection: close, X-Forwarded-For, X-Forwarded-Proto, Via",),
)
#: What only this computer may do without HTTPS, and how everybody else is refused.
GUARDED: tuple[tuple[str, str, object, str], ...] = (
    ("POST", "/setup", {"setupCode": "x", "name": "Eve", **LOGIN}, "permission_denied"),
    ("POST", "/auth/login", LOGIN, "https_required"),
    ("GET", "/admin/members", None, "https_required"),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """The appliance, set up, that answers to the proxy's name."""
    process = RunningAppliance(tmp_path_factory.mktemp("behind") / "data", ENVIRONMENT).start()
    process.set_up()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def nginx(running: RunningAppliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """nginx with the guide's settings."""
    (block,) = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    proxy = Nginx(tmp_path_factory.mktemp("nginx"), block, backend=running.url).start()
    yield proxy
    proxy.stop()


def written(method: str, path: str, body: object, token: str | None, fields: tuple[str, ...], version: str) -> bytes:
    """A request as it goes over the wire."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /api/v1{path} HTTP/{version}", f"Host: {HOST}", "Connection: close"]
    lines += [f"Authorization: Bearer {token}"] * (token is not None)
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"] * (body is not None)
    return "\r\n".join([*lines, *fields, "", ""]).encode() + content


def outcome(answer: bytes) -> tuple[int, Any]:
    """Status and body of the answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("claims", CLAIMS, ids=lambda claims: "; ".join(claims) or "nothing")
def test_the_internet_stays_the_internet(
    nginx: Nginx, running: RunningAppliance, claims: tuple[str, ...], version: str
) -> None:
    for method, path, body, code in GUARDED:
        token = running.token if method == "GET" else None
        status, refused = outcome(nginx.exchange(written(method, path, body, token, claims, version)))
        assert (status, refused["error"]["code"]) == (403, code), (path, refused)


def test_without_a_proxy_the_same_requests_are_local(running: RunningAppliance) -> None:
    assert running.ask("POST", "/auth/login", LOGIN).status == 200
    assert running.ask("GET", "/admin/members").status == 200
    assert running.ask("POST", "/setup", {"setupCode": "x", "name": "Eve", **LOGIN}, token="").status == 409


def test_who_is_logged_in_works_through_the_proxy(nginx: Nginx, running: RunningAppliance) -> None:
    status, me = outcome(nginx.exchange(written("GET", "/me", None, running.token, (), "1.1")))
    assert (status, me["data"]["member"]["email"]) == (200, "ada@example.org")


def test_a_second_request_hidden_in_the_first_is_marked_as_well(nginx: Nginx, running: RunningAppliance) -> None:
    hidden = written("GET", "/admin/members", None, running.token, (), "1.1")
    first = (
        f"POST /api/v1/auth/login HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    answers = nginx.exchange(first.encode() + hidden)
    assert answers.count(b'"https_required"') == 2
    assert b'"ada@example.org"' not in answers
