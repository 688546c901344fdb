"""Failing connections, invalid responses, and addresses. For certificates see `test_remote`."""

import socket
import time

import pytest

from mailbox_appliance.client.address import ServerAddress
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

SEND = ("emails", "send", "--account", "acc_1", "--idempotency-key", "k1", "--to", "a@b")


def unused_port() -> int:
    """Return a port without a listener."""
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


@pytest.mark.parametrize("line", [["whoami"], ["status"], ["mcp"]])
def test_where_nothing_runs_the_command_is_told_that_starts_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    """A directory other than the user's default is part of the suggested command."""
    monkeypatch.setenv("XDG_DATA_HOME", str(cli.folder / "own"))
    own = cli.folder / "own" / "mailbox-appliance"
    there = cli.folder / "a b"
    for options, environment, command in (
        (["--data-dir", str(there)], {}, f"mailbox-appliance serve --data-dir '{there}'"),
        ([], {"MAILBOX_APPLIANCE_DATA_DIR": str(there)}, f"mailbox-appliance serve --data-dir '{there}'"),
        ([], {"MAILBOX_APPLIANCE_DATA_DIR": ""}, "mailbox-appliance serve"),
        (["--data-dir", str(own)], {}, "mailbox-appliance serve"),
    ):
        outcome = cli(*line, *options, environment=environment)
        assert (outcome.code, outcome.error["code"]) == (5, "appliance_unreachable")
        assert f"Start it with `{command}`" in outcome.error["message"]


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
        ApiClient(server.url, "t").call(ApiRequest("GET", "/me", timeout=0.1))
    assert (failed.value.code, failed.value.exit_code) == ("appliance_unreachable", 5)
    assert time.monotonic() - began < 5


def test_an_answer_that_comes_before_the_body_was_taken(client_of: CommandLine, server: RecordingServer) -> None:
    error = {"code": "message_too_large", "message": "Too large.", "requestId": "req_1"}
    server.answer("POST", "/accounts/acc_1/send", Canned(400, {"error": error}, early=True))
    outcome = client_of("emails", "send", "--account", "acc_1", "--idempotency-key", "k", "--input", "-", stdin=b"{}")
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
    address = ServerAddress.parse(given)
    assert (address.url, address.is_loopback) == (url, here)


@pytest.mark.parametrize("url", ["ftp://a", "https://", "https://a@b", "https://.a", "https://a b", "https://a:x", "a"])
def test_what_is_no_address(cli: CommandLine, url: str) -> None:
    outcome = cli("login", url, "--email", "a@b", "--password-stdin", stdin=b"password")
    assert (outcome.code, outcome.error["code"]) == (2, "invalid_request")


def test_a_name_that_no_computer_has(cli: CommandLine) -> None:
    outcome = cli("login", f"https://{'a' * 70}.example", "--email", "a@b", "--password-stdin", stdin=b"password")
    assert (outcome.code, outcome.error["code"]) == (2, "invalid_request")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(client_of: CommandLine, server: RecordingServer, status: int) -> None:
    elsewhere = (("Location", f"{server.url}/api/v1/elsewhere"),)
    server.answer("GET", "/me", Canned(status, raw=b"<p>Moved.</p>", fields=elsewhere))
    outcome = client_of("whoami")
    assert (outcome.code, outcome.error["code"]) == (1, "unexpected_answer")
    assert "not followed" in outcome.error["message"]
    assert [asked.target for asked in server.asked] == ["/api/v1/me"]
