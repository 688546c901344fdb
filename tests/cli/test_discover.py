"""`accounts discover`: its output for people, and the command that connects the servers found."""

from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

EMAIL = "ada@b.example"


def way(**other: Any) -> dict[str, Any]:
    server = {"host": "imap.b.example", "port": 993, "security": "tls", "username": EMAIL}
    smtp = server | {"host": "smtp.b.example", "port": 465}
    return {"source": "srv", "foundBy": ["srv"], "provider": None, "name": None, "note": None} | {
        "imap": server | other.pop("imap", {}),
        "smtp": smtp | other.pop("smtp", {}),
        **other,
    }


START = f"mailbox-appliance accounts add --email {EMAIL}"
HOSTS = f"{START} --imap-host imap.b.example --smtp-host smtp.b.example"
HOSTED = f"{START} --imap-host imap.b.example"


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (way(), HOSTS),
        (way(provider="google"), f"{START} --provider google"),
        (way(provider="google"), f"{HOSTS}   # with an app password"),
        (
            way(smtp={"security": "starttls", "port": 587}),
            f"{HOSTED} --smtp-host smtp.b.example --smtp-security starttls",
        ),
        (way(imap={"port": 1993}), f"{HOSTED} --imap-port 1993 --smtp-host smtp.b.example"),
        (way(imap={"username": "ada"}), f"{HOSTS} --imap-username ada --smtp-username {EMAIL}"),
        (
            way(imap={"username": "a b"}, smtp={"username": "a b"}),
            f"{HOSTS} --imap-username 'a b'",
        ),
    ],
)
def test_the_command_that_connects(
    found: dict[str, Any], command: str, client_of: CommandLine, server: RecordingServer
) -> None:
    said = {"source": "srv", "found": True, "outcome": "The DNS names it."}
    server.data("POST", "/accounts/discover", {"email": EMAIL, "candidates": [found], "sources": [said]})
    shown = client_of("accounts", "discover", EMAIL, "--format", "table")
    assert server.asked[-1].json == {"email": EMAIL}
    assert f"   {command}\n" in shown.out
    assert "  srv: The DNS names it.\n" in shown.out


def test_nothing_found(client_of: CommandLine, server: RecordingServer) -> None:
    said = {"source": "mx", "found": False, "outcome": "There is no domain b.example in DNS. Check the address."}
    server.data("POST", "/accounts/discover", {"email": EMAIL, "candidates": [], "sources": [said]})
    shown = client_of("accounts", "discover", EMAIL, "--format", "table")
    assert shown.code == 0
    assert "No servers were found." in shown.out
    assert "Check the address." in shown.out
