"""What is kept for a time only: deleted a batch at a time, each a transaction, so that nobody waits for long.

legacy_idempotency   until the key has expired
delivery_phases      `store.keep_phases_days`, and as long as the operation is not over; its outcome stays
"""

from datetime import datetime, timedelta

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.store.database import Database

PHASES_KEPT = timedelta(days=90)  # unless a setting says otherwise
BATCH = 500  # phases that are looked at in a step: some 10 ms where all of them go

# In the order in which they were written.
_PHASES = """
SELECT p.rowid, p.at < ?, d.status IN ('succeeded', 'failed') FROM delivery_phases p
  CROSS JOIN delivery_operations d ON d.id = p.operation WHERE p.rowid > ? ORDER BY p.rowid LIMIT ?"""


def delete_legacy_keys(database: Database, now: datetime) -> None:
    """Delete the answers whose keys have expired. A transaction."""
    with database.transaction():
        database.change("DELETE FROM legacy_idempotency WHERE expires_at <= ?", (to_timestamp(now),))


def delete_some_phases(database: Database, now: datetime, after: int, kept: timedelta = PHASES_KEPT) -> int | None:
    """Look at the next phases behind this position, and delete the outdated ones; answers where to go on.

    None: what follows is not that old.
    """
    rows = database.rows(_PHASES, (to_timestamp(now - kept), after, BATCH))
    outdated = [(number,) for number, is_old, is_over in rows if is_old and is_over]
    if outdated:
        with database.transaction():
            database.change_many("DELETE FROM delivery_phases WHERE rowid = ?", outdated)
    return rows[-1][0] if len(rows) == BATCH and any(is_old for _, is_old, _ in rows) else None
