"""A remote appliance: which certificates are accepted and refused, and that nothing is sent before."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mailbox_appliance
from mailbox_appliance.client.address import ServerAddress
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.tls import PinnedConnection
from tests.cli.authority import issue
from tests.cli.conftest import CommandLine, Outcome
from tests.cli.recording_server import Canned, RecordingServer

LOGGED_IN = {"token": "mbxs_new", "session": {}, "member": {}}
OWN, OTHER = issue(), issue()


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[RecordingServer]:
    """An appliance with a certificate that is not trusted."""
    with RecordingServer(OWN.context(tmp_path)) as server:
        server.data("POST", "/auth/login", LOGGED_IN)
        server.data("GET", "/me", {"member": {}})
        yield server


def log_in(cli: CommandLine, url: str, fingerprint: str | None = None) -> Outcome:
    pin = ("--fingerprint", fingerprint) if fingerprint else ()
    return cli("login", url, "--email", "a@b", "--password-stdin", *pin, stdin=b"password\n")


def test_an_unknown_certificate_is_refused_and_named(cli: CommandLine, remote: RecordingServer) -> None:
    outcome = log_in(cli, remote.url)
    assert (outcome.code, outcome.error["code"], remote.asked) == (5, "certificate_unknown", [])
    assert f"login {remote.url} --email EMAIL --fingerprint {OWN.fingerprint}`" in outcome.error["message"]
    assert "https fingerprint" in outcome.error["message"]
    assert "If you have only an API key" in outcome.error["message"]
    assert "SSL_CERT_FILE" in outcome.error["message"]
    assert not (cli.folder / "config").exists()


def test_a_pinned_certificate_is_remembered_with_its_instance(cli: CommandLine, remote: RecordingServer) -> None:
    assert log_in(cli, remote.url, OWN.fingerprint).code == 0
    assert cli("whoami").code == 0
    assert cli("whoami", "--instance", remote.url).code == 0
    assert remote.asked[-1].headers["Authorization"] == "Bearer mbxs_new"
    name = remote.url.removeprefix("https://")
    assert {row["name"]: row["fingerprint"] for row in cli("instances", "list").data} == {
        "local": None,
        name: OWN.fingerprint,
    }
    assert OWN.fingerprint in cli("instances", "list", "--format", "table").out
    assert log_in(cli, remote.url).code == 0, "the pin holds for the next log-in as well"
    assert [row["fingerprint"] for row in cli("instances", "list").data] == [None, OWN.fingerprint]


def spelled(fingerprint: str) -> tuple[str, ...]:
    digits = fingerprint.removeprefix("sha256:")
    pairs = ":".join(digits[at : at + 2] for at in range(0, 64, 2))
    return (fingerprint.upper(), f"SHA256:{pairs.upper()}", f" sha256:{pairs} ", digits, pairs.upper())


# The certificate is another one in each process, so it names no test.
@pytest.mark.parametrize(
    "fingerprint", spelled(OWN.fingerprint), ids=["upper", "colons", "space", "bare", "bare colons"]
)
def test_a_fingerprint_may_be_written_otherwise(cli: CommandLine, remote: RecordingServer, fingerprint: str) -> None:
    assert log_in(cli, remote.url, fingerprint).code == 0
    assert cli("instances", "list").data[1]["fingerprint"] == OWN.fingerprint


WRONG = ("", "sha256:", OWN.fingerprint[:-1], f"{OWN.fingerprint}0", OWN.fingerprint[7:-1], "sha1:" + "0" * 40, "é")


@pytest.mark.parametrize("text", WRONG, ids=["none", "no digits", "short", "long", "short bare", "sha1", "no ASCII"])
def test_what_is_no_fingerprint(cli: CommandLine, remote: RecordingServer, text: str) -> None:
    outcome = cli("login", remote.url, "--email", "a@b", "--password-stdin", "--fingerprint", text, stdin=b"p")
    assert (outcome.code, outcome.error["details"][0]["path"]) == (2, "option:--fingerprint")
    assert remote.asked == []


def test_the_address_of_the_api_is_the_address(cli: CommandLine, remote: RecordingServer) -> None:
    for ending in ("/api/v1", "/api/v1/", ""):
        assert log_in(cli, remote.url + ending, OWN.fingerprint).code == 0
        assert cli("whoami", "--instance", remote.url + ending).code == 0
    assert [row["url"] for row in cli("instances", "list").data] == [None, remote.url]
    assert ServerAddress.parse("https://a.example/box/api/v1").url == "https://a.example/box"
    assert ServerAddress.parse("https://a.example/api/v1x").url == "https://a.example/api/v1x"


def test_a_changed_certificate_is_refused_until_it_is_meant(
    cli: CommandLine, remote: RecordingServer, tmp_path: Path
) -> None:
    assert log_in(cli, remote.url, OWN.fingerprint).code == 0
    assert remote.context is not None
    OTHER.renew(remote.context, tmp_path)
    for outcome in (cli("whoami"), log_in(cli, remote.url)):
        assert (outcome.code, outcome.error["code"]) == (5, "certificate_changed")
        message = outcome.error["message"]
        assert all(each in message for each in (OWN.fingerprint, OTHER.fingerprint, "Nothing was sent"))
        assert f"login {remote.url} --email EMAIL --fingerprint {OTHER.fingerprint}" in message
    assert len(remote.asked) == 1, "the log-in before"
    assert log_in(cli, remote.url, OTHER.fingerprint).code == 0
    assert cli("whoami").code == 0
    assert cli("instances", "list").data[1]["fingerprint"] == OTHER.fingerprint


#: Commands of every way to ask: a row, a body, a file that comes in, the operator's, what asks more than once.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("whoami",),
    ("status",),
    ("openapi",),
    ("logout",),
    ("accounts", "list"),
    ("emails", "list", "--all"),
    ("emails", "get", "msg_1", "--raw", "--output", "-"),
    ("emails", "send", "--account", "a@b", "--idempotency-key", "k", "--to", "a@b", "--text", "secret"),
    ("attachments", "download", "msg_1", "att_1", "--output", "-"),
    ("accounts", "access", "acc_1", "--grant", "a@b"),
    ("sessions", "list", "--member", "a@b"),
    ("audit", "verify"),
    ("backup", "create"),
    ("backup", "list"),
    ("store", "status"),
    ("store", "check"),
    ("scheduled", "release"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_goes_around_the_pin(cli: CommandLine, remote: RecordingServer, command: tuple[str, ...]) -> None:
    pin(cli, remote.url, "sha256:" + "1" * 64)
    outcome = cli(*command, environment={"MAILBOX_APPLIANCE_TOKEN": "mbxs_secret"})
    assert (outcome.code, outcome.error["code"], remote.asked) == (5, "certificate_changed", [])


def pin(cli: CommandLine, url: str, fingerprint: object) -> None:
    """Store an appliance with its fingerprint, and use it."""
    (cli.folder / "config").mkdir(exist_ok=True)
    rows = {"there": {"url": url, "fingerprint": fingerprint}}
    (cli.folder / "config" / "instances.json").write_text(json.dumps({"instances": rows}))
    cli.environment["MAILBOX_APPLIANCE_INSTANCE"] = "there"


@pytest.mark.parametrize("damaged", ["", "é", 5, OWN.fingerprint.upper()], ids=["none", "no ASCII", "number", "upper"])
def test_a_pin_that_is_damaged_lets_nobody_in(cli: CommandLine, remote: RecordingServer, damaged: object) -> None:
    pin(cli, remote.url, damaged)
    outcome = cli("whoami", environment={"MAILBOX_APPLIANCE_TOKEN": "mbxs_secret"})
    assert (outcome.error["code"], remote.asked) == ("certificate_changed", [])


def test_connections_are_made_in_one_room_only() -> None:
    ours = Path(mailbox_appliance.__file__).parent
    made = re.compile(r"HTTPS?Connection\(|create_connection|urlopen|urllib\.request|wrap_socket")
    clients = (file for room in ("client", "cli") for file in (ours / room).rglob("*.py"))
    assert [file.name for file in clients if made.search(file.read_text())] == ["tls.py"]


def test_a_file_that_comes_in_over_a_pinned_connection(
    cli: CommandLine, remote: RecordingServer, tmp_path: Path
) -> None:
    assert log_in(cli, remote.url, OWN.fingerprint).code == 0
    remote.answer("GET", "/accounts/acc_1/messages/msg_1/raw", Canned(raw=b"m" * 3_000_000))
    saved = tmp_path / "saved.eml"
    outcome = cli("emails", "get", "msg_1", "--account", "acc_1", "--raw", "--output", str(saved))
    assert (outcome.code, saved.read_bytes()) == (0, b"m" * 3_000_000)


#: What a command makes of an answer that comes while it still sends: it may read all of it, a part, or nothing.
_AS_FAR_AS_IT_GOT = ("message_too_large", "unexpected_answer", "appliance_unreachable")


def test_a_large_body_goes_out_over_a_pinned_connection(
    cli: CommandLine, remote: RecordingServer, tmp_path: Path
) -> None:
    assert log_in(cli, remote.url, OWN.fingerprint).code == 0
    (tmp_path / "large").write_bytes(b"l" * 3_000_000)
    send = ["emails", "send", "--account", "acc_1", "--idempotency-key", "k", "--to", "a@b", "--text", "t"]
    send += ["--attach", str(tmp_path / "large")]
    remote.data("POST", "/accounts/acc_1/send", {"status": "succeeded"})
    assert cli(*send).code == 0
    assert len(remote.asked[-1].body) > 4_000_000
    error = {"code": "message_too_large", "message": "Too large.", "requestId": "req_1"}
    remote.answer("POST", "/accounts/acc_1/send", Canned(400, {"error": error}, early=True))
    assert cli(*send).error["code"] in _AS_FAR_AS_IT_GOT


def test_a_pinned_connection_sends_nothing_before_it_has_looked(remote: RecordingServer) -> None:
    connection = PinnedConnection(ServerAddress.parse(remote.url), timeout=5, fingerprint=OTHER.fingerprint)
    with pytest.raises(Failure, match="Nothing was sent"):
        connection.request("GET", "/")
    assert remote.asked == []


# --- without encryption


@pytest.mark.parametrize("url", ["http://mail.example.org", "http://192.0.2.7:8025", "http://127.0.0.1.example.org"])
def test_neither_password_nor_token_goes_unprotected_to_another_computer(cli: CommandLine, url: str) -> None:
    token = {"MAILBOX_APPLIANCE_TOKEN": "mbxs_secret"}
    outcomes = [log_in(cli, url), cli("whoami", "--instance", url)]
    outcomes += [cli(*command, "--instance", url, environment=token) for command in COMMANDS]
    outcomes += [cli("whoami", environment={**token, "MAILBOX_APPLIANCE_INSTANCE": url})]
    pin(cli, url, None)
    outcomes += [cli("whoami", environment=token), cli("login", "--email", "a@b", "--password-stdin", stdin=b"p")]
    assert {(outcome.code, outcome.error["code"]) for outcome in outcomes} == {(4, "https_required")}


def test_an_address_of_this_computer_is_reached_without(cli: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/me", {})
    for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
        assert cli("whoami", "--instance", url, environment={"MAILBOX_APPLIANCE_TOKEN": "t"}).code == 0


def test_a_fingerprint_belongs_to_https(cli: CommandLine, server: RecordingServer) -> None:
    assert log_in(cli, server.url, OWN.fingerprint).error["details"][0]["path"] == "option:--fingerprint"
