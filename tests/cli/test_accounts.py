"""The commands about mailboxes: reconnecting, sharing, and the mailboxes of others for administrators."""

import pytest

from tests.cli.conftest import CommandLine, Outcome
from tests.cli.recording_server import Canned, RecordingServer

IN = "/accounts/acc_1"
ADD = ("accounts", "add", "--email", "a@b.example", "--imap-host", "i", "--smtp-host", "s", "--password-stdin")
# fmt: off
#: options of `accounts access` -> who reaches it then
ACCESS: list[tuple[list[str], bool, list[str]]] = [
    (["--grant", "mem_3"],                           False, ["mem_1", "mem_2", "mem_3"]),
    (["--grant", "mem_2"],                           False, ["mem_1", "mem_2"]),
    (["--revoke", "mem_1"],                          False, ["mem_2"]),
    (["--revoke", "mem_1", "--grant", "mem_4"],      False, ["mem_2", "mem_4"]),
    (["--share-with-all"],                           True,  ["mem_1", "mem_2"]),
    (["--not-with-all", "--revoke", "mem_9"],        False, ["mem_1", "mem_2"]),
    (["--grant", "CID@b.example"],                   False, ["mem_1", "mem_2", "mem_3"]),
]
# fmt: on


def test_who_gives_no_servers_is_led_to_what_finds_them(client_of: CommandLine) -> None:
    told = client_of("accounts", "add", "--email", "a@gmail.com").error["message"]
    assert "`mailbox-appliance accounts discover a@gmail.com`" in told
    assert "--provider google" in told


def test_a_new_password_may_stand_in_the_environment(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", f"{IN}/reconnect", {"id": "acc_1"})
    server.data("GET", IN, {"id": "acc_1", "provider": "imap", "status": "ready"})
    variable = {"MAILBOX_APPLIANCE_MAILBOX_PASSWORD": "given"}
    for options, body in (
        (("--new-password",), {"imap": {"password": "given"}, "smtp": {"password": "given"}}),
        ((), {}),
    ):
        assert client_of("accounts", "reconnect", "acc_1", *options, environment=variable).code == 0
        assert server.asked[-1].json == body


@pytest.mark.parametrize(("options", "with_all", "members"), ACCESS)
def test_what_is_not_named_of_access_stays(
    options: list[str], with_all: bool, members: list[str], client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("GET", IN, {"id": "acc_1", "sharedWithAll": False, "grantedMemberIds": ["mem_1", "mem_2"]})
    server.data("GET", "/admin/members", [{"id": "mem_3", "email": "cid@b.example"}])
    server.data("PUT", f"{IN}/access", {"id": "acc_1"})
    assert client_of("accounts", "access", "acc_1", *options).code == 0
    assert server.asked[-1].json == {"sharedWithAll": with_all, "memberIds": members}


def me(server: RecordingServer, *capabilities: str, accounts: list[str] | None = None) -> None:
    server.data("GET", "/me", {"credential": {"capabilities": capabilities, "accountIds": accounts}})


def revoke(cli: CommandLine) -> Outcome:
    return cli("accounts", "access", "acc_1", "--revoke", "mem_1")


def test_an_administrator_takes_access_to_what_they_do_not_reach(
    client_of: CommandLine, server: RecordingServer
) -> None:
    every = [{"id": "acc_0"}, {"id": "acc_1", "sharedWithAll": True, "grantedMemberIds": ["mem_1"]}]
    server.data("GET", "/admin/accounts", every)
    server.data("PUT", f"{IN}/access", {"id": "acc_1"})
    me(server, "admin.accounts")
    assert revoke(client_of).code == 0
    assert server.asked[-1].json == {"sharedWithAll": True, "memberIds": []}
    assert client_of("accounts", "access", "acc_2", "--not-with-all").error["code"] == "not_found"
    me(server, "mail.read")
    assert revoke(client_of).error["code"] == "not_found"
    me(server, "admin.accounts", accounts=["acc_0"])
    assert revoke(client_of).error["code"] == "not_found"


def test_who_may_not_look_members_up_is_told_to_give_an_id(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", IN, {"id": "acc_1", "sharedWithAll": False, "grantedMemberIds": []})
    denied = {"error": {"code": "permission_denied", "message": "no", "requestId": "req_1"}}
    server.answer("GET", "/admin/members", Canned(403, denied))
    outcome = client_of("accounts", "access", "acc_1", "--grant", "cid@b.example")
    assert (outcome.code, outcome.error["requestId"]) == (4, "req_1")
    assert "Ask cid@b.example for their ID" in outcome.error["message"]
    server.data("GET", "/admin/members", [])
    assert client_of("accounts", "access", "acc_1", "--grant", "cid@b.example").error["code"] == "not_found"


def test_a_mailbox_is_connected_for_a_member(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/admin/members", [{"id": "mem_3", "email": "cid@b.example"}])
    server.data("POST", "/admin/accounts", {"id": "acc_1"}, status=201)
    for owner in ("cid@b.example", "mem_3"):
        assert client_of(*ADD, "--owner", owner, stdin=b"first\n").code == 0
        sent = server.asked[-1].json
        assert (sent["ownerMemberId"], sent["email"], sent["imap"]["password"]) == ("mem_3", "a@b.example", "first")
