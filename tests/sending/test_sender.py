"""The worker under stress: no more threads, a full disk at the start, thousands of operations due together."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import Unavailable
from mailbox_appliance.events import DeliveryPhaseEntered, DeliverySettled
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.model.deliveries import NewDelivery, Phase
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.store.schedule import MOST_SCHEDULED
from tests.remote.odd_server import Peer, odd_server
from tests.sending.test_worker import Fault
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall


@pytest.fixture
def smtp() -> Iterator[ScriptedSmtp]:
    server = ScriptedSmtp(user="").start()
    yield server
    server.stop()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "data", sending__answer_within=10)
    yield made
    made.close()


def mailbox(desk: Desk, port: int, name: str = "ada") -> str:
    """Return a mailbox with this SMTP server, and an IMAP server that cannot be reached."""
    store = desk.appliance.store
    owner = str(store.database.value("SELECT id FROM members"))
    imap, smtp = (Endpoint("127.0.0.1", number, "none", "", "-") for number in (1, port))
    with store.database.transaction():
        return store.accounts.add(owner, None, Connection(f"{name}@example.test", imap, smtp))


def accept(desk: Desk, account: str, send_at: datetime | None = None) -> str:
    """Return an operation that is in the journal but not started."""
    store = desk.appliance.store
    sender, recipient = Address(email=desk.account(account)["email"]), Address(email="bob@example.test")
    key, kind = a_key(), "send" if send_at is None else "scheduled"
    message = compose(
        OutgoingMessage(sender, (recipient,), text="t"), message_id=f"<{key}@x.test>", date=SystemClock().now()
    )
    owner = str(store.database.value("SELECT id FROM members"))
    new = NewDelivery(account, "ses_x", owner, key, "hash", kind, message, None, send_at=send_at)  # type: ignore[arg-type]
    return store.deliveries.accept(new).delivery.operation_id


def status(desk: Desk, operation: str) -> str | None:
    """Return the status, or None if the operation was withdrawn."""
    found = desk.appliance.store.deliveries.find(operation)
    return None if found is None else found[0].status


def wait_for(desk: Desk, operation: str, expected: str | None) -> None:
    wait_until(lambda: status(desk, operation) == expected, lambda: str(status(desk, operation)), 10)


# --- no more threads ---


class NoThreads:
    """Lets no thread of this name start, as at the limit of a container, until there is `room`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        start = threading.Thread.start
        self.refused, self.room = 0, False

        def refuse(thread: threading.Thread) -> None:
            if thread.name == name and not self.room:
                self.refused += 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


def test_where_no_thread_is_to_be_had_the_one_that_stays_sends(
    desk: Desk, smtp: ScriptedSmtp, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = mailbox(desk, smtp.port)
    none = NoThreads(monkeypatch, "sending")
    smtp.at("mail", [Stall()])
    asked = [desk.begin(account, a_message()) for _ in range(60)]  # more than the limit of threads
    wait_until(lambda: none.refused >= 1 and smtp.held("mail") == 1, lambda: f"{none.refused}", 10)
    smtp.release("mail")
    assert {each.result(20).status for each in asked} == {200}
    wait_until(lambda: len(smtp.messages) == len(asked), lambda: str(len(smtp.messages)), 20)
    # Threads that failed to start do not count.
    none.room = True
    smtp.at("mail", Stall())
    again = [desk.begin(account, a_message()) for _ in range(2)]
    wait_until(lambda: smtp.held("mail") == 2, lambda: f"{smtp.held('mail')} at once", 10)
    smtp.release("mail")
    assert [each.result(10).data["status"] for each in again] == ["succeeded"] * 2


def test_a_thread_that_was_not_to_be_had_comes_with_the_next_occasion(
    desk: Desk, smtp: ScriptedSmtp, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = [mailbox(desk, smtp.port, name) for name in "abc"]
    none = NoThreads(monkeypatch, "sending")
    smtp.at("mail", [Stall(), Stall(), Stall()])
    asked = [desk.begin(account, a_message()) for account in accounts]
    wait_until(lambda: smtp.held("mail") == 1 and none.refused >= 2, lambda: "not begun", 10)
    none.room = True
    smtp.release("mail")
    wait_until(lambda: smtp.held("mail") == 2, lambda: f"{smtp.held('mail')} at once", 10)
    smtp.release("mail")
    assert [each.result(10).data["status"] for each in asked] == ["succeeded"] * 3


# --- the disk is full at the start ---


@contextmanager
def restarted(
    folder: Path, smtp: ScriptedSmtp, fault: str, clock: FakeClock | None = None
) -> Iterator[tuple[Desk, str]]:
    """Yield an appliance that finds an interrupted operation, scheduled by `clock`, and cannot record its outcome."""
    before = Desk(folder, clock)
    operation = accept(before, mailbox(before, smtp.port), None if clock is None else clock.now())
    if clock is not None:
        before.appliance.store.deliveries.begin_sending(operation)
    Fault(before, fault)
    before.close()
    desk = Desk(folder, clock, is_new=False, sending__answer_within=1)
    try:
        yield desk, operation
    finally:
        desk.close()


def mend(desk: Desk) -> None:
    with desk.appliance.store.database.transaction():
        desk.appliance.store.database.change("DROP TRIGGER fault")


NOT_TAKEN_BACK = "BEFORE DELETE ON delivery_operations"


def test_what_cannot_be_taken_back_at_the_start_is_taken_back_later(tmp_path: Path, smtp: ScriptedSmtp) -> None:
    with restarted(tmp_path / "data", smtp, NOT_TAKEN_BACK) as (desk, operation):
        assert not desk.appliance.sender.submit(operation, "any").wait(0.7)  # it was tried again in between
        assert (status(desk, operation), smtp.count("connect")) == ("sending", 0)
        mend(desk)
        wait_for(desk, operation, None)
        assert smtp.count("connect") == 0


def test_whoever_asks_for_it_meanwhile_is_told_that_it_was_not_sent(tmp_path: Path, smtp: ScriptedSmtp) -> None:
    with restarted(tmp_path / "data", smtp, NOT_TAKEN_BACK) as (desk, operation):
        ticket = desk.appliance.sender.submit(operation, "any")
        mend(desk)
        assert ticket.wait(10)
        assert isinstance(ticket.problem, Unavailable)
        assert smtp.count("connect") == 0


def test_one_that_a_client_was_shown_goes_on_once_that_can_be_written(tmp_path: Path, smtp: ScriptedSmtp) -> None:
    with restarted(tmp_path / "data", smtp, NOT_TAKEN_BACK) as (desk, operation):
        desk.appliance.store.deliveries.mark_shown(operation)
        wait_for(desk, operation, "succeeded")
        assert len(smtp.messages) == 1


def test_a_scheduled_one_waits_again_once_that_can_be_written(
    tmp_path: Path, smtp: ScriptedSmtp, clock: FakeClock
) -> None:
    not_queued = "BEFORE UPDATE ON delivery_operations WHEN NEW.status = 'queued'"
    with restarted(tmp_path / "data", smtp, not_queued, clock) as (desk, operation):
        settled = list[DeliverySettled]()
        desk.appliance.events.subscribe(DeliverySettled, settled.append)
        assert (status(desk, operation), smtp.count("connect")) == ("sending", 0)
        mend(desk)
        wait_for(desk, operation, "succeeded")
        # The event follows shortly after the commit.
        wait_until(lambda: [each.status for each in settled] == ["queued", "succeeded"], lambda: str(settled), 10)
        assert len(smtp.messages) == 1


# --- many that are due together ---


def test_three_hundred_due_at_once_go_without_holding_up_anybody(desk: Desk, smtp: ScriptedSmtp) -> None:
    crowded, other, quick = (mailbox(desk, smtp.port, name) for name in "abc")
    store, at = desk.appliance.store, SystemClock().now() - timedelta(seconds=60)
    with store.database.transaction(durable=True):
        for _ in range(300):
            accept(desk, crowded, at)
        accept(desk, other, at + timedelta(seconds=30))  # due later than all of those
    desk.appliance.scheduler.wake()
    assert desk.send(quick, a_message()).data["status"] == "succeeded"
    wait_until(lambda: b"From: b@" in b"".join(m.source for m in smtp.messages), lambda: "held up", 10)
    assert len(smtp.messages) < 200
    most = 0

    def is_done() -> bool:
        nonlocal most
        most = max(most, len(desk.appliance.sender._tickets))
        return len(smtp.messages) == 302

    wait_until(is_done, lambda: str(len(smtp.messages)), 30)
    assert most <= MOST_SCHEDULED + 4


def test_a_mailbox_is_counted_at_the_server_that_it_has_now(desk: Desk, smtp: ScriptedSmtp) -> None:
    account = mailbox(desk, smtp.port)
    assert desk.appliance.sender.submit(accept(desk, account), account).line.server == f"127.0.0.1:{smtp.port}"
    database = desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE accounts SET connection = replace(connection, '127.0.0.1', 'LOCALHOST')")
    assert desk.appliance.sender.submit(accept(desk, account), account).line.server == f"localhost:{smtp.port}"
    assert desk.appliance.sender.submit("dlv_gone", "acc_gone").line.server == ""


# --- between the commit of the dot and the dot ---


@pytest.mark.parametrize(
    ("says", "outcome"), [("250 2.0.0 not asked", 503), ("451 4.3.0 no", 503), ("554 5.7.1 no", "failed")]
)
def test_what_is_said_while_the_dot_is_written_down_is_no_answer_to_it(
    desk: Desk, says: str, outcome: int | str
) -> None:
    speak, spoken, heard = threading.Event(), threading.Event(), list[str]()

    def part(peer: Peer) -> None:
        peer.say("220 hi")
        peer.reply("250 me", "250 ok", "250 ok", "354 go")
        speak.wait(10)
        peer.say(says)
        spoken.set()
        while line := peer.hear():
            heard.append(line)

    def on_marked(event: DeliveryPhaseEntered) -> None:
        if event.phase == Phase.DOT:
            speak.set()
            spoken.wait(10)

    desk.appliance.events.subscribe(DeliveryPhaseEntered, on_marked)
    with odd_server(part) as port:
        answer = desk.send(mailbox(desk, port), a_message())
    assert (answer.status if answer.status != 200 else answer.data["status"]) == outcome
    assert spoken.is_set()
    assert "." not in heard


# --- the end ---


def test_a_stop_says_goodbye_but_does_not_wait_for_it(tmp_path: Path, smtp: ScriptedSmtp) -> None:
    desk = Desk(tmp_path / "data", sending__answer_within=10, sending__keep_connection=60)
    for name in "abc":
        assert desk.send(mailbox(desk, smtp.port, name), a_message()).data["status"] == "succeeded"
    wait_until(lambda: smtp.connected == 3, lambda: str(smtp.connected), 10)
    smtp.at("quit", Stall())
    began = time.monotonic()
    desk.close()
    assert time.monotonic() - began < 3
    assert smtp.count("quit") == 3
    smtp.release()
