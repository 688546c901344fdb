"""What comes with the end of a delivery: one status, and from it all that is left to do, or no longer to be kept.

    succeeded   the saved draft is removed, the message that was answered or forwarded is flagged
    failed      a scheduled message is kept as a draft, unless its sender has lost the mailbox, which is told then; a
                saved draft, too: what was scheduled lies in its bytes here, and may not lie anywhere else by then
    uncertain   evidence is looked for

The bytes of a message are kept as long as they may be needed: until it is sent and its copy is filed, or it is a draft.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import to_millis, to_timestamp
from mailbox_appliance.model.records import DeliveryStatus, Phase
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_rows import note_phase

FIRST_LOOK = 5_000  # milliseconds after which evidence is looked for
#: What is told where a message is given to nobody. A saved draft that it was made from stays where it lies.
NOT_KEPT = "The message was not put among the drafts, since whoever scheduled it does not reach this mailbox any more."

_END = """
UPDATE delivery_operations SET status = :status, shown = 1, error_code = :code, warnings = :warnings,
  reply_code = coalesce(:reply, reply_code), reply_enhanced = coalesce(:enhanced, reply_enhanced), updated_at = :at,
  phase = CASE WHEN :reply IS NULL THEN phase ELSE 'replied' END, next_attempt_at = NULL,
  uncertain_at = CASE :status WHEN 'uncertain' THEN :now ELSE uncertain_at END,
  evidence_next_at = CASE WHEN :status = 'uncertain' AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)
    THEN :now + :first_look END
  WHERE id = :id AND status = :came_from"""
_ADD_CHORE = """
INSERT INTO delivery_chores (operation, kind, next_at) SELECT d.id, :kind, :now FROM delivery_operations d
  JOIN accounts a ON a.id = d.account_id WHERE d.id = :id AND """
# A key that is revoked or may do less takes no mailbox away from its owner; nor is one lost that is one's own.
_REACHES = """
EXISTS (SELECT 1 FROM members m WHERE m.id = d.member_id AND (a.owner_member_id = m.id OR (m.status = 'active' AND (
  a.shared_with_all OR EXISTS (SELECT 1 FROM account_grants g WHERE g.account_id = a.id AND g.member_id = m.id)))))"""
_TELL_LOSS = """
UPDATE delivery_operations SET warnings = json_insert(warnings, '$[#]', ?) WHERE id = ? AND schedule_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM delivery_chores c WHERE c.operation = id AND c.kind = 'keep_draft')"""
_IS_NEEDED = """
SELECT 1 FROM delivery_operations d JOIN accounts a ON a.id = d.account_id WHERE d.id = delivery_messages.operation
  AND (d.status IN ('queued', 'sending', 'uncertain') OR d.copy = 'pending' OR EXISTS (
    SELECT 1 FROM delivery_chores c WHERE c.operation = d.id AND c.kind = 'keep_draft'))"""


@dataclass(frozen=True)
class Ending:
    """The status that an operation gets, and what is told with it."""

    status: DeliveryStatus
    code: str | None = None
    warnings: tuple[str, ...] = ()
    reply_code: int | None = None
    reply_enhanced: str | None = None
    came_from: DeliveryStatus = "sending"


def end(database: Database, operation_id: str, ending: Ending, now: datetime) -> bool:
    """Give an operation its ending. Inside a transaction; False where it has not the status that it is to come from."""
    at, millis = to_timestamp(now), to_millis(now)
    ended = database.change(
        _END,
        {
            "status": ending.status,
            "code": ending.code,
            "warnings": json.dumps(ending.warnings),
            "reply": ending.reply_code,
            "enhanced": ending.reply_enhanced,
            "at": at,
            "now": millis,
            "first_look": FIRST_LOOK,
            "id": operation_id,
            "came_from": ending.came_from,
        },
    )
    if not ended:
        return False
    if ending.reply_code is not None:
        note_phase(database, operation_id, Phase.REPLIED, at)
    _add_chores(database, operation_id, ending, millis)
    # Of a success the copy is still to be filed, which is said next.
    if ending.status != "succeeded":
        forget_bytes(database, operation_id)
    return True


def _add_chores(database: Database, operation_id: str, ending: Ending, now: int) -> None:
    if ending.status == "succeeded":
        _add_chore(database, operation_id, "remove_draft", "d.draft_id IS NOT NULL", now)
        _add_chore(database, operation_id, "flag_parent", "d.parent_id IS NOT NULL", now)
    elif ending.code == "permission_revoked":
        _add_chore(database, operation_id, "keep_draft", f"d.schedule_id IS NOT NULL AND {_REACHES}", now)
        database.change(_TELL_LOSS, (NOT_KEPT, operation_id))
    elif ending.status == "failed" and ending.code != "account_removed":  # else there is nowhere to keep it
        _add_chore(database, operation_id, "keep_draft", "d.schedule_id IS NOT NULL", now)


def _add_chore(database: Database, operation_id: str, kind: str, where: str, now: int) -> None:
    database.change(_ADD_CHORE + where, {"kind": kind, "now": now, "id": operation_id})


def forget_bytes(database: Database, operation_id: str) -> None:
    """Drop the bytes of a message unless they may still be needed. Inside a transaction."""
    sql = f"DELETE FROM delivery_messages WHERE operation = ? AND NOT EXISTS ({_IS_NEEDED})"
    database.change(sql, (operation_id,))


def end_with_mailbox(database: Database, account_id: str, now: datetime) -> None:
    """What waits in a mailbox that is being removed fails; nothing is looked for or done there. In a transaction."""
    waiting = "SELECT id FROM delivery_operations WHERE account_id = ? AND status = 'queued'"
    for (operation_id,) in database.rows(waiting, (account_id,)):
        end(database, operation_id, Ending("failed", "account_removed", came_from="queued"), now)
    ended = "account_id = ? AND status <> 'sending'"
    database.change(
        f"UPDATE delivery_operations SET copy = 'none', evidence_next_at = NULL WHERE {ended}", (account_id,)
    )
    of = f"(SELECT id FROM delivery_operations WHERE {ended})"
    database.change(f"DELETE FROM delivery_chores WHERE operation IN {of}", (account_id,))
    database.change(f"DELETE FROM delivery_messages WHERE operation IN {of}", (account_id,))
