"""Merging into a restored store what was sent, revoked and logged since its backup.

How the present store and the backup are related is read from their audit logs, and decides what is merged:

    continues .... The present log begins with the whole log of the backup: the present store is the later one. What
                   was sent, revoked and changed since is merged.
    forked ....... They are related, but the present store is earlier, the two have diverged, or the backup is the
                   pre-restore backup of the restore that comes next in the present log. Deliveries and revoked API
                   keys are merged; sessions end, scheduled messages are on hold.
    stranger ..... The stores are unrelated. The same as if there is no present store, or if it cannot be read:
                   nothing is known, sessions end, scheduled messages are on hold.

Deliveries are not in the log. If any delivery has progressed further in the backup than in the present store, the
stores count as forked.

The HTTPS settings of the present store are kept, if it opens. If its audit log begins with the restored one, its later
rows are appended unchanged, with their HMACs, so a log that was altered is still detected. The module `merge_rights`
merges members, keys, sessions and shares. In SQL, the restored store is `main` and the present one is `present`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from mailbox_appliance.clock import to_millis, to_timestamp
from mailbox_appliance.model.base import own_text
from mailbox_appliance.store import changes, deliveries, moves, undo
from mailbox_appliance.store.audit import FACT_COLUMNS
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.deliveries import DeliveryOutcome
from mailbox_appliance.store.delivery_queries import set_provider_draft
from mailbox_appliance.store.key import StoreKey
from mailbox_appliance.store.restore import merge_rights
from mailbox_appliance.store.restore.merge_rights import MergedRights
from mailbox_appliance.store.schema import TRIGGERS

# --- Deliveries since the backup, merged so that no message is sent again ---
#
#     in the present store ............ Its row counts, with message, steps and follow-up tasks; newer ones are added.
#     in the backup only .............. If it was being sent or was due before the restore, it becomes uncertain.
#     queued in both and due .......... The same, even if an attempt was interrupted: no message from before a restore
#                                       is sent after it.
#     in a missing mailbox ............ Queued operations fail as `account_removed`.
#     its sender has lost access ...... Queued operations fail as `permission_revoked`, and are kept as drafts.
#     waiting for an approval ......... It waits on if it waits in the present store, with the approval of that store.
#                                       Elsewhere it may have been approved and sent since, so it becomes uncertain.
#     after the two have forked ....... The row that is further advanced counts. Operations that are open in both and
#                                       due become uncertain, and scheduled messages are on hold for an administrator.
#                                       Operations in a mailbox that only the backup has, such as those that a restore
#                                       ended with it, are as in the backup.
#
# Mailboxes have the same IDs in both, but not the same numbers.
# Results may name messages that the restored mirror lacks: the next sync of the mailbox adds them.


HOLD_SETTING = "sending.hold_scheduled"
_SENDS_AT_ONCE = 2000
#: The warning of a delivery whose outcome is unknown after a restore.
OUTCOME_UNKNOWN = own_text(
    "The appliance was restored from a backup that was made before or while this message was sent, so it is unknown"
    " whether it was sent. Check the Sent folder or ask a recipient, then resolve the delivery."
)

_PRESENT_IDS = "SELECT id FROM present.delivery_operations"
# Operations withdrawn since, whose key was used again: the later one counts. And a scheduled message of an old format
# gets another ID in every upgrade, but is the same.
_IN_THE_WAY = f"""
DELETE FROM main.delivery_operations
WHERE id NOT IN ({_PRESENT_IDS}) AND id NOT IN (SELECT value FROM json_each(?)) AND (
  EXISTS (SELECT 1 FROM present.delivery_operations p WHERE p.credential_id = delivery_operations.credential_id
    AND p.idempotency_key = delivery_operations.idempotency_key)
  OR EXISTS (SELECT 1 FROM present.delivery_operations p WHERE p.schedule_id = delivery_operations.schedule_id))"""
_NUMBER_TAKEN = """
SELECT 1 FROM main.delivery_operations r JOIN present.delivery_operations p ON p.number = r.number AND p.id <> r.id
LIMIT 1"""
_COPY_PHASES = """
INSERT INTO main.delivery_phases (operation, attempt, phase, at) SELECT operation, attempt, phase, at
FROM present.delivery_phases WHERE operation IN (SELECT value FROM json_each(?))"""
# Our copies in the restored mirror that will never be filed: the filed copy is in another folder, or gone.
_COPIES_LEFT = """
SELECT m.number FROM main.folders f CROSS JOIN main.messages m ON m.folder = f.number AND m.uid IS NULL
WHERE m.gone = 0
  AND m.id IN (SELECT result_id FROM main.delivery_operations WHERE copy <> 'pending')
  AND NOT EXISTS (SELECT 1 FROM present.messages p JOIN present.folders pf ON pf.number = p.folder
    WHERE p.id = m.id AND pf.id = f.id)"""
_NOT_LEFT = "operation NOT IN (SELECT value FROM json_each(?))"
_IS_OPEN = "status IN ('queued', 'sending', 'uncertain')"  # written as in the index of open operations
_PROGRESS = """
CASE {}.status WHEN 'succeeded' THEN 4 WHEN 'failed' THEN 3 WHEN 'uncertain' THEN 2 WHEN 'sending' THEN 1 ELSE 0 END"""
_BACKUP_COUNTS = f"""
({_PROGRESS.format("r")} > {_PROGRESS.format("p")} OR (r.account_id NOT IN (SELECT id FROM present.accounts)
  AND (p.status = r.status OR (p.error_code = 'account_removed' AND r.{_IS_OPEN}))))"""
# The same operation in both: by its ID, by the ID of its schedule, or by its idempotency key.
_PAIRS_IN_BOTH = " UNION ".join(
    f"SELECT r.id, p.id FROM main.delivery_operations r JOIN present.delivery_operations p ON {same} WHERE {{0}}"
    for same in (
        "p.id = r.id",
        "p.schedule_id = r.schedule_id",
        "p.credential_id = r.credential_id AND p.idempotency_key = r.idempotency_key",
    )
)
# Operations still to be sent now as when the backup was made, by their IDs in both. An attempt in progress in the
# present store was interrupted, and the next start would make another one.
_WAITS_STILL = _PAIRS_IN_BOTH.format(
    f"p.{_IS_OPEN} AND p.status IN ('queued', 'sending') AND r.status IN ('queued', 'sending')"
)
_ONLY_IN_PRESENT = f"""
SELECT id FROM present.delivery_operations p WHERE {_IS_OPEN} AND id NOT IN (SELECT id FROM main.delivery_operations)
  AND NOT EXISTS (SELECT 1 FROM main.delivery_operations r WHERE r.schedule_id = p.schedule_id)"""
_UNDER_WAY = f"""
SELECT id, status FROM main.delivery_operations
WHERE {_IS_OPEN} AND (status = 'sending' OR (status = 'queued' AND (send_at <= ?
    OR id IN (SELECT operation FROM main.approvals WHERE status = 'pending'))))
  AND id NOT IN (SELECT value FROM json_each(?))"""
_WAITS_FOR_APPROVAL = "SELECT operation FROM present.approvals WHERE status = 'pending'"
_MISSING_MAILBOXES = """
SELECT id FROM present.accounts WHERE status <> 'removed' AND id NOT IN (SELECT id FROM main.accounts)"""


# Whether the sender has access to the mailbox in one store or the other.
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
    """Counts of deliveries that a merge changed.

    - newer: new or different in the present store, and copied.
    - uncertain: became uncertain, since it is unknown whether they were sent.
    - ended: failed, since their mailbox is not in the backup.
    - given_back: failed and kept as drafts, since in the restored store their sender has no access to the mailbox.
    - waiting: scheduled for later; on hold until an administrator releases them if `are_held`.
    """

    newer: int = 0
    uncertain: int = 0
    ended: int = 0
    given_back: int = 0
    waiting: int = 0
    are_held: bool = False


@dataclass(frozen=True)
class _BackupPrecedence:
    """Deliveries whose row in the restored store is kept: their IDs there and in the present store, as JSON lists."""

    ours: str = "[]"
    theirs: str = "[]"


def merge_sends(database: Database, now: datetime, *, is_forked: bool) -> MergedSends:
    """Merge the deliveries of the store attached as `present` into the restored store, so that no message is sent
    twice.

    The caller must be in a transaction. `is_forked`: the present store is not later than the backup. Then scheduled
    messages are on hold.
    """
    standing, known = _BackupPrecedence(), f"{_PRESENT_IDS} WHERE {_IS_OPEN}"
    if is_forked:
        pairs = database.rows(_PAIRS_IN_BOTH.format(_BACKUP_COUNTS))
        standing = _BackupPrecedence(*(json.dumps([pair[side] for pair in pairs]) for side in (0, 1)))
        # Operations only in the present store are known to it from their beginning.
        known = _ONLY_IN_PRESENT
    # The present store shows reliably what has happened to these since the backup.
    known_ids = {row[0] for row in database.rows(known)}.difference(*database.rows(_WAITS_STILL))
    if not is_forked:
        known_ids.update(row[0] for row in database.rows(_WAITS_FOR_APPROVAL))
    database.change(_IN_THE_WAY, (standing.ours,))
    newer = _merge_operations(database, standing)
    _merge_message_bytes(database, standing)
    for table in ("delivery_chores", "approvals"):
        database.change(
            f"DELETE FROM main.{table} WHERE operation IN ({_PRESENT_IDS}) AND {_NOT_LEFT}", (standing.ours,)
        )
        database.change(f"INSERT INTO main.{table} SELECT * FROM present.{table} WHERE {_NOT_LEFT}", (standing.theirs,))
    database.change("INSERT OR REPLACE INTO main.legacy_idempotency SELECT * FROM present.legacy_idempotency")
    moves.delete_messages(database, [row[0] for row in database.rows(_COPIES_LEFT)])
    uncertain = _mark_uncertain(database, now, json.dumps(sorted(known_ids)))
    ended = _end_without_mailbox(database, now)
    if is_forked:
        _set_hold(database)
    else:
        _copy_setting(database, HOLD_SETTING)
    held = database.value("SELECT value FROM main.settings WHERE name = ?", (HOLD_SETTING,))
    given_back = _return_unreachable(database, now)
    return MergedSends(newer, uncertain, ended, given_back, _count_waiting(database), held == "true")


def hold_sends(database: Database, now: datetime) -> MergedSends:
    """Prevent duplicate sends if nothing is known about the time since the backup.

    Deliveries that are in progress, due, or waiting for an approval become uncertain. Later ones are on hold until an
    administrator releases them. The caller must be in a transaction.
    """
    uncertain = _mark_uncertain(database, now)
    _set_hold(database)
    return MergedSends(uncertain=uncertain, waiting=_count_waiting(database), are_held=True)


def _merge_operations(database: Database, standing: _BackupPrecedence) -> int:
    """Return how many were copied. Deliveries in both stores keep their row numbers of the restored store."""
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
            of = (json.dumps(ids),)
            database.change("DELETE FROM main.delivery_phases WHERE operation IN (SELECT value FROM json_each(?))", of)
            database.change(_COPY_PHASES, of)
        after, count = rows[-1][0], count + len(ids)
    return count


def _number_offset(database: Database) -> int:
    """Return 0, which keeps the order, unless a number is in use for another delivery in the restored store."""
    if database.value(_NUMBER_TAKEN) is None:
        return 0
    return int(database.value("SELECT max(number) FROM main.delivery_operations"))


def _merge_message_bytes(database: Database, standing: _BackupPrecedence) -> None:
    """A raw message never changes, so those in both stores are not compared."""
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


def _mark_uncertain(database: Database, now: datetime, known: str = "[]") -> int:
    rows: list[Row] = database.rows(_UNDER_WAY, (to_timestamp(now), known))
    for operation_id, status in rows:
        outcome = DeliveryOutcome("uncertain", warnings=(OUTCOME_UNKNOWN,), came_from=status)
        deliveries.end_delivery(database, operation_id, outcome, now)
        # That the draft of an attempt is missing at the provider proves nothing: the appliance removes unsent drafts.
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
    """Nobody revoked the access to the mailbox, so the messages are kept as drafts."""
    rows = database.rows(_OUT_OF_REACH)
    for (operation_id,) in rows:
        # Before the operation ends: that deletes bytes for which no task is left.
        keep = "INSERT OR IGNORE INTO main.delivery_chores (operation, kind, next_at) VALUES (?, 'keep_draft', ?)"
        database.change(keep, (operation_id, to_millis(now)))
        deliveries.end_delivery(
            database, operation_id, DeliveryOutcome("failed", "permission_revoked", came_from="queued"), now
        )
    return len(rows)


def _set_hold(database: Database) -> None:
    database.change("INSERT OR REPLACE INTO main.settings VALUES (?, 'true')", (HOLD_SETTING,))


def _copy_setting(database: Database, name: str) -> None:
    database.change("DELETE FROM main.settings WHERE name = ?", (name,))
    database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (name,))


def _count_waiting(database: Database) -> int:
    sql = f"SELECT count(*) FROM main.delivery_operations WHERE {_IS_OPEN} AND status = 'queued'"
    return int(database.value(sql))


# --- How the two stores are related ---


Relation = Literal["continues", "forked", "stranger"]

_NAMES = [name.strip() for name in f"number, {FACT_COLUMNS}".split(",")]
_BEGINS_WITH = f"""
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r LEFT JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND ({", ".join(f"r.{name}" for name in _NAMES)})
    IS NOT ({", ".join(f"p.{name}" for name in _NAMES)}))"""
_LAST = "SELECT number, action FROM main.audit_events ORDER BY number DESC LIMIT 1"
_NEXT = "SELECT action, outcome FROM present.audit_events WHERE number > ? ORDER BY number LIMIT 1"
_FIRST_FACT = f"SELECT {FACT_COLUMNS} FROM {{}}.audit_events ORDER BY number LIMIT 1"
_SAME_MEMBER = """
SELECT 1 FROM main.members r JOIN present.members p ON p.id = r.id AND p.created_at = r.created_at LIMIT 1"""
# Changes to an operation that time never makes: it is no longer ended or uncertain, or has fewer attempts; and an
# operation in `sending` is queued again only after a failed attempt.
_SENT_ON = " UNION ALL ".join(
    f"""SELECT 1 FROM main.delivery_operations r JOIN present.delivery_operations p ON p.{name} = r.{name}
          WHERE (r.status IN ('succeeded', 'failed') AND p.status <> r.status) OR r.attempts > p.attempts
          OR (r.status = 'uncertain' AND p.status IN ('queued', 'sending'))
          OR (r.status = 'sending' AND p.status = 'queued' AND p.last_cause IS NULL)"""
    for name in ("id", "schedule_id")
)


def _find_relation(database: Database, *, is_pre_restore: bool, is_upgraded: bool) -> tuple[Relation, int | None]:
    """Return how the present store is related to the backup, and the number of the last row of the backup's log, if the
    present log begins with that log.

    Entries of the logs are compared, not their HMACs.
    """
    if not _are_related(database):
        return "stranger", None
    common = _last_common_row(database, is_upgraded=is_upgraded)
    if common is None or database.value(f"{_SENT_ON} LIMIT 1") is not None:
        return "forked", common
    if is_pre_restore and database.row(_NEXT, (common,)) == ("backup.restore", "success"):
        return "forked", common
    return "continues", common


def _are_related(database: Database) -> bool:
    """Whether the two stores have a common history: their logs have the same first entry, or they share a member."""
    first = database.row(_FIRST_FACT.format("main"))
    if first is not None and first == database.row(_FIRST_FACT.format("present")):
        return True
    return database.row(_SAME_MEMBER) is not None


def _last_common_row(database: Database, *, is_upgraded: bool) -> int | None:
    number, action = database.row(_LAST) or (0, "")
    if database.value(_BEGINS_WITH, (number,)):
        return int(number)
    # An old backup is upgraded while it is unpacked, which adds a row; the present store may have its own row of an
    # upgrade.
    if is_upgraded and action == "store.upgrade" and database.value(_BEGINS_WITH, (number - 1,)):
        return int(number - 1)
    return None


# --- Everything: deliveries, rights, settings and the log ---


#: The HTTPS settings belong to this computer: a restore must not lock out remote administrators.
_HTTPS_SETTINGS = ("server.https", "server.https_port", "server.https_host")
_LOG_ROWS_AT_ONCE = 5000
# For each of the two databases during the comparison: indexes are written in random order.
_CACHE_KIB = 48 * 1024
_LOG_COLUMNS = f"number, {FACT_COLUMNS}, mac"
# The facts up to this row are known to agree; this checks that the seals do as well.
_SAME_SEALS = """
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND r.mac IS NOT p.mac)"""
_LOG_END = "SELECT name, value FROM present.meta WHERE name IN ('audit_head', 'audit_count')"
_MISSING_LOG_ROW = "SELECT 1 FROM present.audit_events WHERE id NOT IN (SELECT id FROM main.audit_events) LIMIT 1"
_PRESENT_CHANGES = "SELECT coalesce((SELECT seq FROM present.sqlite_sequence WHERE name = 'changes'), 0)"
_LOG_TRIGGER = "audit_events_remain"  # the trigger that prevents deleting rows of the log


@dataclass(frozen=True)
class MergeResult:
    """Result of merging the present store into the restored one: how many deliveries and access rights were changed.

    `is_known`: whether the present store could show everything that happened since the backup. `why`: if not, the
    reason; empty if the stores have forked, or if there is no present store or it cannot be opened. `relation`: how the
    two stores are related; None if that was not determined.
    """

    is_known: bool
    why: str = ""
    sends: MergedSends = field(default_factory=MergedSends)
    rights: MergedRights = field(default_factory=MergedRights)
    relation: Relation | None = None
    #: Whether every row of the present log is in the restored one.
    has_log: bool = True


def merge_present(
    database: Database,
    present: Path,
    key: StoreKey,
    now: datetime,
    *,
    is_pre_restore: bool = False,
    is_upgraded: bool = False,
    leave_log: bool = False,
) -> MergeResult:
    """Merge the present store into a restored one, in a single durable transaction. Both must open with `key`.

    The present store must be closed; it is only read.

    - now: the time of the restore. A delivery that was due before it becomes uncertain if the present store does not
      show what happened to it.
    - is_pre_restore: the backup was made by a restore, of the store that it replaced.
    - is_upgraded: the restored store was upgraded while it was unpacked.
    - leave_log: leave a write-ahead log of the present store untouched.
    """
    with _attach_present(database, present, key, leave_log), database.transaction(durable=True):
        changes.begin_anew(database, int(database.value(_PRESENT_CHANGES)))
        undo.drop_all(database)
        _delete_uploads(database)
        relation, common = _find_relation(database, is_pre_restore=is_pre_restore, is_upgraded=is_upgraded)
        for name in _HTTPS_SETTINGS:
            _copy_setting(database, name)
        if relation == "stranger":
            result = _merge_blindly(database, now, "it is another store, not a later state of this one", relation)
            merge_rights.ensure_administrator(database)
            return result
        if relation == "forked":
            merge_rights.end_all_access(database)
            rights = merge_rights.merge_revoked_keys(database)
            merge_rights.add_missing_policies(database)
            merge_rights.ensure_administrator(database)
        else:
            rights = merge_rights.merge_later_rights(database, now)
        sends = merge_sends(database, now, is_forked=relation == "forked")
        if common is not None:
            _append_present_log(database, common)
        changes.skip_webhooks(database)
        has_log = database.value(_MISSING_LOG_ROW) is None
        return MergeResult(relation == "continues", sends=sends, rights=rights, relation=relation, has_log=has_log)


def merge_nothing(database: Database, now: datetime, why: str = "") -> MergeResult:
    """Make a restored store safe without a present store to merge: all sessions end, and scheduled messages are on
    hold.

    `why`: the reason to report, if there is a present store that opens but cannot be merged.
    """
    with database.transaction(durable=True):
        changes.begin_anew(database, 0)
        undo.drop_all(database)
        _delete_uploads(database)
        return _merge_blindly(database, now, why)


def _delete_uploads(database: Database) -> None:
    """Uploads are kept for an hour, so those in a backup are outdated; clients repeat those of the present store."""
    database.change("DELETE FROM main.uploads")
    database.change("DELETE FROM main.upload_chunks")


def _merge_blindly(database: Database, now: datetime, why: str, relation: Relation | None = None) -> MergeResult:
    merge_rights.end_all_access(database)
    changes.skip_webhooks(database)
    return MergeResult(False, why, hold_sends(database, now), relation=relation)


@contextmanager
def _attach_present(database: Database, present: Path, key: StoreKey, leave_log: bool) -> Iterator[None]:
    # The key is bound, not part of the text: statements appear in logs and traces.
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


def _append_present_log(database: Database, number: int) -> None:
    """Append the audit log rows that the present store wrote after the row `number`, the last one of the backup.

    The recorded end of the present log (its number of rows and last HMAC) is copied as well. Nothing is appended if the
    present store does not record that end, or if the HMACs of the common rows differ.
    """
    end: dict[str, str] = dict(database.rows(_LOG_END))
    if len(end) < 2 or not database.value(_SAME_SEALS, (number,)):
        return
    # At most one row, written while an old backup was unpacked.
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
