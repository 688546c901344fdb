"""The worker when the appliance itself has problems: a journal that cannot be written, a stop, an impatient client."""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from mailbox_appliance.mail.compose import compose, new_message_id
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.model.deliveries import NewDelivery, Phase
from mailbox_appliance.model.messages import Address, OutgoingMessage, ParsedMessage
from mailbox_appliance.sending import sent_copies, worker
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Keep, Stall
from tests.store.mail import fetched, parsed


@dataclass
class Office:
    """An appliance with one mailbox."""

    desk: Desk
    account: str
    smtp: ScriptedSmtp


@contextmanager
def office(
    folder: Path, mail_server: MailServer, smtp: ScriptedSmtp, answer_within: int, keep: int = 10
) -> Iterator[Office]:
    user = smtp.user = mail_server.fresh_user()
    desk = Desk(folder, sending__answer_within=answer_within, sending__keep_connection=keep)
    try:
        yield Office(desk, desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port), smtp)
    finally:
        desk.close()


@pytest.fixture
def patient(tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> Iterator[Office]:
    """Yield an appliance in which requests wait for their outcome, and no connection is kept."""
    with office(tmp_path / "data", mail_server, scripted_smtp, 20, keep=0) as made:
        yield made


@pytest.fixture
def hasty(tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> Iterator[Office]:
    """Yield an appliance in which requests are answered at once, whatever the outcome."""
    with office(tmp_path / "data", mail_server, scripted_smtp, 0) as made:
        yield made


class Fault:
    """A store that fails at one statement, as on a full disk, until it is repaired."""

    def __init__(self, desk: Desk, when: str) -> None:
        self._database = desk.appliance.store.database
        self._change(f"CREATE TRIGGER fault {when} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END")

    def mend(self) -> None:
        self._change("DROP TRIGGER fault")

    def _change(self, sql: str) -> None:
        with self._database.transaction():
            self._database.change(sql)


def phase(name: str) -> str:
    return f"BEFORE INSERT ON delivery_phases WHEN NEW.phase = '{name}'"


def status(name: str) -> str:
    return f"BEFORE UPDATE ON delivery_operations WHEN NEW.status = '{name}'"


@pytest.mark.parametrize("name", ["connecting", "envelope", "data", "dot"])
def test_what_cannot_be_written_down_is_not_done(patient: Office, name: str) -> None:
    key = a_key()
    fault = Fault(patient.desk, phase(name))
    answer = patient.desk.send(patient.account, a_message(), key)
    assert (answer.status, answer.code) == (503, "provider_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert patient.smtp.messages == ()
    assert patient.desk.appliance.store.deliveries.list_sending() == ()
    fault.mend()
    assert patient.desk.send(patient.account, a_message(), key).data["status"] == "succeeded"
    assert len(patient.smtp.messages) == 1


def test_a_send_waits_for_the_disk_twice(patient: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the dot, and before the answer; the acceptance shares the first."""
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    for count in (2, 4):
        assert patient.desk.send(patient.account, a_message()).data["status"] == "succeeded"
        assert len(synced) == count


def test_the_timeline_shows_steps_that_are_not_recorded_yet(patient: Office) -> None:
    patient.smtp.at("rcpt", [Stall()])
    asked = patient.desk.begin(patient.account, a_message())
    patient.smtp.reached("rcpt")
    appliance = patient.desk.appliance
    (left,) = appliance.store.deliveries.list_sending()
    assert left.phase is Phase.ACCEPTED
    running = appliance.sender.unwritten_steps(left.operation_id)
    assert [phase for phase, _ in running] == ["connecting", "envelope"]
    assert appliance.store.deliveries.mark_shown(left.operation_id)
    work = appliance.store.deliveries.get_work(left.operation_id)
    timeline, _ = appliance.store.delivery_timelines.get(patient.account, left.operation_id, work.member_id, running)
    steps = [(each.attempt, each.step) for each in timeline.steps]
    assert steps == [(0, "accepted"), (1, "connecting"), (1, "envelope")]
    patient.smtp.release()
    assert asked.result(10).data["status"] == "succeeded"
    timeline, _ = appliance.store.delivery_timelines.get(patient.account, left.operation_id, work.member_id, running)
    names = [each.step for each in timeline.steps]
    assert names == ["accepted", "connecting", "envelope", "data", "dot", "replied", "succeeded"]
    assert appliance.sender.unwritten_steps(left.operation_id) == ()


def is_shown(office: Office, message_id: str) -> bool:
    return message_id in office.desk.appliance.store.mailbox_writer.locate(office.account, [message_id])


def test_the_copy_is_shown_after_the_answer_and_before_mail_is_read(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    results = [patient.desk.send(patient.account, a_message()).data["result"] for _ in range(3)]
    assert [is_shown(patient, each["id"]) for each in results] == [False] * 3
    shown = patient.desk.ask("GET", f"/accounts/{patient.account}/messages/{results[1]['id']}").data
    assert shown["threadId"] == results[1]["threadId"]
    assert [is_shown(patient, each["id"]) for each in results] == [True] * 3


def test_the_copy_is_shown_soon_if_nobody_reads(patient: Office) -> None:
    result = patient.desk.send(patient.account, a_message()).data["result"]
    wait_until(lambda: is_shown(patient, result["id"]), lambda: "not shown", 5)


def test_many_copies_are_shown_although_messages_are_being_sent(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    monkeypatch.setattr(sent_copies, "_MOST_UNSHOWN", 2)
    results = [patient.desk.send(patient.account, a_message()).data["result"] for _ in range(2)]
    wait_until(lambda: all(is_shown(patient, each["id"]) for each in results), lambda: "not shown", 5)


def test_a_copy_that_may_join_a_conversation_is_shown_with_the_answer(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer names the conversation."""
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    first = patient.desk.send(patient.account, a_message(subject="Plans")).data["result"]
    more = {"replyToMessageId": first["id"], "subject": "Re: Plans"}
    second = patient.desk.send(patient.account, a_message(**more)).data["result"]
    third = patient.desk.send(patient.account, a_message(subject="Re: Plans")).data["result"]
    assert is_shown(patient, second["id"])
    assert is_shown(patient, third["id"])
    assert first["threadId"] == second["threadId"] == third["threadId"]


def test_a_copy_that_a_crash_left_is_shown_by_the_next_start(patient: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    result = patient.desk.send(patient.account, a_message()).data["result"]
    next_run = sent_copies.UnshownCopies(patient.desk.appliance.store)
    next_run.recover()
    assert not is_shown(patient, result["id"])
    next_run.show()
    assert is_shown(patient, result["id"])
    patient.desk.appliance.sender.unshown.show()  # it is there already
    assert patient.desk.appliance.store.sent_copies.list_unshown() == ()


@pytest.mark.parametrize(
    ("script", "outcome", "copies"),
    [(None, "succeeded", 1), (Keep("421 closing"), "uncertain", 1), ("554 5.7.1 no", "failed", 0)],
)
def test_what_the_server_said_is_kept_until_it_can_be_written(
    patient: Office, script: Keep | str | None, outcome: str, copies: int
) -> None:
    patient.smtp.at("reply", script)
    fault = Fault(patient.desk, status(outcome))
    asked = patient.desk.begin(patient.account, a_message())
    wait_until(lambda: patient.smtp.count("reply") == 1 and patient.smtp.connected == 0, lambda: "not over", 10)
    assert not asked.done()
    fault.mend()
    assert asked.result(10).data["status"] == outcome
    assert (len(patient.smtp.messages), patient.smtp.count("connect")) == (copies, 2)  # one was for connecting it


def test_a_key_that_cannot_be_freed_is_freed_later(patient: Office) -> None:
    patient.smtp.at("mail", ["451 4.3.0 later"])
    fault = Fault(patient.desk, "BEFORE DELETE ON delivery_operations")
    key = a_key()
    asked = patient.desk.begin(patient.account, a_message(), key)
    patient.smtp.reached("mail")
    wait_until(lambda: patient.smtp.connected == 0, lambda: "not over", 10)
    fault.mend()
    assert asked.result(10).status == 503
    assert patient.desk.send(patient.account, a_message(), key).data["status"] == "succeeded"


def test_that_a_copy_cannot_be_shown_changes_nothing(patient: Office) -> None:
    fault = Fault(patient.desk, "BEFORE INSERT ON messages")
    assert patient.desk.send(patient.account, a_message()).data["status"] == "succeeded"
    fault.mend()


def test_what_was_never_written_is_uncertain_after_a_restart(
    tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp
) -> None:
    scripted_smtp.at("reply", Stall())
    with office(tmp_path / "data", mail_server, scripted_smtp, 1, keep=0) as before:
        Fault(before.desk, status("succeeded"))  # it is not repaired: the appliance ends without recording it
        answer = before.desk.send(before.account, a_message())
        assert answer.data["status"] == "sending"
        scripted_smtp.release()
        wait_until(lambda: scripted_smtp.connected == 0, lambda: "not over", 10)
        account, operation = before.account, answer.data["operationId"]
    after = Desk(tmp_path / "data", is_new=False)
    try:
        assert after.wait_for(account, operation, "uncertain")
        assert len(scripted_smtp.messages) == 1
    finally:
        after.close()


# --- a client that does not wait ---


def test_what_takes_long_is_answered_and_goes_on(
    tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp
) -> None:
    with office(tmp_path / "data", mail_server, scripted_smtp, 1) as slow:
        check_that_it_goes_on(slow)


def check_that_it_goes_on(hasty: Office) -> None:
    hasty.smtp.at("rcpt", [Stall()])
    key = a_key()
    answer = hasty.desk.send(hasty.account, a_message(), key)
    assert (answer.status, answer.data["status"]) == (200, "sending")
    assert "result" not in answer.data
    operation = answer.data["operationId"]
    assert hasty.desk.delivery(hasty.account, operation).data == answer.data
    assert hasty.desk.send(hasty.account, a_message(), key).data == answer.data
    assert hasty.desk.ask("GET", "/status").data["deliveries"]["sending"] == 1
    hasty.smtp.release("rcpt")
    over = hasty.desk.wait_for(hasty.account, operation, "succeeded")
    assert hasty.desk.send(hasty.account, a_message(), key).data == over
    assert len(hasty.smtp.messages) == 1


@pytest.mark.parametrize("reply", ["451 4.3.0 later", "530 5.7.0 log in", "421 closing"])
def test_a_passing_fault_of_what_was_shown_is_for_good(hasty: Office, reply: str) -> None:
    hasty.smtp.at("mail", [Stall(reply)])
    key = a_key()
    answer = hasty.desk.send(hasty.account, a_message(), key)
    wait_until(lambda: hasty.smtp.held("mail") == 1, lambda: "not begun", 10)
    hasty.smtp.release("mail")
    over = hasty.desk.wait_for(hasty.account, answer.data["operationId"], "failed")
    assert over["error"] == {"code": "provider_unavailable"}
    assert hasty.desk.send(hasty.account, a_message(), key).data == over
    assert hasty.smtp.messages == ()


def test_a_stop_lets_requests_go_and_a_start_goes_on(
    tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp
) -> None:
    scripted_smtp.at("mail", [Stall()])
    with office(tmp_path / "data", mail_server, scripted_smtp, 60) as before:
        asked = [before.desk.begin(before.account, a_message(subject=subject)) for subject in "ab"]
        scripted_smtp.reached("mail")
        before.desk.appliance.sender.release()
        answers = [each.result(5) for each in asked]
        assert "sending" in [answer.data["status"] for answer in answers]
        account = before.account
    scripted_smtp.release()
    after = Desk(tmp_path / "data", is_new=False)
    try:
        for answer in answers:
            after.wait_for(account, answer.data["operationId"], "succeeded")
        assert len(scripted_smtp.messages) == 2
    finally:
        after.close()


def test_two_mailboxes_at_once_do_not_wait_for_each_other(patient: Office, mail_server: MailServer) -> None:
    # The only thread was notified of the first, and has not woken up when the second comes.
    desk = patient.desk
    user = mail_server.fresh_user()
    other = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    for _ in range(3):
        assert desk.send(other, a_message(mail_server.fresh_user())).data["status"] == "succeeded"
    patient.smtp.at("mail", Stall())
    stalled, free = accepted(desk, patient.account), accepted(desk, other)
    desk.appliance.sender.submit(stalled, patient.account)
    assert desk.appliance.sender.submit(free, other).wait(10)
    assert [work.operation_id for work in desk.appliance.store.deliveries.list_sending()] == [stalled]


def accepted(desk: Desk, account: str) -> str:
    """Return an operation that is in the journal but not started."""
    sender, recipient = Address(email=desk.account(account)["email"]), Address(email="bob@example.test")
    message = compose(
        OutgoingMessage(sender, (recipient,)), message_id=new_message_id(sender.email), date=desk.appliance.clock.now()
    )
    new = NewDelivery(account, "ses_x", "mem_x", a_key(), "hash", "send", message, None)
    return desk.appliance.store.deliveries.accept(new).delivery.operation_id


# --- servers that do not answer ---


@pytest.fixture
def crowd(tmp_path: Path, mail_server: MailServer) -> Iterator[tuple[Desk, list[str], str, ScriptedSmtp]]:
    """Yield twenty mailboxes of one server that stalls, and one of another server."""
    stalling = ScriptedSmtp(user="").start()
    desk = Desk(tmp_path / "data", sending__answer_within=0, sending__keep_connection=0)
    mailboxes = desk.appliance.store.accounts
    owner = str(desk.appliance.store.database.value("SELECT id FROM members"))
    for number in range(20):
        server = Endpoint("127.0.0.1", 1, "none", f"u{number}", "-")
        smtp = Endpoint("127.0.0.1", stalling.port, "none", "", "-")
        with desk.appliance.store.database.transaction():
            mailboxes.add(owner, None, Connection(f"u{number}@example.test", server, smtp))
    stalled = [account.id for account in mailboxes.list_reachable(owner)]
    user = mail_server.fresh_user()
    free = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    yield desk, stalled, free, stalling
    desk.close()
    stalling.stop()


def test_a_server_that_stalls_twenty_mailboxes_holds_up_no_other(
    crowd: tuple[Desk, list[str], str, ScriptedSmtp], mail_server: MailServer
) -> None:
    desk, stalled, free, smtp = crowd
    smtp.at("mail", Stall())
    answers = [(account, desk.send(account, a_message())) for account in stalled for _ in range(3)]
    assert [answer.data["status"] for _, answer in answers] == ["sending"] * 60
    wait_until(lambda: smtp.held("mail") == worker.MOST_PER_SERVER, lambda: f"{smtp.held('mail')} are held", 10)
    operation = desk.send(free, a_message(mail_server.fresh_user())).data["operationId"]
    desk.wait_for(free, operation, "succeeded", 3)
    smtp.at("mail", None)
    smtp.release("mail")
    for account, answer in answers:
        desk.wait_for(account, answer.data["operationId"], "succeeded")
    assert len(smtp.messages) == 60


# --- time ---


def test_a_reply_after_nine_minutes_is_one(
    tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp, clock: FakeClock
) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    desk = Desk(tmp_path / "data", clock, sending__answer_within=0)
    try:
        account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
        for seconds, says, status in ((540, None, "succeeded"), (600, b"2", "uncertain")):
            scripted_smtp.at("reply", [Stall(says)])
            operation = desk.send(account, a_message()).data["operationId"]
            wait_until(lambda: scripted_smtp.held("reply") == 1, lambda: "no dot", 10)
            clock.advance(seconds)
            if status == "succeeded":  # after ten minutes it may have been given up already
                assert desk.delivery(account, operation).data["status"] == "sending"
            scripted_smtp.release("reply")
            desk.wait_for(account, operation, status)
    finally:
        desk.close()


def sending_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("sending")


def test_threads_that_nobody_needs_end_but_one(patient: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_IDLE_SECONDS", 0.05)
    for _ in range(2):
        patient.smtp.at("mail", Stall())
        asked = [patient.desk.begin(patient.account, a_message()) for _ in range(2)]
        wait_until(lambda: patient.smtp.held("mail") == 2, lambda: "not begun", 10)
        patient.smtp.at("mail", None)
        patient.smtp.release("mail")
        assert [each.result(10).data["status"] for each in asked] == ["succeeded"] * 2
        wait_until(lambda: sending_threads() == 1, lambda: f"{sending_threads()} live", 10)


def test_a_thread_that_is_idle_keeps_nothing_of_the_message_it_sent(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, tickets = patient.desk.appliance.sender, list[weakref.ref[worker.Ticket]]()
    submit = sender.submit

    def submitted(operation_id: str, account_id: str, row: ParsedMessage | None) -> worker.Ticket:
        ticket = submit(operation_id, account_id, row)
        tickets.append(weakref.ref(ticket))
        return ticket

    monkeypatch.setattr(sender, "submit", submitted)
    assert patient.desk.send(patient.account, a_message()).data["status"] == "succeeded"
    (ticket,) = tickets
    wait_until(lambda: ticket() is None, lambda: f"{ticket()} is kept", 5)
    assert sending_threads() > 0


def test_of_many_that_wait_few_keep_the_row_of_their_copy(patient: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stalled server can let thousands wait; their rows would fill the memory."""
    monkeypatch.setattr(worker, "MOST_ROWS", 2)
    sender, tickets = patient.desk.appliance.sender, list[worker.Ticket]()
    submit = sender.submit

    def submitted(operation_id: str, account_id: str, row: ParsedMessage | None) -> worker.Ticket:
        tickets.append(submit(operation_id, account_id, row))
        return tickets[-1]

    monkeypatch.setattr(sender, "submit", submitted)
    patient.smtp.at("mail", Stall())
    asked = [patient.desk.begin(patient.account, a_message()) for _ in range(4)]
    wait_until(lambda: len(tickets) == 4, lambda: f"{len(tickets)} wait", 10)
    assert sum(ticket.row is not None for ticket in tickets) == 2
    patient.smtp.at("mail", None)
    patient.smtp.release("mail")
    assert [each.result(20).data["status"] for each in asked] == ["succeeded"] * 4


def test_a_copy_that_waits_is_shown_although_mail_that_arrives_cannot_be_stored(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    sent = patient.desk.send(patient.account, a_message()).data["result"]
    writer = patient.desk.appliance.store.mailbox_writer
    inbox = patient.desk.appliance.store.folders.find(patient.account, "inbox")
    assert inbox is not None
    broken = msgspec.structs.replace(parsed("<odd@example.test>"), snippet=None)
    with pytest.raises(apsw.ConstraintError):
        writer.add(inbox, [(fetched(999), broken)])
    assert is_shown(patient, sent["id"])


def test_a_message_joins_one_by_its_subject_that_waits_to_be_shown(
    patient: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PAUSE", 60.0)
    first, second = (
        patient.desk.send(patient.account, a_message(subject=subject)).data["result"]
        for subject in ("Budget", "Re: Budget")
    )
    assert second["threadId"] == first["threadId"]


def test_a_conflict_names_only_a_delivery_that_is_on_the_disk(patient: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    store, key = patient.desk.appliance.store, a_key()
    begun, ended = threading.Event(), threading.Event()
    enter_phases = store.deliveries.enter_phases

    def hold(*given: Any, **named: Any) -> bool:
        begun.set()
        assert ended.wait(10)
        return enter_phases(*given, **named)

    monkeypatch.setattr(store.deliveries, "enter_phases", hold)
    first = patient.desk.begin(patient.account, a_message(subject="One"), key)
    assert begun.wait(10)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert patient.desk.send(patient.account, a_message(subject="Another"), key).status == 409
    assert synced
    ended.set()
    assert first.result(10).data["status"] == "succeeded"
