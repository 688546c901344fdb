"""`/mcp` for any HTTP client: access, the form of refusals, and restores."""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from webtest import TestApp

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Stopping
from mailbox_appliance.mcp_server.bridge import SdkBridge
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.mcp_server.protocol import Exchange
from mailbox_appliance.mcp_server.tool import CallContext
from mailbox_appliance.operations.operation import LOCAL, MAIL_LIMIT
from mailbox_appliance.store.database import DISK_FULL_MESSAGE
from mailbox_appliance.web.app import App
from mailbox_appliance.web.mcp import Headers
from mailbox_appliance.web.server.connection import BODY_DISCARDED, BODY_POSTPONED
from tests.checked_client import CheckedClient
from tests.mcp_server.called import Called
from tests.mcp_server.posted import CURRENT, PREVIOUS, Posted, calling, headers_of, message, post
from tests.operations.filled import FilledMailbox, add_key, add_member, suspend

VERSIONS = pytest.mark.parametrize("version", [PREVIOUS, CURRENT])


class Recording:
    """Records the requests that the HTTP side accepts, and answers nothing."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def answer(
        self, appliance: Appliance, origin: object, token: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes, None]:
        assert token
        self.bodies.append(body)
        self.headers.append(dict(headers))
        return 202, [("Content-Type", "application/json"), ("Mcp-Session-Id", "x")], b"", None

    def close(self) -> None: ...


@pytest.fixture
def guarded(timed: Appliance) -> tuple[TestApp, Recording]:
    """Return the HTTP side alone."""
    recording = Recording()
    return TestApp(App(timed, assistants=recording)), recording


# --- Access ---


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_post_is_offered(guarded: tuple[TestApp, Recording], ada: CheckedClient, method: str) -> None:
    app, asked = guarded
    for token in ("", ada.token):
        answer = post(app, token, b"", method=method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert method == "HEAD" or answer.refusal == (405, "method_not_allowed")
    assert not asked.bodies


def test_nobody_is_let_in_without_a_good_credential(
    guarded: tuple[TestApp, Recording], timed: Appliance, ada: CheckedClient
) -> None:
    app, asked = guarded
    timed.operator_secret = "the secret of this run"
    key_id, key = add_key(timed, ada.member["id"], "mail.read")
    assert post(app, key, message("ping")).status == 202
    assert ada.ask("DELETE", f"/me/api-keys/{key_id}").status == 200
    for token in ("", "nonsense", "mbxs_x", ada.token[:-1], "the secret of this run", key):
        answer = post(app, token, message("ping"))
        assert (answer.refusal, answer.headers["www-authenticate"]) == ((401, "unauthenticated"), "Bearer")
    bob = add_member(timed, "bob")
    bobs = CheckedClient(timed).log_in("bob@example.org").token
    assert post(app, bobs, message("ping")).status == 202
    suspend(timed, bob)
    assert post(app, bobs, message("ping")).refusal == (403, "member_suspended")
    assert len(asked.bodies) == 2


def test_a_page_of_somebody_elses_is_refused(guarded: tuple[TestApp, Recording], ada: CheckedClient) -> None:
    app, asked = guarded
    for foreign in ({"HTTP_HOST": "evil.example"}, {"HTTP_ORIGIN": "https://evil.example"}):
        assert post(app, ada.token, message("ping"), environ=foreign).refusal == (403, "host_not_allowed")
    assert not asked.bodies
    assert post(app, ada.token, message("ping"), environ={"HTTP_ORIGIN": "http://127.0.0.1:8025"}).status == 202


def test_large_messages_are_taken_and_larger_ones_are_not(
    guarded: tuple[TestApp, Recording], ada: CheckedClient
) -> None:
    app, asked = guarded
    whole = b" " * MAIL_LIMIT
    assert post(app, ada.token, whole).status == 202
    assert post(app, ada.token, whole + b" ").refusal == (413, "body_too_large")
    assert post(app, ada.token, b"", environ={BODY_DISCARDED: 1 << 30}).refusal == (413, "body_too_large")
    assert post(app, ada.token, b"", environ={BODY_POSTPONED: MAIL_LIMIT + 1}).refusal == (413, "body_too_large")
    later = post(app, ada.token, b"", environ={BODY_POSTPONED: MAIL_LIMIT})
    assert (later.refusal, later.headers["retry-after"]) == ((503, "provider_unavailable"), "5")
    assert post(app, "", b"", environ={BODY_DISCARDED: 1 << 30}).refusal == (401, "unauthenticated")
    assert list(map(len, asked.bodies)) == [MAIL_LIMIT]


def test_what_the_protocol_is_not_to_see_stays_outside(guarded: tuple[TestApp, Recording], ada: CheckedClient) -> None:
    app, asked = guarded
    answer = post(app, ada.token, message("ping"), headers={"Mcp-Session-Id": "s", "Cookie": "c"})
    assert asked.headers == [
        {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": PREVIOUS,
        }
    ]
    assert "mcp-session-id" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


# --- what answers -----------------------------------------------------------------------------------------------------


def test_both_ways_of_speaking(app: TestApp, ada: CheckedClient) -> None:
    info = {"name": "test", "version": "1"}
    begun = post(app, ada.token, message("initialize", protocolVersion=PREVIOUS, capabilities={}, clientInfo=info))
    assert begun.result["protocolVersion"] == PREVIOUS
    assert begun.result["serverInfo"]["name"] == "mailbox-appliance"
    assert begun.result["capabilities"] == {"tools": {"listChanged": False}}
    note = post(app, ada.token, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (note.status, note.content) == (202, b"")
    found = post(app, ada.token, message("server/discover"), version=CURRENT).result
    assert (found["supportedVersions"], found["capabilities"]) == ([CURRENT], {"tools": {"listChanged": False}})
    assert "untrusted" in begun.result["instructions"] == found["instructions"]
    for answer in (begun, note):
        assert answer.headers["x-request-id"].startswith("req_")
        assert "mcp-session-id" not in answer.headers


@VERSIONS
def test_a_key_sees_the_tools_that_it_can_use(app: TestApp, timed: Appliance, ada: CheckedClient, version: str) -> None:
    def names(*capabilities: str) -> set[str]:
        _, key = add_key(timed, ada.member["id"], *capabilities)
        return {tool["name"] for tool in post(app, key, message("tools/list"), version=version).result["tools"]}

    everything = {tool["name"] for tool in post(app, ada.token, message("tools/list"), version=version).result["tools"]}
    assert names() == set()
    assert {"list_emails", "download_attachment"} < names("mail.read") < everything
    assert "send_email" in names("mail.send")
    assert "send_email" not in names("mail.read", "mail.drafts")
    _, key = add_key(timed, ada.member["id"], "mail.read")
    refused = post(app, key, calling("delete_draft", accountId="acc_1", draftId="msg_1"), version=version).result
    assert refused["isError"]
    assert "structuredContent" not in refused


def post_everything(app: TestApp, token: str, version: str) -> Iterator[Posted]:
    """Post messages that are invalid or have no meaning."""
    long = "x" * 20_000
    bodies: list[Any] = [b"", b"{", b"[]", b'"a"', b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0"}', {"id": long}]
    bodies += [{"jsonrpc": "2.0", "id": 1, "method": 5, "params": long}, [message("ping")], {"a": [long] * 20}]
    for body in bodies:
        yield post(app, token, body if isinstance(body, bytes) else json.dumps(body).encode(), version=version)
    yield post(app, token, message("ping"), version=version, headers={"Accept": "text/html"})


@VERSIONS
def test_what_is_no_message_is_refused_in_few_words(app: TestApp, ada: CheckedClient, version: str) -> None:
    for answer in post_everything(app, ada.token, version):
        assert answer.status in (400, 406), answer.content
        assert len(answer.content) < 500
        assert b"Traceback" not in answer.content


def test_the_address_may_end_with_a_slash(app: TestApp, ada: CheckedClient) -> None:
    assert post(app, ada.token, message("ping"), path="/mcp/").result == {}
    for path in ("/mcp//", "/mcpx/", "/mcp/x"):
        assert post(app, ada.token, message("ping"), path=path).refusal == (404, "not_found")


@VERSIONS
@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "subscriptions/listen", "x"])
def test_nothing_but_tools_is_offered(app: TestApp, ada: CheckedClient, version: str, method: str) -> None:
    answer = post(app, ada.token, message(method), version=version)
    assert answer.status in (200, 400, 404)
    assert answer.json["error"]["code"] in (-32601, -32602)
    assert answer.headers["content-type"] == "application/json"


@VERSIONS
def test_there_is_no_such_tool(app: TestApp, ada: CheckedClient, version: str) -> None:
    answer = post(app, ada.token, calling("x" * 5000), version=version)
    assert (answer.json["error"]["code"], len(answer.content) < 300) == (-32602, True)


@VERSIONS
def test_a_fault_of_ours_tells_its_request_id_and_nothing_else(
    app: TestApp, timed: Appliance, ada: CheckedClient, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    with timed.store.database.transaction():
        timed.store.database.change("ALTER TABLE accounts RENAME TO gone")
    answer = post(app, ada.token, calling("list_accounts"), version=version)
    assert answer.result["isError"]
    (content,) = answer.result["content"]
    error = json.loads(content["text"])["error"]
    assert (error["code"], error["requestId"]) == ("internal_error", answer.headers["x-request-id"])
    assert b"no such table" not in answer.content
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == [
        "mailbox_appliance.mcp_server.call"
    ]


def test_a_tool_on_a_full_disk_says_so_in_one_line(timed: Appliance, caplog: pytest.LogCaptureFixture) -> None:
    ada = CheckedClient(timed).set_up()
    box, tools = FilledMailbox(timed, ada.member["id"]), Called(timed, ada.token)
    given = {"accountId": box.id, "to": [{"email": "bob@example.org"}], "subject": "x" * 200}
    send = {**given, "body": {"text": "word " * 4_000}, "idempotencyKey": "once"}
    timed.store.database.row("PRAGMA max_page_count = 1")  # all pages: SQLite may allocate no more
    caplog.set_level(logging.INFO)
    error = tools.error("send_email", **send)
    assert (error["code"], error["message"]) == ("internal_error", DISK_FULL_MESSAGE)
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert told.getMessage() == "mcp_tool_disk_full"
    assert told.exc_info is None


# --- restored, and closed ---------------------------------------------------------------------------------------------


def test_after_a_restore_the_restored_appliance_answers(
    timed: Appliance, door: McpEndpoint, ada: CheckedClient, tmp_path: Path
) -> None:
    def named(answer: Posted) -> list[str]:
        return [account["email"] for account in answer.result["structuredContent"]["data"]]

    behind = App(timed, assistants=door)
    app = TestApp(behind)
    assert named(post(app, ada.token, calling("list_accounts"))) == []
    behind.handle.pause(0)
    refused = post(app, ada.token, calling("list_accounts"))
    assert (refused.refusal, refused.headers["retry-after"]) == ((503, "provider_unavailable"), "3")
    other = Appliance(tmp_path / "other")
    try:
        behind.handle.resume(other)
        assert post(app, ada.token, calling("list_accounts")).refusal == (401, "unauthenticated")
        eve = CheckedClient(other).set_up()
        assert named(post(app, eve.token, calling("list_accounts"))) == []
    finally:
        other.stop()


def test_a_closed_door_says_that_it_ends(timed: Appliance, ada: CheckedClient) -> None:
    for is_used in (False, True):
        door = McpEndpoint()
        app = TestApp(App(timed, assistants=door))
        if is_used:
            assert post(app, ada.token, message("ping")).result == {}
        door.close()
        door.close()
        answer = post(app, ada.token, message("ping"))
        assert (answer.refusal, answer.headers["retry-after"]) == ((503, "provider_unavailable"), "10")
        assert is_used or "Bridge" not in repr(vars(door))


def test_who_comes_when_the_loop_has_ended_is_told_at_once(timed: Appliance, ada: CheckedClient) -> None:
    """Between the end of the loop and that of the endpoint, no request waits forever."""
    bridge = SdkBridge()
    asked = CallContext(timed, LOCAL, ada.token)
    headers = list(headers_of(ada.token, {}, PREVIOUS).items())
    body = json.dumps(message("ping")).encode()
    assert bridge.answer(Exchange(asked), headers, body)[0] == 200
    bridge.close()
    began = time.monotonic()
    with pytest.raises(Stopping):
        bridge.answer(Exchange(asked), headers, body)
    assert time.monotonic() - began < 5


def test_without_assistants_there_is_no_such_path(ada: CheckedClient, timed: Appliance) -> None:
    app = TestApp(App(timed))
    assert post(app, ada.token, message("ping")).refusal == (404, "not_found")
