"""Ways around a policy or an approval, each of which ends nowhere. The SMTP server's record is the judge."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailbox_appliance.clock import to_timestamp
from tests.approvals.conftest import OTHER, Desk
from tests.console.house import Person, a_mail
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer

EVIL = "eve@evil.test"


def approval(desk: Desk, status: str = "pending") -> dict[str, Any]:
    """Return the only approval with this status."""
    (found,) = desk.owner("GET", f"/approvals?status={status}").data["items"]
    return dict(found)


def approve(desk: Desk, found: dict[str, Any], by: Person | None = None) -> Answer:
    """Approve a message, as the owner or somebody else."""
    path = f"/approvals/{found['id']}/approve"
    return desk.house.ask(by or desk.box.owner, "POST", path, {"digest": found["digest"]})


def operation(desk: Desk, found: dict[str, Any]) -> tuple[str, str | None]:
    """Return the status and the error code of the delivery of an approval."""
    data = desk.owner("GET", f"/accounts/{desk.box.id}/delivery-operations/{found['operationId']}").data
    return data["status"], (data.get("error") or {}).get("code")


def new_key(desk: Desk, member: Person, **policy: object) -> tuple[str, str]:
    """Return the ID and the token of another API key of a member."""
    made = desk.house.ask(member, "POST", "/me/api-keys", {"name": "Second", "permissionProfile": "full"}).data
    if policy:
        answer = desk.house.ask(member, "PUT", f"/me/api-keys/{made['apiKey']['id']}/sending-policy", policy)
        assert answer.status == 200, answer.body
    return made["apiKey"]["id"], made["token"]


def share(desk: Desk, *members: Person) -> None:
    """Share the mailbox with these members only."""
    access = {"sharedWithAll": False, "memberIds": [member.id for member in members]}
    assert desk.owner("PUT", f"/accounts/{desk.box.id}/access", access).status == 200


def soon(seconds: float = 1.5) -> str:
    return to_timestamp(datetime.now(UTC) + timedelta(seconds=seconds))


def draft(desk: Desk, *headers: str) -> str:
    """Put a draft with these header fields into the mailbox by IMAP; return its ID."""
    lines = [f"From: {desk.box.email}", "Subject: Drafted", "Message-ID: <drafted@client.test>", *headers]
    source = ("\r\n".join([*lines, "MIME-Version: 1.0", "", "Text."]) + "\r\n").encode()
    desk.house.server.deliver(desk.box.email, source, folder="Drafts", flags="\\Draft")
    return listed(desk, "drafts")


def listed(desk: Desk, folder: str) -> str:
    """Return the ID of the only message in a folder, when it is there."""
    wait_until(lambda: len(desk.house.messages(desk.box, folder=folder)) == 1, lambda: f"nothing in {folder}", 5)
    return str(desk.house.messages(desk.box, folder=folder)[0]["id"])


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_key_raises_no_policy(desk: Desk) -> None:
    desk.set_policy(approval="always")
    desk.set_key_policy(maxRecipients=1)
    admin_key = desk.house.ask(
        desk.house.ada, "POST", "/me/api-keys", {"name": "Admin", "permissionProfile": "full"}
    ).data
    for token in (desk.key, admin_key["token"]):
        for method, path, body in (
            ("PUT", f"/accounts/{desk.box.id}/sending-policy", {}),
            ("PUT", f"/me/api-keys/{desk.key_id}/sending-policy", {}),
            ("PUT", f"/admin/api-keys/{desk.key_id}/sending-policy", {}),
            ("POST", "/me/api-keys", {"name": "Another", "permissionProfile": "full"}),
            ("DELETE", f"/me/api-keys/{desk.key_id}", None),
            ("DELETE", f"/accounts/{desk.box.id}", None),
        ):
            answer = desk.house.running.ask(method, path, body, token=token)
            assert answer.status in (403, 404), (method, path, answer.body)
    assert desk.owner("GET", f"/accounts/{desk.box.id}/sending-policy").data["approval"] == "always"
    assert desk.owner("GET", f"/me/api-keys/{desk.key_id}/sending-policy").data["maxRecipients"] == 1


def test_an_administrator_only_tightens(desk: Desk) -> None:
    strict = {"approval": "newRecipients", "allowedRecipients": ["strasse@example.org", "example.net"], "perHour": 2}
    desk.set_key_policy(**strict)
    path = f"/admin/api-keys/{desk.key_id}/sending-policy"
    for change, pointer in (
        ({"approval": "never"}, "/approval"),
        ({"allowedRecipients": None}, "/allowedRecipients"),
        ({"allowedRecipients": ["example.org"]}, "/allowedRecipients"),
        ({"allowedRecipients": ["straße@example.org"]}, "/allowedRecipients"),
        ({"allowedRecipients": ["sub.example.net"]}, "/allowedRecipients"),
        ({"perHour": 3}, "/perHour"),
    ):
        answer = desk.house.ask(desk.house.ada, "PUT", path, strict | change)
        assert (answer.status, answer.code) == (403, "permission_denied"), answer.body
        assert [each["path"] for each in answer.body["error"]["details"]] == [pointer]
    tighter = strict | {"approval": "always", "allowedRecipients": ["ann@example.net"], "perHour": 0}
    assert desk.house.ask(desk.house.ada, "PUT", path, tighter).status == 200


LOOK_ALIKES = (
    "eve@еxample.org",
    "bob@example.org.evil.test",
    "bob@xexample.org",
    "bob@sub.example.org",
    "uſer@example.net",
    "straße@example.net",
)


@pytest.mark.parametrize("address", LOOK_ALIKES)
def test_a_look_alike_is_somebody_else(desk: Desk, address: str) -> None:
    desk.set_policy(allowedRecipients=["example.org", "user@example.net", "strasse@example.net"])
    for field in ("to", "cc", "bcc"):
        more: dict[str, Any] = {field: [{"email": address}]}
        answer = desk.send(OTHER, **more)
        assert (answer.status, answer.code) == (403, "policy_denied"), answer.body
    assert desk.reached() == []


def test_a_second_key_has_the_rules_of_the_mailbox(desk: Desk) -> None:
    desk.set_policy(allowedRecipients=["example.org"], perDay=2)
    _, second = new_key(desk, desk.box.owner)
    assert desk.send(EVIL, token=second).code == "policy_denied"
    assert desk.send(OTHER).status == desk.send(OTHER, token=second).status == 200
    for token in (desk.key, second, desk.box.owner.token):
        answer = desk.send(OTHER, token=token)
        assert (answer.status, answer.code) == (429, "too_many_attempts"), answer.body
    assert desk.reached() == [OTHER, OTHER]


def test_recipients_split_over_messages_meet_the_limit_of_messages(desk: Desk) -> None:
    desk.set_key_policy(maxRecipients=1, perHour=2)
    answers = [desk.send(f"person{number}@example.org") for number in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert len(desk.reached()) == 2


def test_two_at_once_do_not_both_take_the_last_place(desk: Desk) -> None:
    desk.set_policy(perHour=3)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(desk.send(OTHER).status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] * 3 + [429] * 5
    assert len(desk.reached()) == 3


@pytest.mark.parametrize("field", ["perHour", "perDay", "maxRecipients"])
def test_a_limit_of_none_lets_nothing_pass(desk: Desk, field: str) -> None:
    desk.set_key_policy(approval="always")
    assert desk.send(OTHER).status == 202
    assert desk.send(OTHER, sendAt=soon()).status == 202
    desk.set_policy(**{field: 0})
    assert desk.send(OTHER).status == (403 if field == "maxRecipients" else 429)
    for found in desk.owner("GET", "/approvals").data["items"]:
        assert approve(desk, found).code == "policy_denied"
    assert desk.reached() == []


DRAFTS: tuple[tuple[str, ...], ...] = (
    ("To: bob@example.org", f"Cc: {EVIL}"),
    ("To: bob@example.org", f"Bcc: {EVIL}"),
    (f"To: friends: bob@example.org, {EVIL};",),
    (f"To: bob@example.org (a comment, <{EVIL}>), {EVIL}",),
    (f'To: "bob@example.org" <{EVIL}>',),
    (f"To: <@example.org,@example.net:{EVIL}>",),
    (f"To: bob@example.org <{EVIL}>",),
    (f"To: =?utf-8?q?bob=40example=2Eorg?= <{EVIL}>",),
    ("To: bob@example.org", f"To: {EVIL}"),
    ("To: bob@example.org", f"X-KMail-Recipients: {EVIL}", f"R: {EVIL}", f"Cc: {EVIL}"),
)


@pytest.mark.parametrize("headers", DRAFTS)
def test_no_spelling_in_a_draft_hides_a_recipient(desk: Desk, headers: tuple[str, ...]) -> None:
    desk.set_policy(allowedRecipients=["example.org"])
    answer = desk.post("send", {"draftId": draft(desk, *headers)})
    assert answer.status in (400, 403), answer.body
    assert desk.reached() == []


def test_resent_fields_of_a_draft_add_nobody(desk: Desk) -> None:
    desk.set_policy(allowedRecipients=["example.org"])
    answer = desk.post(
        "send", {"draftId": draft(desk, "To: bob@example.org", f"Resent-To: {EVIL}", f"Resent-Bcc: {EVIL}")}
    )
    assert answer.status in (200, 400), answer.body
    assert set(desk.reached()) <= {"bob@example.org"}
    assert all(EVIL.encode() not in message.source for message in desk.smtp.messages)


# --- newRecipients: how an address does not become known --------------------------------------------------------------


def unknown(desk: Desk, address: str = EVIL) -> bool:
    """Whether a message to an address needs an approval; it is rejected."""
    answer = desk.send(address)
    if answer.status != 202:
        return False
    assert desk.owner("POST", f"/approvals/{approval(desk)['id']}/reject", {}).status == 200
    return True


def modify(desk: Desk, **body: object) -> Answer:
    """Apply an action to messages by the key."""
    path = f"/accounts/{desk.box.id}/messages/actions"
    return desk.house.running.ask("POST", path, body, token=desk.key, timeout=60)


@pytest.mark.parametrize("steps", [("move",), ("archive",), ("trash", "untrash")])
def test_spam_that_a_key_moves_makes_nobody_known(desk: Desk, steps: tuple[str, ...]) -> None:
    desk.house.server.deliver(desk.box.email, a_mail("Win", From=EVIL), folder="Junk")
    message = listed(desk, "spam")
    desk.set_key_policy(approval="newRecipients")
    for step in steps:
        more = {"folder": "inbox"} if step == "move" else {}
        answer = modify(desk, action=step, messageIds=[message], **more)
        if answer.status != 200:
            assert answer.code == "policy_denied", answer.body
    assert unknown(desk)
    assert desk.reached() == []


def test_an_undo_by_a_key_moves_nothing_out_of_spam(desk: Desk) -> None:
    desk.house.server.deliver(desk.box.email, a_mail("Win", From=EVIL))
    message = listed(desk, "inbox")
    moved = modify(desk, action="move", messageIds=[message], folder="Junk")
    assert moved.status == 200, moved.body
    desk.set_policy(approval="newRecipients")
    answer = desk.post("messages/actions/undo", {"token": moved.body["undo"]["token"]})
    assert (answer.status, answer.code) == (403, "policy_denied"), answer.body
    assert unknown(desk)


def test_the_owner_moves_spam_and_its_sender_is_known(desk: Desk) -> None:
    desk.house.server.deliver(desk.box.email, a_mail("No spam", From=OTHER), folder="Junk")
    message = listed(desk, "spam")
    desk.set_policy(approval="newRecipients")
    body = {"action": "move", "messageIds": [message], "folder": "inbox"}
    assert desk.owner("POST", f"/accounts/{desk.box.id}/messages/actions", body).status == 200
    assert not unknown(desk, OTHER)


def test_a_draft_or_a_message_filed_into_sent_makes_nobody_known(desk: Desk) -> None:
    desk.house.server.deliver(desk.box.email, a_mail("Spoofed", From=desk.box.email, To=EVIL))
    received = listed(desk, "inbox")
    drafted = draft(desk, f"To: {EVIL}")
    desk.set_policy(approval="newRecipients")
    for message in (received, drafted):
        modify(desk, action="move", messageIds=[message], folder="sent")
    assert unknown(desk)
    assert desk.reached() == []


def test_a_look_alike_of_somebody_known_is_new(desk: Desk) -> None:
    desk.house.server.deliver(desk.box.email, a_mail("Hello", From="user@example.net"))
    listed(desk, "inbox")
    desk.set_policy(approval="newRecipients")
    for address in ("uſer@example.net", "user@example.net.evil.test", "user@sub.example.net", "xuser@example.net"):
        assert unknown(desk, address), address
    assert not unknown(desk, "User@Example.Net")


# --- approvals --------------------------------------------------------------------------------------------------------


def test_a_draft_changed_meanwhile_is_not_what_goes_out(desk: Desk) -> None:
    desk.set_policy(approval="always")
    answer = desk.post("send", {"draftId": draft(desk, f"To: {OTHER}")})
    assert answer.status == 202, answer.body
    changed = a_mail("Changed", "Other text.", From=desk.box.email, To=EVIL)
    desk.house.server.deliver(desk.box.email, changed, folder="Drafts", flags="\\Draft")
    assert approve(desk, approval(desk)).status == 200
    wait_until(lambda: desk.reached() == [OTHER], lambda: str(desk.reached()), 20)
    assert b"Text." in desk.smtp.messages[0].source


def test_a_member_does_not_approve_what_the_mailbox_asks_for(desk: Desk) -> None:
    carol = desk.house.add_member("carol")
    share(desk, carol)
    _, key = new_key(desk, carol)
    desk.set_policy(approval="always")
    assert desk.send(OTHER, token=key).status == 202
    assert approve(desk, approval(desk), carol).code == "permission_denied"
    assert desk.send(OTHER, token=carol.token).status == 202
    assert desk.reached() == []
    for found in desk.owner("GET", "/approvals?status=pending").data["items"]:
        assert approve(desk, found).status == 200
    wait_until(lambda: len(desk.reached()) == 2, lambda: str(desk.reached()), 20)


def test_a_rule_that_comes_later_asks_the_owner(desk: Desk) -> None:
    """A member approves what their own key asks for; the mailbox's rule comes before the message is due."""
    carol = desk.house.add_member("carol")
    share(desk, carol)
    _, key = new_key(desk, carol, approval="always")
    assert desk.send(OTHER, token=key, sendAt=soon(4)).status == 202
    assert desk.send(OTHER, token=key, subject="Waits").status == 202
    waits, scheduled = desk.house.ask(carol, "GET", "/approvals").data["items"]
    assert approve(desk, scheduled, carol).status == 200
    desk.set_policy(approval="always")
    assert approve(desk, waits, carol).code == "permission_denied"
    wait_until(
        lambda: len(desk.owner("GET", "/approvals?status=pending").data["items"]) == 2, lambda: "not asked again", 20
    )
    assert desk.reached() == []
    again = next(each for each in desk.owner("GET", "/approvals").data["items"] if each["subject"] == "Hello")
    assert again["digest"] == scheduled["digest"]
    assert approve(desk, again, carol).code == "permission_denied"
    assert approve(desk, again).status == 200
    wait_until(lambda: desk.reached() == [OTHER], lambda: str(desk.reached()), 20)


CHANGES: list[tuple[str, Callable[[Desk, Person, str], object], int, str | None]] = [
    ("the key is revoked", lambda d, who, key: d.house.ask(who, "DELETE", f"/me/api-keys/{key}"), 403, None),
    ("the member has no access", lambda d, who, key: share(d), 403, None),
    ("the policy forbids it", lambda d, who, key: d.set_policy(blockedRecipients=["example.org"]), 403, None),
    ("nobody is allowed", lambda d, who, key: d.set_policy(allowedRecipients=[]), 403, None),
    ("the mailbox is removed", lambda d, who, key: d.owner("DELETE", f"/accounts/{d.box.id}"), 404, None),
]


@pytest.mark.parametrize(("change", "status"), [(row[1], row[2]) for row in CHANGES], ids=[row[0] for row in CHANGES])
@pytest.mark.parametrize("is_approved", [False, True], ids=["before", "after"])
def test_what_changed_meanwhile_is_checked(
    desk: Desk, change: Callable[[Desk, Person, str], object], status: int, is_approved: bool
) -> None:
    """Before the approval, and between the approval and the time at which the message is due."""
    carol = desk.house.add_member("carol")
    share(desk, carol)
    key_id, key = new_key(desk, carol, approval="always")
    assert desk.send(OTHER, token=key, sendAt=soon(3 if is_approved else 60)).status == 202
    found = approval(desk)
    if is_approved:
        assert approve(desk, found).status == 200
        change(desk, carol, key_id)
        if status != 404:
            wait_until(lambda: operation(desk, found)[0] == "failed", lambda: str(operation(desk, found)), 20)
            assert operation(desk, found)[1] in ("permission_revoked", "policy_denied")
    else:
        change(desk, carol, key_id)
        assert approve(desk, found).status == status
    assert desk.reached() == []


def test_it_is_approved_once(desk: Desk) -> None:
    desk.set_policy(approval="always")
    desk.send(OTHER)
    found, answers = approval(desk), list[int]()
    threads = [threading.Thread(target=lambda: answers.append(approve(desk, found).status)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [409] * 5
    wait_until(lambda: operation(desk, found)[0] == "succeeded", lambda: "not sent", 20)
    assert desk.owner("POST", f"/approvals/{found['id']}/reject", {}).status == 409
    assert desk.reached() == [OTHER]


def test_a_key_that_is_used_again_for_another_message_sends_neither(desk: Desk) -> None:
    desk.set_policy(approval="always")
    assert desk.send(OTHER, key="same").status == 202
    for more in ({"subject": "Other"}, {"bcc": [{"email": EVIL}]}, {"sendAt": soon(60)}):
        answer = desk.send(OTHER, key="same", **more)
        assert (answer.status, answer.code) == (409, "idempotency_conflict"), answer.body
    desk.set_policy()
    assert desk.send(OTHER, key="same").status == 202  # it still waits
    assert desk.reached() == []


def test_a_canceled_message_is_not_approved(desk: Desk) -> None:
    desk.set_policy(approval="always")
    answer = desk.send(OTHER, sendAt=soon(60))
    found, path = approval(desk), f"/accounts/{desk.box.id}/scheduled/{answer.data['scheduleId']}"
    assert desk.house.running.ask("DELETE", path, token=desk.key).status == 200
    assert approve(desk, found).status == 409
    assert (approval(desk, "expired")["id"], operation(desk, found)) == (found["id"], ("failed", "canceled"))
    assert desk.reached() == []


def test_a_scheduled_message_waits_beyond_its_time(desk: Desk) -> None:
    desk.set_policy(approval="always")
    desk.send(OTHER, sendAt=soon(1))
    desk.set_policy()  # a rule that is lifted does not release what waits
    found = approval(desk)
    wait_until(lambda: datetime.now(UTC) > datetime.fromisoformat(found["createdAt"]) + timedelta(seconds=3), str, 20)
    assert (operation(desk, found)[0], desk.reached()) == ("queued", [])
    assert approve(desk, found).status == 200
    wait_until(lambda: desk.reached() == [OTHER], lambda: str(operation(desk, found)), 20)


def test_a_key_with_a_policy_lets_no_other_key_send(desk: Desk) -> None:
    house, ada = desk.house, desk.house.ada
    admin = {"name": "Admin", "permissionProfile": "full", "supplementalCapabilities": ["admin.api_keys"]}
    made = house.ask(ada, "POST", "/me/api-keys", admin).data
    sibling = house.ask(ada, "POST", "/me/api-keys", {"name": "Reads", "permissionProfile": "read-only"}).data["apiKey"]
    path = f"/me/api-keys/{made['apiKey']['id']}/sending-policy"
    assert house.ask(ada, "PUT", path, {"approval": "always"}).status == 200
    wanted = {"permissionProfile": "full"}
    new = {"name": "Two", "memberId": ada.id, **wanted}
    for method, path, body in (
        ("POST", "/admin/api-keys", new),
        ("PATCH", f"/admin/api-keys/{sibling['id']}", wanted),
    ):
        answer = house.running.ask(method, path, body, token=made["token"])
        assert (answer.status, answer.code) == (403, "permission_denied"), answer.body


@pytest.mark.parametrize("dot", ["\u3002", "\uff0e", "\uff61"])
def test_a_final_full_stop_of_another_script_is_no_way_around(desk: Desk, dot: str) -> None:
    entry = {"blockedRecipients": [f"evil.test{dot}"]}
    assert desk.owner("PUT", f"/accounts/{desk.box.id}/sending-policy", entry).status == 400
    desk.set_policy(blockedRecipients=["evil.test"])
    assert desk.send(f"eve@evil.test{dot}").status in (400, 403)
    assert desk.reached() == []


@pytest.mark.parametrize("address", ["eve%evil.test@example.org", "evil.test!eve@example.org"])
@pytest.mark.parametrize("policy", [{"allowedRecipients": ["example.org"]}, {"blockedRecipients": ["evil.test"]}])
def test_a_route_in_a_local_part_is_judged(desk: Desk, address: str, policy: dict[str, object]) -> None:
    desk.set_policy(**policy)
    answer = desk.send(address)
    assert (answer.status, answer.code) == (403, "policy_denied"), answer.body
    assert desk.reached() == []


def test_a_retry_of_an_approved_message_has_the_first_status(desk: Desk) -> None:
    desk.set_policy(approval="always")
    assert desk.send(OTHER, key="once").status == 202
    assert approve(desk, approval(desk)).status == 200
    wait_until(lambda: desk.reached() == [OTHER], lambda: "not sent", 20)
    assert desk.send(OTHER, key="once").status == 202


def test_an_approval_shows_when_its_message_is_sent(desk: Desk) -> None:
    desk.set_policy(approval="always")
    at = soon(3600)
    desk.send(OTHER, sendAt=at)
    assert datetime.fromisoformat(approval(desk)["sendAt"]) == datetime.fromisoformat(at)
