"""Asking a licence's issuer, at a real HTTP server: what counts as an answer, and what does not hold us."""

import ssl
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.licence_issuer import is_licence_valid
from tests.remote.odd_server import Peer, odd_server
from tests.servers.certificates import make_certificates
from tests.servers.issuer import Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as started:
        yield started


def ask(url: str, timeout: float = 5, ca_file: str = "") -> bool:
    return is_licence_valid(url, "a.licence.token", ca_file=ca_file, timeout=timeout)


def kind_of(url: str, timeout: float = 5, ca_file: str = "") -> str:
    with pytest.raises(RemoteFault) as fault:
        ask(url, timeout, ca_file)
    assert "a.licence.token" not in fault.value.reason + str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize("valid", [True, False])
def test_a_verdict(valid: bool, issuer: Issuer) -> None:
    issuer.says(valid=valid)
    assert ask(issuer.url) is valid
    assert issuer.asked == [{"target": "/licences/verify?v=1", "type": "application/json", "token": "a.licence.token"}]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"true"),
        (200, b"[true]"),
        (200, b'{"valid": "true"}'),
        (200, b'{"valid": 1}'),
        (200, b"{}"),
        (200, b"\xff"),
        (200, b"[" * 60_000),
        (200, b'{"valid": true}' + b" " * 65_536),
        (200, b'{"valid": true} {"valid": true}'),
        (201, b'{"valid": true}'),
        (204, b""),
        (404, b'{"valid": true}'),
        (500, b'{"valid": true}'),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, issuer: Issuer) -> None:
    issuer.answer = (status, body)
    assert kind_of(issuer.url) == "license: malformed"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int, issuer: Issuer) -> None:
    issuer.answer, issuer.headers = (status, b""), {"Location": issuer.url}
    assert kind_of(issuer.url) == "license: malformed"
    assert len(issuer.asked) == 1


def test_nobody_there() -> None:
    with Issuer() as issuer:
        url = issuer.url
    assert kind_of(url) == "license: unreachable"


def saying(*pieces: bytes, every: float = 0.0, context: ssl.SSLContext | None = None) -> AbstractContextManager[int]:
    """A server that says these bytes to the first who comes, and hangs up; gives its port."""

    def part(peer: Peer) -> None:
        peer.connection.recv(65_536)
        for piece in pieces:
            peer.say(piece)
            time.sleep(every)

    return odd_server(part, context)


@pytest.mark.parametrize(
    "said",
    [
        [b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 100],
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 100,
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", *[b" "] * 100],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 100],
    ],
    ids=["headers", "continue", "body", "chunks"],
)
def test_a_server_that_drips_does_not_hold_us(said: list[bytes]) -> None:
    with saying(*said, every=0.1) as port:
        began = time.monotonic()
        assert kind_of(f"http://127.0.0.1:{port}/", 0.5) == "license: timeout"
        assert time.monotonic() - began < 8


def test_a_handshake_that_does_not_come_to_an_end_does_not_hold_us() -> None:
    began = time.monotonic()
    # A record of TLS that is announced and drips.
    with saying(b"\x16\x03\x03\x40\x00", *[b"\x02"] * 100, every=0.1) as port:
        assert kind_of(f"https://127.0.0.1:{port}/", 0.5) == "license: timeout"
    assert time.monotonic() - began < 8


ENDS = ("license: malformed", "license: timeout", "license: disconnected")


@pytest.mark.parametrize(
    "flood",
    [
        b"A" * 65_536,  # a line without end
        b"X: " + b"y" * 60_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n" + b"X: y\r\n" * 50 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 60_000 + b"\r\n \r\n",
    ],
    ids=["line", "headers", "continue", "chunk"],
)
def test_a_flood_costs_little_memory_and_time(flood: bytes) -> None:
    began = time.monotonic()
    tracemalloc.start()
    try:
        with saying(b"HTTP/1.1 200 OK\r\n" if flood[:1] in b"AX" else b"", *[flood] * 1000) as port:
            assert kind_of(f"http://127.0.0.1:{port}/", 1) in ENDS
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"", "malformed"),
        (b"220 mail.example ESMTP\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "malformed"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"valid": true}', "malformed"),
        (b'HTTP/1.1 204 No Content\r\n\r\n{"valid": true}', "malformed"),
    ],
)
def test_what_is_no_http(said: bytes, kind: str) -> None:
    with saying(said) as port:
        assert kind_of(f"http://127.0.0.1:{port}/") in (f"license: {kind}", "license: disconnected")


def test_over_tls_with_a_name_that_is_checked(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"valid": true}'
    ca_file = str(tmp_path / "ca.pem")
    with saying(answer, context=context) as port:
        assert ask(f"https://localhost:{port}/", ca_file=ca_file) is True
    with saying(answer, context=context) as port:
        assert kind_of(f"https://localhost:{port}/") == "license: tls"
    with saying(b"220 plain text\r\n") as port:
        assert kind_of(f"https://127.0.0.1:{port}/", ca_file=ca_file) == "license: tls"


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "[fe80::1]"])
def test_where_we_never_connect(host: str) -> None:
    assert kind_of(f"https://{host}/") == "license: forbidden_address"
