"""Connections that fail, and certificates that are pinned."""

import base64
import socket
import ssl
import time
from pathlib import Path

import pytest

from mailbox_appliance.cli.client import Address, Client, PinnedConnection, Request, certificate_fingerprint
from mailbox_appliance.cli.failures import Failure
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer
from tests.servers.certificates import make_certificates

SEND = ("emails", "send", "--account", "acc_1", "--idempotency-key", "k1", "--to", "a@b")


def unused_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_get_whose_connection_drops_is_repeated_once(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("GET", "/me", Canned(drop=True), Canned(value={"data": {}}))
    assert client_of("whoami").code == 0
    assert len(server.asked) == 2


def test_a_send_whose_connection_drops_is_not(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("POST", "/accounts/acc_1/send", Canned(drop=True), Canned(value={"data": {}}))
    outcome = client_of(*SEND)
    assert (outcome.code, outcome.error["code"], len(server.asked)) == (5, "appliance_unreachable", 1)
    assert "--idempotency-key" in outcome.error["message"]


def test_nobody_listens(cli: CommandLine) -> None:
    outcome = cli("--instance", f"http://127.0.0.1:{unused_port()}", "whoami")
    assert (outcome.code, outcome.error["code"], outcome.out) == (5, "appliance_unreachable", "")
    token = {"MAILBOX_APPLIANCE_TOKEN": "t", "MAILBOX_APPLIANCE_INSTANCE": f"http://127.0.0.1:{unused_port()}"}
    outcome = cli("whoami", environment=token)
    assert (outcome.code, outcome.error["code"], outcome.out) == (5, "appliance_unreachable", "")


@pytest.mark.parametrize("answer", [Canned(value={"data": {}}), Canned(403, {}), Canned(404, {})])
def test_somebody_listens_but_nobody_has_logged_in(cli: CommandLine, server: RecordingServer, answer: Canned) -> None:
    server.answer("GET", "", answer)
    outcome = cli("--instance", server.url, "whoami")
    assert (outcome.code, outcome.error["code"], outcome.out) == (4, "unauthenticated", "")
    assert [(asked.method, asked.target) for asked in server.asked] == [("GET", "/api/v1")]


def test_a_silent_server_is_given_up(server: RecordingServer) -> None:
    server.answer("GET", "/me", Canned(silent=True))
    began = time.monotonic()
    with pytest.raises(Failure) as failed:
        Client(server.url, "t").call(Request("GET", "/me", timeout=0.1))
    assert (failed.value.code, failed.value.exit_code) == ("appliance_unreachable", 5)
    assert time.monotonic() - began < 5


def test_an_answer_that_comes_before_the_body_was_taken(client_of: CommandLine, server: RecordingServer) -> None:
    error = {"code": "message_too_large", "message": "Too large.", "requestId": "req_1"}
    server.answer("POST", "/accounts/acc_1/send", Canned(400, {"error": error}, early=True))
    outcome = client_of("emails", "send", "--account", "acc_1", "--idempotency-key", "k", "--input", "-", stdin=b"[]")
    assert (outcome.code, outcome.error) == (2, error)


def test_a_token_that_is_none_is_not_sent(cli: CommandLine, server: RecordingServer) -> None:
    cli.speak_to(server)
    outcome = cli("whoami", environment={"MAILBOX_APPLIANCE_TOKEN": "a\nX-Other: b"})
    assert (outcome.code, outcome.error["code"], server.asked) == (2, "invalid_request", [])


# fmt: off
#: address -> its one form, and whether it is this computer
ADDRESSES: list[tuple[str, str, bool]] = [
    ("http://127.0.0.1:8025/",              "http://127.0.0.1:8025",        True),
    ("http://LOCALHOST:80",                 "http://localhost",             True),
    ("http://[::1]:8025",                   "http://[::1]:8025",            True),
    ("https://Mail.Example.org:443/a/",     "https://mail.example.org/a",   False),
    ("http://127.0.0.1.example.org",        "http://127.0.0.1.example.org", False),
    ("http://127.a.b.example",              "http://127.a.b.example",       False),
]
# fmt: on


@pytest.mark.parametrize(("given", "url", "here"), ADDRESSES)
def test_addresses(given: str, url: str, here: bool) -> None:
    address = Address.parse(given)
    assert (address.url, address.is_loopback) == (url, here)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody vouches for."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def context_of(certificates: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    return context


def fingerprint_of(certificates: Path) -> str:
    pem = (certificates / "server.pem").read_text()
    body = pem.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]
    return certificate_fingerprint(base64.b64decode(body))


def test_an_unknown_certificate_is_refused_and_named(cli: CommandLine, certificates: Path) -> None:
    with RecordingServer(context_of(certificates)) as server:
        outcome = cli("login", server.url, "--email", "a@b", "--password-stdin", stdin=b"password\n")
        assert (outcome.code, outcome.error["code"]) == (5, "certificate_unknown")
        assert fingerprint_of(certificates) in outcome.error["message"]
        assert server.asked == []


def test_another_certificate_than_the_pinned_one_is_refused(cli: CommandLine, certificates: Path) -> None:
    with RecordingServer(context_of(certificates)) as server:
        login = ("login", server.url, "--email", "a@b", "--password-stdin", "--fingerprint", "sha256:" + "0" * 64)
        outcome = cli(*login, stdin=b"password\n")
        assert (outcome.code, outcome.error["code"]) == (5, "certificate_changed")
        assert server.asked == []


def test_a_pinned_certificate_is_remembered(cli: CommandLine, certificates: Path) -> None:
    with RecordingServer(context_of(certificates)) as server:
        server.data("POST", "/auth/login", {"token": "mbxs_1", "session": {}, "member": {}})
        server.data("GET", "/me", {"member": {}})
        pin = fingerprint_of(certificates)
        login = ("login", server.url, "--email", "a@b", "--password-stdin", "--fingerprint", pin.upper())
        assert cli(*login, stdin=b"password\n").code == 0
        name = server.url.removeprefix("https://")
        assert cli("--instance", name, "whoami").code == 0
        assert server.asked[-1].headers["Authorization"] == "Bearer mbxs_1"
        rows = {row["name"]: row for row in cli("instances", "list").data}
        assert rows[name]["fingerprint"] == pin


def test_a_pinned_connection_sends_nothing_before_it_has_looked(certificates: Path) -> None:
    with RecordingServer(context_of(certificates)) as server:
        address = Address.parse(server.url)
        connection = PinnedConnection(address.host, address.port, timeout=5, fingerprint="sha256:" + "1" * 64)
        with pytest.raises(Failure, match="certificate"):
            connection.request("GET", "/")
        assert server.asked == []
