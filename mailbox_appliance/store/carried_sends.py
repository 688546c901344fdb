"""Sends that happened since a backup was made, so that none happens again: carried into the restored store.

    in the present store ............ its row counts, with message, steps and chores; newer ones are added
    in the backup only .............. being sent, or due before the restore: uncertain, evidence is looked for
    in a mailbox that is not there .. what waits fails as `account_removed`

Restored is `main`, the other is `present`. Both hold the mailboxes by id; the numbers of either mean nothing in the
other. Results may name messages that the restored mirror lacks: they come with the next look at the mailbox.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.store import endings, removal
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.endings import Ending

HOLD = "sending.hold_scheduled"
_BATCH = 2000
_NOT_KNOWN = (
    "The appliance was restored from a backup that was made before this was sent, or while it was: nobody knows whether"
    " it has been sent. Look into the Sent folder, or ask a recipient, then decide it."
)

_THEIRS = "SELECT id FROM present.delivery_operations"
# Withdrawn since, and its key used again: the later one counts. And a scheduled send of an old format has got another
# id with every upgrade, but is the same.
_IN_THE_WAY = f"""
DELETE FROM main.delivery_operations WHERE id NOT IN ({_THEIRS}) AND (
  EXISTS (SELECT 1 FROM present.delivery_operations p WHERE p.credential_id = delivery_operations.credential_id
    AND p.idempotency_key = delivery_operations.idempotency_key)
  OR EXISTS (SELECT 1 FROM present.delivery_operations p WHERE p.schedule_id = delivery_operations.schedule_id))"""
_NUMBER_TAKEN = """
SELECT 1 FROM main.delivery_operations r JOIN present.delivery_operations p ON p.number = r.number AND p.id <> r.id
LIMIT 1"""
_COPY_CHILDREN = (
    "INSERT INTO main.{0} ({1}) SELECT {1} FROM present.{0} WHERE operation IN (SELECT value FROM json_each(?))"
)
# Our copies that stand in the restored mirror and will never be filed: what stands for them is elsewhere, or gone.
_COPIES_LEFT = """
SELECT m.number FROM main.folders f CROSS JOIN main.messages m ON m.folder = f.number AND m.uid IS NULL
WHERE m.gone = 0
  AND m.id IN (SELECT result_id FROM main.delivery_operations WHERE copy <> 'pending')
  AND NOT EXISTS (SELECT 1 FROM present.messages p JOIN present.folders pf ON pf.number = p.folder
    WHERE p.id = m.id AND pf.id = f.id)"""
_OPEN = "status IN ('queued', 'sending', 'uncertain')"  # as in the index of what is open
_UNDER_WAY = f"""
SELECT id, status FROM main.delivery_operations
WHERE {_OPEN} AND (status = 'sending' OR (status = 'queued' AND send_at <= ?))"""
_GONE = """
SELECT id FROM present.accounts WHERE status <> 'removed' AND id NOT IN (SELECT id FROM main.accounts)"""


@dataclass(frozen=True)
class Sends:
    """How many: `newer` than the backup or changed since; `uncertain` now; `ended` with a mailbox that is not in the
    backup; and `waiting`: scheduled for later, held where nobody knows whether they have been sent since.
    """

    newer: int = 0
    uncertain: int = 0
    ended: int = 0
    waiting: int = 0


def carry(database: Database, now: datetime) -> Sends:
    """Carry over from the attached store `present`. Inside a transaction."""
    database.change(_IN_THE_WAY)
    newer = _take_operations(database)
    _take_messages(database)
    _take_chores(database)
    database.change("INSERT OR REPLACE INTO main.legacy_idempotency SELECT * FROM present.legacy_idempotency")
    removal.delete(database, [row[0] for row in database.rows(_COPIES_LEFT)])
    uncertain = _doubt(database, f"{_UNDER_WAY} AND id NOT IN ({_THEIRS})", now)
    ended = _end_without_mailbox(database, now)
    _take_hold(database)
    return Sends(newer, uncertain, ended, _waiting(database))


def hold(database: Database, now: datetime) -> Sends:
    """Nothing is known of what happened since: what was under way or due is uncertain, what is scheduled waits for an
    administrator's word. Inside a transaction.
    """
    uncertain = _doubt(database, _UNDER_WAY, now)
    database.change("INSERT OR REPLACE INTO main.settings VALUES (?, 'true')", (HOLD,))
    return Sends(uncertain=uncertain, waiting=_waiting(database))


def _take_operations(database: Database) -> int:
    """The rows that are another there, or not here; answers how many. Those that both have keep their number here."""
    columns = [
        str(row[1]) for row in database.rows("PRAGMA main.table_info(delivery_operations)") if row[1] != "number"
    ]
    ours, theirs = (", ".join(f"{of}.{name}" for name in columns) for of in ("r", "p"))
    changed = (
        "SELECT p.number, p.id, r.id IS NULL OR"
        f" ({ours}) IS NOT ({theirs}) FROM present.delivery_operations p"
        " LEFT JOIN main.delivery_operations r ON r.id = p.id WHERE p.number > ? ORDER BY p.number LIMIT ?"
    )
    take = (
        f"INSERT INTO main.delivery_operations (number, {', '.join(columns)}) SELECT p.number + ?, {theirs}"
        " FROM present.delivery_operations p WHERE p.id IN (SELECT value FROM json_each(?)) ORDER BY p.number"
        f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns)}"
    )
    offset, after, count = _offset(database), -1, 0
    while rows := database.rows(changed, (after, _BATCH)):
        ids = [row[1] for row in rows if row[2]]
        if ids:
            database.change(take, (offset, json.dumps(ids)))
            _take_phases(database, ids)
        after, count = rows[-1][0], count + len(ids)
    return count


def _offset(database: Database) -> int:
    """What is added to the numbers of the other store: 0, so that the order stays, unless they are taken."""
    if database.value(_NUMBER_TAKEN) is None:
        return 0
    return int(database.value("SELECT max(number) FROM main.delivery_operations"))


def _take_phases(database: Database, ids: list[str]) -> None:
    of = (json.dumps(ids),)
    database.change("DELETE FROM main.delivery_phases WHERE operation IN (SELECT value FROM json_each(?))", of)
    database.change(_COPY_CHILDREN.format("delivery_phases", "operation, attempt, phase, at"), of)


def _take_messages(database: Database) -> None:
    """Bytes never change: they are there or not."""
    database.change(
        f"DELETE FROM main.delivery_messages WHERE operation IN ({_THEIRS})"
        " AND operation NOT IN (SELECT operation FROM present.delivery_messages)"
    )
    database.change("INSERT OR IGNORE INTO main.delivery_messages SELECT * FROM present.delivery_messages")


def _take_chores(database: Database) -> None:
    database.change(f"DELETE FROM main.delivery_chores WHERE operation IN ({_THEIRS})")
    database.change("INSERT INTO main.delivery_chores SELECT * FROM present.delivery_chores")


def _doubt(database: Database, sql: str, now: datetime) -> int:
    rows: list[Row] = database.rows(sql, (to_timestamp(now),))
    for operation_id, status in rows:
        ending = Ending("uncertain", warnings=(_NOT_KNOWN,), came_from=status)
        endings.end(database, operation_id, ending, now)
    return len(rows)


def _end_without_mailbox(database: Database, now: datetime) -> int:
    waiting = f"SELECT count(*) FROM main.delivery_operations WHERE {_OPEN} AND status = 'queued' AND account_id = ?"
    count = 0
    for (account_id,) in database.rows(_GONE):
        count += database.value(waiting, (account_id,))
        endings.end_with_mailbox(database, account_id, now)
    return count


def _take_hold(database: Database) -> None:
    """Whether scheduled sends are held is as it is now, not as it was."""
    database.change("DELETE FROM main.settings WHERE name = ?", (HOLD,))
    database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (HOLD,))


def _waiting(database: Database) -> int:
    sql = f"SELECT count(*) FROM main.delivery_operations WHERE {_OPEN} AND status = 'queued'"
    return int(database.value(sql))
