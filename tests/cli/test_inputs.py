"""JSON bodies, and lists of messages, from files and the standard input."""

import io
import json
from typing import Any

import pytest

from mailbox_appliance.cli.commands import members
from mailbox_appliance.cli.inputs import MAX_MESSAGES, read_messages
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client.errors import Failure
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

IN = "/accounts/acc_1"
BODY = b'{ "a": 1 }'
# fmt: off
#: command line that takes a whole body -> method and target
WHOLE: list[tuple[str, str]] = [
    ("accounts add",                                   "POST /accounts"),
    ("accounts reconnect acc_1",                       f"POST {IN}/reconnect"),
    ("accounts access acc_1",                          f"PUT {IN}/access"),
    ("accounts map-folders acc_1",                     f"PATCH {IN}/imap/folders"),
    ("members add",                                    "POST /admin/members"),
    ("members update mem_1",                           "PATCH /admin/members/mem_1"),
    ("api-keys create",                                "POST /me/api-keys"),
    ("api-keys update key_1",                          "PATCH /admin/api-keys/key_1"),
    ("oauth-apps set google",                          "PUT /admin/oauth-apps/google"),
    ("settings set",                                   "PATCH /admin/settings"),
    ("profile update",                                 "PATCH /me"),
    ("drafts create --account acc_1",                  f"POST {IN}/drafts"),
    ("drafts update d --account acc_1",                f"PUT {IN}/drafts/d"),
    ("emails send --account acc_1 --idempotency-key k", f"POST {IN}/send"),
    ("emails send --account acc_1 --dry-run",          f"POST {IN}/send/preview"),
    ("emails preview --account acc_1",                 f"POST {IN}/send/preview"),
    ("emails forward m --account acc_1 --idempotency-key k", f"POST {IN}/messages/m/forward"),
]
#: input that is not a JSON object -> the code, and a word of the message
NO_OBJECT: list[tuple[bytes, str, str]] = [
    (b"",                    "invalid_json",    "is empty"),
    (b"{",                   "invalid_json",    "line 1, column 2"),
    (b"{}\n{}",              "invalid_json",    "line 2, column 1"),
    (b'{"a": NaN}',          "invalid_json",    "NaN"),
    (b'{"a": 1, "a": 2}',    "invalid_json",    "'a' occurs twice"),
    (b'{"a": ' + b"9" * 5000 + b"}", "invalid_json", "not valid JSON: a number has too many digits."),
    (b'{"a": "\xff"}',       "invalid_json",    "UTF-8"),
    (b"[" * 100_000,         "invalid_json",    "too deeply"),
    (b"[]",                  "invalid_request", "must be a JSON object"),
    (b'"text"',              "invalid_request", "must be a JSON object"),
    (b"null",                "invalid_request", "must be a JSON object"),
]
#: a list of messages -> the ids
LISTS: list[tuple[str, list[str]]] = [
    ("msg_1\n\n  msg_2 \r\nmsg_1\n",                               ["msg_1", "msg_2"]),
    ('\ufeff["msg_1", {"id": "msg_2"}]',                            ["msg_1", "msg_2"]),
    ('{"id": "msg_1", "subject": "a"}\n{"id": "msg_2"}\n',         ["msg_1", "msg_2"]),
    ('{"id": "msg_1"}',                                            ["msg_1"]),
    ('"msg_1"\n"msg_2"\n',                                         ["msg_1", "msg_2"]),
    ('{"data": {"items": [{"id": "msg_1"}]}}\n{"data": \n{"items": ["msg_2"]}}', ["msg_1", "msg_2"]),
    ('{\n "data": {\n "items": [{"id": "msg_1"}], "nextCursor": null}}', ["msg_1"]),
    ('{"data": {"id": "thr_1", "messages": {"items": [{"id": "msg_1"}]}}}', ["msg_1"]),
]
#: invalid lists -> a word of the message
NO_LIST: list[tuple[str, str]] = [
    ("null",                     "must hold message IDs"),
    ("msg_1\nThere are two.",     "must hold message IDs"),
    ("msg_1\n\"msg_2\"",          "must hold message IDs"),
    ("[1]",                      "must hold message IDs"),
    ('{"succeededIds": []}',     "must hold message IDs"),
    ('{"id": "msg_1"}\n{"id"',   "not valid JSON"),
    ("[",                        "not valid JSON"),
    ("[" * 500 + "]" * 500,      "nested too deeply"),
]
# fmt: on


@pytest.mark.parametrize(("line", "request_line"), WHOLE)
def test_a_body_goes_as_it_stands(
    line: str, request_line: str, client_of: CommandLine, server: RecordingServer
) -> None:
    method, target = request_line.split(" ")
    server.data(method, target, {"operationId": "dlv_1", "token": "t"})
    file = client_of.folder / "body.json"
    file.write_bytes(b"\xef\xbb\xbf" + BODY)
    for name in ("-", str(file)):
        outcome = client_of(*line.split(" "), "--input", name, stdin=BODY)
        assert (outcome.code, outcome.err) == (0, "")
        assert (f"{server.asked[-1].method} {server.asked[-1].target}", server.asked[-1].body) == (
            request_line.replace(" ", " /api/v1"),
            BODY,
        )


@pytest.mark.parametrize(("line", "_request"), WHOLE)
def test_no_option_goes_with_it(line: str, _request: str, client_of: CommandLine, server: RecordingServer) -> None:
    option = {
        "accounts add": "--email=a", "accounts reconnect": "--imap-host=a", "accounts access": "--grant=a",
        "accounts map-folders": "--sent=a", "members add": "--email=a", "members update": "--email=a",
        "api-keys create": "--name=a", "api-keys update": "--no-accounts", "oauth-apps set": "--client-id=a",
        "settings set": "a", "profile update": "--name=a",
    }.get(" ".join(line.split(" ")[:2]), "--to=a@b.example")  # fmt: skip
    outcome = client_of(*line.split(" "), option, "--input", "-", stdin=BODY)
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, "option:--input", [])


@pytest.mark.parametrize(("content", "code", "told"), NO_OBJECT)
def test_what_is_no_object_is_told_before_anything_is_sent(
    content: bytes, code: str, told: str, client_of: CommandLine, server: RecordingServer
) -> None:
    for line in ("members add", "emails send --account acc_1 --idempotency-key k"):
        outcome = client_of(*line.split(" "), "--input", "-", stdin=content)
        assert (outcome.code, outcome.error["code"], server.asked) == (2, code, [])
        assert told in outcome.error["message"]


def test_whose_it_is_goes_along(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/admin/accounts", {"id": "acc_1"}, status=201)
    server.data("POST", "/admin/api-keys", {"apiKey": {}, "token": "t"}, status=201)
    assert client_of("accounts", "add", "--owner", "mem_2", "--input", "-", stdin=BODY).code == 0
    assert client_of("api-keys", "create", "--member", "mem_2", "--input", "-", stdin=BODY).code == 0
    assert [asked.json for asked in server.asked] == [{"a": 1, "ownerMemberId": "mem_2"}, {"a": 1, "memberId": "mem_2"}]


# --- lists of messages ------------------------------------------------------------------------------------------------


def done(*ids: str, **besides: Any) -> dict[str, Any]:
    return {"action": "archive", "succeededIds": list(ids), "failed": [], "uncertainIds": [], **besides}


@pytest.mark.parametrize(("content", "ids"), LISTS)
def test_a_list_of_messages(content: str, ids: list[str], client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", f"{IN}/messages/actions", done(*ids))
    outcome = client_of("emails", "archive", "--account", "acc_1", "--input", "-", stdin=content.encode())
    assert (outcome.code, outcome.data) == (0, done(*ids))
    assert server.asked[0].json == {"action": "archive", "messageIds": ids}


@pytest.mark.parametrize(("content", "told"), NO_LIST)
def test_what_is_no_list_of_messages(content: str, told: str, client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("emails", "archive", "--account", "acc_1", "--input", "-", stdin=content.encode())
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, "option:--input", [])
    assert told in outcome.error["message"]


@pytest.mark.parametrize("content", [b"", b"\n", b"[]", b'{"data": {"items": [], "nextCursor": null}}'])
def test_a_list_may_be_empty(content: bytes, client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("emails", "archive", "--input", "-", stdin=content)
    assert (outcome.code, outcome.data, server.asked) == (0, done(), [])


OF_TWO = b'{"id": "m1", "accountId": "acc_1"}\n{"id": "m2", "accountId": "acc_2"}\n{"id": "m3", "accountId": "acc_1"}'


def test_messages_of_several_mailboxes_are_asked_for_where_they_are(
    client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/messages/actions", done("m1", "m3"))
    server.data("POST", "/accounts/acc_2/messages/actions", done("m2"))
    outcome = client_of("emails", "archive", "--input", "-", stdin=OF_TWO)
    assert (outcome.code, outcome.data) == (0, done("m1", "m3", "m2"))
    assert [asked.json["messageIds"] for asked in server.asked] == [["m1", "m3"], ["m2"]]


def test_messages_of_another_mailbox_than_the_named_one_are_refused(
    client_of: CommandLine, server: RecordingServer
) -> None:
    outcome = client_of("emails", "delete", "--account", "acc_1", "--input", "-", stdin=OF_TWO)
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, "option:--account", [])
    assert "m2 is in mailbox acc_2, not in acc_1" in outcome.error["message"]


def test_messages_are_named_in_one_way(client_of: CommandLine, server: RecordingServer) -> None:
    for line, path in (((), "argument:MESSAGE-ID..."), (("m", "--input", "-"), "option:--input")):
        outcome = client_of("emails", "archive", "--account", "acc_1", *line, stdin=b"m")
        assert (outcome.code, outcome.error["details"][0]["path"]) == (2, path)
    outcome = client_of("emails", "read", "--input", "-", stdin=b"\n".join(b"m%d" % n for n in range(10_001)))
    assert "at most 10,000" in outcome.error["message"]
    assert server.asked == []


def test_many_are_asked_for_a_hundred_at_a_time(client_of: CommandLine, server: RecordingServer) -> None:
    ids = [f"msg_{n}" for n in range(250)]
    failed = [{"messageId": "msg_249", "code": "not_found"}]
    answers = [done(*ids[:100]), done(*ids[100:200]), done(*ids[200:249], failed=failed)]
    server.answer(
        "POST", f"{IN}/messages/actions", *(Canned(value={"data": one, "warnings": ["w"]}) for one in answers)
    )
    outcome = client_of("emails", "archive", "--account", "acc_1", *ids)
    assert outcome.code == 3
    assert outcome.data == done(*ids[:249], failed=failed)
    assert json.loads(outcome.out)["warnings"] == ["w"]
    assert [asked.json["messageIds"] for asked in server.asked] == [ids[:100], ids[100:200], ids[200:]]


def undoable(token: str, *ids: str) -> Canned:
    return Canned(value={"data": done(*ids), "undo": {"token": token, "expiresAt": "2026-01-02T00:00:00.000Z"}})


def test_an_action_tells_how_to_undo_it(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("POST", f"{IN}/messages/actions", undoable("mbxu_1", "m1"))
    outcome = client_of("emails", "archive", "--account", "acc_1", "m1")
    assert json.loads(outcome.out)["undo"]["token"] == "mbxu_1"
    outcome = client_of("emails", "archive", "--account", "acc_1", "m1", "--format", "table")
    assert outcome.out.endswith("\nUndo: mailbox-appliance emails undo mbxu_1 --account acc_1\n")
    outcome = client_of("emails", "archive", "--account", "acc_1", "m1", "--format", "ndjson")
    assert json.loads(outcome.out) == done("m1")
    assert json.loads(outcome.err)["undo"]["token"] == "mbxu_1"


def test_an_action_of_several_requests_has_several_undos(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("POST", f"{IN}/messages/actions", undoable("mbxu_1", "m1", "m3"))
    server.data("POST", "/accounts/acc_2/messages/actions", done("m2"))
    outcome = client_of("emails", "archive", "--input", "-", stdin=OF_TWO)
    offers = json.loads(outcome.out)["undo"]
    assert [(one["accountId"], one["token"]) for one in offers] == [("acc_1", "mbxu_1")]


def test_an_undo_of_which_a_part_failed_exits_with_3(client_of: CommandLine, server: RecordingServer) -> None:
    failed = [{"messageId": "m1", "code": "changed"}]
    server.data("POST", f"{IN}/messages/actions/undo", done(action="undo", failed=failed))
    outcome = client_of("emails", "undo", "mbxu_1", "--account", "acc_1")
    assert (outcome.code, outcome.data["failed"]) == (3, failed)
    assert server.asked[0].json == {"token": "mbxu_1"}


def test_what_was_done_before_it_broke_off_is_told(client_of: CommandLine, server: RecordingServer) -> None:
    ids = [f"msg_{n}" for n in range(150)]
    away = {"code": "provider_unavailable", "message": "m", "requestId": "r"}
    server.answer(
        "POST", f"{IN}/messages/actions", Canned(value={"data": done(*ids[:100])}), Canned(503, {"error": away})
    )
    outcome = client_of("emails", "archive", "--account", "acc_1", *ids)
    assert (outcome.code, outcome.data, outcome.error) == (5, done(*ids[:100]), away)


#: the response -> the exit code
ENDS: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({"failed": [{"messageId": "msg_2", "code": "not_found"}]}, 3),
    ({"uncertainIds": ["msg_2"]}, 3),
]


@pytest.mark.parametrize(("said", "code"), ENDS)
def test_the_exit_code_tells_what_was_not_done(
    said: dict[str, Any], code: int, client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/messages/actions", done("msg_1") | said)
    assert client_of("emails", "archive", "msg_1", "msg_2", "--account", "acc_1").code == code


# --- How many messages one command is about ---


def test_ten_thousand_messages_and_no_more() -> None:
    terminal = Terminal(io.BytesIO(), io.StringIO(), io.StringIO())
    named = tuple(f"m{number}" for number in range(MAX_MESSAGES))
    assert len(read_messages(terminal, (*named, "m0"), None)) == MAX_MESSAGES == 10_000  # each counts once
    with pytest.raises(Failure):
        read_messages(terminal, (*named, "m"), None)


# --- Members on the command line: the requests, and the member that an email selects ---


def test_a_member_is_named_by_email(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/admin/members", [{"id": f"mem_{n}", "email": f"m{n}@example.org"} for n in (1, 2)])
    server.data("DELETE", "/admin/members/mem_2", {"id": "mem_2", "deleted": True})
    assert client_of("members", "remove", "M2@example.org").data == {"id": "mem_2", "deleted": True}
    outcome = client_of("members", "remove", "m3@example.org")
    assert (outcome.code, outcome.error["code"]) == (2, "not_found")


#: command -> the command that accepts its link
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
    assert "single-use" in shown
    assert f"\n  mailbox-appliance {LINKS[command]}\n" in shown
    assert ("server.public_url" in shown) == ("127.0.0.1" in base)
    (helped,) = (row.help for row in (members.ADD_MEMBER, *members.MEMBER_ROWS) if row.name == command)
    assert f"pass it to `mailbox-appliance {LINKS[command]}`" in helped


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
    assert shown.out == "All sessions of member mem_1 are revoked.\n"
    assert client_of("sessions", "revoke", "--member", "mem_1").data == {"id": "mem_1", "deleted": True}
