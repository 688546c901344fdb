"""Counts the content of the store for `/metrics`, from indexes and small tables in milliseconds."""

from dataclasses import dataclass

from mailbox_appliance.clock import from_millis, from_timestamp
from mailbox_appliance.store.database import Database

#: Missing bodies of a mailbox are counted up to this number.
MOST_MISSING = 10_000

# Our own rows would give the number of messages as well, but all of them would have to be counted.
_MAILBOXES = f"""
SELECT a.id, a.status, a.last_sync_at, (SELECT total(exists_count) FROM folders f WHERE f.account = a.number),
  (SELECT count(*) FROM (SELECT 1 FROM folders f CROSS JOIN messages m ON m.folder = f.number AND m.body = 0
    WHERE f.account = a.number LIMIT {MOST_MISSING}))
FROM accounts a WHERE a.status <> 'removed' ORDER BY a.number"""
# Written as in the partial index. Operations of removed mailboxes do not count.
_THERE = "status IN ('queued', 'sending', 'uncertain') AND +account_id IN (SELECT id FROM accounts)"
_OPEN = f"SELECT status, count(*) FROM delivery_operations WHERE {_THERE} GROUP BY status"
_NEXT_DUE = """
SELECT min((SELECT min(next_attempt_at) FROM delivery_operations WHERE account_id = a.id
  AND next_attempt_at IS NOT NULL)) FROM accounts a"""
_MEMBERS = "SELECT status, count(*) FROM members GROUP BY status"
_SESSIONS = "SELECT count(*) FROM sessions"
_API_KEYS = "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL"
# If many wait, those accepted first are enough.
_LAST_STEP = f"""
SELECT min(at) FROM (SELECT updated_at AS at FROM delivery_operations WHERE status = ? AND {_THERE}
  ORDER BY number LIMIT 100)"""


@dataclass(frozen=True)
class MailboxStats:
    """Figures of one mailbox for `/metrics`.

    - last_sync_at: time of the last complete sync, in seconds since 1970; None if there was none.
    - messages: number of messages in the mailbox, as the server last reported it.
    - missing: number of messages whose body is not mirrored yet, counted up to MOST_MISSING.
    """

    id: str
    status: str
    last_sync_at: float | None
    messages: int
    missing: int


@dataclass(frozen=True)
class StoreStats:
    """Counts of the store's content at one moment, for `/metrics`. Times are in seconds since 1970."""

    mailboxes: tuple[MailboxStats, ...]
    deliveries: dict[str, int]
    #: The earliest last write of an operation that is `sending` or `uncertain`.
    last_step: dict[str, float]
    next_due: float | None
    members: dict[str, int]
    sessions: int
    api_keys: int


def collect_stats(database: Database) -> StoreStats:
    """Count the content of the store. Reads only, and does not wait for writers."""
    steps = {status: database.value(_LAST_STEP, (status,)) for status in ("sending", "uncertain")}
    due = database.value(_NEXT_DUE)
    return StoreStats(
        mailboxes=tuple(
            MailboxStats(id_, status, None if at is None else _to_seconds(at), int(messages), missing)
            for id_, status, at, messages, missing in database.rows(_MAILBOXES)
        ),
        deliveries=dict(database.rows(_OPEN)),
        last_step={status: _to_seconds(at) for status, at in steps.items() if at is not None},
        next_due=None if due is None else from_millis(due).timestamp(),
        members=dict(database.rows(_MEMBERS)),
        sessions=database.value(_SESSIONS),
        api_keys=database.value(_API_KEYS),
    )


def _to_seconds(timestamp: str) -> float:
    return from_timestamp(timestamp).timestamp()
