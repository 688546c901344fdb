"""The output, error output and exit code of commands for prepared responses."""

import json
from typing import Any

import pytest

from mailbox_appliance import errors
from mailbox_appliance.client.errors import exit_code_for_status, failure_from_problem
from mailbox_appliance.settings import BadSetting
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

# fmt: off
#: HTTP status and code -> exit code
STATUSES: list[tuple[int, str, int]] = [
    (400, "invalid_request",      2),
    (400, "backup_wrong_passphrase", 4),
    (400, "backup_altered",       2),
    (401, "unauthenticated",      4),
    (403, "permission_denied",    4),
    (404, "not_found",            2),
    (405, "method_not_allowed",   2),
    (408, "request_timeout",      1),
    (409, "idempotency_conflict", 2),
    (413, "body_too_large",       2),
    (415, "unsupported_media_type", 2),
    (422, "unsupported_capability", 2),
    (429, "too_many_attempts",    5),
    (500, "internal_error",       1),
    (502, "license_unverified",   5),
    (503, "provider_unavailable", 5),
]
#: what is raised below -> code, exit code
PROBLEMS: list[tuple[Exception, str, int]] = [
    (errors.Invalid.at("/email", "is empty"),                   "invalid_request", 2),
    (errors.Conflict(reason="There is an administrator."),      "conflict", 2),
    (errors.KeyWrong(file="f", store="s"),                      "key_wrong", 4),
    (errors.KeyMissing(file="f", store="s"),                    "key_missing", 4),
    (errors.StoreInUse(holder=" (pid 7)", folder="d"),          "store_in_use", 1),
    (errors.StoreForeign(file="f"),                             "store_foreign", 1),
    (errors.Unavailable(reason="it is down"),                   "provider_unavailable", 5),
    (errors.Throttled(),                                        "too_many_attempts", 5),
    (errors.HttpsRequired(),                                    "https_required", 4),
    (BadSetting("server.port must be between 0 and 65535"),     "invalid_request", 2),
]
# fmt: on


@pytest.mark.parametrize(("status", "code", "exit_code"), STATUSES)
def test_an_error_answer_becomes_an_error_object_and_an_exit_code(
    status: int, code: str, exit_code: int, client_of: CommandLine, server: RecordingServer
) -> None:
    error = {"code": code, "message": "So it is.", "requestId": "req_1", "details": [{"path": "/to", "message": "no"}]}
    server.answer("GET", "/me", Canned(status, {"error": error}))
    outcome = client_of("whoami")
    assert (outcome.code, outcome.out, outcome.error) == (exit_code, "", error)
    assert outcome.err.count("\n") == 1
    outcome = client_of("whoami", "--format", "table")
    assert (outcome.code, outcome.err) == (exit_code, f"Error: So it is. ({code})\n  /to: no\n")


@pytest.mark.parametrize(("problem", "code", "exit_code"), PROBLEMS)
def test_a_problem_of_a_lower_floor_becomes_one_too(problem: Exception, code: str, exit_code: int) -> None:
    failure = failure_from_problem(problem)
    assert failure is not None
    assert (failure.code, failure.exit_code) == (code, exit_code)


def test_what_is_no_problem_of_ours_is_none() -> None:
    assert failure_from_problem(ValueError("secret")) is None


def test_an_unforeseen_status_is_internal() -> None:
    assert exit_code_for_status(418) == 1


# fmt: off
#: answers that no appliance gives -> code, exit code
STRANGE: list[tuple[Canned, str, int]] = [
    (Canned(200, raw=b"<html>"),                        "unexpected_answer", 1),
    (Canned(200, raw=b"[" * 100_000),                   "unexpected_answer", 1),
    (Canned(502, raw=b"<html>bad gateway</html>"),      "unexpected_answer", 5),
    (Canned(404, {"error": "not found"}),               "unexpected_answer", 2),
    (Canned(302, {}),                                   "unexpected_answer", 1),
    (Canned(drop=True),                                 "appliance_unreachable", 5),
]
# fmt: on


@pytest.mark.parametrize(("canned", "code", "exit_code"), STRANGE)
def test_strange_answers(
    canned: Canned, code: str, exit_code: int, client_of: CommandLine, server: RecordingServer
) -> None:
    server.answer("GET", "/me", canned)
    outcome = client_of("whoami")
    assert (outcome.code, outcome.error["code"], outcome.out) == (exit_code, code, "")


def test_json_is_the_envelope_of_the_api(client_of: CommandLine, server: RecordingServer) -> None:
    envelope: dict[str, Any] = {"data": {"subject": "Grüße \x1b[31m\x9b\u202e\u2028"}, "warnings": ["one"]}
    server.answer("GET", "/accounts/acc_1/messages/msg_1", Canned(value=envelope))
    outcome = client_of("emails", "get", "msg_1", "--account", "acc_1")
    assert json.loads(outcome.out) == envelope
    assert "Grüße" in outcome.out
    assert not set("\x1b\x9b\u202e\u2028") & set(outcome.out)


MESSAGES = [
    {
        "id": "msg_1",
        "date": "2026-01-02T03:04:05.000Z",
        "from": {"email": "a@b.example", "name": "Ann\u202e\x1b[2J"},
        "subject": "Hello\nthere",
        "folder": {"id": "fld_1", "name": "INBOX"},
        "flags": {"read": True, "starred": False, "draft": False},
    },
    {"id": "msg_2", "date": "2026-01-01T03:04:05.000Z", "subject": "", "flags": {"read": False}},
]


def test_items_line_by_line(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/accounts/acc_1/messages", {"items": MESSAGES, "nextCursor": None})
    outcome = client_of("emails", "list", "--account", "acc_1", "--format", "ndjson")
    assert [json.loads(line) for line in outcome.out.splitlines()] == MESSAGES
    assert outcome.err == ""


@pytest.mark.parametrize("more", [(), ("--max-results", "2"), ("--limit", "2")])
def test_beside_lines_it_is_told_that_there_is_more(
    client_of: CommandLine, server: RecordingServer, more: tuple[str, ...]
) -> None:
    value = {"data": {"items": MESSAGES, "nextCursor": "c"}, "warnings": ["\u202eone"]}
    for query in ("", "?limit=2"):
        server.answer("GET", "/accounts/acc_1/messages" + query, Canned(value=value))
    outcome = client_of("emails", "list", "--account", "acc_1", "--format", "ndjson", *more)
    assert outcome.code == 0
    assert [json.loads(line) for line in outcome.out.splitlines()] == MESSAGES
    assert outcome.err == '{"warnings": ["\\u202eone"]}\n{"nextCursor": "c"}\n'


def test_one_thing_is_one_line(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/me", {"member": {"id": "mem_1"}})
    assert client_of("whoami", "--format", "ndjson").out == '{"member": {"id": "mem_1"}}\n'


def test_a_table_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    value = {"data": {"items": MESSAGES, "nextCursor": "c"}, "warnings": ["one"]}
    server.answer("GET", "/accounts/acc_1/messages", Canned(value=value))
    outcome = client_of("emails", "list", "--account", "acc_1", "--format", "table")
    assert outcome.out.splitlines() == [
        "ID     DATE                      FROM                    SUBJECT      FOLDER  READ",
        "msg_1  2026-01-02T03:04:05.000Z  Ann\ufffd\ufffd[2J <a@b.example>  Hello there  INBOX   yes",
        "msg_2  2026-01-01T03:04:05.000Z  -                                    -       no",
    ]
    assert outcome.err == "Warning: one\nMore results: --cursor c\n"


def test_a_message_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    file = {"id": "att_1", "filename": "a.txt", "mimeType": "text/plain", "sizeBytes": 3}
    value = {**MESSAGES[0], "to": [], "body": {"text": "One\r\n\ttwo\x07\n\n"}, "attachments": [file]}
    server.data("GET", "/accounts/acc_1/messages/msg_1", value)
    outcome = client_of("emails", "get", "msg_1", "--account", "acc_1", "--format", "table")
    assert outcome.out == (
        "Id: msg_1\nFrom: Ann\ufffd\ufffd[2J <a@b.example>\nDate: 2026-01-02T03:04:05.000Z\nSubject: Hello there\n"
        "\nOne\n\ttwo\ufffd\n\nAttachment: a.txt (text/plain, 3 bytes, att_1)\n"
    )


def test_a_body_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    page = {"format": "text", "content": "One\n  two\x07", "offset": 0, "nextOffset": 10, "totalChars": 30}
    server.data("GET", "/accounts/acc_1/messages/msg_1/body?format=text", page)
    line = ("emails", "get", "msg_1", "--account", "acc_1", "--body-format", "text", "--format", "table")
    assert client_of(*line).out == "One\n  two\ufffd\n[10 of 30 characters; continue with --offset 10]\n"
    server.data("GET", "/accounts/acc_1/messages/msg_1/body?format=text", page | {"nextOffset": None, "content": "x\n"})
    assert client_of(*line).out == "x\n"


def test_a_conversation_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    items = [{**MESSAGES[0], "snippet": "How are\x07 you"}, MESSAGES[1]]
    page = {"items": items, "nextCursor": "c"}
    server.data("GET", "/accounts/acc_1/threads/thr_1", {"id": "thr_1", "subject": "s", "messages": page})
    outcome = client_of("threads", "get", "thr_1", "--account", "acc_1", "--format", "table")
    assert outcome.out == (
        "Id: msg_1\nFrom: Ann\ufffd\ufffd[2J <a@b.example>\nDate: 2026-01-02T03:04:05.000Z\nSubject: Hello there\n"
        "\nHow are\ufffd you\n" + "-" * 60 + "\nId: msg_2\nDate: 2026-01-01T03:04:05.000Z\n\n\n"
    )
    assert outcome.err == "More results: --cursor c\n"
    outcome = client_of("threads", "get", "thr_1", "--account", "acc_1", "--format", "ndjson")
    assert [json.loads(line) for line in outcome.out.splitlines()] == items
    assert outcome.err == '{"nextCursor": "c"}\n'


def test_an_object_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    value = {"version": "1", "store": {"format": 5}, "accounts": [{"id": "acc_1", "status": "ready"}], "limits": []}
    server.data("GET", "/status", value)
    assert client_of("status", "--format", "table").out == (
        "version: 1\nstore:\n  format: 5\naccounts:\n  id: acc_1, status: ready\nlimits: -\n"
    )
