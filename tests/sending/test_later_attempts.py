"""Scheduled messages: temporary faults are retried for a day, and a message that may have been sent never is."""

import email
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.clock import to_millis, to_timestamp
from tests.sending.test_worker import Fault, phase
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Action, Keep, Stall, Step


@dataclass
class Later:
    """A mailbox in an appliance whose clock the test moves."""

    desk: Desk
    clock: FakeClock
    account: str
    smtp: ScriptedSmtp

    def schedule(self, **fields: Any) -> str:
        """Schedule a message for the next hour; return its operation."""
        at = to_timestamp(self.clock.now() + timedelta(hours=1))
        answer = self.desk.send(self.account, a_message(sendAt=at, **fields), a_key())
        assert answer.status == 202, answer
        return str(answer.data["operationId"])

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and start what is due."""
        self.clock.advance(seconds)
        self.desk.appliance.scheduler.wake()

    def end(self, operation: str, status: str) -> Any:
        """Return the operation once it has this status."""
        return self.desk.wait_for(self.account, operation, status)

    def status(self, operation: str) -> str:
        return str(self.desk.delivery(self.account, operation).data["status"])

    def wait_of(self, operation: str, step: Step, tries: int) -> int:
        """Return the seconds until the next attempt, once there were this many."""
        self.smtp.reached(step, tries)
        sql = "SELECT next_attempt_at FROM delivery_operations WHERE id = ? AND status = 'queued'"
        database, now = self.desk.appliance.store.database, to_millis(self.clock.now())
        wait_until(lambda: (database.value(sql, (operation,)) or 0) > now, lambda: "it does not wait", 10)
        return (int(database.value(sql, (operation,))) - now) // 1000


@pytest.fixture
def later(tmp_path: Path, mail_server: MailServer, clock: FakeClock) -> Iterator[Later]:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    desk = Desk(tmp_path / "data", clock, sending__answer_within=20, sending__keep_connection=0)
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
    smtp.forget()
    yield Later(desk, clock, account, smtp)
    desk.close()
    smtp.stop()


def test_waits_between_tries_grow_to_half_an_hour_and_end_after_a_day(later: Later) -> None:
    later.smtp.at("mail", "451 4.3.0 later")
    operation = later.schedule()
    due = later.clock.now() + timedelta(hours=1)
    waits, pause = [], 3600
    for tries in range(1, 9):
        later.pass_time(pause)
        pause = later.wait_of(operation, "mail", tries)
        waits.append(pause)
    assert waits == [60, 120, 240, 480, 960, 1800, 1800, 1800]
    # The last attempt is the one at the end of the day.
    left = (due + timedelta(hours=24) - later.clock.now()).total_seconds()
    later.pass_time(left - 300)
    later.smtp.reached("mail", 9)
    assert later.wait_of(operation, "mail", 9) == 300
    later.pass_time(300)
    assert later.end(operation, "failed")["error"] == {"code": "expired"}
    assert later.smtp.messages == ()


PASSING: list[tuple[Step, Action]] = [
    ("connect", "421 4.3.2 busy"),
    ("connect", "554 not you"),
    ("ehlo", DROP),
    ("auth", "454 4.7.0 later"),
    ("mail", "421 4.3.2 closing"),
    ("rcpt", "450 4.2.0 greylisted"),
    ("data", "nonsense"),
    ("reply", "451 4.3.0 later"),
]


def test_what_passes_ends_in_one_copy(later: Later) -> None:
    operation = later.schedule(subject="once")
    at = later.clock.now() + timedelta(hours=1)
    for tried, (step, action) in enumerate(PASSING):
        later.smtp.at(step, [action])
        count = later.smtp.count(step)
        later.pass_time(3600 if tried == 0 else 1800)
        later.wait_of(operation, step, count + 1)
    later.pass_time(1800)
    later.end(operation, "succeeded")
    [message] = later.smtp.messages
    dated = email.message_from_bytes(message.source)["Date"]
    assert email.utils.parsedate_to_datetime(dated).astimezone(UTC) == at.replace(microsecond=0)


def test_a_login_that_is_refused_all_day(later: Later) -> None:
    later.smtp.at("auth", "535 5.7.8 wrong")
    operation = later.schedule()
    later.pass_time(3600)
    later.wait_of(operation, "auth", 1)
    assert later.desk.account(later.account)["status"] == "reauth_required"
    later.pass_time(24 * 3600)
    assert later.end(operation, "failed")["error"] == {"code": "authentication_failed"}
    assert later.smtp.count("auth") == 1


def test_one_that_was_missed_for_a_day_does_not_go_late(later: Later) -> None:
    operation = later.schedule()
    later.pass_time(25 * 3600)
    assert later.end(operation, "failed")["error"] == {"code": "expired"}
    assert later.smtp.count("connect") == 0


@pytest.mark.parametrize(
    ("step", "action", "code"),
    [
        ("mail", "550 5.1.8 no", "sender_rejected"),
        ("rcpt", "550 5.1.1 no", "recipient_rejected"),
        ("reply", "552 5.3.4 large", "message_too_large"),
    ],
)
def test_what_is_refused_for_good_is_not_tried_again(later: Later, step: Step, action: Action, code: str) -> None:
    later.smtp.at(step, action)
    operation = later.schedule()
    later.pass_time(3600)
    assert later.end(operation, "failed")["error"] == {"code": code}


def test_an_address_that_the_server_does_not_take(later: Later) -> None:
    later.smtp.extensions = ("8BITMIME",)
    operation = later.schedule(to="jürgen@example.test")
    later.pass_time(3600)
    assert later.end(operation, "failed")["error"] == {"code": "recipient_rejected"}


def test_doubt_stays_doubt_and_says_what_to_do(later: Later) -> None:
    later.smtp.at("reply", Keep(DROP))
    operation = later.schedule()
    later.pass_time(3600)
    later.end(operation, "uncertain")
    [warning] = later.desk.delivery(later.account, operation).body["warnings"]
    assert "never resent automatically" in warning
    assert "24 hours" in warning
    assert "resolve" in warning
    later.pass_time(3600)
    assert (later.status(operation), len(later.smtp.messages)) == ("uncertain", 1)


@pytest.mark.parametrize("name", ["connecting", "envelope", "data", "dot"])
def test_a_journal_that_cannot_be_written_is_a_passing_fault(later: Later, name: str) -> None:
    fault = Fault(later.desk, phase(name))
    operation = later.schedule()
    later.pass_time(3600)
    assert later.wait_of(operation, "connect", 0 if name == "connecting" else 1) == 60
    assert later.smtp.messages == ()
    fault.mend()
    later.pass_time(60)
    later.end(operation, "succeeded")
    assert len(later.smtp.messages) == 1


def test_one_waits_for_its_turn_and_can_be_canceled_till_then(later: Later) -> None:
    later.smtp.at("mail", [Stall()])
    first, second = later.schedule(), later.schedule()
    later.pass_time(3600)
    later.smtp.reached("mail")
    wait_until(lambda: later.status(first) == "sending", lambda: later.status(first), 10)
    # Scheduled messages do not delay what a request waits for.
    assert later.desk.send(later.account, a_message(subject="now")).data["status"] == "succeeded"
    assert later.status(second) == "queued"
    [*_, last] = later.desk.ask("GET", f"/accounts/{later.account}/scheduled").data["items"]
    assert later.desk.ask("DELETE", f"/accounts/{later.account}/scheduled/{last['id']}").status == 200
    later.smtp.release("mail")
    later.end(first, "succeeded")
    assert later.status(second) == "failed"
    assert len(later.smtp.messages) == 2


def test_the_clock_is_set_back_while_it_is_sent(later: Later) -> None:
    later.smtp.at("reply", [Stall()])
    operation = later.schedule()
    later.pass_time(3600)
    later.smtp.reached("reply")
    later.clock.set_wall(later.clock.now() - timedelta(days=400))
    later.smtp.release("reply")
    later.end(operation, "succeeded")
    later.pass_time(1)
    assert len(later.smtp.messages) == 1


@pytest.mark.parametrize(("step", "status", "copies"), [("rcpt", "succeeded", 1), ("reply", "uncertain", 1)])
def test_a_restart(
    tmp_path: Path, mail_server: MailServer, clock: FakeClock, step: Step, status: str, copies: int
) -> None:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    before = Desk(tmp_path / "data", clock)
    account = before.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
    later = Later(before, clock, account, smtp)
    smtp.at(step, [Stall(Keep(DROP)) if step == "reply" else Stall(DROP)])
    operation = later.schedule()
    later.pass_time(3600)
    smtp.reached(step)
    before.close()
    smtp.release()
    after = Desk(tmp_path / "data", clock, is_new=False)
    try:
        after.wait_for(account, operation, status)
        assert len(smtp.messages) == copies
    finally:
        after.close()
        smtp.stop()
