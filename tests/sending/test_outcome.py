"""A scheduled message: when it may begin, when it is tried again, and when it ends."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from mailbox_appliance.clock import from_millis
from mailbox_appliance.model.deliveries import DeliveryError, Phase
from mailbox_appliance.sending.outcome import Recorder
from mailbox_appliance.sending.sent_copies import UnshownCopies
from mailbox_appliance.sending.verdict import Cause, TemporaryFailure
from mailbox_appliance.store.store import Store
from tests.sending.contexts import context_of
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox
from tests.store.test_schedule import accept

AT = "2026-01-02T03:04:05.678Z"

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


# --- the effect on a scheduled message ---


@dataclass
class Desk:
    """A message that is scheduled for the next hour."""

    store: Store
    clock: FakeClock
    recorder: Recorder
    operation: str
    send_at: datetime

    def begin(self) -> bool:
        return self.recorder.begin(self.store.deliveries.get_work(self.operation))

    def end(self, cause: Cause) -> None:
        """Record an attempt after which nobody received anything."""
        self.store.deliveries.enter_phases(self.operation, [(Phase.CONNECTING, AT)])
        self.recorder.record(self.store.deliveries.get_work(self.operation), TemporaryFailure(cause))

    @property
    def status(self) -> str:
        """Return the status with the error code."""
        found = self.store.deliveries.find(self.operation)
        assert found is not None
        return found[0].status + (f": {found[0].error.code}" if found[0].error else "")

    @property
    def warnings(self) -> tuple[str, ...]:
        found = self.store.deliveries.find(self.operation)
        assert found is not None
        return found[1]

    @property
    def next_at(self) -> datetime:
        sql = "SELECT next_attempt_at FROM delivery_operations WHERE id = ?"
        return from_millis(self.store.database.value(sql, (self.operation,)))


@pytest.fixture
def mailbox(store: Store) -> Mailbox:
    made = Mailbox(store)
    call_it(store, "ada@example.test")  # the sender of accepted messages
    return made


def call_it(store: Store, email: str) -> None:
    """Give the only mailbox another address."""
    with store.database.transaction():
        store.database.change("UPDATE accounts SET email = ?", (email,))


@pytest.fixture
def desk(store: Store, mailbox: Mailbox, clock: FakeClock) -> Desk:
    at = clock.now() + HOUR
    operation = accept(store, mailbox, send_at=at)
    return Desk(store, clock, Recorder(context_of(store, clock), UnshownCopies(store)), operation, at)


def test_it_goes_when_its_time_has_come(desk: Desk) -> None:
    assert not desk.begin()
    desk.clock.set_wall(desk.send_at - timedelta(milliseconds=1))
    assert (desk.begin(), desk.status) == (False, "queued")
    desk.clock.set_wall(desk.send_at)
    assert (desk.begin(), desk.status) == (True, "sending")
    assert not desk.begin()


@pytest.mark.parametrize("last", ["expired", "authentication_failed"])
def test_it_is_not_sent_a_day_later(desk: Desk, last: str) -> None:
    if last == "authentication_failed":
        desk.clock.advance(3600)
        assert desk.begin()
        desk.end("login")
    desk.clock.advance(2 * DAY.total_seconds())
    assert (desk.begin(), desk.status) == (False, f"failed: {last}")


def test_what_else_ends_it_does_so_at_once(desk: Desk) -> None:
    call_it(desk.store, "other@example.test")
    desk.clock.advance(10 * 3600)
    assert (desk.begin(), desk.status) == (False, "failed: sender_rejected")


# --- the time of the next attempt ---


def first_try(desk: Desk, after: timedelta) -> None:
    desk.clock.advance((HOUR + after).total_seconds())
    assert desk.begin()


@pytest.mark.parametrize(
    ("after", "wait", "next_after"),
    [
        (timedelta(0), 60, timedelta(seconds=60)),
        (timedelta(0), 0, timedelta(0)),
        (DAY - timedelta(seconds=60), 60, DAY),
        (DAY - timedelta(seconds=59), 60, DAY),
        (DAY - timedelta(seconds=1), 0, DAY - timedelta(seconds=1)),
    ],
)
def test_it_is_put_back_by_as_much_but_not_past_the_day(
    desk: Desk, after: timedelta, wait: float, next_after: timedelta
) -> None:
    first_try(desk, after)
    assert desk.recorder.requeue(desk.store.deliveries.get_work(desk.operation), "unavailable", wait)
    assert desk.next_at - desk.send_at == next_after


def test_what_is_over_is_not_put_back(desk: Desk) -> None:
    first_try(desk, timedelta(0))
    desk.store.deliveries.set_outcome(desk.operation, "uncertain")
    assert not desk.recorder.requeue(desk.store.deliveries.get_work(desk.operation), "unavailable")
    assert desk.status == "uncertain"


@pytest.mark.parametrize(
    ("cause", "ending", "word"),
    [("internal", "failed: expired", "disk"), ("unavailable", "failed: expired", None), ("login", None, None)],
)
def test_why_the_last_try_failed_is_told(desk: Desk, cause: Cause, ending: str | None, word: str | None) -> None:
    first_try(desk, DAY - timedelta(seconds=30))
    desk.clock.advance(30)
    desk.end(cause)
    assert desk.status == (ending or "failed: authentication_failed")
    assert told(desk.warnings, word)


def test_why_the_tries_of_a_whole_day_failed_is_told(desk: Desk) -> None:
    first_try(desk, timedelta(0))
    desk.end("internal")
    desk.clock.advance(DAY.total_seconds())
    assert (desk.begin(), desk.status) == (False, "failed: expired")
    assert "disk" in desk.warnings[0]


def told(warnings: tuple[str, ...], word: str | None) -> bool:
    """Whether there is one warning with this word; without a word, whether there is none."""
    return warnings == () if word is None else len(warnings) == 1 and word in warnings[0]


def shown(store: Store, mailbox: Mailbox) -> str:
    operation = accept(store, mailbox)
    store.deliveries.mark_shown(operation)
    return operation


@pytest.mark.parametrize(
    ("cause", "code", "word"),
    [
        ("internal", "provider_unavailable", "disk"),
        ("smtputf8", "recipient_rejected", "ASCII"),
        ("unavailable", "provider_unavailable", None),
    ],
)
def test_why_one_that_was_shown_failed_is_told(
    store: Store, mailbox: Mailbox, clock: FakeClock, cause: Cause, code: str, word: str | None
) -> None:
    operation = shown(store, mailbox)
    Recorder(context_of(store, clock), UnshownCopies(store)).record(
        store.deliveries.get_work(operation), TemporaryFailure(cause)
    )
    found = store.deliveries.find(operation)
    assert found is not None
    assert found[0].error == DeliveryError(code=code)
    assert told(found[1], word)
