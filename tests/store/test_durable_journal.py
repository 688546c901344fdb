"""Every write to the journal of sending is on the disk when it returns: it refuses to join a transaction that is not
durable.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from mailbox_appliance.model.deliveries import FoundCopy, Phase
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox
from tests.store.test_schedule import accept

AT = "2026-01-02T03:04:05.678Z"

Act = Callable[[Store, Mailbox, str], object]
OF_SENDING: dict[str, Act] = {
    **{
        f"mark {phase}": lambda store, _, operation, phase=phase: store.deliveries.enter_phases(
            operation, [(phase, AT)]
        )  # type: ignore[misc]
        for phase in (Phase.CONNECTING, Phase.ENVELOPE, Phase.DATA, Phase.DOT)
    },
    "accept": lambda store, mailbox, _: accept(store, mailbox, "another"),
    "show": lambda store, _, operation: store.deliveries.mark_shown(operation),
    "withdraw": lambda store, _, operation: store.deliveries.withdraw(operation),
    "succeed": lambda store, _, operation: store.deliveries.succeed(operation, None, reply_code=250),
    "fail": lambda store, _, operation: store.deliveries.set_outcome(operation, "failed", "message_rejected"),
    "doubt": lambda store, _, operation: store.deliveries.set_outcome(operation, "uncertain"),
}


@pytest.mark.parametrize("act", OF_SENDING.values(), ids=OF_SENDING)
def test_of_what_is_being_sent(store: Store, mailbox: Mailbox, act: Act) -> None:
    operation = accept(store, mailbox)
    with store.database.transaction(), pytest.raises(RuntimeError, match="durable"):
        act(store, mailbox, operation)
    act(store, mailbox, operation)


def schedule_of(store: Store, operation: str) -> str:
    return str(store.database.value("SELECT schedule_id FROM delivery_operations WHERE id = ?", (operation,)))


OF_WAITING: dict[str, Act] = {
    "begin": lambda store, _, operation: store.deliveries.begin_sending(operation),
    "fail_queued": lambda store, _, operation: store.deliveries.fail_queued(operation, "expired"),
    "cancel": lambda store, mailbox, operation: store.deliveries.cancel(mailbox.id, schedule_of(store, operation)),
}


@pytest.mark.parametrize("act", OF_WAITING.values(), ids=OF_WAITING)
def test_of_what_waits_for_its_time(store: Store, mailbox: Mailbox, clock: FakeClock, act: Act) -> None:
    operation = accept(store, mailbox, send_at=clock.now() + timedelta(hours=1))
    with store.database.transaction(), pytest.raises(RuntimeError, match="durable"):
        act(store, mailbox, operation)
    act(store, mailbox, operation)


def test_of_what_waits_again(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    operation = accept(store, mailbox, send_at=clock.now())
    store.deliveries.begin_sending(operation)
    with store.database.transaction(), pytest.raises(RuntimeError, match="durable"):
        store.deliveries.requeue(operation, clock.now(), "unavailable")
    assert store.deliveries.requeue(operation, clock.now(), "unavailable")


OF_DOUBT: dict[str, Act] = {
    "confirm": lambda store, mailbox, operation: store.deliveries.confirm(
        operation, FoundCopy(mailbox.folder("INBOX"), 1), None
    ),
    "resolve": lambda store, _, operation: store.deliveries.resolve(operation, "failed"),
}


@pytest.mark.parametrize("act", OF_DOUBT.values(), ids=OF_DOUBT)
def test_of_doubt(store: Store, mailbox: Mailbox, act: Act) -> None:
    operation = accept(store, mailbox)
    store.deliveries.set_outcome(operation, "uncertain")
    with store.database.transaction(), pytest.raises(RuntimeError, match="durable"):
        act(store, mailbox, operation)
    act(store, mailbox, operation)
