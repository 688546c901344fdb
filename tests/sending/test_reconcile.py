"""Confirmation of uncertain messages: one is found only in places where only others can have put it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.events import FolderWritten
from mailbox_appliance.sending import sent_copies
from mailbox_appliance.sending.reconcile import next_search
from tests.sending.test_copies import pending
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.fault_proxy import FaultProxy
from tests.servers.gmail import Gmail
from tests.servers.labeled_desk import ADDRESS, LabeledDesk
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("now", "looks", "expected"),
    [
        (0, 0, 5),
        (5, 0, 30),
        (5.2, 0, 30),
        (29.9, 1, 30),
        (31, 1, 120),
        (120, 2, 720),
        (720, 3, 1320),
        (3600, 1, 4200),  # offline for an hour: no further search at 30 s and 2 minutes
        (DAY - 700, 140, DAY - 100),
        (DAY - 300, 141, DAY),
        (DAY, 142, None),
        (3 * DAY, 2, None),
        (-7200, 0, -7195),  # the clock was set back
        (-7200, 2, -7080),
        (-7200, 9, -6600),
    ],
)
def test_when_to_look_again(now: float, looks: int, expected: float | None) -> None:
    found = next_search(SINCE, SINCE + timedelta(seconds=now), looks, is_made=True)
    assert (None if found is None else (found - SINCE).total_seconds()) == expected


@pytest.mark.parametrize(
    ("now", "looks", "expected"),
    [
        (5, 0, 30),
        (DAY, 142, DAY + 600),
        (9 * DAY, 2, 9 * DAY + 600),
        (2 * DAY, 298, 2 * DAY + 600),
        (9 * DAY, 299, None),
    ],
)
def test_a_look_that_could_not_be_made_ends_nothing_but_not_for_ever(
    now: float, looks: int, expected: float | None
) -> None:
    found = next_search(SINCE, SINCE + timedelta(seconds=now), looks, is_made=False)
    assert (None if found is None else (found - SINCE).total_seconds()) == expected


@pytest.mark.parametrize("is_made", [True, False])
def test_a_clock_that_was_ten_years_ahead_keeps_nobody_looking_for_ten_years(is_made: bool) -> None:
    now: datetime | None = SINCE - timedelta(days=3650)
    for looks in range(1000):
        assert now is not None
        before, now = now, next_search(SINCE, now, looks, is_made=is_made)
        if now is None:
            break
    assert (now, looks) == (None, 299)
    assert before - (SINCE - timedelta(days=3650)) < timedelta(days=3)


class Doubt:
    """A mailbox whose SMTP server accepts messages and disconnects without a reply."""

    def __init__(self, folder: Path, clock: FakeClock, server: MailServer, smtp: ScriptedSmtp) -> None:
        self.folder, self.clock, self.server, self.smtp = folder, clock, server, smtp
        self.user = smtp.user = server.fresh_user()
        self.proxy = FaultProxy(server.imap_port).start()
        self.desk = Desk(folder, clock, remote__timeout=5)
        self.account = self.desk.connect(self.user, imap_port=self.proxy.port, smtp_port=smtp.port)
        smtp.at("reply", Keep(DROP))

    def close(self) -> None:
        self.desk.close()
        self.proxy.stop()

    def send(self, to: str = "bob@example.test", **more: Any) -> str:
        """Send a message; return the operation, which is uncertain."""
        answer = self.desk.send(self.account, a_message(to, **more))
        assert answer.data["status"] == "uncertain", answer
        return str(answer.data["operationId"])

    @property
    def sent(self) -> bytes:
        """Return the message that the server received."""
        return self.smtp.messages[-1].source

    def wait(self, seconds: float) -> None:
        """Let time pass, and wake the timer."""
        self.clock.advance(seconds)
        self.desk.appliance.scheduler.wake()

    def looks(self, operation_id: str) -> int:
        sql = "SELECT evidence_looks FROM delivery_operations WHERE id = ?"
        return int(self.desk.appliance.store.database.value(sql, (operation_id,)))

    def look(self, operation_id: str, seconds: float) -> str:
        """Let time pass until a search that finds nothing is over; return the status."""
        before = self.looks(operation_id)
        self.wait(seconds)
        wait_until(lambda: self.looks(operation_id) > before, lambda: "nobody looked", 10)
        return str(self.desk.delivery(self.account, operation_id).data["status"])

    def found(self, operation_id: str, seconds: float) -> Any:
        """Let time pass until the message is found; return the result."""
        self.wait(seconds)
        return self.desk.wait_for(self.account, operation_id, "succeeded")["result"]

    def next_in(self) -> float | None:
        """Return the seconds until something is due."""
        found = self.desk.appliance.store.schedule.find_next_due(self.clock.now())
        return None if found is None else (found - self.clock.now()).total_seconds()

    def listed(self, folder: str) -> list[str]:
        """Return the IDs of the mirrored messages in a folder."""
        items = self.desk.ask("GET", f"/accounts/{self.account}/messages?folder={folder}").data["items"]
        return [item["id"] for item in items]


@pytest.fixture
def doubt(tmp_path: Path, clock: FakeClock, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> Iterator[Doubt]:
    made = Doubt(tmp_path / "data", clock, mail_server, scripted_smtp)
    yield made
    made.close()


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_what_the_provider_put_into_sent_was_taken(doubt: Doubt, is_mirrored: bool) -> None:
    operation = doubt.send()
    assert doubt.look(operation, 5) == "uncertain"
    assert doubt.server.messages(doubt.user, "Sent") == []
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent", flags="\\Seen")
    if is_mirrored:
        doubt.desk.appliance.events.publish(FolderWritten(doubt.account, "Sent"))
        wait_until(lambda: len(doubt.listed("sent")) == 1, lambda: "Sent is not mirrored", 10)
    result = doubt.found(operation, 25)
    assert result.keys() == {"id", "threadId"}
    message = doubt.desk.message(doubt.account, result["id"])
    assert (message.status, message.data["folder"]["role"]) == (200, "sent")
    assert message.data["threadId"] == result["threadId"]
    check_that_it_is_over(doubt, operation)
    wait_until(lambda: doubt.listed("sent") == [result["id"]], lambda: str(doubt.listed("sent")), 10)
    flagged = doubt.desk.ask(
        "POST", f"/accounts/{doubt.account}/messages/actions", {"messageIds": [result["id"]], "action": "star"}
    )
    assert flagged.data["succeededIds"] == [result["id"]]


def check_that_it_is_over(doubt: Doubt, operation: str) -> None:
    """Check one delivery, one copy, and one row by the system in the audit log."""
    store = doubt.desk.appliance.store
    sql = "SELECT actor_kind, target_kind, target_id FROM audit_events WHERE action = 'delivery.confirm'"
    assert store.database.rows(sql) == [("system", "delivery", operation)]
    assert store.audit.verify().broken is None
    wait_until(lambda: pending(store) == [], lambda: str(pending(store)), 10)
    assert len(doubt.server.messages(doubt.user, "Sent")) == 1
    assert len(doubt.smtp.messages) == 1
    assert doubt.next_in() is None


def test_what_we_received_ourselves_was_taken_and_our_copy_is_filed(doubt: Doubt) -> None:
    operation = doubt.send(doubt.user.upper())
    doubt.server.deliver(doubt.user, doubt.sent)
    result = doubt.found(operation, 5)
    [copy] = doubt.server.wait_for_messages(doubt.user, 1, "Sent")
    assert copy == doubt.sent
    check_that_it_is_over(doubt, operation)
    assert doubt.desk.message(doubt.account, result["id"]).data["folder"]["role"] == "sent"


def test_what_lies_in_the_inbox_of_one_who_is_no_recipient_is_no_evidence(doubt: Doubt) -> None:
    operation = doubt.send()
    doubt.server.deliver(doubt.user, doubt.sent)
    assert doubt.look(operation, 5) == "uncertain"


def test_another_message_whose_id_holds_ours_is_no_evidence(doubt: Doubt) -> None:
    operation = doubt.send(doubt.user)
    (own,) = re.findall(rb"^Message-ID: (<[^>]+>)\r$", doubt.sent, re.M)
    for name in (b"<other@example.test> (was %s)" % own, b"<x.%s" % own[1:], b"%s.test>" % own[:-1]):
        for folder in ("Sent", "INBOX"):
            doubt.server.deliver(doubt.user, doubt.sent.replace(own, name), folder=folder)
    assert doubt.look(operation, 5) == "uncertain"
    assert len(doubt.server.messages(doubt.user, "Sent")) == 3


def test_where_there_is_no_place_to_look_it_stays_uncertain_for_good(doubt: Doubt) -> None:
    operation = doubt.send()
    database = doubt.desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE folders SET role = NULL WHERE role = 'sent'")
    doubt.proxy.commands.clear()
    assert doubt.look(operation, 5) == "uncertain"
    assert doubt.look(operation, DAY - 5) == "uncertain"
    assert doubt.proxy.count("UID SEARCH") == 0
    assert doubt.next_in() is None


def test_a_mailbox_that_cannot_be_reached_waits_for_its_next_look(doubt: Doubt) -> None:
    first, second = doubt.send(), doubt.send()
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent")
    doubt.proxy.is_shut = True
    doubt.proxy.cut_all()
    before = doubt.proxy.accepted
    assert doubt.look(first, 5) == "uncertain"
    wait_until(lambda: doubt.looks(second) == 1, lambda: "not planned", 10)
    assert (doubt.proxy.accepted - before, doubt.next_in()) == (1, 25)
    doubt.proxy.heal()
    assert doubt.found(second, 25)
    wait_until(lambda: doubt.looks(first) == 2, lambda: "nobody looked", 10)
    assert doubt.desk.delivery(doubt.account, first).data["status"] == "uncertain"
    assert doubt.next_in() == 90


def test_what_could_not_be_looked_for_in_time_is_looked_for_once_the_mailbox_can_be_reached(doubt: Doubt) -> None:
    first, second = doubt.send(), doubt.send()
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent")
    doubt.proxy.is_shut = True
    doubt.proxy.cut_all()
    assert doubt.look(first, 3 * DAY) == "uncertain"
    wait_until(lambda: doubt.looks(second) == 1, lambda: "not planned", 10)
    assert doubt.next_in() == 600
    doubt.proxy.heal()
    assert doubt.found(second, 600)
    wait_until(lambda: doubt.looks(first) == 2, lambda: "nobody looked", 10)
    wait_until(lambda: doubt.next_in() is None, lambda: str(doubt.next_in()), 10)


def test_after_a_restart_it_goes_on_by_the_time_that_has_passed(doubt: Doubt) -> None:
    operation = doubt.send()
    doubt.desk.close()
    doubt.clock.advance(3600)
    doubt.desk = Desk(doubt.folder, doubt.clock, is_new=False, remote__timeout=5)
    wait_until(lambda: doubt.looks(operation) == 1, lambda: "nobody looked", 10)
    assert doubt.next_in() == 600
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent")
    assert doubt.found(operation, 600)


def test_after_a_day_nobody_looks_any_more_and_a_person_may_still_decide(doubt: Doubt) -> None:
    operation = doubt.send()
    assert doubt.look(operation, DAY - 60) == "uncertain"
    assert doubt.next_in() == 60
    assert doubt.look(operation, 60) == "uncertain"
    assert doubt.next_in() is None
    path = f"/accounts/{doubt.account}/delivery-operations/{operation}/resolve"
    assert doubt.desk.ask("POST", path, {"outcome": "succeeded"}).data["status"] == "succeeded"
    assert doubt.server.wait_for_messages(doubt.user, 1, "Sent") == [doubt.sent]


def test_a_clock_that_is_set_back_keeps_nobody_from_looking(doubt: Doubt) -> None:
    operation = doubt.send()
    doubt.clock.set_wall(doubt.clock.now() - timedelta(days=30))
    assert doubt.look(operation, 0) == "uncertain"
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent")
    assert doubt.found(operation, 600)


def test_in_a_removed_mailbox_nobody_looks(doubt: Doubt) -> None:
    operation = doubt.send()
    assert doubt.desk.ask("DELETE", f"/accounts/{doubt.account}").status == 200
    assert doubt.next_in() is None
    store = doubt.desk.appliance.store
    assert store.deliveries.get_work(operation).status == "uncertain"


def test_a_full_disk_is_waited_for(doubt: Doubt) -> None:
    operation = doubt.send()
    doubt.server.deliver(doubt.user, doubt.sent, folder="Sent")
    database = doubt.desk.appliance.store.database
    with database.transaction():
        database.change("CREATE TRIGGER full BEFORE INSERT ON audit_events BEGIN SELECT RAISE(ABORT, 'full'); END")
    doubt.proxy.commands.clear()
    doubt.wait(5)
    doubt.proxy.wait_for(lambda proxy: proxy.count("UID SEARCH") > 0)
    assert doubt.desk.delivery(doubt.account, operation).data["status"] == "uncertain"
    with database.transaction():
        database.change("DROP TRIGGER full")
    doubt.desk.close()
    doubt.desk = Desk(doubt.folder, doubt.clock, is_new=False)
    assert doubt.found(operation, 0)


# --- at Gmail it is found in All Mail by its label, which a draft of it does not have ---


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabeledDesk]:
    monkeypatch.setattr(sent_copies, "_GLANCE", 0.01)
    with Gmail() as gmail:
        made = LabeledDesk(tmp_path / "data", gmail, clock)
        yield made
        made.close()


def _look(desk: LabeledDesk, clock: FakeClock, operation: str) -> str:
    """Let time pass until a search was made; return the status."""
    store = desk.desk.appliance.store

    def looks() -> tuple[int, str]:
        sql = "SELECT evidence_looks, status FROM delivery_operations WHERE id = ?"
        return tuple(store.database.rows(sql, (operation,))[0])

    before = looks()
    clock.advance(30)
    desk.desk.appliance.scheduler.wake()
    wait_until(lambda: looks() != before, lambda: "nobody looked", 10)
    return looks()[1]


@pytest.mark.parametrize("recipient", ["bob@example.test", ADDRESS])
def test_what_lies_among_all_mail_as_sent_was_taken(desk: LabeledDesk, clock: FakeClock, recipient: str) -> None:
    desk.gmail.smtp.at("reply", Keep(DROP))
    answer = desk.desk.send(desk.account, a_message(recipient))
    assert answer.data["status"] == "uncertain", answer
    assert _look(desk, clock, answer.data["operationId"]) == "succeeded"
    result = desk.desk.delivery(desk.account, answer.data["operationId"]).data["result"]
    desk.wait_until_same()
    assert [each["id"] for each in desk.ask("GET", "/messages?folder=sent").data["items"]] == [result["id"]]
    assert desk.ask("GET", f"/messages/{result['id']}").data["threadId"] == result["threadId"]


def test_a_draft_with_its_message_id_is_no_evidence(desk: LabeledDesk, clock: FakeClock) -> None:
    desk.gmail.smtp.at("reply", DROP)
    answer = desk.desk.send(desk.account, a_message())
    assert answer.data["status"] == "uncertain", answer
    work = desk.desk.appliance.store.deliveries.get_work(answer.data["operationId"])
    desk.box.deliver(work.wire.read(), "\\Draft")
    assert _look(desk, clock, answer.data["operationId"]) == "uncertain"


def test_what_a_person_knows_of_it_holds_while_all_mail_is_hidden(desk: LabeledDesk) -> None:
    desk.gmail.smtp.at("reply", DROP)
    operation = desk.desk.send(desk.account, a_message()).data["operationId"]
    database = desk.desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE folders SET role = NULL WHERE role = 'all'")
    answer = desk.ask("POST", f"/delivery-operations/{operation}/resolve", {"outcome": "succeeded"})
    assert (answer.status, answer.data["status"]) == (200, "succeeded"), answer
