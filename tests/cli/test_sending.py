"""Commands that send, preview, and resolve deliveries."""

import json
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

IN = "/accounts/acc_1"
AT = ("--account", "acc_1")
KEY = ("--idempotency-key", "k1")
OPERATION: dict[str, Any] = {"operationId": "dlv_1", "accountId": "acc_1", "kind": "send", "status": "succeeded"}
LOOK = "mailbox-appliance emails delivery-status dlv_1 --account acc_1"

# fmt: off
#: additional fields of an operation -> parts of the text for people, and the exit code
TOLD: list[tuple[dict[str, Any], list[str], int]] = [
    ({"status": "succeeded"}, [], 0),
    ({"status": "queued", "scheduleId": "sch_1"},
     ["waits for its time", LOOK, "mailbox-appliance scheduled cancel sch_1 --account acc_1"], 0),
    ({"status": "something new"}, [], 0),
    ({"status": "sending"}, ["Sending is in progress", "same key", LOOK], 0),
    ({"status": "failed", "error": {"code": "recipient_rejected"}}, ["recipient_rejected", "use another"], 5),
    ({"status": "uncertain"},
     ["UNCERTAIN: This message may have been delivered", "Do not send it again with another key", LOOK,
      "mailbox-appliance emails resolve dlv_1 --account acc_1 --outcome succeeded|failed"], 3),
]
#: the value of one --to -> the parsed address, or None if it is refused
ADDRESSES: list[tuple[str, dict[str, str] | None]] = [
    ("a@b",                               {"email": "a@b"}),
    ("Ann <a@b>",                         {"name": "Ann", "email": "a@b"}),
    ("Lee, Ann <a@b>",                    {"name": "Lee, Ann", "email": "a@b"}),
    ('"Lee, Ann" <a@b>',                  {"name": "Lee, Ann", "email": "a@b"}),
    ('"x@y, <z>" <a@b>',                  {"name": "x@y, <z>", "email": "a@b"}),
    ('"A \\" @" <a@b>',                   {"name": 'A " @', "email": "a@b"}),
    ("a@b@c",                             {"email": "a@b@c"}),  # the server reports the error
    ("Ann <a@b>, Bob <c@d>",              None),
    ("a@b, Bob <c@d>",                    None),
    ("<a@b>,<c@d>",                       None),
    ('"Ann" <a@b>, "Bob" <c@d>',          None),
    ('"Ann <a@b>, Bob" <e@f>, "C" <c@d>', None),
    ("Ann @ work <a@b>",                  None),
    ('"Ann <a@b>, Bob <c@d>',             None),
    ("a@b, c@d",                          None),
    ("a@b;c@d",                           None),
    ("a@b c@d",                           None),
    ("<a@b, c@d>",                        None),
    ("Ann <a@b>, c@d",                    None),
]
# fmt: on


@pytest.mark.parametrize(("text", "found"), ADDRESSES)
@pytest.mark.parametrize("option", ["--to", "--cc", "--bcc"])
def test_one_option_is_one_address(
    option: str, text: str, found: dict[str, str] | None, client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/send/preview", {"subject": ""})
    outcome = client_of("emails", "preview", *AT, option, text)
    if found is not None:
        assert server.asked[0].json[option.strip("-")] == [found]
        return
    assert (outcome.code, server.asked) == (2, [])
    assert outcome.error["details"][0]["path"] == f"option:{option}"
    assert f"{option} takes one address" in outcome.error["message"]


def test_a_local_time_is_sent_with_its_offset(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", f"{IN}/send", OPERATION | {"status": "queued"}, status=202)
    outcome = client_of("drafts", "send", "msg_1", *AT, *KEY, "--send-at", "2030-01-31 09:00")
    assert outcome.code == 0
    sent = server.asked[0].json["sendAt"]
    assert sent.startswith("2030-01-31T09:00:00")
    assert sent[19] in "+-"


def test_the_largest_attachments_go_out_and_more_is_told_before(
    client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/send/preview", {"subject": ""})
    large = client_of.folder / "large"
    with large.open("wb") as stream:
        stream.truncate(25 * 1024 * 1024)
    preview = ("emails", "preview", *AT, "--to", "a@b", "--attach", str(large))
    assert client_of(*preview).code == 0
    assert 33 * 1024 * 1024 < len(server.asked[0].body) < 36 * 1024 * 1024
    (client_of.folder / "small").write_bytes(b"x")
    assert client_of(*preview, "--attach", str(client_of.folder / "small")).error["code"] == "message_too_large"
    with large.open("wb") as stream:
        stream.truncate(36 * 1024 * 1024 + 1)
    for line in (preview, ("emails", "forward", "msg_1", *AT, *KEY, "--input", str(large))):
        outcome = client_of(*line)
        assert (outcome.code, outcome.error["code"]) == (2, "message_too_large")
    assert len(server.asked) == 1


@pytest.mark.parametrize(("besides", "told", "code"), TOLD)
def test_a_person_is_told_what_it_means(
    besides: dict[str, Any], told: list[str], code: int, client_of: CommandLine, server: RecordingServer
) -> None:
    server.answer("POST", f"{IN}/send", Canned(value={"data": OPERATION | besides, "warnings": ["Ann was refused."]}))
    server.data("GET", f"{IN}/delivery-operations/dlv_1", OPERATION | besides)
    sent = client_of("emails", "send", *AT, *KEY, "--to", "a@b", "--format", "table")
    looked = client_of("emails", "delivery-status", "dlv_1", *AT, "--format", "table")
    assert (sent.code, looked.code, looked.err) == (code, code, "")
    assert sent.out == looked.out
    assert sent.out.startswith("operationId: dlv_1\n")
    assert [text for text in told if text not in sent.out] == []
    assert ("UNCERTAIN" in sent.out) == (besides["status"] == "uncertain")
    assert sent.err == "Warning: Ann was refused.\n"


def test_scripts_get_the_answer_and_nothing_else(client_of: CommandLine, server: RecordingServer) -> None:
    value = {"data": OPERATION | {"status": "uncertain"}, "warnings": ["w"]}
    server.answer("POST", f"{IN}/send", Canned(value=value))
    send = ("emails", "send", *AT, *KEY, "--to", "a@b")
    outcome = client_of(*send)
    assert (outcome.code, json.loads(outcome.out), outcome.err) == (3, value, "")
    outcome = client_of(*send, "--format", "ndjson")
    assert (outcome.code, json.loads(outcome.out), outcome.err) == (3, value["data"], '{"warnings": ["w"]}\n')


def test_doubt_shows_in_lists(client_of: CommandLine, server: RecordingServer) -> None:
    rows = [OPERATION | {"operationId": f"dlv_{n}", "status": "uncertain" if n else "succeeded"} for n in range(13)]
    waiting = {"id": "sch_1", "sendAt": "2030-01-31T09:00:00.000Z", "to": [{"email": "a@b"}], "subject": "Hi"}
    server.data("GET", f"{IN}/delivery-operations", {"items": rows, "nextCursor": None})
    server.data("GET", f"{IN}/scheduled", {"items": [waiting | rows[1]], "nextCursor": None})
    outcome = client_of("emails", "deliveries", *AT, "--format", "table")
    assert outcome.code == 0
    assert outcome.out.splitlines()[:3] == [
        "OPERATION ID  KIND  STATUS     CREATED AT  RECIPIENTS  SUBJECT  ERROR CODE",
        "dlv_0         send  succeeded  -           -           -        -",
        "dlv_1         send  uncertain  -           -           -        -",
    ]
    assert "UNCERTAIN: The messages of dlv_1, dlv_2, " in outcome.out
    assert "dlv_10 and 2 more may have been delivered" in outcome.out
    outcome = client_of("scheduled", "list", *AT, "--format", "table")
    assert outcome.out.splitlines()[1] == "sch_1  2030-01-31T09:00:00.000Z  uncertain  a@b  Hi"
    assert "UNCERTAIN: The message of dlv_1 may have been delivered" in outcome.out
    assert "emails resolve OPERATION-ID --account acc_1 --outcome" in outcome.out


def test_without_doubt_a_list_is_only_a_list(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", f"{IN}/scheduled", {"items": [], "nextCursor": None})
    assert client_of("scheduled", "list", *AT, "--format", "table").out == "No results.\n"


def test_the_answer_of_an_earlier_release_is_shown_as_it_is(client_of: CommandLine, server: RecordingServer) -> None:
    value = {"data": {"id": "msg_9", "threadId": "thr_9"}}
    replayed = (("Content-Type", "application/json"), ("Idempotency-Replayed", "true"))
    server.answer("POST", f"{IN}/send", Canned(value=value, fields=replayed))
    send = ("emails", "send", *AT, *KEY, "--to", "a@b")
    outcome = client_of(*send)
    assert (outcome.code, json.loads(outcome.out)) == (0, value)
    assert client_of(*send, "--format", "table").out == "id: msg_9\nthreadId: thr_9\n"


def test_a_preview_for_people(client_of: CommandLine, server: RecordingServer) -> None:
    file = {"filename": "a.txt", "mimeType": "text/plain", "sizeBytes": 3}
    preview = {
        "accountId": "acc_1", "from": "me@b.example", "to": [{"email": "a@b", "name": "Ann"}], "cc": [], "bcc": [],
        "subject": "Hi", "attachments": [file], "bodyTextChars": 5, "bodyHtmlChars": 0,
    }  # fmt: skip
    server.data("POST", f"{IN}/send/preview", preview)
    assert client_of("emails", "preview", *AT, "--to", "a@b", "--format", "table").out == (
        "accountId: acc_1\nfrom: me@b.example\nto:\n  Ann <a@b>\ncc: -\nbcc: -\nsubject: Hi\n"
        "attachments:\n  filename: a.txt, mimeType: text/plain, sizeBytes: 3\nbodyTextChars: 5\nbodyHtmlChars: 0\n"
    )


def test_a_terminal_is_told_how_far_a_large_message_is(client_of: CommandLine, server: RecordingServer) -> None:
    large = client_of.folder / "large"
    large.write_bytes(bytes(1_500_000))
    server.data("POST", f"{IN}/send", OPERATION)
    outcome = client_of("emails", "send", *AT, *KEY, "--to", "a@b", "--attach", str(large), screen=True)
    assert outcome.code == 0
    assert len(server.asked[0].json["attachments"][0]["content"]) == 2_000_000
    assert "\r\x1b[K0.3 of 2.0 MB [###---" in outcome.err
    assert outcome.err.endswith("\r\x1b[KSending…\r\x1b[K"), "the answer is waited for, then all is wiped away"


PREVIEW = {"accountId": "acc_1", "from": "me@b.example", "to": [{"email": "a@b"}], "subject": "Hi"}


@pytest.mark.parametrize("key", [(), KEY])
@pytest.mark.parametrize(
    ("line", "body"),
    [
        (("emails", "send", "--to", "a@b"), {"to": [{"email": "a@b"}], "body": {}}),
        (("drafts", "send", "msg_1", "--send-at", "2030-01-31T09:00:00Z"),
         {"draftId": "msg_1", "sendAt": "2030-01-31T09:00:00Z"}),
    ],
)  # fmt: skip
def test_a_dry_run_is_a_preview(
    line: tuple[str, ...], body: dict[str, Any], key: tuple[str, ...], client_of: CommandLine, server: RecordingServer
) -> None:
    value = {"data": PREVIEW, "warnings": ["The quota is used up."]}
    server.answer("POST", f"{IN}/send/preview", Canned(value=value))
    outcome = client_of(*line, *AT, *key, "--dry-run")
    assert (outcome.code, json.loads(outcome.out), outcome.err) == (0, value, "")
    assert "Nothing was sent." in client_of(*line, *AT, *key, "--dry-run", "--format", "table").out
    assert [asked.json for asked in server.asked] == [body] * 2
    assert all("Idempotency-Key" not in asked.headers for asked in server.asked)


def test_a_dry_run_ends_as_a_preview_does(client_of: CommandLine, server: RecordingServer) -> None:
    error = {"code": "invalid_request", "message": "m", "requestId": "r"}
    server.answer("POST", f"{IN}/send/preview", Canned(400, {"error": error}))
    outcome = client_of("emails", "send", *AT, "--to", "a@b", "--dry-run")
    assert (outcome.code, outcome.error) == (2, error)


def test_a_key_is_asked_for_before_anything_is_read(client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("emails", "send", *AT, "--input", "/no/such/file")
    assert "Missing option '--idempotency-key'" in outcome.error["message"]
    assert (outcome.code, server.asked) == (2, [])


def test_a_lost_answer_is_to_be_asked_for_with_the_same_key(client_of: CommandLine, server: RecordingServer) -> None:
    server.answer("POST", f"{IN}/messages/msg_1/forward", Canned(drop=True))
    outcome = client_of("emails", "forward", "msg_1", *AT, *KEY, "--to", "a@b")
    assert (outcome.code, outcome.error["code"]) == (5, "appliance_unreachable")
    assert "the same --idempotency-key" in outcome.error["message"]
