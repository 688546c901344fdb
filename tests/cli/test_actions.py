"""Commands that change mail on its server, and their requests."""

from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

IN = "/accounts/acc_1"
AT = ("--account", "acc_1")
DONE: dict[str, Any] = {"action": "archive", "succeededIds": ["msg_1"], "failed": [], "uncertainIds": []}

# fmt: off
#: command line -> the body of POST .../messages/actions
ACTIONS: list[tuple[str, dict[str, Any]]] = [
    ("read msg_1 msg_2",                       {"action": "markRead", "messageIds": ["msg_1", "msg_2"]}),
    ("unread msg_1",                           {"action": "markUnread", "messageIds": ["msg_1"]}),
    ("star msg_1",                             {"action": "star", "messageIds": ["msg_1"]}),
    ("unstar msg_1",                           {"action": "unstar", "messageIds": ["msg_1"]}),
    ("archive msg_1",                          {"action": "archive", "messageIds": ["msg_1"]}),
    ("trash msg_1",                            {"action": "trash", "messageIds": ["msg_1"]}),
    ("untrash msg_1",                          {"action": "untrash", "messageIds": ["msg_1"]}),
    ("delete msg_1",                           {"action": "delete", "messageIds": ["msg_1"]}),
    ("move msg_1 --folder Work",               {"action": "move", "messageIds": ["msg_1"], "folder": "Work"}),
    ("label msg_1 --add a --add b",            {"action": "addLabels", "messageIds": ["msg_1"], "labels": ["a", "b"]}),
    ("label msg_1 --remove a",                 {"action": "removeLabels", "messageIds": ["msg_1"], "labels": ["a"]}),
]
#: the response -> the exit code
ENDS: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({"failed": [{"messageId": "msg_2", "code": "not_found"}]}, 3),
    ({"uncertainIds": ["msg_2"]}, 3),
]
#: command line -> method, target and body
OTHERS: list[tuple[str, str, Any]] = [
    ("drafts list",                            f"GET {IN}/drafts", None),
    ("drafts list --limit 5",                  f"GET {IN}/drafts?limit=5", None),
    ("drafts get msg_1",                       f"GET {IN}/drafts/msg_1", None),
    ("drafts delete msg_1",                    f"DELETE {IN}/drafts/msg_1", None),
    ("drafts create --text Hi --to a@b",       f"POST {IN}/drafts", {"body": {"text": "Hi"}, "to": [{"email": "a@b"}]}),
    ("drafts update msg_1 --subject Hi",       f"PUT {IN}/drafts/msg_1", {"body": {}, "subject": "Hi"}),
    ("accounts map-folders --sent A/B",        f"PATCH {IN}/imap/folders", {"sent": "A/B"}),
    ("accounts map-folders --spam x --clear trash --clear sent",
     f"PATCH {IN}/imap/folders", {"spam": "x", "trash": None, "sent": None}),
]
#: command lines that are wrong as they stand, and what the error names
WRONG: list[tuple[str, str]] = [
    ("emails read",                                      "argument:MESSAGE-ID..."),
    ("emails move msg_1",                                "option:--folder"),
    ("emails label msg_1",                               "option:--add"),
    ("emails label msg_1 --add a --remove b",            "option:--add"),
    ("accounts map-folders",                             ""),
    ("accounts map-folders --sent a --clear sent",       "option:--clear"),
    ("accounts map-folders --clear inbox",               "option:--clear"),
    ("drafts update",                                    "argument:DRAFT-ID"),
    ("drafts create --input - --to a@b",                 "option:--input"),
]
# fmt: on


@pytest.mark.parametrize(("line", "body"), ACTIONS)
def test_a_bulk_action_is_one_request(
    line: str, body: dict[str, Any], client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/messages/actions", DONE)
    outcome = client_of("emails", *line.split(" "), *AT)
    assert (outcome.code, outcome.data, outcome.err) == (0, DONE, "")
    assert [asked.json for asked in server.asked] == [body]


@pytest.mark.parametrize(("said", "code"), ENDS)
def test_the_exit_code_tells_what_was_not_done(
    said: dict[str, Any], code: int, client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/messages/actions", DONE | said)
    assert client_of("emails", "archive", "msg_1", "msg_2", *AT).code == code


@pytest.mark.parametrize(("line", "request_line", "body"), OTHERS)
def test_drafts_and_folders(
    line: str, request_line: str, body: Any, client_of: CommandLine, server: RecordingServer
) -> None:
    method, target = request_line.split(" ")
    server.data(method, target, {"items": [], "nextCursor": None})
    outcome = client_of(*line.split(" "), *AT)
    assert (outcome.code, outcome.err) == (0, "")
    (asked,) = server.asked
    assert asked.body == b"" if body is None else asked.json == body


@pytest.mark.parametrize(("line", "path"), WRONG)
def test_wrong_usage(line: str, path: str, client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of(*line.split(" "), *AT)
    assert (outcome.code, outcome.error["code"]) == (2, "invalid_request")
    assert [detail["path"] for detail in outcome.error.get("details", ())] == ([path] if path else [])
    assert server.asked == []
