"""Members from the command line: what is asked for, and whom an email means."""

from typing import Any

import pytest

from mailbox_appliance.cli.commands import members
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

# fmt: off
#: command line -> request, and its body
ASKING: list[tuple[str, str, dict[str, Any]]] = [
    ("members add --name Bob --email b@c.example", "POST /admin/members",
     {"name": "Bob", "email": "b@c.example", "role": "member"}),
    ("members add --name Bob --email b@c.example --role admin", "POST /admin/members",
     {"name": "Bob", "email": "b@c.example", "role": "admin"}),
    ("members update mem_1 --name Bob", "PATCH /admin/members/mem_1", {"name": "Bob"}),
    ("members update mem_1 --email b@c.example --role admin", "PATCH /admin/members/mem_1",
     {"email": "b@c.example", "role": "admin"}),
    ("members suspend mem_1", "PATCH /admin/members/mem_1", {"status": "suspended"}),
    ("members activate mem_1", "PATCH /admin/members/mem_1", {"status": "active"}),
]
# fmt: on


@pytest.mark.parametrize(("line", "request_line", "body"), ASKING)
def test_what_is_asked_for(
    line: str, request_line: str, body: dict[str, Any], client_of: CommandLine, server: RecordingServer
) -> None:
    method, target = request_line.split(" ")
    server.data(method, target, {"id": "mem_1"}, status=201 if method == "POST" else 200)
    assert client_of(*line.split(" ")).code == 0
    (asked,) = server.asked
    assert (asked.method, asked.target, asked.json) == (method, f"/api/v1{target}", body)


def test_a_member_is_named_by_email(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/admin/members", [{"id": f"mem_{n}", "email": f"m{n}@example.org"} for n in (1, 2)])
    server.data("DELETE", "/admin/members/mem_2", {"id": "mem_2", "deleted": True})
    assert client_of("members", "remove", "M2@example.org").data == {"id": "mem_2", "deleted": True}
    outcome = client_of("members", "remove", "m3@example.org")
    assert (outcome.code, outcome.error["code"]) == (2, "not_found")


#: command -> the command that takes its link up
LINKS = {"invite": "enroll", "reset-password": "reset-password", "add": "enroll"}


@pytest.mark.parametrize("command", LINKS)
@pytest.mark.parametrize("base", ["http://127.0.0.1:8025", "https://mail.example.org"])
def test_what_becomes_of_a_link_is_said(
    command: str, base: str, client_of: CommandLine, server: RecordingServer
) -> None:
    fragment = "reset" if command == "reset-password" else "enroll"
    issued = {"token": "mbxi_x", "url": f"{base}/#{fragment}=mbxi_x", "expiresAt": "2026-01-02T00:00:00.000Z"}
    if command == "add":
        server.data("POST", "/admin/members", {"member": {"id": "mem_1"}, "invitation": issued}, status=201)
        line = ["members", "add", "--name", "Bob", "--email", "b@c.example"]
    else:
        path = "password-reset" if command == "reset-password" else "invitation"
        server.data("POST", f"/admin/members/mem_1/{path}", issued, status=201)
        line = ["members", command, "mem_1"]
    data = client_of(*line).data
    assert data.get("invitation", data) == issued
    shown = client_of(*line, "--format", "table").out
    assert issued["url"] in shown
    assert "good once" in shown
    assert f"\n  mailbox-appliance {LINKS[command]}\n" in shown
    assert ("server.public_url" in shown) == ("127.0.0.1" in base)
    (helped,) = (row.help for row in (members.ADD_MEMBER, *members.MEMBER_ROWS) if row.name == command)
    assert f"`mailbox-appliance {LINKS[command]}` asks for it" in helped


def test_who_has_not_enrolled_is_seen(client_of: CommandLine, server: RecordingServer) -> None:
    member = {"id": "mem_1", "name": "Bob", "email": "b@c.example", "role": "member", "status": "active"}
    invited = {"id": "mem_2", "invitation": {"expiresAt": "2026-01-02T00:00:00.000Z"}}
    server.data("GET", "/admin/members", [member | {"lastLoginAt": None, "invitation": None}, member | invited])
    head, enrolled, waiting = client_of("members", "list", "--format", "table").out.splitlines()
    assert head.endswith("INVITATION EXPIRES AT")
    assert (enrolled.split()[-1], waiting.split()[-1]) == ("-", "2026-01-02T00:00:00.000Z")


def test_ending_all_sessions_is_not_called_deleting_a_member(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("DELETE", "/admin/members/mem_1/sessions", {"id": "mem_1", "deleted": True})
    shown = client_of("sessions", "revoke", "--member", "mem_1", "--format", "table")
    assert shown.out == "All sessions of the member mem_1 have ended.\n"
    assert client_of("sessions", "revoke", "--member", "mem_1").data == {"id": "mem_1", "deleted": True}
