"""Merging into a restored store what was sent, revoked and logged since its backup.

    the present store is the later one .............. what was sent, revoked and changed since is merged
    the backup is what a restore replaced ........... the same, except for what that restore itself did
    related, and neither is later than the other .... what either knows to be over or revoked is; scheduled sends wait
    there is none, it does not open, or is another's  nothing is known: sessions end, and scheduled sends wait

Where HTTPS is offered stays as it is now in any case. `kinship.py` finds how the two are related, `merge_rights.py`
merges rights. If the present audit log begins with the restored one, its later rows are appended with their seals; a
broken log stays broken.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mailbox_appliance.clock import to_millis, to_timestamp
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.deliveries import DeliveryStatus
from mailbox_appliance.store import deliveries, moves
from mailbox_appliance.store.audit import FACT_COLUMNS
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.deliveries import DeliveryOutcome
from mailbox_appliance.store.delivery_queries import set_provider_draft
from mailbox_appliance.store.key import StoreKey
from mailbox_appliance.store.restore import merge_rights
from mailbox_appliance.store.restore.kinship import BackupOrigin, Kinship, Relation, find_kinship
from mailbox_appliance.store.restore.merge_rights import MergedRights
from mailbox_appliance.store.schema import TRIGGERS

# --- Sends since the backup, merged so that none happens again ---
#
#     in the present store ............ its row counts, with message, steps and chores; newer ones are added
#     in the backup only .............. being sent, or due before the restore: uncertain, evidence is looked for
#     waits in both and is due ........ the same, also where an attempt was cut off in the middle: a restore is followed
#                                       by no send of before it
#     in a mailbox that is not there .. what waits fails as `account_removed`
#     of who has lost the mailbox ..... what waits fails as `permission_revoked`, and is kept as a draft
#     where the two have forked ....... the row counts that knows more, what both take for open and is due is uncertain,
#                                       and what is scheduled waits for an administrator's word
#     where a restore is undone ....... what that restore ended is as the backup has it
#
# Restored is `main`, the other is `present`. Both hold the mailboxes by id; the numbers of either mean nothing in the
# other. Results may name messages that the restored mirror lacks: the next sync of the mailbox brings them.


HOLD_SETTING = "sending.hold_scheduled"
_SENDS_AT_ONCE = 2000
#: The warning of a send that a restore cannot know the end of.
OUTCOME_UNKNOWN = own_text(
    "The appliance was restored from a backup that was made before or while this message was sent, so it is unknown"
    " whether it was sent. Check the Sent folder or ask a recipient, then resolve the delivery."
)
#: The `last_cause` of such a send, by which a later restore finds it.
_BY_RESTORE = "restore"

_PRESENT_IDS = "SELECT id FROM present.delivery_operations"
# Withdrawn since, and its key used again: the later one counts. And a scheduled send of an old format has got another
# id with every upgrade, but is the same.
_IN_THE_WAY = f"""
DELETE FROM main.delivery_operations
WHERE id NOT IN ({_PRESENT_IDS}) AND id NOT IN (SELECT value FROM json_each(?)) AND (
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
_IS_OPEN = "status IN ('queued', 'sending', 'uncertain')"  # as in the index of what is open
_PRESENT_KNOWS = """
CASE {}.status WHEN 'succeeded' THEN 4 WHEN 'failed' THEN 3 WHEN 'uncertain' THEN 2 WHEN 'sending' THEN 1 ELSE 0 END"""
_BACKUP_KNOWS_MORE = f"{_PRESENT_KNOWS.format('r')} > {_PRESENT_KNOWS.format('p')}"
# What a restore did that is undone: in mailboxes that were gone by it, and where it took a send for doubtful.
_ENDED_BY_RESTORE = f"""
((p.status = r.status OR (p.error_code = 'account_removed' AND r.{_IS_OPEN}))
  AND r.account_id IN (SELECT id FROM main.accounts) AND r.account_id NOT IN (SELECT id FROM present.accounts)
  AND r.account_id NOT IN (SELECT target_id FROM present.audit_events WHERE number > :common
    AND action = 'account.delete' AND outcome = 'success' AND target_id IS NOT NULL)
 OR (p.status = 'uncertain' AND r.{_IS_OPEN} AND p.updated_at BETWEEN :began AND :ended
  AND p.last_cause = '{_BY_RESTORE}'))"""
# The same operation here and there: by its id, that of its schedule, or the key that it was asked for with.
_PAIRS_IN_BOTH = " UNION ".join(
    f"SELECT r.id, p.id FROM main.delivery_operations r JOIN present.delivery_operations p ON {same} WHERE {{0}}"
    for same in (
        "p.id = r.id",
        "p.schedule_id = r.schedule_id",
        "p.credential_id = r.credential_id AND p.idempotency_key = r.idempotency_key",
    )
)
# What was to be sent when the backup was made and is so still, by their ids in either. An attempt that is under way
# there was cut off: nobody carries it on, and the next start would make another one.
_WAITS_STILL = _PAIRS_IN_BOTH.format(
    f"p.{_IS_OPEN} AND p.status IN ('queued', 'sending') AND r.status IN ('queued', 'sending')"
)
_ONLY_IN_PRESENT = f"""
SELECT id FROM present.delivery_operations p WHERE {_IS_OPEN} AND id NOT IN (SELECT id FROM main.delivery_operations)
  AND NOT EXISTS (SELECT 1 FROM main.delivery_operations r WHERE r.schedule_id = p.schedule_id)"""
_UNDER_WAY = f"""
SELECT id, status FROM main.delivery_operations
WHERE {_IS_OPEN} AND (status = 'sending' OR (status = 'queued' AND send_at <= ?))
  AND id NOT IN (SELECT value FROM json_each(?))"""
_MISSING_MAILBOXES = """
SELECT id FROM present.accounts WHERE status <> 'removed' AND id NOT IN (SELECT id FROM main.accounts)"""


# Whoever scheduled it reaches the mailbox in one store or the other.
_REACHED_IN = """
EXISTS (SELECT 1 FROM {0}.accounts a JOIN {0}.members m ON m.id = d.member_id WHERE a.id = d.account_id
  AND (a.owner_member_id = m.id OR a.shared_with_all OR EXISTS (
    SELECT 1 FROM {0}.account_grants g WHERE g.account_id = a.id AND g.member_id = m.id)))"""
_OUT_OF_REACH = f"""
SELECT d.id FROM main.delivery_operations d WHERE d.{_IS_OPEN} AND d.status = 'queued'
  AND d.account_id IN (SELECT id FROM main.accounts) AND NOT {_REACHED_IN.format("main")}
  AND {_REACHED_IN.format("present")}"""


@dataclass(frozen=True)
class MergedSends:
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
class _BackupPrecedence:
    """Where the row of the backup counts: its ids, and the ids of those in the present store that do not. As JSON."""

    ours: str = "[]"
    theirs: str = "[]"


def merge_sends(database: Database, now: datetime, kinship: Kinship) -> MergedSends:
    """Carry over from the attached store `present`. Inside a transaction."""
    standing, known = _find_precedence(database, kinship), _known_ids(database, kinship)
    database.change(_IN_THE_WAY, (standing.ours,))
    newer = _merge_operations(database, standing)
    _merge_message_bytes(database, standing)
    _merge_chores(database, standing)
    database.change("INSERT OR REPLACE INTO main.legacy_idempotency SELECT * FROM present.legacy_idempotency")
    moves.delete_messages(database, [row[0] for row in database.rows(_COPIES_LEFT)])
    uncertain = _mark_uncertain(database, now, known)
    ended = _end_without_mailbox(database, now)
    if kinship.relation == "forked":
        _set_hold(database)
    else:
        _merge_hold(database)
    given_back = _return_unreachable(database, now)
    return MergedSends(newer, uncertain, ended, given_back, _count_waiting(database), _are_held(database))


def _find_precedence(database: Database, kinship: Kinship) -> _BackupPrecedence:
    if kinship.relation == "continues":
        return _BackupPrecedence()
    where, values = _BACKUP_KNOWS_MORE, dict[str, object]()
    if kinship.relation == "undone":
        where, values = _ENDED_BY_RESTORE, {"common": kinship.common}
        values |= {"began": kinship.began, "ended": kinship.ended}
    pairs = database.rows(_PAIRS_IN_BOTH.format(where), values)
    return _BackupPrecedence(*(json.dumps([pair[side] for pair in pairs]) for side in (0, 1)))


def _known_ids(database: Database, kinship: Kinship) -> str:
    """The ids (JSON) of what the present store knows, so that nobody need doubt it where it is open."""
    # Where the two have forked, that is what it alone has: it has seen that from the beginning.
    known = {"forked": _ONLY_IN_PRESENT, "undone": _PRESENT_IDS}
    ids = {row[0] for row in database.rows(known.get(kinship.relation, f"{_PRESENT_IDS} WHERE {_IS_OPEN}"))}
    return json.dumps(sorted(ids.difference(*database.rows(_WAITS_STILL))))


def hold_sends(database: Database, now: datetime) -> MergedSends:
    """Nothing is known of what happened since: what was under way or due is uncertain, what is scheduled waits for an
    administrator's word. Inside a transaction.
    """
    uncertain = _mark_uncertain(database, now)
    _set_hold(database)
    return MergedSends(uncertain=uncertain, waiting=_count_waiting(database), are_held=True)


def _merge_operations(database: Database, standing: _BackupPrecedence) -> int:
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
    offset, after, count = _number_offset(database), -1, 0
    while rows := database.rows(changed, (after, _SENDS_AT_ONCE)):
        ids = [row[1] for row in rows if row[2] and row[1] not in left]
        if ids:
            database.change(take, (offset, json.dumps(ids)))
            _merge_phases(database, ids)
        after, count = rows[-1][0], count + len(ids)
    return count


def _number_offset(database: Database) -> int:
    """What is added to the numbers of the other store: 0, so that the order stays, unless they are taken."""
    if database.value(_NUMBER_TAKEN) is None:
        return 0
    return int(database.value("SELECT max(number) FROM main.delivery_operations"))


def _merge_phases(database: Database, ids: list[str]) -> None:
    of = (json.dumps(ids),)
    database.change("DELETE FROM main.delivery_phases WHERE operation IN (SELECT value FROM json_each(?))", of)
    database.change(_COPY_CHILDREN.format("delivery_phases", "operation, attempt, phase, at"), of)


def _merge_message_bytes(database: Database, standing: _BackupPrecedence) -> None:
    """Bytes never change: they are there or not."""
    database.change(
        f"DELETE FROM main.delivery_messages WHERE operation IN ({_PRESENT_IDS})"
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


def _merge_chores(database: Database, standing: _BackupPrecedence) -> None:
    database.change(
        f"DELETE FROM main.delivery_chores WHERE operation IN ({_PRESENT_IDS}) AND {_NOT_LEFT}", (standing.ours,)
    )
    database.change(
        f"INSERT INTO main.delivery_chores SELECT * FROM present.delivery_chores WHERE {_NOT_LEFT}", (standing.theirs,)
    )


def mark_unknown(database: Database, operation_id: str, status: DeliveryStatus, now: datetime) -> None:
    """Give a delivery with this status the status `uncertain`, and record a restore as the cause."""
    outcome = DeliveryOutcome("uncertain", warnings=(OUTCOME_UNKNOWN,), came_from=status)
    deliveries.end_delivery(database, operation_id, outcome, now)
    database.change("UPDATE delivery_operations SET last_cause = ? WHERE id = ?", (_BY_RESTORE, operation_id))


def _mark_uncertain(database: Database, now: datetime, known: str = "[]") -> int:
    rows: list[Row] = database.rows(_UNDER_WAY, (to_timestamp(now), known))
    for operation_id, status in rows:
        mark_unknown(database, operation_id, status, now)
        # That a draft of then is there no more tells nothing: we remove what was not sent.
        set_provider_draft(database, operation_id, None)
    return len(rows)


def _end_without_mailbox(database: Database, now: datetime) -> int:
    waiting = f"SELECT count(*) FROM main.delivery_operations WHERE {_IS_OPEN} AND status = 'queued' AND account_id = ?"
    count = 0
    for (account_id,) in database.rows(_MISSING_MAILBOXES):
        count += database.value(waiting, (account_id,))
        deliveries.end_mailbox_deliveries(database, account_id, now)
    return count


def _return_unreachable(database: Database, now: datetime) -> int:
    """End what would be refused when it is due, though no person took the right to it; it becomes a draft."""
    rows = database.rows(_OUT_OF_REACH)
    for (operation_id,) in rows:
        # Before the end: with it go the bytes that nothing is left to be done with.
        keep = "INSERT OR IGNORE INTO main.delivery_chores (operation, kind, next_at) VALUES (?, 'keep_draft', ?)"
        database.change(keep, (operation_id, to_millis(now)))
        deliveries.end_delivery(
            database, operation_id, DeliveryOutcome("failed", "permission_revoked", came_from="queued"), now
        )
    return len(rows)


def _set_hold(database: Database) -> None:
    database.change("INSERT OR REPLACE INTO main.settings VALUES (?, 'true')", (HOLD_SETTING,))


def _merge_hold(database: Database) -> None:
    """Whether scheduled sends are held is as it is now, not as it was."""
    database.change("DELETE FROM main.settings WHERE name = ?", (HOLD_SETTING,))
    database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (HOLD_SETTING,))


def _are_held(database: Database) -> bool:
    return database.value("SELECT value FROM main.settings WHERE name = ?", (HOLD_SETTING,)) == "true"


def _count_waiting(database: Database) -> int:
    sql = f"SELECT count(*) FROM main.delivery_operations WHERE {_IS_OPEN} AND status = 'queued'"
    return int(database.value(sql))


# --- Everything: sends, rights, settings and the log ---


#: Where HTTPS is offered belongs to this computer: a restore must not shut out who administrates from elsewhere.
_HTTPS_SETTINGS = ("server.https", "server.https_port", "server.https_host")
_LOG_ROWS_AT_ONCE = 5000
# Of each of the two, while they are held against each other: indexes are written all over.
_CACHE_KIB = 48 * 1024
_LOG_COLUMNS = f"number, {FACT_COLUMNS}, mac"
# That the facts up to this row are those of the present log is known; so are the seals.
_SAME_SEALS = """
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND r.mac IS NOT p.mac)"""
_LOG_END = "SELECT name, value FROM present.meta WHERE name IN ('audit_head', 'audit_count')"
_MISSING_LOG_ROW = "SELECT 1 FROM present.audit_events WHERE id NOT IN (SELECT id FROM main.audit_events) LIMIT 1"
_LOG_TRIGGER = "audit_events_remain"  # the trigger that lets nobody delete a row of the log


@dataclass(frozen=True)
class MergeResult:
    """What became of sends and rights. `is_known`: the present store told what happened since the backup; else `why`
    it does not, where there is one. `relation`: how the two are related, where it was looked at.
    """

    is_known: bool
    why: str = ""
    sends: MergedSends = field(default_factory=MergedSends)
    rights: MergedRights = field(default_factory=MergedRights)
    relation: Relation | None = None
    #: All that the present log tells is in the restored one.
    has_log: bool = True


def merge_present(
    database: Database,
    present: Path,
    key: StoreKey,
    now: datetime,
    *,
    made: BackupOrigin | None = None,
    leave_log: bool = False,
) -> MergeResult:
    """Bring a restored store up to what the present one knows; both open with `key`. One durable transaction.

    The present store must be closed; it is only read. `now` is the moment of the restore: what was due before it and is
    unknown to the present store becomes uncertain. `made`: when and why the backup was made; without it nothing is
    known to be later than it. `leave_log`: not even a log that a crash has left is folded in.
    """
    with _attach_present(database, present, key, leave_log), database.transaction(durable=True):
        kinship = find_kinship(database, made)
        _keep_https(database)
        if kinship.relation == "stranger":
            carried = _merge_blindly(database, now, "it is another store, not a later state of this one", "stranger")
            merge_rights.ensure_administrator(database)
            return carried
        if kinship.relation == "forked":
            rights = merge_rights.merge_forked_rights(database, now, made)
        else:
            rights = merge_rights.merge_later_rights(database, now, kinship)
        sends = merge_sends(database, now, kinship)
        if kinship.relation != "forked":
            _append_present_log(database, kinship)
        has_log = database.value(_MISSING_LOG_ROW) is None
        return MergeResult(True, sends=sends, rights=rights, relation=kinship.relation, has_log=has_log)


def _keep_https(database: Database) -> None:
    for name in _HTTPS_SETTINGS:
        database.change("DELETE FROM main.settings WHERE name = ?", (name,))
        database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (name,))


def merge_nothing(database: Database, now: datetime, why: str = "") -> MergeResult:
    """The same where nothing is known of what happened since: all sessions end, scheduled sends wait for a word."""
    with database.transaction(durable=True):
        return _merge_blindly(database, now, why)


def _merge_blindly(database: Database, now: datetime, why: str, relation: Relation | None = None) -> MergeResult:
    merge_rights.end_all_access(database)
    return MergeResult(False, why, hold_sends(database, now), relation=relation)


@contextmanager
def _attach_present(database: Database, present: Path, key: StoreKey, leave_log: bool) -> Iterator[None]:
    # Bound, not written out: statements end in logs and traces.
    secret = "raw:" + key.derive("database").hex()
    database.change("ATTACH ? AS present KEY ?", (str(present), secret))
    for schema in ("main", "present"):
        database.change(f"PRAGMA {schema}.cache_size = -{_CACHE_KIB}")
    if leave_log:
        database.disable_checkpoints()
    try:
        yield
    finally:
        database.change("DETACH present")


def _append_present_log(database: Database, kinship: Kinship) -> None:
    """Append what the present log tells after the backup's end, its end with it; not where it has none, or where seals
    before it are others.
    """
    end: dict[str, str] = dict(database.rows(_LOG_END))
    number = kinship.common
    if len(end) < 2 or not database.value(_SAME_SEALS, (number,)):
        return
    # There is one at most, written while an old backup was unpacked.
    for (unpacked,) in database.rows("SELECT number FROM main.audit_events WHERE number > ?", (number,)):
        _delete_log_row(database, unpacked)
    copy = (
        f"INSERT INTO main.audit_events ({_LOG_COLUMNS}) SELECT {_LOG_COLUMNS} FROM present.audit_events"
        f" WHERE number > ? ORDER BY number LIMIT {_LOG_ROWS_AT_ONCE}"
    )
    while database.change(copy, (number,)):
        number = database.value("SELECT max(number) FROM main.audit_events")
    for name, value in end.items():
        database.change("UPDATE main.meta SET value = ? WHERE name = ?", (value, name))


def _delete_log_row(database: Database, number: int) -> None:
    database.change(f"DROP TRIGGER main.{_LOG_TRIGGER}")
    database.change("DELETE FROM main.audit_events WHERE number = ?", (number,))
    database.change(TRIGGERS[_LOG_TRIGGER])
