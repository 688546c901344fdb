"""Messages that wait for a person: accepted, shown, approved or rejected, and sent byte for byte."""

import base64
import hashlib
import os
import urllib.request

from tests.approvals.conftest import OTHER, Desk
from tests.console.house import Person, a_mail
from tests.servers.mailboxes import wait_until


def pending(desk: Desk) -> dict[str, object]:
    """The only approval that waits."""
    (found,) = desk.owner("GET", "/approvals?status=pending").data["items"]
    shown: dict[str, object] = desk.owner("GET", f"/approvals/{found['id']}").data
    return shown


def source(desk: Desk, path: str, part: str = "/raw") -> bytes:
    """The bytes of the message that waits, or of an attachment."""
    headers = {"Authorization": f"Bearer {desk.box.owner.token}"}
    request = urllib.request.Request(f"{desk.house.url}/api/v1{path}{part}", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return bytes(answer.read())


def test_a_message_waits_until_exactly_its_bytes_are_approved(desk: Desk) -> None:
    desk.set_policy(approval="always")
    answer = desk.send(OTHER, key="once")
    assert (answer.status, answer.data["status"]) == (202, "queued"), answer.body
    assert "waits until a person approves it" in answer.body["warnings"][0]
    again = desk.send(OTHER, key="once")
    assert (again.status, again.data) == (202, answer.data)
    shown = pending(desk)
    assert shown["requestedBy"] == {"kind": "api_key", "id": desk.key_id, "name": "Agent"}
    assert (shown["subject"], shown["bodyText"], shown["to"]) == ("Hello", "Hi.", [{"email": OTHER}])
    path = f"/approvals/{shown['id']}"
    raw = source(desk, path)
    assert shown["digest"] == f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert desk.owner("POST", f"{path}/approve", {"digest": "sha256:0"}).status == 409
    assert desk.reached() == []
    approved = desk.owner("POST", f"{path}/approve", {"digest": shown["digest"]})
    assert (approved.status, approved.data["status"]) == (200, "approved"), approved.body
    operation = f"/accounts/{desk.box.id}/delivery-operations/{answer.data['operationId']}"
    wait_until(lambda: desk.owner("GET", operation).data["status"] == "succeeded", lambda: "not sent", 20)
    assert "warnings" not in desk.owner("GET", operation).body
    (message,) = desk.smtp.messages
    assert message.source == raw
    assert desk.owner("POST", f"{path}/approve", {"digest": shown["digest"]}).status == 409
    assert desk.reached() == [OTHER]


def test_what_is_rejected_is_never_sent(desk: Desk) -> None:
    desk.set_key_policy(approval="always")
    answer = desk.send(OTHER)
    path = f"/approvals/{pending(desk)['id']}"
    rejected = desk.owner("POST", f"{path}/reject", {"reason": "Not to him."})
    assert (rejected.status, rejected.data["status"]) == (200, "rejected"), rejected.body
    operation = desk.owner("GET", f"/accounts/{desk.box.id}/delivery-operations/{answer.data['operationId']}").data
    assert (operation["status"], operation["error"]["code"]) == ("failed", "approval_rejected")
    assert desk.reached() == []


def test_its_attachments_are_downloaded_while_it_waits(desk: Desk) -> None:
    desk.set_policy(approval="always")
    large = os.urandom(3 << 20)
    files = {"offer.pdf": b"offer", "photo.jpg": large}
    attachments = [
        {"filename": name, "mimeType": "text/html", "content": base64.b64encode(content).decode()}
        for name, content in files.items()
    ]
    desk.send(OTHER, attachments=attachments)
    shown = pending(desk)
    path = f"/approvals/{shown['id']}"
    listed = shown["attachments"]
    assert isinstance(listed, list)
    assert {one["filename"]: source(desk, path, f"/attachments/{one['id']}") for one in listed} == files
    first = f"{path}/attachments/{listed[0]['id']}"
    assert desk.house.ask(desk.house.bob, "GET", first).status == 404
    for unknown in ("1", "1.1", "99", "x"):  # the text is no attachment
        assert desk.owner("GET", f"{path}/attachments/{unknown}").status == 404
    assert desk.owner("POST", f"{path}/reject", {}).status == 200
    assert desk.owner("GET", first).status == 404


def test_no_key_approves(desk: Desk) -> None:
    desk.set_key_policy(approval="always")
    desk.send(OTHER)
    shown = pending(desk)
    for method, path in (
        ("GET", ""),
        ("POST", "/approve"),
        ("POST", "/reject"),
        ("GET", "/raw"),
        ("GET", "/attachments/2"),
    ):
        body = {"digest": shown["digest"]} if path == "/approve" else None
        answer = desk.house.running.ask(method, f"/approvals/{shown['id']}{path}", body, token=desk.key)
        assert (answer.status, answer.code) == (403, "session_required")
    stranger = desk.house.bob
    assert (
        desk.house.ask(stranger, "POST", f"/approvals/{shown['id']}/approve", {"digest": shown["digest"]}).status == 404
    )


def test_rules_are_checked_before_anything_is_accepted(desk: Desk) -> None:
    desk.set_policy(allowedRecipients=["example.org"], blockedRecipients=["eve@example.org"], maxRecipients=2)
    for recipients, path in (
        (("x@example.net",), "/to/0/email"),
        (("bob@example.org", "EVE@Example.ORG"), "/to/1/email"),
        (("x@sub.example.org",), "/to/0/email"),
        (("a@example.org", "b@example.org", "c@example.org"), "maxRecipients"),
    ):
        answer = desk.send(*recipients)
        assert (answer.status, answer.code) == (403, "policy_denied"), answer.body
        assert answer.body["error"]["details"][0]["path"] == path
    assert desk.send("bob@example.org").data["status"] == "succeeded"
    assert desk.reached() == ["bob@example.org"]


def test_a_new_recipient_needs_an_approval_once(desk: Desk) -> None:
    desk.set_policy(approval="newRecipients")
    assert desk.send(OTHER).data["status"] == "queued"
    shown = pending(desk)
    assert shown["reasons"] == [f"New recipient: {OTHER}"]
    desk.owner("POST", f"/approvals/{shown['id']}/approve", {"digest": shown["digest"]})
    wait_until(lambda: desk.reached() == [OTHER], lambda: "not sent", 20)
    wait_until(lambda: len(desk.house.messages(desk.box, folder="sent")) == 1, lambda: "no copy", 20)
    assert desk.send(OTHER).data["status"] == "succeeded"


def test_a_delivery_and_the_status_name_the_approval_for_whoever_may_give_it(desk: Desk) -> None:
    house, friend = desk.house, desk.house.add_member("finn")
    desk.owner("PUT", f"/accounts/{desk.box.id}/access", {"sharedWithAll": False, "memberIds": [friend.id]})
    made = house.ask(friend, "POST", "/me/api-keys", {"name": "Finn's agent", "permissionProfile": "full"}).data

    def seen(person: Person) -> tuple[object, int]:
        entry = house.ask(person, "GET", "/delivery-operations").data["items"][0]
        status = house.ask(person, "GET", "/status").data
        return entry.get("approvalId", "none"), status.get("pendingApprovals", 0)

    desk.set_policy(approval="always")
    desk.send(OTHER)
    asked = str(pending(desk)["id"])
    assert seen(desk.box.owner) == (asked, 1)
    desk.owner("POST", f"/approvals/{asked}/reject", {})
    assert seen(desk.box.owner) == ("none", 0)
    desk.send(OTHER, token=friend.token)
    assert seen(friend) == (None, 0), "their session's message, which only the owner sees and approves"
    desk.send(OTHER, token=made["token"])
    by_key = seen(friend)
    assert (str(by_key[0])[:4], by_key[1]) == ("apr_", 0), "they see it, and only the owner approves it"
    assert "pendingApprovals" not in house.running.ask("GET", "/status", token=made["token"]).data
    assert house.ask(desk.box.owner, "GET", "/status").data["pendingApprovals"] == 2


def test_an_approval_shows_the_html_and_names_the_message_that_it_answers(desk: Desk) -> None:
    desk.set_policy(approval="always")
    desk.house.server.deliver(desk.box.email, a_mail("Question", "When?", Reply_To=OTHER))
    wait_until(lambda: bool(desk.house.messages(desk.box)), lambda: "not synced", 20)
    parent = desk.house.messages(desk.box)[0]["id"]
    desk.post("send", {"replyToMessageId": parent, "body": {"text": "Now.", "html": "<p>Now.</p>"}})
    shown = pending(desk)
    assert (shown["bodyHtml"], shown["parentMessageId"]) == ("<p>Now.</p>", parent)
    listed = desk.owner("GET", "/approvals").data["items"][0]
    assert not {"bodyHtml", "bodyText", "parentMessageId"} & set(listed)
