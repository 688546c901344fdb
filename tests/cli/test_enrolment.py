"""Accepting links from administrators, and commands with which members change their own data."""

from pathlib import Path

import pytest

from tests.cli.authority import issue
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

LOGGED_IN = {"token": "mbxs_new", "session": {"id": "ses_1"}, "member": {"id": "mem_1"}}
CALLS = {"enroll": ("/auth/enroll", "enroll=mbxi_t"), "reset-password": ("/auth/password-reset", "reset=mbxr_t")}
STDIN = ("--link-stdin", "--password-stdin", "--device-name", "desk")


@pytest.mark.parametrize("name", CALLS)
def test_a_link_is_taken_up_where_it_leads(name: str, cli: CommandLine, server: RecordingServer) -> None:
    path, fragment = CALLS[name]
    server.data("POST", path, LOGGED_IN)
    server.data("GET", "/me", {"member": {}})
    outcome = cli(name, *STDIN, stdin=f" {server.url}/#{fragment} \na new password\n".encode())
    assert (outcome.code, outcome.data) == (0, LOGGED_IN)
    token = fragment.partition("=")[2]
    assert server.asked[0].json == {"token": token, "password": "a new password", "deviceName": "desk"}
    assert "Authorization" not in server.asked[0].headers
    assert cli("whoami").code == 0
    assert server.asked[-1].headers["Authorization"] == "Bearer mbxs_new"
    assert cli("instances", "list").data[1]["current"] is True


def test_the_token_alone_goes_to_the_address_that_is_named(cli: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/auth/enroll", LOGGED_IN)
    given = {"MAILBOX_APPLIANCE_LINK": "mbxi_t", "MAILBOX_APPLIANCE_PASSWORD": "a new password"}
    assert cli("enroll", server.url, environment=given).code == 0
    # An address that is named counts, wherever the link leads.
    given["MAILBOX_APPLIANCE_LINK"] = "https://elsewhere.example/#enroll=mbxi_t"
    for line in (("enroll", server.url), ("--instance", server.url, "enroll")):
        assert cli(*line, environment=given, screen=True).code == 0
    assert [asked.json["token"] for asked in server.asked] == ["mbxi_t"] * 3


def test_the_token_of_the_log_in_is_not_shown_in_a_window(cli: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/auth/enroll", LOGGED_IN)
    outcome = cli("enroll", server.url, *STDIN, stdin=b"mbxi_t\na new password\n", screen=True)
    assert outcome.code == 0
    assert "mbxs_new" not in outcome.out + outcome.err


# fmt: off
#: command line and link -> exit code, and a word of the message
REFUSED: list[tuple[tuple[str, ...], str, int, str]] = [
    (("enroll",),                                  "http://a.example/#reset=mbxr_t",  2, "`mailbox-appliance reset-"),
    (("reset-password",),                          "mbxi_t",                          2, "`mailbox-appliance enroll`"),
    (("enroll",),                                  "http://a.example/#enroll=mbxi_t", 4, "Use https"),
    (("enroll", "http://a.example"),               "mbxi_t",                          4, "Use https"),
    (("enroll", "https://a.example/#enroll=x"),    "",                                2, "The link is a secret"),
    (("enroll",),                                  "ftp://a.example/#enroll=mbxi_t",  2, "Invalid address"),
    (("enroll",),                                  "",                                2, "--link-stdin"),
    (("enroll", "http://127.0.0.1", "--fingerprint", "sha256:" + "0" * 64), "t",      2, "https URL"),
]
# fmt: on


@pytest.mark.parametrize(("line", "link", "code", "told"), REFUSED)
def test_what_is_refused_before_anything_is_sent(
    line: tuple[str, ...], link: str, code: int, told: str, cli: CommandLine
) -> None:
    given = {"MAILBOX_APPLIANCE_LINK": link, "MAILBOX_APPLIANCE_PASSWORD": "a new password"}
    outcome = cli(*line, environment=given)
    assert outcome.code == code
    assert told in outcome.error["message"]
    assert "mbxi_t" not in outcome.err


def test_an_unknown_certificate_is_pinned_by_its_fingerprint(cli: CommandLine, tmp_path: Path) -> None:
    own = issue()
    with RecordingServer(own.context(tmp_path)) as server:
        server.data("POST", "/auth/enroll", LOGGED_IN)
        stdin = f"{server.url}/#enroll=mbxi_t\na new password\n".encode()
        outcome = cli("enroll", *STDIN, stdin=stdin)
        assert (outcome.code, outcome.error["code"], server.asked) == (5, "certificate_unknown", [])
        assert "repeat `enroll` or `reset-password` with that --fingerprint" in outcome.error["message"]
        assert cli("enroll", *STDIN, "--fingerprint", own.fingerprint, stdin=stdin).code == 0
        assert cli("instances", "list").data[1]["fingerprint"] == own.fingerprint


# --- what members change about themselves -----------------------------------------------------------------------------


def test_both_passwords_come_from_stdin_or_the_environment(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/me/password", None)
    expected = {"currentPassword": "the old one", "newPassword": "the new one"}
    options = ("--password-stdin", "--new-password-stdin")
    assert client_of("password", *options, stdin=b"the old one\nthe new one\n").data is None
    given = {"MAILBOX_APPLIANCE_PASSWORD": "the old one", "MAILBOX_APPLIANCE_NEW_PASSWORD": "the new one"}
    assert client_of("password", environment=given, screen=True).code == 0
    assert client_of("password", "--new-password-stdin", stdin=b"the new one", environment=given).code == 0
    assert [asked.json for asked in server.asked] == [expected] * 3


def test_a_new_password_that_is_not_given_is_told(client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("password", "--password-stdin", stdin=b"the old one\n")
    assert (outcome.code, outcome.error["details"][0]["path"]) == (2, "option:--new-password-stdin")
    assert "MAILBOX_APPLIANCE_NEW_PASSWORD" in outcome.error["message"]
    assert server.asked == []


def test_a_link_into_the_console(client_of: CommandLine, server: RecordingServer) -> None:
    link = {"url": "http://127.0.0.1:8025/#console=mbxc_t", "expiresAt": "2026-01-02T00:00:00.000Z"}
    server.data("POST", "/auth/console-links", link, status=201)
    assert client_of("console").data == link
    shown = client_of("console", "--format", "table").out
    assert link["url"] in shown
    assert "before 2026-01-02T00:00:00.000Z. It is single-use" in shown


def test_what_answers_is_shown_without_a_log_in(cli: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/", {"name": "mailbox-appliance", "version": "1"})
    assert cli("about", "--instance", server.url).data["version"] == "1"
    assert "Authorization" not in server.asked[0].headers
    assert cli("about").error["code"] == "appliance_unreachable"
