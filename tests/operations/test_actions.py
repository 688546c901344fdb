"""Bulk actions through the API: who may, what is asked in a wrong way, and what the next answer shows."""

from typing import Any

from mailbox_appliance.model.sync import MessageState, StateChange
from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox, add_key, add_member, letter
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


# --- undo ---


def undo(mailbox: ConnectedMailbox, token: str, by: str | None = None) -> Answer:
    return mailbox.ask("POST", "/messages/actions/undo", {"token": token}, token=by)


def test_an_action_is_undone_once(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    two, one = mailbox.deliver(letter("one", number=1), letter("two", number=2))
    answer = mailbox.act("archive", one, two)
    offer = answer.body["undo"]
    assert offer.keys() == {"token", "expiresAt"}
    assert undo(mailbox, offer["token"]).data == {
        "action": "undo",
        "succeededIds": [one, two],
        "failed": [],
        "uncertainIds": [],
    }
    assert [item["id"] for item in mailbox.list("inbox")] == [two, one]
    again = undo(mailbox, offer["token"])
    assert (again.refusal, "already used" in again.message) == ((409, "conflict"), True)
    assert undo(mailbox, "mbxu_unknown").refusal == (404, "not_found")


def test_what_changed_nothing_cannot_be_undone(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    (one,) = mailbox.deliver(letter("one"), flags="\\Seen")
    assert "undo" not in mailbox.act("markRead", one).body
    assert "undo" not in mailbox.act("star", "msg_unknown").body
    assert "undo" not in mailbox.act("delete", one).body


def test_what_was_changed_since_is_named(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    two, one = mailbox.deliver(letter("one", number=1), letter("two", number=2))
    token = mailbox.act("addLabels", one, two, labels=["todo"]).body["undo"]["token"]
    mailbox.act("star", one)
    data = undo(mailbox, token).data
    assert (data["succeededIds"], data["failed"]) == ([two], [{"messageId": one, "code": "changed"}])
    assert mailbox.ask("GET", f"/messages/{one}").data["labels"] == ["todo"]


def test_an_undo_needs_what_the_action_needs(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    appliance, ada = checked_client.appliance, checked_client.member["id"]
    (one,) = mailbox.deliver(letter("one"))
    _, organizer = add_key(appliance, ada, "mail.organize")
    _, reader = add_key(appliance, ada, "mail.read")
    _, elsewhere = add_key(appliance, ada, "mail.trash", accounts=["acc_other"])
    token = mailbox.act("trash", one).body["undo"]["token"]
    for by, refusal in (
        (organizer, (403, "permission_denied")),
        (reader, (403, "permission_denied")),
        (elsewhere, (404, "not_found")),
    ):
        assert undo(mailbox, token, by).refusal == refusal
    _, stranger = add_key(appliance, add_member(appliance, "eve"), "mail.trash")
    assert undo(mailbox, token, stranger).refusal == (404, "not_found")
    with appliance.store.database.transaction():
        appliance.store.accounts.set_access(mailbox.id, shared_with_all=True, member_ids=[])
    assert undo(mailbox, token, stranger).refusal == (404, "not_found")
    _, trasher = add_key(appliance, ada, "mail.trash")
    assert undo(mailbox, token, trasher).data["succeededIds"] == [one]


def test_a_token_of_another_mailbox(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox, other = (ConnectedMailbox(checked_client, mail_server) for _ in range(2))
    (one,) = mailbox.deliver(letter("one"))
    token = mailbox.act("star", one).body["undo"]["token"]
    assert undo(other, token).refusal == (404, "not_found")
    assert undo(mailbox, token).data["succeededIds"] == [one]


def test_a_token_stays_valid_while_the_server_is_away(checked_client: CheckedClient, mail_server: MailServer) -> None:
    mailbox = ConnectedMailbox(checked_client, mail_server)
    (one,) = mailbox.deliver(letter("one"))
    token = mailbox.act("star", one).body["undo"]["token"]
    appliance = checked_client.appliance
    with appliance.io_slot(), appliance.io_slot(), appliance.io_slot(), appliance.io_slot():
        assert undo(mailbox, token).refusal == (503, "provider_unavailable")
    assert undo(mailbox, token).data["succeededIds"] == [one]


WRONG_UNDOS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "/token"),
    ({"token": ""}, "/token"),
    ({"token": None}, "/token"),
    ({"token": "x" * 201}, "/token"),
    ({"token": "x", "action": "star"}, "/action"),
)


def test_an_undo_that_is_asked_for_in_a_wrong_way(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    for body, place in WRONG_UNDOS:
        answer = checked_client.ask("POST", f"{path(filled)}/undo", body)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), body


def test_a_token_stays_valid_if_nothing_was_restored(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    store, ada = checked_client.appliance.store, checked_client.member["id"]
    (one,) = filled.deliver(letter("one"))
    folder = store.mailbox_writer.locate(filled.id, [one])[one].folder.id
    states = MessageState(folder, frozenset()), MessageState(folder, frozenset({"\\Flagged"}))
    token = store.undo.add(filled.id, ada, "star", [StateChange(*states, (one,))]).token
    for _ in range(2):
        answer = checked_client.ask("POST", f"{path(filled)}/undo", {"token": token})
        assert (answer.refusal, answer.places) == ((503, "provider_unavailable"), ["imap"])
    assert not store.undo.get(token, filled.id, ada).is_used
