"""What is kept for a time only: it stays for that time, goes after it, and nothing else does."""

from datetime import timedelta

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.deliveries import DeliveryStatus, Phase
from mailbox_appliance.store.maintenance import cleanup
from mailbox_appliance.store.maintenance.cleanup import PHASES_AT_ONCE, PHASES_KEPT, CleanupLimits
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.store.mail import Mailbox
from tests.store.test_schedule import accept


def phases(store: Store, operation_id: str) -> list[str]:
    sql = "SELECT phase FROM delivery_phases WHERE operation = ? ORDER BY rowid"
    return [row[0] for row in store.database.rows(sql, (operation_id,))]


def ended(store: Store, mailbox: Mailbox, status: DeliveryStatus) -> str:
    """An operation of now that has ended so."""
    operation = accept(store, mailbox, status)
    store.deliveries.enter_phases(operation, Phase.CONNECTING)
    if status == "succeeded":
        store.deliveries.succeed(operation, None, reply_code=250)
    elif status != "sending":
        store.deliveries.set_outcome(operation, status)
    return operation


@pytest.mark.parametrize(
    ("status", "stays"), [("succeeded", False), ("failed", False), ("uncertain", True), ("sending", True)]
)
def test_phases_of_what_is_over_go_after_ninety_days(
    store: Store, mailbox: Mailbox, clock: FakeClock, status: DeliveryStatus, stays: bool
) -> None:
    operation = ended(store, mailbox, status)
    clock.advance(PHASES_KEPT.total_seconds())
    store.cleaner.delete_expired()
    assert phases(store, operation)[:2] == ["accepted", "connecting"]
    clock.advance(1)
    recent = accept(store, mailbox, "recent")
    store.cleaner.delete_expired()
    assert (len(phases(store, operation)) > 1) == stays
    assert phases(store, recent) == ["accepted"]
    assert store.deliveries.get_work(operation).status == status


def test_they_are_kept_for_as_long_as_is_wanted(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    operation = ended(store, mailbox, "succeeded")
    clock.advance(86_401)
    store.cleaner.get_limits = lambda: CleanupLimits(phases=timedelta(days=2))
    store.cleaner.delete_expired()
    assert len(phases(store, operation)) > 1
    store.cleaner.get_limits = lambda: CleanupLimits(phases=timedelta(days=1))
    store.cleaner.start()
    wait_until(lambda: phases(store, operation) == [], lambda: str(phases(store, operation)), 10)
    store.cleaner.stop()


def test_they_go_in_short_steps_past_those_that_stay(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    kept = ended(store, mailbox, "uncertain")
    gone = ended(store, mailbox, "succeeded")
    with store.database.transaction():
        many = [(operation, to_timestamp(clock.now())) for operation in (kept, gone) for _ in range(PHASES_AT_ONCE)]
        store.database.change_many("INSERT INTO delivery_phases VALUES (?, 1, 'data', ?)", many)
    now = clock.now() + PHASES_KEPT + timedelta(seconds=1)
    after, steps = 0, list[int]()
    while (found := cleanup.delete_some_phases(store.database, now, after)) is not None:
        after = found
        steps.append(len(phases(store, gone)))
    assert len(steps) == 2
    assert (len(phases(store, kept)), phases(store, gone)) == (PHASES_AT_ONCE + 2, [])


def test_an_expired_legacy_key_goes_by_itself(store: Store, clock: FakeClock) -> None:
    sql = "INSERT INTO legacy_idempotency VALUES ('key_1', ?, 'hash', 200, '{}', ?)"
    with store.database.transaction():
        for key, seconds in (("old", 0), ("good", 1)):
            store.database.change(sql, (key, to_timestamp(clock.now() + timedelta(seconds=seconds))))
    keys = "SELECT group_concat(idempotency_key) FROM legacy_idempotency"
    store.cleaner.start()
    wait_until(lambda: store.database.value(keys) == "good", lambda: str(store.database.value(keys)), 10)
    store.cleaner.stop()


def test_what_is_outdated_is_found_in_the_order_it_was_written(store: Store) -> None:
    plan = store.database.rows(f"EXPLAIN QUERY PLAN {cleanup._NEXT_PHASES}", ("", 0, PHASES_AT_ONCE))
    assert [row[3].partition(" (")[0] for row in plan] == [
        "SEARCH p USING INTEGER PRIMARY KEY",
        "SEARCH d USING INDEX sqlite_autoindex_delivery_operations_1",
    ]
