"""Reconnecting a mailbox: both logins are tried first, nothing is kept of what fails, and no mailboxes are mixed up."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.accounts import Connection, Endpoint
from tests.checked_client import Answer, CheckedClient
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall

CLOSED_PORT = 1


@dataclass
class Box:
    """A mailbox at the real IMAP server, sending through one that does what the test says."""

    desk: Desk
    clock: FakeClock
    client: CheckedClient
    server: MailServer
    smtp: ScriptedSmtp
    user: str
    id: str = ""

    def reconnect(self, body: Any = None, **more: Any) -> Answer:
        return self.client.ask("POST", f"/accounts/{self.id}/reconnect", body or {}, **more)

    @property
    def connection(self) -> Connection:
        return self.desk.appliance.store.accounts.get_connection(self.id)

    @property
    def status(self) -> str:
        return str(self.desk.account(self.id)["status"])

    def lose_password(self) -> None:
        """As when somebody has changed it at the server: the login is refused from now on."""
        store, sync = self.desk.appliance.store, self.desk.appliance.sync
        sync.remove(self.id)
        imap, smtp = self.connection.imap, self.connection.smtp
        wrong = (Endpoint(e.host, e.port, e.security, e.username, "old") for e in (imap, smtp))
        with store.database.transaction(durable=True):
            store.accounts.set_connection(self.id, Connection(self.user, *wrong))
        sync.add(self.id)
        wait_until(lambda: self.status == "reauth_required", lambda: self.status, 10)

    def inbox(self) -> dict[str, str]:
        """Subject -> id of what lies there."""
        answer = self.client.ask("GET", f"/accounts/{self.id}/messages?folder=INBOX&limit=100")
        return {item["subject"]: item["id"] for item in answer.data["items"]}

    def wait_for_inbox(self, *subjects: str) -> dict[str, str]:
        """The inbox once it holds these, and the mailbox is followed."""
        wait_until(
            lambda: self.inbox().keys() == set(subjects) and self.status == "ready", lambda: str(self.inbox()), 15
        )
        return self.inbox()


@pytest.fixture(scope="module")
def _box(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Box]:
    clock = FakeClock()
    desk = Desk(tmp_path_factory.mktemp("reconnect") / "data", clock, sending__answer_within=20)
    client = CheckedClient(desk.appliance)
    client.token = desk.token
    smtp = ScriptedSmtp().start()
    yield Box(desk, clock, client, mail_server, smtp, "")
    desk.close()
    smtp.stop()


@pytest.fixture
def box(_box: Box) -> Iterator[Box]:
    _box.user = _box.smtp.user = _box.server.fresh_user()
    _box.id = _box.desk.connect(_box.user, imap_port=_box.server.imap_port, smtp_port=_box.smtp.port)
    _box.smtp.forget()
    yield _box
    _box.smtp.forget()
    _box.client.ask("DELETE", f"/accounts/{_box.id}")


def letter(subject: str, number: int) -> bytes:
    lines = ("From: a@example.test", "Date: Fri, 02 Jan 2026 03:04:05 +0000", f"Subject: {subject}")
    return "\r\n".join((*lines, f"Message-ID: <{number}@reconnect>", "", f"The text of {subject}", "")).encode()


def test_a_new_password_ends_the_need_for_it(box: Box) -> None:
    box.lose_password()
    again = box.reconnect()
    assert (again.refusal, again.places) == ((400, "invalid_request"), ["/imap/username", "/smtp/username"])
    half = box.reconnect({"imap": {"password": "secret"}})
    assert (half.refusal, half.places) == ((400, "invalid_request"), ["/smtp/username"])
    assert (box.status, box.connection.imap.password) == ("reauth_required", "old"), "nothing of it was saved"
    answer = box.reconnect({"imap": {"password": "secret"}, "smtp": {"password": "secret"}})
    assert (answer.status, answer.data["status"], answer.data["error"]) == (200, "connecting", None)
    wait_until(lambda: box.status == "ready", lambda: box.status, 10)
    assert "secret" not in str(answer.body)


def test_the_present_logins_are_tried_again(box: Box) -> None:
    before = box.connection
    assert box.reconnect({}).data["status"] == "connecting"
    assert box.connection == before
    wait_until(lambda: box.status == "ready", lambda: box.status, 10)


# What changes, the status, and the places that are told.
FAILING: tuple[tuple[dict[str, Any], int, list[str]], ...] = (
    ({"imap": {"password": "wrong"}}, 400, ["/imap/username"]),
    ({"imap": {"username": "nobody"}, "smtp": {"username": "nobody"}}, 400, ["/imap/username", "/smtp/username"]),
    ({"imap": {"port": CLOSED_PORT}}, 503, ["imap"]),
    ({"smtp": {"port": CLOSED_PORT}}, 503, ["smtp"]),
    ({"imap": {"host": "8.8.8.8", "password": "secret"}}, 400, ["/imap/host"]),
    # A stored password is shown to nobody else.
    ({"imap": {"host": "127.0.0.2"}}, 400, ["/imap/password"]),
    ({"smtp": {"host": "127.0.0.2", "username": "x"}}, 400, ["/smtp/password"]),
    ({"imap": {"security": "starttls"}}, 400, ["/imap/security"]),
    ({"imap": {"host": "a\nb"}}, 400, ["/imap/host"]),
    ({"smtp": {"password": "a\r\nb"}}, 400, ["/smtp/password"]),
    ({"imap": {"host": ""}}, 400, ["/imap/host"]),
    ({"imap": {"port": 0}}, 400, ["/imap/port"]),
    ({"imap": {"host": None}}, 400, ["/imap/host"]),
    ({"imap": None}, 400, ["/imap"]),
    ({"email": "other@example.test"}, 400, ["/email"]),
)


def test_nothing_is_saved_of_what_fails(box: Box) -> None:
    before = box.connection
    for body, status, places in FAILING:
        answer = box.reconnect(body)
        assert (answer.status, answer.places) == (status, places), body
    assert (box.connection, box.status) == (before, "ready")


@pytest.mark.parametrize("name", ["imap", "smtp"])
def test_a_stored_password_goes_nowhere_unprotected(box: Box, name: str) -> None:
    plain, store = box.connection, box.desk.appliance.store
    protected = replace(plain, **{name: replace(getattr(plain, name), security="starttls")})
    with store.database.transaction(durable=True):
        store.accounts.set_connection(box.id, protected)
    refused = box.reconnect({name: {"security": "none"}})
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), [f"/{name}/password"])
    assert box.connection == protected
    assert box.reconnect({name: {"security": "none", "password": "secret"}}).status == 200
    assert box.connection == plain


def test_another_mailbox_behind_it_is_not_mixed_up(box: Box) -> None:
    server, other = box.server, box.server.fresh_user()
    server.deliver(box.user, letter("mine 1", 1), letter("both", 2), letter("mine 3", 3))
    box.desk.appliance.sync.wake(box.id, "INBOX")
    mine = box.wait_for_inbox("mine 1", "both", "mine 3")
    draft = box.client.ask("POST", f"/accounts/{box.id}/drafts", a_message(subject="a draft")).data["id"]
    # The worst case: the same numbers mean other messages there.
    server.deliver(other, letter("theirs 1", 11), letter("theirs 2", 12), letter("theirs 3", 13))
    validity = re.search(
        r"uidvalidity=(\d+)", server.doveadm("mailbox", "status", "-u", box.user, "uidvalidity", "INBOX")
    )
    assert validity is not None
    server.doveadm("mailbox", "update", "-u", other, "--uid-validity", validity[1], "INBOX")
    server.doveadm("copy", "-u", other, "INBOX", "user", box.user, "mailbox", "INBOX", "header", "subject", "both")
    box.smtp.user = other
    login = {"username": other}
    assert box.reconnect({"imap": login, "smtp": login}).status == 200
    theirs = box.wait_for_inbox("theirs 1", "theirs 2", "theirs 3", "both")
    assert theirs["both"] == mine["both"]
    assert not {mine["mine 1"], mine["mine 3"]} & set(theirs.values())
    for subject, message in theirs.items():
        path = f"/accounts/{box.id}/messages/{message}"
        assert box.client.ask("GET", f"{path}/body").data["content"].strip() == f"The text of {subject}"
        assert f"Subject: {subject}".encode() in box.client.ask("GET", f"{path}/raw").content
    assert box.client.ask("GET", f"/accounts/{box.id}/messages/{draft}").refusal == (404, "not_found")
    act = {"action": "star", "messageIds": [theirs["theirs 1"], theirs["both"]]}
    acted = box.client.ask("POST", f"/accounts/{box.id}/messages/actions", act).data
    assert len(acted["succeededIds"]) == 2
    # Nothing was lost at the first one, and it comes back as it was.
    assert (len(server.messages(box.user)), len(server.messages(box.user, "Drafts"))) == (3, 1)
    box.smtp.user = box.user
    login = {"username": box.user}
    box.reconnect({"imap": login, "smtp": login})
    assert box.wait_for_inbox("mine 1", "both", "mine 3")["both"] == mine["both"]


def test_the_same_mailbox_elsewhere_keeps_every_id(box: Box) -> None:
    box.server.deliver(box.user, letter("one", 1), letter("two", 2))
    box.desk.appliance.sync.wake(box.id, "INBOX")
    before = box.wait_for_inbox("one", "two")
    proxy = box.server.proxy()
    assert box.reconnect({"imap": {"port": proxy.port}}).status == 200
    assert box.wait_for_inbox("one", "two") == before
    assert box.connection.imap.port == proxy.port


def test_what_waits_for_a_login_goes_soon(box: Box) -> None:
    delivery = box.desk.send(box.id, a_message(sendAt=to_timestamp(box.clock.now() + timedelta(hours=1)))).data
    box.smtp.at("auth", "535 5.7.8 wrong")
    box.clock.advance(3600)
    box.desk.appliance.scheduler.wake()
    box.smtp.reached("auth")
    wait_until(lambda: box.status == "reauth_required", lambda: box.status, 10)
    box.desk.wait_for(box.id, delivery["operationId"], "queued")
    box.smtp.forget()
    assert box.reconnect({"smtp": {"password": "secret"}}).status == 200
    box.desk.wait_for(box.id, delivery["operationId"], "succeeded")
    wait_until(lambda: box.status == "ready", lambda: box.status, 10)


def test_kept_connections_are_dropped(box: Box) -> None:
    assert box.desk.send(box.id, a_message()).data["status"] == "succeeded"
    wait_until(lambda: box.smtp.connected == 1, lambda: f"{box.smtp.connected} connections", 10)
    other = ScriptedSmtp(user=box.user).start()
    try:
        assert box.reconnect({"smtp": {"port": other.port}}).status == 200
        wait_until(lambda: box.smtp.connected == 0, lambda: "the old one is still kept", 10)
        for _ in range(2):
            assert box.desk.send(box.id, a_message()).data["status"] == "succeeded"
        assert (len(other.messages), len(box.smtp.messages)) == (2, 1)
        wait_until(lambda: other.connected == 1, lambda: f"{other.connected} connections", 10)
    finally:
        other.stop()


def test_of_two_at_once_one_is_told(box: Box) -> None:
    box.smtp.at("auth", [Stall()])
    slow: list[Answer] = []
    thread = threading.Thread(
        target=lambda: slow.append(box.reconnect({"imap": {"host": "localhost", "password": "secret"}}))
    )
    thread.start()
    box.smtp.reached("auth")
    assert box.reconnect({"smtp": {"host": "localhost", "password": "secret"}}).status == 200
    box.smtp.release()
    thread.join(10)
    assert slow[0].refusal == (409, "conflict")
    assert (box.connection.imap.host, box.connection.smtp.host) == ("127.0.0.1", "localhost")
    wait_until(lambda: box.status == "ready", lambda: box.status, 10)


def test_one_that_was_removed_meanwhile_stays_so(box: Box) -> None:
    box.smtp.at("auth", [Stall()])
    slow: list[Answer] = []
    thread = threading.Thread(target=lambda: slow.append(box.reconnect({})))
    thread.start()
    box.smtp.reached("auth")
    assert box.client.ask("DELETE", f"/accounts/{box.id}").status == 200
    box.smtp.release()
    thread.join(10)
    assert slow[0].refusal == (404, "not_found")


def test_naming_and_reconnecting_are_audited(box: Box) -> None:
    path = f"/accounts/{box.id}"
    assert box.client.ask("PATCH", path, {"displayName": "Büro"}).data["displayName"] == "Büro"
    assert box.client.ask("PATCH", path, {}).data["displayName"] == "Büro"
    assert box.client.ask("PATCH", path, {"displayName": None}).data["displayName"] is None
    for wrong in ("", "x" * 201, "a\nb", 1):
        assert box.client.ask("PATCH", path, {"displayName": wrong}).places == ["/displayName"]
    assert box.client.ask("PATCH", path, {"email": "x@example.test"}).places == ["/email"]
    box.reconnect()
    events, _ = box.desk.appliance.store.audit.list(None, 4)
    assert [event.action for event in events] == [
        "account.reconnect",
        "account.update",
        "account.update",
        "account.create",
    ]
    assert {event.target and event.target.id for event in events} == {box.id}
