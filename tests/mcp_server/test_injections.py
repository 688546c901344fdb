"""A hundred messages that try to instruct an AI agent, through every tool that shows any of them (show 2)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from webtest import TestApp

from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.web.app import App
from tests.mcp_server.corpus_desk import CorpusDesk
from tests.mcp_server.posted import calling, post
from tests.mcp_server.sceptic import BOUND, Answer
from tests.servers.desk import a_key
from tests.servers.dovecot import MailServer
from tests.servers.injected.case import Injection
from tests.servers.injections import INJECTIONS

EACH = pytest.mark.parametrize("injection", INJECTIONS, ids=[one.name for one in INJECTIONS])
FORMS = ("text", "html", "markdown", "none")
#: Some of each kind, for tests that use a server.
SOME = [INJECTIONS[place] for place in (0, 1, 3, 5, 7, 9, 10, 11, 12, 14, 18, 22, 25, 29, 33, 38, 43, 48, 76, 90, 97)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[CorpusDesk]:
    made = CorpusDesk.made(tmp_path_factory.mktemp("corpus") / "data", mail_server)
    yield made
    made.desk.close()


def unseen_in(answer: Answer | str, injection: Injection) -> list[str]:
    text = answer if isinstance(answer, str) else answer.everything()
    return [each for each in injection.unseen if each in text]


def test_there_are_a_hundred() -> None:
    assert len(INJECTIONS) == len({one.name for one in INJECTIONS}) == 100


@EACH
def test_reading_it(corpus: CorpusDesk, injection: Injection) -> None:
    """In every format, visible text arrives, hidden text does not, and a warning reports its removal."""
    for form in FORMS:
        answer = corpus.call("get_email", messageId=corpus.id_of(injection), bodyFormat=form)
        assert unseen_in(answer, injection) == [], form
        for one, other in injection.lines:
            assert any(one in line and other in line for line in answer.fenced()), (one, other, answer.text)
        if form == "none":
            continue
        body = corpus.bodies(injection, form)
        assert unseen_in(body, injection) == [], form
        missing = [word for word in injection.seen if word not in answer.everything() and word not in body]
        assert missing == [], (form, body[:1000])
        told = " ".join((answer.structure or {}).get("warnings", ()))
        assert ("Hidden text was removed" in told) >= (injection.warned and form == "text"), told


@EACH
def test_its_thread_and_its_files(corpus: CorpusDesk, injection: Injection) -> None:
    message = corpus.call("get_email", messageId=corpus.id_of(injection), bodyFormat="none").data
    for form in ("text", "markdown", "html"):
        thread = corpus.call("get_thread", threadId=message["threadId"], bodyFormat=form)
        assert unseen_in(thread, injection) == []
        assert corpus.id_of(injection) in [one["id"] for one in thread.data["messages"]["items"]]
    for attachment in message.get("attachments", ())[:3]:
        for inline in (False, True):
            its = {"messageId": corpus.id_of(injection), "attachmentId": attachment["id"], "inline": inline}
            assert unseen_in(corpus.call("download_attachment", **its), injection) == []


def pages(corpus: CorpusDesk, tool: str, **arguments: Any) -> Iterator[Answer]:
    cursor: str | None = None
    while True:
        answer = corpus.call(tool, **arguments, **({} if cursor is None else {"cursor": cursor}))
        yield answer
        cursor = answer.data["nextCursor"]
        if cursor is None:
            return


def test_listing_and_searching_them(corpus: CorpusDesk) -> None:
    by_id = {corpus.id_of(one): one for one in INJECTIONS}
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("list_emails", {"folder": "inbox", "limit": 100}),
        ("list_emails", {"folder": "inbox", "limit": 1}),
        ("search_emails", {"q": "DecoyInBody OR obey", "limit": 100}),
        ("search_emails", {"text": "DecoyIn", "limit": 30}),
        ("search_emails", {"text": "obey", "limit": 30}),
        ("search_emails", {"q": "previous instructions", "text": "instructions"}),
    )
    for tool, arguments in asked:
        found = []
        for answer in pages(corpus, tool, **arguments):
            for item in answer.data["items"]:
                injection = by_id[item["id"]]
                assert unseen_in(str(item), injection) == [], injection.name
                found.append(item["id"])
        assert len(found) == len(set(found)), arguments
        if arguments.get("folder"):
            assert set(found) == set(by_id)


def test_changes(corpus: CorpusDesk) -> None:
    """The arrival of each message is told of as lists show it."""
    by_id = {corpus.id_of(one): one for one in INJECTIONS}
    mark = corpus.call("list_changes").data["nextPosition"].partition("-")[0]
    position, told = f"{mark}-0", set()
    while items := (answer := corpus.call("list_changes", after=position, limit=100)).data["items"]:
        for item in items:
            if (injection := by_id.get(item["data"].get("id"))) is not None:
                assert unseen_in(str(item), injection) == [], injection.name
                told.add(item["data"]["id"])
        position = answer.data["nextPosition"]
    assert told == set(by_id)


def test_hidden_words_are_not_quoted_where_they_are_sought(corpus: CorpusDesk) -> None:
    for word in ("obey me", "PhantomA", "Phantom"):
        asked = {"text": word, "limit": 10}
        for answer in pages(corpus, "search_emails", **asked):
            assert "phantom" not in answer.everything().lower()


def test_answers_and_forwards(corpus: CorpusDesk) -> None:
    """A prepared reply or forward contains a sender's subject and people."""
    for injection in INJECTIONS:
        reply = {"replyToMessageId": corpus.id_of(injection), "replyAll": True, "body": {"text": "Thank you"}}
        answer = corpus.call("preview_send", **reply)
        assert unseen_in(answer, injection) == []


@pytest.mark.parametrize("injection", SOME, ids=[one.name for one in SOME])
def test_drafts_and_sends(corpus: CorpusDesk, injection: Injection) -> None:
    subject = corpus.call("get_email", messageId=corpus.id_of(injection), bodyFormat="none").data["subject"]
    to = [{"email": "bob@example.test", "name": "Bob"}]
    quoted = {"to": to, "subject": f"Re: {subject}"[:150].strip(), "body": {"text": f"> {subject[:100]}".strip()}}
    draft = corpus.call("create_draft", **quoted).data["draftId"]
    for answer in (
        corpus.call("get_draft", draftId=draft),
        corpus.call("preview_send", draftId=draft),
        corpus.call("update_draft", draftId=draft, **quoted),
        corpus.call("delete_draft", draftId=draft),
    ):
        assert unseen_in(answer, injection) == []
    later = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    reply = {"replyToMessageId": corpus.id_of(injection), "to": to, "body": {"text": "Thanks"}, "sendAt": later}
    sent = corpus.call("send_email", **reply, idempotencyKey=a_key())
    assert unseen_in(corpus.call("list_scheduled_emails"), injection) == []
    corpus.call("get_delivery_operation", operationId=sent.data["operationId"])
    [waiting] = corpus.call("list_scheduled_emails").data["items"]
    corpus.call("cancel_scheduled_email", scheduleId=waiting["id"])


def test_a_refused_recipient_is_a_word_of_the_sender(corpus: CorpusDesk) -> None:
    """Reply-To chooses the recipient; a warning names the recipient that the server refused."""
    [injection] = [one for one in INJECTIONS if one.name == "Reply-To"]
    reply = {"replyToMessageId": corpus.id_of(injection), "body": {"text": "Thanks"}, "idempotencyKey": a_key()}
    sent = corpus.call("send_email", **reply)
    assert sent.data["status"] == "failed"
    corpus.call("get_delivery_operation", operationId=sent.data["operationId"])


def test_forwarding(corpus: CorpusDesk) -> None:
    for injection in SOME[::4]:
        to = [{"email": "bob@example.test"}]
        forward = {"messageId": corpus.id_of(injection), "to": to, "comment": "See below", "idempotencyKey": a_key()}
        sent = corpus.call("forward_email", **forward)
        assert sent.data["status"] == "succeeded", sent.text
        copy = corpus.call("get_email", messageId=sent.data["result"]["id"])
        assert unseen_in(copy, injection) == []


def test_changing_them_and_what_goes_wrong(corpus: CorpusDesk) -> None:
    ids = [corpus.id_of(one) for one in INJECTIONS]
    corpus.call("modify_emails", messageIds=ids, action="markRead")
    corpus.call("modify_emails", messageIds=ids, action="move", folder="nowhere")
    corpus.call("modify_emails", messageIds=["msg_unknown"], action="star")
    for tool in ("get_email", "get_email_body", "get_thread", "download_attachment", "get_draft", "delete_draft"):
        corpus.call(tool, messageId=ids[0], threadId=ids[0], attachmentId=ids[0], draftId=ids[0])
    corpus.call("get_email", messageId=ids[0], bodyFormat="rtf")


def test_what_travels_is_that(corpus: CorpusDesk) -> None:
    """Some messages over `/mcp`: the transport adds nothing."""
    door = McpEndpoint()
    app = TestApp(App(corpus.desk.appliance, assistants=door))
    for injection in SOME[:6]:
        for tool in ("get_email", "get_email_body"):
            wanted = calling(tool, accountId=corpus.account, messageId=corpus.id_of(injection), bodyFormat="markdown")
            result = post(app, corpus.desk.token, wanted).result
            assert set(result) <= {"content", "structuredContent", "isError", "_meta", "resultType"}
            [text] = result["content"]
            answer = Answer(tool, text["text"], result["structuredContent"], ())
            assert set(text) == {"type", "text"}
            assert answer.faults() == []
            assert unseen_in(answer, injection) == []
            assert len(json.dumps(result, ensure_ascii=False)) <= BOUND
    door.close()


def test_every_tool_that_shows_mail_has_been_called(corpus: CorpusDesk) -> None:
    corpus.call("list_folders")
    corpus.call("list_labels")
    # `list_approvals` takes no mailbox; see tests/approvals/test_interfaces.py.
    others = {"list_accounts", "get_status", "create_upload_link", "list_approvals", "undo_action"}
    shows = {tool.name for tool in TOOLS} - others
    assert shows <= corpus.called
