"""Counts of the store's content: correct, and answered from indexes, however large the store is."""

from datetime import datetime

from mailbox_appliance.clock import from_millis, from_timestamp
from mailbox_appliance.store import stats
from mailbox_appliance.store.store import Store
from tests.store.mail import ROLES, Mailbox, execute, fetched, parsed

_COLUMNS = (
    "id, account_id, credential_id, member_id, request_hash, kind, status, phase, envelope, message_id_header,"
    " result_id, result_thread_id, next_attempt_at, created_at, updated_at"
)


def deliver(store: Store, account: str, status: str, created_at: str, due: int | None = None) -> None:
    """Insert the row of an operation."""
    name = f"op_{status}{created_at}"
    values = (name, account, "c", "m", "h", "send", status, "x", "{}", "x", "r", "t", due, created_at, created_at)
    execute(store, f"INSERT INTO delivery_operations ({_COLUMNS}) VALUES ({'?, ' * 14}?)", values)


def seconds(timestamp: str) -> float:
    moment: datetime = from_timestamp(timestamp)
    return moment.timestamp()


def test_an_empty_store(store: Store) -> None:
    assert stats.collect_stats(store.database) == stats.StoreStats((), {}, {}, None, {}, 0, 0)


def test_mailboxes(store: Store, mailbox: Mailbox) -> None:
    other = Mailbox(store, mailbox.owner)
    mailbox.add(1)
    store.mailbox_writer.add_headers(mailbox.folder(), [(fetched(uid), parsed(f"<{uid}@x>")) for uid in (2, 3)])
    with store.database.transaction():
        store.database.change("UPDATE folders SET exists_count = 5 WHERE path <> 'Sent'")
        store.database.change(
            "UPDATE accounts SET status = 'ready', last_sync_at = '2026-03-04T05:06:07.500Z' WHERE id = ?", (other.id,)
        )
        store.accounts.remove(Mailbox(store, mailbox.owner).id)
    found = stats.collect_stats(store.database)
    assert [one.id for one in found.mailboxes] == [mailbox.id, other.id]
    assert [one.status for one in found.mailboxes] == ["connecting", "ready"]
    assert [one.last_sync_at for one in found.mailboxes] == [None, seconds("2026-03-04T05:06:07.500Z")]
    assert [one.messages for one in found.mailboxes] == [5 * (len(ROLES) - 1)] * 2
    assert [one.missing for one in found.mailboxes] == [2, 0]
    assert found.members == {"active": 1}


def test_deliveries_and_what_is_due_next(store: Store, mailbox: Mailbox) -> None:
    for day in ("02", "01", "03"):
        deliver(store, mailbox.id, "uncertain", f"2026-01-{day}T00:00:00.000Z")
    deliver(store, mailbox.id, "queued", "2026-01-01T00:00:00.000Z", due=2_000_000_000_000)
    deliver(store, mailbox.id, "queued", "2026-01-02T00:00:00.000Z", due=1_900_000_000_000)
    deliver(store, mailbox.id, "succeeded", "2026-01-01T00:00:00.000Z")
    deliver(store, "acc_gone", "uncertain", "2025-01-01T00:00:00.000Z")
    found = stats.collect_stats(store.database)
    assert found.deliveries == {"queued": 2, "uncertain": 3}
    assert found.last_step == {"uncertain": seconds("2026-01-01T00:00:00.000Z")}
    assert found.next_due == from_millis(1_900_000_000_000).timestamp()


def test_nothing_that_there_is_much_of_is_gone_through(store: Store) -> None:
    for sql in (stats._MAILBOXES, stats._OPEN, stats._NEXT_DUE, stats._LAST_STEP):
        plan = store.database.rows(f"EXPLAIN QUERY PLAN {sql}", ("uncertain",) * sql.count("?"))
        scans = {step for step in (str(row[3]) for row in plan) if step.startswith("SCAN")}
        # The accounts, and the results of another step.
        assert {scan for scan in scans if not scan.startswith("SCAN (")} <= {"SCAN a"}, plan
