"""Members from the command line: what is asked for, and whom an email means."""

from typing import Any

import pytest

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


@pytest.mark.parametrize("command", ["invite", "reset-password"])
def test_a_link_is_said_to_be_shown_once(command: str, client_of: CommandLine, server: RecordingServer) -> None:
    path = "password-reset" if command == "reset-password" else "invitation"
    issued = {"token": "mbxi_x", "url": "http://127.0.0.1/#enroll=mbxi_x", "expiresAt": "2026-01-02T00:00:00.000Z"}
    server.data("POST", f"/admin/members/mem_1/{path}", issued, status=201)
    assert client_of("members", command, "mem_1").data == issued
    shown = client_of("members", command, "mem_1", "--format", "table").out
    assert issued["url"] in shown
    assert "good once" in shown
