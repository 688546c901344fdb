"""Requests over HTTPS, at real servers: where they go, how long they take, what counts as an answer.

What answers do not hold us up stands in `test_licence_issuer.py`; where no request may be led, in `test_steering.py`.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest

from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net import https
from tests.remote.odd_server import Peer, odd_server
from tests.servers.certificates import make_certificates


class Web:
    """An HTTPS server on loopback. `answers`: by target, the status, header fields and body."""

    def __init__(self, folder: Path) -> None:
        make_certificates(folder)
        self.ca_file = str(folder / "ca.pem")
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.socket = tls_context(self).wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="web", daemon=True)
        self._thread.start()

    def url(self, target: str = "/", host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{target}"

    @property
    def reach(self) -> https.HttpsOptions:
        return https.HttpsOptions("autoconfig", self.ca_file, 5, only_public=False)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            web.asked.append((f"{self.command} {self.path}", dict(self.headers), body))
            status, headers, content = web.answers.get(self.path, (200, {}, b"{}"))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_GET  # noqa: N815 - as the library names them

        def log_message(self, *_: object) -> None: ...

    return Handler


@pytest.fixture(scope="module")
def one_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    web = Web(tmp_path_factory.mktemp("web"))
    yield web
    web.stop()


@pytest.fixture
def web(one_web: Web) -> Web:
    one_web.answers.clear()
    one_web.asked.clear()
    return one_web


def fault_of(url: str, reach: https.HttpsOptions, redirects: int = 0) -> RemoteFault:
    with pytest.raises(RemoteFault) as caught:
        https.get(url, reach, redirects=redirects)
    return caught.value


def test_a_request_and_its_answer(web: Web) -> None:
    web.answers["/draft"] = (404, {"Retry-After": "7", "X-Odd": "1"}, b'{"error": {}}')
    sent = bytes(range(256)) * 1000
    answer = https.request("PATCH", web.url("/draft"), web.reach, {"Authorization": "Bearer secret"}, sent)
    assert (answer.status, answer.headers["retry-after"], answer.body) == (404, "7", b'{"error": {}}')
    assert "secret" not in repr(answer)
    [(line, headers, body)] = web.asked
    assert (line, body) == ("PATCH /draft", sent)
    assert headers["Host"] == f"localhost:{web.port}"
    assert headers["User-Agent"].startswith("mailbox-appliance/")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("", "/"),
        ("?a=b", "/?a=b"),
        ("/a b/ä?x=1&y=%20#part", "/a%20b/%C3%A4?x=1&y=%20"),
        ("/a\r\nX: y", "/aX:%20y"),  # urlsplit takes newlines out
        ("/\x00\x7f", "/%00%7F"),
    ],
)
def test_a_target_is_ascii_without_spaces(target: str, asked: str, web: Web) -> None:
    https.get(web.url(target), web.reach)
    assert web.asked[0][0] == f"GET {asked}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "ftp://localhost/",
        "file:///etc/passwd",
        "https:///",
        "https://user@localhost/",
        "https://user:word@localhost/",
        "https://localhost:port/",
        "https://localhost:99999/",
        "https://[::1/",
        "https://a b/",
        "https://\u2488.example/",
        f"https://{'a' * 70}.example\u00e4/",
        "gopher://127.0.0.1:25/_MAIL",
    ],
)
def test_what_is_no_address(url: str, web: Web) -> None:
    assert fault_of(url, web.reach).kind == "unreachable"


def test_a_header_field_cannot_hold_another(web: Web) -> None:
    with pytest.raises(ValueError, match="header field"):
        https.request("GET", web.url(), web.reach, {"Authorization": "Bearer a\r\nX: y"})
    assert web.asked == []


# --- where ---


def test_only_public_addresses_unless_the_operator_named_the_host(web: Web) -> None:
    public = replace(web.reach, only_public=True)
    for host in ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "127.1", "2130706433"):
        assert fault_of(web.url(host=host), public).kind == "forbidden_address"
    assert web.asked == []
    assert https.get(web.url(), web.reach).status == 200


def test_the_address_that_was_checked_is_the_one_connected_to(web: Web) -> None:
    asked = []

    def find(name: str) -> tuple[object, ...]:
        asked.append(name)
        return (ip_address("192.0.2.7" if len(asked) > 1 else "127.0.0.1"),)

    assert https.get(web.url(), replace(web.reach, look_up=find)).status == 200  # type: ignore[arg-type]
    assert asked == ["localhost"]


def test_a_name_that_nobody_knows(web: Web) -> None:
    assert fault_of(web.url(), replace(web.reach, look_up=lambda _: ())).kind == "unreachable"


def test_the_name_of_the_certificate_is_checked(web: Web) -> None:
    found = replace(web.reach, look_up=lambda _: (ip_address("127.0.0.1"),))
    fault = fault_of(web.url(host="mail.example"), found)
    assert (fault.kind, fault.name) == ("tls", "certificate_name")
    assert fault_of(web.url(), replace(web.reach, ca_file="")).name == "certificate_untrusted"
    assert fault_of(web.url(), replace(web.reach, ca_file="/nowhere")).kind == "unreachable"


# --- redirects ---


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_only_where_asked_for(status: int, web: Web) -> None:
    web.answers["/from"] = (status, {"Location": "to?x=1"}, b"")
    web.answers["/to?x=1"] = (200, {}, b"there")
    assert https.get(web.url("/from"), web.reach).status == status
    assert https.get(web.url("/from"), web.reach, {"Authorization": "Bearer a"}, redirects=1).body == b"there"
    assert "Authorization" not in web.asked[-1][1]


def test_redirects_have_an_end(web: Web) -> None:
    web.answers["/round"] = (302, {"Location": "/round"}, b"")
    assert https.get(web.url("/round"), web.reach, redirects=3).status == 302
    assert len(web.asked) == 4
    web.answers["/round"] = (302, {}, b"")
    assert https.get(web.url("/round"), web.reach, redirects=3).status == 302


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("http://localhost/", "malformed"),
        ("ftp://localhost/", "malformed"),
        ("//[::1", "malformed"),
        ("https://169.254.169.254/latest/meta-data/", "forbidden_address"),
        ("https://user@localhost/", "unreachable"),
    ],
)
def test_where_no_redirect_leads(location: str, kind: str, web: Web) -> None:
    web.answers["/from"] = (302, {"Location": location}, b"")
    assert fault_of(web.url("/from"), web.reach, redirects=3).kind == kind
    assert len(web.asked) == 1


# --- bounds ---


def test_a_longer_answer_than_we_read(web: Web) -> None:
    web.answers["/long"] = (200, {}, b"x" * 100)
    assert len(https.get(web.url("/long"), replace(web.reach, limit=100)).body) == 100
    assert fault_of(web.url("/long"), replace(web.reach, limit=99)).kind == "malformed"


def tls_context(web: Web) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(web.ca_file).with_name("server.pem"), Path(web.ca_file).with_name("server.key"))
    return context


@pytest.mark.parametrize(("size", "in_doubt"), [(0, True), (20_000_000, False)])
def test_a_server_that_takes_in_nothing(size: int, in_doubt: bool, web: Web) -> None:
    """Whether it may have all of the request is told: a draft may be sent by then."""
    gone = threading.Event()

    def deaf(_: Peer) -> None:
        gone.wait(60)

    with odd_server(deaf, tls_context(web)) as port:
        began = time.monotonic()
        with pytest.raises(RemoteFault) as caught:
            https.request("POST", f"https://localhost:{port}/", replace(web.reach, timeout=0.5), {}, bytes(size))
        assert time.monotonic() - began < 30
        gone.set()
    assert (caught.value.kind, caught.value.in_doubt) == ("timeout", in_doubt)


@pytest.mark.parametrize(("size", "works", "in_doubt"), [(0, 0, True), (100_000, 0, False), (100_000, 1, True)])
def test_what_fails_in_the_last_write_may_have_come(
    size: int, works: int, in_doubt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Socket:
        left = works

        def settimeout(self, _: float) -> None: ...

        def sendall(self, _: memoryview) -> None:
            self.left -= 1
            if self.left < 0:
                raise ConnectionResetError

        def close(self) -> None: ...

    monkeypatch.setattr(https, "_connect", lambda *_: Socket())
    with pytest.raises(RemoteFault) as caught:
        https.request("POST", "https://localhost/", https.HttpsOptions("graph", "", 1), {}, bytes(size))
    assert (caught.value.kind, caught.value.in_doubt) == ("disconnected", in_doubt)


def slow(peer: Peer) -> None:
    """A server that takes in 1.5 MB a second, and then answers."""
    while not peer.connection.recv(16_384).endswith(b"end"):
        time.sleep(0.01)
    peer.say("HTTP/1.1 201 Created", "Content-Length: 0", "")


def test_a_large_request_has_time_by_its_size(web: Web) -> None:
    with odd_server(slow, tls_context(web)) as port:
        began = time.monotonic()
        reach = replace(web.reach, timeout=0.5)
        assert https.request("POST", f"https://localhost:{port}/", reach, {}, bytes(1_500_000) + b"end").status == 201
        assert time.monotonic() - began > reach.timeout
    assert https.seconds_allowed(reach, 0) == reach.timeout
    assert https.seconds_allowed(reach, 1 << 40) == reach.timeout + https.LONGEST_UPLOAD


def test_nobody_there_is_no_doubt(web: Web) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(RemoteFault) as caught:
        https.request("POST", f"https://localhost:{port}/", web.reach, {}, b"x")
    assert (caught.value.kind, caught.value.in_doubt) == ("unreachable", False)
