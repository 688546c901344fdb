"""Webhooks: what is sent, in which order, how often, signed by which secret, and when they end."""

import time
from pathlib import Path
from typing import Any

from tests.console.house import Box, House
from tests.feed.conftest import letter
from tests.feed.receiver import Receiver
from tests.feed.targets import Target, hangs_after
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

TYPES = ["message.created"]


def create(house: House, box: Box, receiver: Receiver, **more: Any) -> tuple[dict[str, Any], str]:
    """A webhook of the mailbox's owner, as the API shows it, and its secret."""
    answer = house.ask(box.owner, "POST", "/webhooks", {"url": receiver.url, "types": TYPES, **more})
    assert answer.status == 201, answer.body
    return answer.data["webhook"], answer.data["secret"]


def test_new_mail_is_posted_signed_and_in_order(house: House, box: Box) -> None:
    with Receiver() as receiver:
        webhook, secret = create(house, box, receiver)
        assert webhook["status"] == "active"
        house.server.deliver(box.email, letter("one"), letter("two"), letter("three"))
        bodies = [receiver.next(secret)[1] for _ in range(3)]
        assert [body["data"]["data"]["subject"] for body in bodies] == ["one", "two", "three"]
        assert {body["type"] for body in bodies} == {"message.created"}
        assert "body" not in bodies[0]["data"]["data"]
        house.ask(box.owner, "DELETE", f"/webhooks/{webhook['id']}")


def test_what_fails_is_sent_again_with_the_same_id_before_what_follows(house: House, box: Box) -> None:
    with Receiver(answers=[(500, b"", {})]) as receiver:
        webhook, secret = create(house, box, receiver)
        house.server.deliver(box.email, letter("one"), letter("two"))
        (first, _), (again, body), (second, _) = (receiver.next(secret) for _ in range(3))
        assert first == again != second
        assert body["data"]["data"]["subject"] == "one"
        attempts = house.ask(box.owner, "GET", f"/webhooks/{webhook['id']}/attempts").data["items"]
        assert [(one["status"], one["error"] is None) for one in attempts][-2:] == [(200, True), (500, False)]
        shown = house.ask(box.owner, "GET", f"/webhooks/{webhook['id']}").data
        assert shown["lastFailure"]["status"] == 500


def test_after_a_rotation_both_secrets_verify(house: House, box: Box) -> None:
    with Receiver() as receiver:
        webhook, old = create(house, box, receiver)
        answer = house.ask(box.owner, "POST", f"/webhooks/{webhook['id']}/rotate-secret", {})
        assert answer.status == 200, answer.body
        for secret in (old, answer.data["secret"]):
            attempt = house.ask(box.owner, "POST", f"/webhooks/{webhook['id']}/test", {})
            assert (attempt.status, attempt.data["status"], attempt.data["error"]) == (200, 200, None)
            assert receiver.next(secret)[1]["type"] == "webhook.test"


def test_a_target_that_is_gone_disables_it(house: House, box: Box) -> None:
    with Receiver(answers=[(410, b"", {})]) as receiver:
        webhook, secret = create(house, box, receiver)
        house.server.deliver(box.email, letter("one"))
        receiver.next(secret)
        path = f"/webhooks/{webhook['id']}"

        wait_until(lambda: house.ask(box.owner, "GET", path).data["status"] == "disabled", lambda: "active", 10)


def test_events_are_replayed_from_a_position(house: House, box: Box) -> None:
    with Receiver() as receiver:
        webhook, secret = create(house, box, receiver)
        house.server.deliver(box.email, letter("one"), letter("two"))
        (first, body), (second, _) = (receiver.next(secret) for _ in range(2))
        path = f"/webhooks/{webhook['id']}/replay"
        answer = house.ask(box.owner, "POST", path, {"after": body["data"]["position"]})
        assert answer.status == 202, answer.body
        assert receiver.next(secret)[0] == second != first


def test_others_neither_see_nor_change_it(house: House, box: Box) -> None:
    with Receiver() as receiver:
        webhook, _ = create(house, box, receiver)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate-secret"), ("GET", "/attempts")):
            answer = house.ask(house.bob, method, f"/webhooks/{webhook['id']}{path}", {} if method == "POST" else None)
            assert answer.status == 404


def test_a_member_who_loses_the_mailbox_gets_nothing_more(house: House, box: Box) -> None:
    path, guest = f"/accounts/{box.id}/access", house.add_member("guest")
    house.ask(box.owner, "PUT", path, {"sharedWithAll": False, "memberIds": [guest.id]})
    with Receiver() as receiver:
        body = {"url": receiver.url, "types": TYPES}
        secret = house.ask(guest, "POST", "/webhooks", body).data["secret"]
        house.server.deliver(box.email, letter("one"))
        assert receiver.next(secret)[1]["data"]["data"]["subject"] == "one"
        house.ask(box.owner, "PUT", path, {"sharedWithAll": False, "memberIds": []})
        house.server.deliver(box.email, letter("two"))
        house.connect(guest, letter("own"))
        assert receiver.next(secret)[1]["data"]["data"]["subject"] == "own"


def test_text_needs_https_at_creation_and_at_each_change(house: House, box: Box) -> None:
    with Receiver() as receiver:
        body = {"url": receiver.url, "types": TYPES, "includeBody": True}
        refused = house.ask(box.owner, "POST", "/webhooks", body)
        assert (refused.status, refused.code) == (400, "invalid_request")
        webhook, _ = create(house, box, receiver)
        path = f"/webhooks/{webhook['id']}"
        assert house.ask(box.owner, "PATCH", path, {"includeBody": True}).status == 400
        secure = {"url": "https://hooks.example.org/", "includeBody": True}
        assert house.ask(box.owner, "PATCH", path, secure).data["includeBody"] is True
        assert house.ask(box.owner, "PATCH", path, {"url": receiver.url}).status == 400
        assert house.ask(box.owner, "PATCH", path, {"url": receiver.url, "includeBody": False}).status == 200


def test_what_is_removed_or_suspended_sends_nothing(house: House) -> None:
    """A mailbox that is removed, and a member who is suspended, while a webhook is active."""
    owner = house.add_member("carl")
    removed, kept = (house.connect(owner, letter("first")) for _ in range(2))
    with Receiver() as receiver:
        _, secret = create(house, kept, receiver, accountIds=[removed.id, kept.id])
        house.ask(owner, "DELETE", f"/accounts/{removed.id}")
        house.server.deliver(removed.email, letter("lost"))
        house.server.deliver(kept.email, letter("one"))
        assert receiver.next(secret)[1]["data"]["data"]["subject"] == "one"
        assert house.ask(house.ada, "PATCH", f"/admin/members/{owner.id}", {"status": "suspended"}).status == 200
        house.server.deliver(kept.email, letter("two"))
        other = house.connect(house.add_member("dora"), letter("first"))
        with Receiver() as second:
            _, its_secret = create(house, other, second)
            house.server.deliver(other.email, letter("three"))
            second.next(its_secret)
        assert receiver.got.empty()
        assert house.ask(house.ada, "PATCH", f"/admin/members/{owner.id}", {"status": "active"}).status == 200
        assert receiver.next(secret)[1]["data"]["data"]["subject"] == "two"


def test_the_appliance_ends_and_starts_while_a_target_hangs(tmp_path: Path, mail_server: MailServer) -> None:
    environment = {"MAILBOX_APPLIANCE_WEBHOOKS_ALLOW_PRIVATE": "yes"}
    own = House(tmp_path / "data", mail_server, environment=environment)
    box = own.connect(own.bob, letter("first"))
    with Target("hangs", hangs_after()) as target:
        body = {"url": target.url, "types": TYPES}
        assert own.ask(own.bob, "POST", "/webhooks", body).status == 201
        mail_server.deliver(box.email, letter("one"))
        wait_until(lambda: target.connected == 1, lambda: "nothing is sent", 20)
        began = time.monotonic()
        assert own.running.stop() == 0
        assert time.monotonic() - began < 8
        target.calm()
        own.running.start()
        wait_until(lambda: len(target.got) == 2, lambda: "it is not sent again", 20)
        first, again = (got.headers["webhook-id"] for got in target.got)
        assert first == again
    own.stop()
