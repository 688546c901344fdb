"""Commands about API keys, and their requests."""

from typing import Any

import pytest

from mailbox_appliance.cli.commands import api_keys
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, PROFILES, Capability
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

OWN, ALL = "/me/api-keys", "/admin/api-keys"
KEY = {"id": "key_1", "name": "Backup", "capabilities": ["mail.read"], "accountIds": None, "lastUsedAt": None}
TOKEN = "mbxk_test"
NEW = "api-keys create --name Backup"
ONE = "api-keys update key_1"


def test_a_member_and_a_mailbox_may_be_named_by_email(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/admin/members", [{"id": "mem_1", "email": "Cid@example.org"}])
    server.data("GET", "/accounts", [{"id": "acc_1", "email": "cid@example.org"}])
    server.data("POST", ALL, {"apiKey": KEY, "token": TOKEN}, status=201)
    given = (*NEW.split(" "), "--capability", "admin.audit", "--account", "cid@example.org", "--member")
    assert client_of(*given, "cid@example.ORG").code == 0
    wanted = {"name": "Backup", "memberId": "mem_1", "customCapabilities": ["admin.audit"], "accounts": ["acc_1"]}
    assert server.asked[-1].json == wanted
    outcome = client_of(*given, "eve@example.org")
    assert (outcome.code, outcome.error["code"]) == (2, "not_found")


def test_the_token_is_shown_with_the_word_that_it_is_once(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", OWN, {"apiKey": KEY, "token": TOKEN}, status=201)
    line = (*NEW.split(" "), "--profile", "full")
    shown = client_of(*line, "--format", "table", screen=True)
    assert f"token: {TOKEN}\n" in shown.out
    assert "only once" in shown.out
    assert "id: key_1" in shown.out
    assert client_of(*line).data == {"apiKey": KEY, "token": TOKEN}


def test_a_table_of_keys(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("GET", ALL, Canned(200, {"data": [KEY | {"memberId": "mem_1"}]}))
    head, row = client_of("api-keys", "list", "--all-members", "--format", "table").out.splitlines()
    assert head.split()[:4] == ["ID", "MEMBER", "ID", "NAME"]
    assert row.split()[:3] == ["key_1", "mem_1", "Backup"]


#: the mailboxes that a key is limited to -> the text
SCOPES = [(None, "all"), ([], "none"), (["acc_1", "acc_2"], "acc_1, acc_2")]


@pytest.mark.parametrize(("scope", "said"), SCOPES)
def test_which_mailboxes_a_key_reaches_is_plain(
    scope: Any, said: str, client_of: CommandLine, server: RecordingServer
) -> None:
    key = KEY | {"accountIds": scope, "permissionProfile": "full"}
    server.data("GET", OWN, [key])
    server.data("POST", OWN, {"apiKey": key, "token": TOKEN}, status=201)
    server.data("PATCH", f"{ALL}/key_1", key)
    listed = client_of("api-keys", "list", "--format", "table").out.splitlines()[1]
    assert listed.split("mail.read")[1].split() == [*said.split(), "-"]
    for line in (f"{NEW} --profile full", f"{ONE} --profile full"):
        assert f"accountIds: {said}\n" in client_of(*line.split(" "), "--format", "table").out
    server.data("GET", "/me", {"credential": {"accountIds": scope}})
    assert f"accountIds: {said}\n" in client_of("whoami", "--format", "table").out


def test_the_help_says_whose_key_is_revoked() -> None:
    assert "With --all-members it can be any member's key." in api_keys.REVOKE.help


def test_the_options_know_every_capability() -> None:
    assert (*api_keys.MAIL, *api_keys.ADMIN) == tuple(Capability)
    assert set(api_keys.ADMIN) == ADMIN_CAPABILITIES
    assert tuple(PROFILES) == api_keys.PROFILES
