"""Drafts and sent messages at Gmail: each exists once, under the ID that was returned first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.sending import sent_copies
from tests.servers.desk import a_message
from tests.servers.gmail import Gmail
from tests.servers.labeled_desk import ADDRESS, LabeledDesk
from tests.servers.mailboxes import wait_until

DRAFT = {"body": {"text": "Hello"}, "to": [{"email": "bob@example.test"}], "subject": "A draft"}


@pytest.fixture(params=[False, True], ids=["", "by Message-ID"])
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[LabeledDesk]:
    monkeypatch.setattr(sent_copies, "_GLANCE", 0.01)
    with Gmail() as gmail:
        made = LabeledDesk(tmp_path / "data", gmail)
        made.box.knows_by_message_id = request.param
        yield made
        made.close()


def test_a_draft_is_written_changed_and_removed(desk: LabeledDesk) -> None:
    made = desk.ask("POST", "/drafts", DRAFT)
    assert (made.status, made.data["folder"]["role"], made.data["flags"]["draft"]) == (201, "drafts", True)
    draft = made.data["id"]
    assert desk.listed("drafts") == ["A draft"]
    desk.act("addLabels", [draft], labels=["Work"])
    changed = desk.ask("PUT", f"/drafts/{draft}", DRAFT | {"subject": "Another"})
    assert (changed.status, changed.data["id"]) == (200, draft)
    assert changed.body.get("warnings") is None
    [at_gmail] = desk.box.letters.values()
    assert at_gmail.labels == {"\\Draft", "Work"}
    assert desk.listed("drafts") == ["Another"]
    desk.wait_until_same()
    assert desk.ask("GET", f"/messages/{draft}").data["labels"] == ["Work"]
    assert desk.ask("DELETE", f"/drafts/{draft}").status == 200
    assert (desk.box.letters, desk.box.expunged_in_all_mail) == ({}, 0)
    assert desk.listed("drafts") == []
    desk.wait_until_same()


def test_what_is_sent_is_there_once_under_the_id_that_was_told(desk: LabeledDesk) -> None:
    answer = desk.desk.send(desk.account, a_message())
    assert answer.data["status"] == "succeeded", answer
    sent = answer.data["result"]
    desk.wait_until_same()
    wait_until(lambda: _pending(desk) == 0, lambda: "the copy is not noted", 10)
    [at_gmail] = desk.box.letters.values()
    assert (at_gmail.labels, desk.gmail.commands.count("APPEND")) == ({"\\Sent"}, 0)
    shown = desk.ask("GET", f"/messages/{sent['id']}").data
    assert (shown["folder"]["role"], shown["threadId"], shown["flags"]["read"]) == ("sent", sent["threadId"], True)
    assert [each["id"] for each in desk.ask("GET", "/messages?folder=sent").data["items"]] == [sent["id"]]
    desk.wait_until_same()


def test_a_draft_that_is_sent_goes_and_what_was_sent_stays(desk: LabeledDesk) -> None:
    draft = desk.ask("POST", "/drafts", DRAFT).data["id"]
    answer = desk.desk.send(desk.account, {"draftId": draft})
    assert answer.data["status"] == "succeeded", answer
    wait_until(lambda: desk.listed("drafts") == [], lambda: "the draft is still there", 10)
    desk.wait_until_same()
    wait_until(lambda: _pending(desk) == 0, lambda: "the copy is not noted", 10)
    [at_gmail] = desk.box.letters.values()
    assert at_gmail.labels == {"\\Sent"}
    assert desk.ask("GET", f"/messages/{answer.data['result']['id']}").data["folder"]["role"] == "sent"
    desk.wait_until_same()


def test_what_one_sends_to_oneself_is_one_message(desk: LabeledDesk) -> None:
    answer = desk.desk.send(desk.account, a_message(ADDRESS))
    assert answer.data["status"] == "succeeded", answer
    desk.wait_until_same()
    wait_until(lambda: _pending(desk) == 0, lambda: "the copy is not noted", 10)
    assert desk.listed("inbox") == desk.listed("sent") == ["A test"]
    desk.wait_until_same()
    assert desk.ask("GET", f"/messages/{answer.data['result']['id']}").status == 200


def test_a_reply_lies_in_the_thread_and_what_it_answers_is_marked(desk: LabeledDesk) -> None:
    [asked] = desk.bring("question")
    parent = desk.ask("GET", f"/messages/{asked}").data
    answer = desk.desk.send(desk.account, {"replyTo": {"messageId": asked}, "body": {"text": "Yes"}})
    if answer.status == 400:
        answer = desk.desk.send(desk.account, {"replyToMessageId": asked, "body": {"text": "Yes"}})
    assert answer.status == 200, answer
    assert answer.data["result"]["threadId"] == parent["threadId"]
    desk.wait_until_same()
    wait_until(lambda: _pending(desk) == 0, lambda: "the copy is not noted", 10)
    thread = desk.ask("GET", f"/threads/{parent['threadId']}").data["messages"]["items"]
    assert [each["id"] for each in thread] == [asked, answer.data["result"]["id"]]
    wait_until(lambda: "\\Answered" in desk.box.letters[min(desk.box.letters)].flags(), lambda: "not marked", 10)
    desk.wait_until_same()


def _pending(desk: LabeledDesk) -> int:
    sql = "SELECT count(*) FROM delivery_operations WHERE copy = 'pending'"
    return int(desk.desk.appliance.store.database.value(sql))
