"""A real nginx and a real Caddy with the documented settings: remote clients are never treated as local.

If the proxy is trusted, its HTTPS clients sign in and administrate, each with their own address.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.caddy import Caddy
from tests.servers.front import Front, blocks, documented
from tests.servers.nginx import Nginx
from tests.servers.running import PASSWORD, RunningAppliance

HOST = "mail.example.org"
LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "far away"}
#: Addresses of clients, none of which is a trusted proxy.
CLIENT, ANOTHER = "127.0.0.7", "127.0.0.8"
Started = Callable[[str], Front]

#: Fields that a client on the internet may add to look local, like another client, or like one with HTTPS.
CLAIMS: tuple[tuple[str, ...], ...] = (
    (),
    ("X-Forwarded-For: 127.0.0.1",),
    ("X-Forwarded-For:",),
    ("X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: ::1"),
    ("Forwarded: for=127.0.0.1;proto=https;host=127.0.0.1", "X-Forwarded-Proto: https"),
    ("X-Real-IP: 127.0.0.1", "Client-IP: 127.0.0.1", "True-Client-IP: 127.0.0.1"),
    ("X_Forwarded_For: 127.0.0.1", "X-Forwarded-Host: 127.0.0.1:8025"),
    ("X-Forwarded-For: 203.0.113.9, 127.0.0.1", "X-Forwarded-Proto: http"),
    # Fields that are named here belong to the connection, so some proxies remove them (RFC 9110 7.6.1).
    ("Connection: close, X-Forwarded-For, X-Forwarded-Proto, Via",),
)
#: Requests that only this computer may make without HTTPS, and the refusal for all others.
GUARDED: tuple[tuple[str, str, object, str], ...] = (
    ("POST", "/setup", {"setupCode": "x", "name": "Eve", **LOGIN}, "permission_denied"),
    ("POST", "/auth/login", LOGIN, "https_required"),
    ("GET", "/admin/members", None, "https_required"),
)


@contextmanager
def served(tmp_path_factory: pytest.TempPathFactory, **settings: object) -> Iterator[RunningAppliance]:
    """Yield an appliance that is set up, with these settings of `[server]`."""
    folder = tmp_path_factory.mktemp("behind") / "data"
    folder.mkdir(mode=0o700)
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    (folder / "config.toml").write_text("".join(["[server]\n", *lines]))
    process = RunningAppliance(folder).start()
    try:
        process.set_up()
        yield process
    finally:
        process.stop()


@contextmanager
def fronts(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Yield proxies with the documented settings, each started on first use."""
    made: dict[str, Front] = {}

    def started(which: str) -> Front:
        if which not in made:
            folder, block = tmp_path_factory.mktemp(which), documented(which)
            kind = {"nginx": Nginx, "caddy": Caddy}[which]
            made[which] = kind(folder, block, backend=backend)
            made[which].start()
        return made[which]

    try:
        yield started
    finally:
        for front in made.values():
            front.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """Yield an appliance that accepts the proxy's name and trusts no proxy."""
    with served(tmp_path_factory, allowed_hosts=[HOST]) as process:
        yield process


@pytest.fixture(scope="module")
def untrusted(running: RunningAppliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Yield the proxies in front of `running`."""
    with fronts(running.url, tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """Yield an appliance with the documented settings for a trusted proxy."""
    (shown,) = (block for block in blocks("toml") if "trusted_proxies" in block)
    settings = tomllib.loads(shown)["server"]
    with served(tmp_path_factory, **settings) as process:
        yield process


@pytest.fixture(scope="module")
def trusted(trusting: RunningAppliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Yield the proxies in front of `trusting`."""
    with fronts(trusting.url, tmp_path_factory) as started:
        yield started


def written(
    method: str, path: str, body: object, token: str | None, fields: tuple[str, ...] = (), version: str = "1.1"
) -> bytes:
    """Return a request as it is sent over the wire."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /api/v1{path} HTTP/{version}", f"Host: {HOST}", "Connection: close"]
    lines += [f"Authorization: Bearer {token}"] * (token is not None)
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"] * (body is not None)
    return "\r\n".join([*lines, *fields, "", ""]).encode() + content


def outcome(answer: bytes) -> tuple[int, Any]:
    """Return status and body of the response."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower(), head
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("which", ["nginx", "caddy"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("claims", CLAIMS, ids=lambda claims: "; ".join(claims) or "nothing")
def test_the_internet_stays_the_internet(
    untrusted: Started, running: RunningAppliance, which: str, claims: tuple[str, ...], version: str
) -> None:
    for method, path, body, code in GUARDED:
        token = running.token if method == "GET" else None
        request = written(method, path, body, token, claims, version)
        status, refused = outcome(untrusted(which).exchange(request, CLIENT))
        assert (status, refused["error"]["code"]) == (403, code), (path, refused)


def test_without_a_proxy_the_same_requests_are_local(running: RunningAppliance) -> None:
    assert running.ask("POST", "/auth/login", LOGIN).status == 200
    assert running.ask("GET", "/admin/members").status == 200
    assert running.ask("POST", "/setup", {"setupCode": "x", "name": "Eve", **LOGIN}, token="").status == 409


@pytest.mark.parametrize("which", ["nginx", "caddy"])
def test_who_is_logged_in_works_through_a_proxy_that_nobody_trusts(
    untrusted: Started, running: RunningAppliance, which: str
) -> None:
    status, me = outcome(untrusted(which).exchange(written("GET", "/me", None, running.token)))
    assert (status, me["data"]["member"]["email"]) == (200, "ada@example.org")


def test_a_second_request_hidden_in_the_first_is_marked_as_well(untrusted: Started, running: RunningAppliance) -> None:
    hidden = written("GET", "/admin/members", None, running.token)
    first = (
        f"POST /api/v1/auth/login HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    answers = untrusted("nginx").exchange(first.encode() + hidden)
    assert answers.count(b'"https_required"') == 2
    assert b'"ada@example.org"' not in answers


@pytest.mark.parametrize("which", ["nginx", "caddy"])
@pytest.mark.parametrize("claims", CLAIMS, ids=lambda claims: "; ".join(claims) or "nothing")
def test_a_trusted_proxy_lets_in_by_its_https_who_they_are(
    trusted: Started, trusting: RunningAppliance, which: str, claims: tuple[str, ...]
) -> None:
    front = trusted(which)
    status, login = outcome(front.exchange(written("POST", "/auth/login", LOGIN, None, claims), CLIENT))
    assert status == 200, login
    ask = written("GET", "/admin/audit-events?limit=1", None, login["data"]["token"], claims)
    status, events = outcome(front.exchange(ask, ANOTHER))
    assert status == 200, events
    (latest,) = events["data"]["items"]
    assert (latest["action"], latest["clientAddress"]) == ("session.create", CLIENT)
    # Setup and the operator's commands stay local.
    operator = json.loads((trusting.folder / "run.json").read_text())["secret"]
    method, path, body, code = GUARDED[0]
    status, refused = outcome(front.exchange(written(method, path, body, None, claims), CLIENT))
    assert (status, refused["error"]["code"]) == (403, code)
    status, refused = outcome(front.exchange(written("GET", "/admin/backups", None, operator, claims), CLIENT))
    assert (status, refused["error"]["code"]) == (401, "unauthenticated")


def test_a_trusted_proxy_that_was_asked_by_plain_http_says_so(trusting: RunningAppliance) -> None:
    for fields, status in (
        ({"X_Forwarded_For": CLIENT}, 403),
        ({"X_Forwarded_For": CLIENT, "X_Forwarded_Proto": "http"}, 403),
        ({"X_Forwarded_For": CLIENT, "X_Forwarded_Proto": "https, http"}, 403),
        ({"Forwarded": f"for={CLIENT};proto=https"}, 403),
        ({"X_Forwarded_For": CLIENT, "X_Forwarded_Proto": "https"}, 200),
    ):
        assert trusting.ask("GET", "/admin/members", None, timeout=60, **fields).status == status, fields


def test_who_guesses_is_locked_out_and_nobody_else(trusted: Started, trusting: RunningAppliance) -> None:
    def log_in(source: str, **given: str) -> tuple[int, Any]:
        return outcome(trusted("nginx").exchange(written("POST", "/auth/login", LOGIN | given, None), source))

    for number in range(30):
        assert log_in(CLIENT, email=f"nobody{number}@example.org")[0] == 401
    status, refused = log_in(CLIENT)
    assert (status, refused["error"]["code"]) == (429, "too_many_attempts")
    assert log_in(ANOTHER)[0] == 200
    assert trusting.ask("POST", "/auth/login", LOGIN).status == 200


@pytest.mark.parametrize("which", ["nginx", "caddy"])
def test_large_messages_pass(trusted: Started, trusting: RunningAppliance, which: str) -> None:
    message = {"to": [{"email": "bob@example.org"}], "text": "x" * (30 << 20)}
    request = written("POST", "/accounts/acc_unknown/drafts", message, trusting.token)
    assert outcome(trusted(which).exchange(request))[0] == 404


#: Lines to remove from the documented block, and lines for nginx instead.
UNMARKED = r"\n *proxy_set_header X-[^;]+;"
BARE = r"\n *proxy_(?:set_header|http_version) [^;]+;"
#: The default of nginx before release 1.29.7.
OLD = "proxy_http_version 1.0;"


def answers_behind(
    running: RunningAppliance, folder: Path, removed: str, added: str = ""
) -> Iterator[tuple[int, str | None]]:
    """Yield status and code of the guarded requests, and of /metrics, behind an nginx with a changed block."""
    block = re.sub(removed, "", documented("nginx")).replace("proxy_read_timeout", f"{added}\n proxy_read_timeout")
    assert "X-Forwarded" not in block
    front = Nginx(folder, block, backend=running.url).start()
    try:
        for method, path, body, _ in GUARDED:
            request = written(method, path, body, running.token if method == "GET" else None)
            status, told = outcome(front.exchange(request, CLIENT))
            yield status, told.get("error", {}).get("code")
        request = written("GET", "/metrics", None, None).replace(b"/api/v1/metrics", b"/metrics")
        yield int(front.exchange(request, CLIENT).split()[1]), None
    finally:
        front.stop()


@pytest.mark.parametrize(
    ("removed", "added"),
    [
        (BARE, OLD),
        (BARE, f"{OLD} proxy_set_header Host $host;"),
        (BARE, f"{OLD} proxy_set_header X-Real-IP $remote_addr;"),
        (UNMARKED, "proxy_set_header X-Real-IP $remote_addr;"),
    ],
    ids=["nothing", "Host", "X-Real-IP", "HTTP/1.1 and X-Real-IP"],
)
def test_a_plain_nginx_makes_nobody_local(running: RunningAppliance, tmp_path: Path, removed: str, added: str) -> None:
    answers = list(answers_behind(running, tmp_path, removed, added))
    assert answers == [*((403, code) for *_, code in GUARDED), (403, None)]


def test_a_trusted_nginx_that_speaks_http_1_0_works(trusting: RunningAppliance, tmp_path: Path) -> None:
    block = documented("nginx").replace("proxy_http_version 1.1;", OLD)
    assert OLD in block
    front = Nginx(tmp_path, block, backend=trusting.url).start()
    try:
        status, login = outcome(front.exchange(written("POST", "/auth/login", LOGIN, None), ANOTHER))
        assert status == 200, login
        ask = written("GET", "/admin/members", None, login["data"]["token"])
        assert outcome(front.exchange(ask, ANOTHER))[0] == 200
    finally:
        front.stop()


def test_a_proxy_that_marks_nothing_makes_everybody_local(running: RunningAppliance, tmp_path: Path) -> None:
    """As documented: HTTP/1.1 without a header field of a proxy looks like a local request."""
    answers = list(answers_behind(running, tmp_path, UNMARKED))
    # 409, since it is set up already; before that, the setup code alone would protect it.
    assert [status for status, _ in answers] == [409, 200, 200, 200]
