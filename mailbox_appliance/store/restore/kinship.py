"""Relation of the present store to the backup that replaces it, determined by comparing their audit logs.

The entries of the logs are compared, not their HMACs.

    continues ... the present log begins with the whole log of the backup: the present store is the later one
    undone ...... the backup is the pre-restore backup of an earlier restore, and the next row of the present log is
                  that restore: restoring this backup undoes it
    forked ...... related, but the two have diverged, or the present store is the earlier one
    stranger .... unrelated stores

Deliveries are not in the log. If any delivery has progressed further in the backup than in the present store, the
stores count as forked. In SQL, the restored store is `main` and the present one is `present`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.model.backups import BackupReason
from mailbox_appliance.store.audit import FACT_COLUMNS
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.formats import format_5

Relation = Literal["continues", "undone", "forked", "stranger"]

#: The meaning of each relation, for the person who restores.
RELATION_TEXTS: Mapping[Relation, str] = {
    "continues": "",
    "undone": (
        "This backup holds the store that a restore replaced, so restoring it undoes that restore. What that restore"
        " ended, revoked or left out is as it was before. What people have done since then is kept."
    ),
    "forked": (
        "The present store is not a later state of the store in the backup: it is earlier, or the two have diverged."
        " Whatever either of them records as sent, canceled, revoked or changed stays so. Events that neither records"
        " are unknown. So scheduled messages are on hold: review them, the members and the API keys."
    ),
    "stranger": "",
}

_NAMES = [name.strip() for name in f"number, {FACT_COLUMNS}".split(",")]
_BEGINS_WITH = f"""
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r LEFT JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND ({", ".join(f"r.{name}" for name in _NAMES)})
    IS NOT ({", ".join(f"p.{name}" for name in _NAMES)}))"""
_LAST = "SELECT number, action FROM main.audit_events ORDER BY number DESC LIMIT 1"
_NEXT = "SELECT action, outcome, at FROM present.audit_events WHERE number > ? ORDER BY number LIMIT 1"
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


@dataclass(frozen=True)
class BackupOrigin:
    """The time at which a backup was made (a timestamp), the reason for it, and the format of the store in it."""

    at: str
    reason: BackupReason
    format: int = format_5.NUMBER


@dataclass(frozen=True)
class Kinship:
    """Relation of the present store to the restored one.

    - relation: "continues", "undone", "forked" or "stranger"; the beginning of this module explains these values.
    - common: the number of the last row of the backup's log, if the present log begins with that log, otherwise 0.
    - began, ended: for "undone", the time range of the restore that is undone, as timestamps.
    """

    relation: Relation
    common: int = 0
    began: str = ""
    ended: str = ""


def find_kinship(database: Database, made: BackupOrigin | None) -> Kinship:
    """Return how the store attached as `present` is related to the restored store in `database`.

    `made`: when and why the backup was made, or None if that is unknown.
    """
    if not _are_related(database):
        return Kinship("stranger")
    common = _last_common_row(database, made)
    if common is None or database.value(f"{_SENT_ON} LIMIT 1") is not None:
        return Kinship("forked")
    if made is not None and made.reason == "pre-restore":
        action, outcome, at = database.row(_NEXT, (common,)) or ("", "", "")
        if (action, outcome) == ("backup.restore", "success"):
            return Kinship("undone", common, made.at, at)
    return Kinship("continues", common)


def _are_related(database: Database) -> bool:
    """Whether the two stores have a common history: their logs have the same first entry, or they share a member."""
    first = database.row(_FIRST_FACT.format("main"))
    if first is not None and first == database.row(_FIRST_FACT.format("present")):
        return True
    return database.row(_SAME_MEMBER) is not None


def _last_common_row(database: Database, made: BackupOrigin | None) -> int | None:
    number, action = database.row(_LAST) or (0, "")
    if database.value(_BEGINS_WITH, (number,)):
        return int(number)
    # An old backup is upgraded while it is unpacked, which adds a row; the present store may have its own row of an
    # upgrade.
    is_unpacked = made is None or made.format < format_5.NUMBER
    if is_unpacked and action == "store.upgrade" and database.value(_BEGINS_WITH, (number - 1,)):
        return int(number - 1)
    return None
