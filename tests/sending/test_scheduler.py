"""The timer: starts what is due by the wall clock, even if the clock jumps, and sleeps while there is nothing to do."""

import logging
import threading
import time
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.sending import scheduler as due_module
from mailbox_appliance.sending.scheduler import MOST_AT_ONCE, Scheduler
from mailbox_appliance.store.store import Store
from tests.sending.contexts import context_of
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.store.mail import Mailbox
from tests.store.test_schedule import accept


class HeldTask:
    """A timed task for mailboxes that a test names; it ends when the test allows it."""

    def __init__(self, *account_ids: str, name: str = "task") -> None:
        self.name = name
        self.due = list(account_ids)
        self.looks, self._looked = 0, threading.Condition()
        self.begun = list[str]()
        self.may_end = threading.Event()
        self.fault: Exception | None = None

    def due_accounts(self, now: datetime) -> Collection[str]:
        with self._looked:
            self.looks += 1
            self._looked.notify_all()
        return list(self.due)

    def was_asked(self, times: int, within: float = 5) -> bool:
        """Whether the timer has checked this often, or does within this many seconds."""
        with self._looked:
            return self._looked.wait_for(lambda: self.looks >= times, within)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        self.begun.append(account_id)
        while not (self.may_end.wait(0.01) or stopping.is_set()):
            pass
        if self.fault is not None:
            raise self.fault
        self.due.remove(account_id)


class Bench:
    """A timer and what it started: `begin` accepts scheduled operations as the worker does."""

    def __init__(self, store: Store, clock: Clock, *tasks: HeldTask) -> None:
        self.store, self.begun, self.asked = store, list[str](), list[str]()
        self._last = HeldTask(name="last")  # what a check asks for
        self._context = context_of(store, clock)
        self.due = Scheduler(self._context, self._begin, (*tasks, self._last))

    def hold(self, is_held: bool) -> None:
        self._context.settings.use_stored({"sending.hold_scheduled": is_held})

    def _begin(self, operation_id: str, account_id: str) -> None:
        self.asked.append(operation_id)
        if self.store.deliveries.begin_sending(operation_id):
            self.begun.append(operation_id)
            self.due.wake()  # as the sender of the message does

    def start(self) -> None:
        """Start the timer, and wait until it has checked."""
        self.due.start()
        assert self._last.was_asked(1)

    def look(self) -> None:
        """Wake the timer, and wait for two checks, since one may have been in progress."""
        for _ in range(2):
            looks = self._last.looks
            self.due.wake()
            assert self._last.was_asked(looks + 1)

    def wait(self, *operation_ids: str) -> None:
        wait_until(lambda: self.begun == list(operation_ids), lambda: str(self.begun), 5)


@pytest.fixture
def bench(store: Store, clock: FakeClock) -> Iterator[Bench]:
    made = Bench(store, clock)
    yield made
    made.due.stop(5)


def later(clock: FakeClock, **units: float) -> datetime:
    return clock.now() + timedelta(**units)


def test_each_is_begun_when_its_time_has_come_and_once(store: Store, clock: FakeClock, bench: Bench) -> None:
    mailbox = Mailbox(store)
    second, first = (accept(store, mailbox, str(n), send_at=later(clock, seconds=n)) for n in (120, 60))
    bench.due.start()
    clock.advance(59.9)
    bench.look()
    assert bench.begun == []
    clock.advance(0.1)
    bench.due.wake()
    bench.wait(first)
    clock.advance(3600)
    bench.due.wake()
    bench.wait(first, second)


def test_it_wakes_by_itself_at_the_time(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    try:
        bench = Bench(store, SystemClock())
        bench.due.start()
        at = SystemClock().now() + timedelta(seconds=0.6)
        operation = accept(store, Mailbox(store), send_at=at)
        bench.due.wake()
        bench.wait(operation)
        assert abs((datetime.now(at.tzinfo) - at).total_seconds()) < 0.4
    finally:
        bench.due.stop(5)
        store.close()


def test_what_was_missed_while_nothing_ran_is_begun_at_the_start(store: Store, clock: FakeClock, bench: Bench) -> None:
    mailbox = Mailbox(store)
    operations = [accept(store, mailbox, str(n), send_at=later(clock, seconds=n + 1)) for n in range(300)]
    clock.advance(23 * 3600)
    bench.due.start()
    bench.wait(*operations)


def test_what_is_held_waits_until_it_is_let_go(store: Store, clock: FakeClock, bench: Bench) -> None:
    operation = accept(store, Mailbox(store), send_at=later(clock, seconds=1))
    bench.hold(True)
    bench.start()
    clock.advance(7200)
    bench.look()
    assert (bench.begun, bench.asked) == ([], [])
    bench.hold(False)
    bench.due.wake()
    bench.wait(operation)


def test_a_jump_of_the_clock_is_noticed_without_anybodys_news(
    store: Store, clock: FakeClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_module, "_LONGEST", 0.3)
    operation = accept(store, Mailbox(store), send_at=later(clock, days=2))
    bench.start()
    clock.set_wall(later(clock, days=2))
    bench.wait(operation)


def test_a_clock_that_is_set_back_delays_no_retry_and_hastens_no_send(
    store: Store, clock: FakeClock, bench: Bench
) -> None:
    mailbox, right = Mailbox(store), clock.now()
    retried = accept(store, mailbox, "retried", send_at=later(clock, seconds=1))
    accept(store, mailbox, "meant", send_at=later(clock, hours=1))
    clock.advance(1)
    store.deliveries.begin_sending(retried)
    clock.set_wall(right + timedelta(minutes=50))
    store.deliveries.requeue(retried, later(clock, seconds=60), "unavailable")
    bench.start()
    assert bench.begun == []
    clock.set_wall(right + timedelta(seconds=5))
    bench.due.wake()
    bench.wait(retried)


def test_a_store_that_fails_is_told_once_and_asked_again(
    store: Store, clock: FakeClock, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    operation = accept(store, Mailbox(store), send_at=later(clock, seconds=1))
    fault = "CREATE TRIGGER full BEFORE UPDATE ON delivery_operations BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    with store.database.transaction():
        store.database.change(fault)
    clock.advance(1)
    with caplog.at_level(logging.INFO, "mailbox_appliance.sending.scheduler"):
        bench.due.start()
        for _ in range(3):
            bench.look()
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        with store.database.transaction():
            store.database.change("DROP TRIGGER full")
        bench.due.wake()
        bench.wait(operation)
        wait_until(lambda: len(caplog.records) == 2, lambda: str(caplog.records), 5)
    assert caplog.records[-1].levelname == "INFO"


def test_where_there_is_nothing_to_do_it_rests(store: Store, clock: FakeClock) -> None:
    idle = HeldTask()
    bench = Bench(store, clock, idle)
    bench.start()
    try:
        assert not idle.was_asked(2, within=0.5)
    finally:
        bench.due.stop(5)


# --- tasks ---


def test_a_mailbox_is_worked_on_once_at_a_time_and_few_at_once(store: Store, clock: FakeClock) -> None:
    names = [f"acc_{n}" for n in range(MOST_AT_ONCE + 2)]
    task = HeldTask(*names)
    bench = Bench(store, clock, task)
    bench.due.start()
    try:
        wait_until(lambda: len(task.begun) == MOST_AT_ONCE, lambda: str(task.begun), 5)
        for _ in range(2):
            bench.look()
        assert sorted(task.begun) == names[:MOST_AT_ONCE]
        assert task.looks < 12  # work in progress is still due, and the timer must not spin over it
        task.may_end.set()
        wait_until(lambda: not task.due, lambda: str(task.due), 5)
        assert sorted(task.begun) == names
    finally:
        bench.due.stop(5)


def test_a_duty_that_fails_rests_and_holds_up_no_other(store: Store, clock: FakeClock) -> None:
    broken, sound = HeldTask("acc_1", "acc_2"), HeldTask("acc_1", name="another")
    broken.fault = OSError("no")
    for each in (broken, sound):
        each.may_end.set()
    bench = Bench(store, clock, broken, sound)
    bench.due.start()
    try:
        wait_until(lambda: len(broken.begun) == 2 and not sound.due, lambda: str(broken.begun), 5)
        for _ in range(2):
            bench.look()
        assert broken.begun == ["acc_1", "acc_2"]
    finally:
        bench.due.stop(5)


def test_a_stop_ends_what_is_under_way_at_once(store: Store, clock: FakeClock) -> None:
    task = HeldTask("acc_1")
    bench = Bench(store, clock, task)
    bench.due.start()
    wait_until(lambda: bool(task.begun), lambda: "not begun", 5)
    began = time.monotonic()
    bench.due.stop(60)
    assert time.monotonic() - began < 30
    assert not [thread for thread in threading.enumerate() if thread.name in ("due", "task acc_1")]
