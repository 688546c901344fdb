"""Sends that happened since a backup was made, so that none happens again: carried into the restored store.

    in the present store ............ its row counts, with message, steps and chores; newer ones are added
    in the backup only .............. being sent, or due before the restore: uncertain, evidence is looked for
    waits in both and is due ........ the same, also where an attempt was cut off in the middle: a restore is followed
                                      by no send of before it
    in a mailbox that is not there .. what waits fails as `account_removed`
    of who has lost the mailbox ..... what waits fails as `permission_revoked`, and is kept as a draft
    where the two have forked ....... the row counts that knows more, what both take for open and is due is uncertain,
                                      and what is scheduled waits for an administrator's word
    where a restore is undone ....... what that restore ended is as the backup has it

Restored is `main`, the other is `present`. Both hold the mailboxes by id; the numbers of either mean nothing in the
other. Results may name messages that the restored mirror lacks: they come with the next look at the mailbox.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_millis, to_timestamp
from mailbox_appliance.store import endings, removal
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.delivery_rows import note_draft
from mailbox_appliance.store.endings import Ending
from mailbox_appliance.store.kinship import Kinship

HOLD = "sending.hold_scheduled"
_BATCH = 2000
#: The warning of a send that a restore cannot know the end of.
NOT_KNOWN = (
    "The appliance was restored from a backup that was made before this was sent, or while it was: nobody knows whether"
    " it has been sent. Look into the Sent folder, or ask a recipient, then decide it."
)

_THEIRS = "SELECT id FROM present.delivery_operations"
# Withdrawn since, and its key used again: the later one counts. And a scheduled send of an old format has got another
# id with every upgrade, but is the same.
_IN_THE_WAY = f"""
DELETE FROM main.delivery_operations WHERE id NOT IN ({_THEIRS}) AND id NOT IN (SELECT value FROM json_each(?)) AND (
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
_NOT_LEFT = "operation NOT IN (SELECT value FROM json_each(?))"
_OPEN = "status IN ('queued', 'sending', 'uncertain')"  # as in the index of what is open
_KNOWS = """
CASE {}.status WHEN 'succeeded' THEN 4 WHEN 'failed' THEN 3 WHEN 'uncertain' THEN 2 WHEN 'sending' THEN 1 ELSE 0 END"""
_KNOWS_MORE = f"{_KNOWS.format('r')} > {_KNOWS.format('p')}"
# What a restore did that is undone: in mailboxes that were gone by it, and where it took a send for doubtful.
_ENDED_BY_RESTORE = f"""
((p.status = r.status OR (p.error_code = 'account_removed' AND r.{_OPEN}))
  AND r.account_id IN (SELECT id FROM main.accounts) AND r.account_id NOT IN (SELECT id FROM present.accounts)
  AND r.account_id NOT IN (SELECT target_id FROM present.audit_events WHERE number > :common
    AND action = 'account.delete' AND outcome = 'success' AND target_id IS NOT NULL)
 OR (p.status = 'uncertain' AND r.{_OPEN} AND p.updated_at BETWEEN :began AND :ended
  AND EXISTS (SELECT 1 FROM json_each(p.warnings) WHERE value = :not_known)))"""
# The same operation here and there: by its id, that of its schedule, or the key that it was asked for with.
_BOTH = " UNION ".join(
    f"SELECT r.id, p.id FROM main.delivery_operations r JOIN present.delivery_operations p ON {same} WHERE {{0}}"
    for same in (
        "p.id = r.id",
        "p.schedule_id = r.schedule_id",
        "p.credential_id = r.credential_id AND p.idempotency_key = r.idempotency_key",
    )
)
# What was to be sent when the backup was made and is so still, by their ids in either. An attempt that is under way
# there was cut off: nobody carries it on, and the next start would make another one.
_WAITS_STILL = _BOTH.format(f"p.{_OPEN} AND p.status IN ('queued', 'sending') AND r.status IN ('queued', 'sending')")
_THEIRS_ALONE = f"""
SELECT id FROM present.delivery_operations p WHERE {_OPEN} AND id NOT IN (SELECT id FROM main.delivery_operations)
  AND NOT EXISTS (SELECT 1 FROM main.delivery_operations r WHERE r.schedule_id = p.schedule_id)"""
_UNDER_WAY = f"""
SELECT id, status FROM main.delivery_operations
WHERE {_OPEN} AND (status = 'sending' OR (status = 'queued' AND send_at <= ?))
  AND id NOT IN (SELECT value FROM json_each(?))"""
_GONE = """
SELECT id FROM present.accounts WHERE status <> 'removed' AND id NOT IN (SELECT id FROM main.accounts)"""


# Whoever scheduled it reaches the mailbox in one store or the other.
_REACHED_IN = """
EXISTS (SELECT 1 FROM {0}.accounts a JOIN {0}.members m ON m.id = d.member_id WHERE a.id = d.account_id
  AND (a.owner_member_id = m.id OR a.shared_with_all OR EXISTS (
    SELECT 1 FROM {0}.account_grants g WHERE g.account_id = a.id AND g.member_id = m.id)))"""
_OUT_OF_REACH = f"""
SELECT d.id FROM main.delivery_operations d WHERE d.{_OPEN} AND d.status = 'queued'
  AND d.account_id IN (SELECT id FROM main.accounts) AND NOT {_REACHED_IN.format("main")}
  AND {_REACHED_IN.format("present")}"""


@dataclass(frozen=True)
class Sends:
    """How many: `newer` than the backup or changed since; `uncertain` now; `ended` with a mailbox that is not in the
    backup; `given_back` as drafts, since whoever scheduled them has the mailbox in the present store only; and
    `waiting`: scheduled for later, where `are_held` until an administrator says a word.
    """

    newer: int = 0
    uncertain: int = 0
    ended: int = 0
    given_back: int = 0
    waiting: int = 0
    are_held: bool = False


@dataclass(frozen=True)
class _Standing:
    """Where the row of the backup counts: its ids, and the ids of those in the present store that do not. As JSON."""

    ours: str = "[]"
    theirs: str = "[]"


def carry(database: Database, now: datetime, kinship: Kinship) -> Sends:
    """Carry over from the attached store `present`. Inside a transaction."""
    standing, known = _standing(database, kinship), _known(database, kinship)
    database.change(_IN_THE_WAY, (standing.ours,))
    newer = _take_operations(database, standing)
    _take_messages(database, standing)
    _take_chores(database, standing)
    database.change("INSERT OR REPLACE INTO main.legacy_idempotency SELECT * FROM present.legacy_idempotency")
    removal.delete(database, [row[0] for row in database.rows(_COPIES_LEFT)])
    uncertain = _doubt(database, now, known)
    ended = _end_without_mailbox(database, now)
    if kinship.relation == "forked":
        _hold(database)
    else:
        _take_hold(database)
    given_back = _give_back(database, now)
    return Sends(newer, uncertain, ended, given_back, _waiting(database), _are_held(database))


def _standing(database: Database, kinship: Kinship) -> _Standing:
    if kinship.relation == "continues":
        return _Standing()
    where, values = _KNOWS_MORE, dict[str, object]()
    if kinship.relation == "undone":
        where, values = _ENDED_BY_RESTORE, {"common": kinship.common, "not_known": NOT_KNOWN}
        values |= {"began": kinship.began, "ended": kinship.ended}
    pairs = database.rows(_BOTH.format(where), values)
    return _Standing(*(json.dumps([pair[side] for pair in pairs]) for side in (0, 1)))


def _known(database: Database, kinship: Kinship) -> str:
    """The ids (JSON) of what the present store knows, so that nobody need doubt it where it is open."""
    # Where the two have forked, that is what it alone has: it has seen that from the beginning.
    known = {"forked": _THEIRS_ALONE, "undone": _THEIRS}
    ids = {row[0] for row in database.rows(known.get(kinship.relation, f"{_THEIRS} WHERE {_OPEN}"))}
    return json.dumps(sorted(ids.difference(*database.rows(_WAITS_STILL))))


def hold(database: Database, now: datetime) -> Sends:
    """Nothing is known of what happened since: what was under way or due is uncertain, what is scheduled waits for an
    administrator's word. Inside a transaction.
    """
    uncertain = _doubt(database, now)
    _hold(database)
    return Sends(uncertain=uncertain, waiting=_waiting(database), are_held=True)


def _take_operations(database: Database, standing: _Standing) -> int:
    """The rows that are another there, or not here; answers how many. Those that both have keep their number here."""
    left = frozenset(json.loads(standing.theirs))
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
        ids = [row[1] for row in rows if row[2] and row[1] not in left]
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


def _take_messages(database: Database, standing: _Standing) -> None:
    """Bytes never change: they are there or not."""
    database.change(
        f"DELETE FROM main.delivery_messages WHERE operation IN ({_THEIRS})"
        " AND operation NOT IN (SELECT operation FROM present.delivery_messages)"
        " AND operation NOT IN (SELECT value FROM json_each(?))",
        (standing.ours,),
    )
    database.change(
        f"INSERT OR IGNORE INTO main.delivery_messages SELECT * FROM present.delivery_messages WHERE {_NOT_LEFT}",
        (standing.theirs,),
    )
    database.change(
        f"INSERT OR IGNORE INTO main.delivery_chunks SELECT * FROM present.delivery_chunks WHERE {_NOT_LEFT}",
        (standing.theirs,),
    )


def _take_chores(database: Database, standing: _Standing) -> None:
    database.change(
        f"DELETE FROM main.delivery_chores WHERE operation IN ({_THEIRS}) AND {_NOT_LEFT}", (standing.ours,)
    )
    database.change(
        f"INSERT INTO main.delivery_chores SELECT * FROM present.delivery_chores WHERE {_NOT_LEFT}", (standing.theirs,)
    )


def _doubt(database: Database, now: datetime, known: str = "[]") -> int:
    rows: list[Row] = database.rows(_UNDER_WAY, (to_timestamp(now), known))
    for operation_id, status in rows:
        ending = Ending("uncertain", warnings=(NOT_KNOWN,), came_from=status)
        endings.end(database, operation_id, ending, now)
        # That a draft of then is there no more tells nothing: we remove what was not sent.
        note_draft(database, operation_id, None)
    return len(rows)


def _end_without_mailbox(database: Database, now: datetime) -> int:
    waiting = f"SELECT count(*) FROM main.delivery_operations WHERE {_OPEN} AND status = 'queued' AND account_id = ?"
    count = 0
    for (account_id,) in database.rows(_GONE):
        count += database.value(waiting, (account_id,))
        endings.end_with_mailbox(database, account_id, now)
    return count


def _give_back(database: Database, now: datetime) -> int:
    """End what would be refused when it is due, though no person took the right to it; it becomes a draft."""
    rows = database.rows(_OUT_OF_REACH)
    for (operation_id,) in rows:
        # Before the end: with it go the bytes that nothing is left to be done with.
        keep = "INSERT OR IGNORE INTO main.delivery_chores (operation, kind, next_at) VALUES (?, 'keep_draft', ?)"
        database.change(keep, (operation_id, to_millis(now)))
        endings.end(database, operation_id, Ending("failed", "permission_revoked", came_from="queued"), now)
    return len(rows)


def _hold(database: Database) -> None:
    database.change("INSERT OR REPLACE INTO main.settings VALUES (?, 'true')", (HOLD,))


def _take_hold(database: Database) -> None:
    """Whether scheduled sends are held is as it is now, not as it was."""
    database.change("DELETE FROM main.settings WHERE name = ?", (HOLD,))
    database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (HOLD,))


def _are_held(database: Database) -> bool:
    return database.value("SELECT value FROM main.settings WHERE name = ?", (HOLD,)) == "true"


def _waiting(database: Database) -> int:
    sql = f"SELECT count(*) FROM main.delivery_operations WHERE {_OPEN} AND status = 'queued'"
    return int(database.value(sql))
