"""Certificates that are accepted without a pin, messages about others, and servers without current TLS."""

import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from mailbox_appliance.client import http
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from tests.cli.authority import Certificate, issue
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer
from tests.cli.test_remote import LOGGED_IN, log_in

OWN, ROOT = issue(), issue(authority=True)
BETWEEN = issue(ROOT, authority=True)


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this system trust ROOT."""
    (tmp_path / "root.pem").write_bytes(ROOT.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.pem"))


CHAINS: dict[str, tuple[Certificate, tuple[Certificate, ...]]] = {
    "by the root": (issue(ROOT), ()),
    "by a chain": (issue(BETWEEN), (BETWEEN,)),
}


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", CHAINS)
def test_a_certificate_that_the_system_trusts_needs_no_pin(cli: CommandLine, tmp_path: Path, kind: str) -> None:
    certificate, between = CHAINS[kind]
    with RecordingServer(certificate.context(tmp_path, *between)) as server:
        server.data("POST", "/auth/login", LOGGED_IN)
        server.data("GET", "/me", {})
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            assert log_in(cli, url).code == 0
            assert cli("whoami").code == 0
        assert [row["fingerprint"] for row in cli("instances", "list").data] == [None, None, None]
        assert cli("whoami", "--instance", server.url, environment={"MAILBOX_APPLIANCE_TOKEN": "t"}).code == 0


# fmt: off
_UNKNOWN, _MISMATCH = "certificate_unknown", "certificate_name_mismatch"
#: what the server shows -> the code, and words of the message
REFUSED: dict[str, tuple[Certificate, str, str]] = {
    "its own":              (OWN,                                      _UNKNOWN,                    "self-signed"),
    "of another authority": (issue(issue(authority=True)),             _UNKNOWN,                    "its issuer"),
    "a chain with a gap":   (issue(BETWEEN),                           _UNKNOWN,                    "incomplete chain"),
    "for another name":     (issue(ROOT, names=("mail.example.org",)), _MISMATCH,                   "for this IP"),
    "for another address":  (issue(ROOT, names=("127.0.0.9",)),        _MISMATCH,                   "for this IP"),
    "expired":              (issue(ROOT, days=(-60, -1)),              "certificate_expired",       "has expired"),
    "of tomorrow":          (issue(ROOT, days=(1, 30)),                "certificate_not_yet_valid", "check the clock"),
}
# fmt: on


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_wrong_with_a_certificate_is_told_and_nothing_sent(cli: CommandLine, tmp_path: Path, kind: str) -> None:
    certificate, code, words = REFUSED[kind]
    with RecordingServer(certificate.context(tmp_path)) as server:
        server.data("POST", "/auth/login", LOGGED_IN)
        outcome = log_in(cli, server.url)
        assert (outcome.code, outcome.error["code"], server.asked) == (5, code, [])
        assert words in outcome.error["message"]
        assert certificate.fingerprint in outcome.error["message"]
        assert log_in(cli, server.url, certificate.fingerprint).code == 0, "a pin takes the place of all that"


@pytest.mark.usefixtures("trusted")
def test_a_pin_holds_against_a_certificate_that_the_system_trusts(cli: CommandLine, tmp_path: Path) -> None:
    with RecordingServer(issue(ROOT).context(tmp_path)) as server:
        outcome = log_in(cli, server.url, OWN.fingerprint)
        assert (outcome.error["code"], server.asked) == ("certificate_changed", [])


def test_nothing_older_than_tls_1_2_is_spoken(tmp_path: Path) -> None:
    context = OWN.context(tmp_path)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with RecordingServer(context) as server:
        for fingerprint in (OWN.fingerprint, None):
            with pytest.raises(Failure, match=r"TLS 1\.2 or 1\.3 could not") as failed:
                ApiClient(server.url, "t", fingerprint).call(ApiRequest("GET", "/me"))
            assert failed.value.code == "appliance_unreachable"
        assert server.asked == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_today_are(tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = OWN.context(tmp_path)
    context.minimum_version = context.maximum_version = version
    with RecordingServer(context) as server:
        server.data("GET", "/me", {})
        assert ApiClient(server.url, "t", OWN.fingerprint).call(ApiRequest("GET", "/me")) == {"data": {}}


def test_http_at_an_address_that_should_be_https(cli: CommandLine, server: RecordingServer) -> None:
    outcome = log_in(cli, server.url.replace("http:", "https:"))
    assert (outcome.code, outcome.error["code"]) == (5, "appliance_unreachable")
    assert "the port does not use TLS; check that this is its HTTPS port" in outcome.error["message"]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n"], ids=["closed", "refused"])
def test_an_http_port_that_takes_no_handshake(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=answered_twice, args=(listener, answer), name="answering")
        answering.start()
        with pytest.raises(
            Failure, match=r"(does not use TLS|ended the TLS handshake); check that this is its HTTPS port"
        ):
            ApiClient(f"https://127.0.0.1:{listener.getsockname()[1]}", "t").call(ApiRequest("GET", "/me", timeout=5))
        answering.join()


def answered_twice(listener: socket.socket, answer: bytes) -> None:
    """Respond as an HTTP listener that receives a TLS handshake."""
    for _ in range(2):
        peer, _ = listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(answer)


def test_https_at_an_address_that_should_be_http(cli: CommandLine, tmp_path: Path) -> None:
    with RecordingServer(OWN.context(tmp_path)) as server:
        outcome = log_in(cli, server.url.replace("https:", "http:"))
        assert (outcome.code, outcome.error["code"], server.asked) == (5, "appliance_unreachable", [])


def test_a_handshake_that_nobody_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert http._CONNECT_SECONDS == 10
    monkeypatch.setattr(http, "_CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        began = time.monotonic()
        with pytest.raises(Failure, match=r"the TLS handshake timed out; check that this is its HTTPS port"):
            ApiClient(f"https://127.0.0.1:{deaf.getsockname()[1]}", "t").call(ApiRequest("GET", "/me", timeout=60))
        assert time.monotonic() - began < 5, "however long an answer may take"
        deaf.setblocking(False)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()  # it was not asked twice


def test_a_handshake_that_drips_is_given_up() -> None:
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB that comes byte by byte
                    while not stop.wait(0.05):
                        peer.sendall(b"\x00")
                except OSError:
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,), name="dripping")
        dripping.start()
        try:
            began = time.monotonic()
            with pytest.raises(Failure):
                ApiClient(f"https://127.0.0.1:{listener.getsockname()[1]}", "t").call(
                    ApiRequest("GET", "/me", timeout=0.3)
                )
            assert time.monotonic() - began < 5
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            dripping.join()
