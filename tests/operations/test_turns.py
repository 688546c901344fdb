"""Who decides about a draft, or under a key: one at a time, one more in line, and no other request waits for it."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.operations.conftest import Mailbox
from tests.servers.desk import Desk, a_key
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer


@dataclass
class Held:
    """A mailbox behind a server that can be stalled, with a draft whose source is not here yet."""

    desk: Desk
    id: str
    proxy: FaultProxy
    draft: str
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16))

    def begin(self, method: str, path: str, body: object = None, **more: Any) -> "Future[Answer]":
        return self.pool.submit(self.desk.ask, method, f"/accounts/{self.id}{path}", body, **more)

    def send(self, key: str | None = None) -> "Future[Answer]":
        return self.begin("POST", "/send", {"draftId": self.draft}, Idempotency_Key=key or a_key())

    def waiting(self) -> int:
        """How many requests have one of the places of those that wait for servers."""
        return self.desk.appliance.worker_limits.waiting

    def wait_for_places(self, count: int) -> None:
        wait_until(lambda: self.waiting() == count, lambda: f"{self.waiting()} wait", 10)

    def items(self, folder: str) -> list[Any]:
        return list(self.desk.ask("GET", f"/accounts/{self.id}/messages?folder={folder}").data["items"])


@pytest.fixture
def held(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> Iterator[Held]:
    """Its server says nothing from now on."""
    user, proxy, before = mail_server.fresh_user(), FaultProxy(mail_server.imap_port).start(), mailbox.smtp.user
    mailbox.smtp.user = user
    source = f"From: {user}\r\nTo: bob@example.test\r\nSubject: held\r\n\r\nHi\r\n".encode()
    mail_server.deliver(user, source, folder="Drafts", flags="\\Draft")
    made = Held(desk, desk.connect(user, imap_port=proxy.port, smtp_port=mailbox.smtp.port), proxy, "")
    wait_until(lambda: bool(made.items("drafts")), lambda: "the draft is not here", 10)
    made.draft = made.items("drafts")[0]["id"]
    proxy.stall()
    yield made
    proxy.go_on()
    made.pool.shutdown()
    proxy.stop()
    mailbox.smtp.user = before


def test_sends_of_one_draft_leave_places_to_others(held: Held, mailbox: Mailbox) -> None:
    asked = [held.send()]
    held.wait_for_places(1)
    asked.append(held.send())
    held.wait_for_places(2)
    early = [held.send().result(5) for _ in range(3)]
    assert {(answer.status, answer.code) for answer in early} == {(409, "conflict")}
    assert "few seconds" in early[0].body["error"]["message"]
    preview = held.begin("POST", "/send/preview", {"draftId": held.draft}).result(5)
    changed = held.begin("PUT", f"/drafts/{held.draft}", {"body": {"text": "other"}}).result(5)
    removed = held.begin("DELETE", f"/drafts/{held.draft}").result(5)
    assert [answer.status for answer in (preview, changed, removed)] == [409, 409, 409]
    # A request for another mailbox finds a free slot.
    other = held.desk.ask("POST", f"/accounts/{mailbox.id}/drafts", {"body": {"text": "Hi"}})
    assert other.status == 201
    held.proxy.go_on()
    done = sorted(each.result(30).status for each in asked)
    assert done[0] == 200
    assert done[1] in (400, 409), "the other one learns that it is being sent, or was"


def test_under_one_key_the_one_in_line_gets_the_same_answer(held: Held) -> None:
    key = a_key()
    asked = [held.send(key)]
    held.wait_for_places(1)
    asked.append(held.send(key))
    held.wait_for_places(2)
    early = held.send(key).result(5)
    assert (early.status, early.code) == (409, "conflict"), "503 would say that nobody gets it"
    held.proxy.go_on()
    answers = [each.result(30) for each in asked]
    assert [(each.status, each.data["status"]) for each in answers] == [(200, "succeeded")] * 2
    assert len({each.data["operationId"] for each in answers}) == 1
    assert held.send(key).result(5).data["operationId"] == answers[0].data["operationId"]


def test_forwards_under_one_key_fetch_once(held: Held) -> None:
    key, path = a_key(), f"/messages/{held.draft}/forward"
    forward = {"to": [{"email": "bob@example.test"}]}
    asked = [held.begin("POST", path, forward, Idempotency_Key=key)]
    held.wait_for_places(1)
    asked.append(held.begin("POST", path, forward, Idempotency_Key=key))
    held.wait_for_places(2)
    early = held.begin("POST", path, forward, Idempotency_Key=key).result(5)
    assert (early.status, early.code) == (409, "conflict")
    held.proxy.go_on()
    assert len({each.result(30).data["operationId"] for each in asked}) == 1


def test_with_no_place_left_nobody_got_it(held: Held) -> None:
    places = [held.desk.appliance.io_slot() for _ in range(4)]
    assert all(place.__enter__() for place in places)
    key = a_key()
    try:
        assert held.send(key).result(5).status == 503
    finally:
        for place in places:
            place.__exit__(None, None, None)
    held.proxy.go_on()
    assert held.send(key).result(30).data["status"] == "succeeded"
