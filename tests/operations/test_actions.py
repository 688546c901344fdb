"""Bulk actions through the API: who may, what is asked in a wrong way, and what the next answer shows."""

from typing import Any

from tests.checked_client import CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.servers.dovecot import MailServer


def path(mailbox: FilledMailbox) -> str:
    return f"/accounts/{mailbox.id}/messages/actions"


def test_rights_come_before_what_is_wrong_with_the_request(
    checked_client: CheckedClient, filled: FilledMailbox
) -> None:
    appliance, ada = checked_client.appliance, checked_client.member["id"]
    _, organizer = add_key(appliance, ada, "mail.organize")
    _, reader = add_key(appliance, ada, "mail.read")
    wrong: tuple[tuple[Any, str, tuple[int, str]], ...] = (
        (b"{", reader, (403, "permission_denied")),
        (b"{", organizer, (400, "invalid_json")),
        ({"action": "delete", "bogus": 1}, organizer, (403, "permission_denied")),
        ({"action": "delete?", "bogus": 1}, organizer, (400, "invalid_request")),
        ({"action": ["delete"]}, organizer, (400, "invalid_request")),
        ([], organizer, (400, "invalid_request")),
        ({"action": "star", "messageIds": []}, organizer, (400, "invalid_request")),
    )
    for body, token, refusal in wrong:
        assert checked_client.ask("POST", path(filled), body, token=token).refusal == refusal, body
    trash = {"action": "trash", "messageIds": ["msg_1"]}
    answer = checked_client.ask("POST", f"{path(filled)}?bogus=1", trash, token=organizer)
    assert answer.refusal == (403, "permission_denied")


IDS = {"messageIds": ["msg_1"]}
# the body, and the place of what is wrong with it
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    (IDS, "/action"),
    ({"action": "star"}, "/messageIds"),
    ({"action": "star", "messageIds": []}, "/messageIds"),
    ({"action": "star", "messageIds": [""]}, "/messageIds/0"),
    ({"action": "star", "messageIds": [None]}, "/messageIds/0"),
    ({"action": "star", "messageIds": "msg_1"}, "/messageIds"),
    ({"action": "star", "messageIds": [f"msg_{number}" for number in range(101)]}, "/messageIds"),
    ({"action": "Star", **IDS}, "/action"),
    ({"action": "star", "extra": 1, **IDS}, "/extra"),
    ({"action": "move", **IDS}, "/folder"),
    ({"action": "move", "folder": "", **IDS}, "/folder"),
    ({"action": "move", "folder": None, **IDS}, "/folder"),
    ({"action": "move", "folder": "Trash", **IDS}, "/folder"),
    ({"action": "move", "folder": "trash", **IDS}, "/folder"),
    ({"action": "move", "folder": "archive", **IDS}, "/folder"),  # also where there is none
    ({"action": "addLabels", **IDS}, "/labels"),
    ({"action": "removeLabels", "labels": [], **IDS}, "/labels"),
    ({"action": "addLabels", "labels": [""], **IDS}, "/labels/0"),
    ({"action": "addLabels", "labels": ["a"] * 101, **IDS}, "/labels"),
)


def test_what_is_asked_in_a_wrong_way(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    for body, place in WRONG:
        answer = checked_client.ask("POST", path(filled), body)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), body
        assert body.get("folder") not in ("Trash", "trash") or "`trash`" in answer.message


def test_a_mailbox_without_labels_is_422(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    body = {"action": "addLabels", "labels": ["a"], "messageIds": ["msg_1"]}
    assert checked_client.ask("POST", path(filled), body).refusal == (422, "unsupported_capability")


def test_a_server_that_cannot_be_reached(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    (one,), (two,) = filled.deliver(letter("one")), filled.deliver(letter("two"), folder="Trash")
    answer = checked_client.ask("POST", path(filled), {"action": "star", "messageIds": [one, two]})
    assert (answer.refusal, answer.places) == ((503, "provider_unavailable"), ["imap"])
    assert int(answer.headers["retry-after"]) > 0
    answer = checked_client.ask("POST", path(filled), {"action": "trash", "messageIds": [one, two, "msg_x", two]})
    failed = [{"messageId": one, "code": "provider_unavailable"}, {"messageId": "msg_x", "code": "not_found"}]
    assert answer.data == {"action": "trash", "succeededIds": [two], "failed": failed, "uncertainIds": []}
    answer = checked_client.ask("POST", path(filled), {"action": "move", "folder": "Nowhere", "messageIds": [one]})
    assert answer.data["failed"] == [{"messageId": one, "code": "folder_not_found"}]


def test_a_busy_appliance(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    appliance = checked_client.appliance
    with appliance.io_slot(), appliance.io_slot(), appliance.io_slot(), appliance.io_slot():
        answer = checked_client.ask("POST", path(filled), {"action": "star", "messageIds": ["msg_1"]})
    assert (answer.refusal, answer.headers["retry-after"]) == ((503, "provider_unavailable"), "5")


def test_the_next_answer_shows_it(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    two, one = mailbox.deliver(letter("one", number=1), letter("two", number=2))
    assert mailbox.act("markRead", one, two, one).data["succeededIds"] == [one, two]
    assert all(item["flags"]["read"] for item in mailbox.list("inbox"))
    assert mailbox.act("addLabels", one, labels=["todo", "TODO"], folder="ignored").data["succeededIds"] == [one]
    labels = mailbox.ask("GET", f"/messages/{one}").data["labels"]
    assert [label.lower() for label in labels] == ["todo"]
    assert mailbox.act("archive", one, two).data["succeededIds"] == [one, two]
    assert mailbox.list("inbox") == []
    assert [item["id"] for item in mailbox.list("archive")] == [two, one]
    assert mailbox.act("move", one, folder="Drafts").data["succeededIds"] == [one]
    assert mailbox.ask("GET", f"/messages/{one}").data["folder"]["role"] == "drafts"
    assert mailbox.act("delete", one, two).data["succeededIds"] == [one, two]
    assert mailbox.ask("GET", f"/messages/{one}").refusal == (404, "not_found")
    assert [len(mail_server.messages(mailbox.user, folder)) for folder in ("INBOX", "Archive", "Drafts")] == [0, 0, 0]
