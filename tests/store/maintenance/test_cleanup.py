"""Background maintenance: in short steps, resumed after a stop, and without delaying others."""

import threading
from datetime import timedelta
from itertools import pairwise

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.deliveries import DeliveryStatus, Phase
from mailbox_appliance.store import moves
from mailbox_appliance.store.maintenance import cleanup
from mailbox_appliance.store.maintenance.cleanup import FEW_PIECES, PHASES_AT_ONCE, PHASES_KEPT, CleanupLimits
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.store.mail import Mailbox, fetched, parsed
from tests.store.test_schedule import accept

AT = "2026-01-02T03:04:05.678Z"


def remove(store: Store, mailbox: Mailbox) -> int:
    """Remove a mailbox; return its number."""
    number = int(store.database.value("SELECT number FROM accounts WHERE id = ?", (mailbox.id,)))
    with store.database.transaction():
        store.accounts.remove(mailbox.id)
    return number


def count(store: Store) -> int:
    return int(store.database.value("SELECT count(*) FROM messages"))


def test_a_removed_mailbox_goes_in_short_steps(store: Store, mailbox: Mailbox) -> None:
    many = moves.DELETED_AT_ONCE * 2 + 1
    mailbox.store.mailbox_writer.add_headers(
        mailbox.folder(), [(fetched(uid), parsed(f"<{uid}@x>")) for uid in range(many)]
    )
    kept = Mailbox(store, mailbox.owner)
    kept.add(1)
    number = remove(store, mailbox)
    left = [count(store)]
    while moves.delete_some_of_account(store.database, number):
        left.append(count(store))
    assert max(before - after for before, after in pairwise(left)) == moves.DELETED_AT_ONCE
    assert left[-1] == 1
    for table in ("threads", "folders", "message_index_docsize"):
        assert store.database.value(f"SELECT count(*) FROM {table}") == (3 if table == "folders" else 1)
    assert store.accounts.list_ids() == (kept.id,)


def test_what_was_left_undone_is_taken_up(store: Store, mailbox: Mailbox) -> None:
    mailbox.add(1)
    number = remove(store, mailbox)
    store.cleaner.start()
    left = "SELECT 1 FROM accounts WHERE number = ?"
    wait_until(lambda: store.database.value(left, (number,)) is None, lambda: "the mailbox is still there", 10)
    assert count(store) == 0
    store.cleaner.stop()
    store.cleaner.stop()


def test_pieces_of_the_index_are_merged(store: Store, mailbox: Mailbox) -> None:
    for uid in range(1, FEW_PIECES * 2):
        mailbox.add(uid, parsed(text=f"word{uid}"), after=uid)
    assert store.cleaner.count_index_pieces() == FEW_PIECES * 2 - 1
    store.cleaner.merge_index()
    assert store.cleaner.count_index_pieces() < 4
    numbers = [row[0] for row in store.database.rows("SELECT number FROM messages ORDER BY number")]
    rows = store.database.rows("SELECT rowid FROM message_index WHERE message_index MATCH 'body: word*' ORDER BY rowid")
    assert [row[0] for row in rows] == numbers


def test_a_store_that_is_closed_ends_its_upkeep(store: Store) -> None:
    store.cleaner.start()
    store.close()
    assert not any(thread.name == "store-upkeep" for thread in threading.enumerate())


def test_what_was_fetched_on_demand_is_kept_within_its_bound(store: Store, mailbox: Mailbox, clock: FakeClock) -> None:
    number = store.database.value("SELECT number FROM messages WHERE id = ?", (mailbox.add(1),))
    read = store.part_cache.put(number, "1", [bytes(1000)], limit=1 << 20)
    for part in ("2", "3", "4"):
        clock.advance(1)
        store.part_cache.put(number, part, [bytes(1000)], limit=1 << 20).close()

    def kept() -> list[str]:
        return [row[0] for row in store.database.rows("SELECT part FROM cached_parts ORDER BY part")]

    store.cleaner.delete_expired()
    assert kept() == ["1", "2", "3", "4"]
    store.cleaner.get_limits = lambda: CleanupLimits(parts=2500)
    store.cleaner.delete_expired()
    assert kept() == ["1", "4"]  # the first is being read
    store.cleaner.get_limits = lambda: CleanupLimits(parts=0)
    store.cleaner.delete_expired()
    assert kept() == ["1"]
    read.close()
    store.cleaner.delete_expired()
    assert kept() == []


def test_what_may_be_kept_is_looked_at_at_once_where_it_changes(store: Store, mailbox: Mailbox) -> None:
    number = store.database.value("SELECT number FROM messages WHERE id = ?", (mailbox.add(1),))
    store.part_cache.put(number, "1", [bytes(1000)], limit=1 << 20).close()
    count = "SELECT count(*) FROM cached_parts"
    store.cleaner.start()
    assert store.database.value(count) == 1
    store.cleaner.get_limits = lambda: CleanupLimits(parts=0)
    store.cleaner.apply_limits()
    wait_until(lambda: store.database.value(count) == 0, lambda: "it is still there", 3)
    store.cleaner.stop()


# --- Expiry: rows stay until they expire, and then only these are deleted ---


def phases(store: Store, operation_id: str) -> list[str]:
    sql = "SELECT phase FROM delivery_phases WHERE operation = ? ORDER BY rowid"
    return [row[0] for row in store.database.rows(sql, (operation_id,))]


def ended(store: Store, mailbox: Mailbox, status: DeliveryStatus) -> str:
    """Add an operation that has ended with this status now."""
    operation = accept(store, mailbox, status)
    store.deliveries.enter_phases(operation, [(Phase.CONNECTING, AT)])
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
