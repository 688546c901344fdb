"""Drafts through the API: made, listed, read, replaced, deleted; at the server they are what other programs show."""

import base64
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes, policy
from typing import Any

import pytest

from tests.checked_client import CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

WHOLE: dict[str, Any] = {
    "to": [{"email": "bob@example.test", "name": "Bob"}],
    "cc": [{"email": "cy@example.test"}],
    "bcc": [{"email": "di@example.test"}],
    "subject": "Plans für Morgen",
    "body": {"text": "Hello\n", "html": "<p>Hello</p>"},
    "attachments": [
        {"filename": "plan.txt", "mimeType": "text/plain", "content": base64.b64encode(b"step one").decode()}
    ],
}


@pytest.fixture
def mailbox(checked_client: CheckedClient, mail_server: MailServer) -> ConnectedMailbox:
    return ConnectedMailbox(checked_client, mail_server)


def at_server(mailbox: ConnectedMailbox) -> list[Any]:
    return [
        message_from_bytes(source, policy=policy.default)
        for source in mailbox.server.messages(mailbox.user, folder="Drafts")
    ]


def test_a_draft_from_beginning_to_end(mailbox: ConnectedMailbox) -> None:
    made = mailbox.ask("POST", "/drafts", WHOLE)
    draft = made.data
    assert (made.status, draft["draftId"], draft["flags"]["draft"]) == (201, draft["id"], True)
    assert (draft["subject"], draft["folder"]["role"]) == (WHOLE["subject"], "drafts")
    assert [draft[name] for name in ("to", "cc", "bcc")] == [WHOLE["to"], WHOLE["cc"], WHOLE["bcc"]]
    assert [(one["filename"], one["sizeBytes"]) for one in draft["attachments"]] == [("plan.txt", 8)]
    (message,) = at_server(mailbox)
    assert (message["Bcc"], message["Subject"]) == ("di@example.test", WHOLE["subject"])
    assert [part.get_filename() for part in message.iter_attachments()] == ["plan.txt"]
    listed = mailbox.ask("GET", "/drafts").data["items"]
    assert [(one["id"], one["draftId"]) for one in listed] == [(draft["id"], draft["id"])]
    assert mailbox.ask("GET", f"/drafts/{draft['id']}").data == draft

    changed = mailbox.ask("PUT", f"/drafts/{draft['id']}", {"body": {"text": "Later"}, "subject": "New"})
    assert (changed.status, changed.data["id"], changed.data["draftId"]) == (200, draft["id"], draft["id"])
    assert (changed.data["subject"], changed.data["body"]["text"].strip()) == ("New", "Later")
    assert (changed.data["to"], changed.data.get("attachments"), changed.data.get("bcc")) == ([], None, None)
    assert [(one["Subject"], one["Bcc"]) for one in at_server(mailbox)] == [("New", None)]
    assert [one["subject"] for one in mailbox.ask("GET", "/drafts").data["items"]] == ["New"]

    deleted = mailbox.ask("DELETE", f"/drafts/{draft['id']}")
    assert deleted.data == {"id": draft["id"], "deleted": True}
    assert (at_server(mailbox), mailbox.ask("GET", "/drafts").data["items"]) == ([], [])
    for method, body in (("GET", None), ("PUT", {"body": {}}), ("DELETE", None)):
        assert mailbox.ask(method, f"/drafts/{draft['id']}", body).refusal == (404, "not_found")


def test_its_id_stays_through_sync(mailbox: ConnectedMailbox) -> None:
    ids = [mailbox.ask("POST", "/drafts", {"body": {}, "subject": f"Draft {number}"}).data["id"] for number in range(3)]
    for number in range(3, 6):
        mailbox.ask("PUT", f"/drafts/{ids[1]}", {"body": {}, "subject": f"Draft {number}"})
    synced = mailbox.ask("GET", "").data["lastSyncAt"]
    mailbox.client.appliance.sync.wake(mailbox.id, None)
    wait_until(lambda: bool(mailbox.ask("GET", "").data["lastSyncAt"] != synced), lambda: "no sync", 10)
    listed = mailbox.ask("GET", "/drafts").data["items"]
    assert {one["id"]: one["subject"] for one in listed} == {ids[0]: "Draft 0", ids[1]: "Draft 5", ids[2]: "Draft 2"}
    assert len(at_server(mailbox)) == 3
    first = mailbox.ask("GET", "/drafts?limit=2").data
    rest = mailbox.ask("GET", f"/drafts?limit=2&cursor={first['nextCursor']}").data
    assert [one["id"] for one in (*first["items"], *rest["items"])] == [one["id"] for one in listed]


def test_a_draft_of_a_reply(mailbox: ConnectedMailbox) -> None:
    (parent,) = mailbox.deliver(letter("Plans", number=7))
    draft = mailbox.ask("POST", "/drafts", {"body": {"text": "Yes"}, "replyToMessageId": parent}).data
    assert (draft["subject"], draft["to"]) == ("Re: Plans", [{"email": "bob@example.test", "name": "Bob"}])
    assert draft["threadId"] == mailbox.ask("GET", f"/messages/{parent}").data["threadId"]
    (message,) = at_server(mailbox)
    assert message["In-Reply-To"] == "<7@example.test>"


def test_other_programs_drafts_are_drafts_and_other_mail_is_not(mailbox: ConnectedMailbox) -> None:
    (marked,) = mailbox.deliver(letter("marked"), flags="\\Draft")
    (filed,) = mailbox.deliver(letter("filed"), folder="Drafts")
    (letter_id,) = mailbox.deliver(letter("other"), folder="Sent")
    for draft in (marked, filed):
        assert mailbox.ask("GET", f"/drafts/{draft}").data["draftId"] == draft
    assert [one["id"] for one in mailbox.ask("GET", "/drafts").data["items"]] == [filed]
    for method, body in (("GET", None), ("PUT", {"body": {}}), ("DELETE", None)):
        assert mailbox.ask(method, f"/drafts/{letter_id}", body).refusal == (404, "not_found")
    mailbox.server.doveadm("expunge", "-u", mailbox.user, "mailbox", "Drafts", "all")
    answer = mailbox.ask("PUT", f"/drafts/{filed}", {"body": {}})
    assert answer.refusal in ((409, "sync_required"), (404, "not_found"))  # sync may have been faster
    assert at_server(mailbox) == []


# the body, and the place of what is wrong with it
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "/body"),
    ({"body": "text"}, "/body"),
    ({"body": {}, "sendAt": "2030-01-31T09:00:00Z"}, "/sendAt"),
    ({"body": {}, "draftId": "msg_1"}, "/draftId"),
    ({"body": {}, "to": [{"email": "nobody"}]}, "/to/0/email"),
    ({"body": {}, "from": "other@example.org"}, "/from"),
    ({"body": {}, "subject": "a\nb"}, "/subject"),
    ({"body": {}, "replyAll": True}, "/replyToMessageId"),
)


def test_what_is_wrong_with_a_draft(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    (draft,) = filled.deliver(letter("one"), flags=["\\Draft"])
    for method, path in (("POST", f"/accounts/{filled.id}/drafts"), ("PUT", f"/accounts/{filled.id}/drafts/{draft}")):
        for body, place in WRONG:
            answer = checked_client.ask(method, path, body)
            if place == "/to/0/email":
                assert (answer.refusal, answer.places[0][:5]) == ((400, "invalid_request"), "/to/0")
            else:
                assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), body
        assert checked_client.ask(method, path, {"body": {}}).refusal == (503, "provider_unavailable")
    assert checked_client.ask("GET", f"/accounts/{filled.id}/drafts").data == {"items": [], "nextCursor": None}


def test_a_key_without_mail_delete_removes_drafts_and_nothing_else(mailbox: ConnectedMailbox) -> None:
    client = mailbox.client
    (one,) = mailbox.deliver(letter("precious"))
    _, key = add_key(client.appliance, client.member["id"], "mail.read", "mail.drafts", "mail.organize")
    body = {"action": "move", "messageIds": [one], "folder": "drafts"}
    assert mailbox.ask("POST", "/messages/actions", body, token=key).data["succeededIds"] == [one]
    assert mailbox.ask("GET", f"/drafts/{one}", token=key).data["draftId"] == one
    for method, content in (("PUT", {"body": {}}), ("DELETE", None)):
        answer = mailbox.ask(method, f"/drafts/{one}", content, token=key)
        assert (answer.refusal, answer.places) == ((403, "permission_denied"), ["capability"])
    assert [message["Subject"] for message in at_server(mailbox)] == ["precious"]
    own = mailbox.ask("POST", "/drafts", {"body": {}, "subject": "draft"}, token=key).data["id"]
    assert mailbox.ask("PUT", f"/drafts/{own}", {"body": {}, "subject": "new"}, token=key).status == 200
    assert mailbox.ask("DELETE", f"/drafts/{own}", token=key).status == 200
    assert mailbox.ask("DELETE", f"/drafts/{one}").status == 200, "with mail.delete"
    assert at_server(mailbox) == []


def test_two_who_write_one_draft_at_once(mailbox: ConnectedMailbox) -> None:
    draft = mailbox.ask("POST", "/drafts", {"body": {}, "subject": "first"}).data["id"]
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(
                lambda number: mailbox.ask("PUT", f"/drafts/{draft}", {"body": {}, "subject": f"v{number}"}), range(2)
            )
        )
    assert [answer.status for answer in answers] == [200, 200]
    assert len(at_server(mailbox)) == 1
    assert mailbox.ask("GET", f"/drafts/{draft}").data["subject"] == at_server(mailbox)[0]["Subject"]


def test_what_a_key_may_do_with_drafts(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    appliance, ada = checked_client.appliance, checked_client.member["id"]
    (draft,) = filled.deliver(letter("one"), flags=["\\Draft"])
    _, reader = add_key(appliance, ada, "mail.read", "mail.send", "mail.organize")
    _, writer = add_key(appliance, ada, "mail.drafts")
    one, many = f"/accounts/{filled.id}/drafts/{draft}", f"/accounts/{filled.id}/drafts"
    for method, path, body in (("POST", many, {"body": {}}), ("PUT", one, {"body": {}}), ("DELETE", one, None)):
        assert checked_client.ask(method, path, body, token=reader).refusal == (403, "permission_denied")
        assert checked_client.ask(method, path, body, token=writer).refusal == (503, "provider_unavailable")
    for path in (one, many):
        assert checked_client.ask("GET", path, token=reader).status == 200
        assert checked_client.ask("GET", path, token=writer).refusal == (403, "permission_denied")
