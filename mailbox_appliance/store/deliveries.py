"""Writing delivery operations: one row for each accepted request to send, found again by its idempotency key.

Three steps are on the disk before the appliance continues: the acceptance, the phase `dot`, and the outcome. The phases
before the dot all mean that nobody has received the message; they are recorded with the dot. So after a crash the row
shows whether the dot may have been sent. Statuses, and the methods that change them:

    (none) --accept--> sending --enter_phases: connecting, envelope, data, dot--> succeeded | failed | uncertain
       |                 |  ^ `--withdraw (not sent to anyone, and not shown to any client)--> (none)
       |         requeue |  | begin_sending, when it is due
       `--accept-------> queued --cancel, fail_queued--> failed      uncertain --confirm, resolve--> succeeded | failed

- (none): there is no row.
- shown: a response has contained the ID of the operation, or is about to.

The "local copy" of a sent message is the one that the appliance shows in the folder Sent at once. Later the appliance
files that copy in Sent on the server.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import Clock, to_millis, to_timestamp
from mailbox_appliance.errors import IdempotencyConflict, KeyOfRemovedMailbox, NotFound, NotUncertain, NotWaiting
from mailbox_appliance.model.base import own_text, to_stored_text
from mailbox_appliance.model.deliveries import (
    AcceptedDelivery,
    Delivery,
    DeliveryStatus,
    DeliveryWork,
    FoundCopy,
    NewApproval,
    NewDelivery,
    OpenDelivery,
    Phase,
    PhaseStep,
)
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, MirroredFolder
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_queries import (
    DELIVERY_COLUMNS,
    SELECT_OPEN,
    SELECT_WORK,
    WAITS_FOR_APPROVAL,
    DeliveryLists,
    enter_phases,
    insert_delivery,
    load_message_bytes,
    note_phase,
    set_provider_draft,
    to_delivery,
    to_open_delivery,
    to_work,
    warnings_of,
)
from mailbox_appliance.store.mailbox_writer import MailboxWriter, PendingCopy
from mailbox_appliance.store.uploads import use_uploads

# --- The end of a delivery: its status and the follow-up work ---
#
#     succeeded   the saved draft is removed, the message that was answered or forwarded is flagged
#     failed      a scheduled message is kept as a draft, even if it was made from a saved one, which may be gone by
#                 then; if its sender has lost access to the mailbox, a warning reports that it is not kept
#     uncertain   Sent and the inbox are searched for the message
#
# The bytes of a message are kept until they are no longer needed: until it is sent and its copy is filed, or it is
# saved as a draft.


FIRST_EVIDENCE_DELAY = 5_000  # milliseconds until the first search for evidence
#: The warning for a message that is kept nowhere. A saved draft that it was made from stays in its folder.
DRAFT_NOT_KEPT = own_text(
    "The message was not saved as a draft, because the member who scheduled it no longer has access to this mailbox."
)

_END_DELIVERY = """
UPDATE delivery_operations SET status = :status, shown = 1, error_code = :code, warnings = :warnings,
  reply_code = coalesce(:reply, reply_code), reply_enhanced = coalesce(:enhanced, reply_enhanced), updated_at = :at,
  phase = CASE WHEN :reply IS NULL THEN phase ELSE 'replied' END, next_attempt_at = NULL,
  uncertain_at = CASE :status WHEN 'uncertain' THEN :now ELSE uncertain_at END,
  evidence_next_at = CASE WHEN :status = 'uncertain' AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)
    THEN :now + :first_look END
  WHERE id = :id AND status = :came_from"""
_CLOSE_APPROVAL = "UPDATE approvals SET status = 'expired', decided_at = ? WHERE operation = ? AND status = 'pending'"
_ADD_CHORE = """
INSERT INTO delivery_chores (operation, kind, next_at) SELECT d.id, :kind, :now FROM delivery_operations d
  JOIN accounts a ON a.id = d.account_id WHERE d.id = :id AND """
# A key that is revoked or restricted does not take a mailbox away from its owner.
_SENDER_HAS_ACCESS = """
EXISTS (SELECT 1 FROM members m WHERE m.id = d.member_id AND (a.owner_member_id = m.id OR (m.status = 'active' AND (
  a.shared_with_all OR EXISTS (SELECT 1 FROM account_grants g WHERE g.account_id = a.id AND g.member_id = m.id)))))"""
_WARN_OF_LOSS = """
UPDATE delivery_operations SET warnings = json_insert(warnings, '$[#]', ?) WHERE id = ? AND schedule_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM delivery_chores c WHERE c.operation = id AND c.kind = 'keep_draft')"""
_BYTES_NEEDED = """
SELECT 1 FROM delivery_operations d JOIN accounts a ON a.id = d.account_id WHERE d.id = delivery_messages.operation
  AND (d.status IN ('queued', 'sending', 'uncertain') OR d.copy = 'pending' OR EXISTS (
    SELECT 1 FROM delivery_chores c WHERE c.operation = d.id AND c.kind = 'keep_draft'))"""


@dataclass(frozen=True)
class DeliveryOutcome:
    """A new status for a delivery operation (`succeeded`, `failed` or `uncertain`), with error code, warnings and SMTP
    reply.

    `came_from`: the status that the operation must have before.
    """

    status: DeliveryStatus
    code: str | None = None
    warnings: tuple[str, ...] = ()
    reply_code: int | None = None
    reply_enhanced: str | None = None
    came_from: DeliveryStatus = "sending"


def end_delivery(database: Database, operation_id: str, ending: DeliveryOutcome, now: datetime) -> bool:
    """Set the outcome of an operation, and create the follow-up tasks that this outcome needs.

    Returns False and changes nothing if the operation does not have the status `ending.came_from`. Call it inside a
    transaction.
    """
    at, millis = to_timestamp(now), to_millis(now)
    ended = database.change(
        _END_DELIVERY,
        {
            "status": ending.status,
            "code": ending.code,
            "warnings": json.dumps([to_stored_text(one) for one in ending.warnings]),
            "reply": ending.reply_code,
            "enhanced": ending.reply_enhanced,
            "at": at,
            "now": millis,
            "first_look": FIRST_EVIDENCE_DELAY,
            "id": operation_id,
            "came_from": ending.came_from,
        },
    )
    if not ended:
        return False
    database.change(_CLOSE_APPROVAL, (at, operation_id))
    if ending.reply_code is not None:
        note_phase(database, operation_id, Phase.REPLIED, at)
    _add_chores(database, operation_id, ending, millis)
    # After a success the copy still has to be filed, which the caller notes next.
    if ending.status != "succeeded":
        delete_message_bytes(database, operation_id)
    return True


def _add_chores(database: Database, operation_id: str, ending: DeliveryOutcome, now: int) -> None:
    if ending.status == "succeeded":
        _add_chore(database, operation_id, "remove_draft", "d.draft_id IS NOT NULL", now)
        _add_chore(database, operation_id, "flag_parent", "d.parent_id IS NOT NULL", now)
    elif ending.code == "permission_revoked":
        _add_chore(database, operation_id, "keep_draft", f"d.schedule_id IS NOT NULL AND {_SENDER_HAS_ACCESS}", now)
        database.change(_WARN_OF_LOSS, (to_stored_text(DRAFT_NOT_KEPT), operation_id))
    elif ending.status == "failed" and ending.code != "account_removed":  # Otherwise there is no mailbox to keep it in.
        _add_chore(database, operation_id, "keep_draft", "d.schedule_id IS NOT NULL", now)


def _add_chore(database: Database, operation_id: str, kind: str, where: str, now: int) -> None:
    database.change(_ADD_CHORE + where, {"kind": kind, "now": now, "id": operation_id})


def delete_message_bytes(database: Database, operation_id: str) -> None:
    """Delete an operation's message, unless sending, Sent or a draft still needs it. Call it inside a transaction."""
    sql = f"DELETE FROM delivery_messages WHERE operation = ? AND NOT EXISTS ({_BYTES_NEEDED})"
    database.change(sql, (operation_id,))


def end_mailbox_deliveries(database: Database, account_id: str, now: datetime) -> None:
    """End the queued operations of a removed mailbox as `failed`, and delete its follow-up tasks and stored messages.

    Operations with the status `sending` are left to the thread that sends them. Call it inside a transaction.
    """
    waiting = "SELECT id FROM delivery_operations WHERE account_id = ? AND status = 'queued'"
    for (operation_id,) in database.rows(waiting, (account_id,)):
        end_delivery(database, operation_id, DeliveryOutcome("failed", "account_removed", came_from="queued"), now)
    ended = "account_id = ? AND status <> 'sending'"
    database.change(
        f"UPDATE delivery_operations SET copy = 'none', evidence_next_at = NULL WHERE {ended}", (account_id,)
    )
    of = f"(SELECT id FROM delivery_operations WHERE {ended})"
    database.change(f"DELETE FROM delivery_chores WHERE operation IN {of}", (account_id,))
    database.change(f"DELETE FROM delivery_messages WHERE operation IN {of}", (account_id,))


# --- The operations ---


SentCopy = tuple[MirroredFolder, FetchedMessage, ParsedMessage]
_THREAD_OF = "SELECT t.id FROM messages m JOIN threads t ON t.number = m.thread WHERE m.id = ?"


class Deliveries:
    """Writes delivery operations. Each method that writes runs in a durable transaction, or joins the caller's."""

    def __init__(self, database: Database, lists: DeliveryLists, mirror: MailboxWriter, clock: Clock) -> None:
        self._database, self._lists = database, lists
        self._mirror, self._clock = mirror, clock

    # --- from the request ---------------------------------------------------------------------------------------------

    def accept(
        self, new: NewDelivery, find_approval: Callable[[], NewApproval | None] = lambda: None
    ) -> AcceptedDelivery:
        """Store a new operation for a request to send, or return the one that the same idempotency key created before.

        Raises IdempotencyConflict if the key was used for another request. Raises DraftInUse or DraftSent if the saved
        draft is being sent or was sent. Raises QuotaReached, and NotFound if the mailbox or an upload is gone.

        `find_approval`: called inside the transaction of the acceptance; returns the approval that the message needs,
        or None, and raises an error if it must not be sent at all.

        A scheduled operation is on the disk when this returns, and so is one that waits for an approval. Any other
        gets there before the dot is sent or a response contains its ID, with the sync of a later step.
        """
        with self._database.transaction(durable=True, awaited=new.send_at is not None):
            earlier = self.find_replay(new.credential_id, new.idempotency_key, new.request_hash)
            if earlier is not None:
                return earlier
            if self._database.value("SELECT 1 FROM accounts WHERE id = ?", (new.account_id,)) is None:
                raise NotFound(what="mailbox")
            if new.draft_id is not None:
                self._lists.require_free_draft(new.account_id, new.draft_id)
            self._lists.require_quotas(new.account_id, new.credential_id, new.quotas)
            approval = find_approval()
            now = self._clock.now()
            delivery = insert_delivery(self._database, new, now, approval)
            if new.upload_ids:
                use_uploads(self._database, new.upload_ids, delivery.operation_id, to_millis(now))
        warnings = new.warnings if approval is None else (*new.warnings, WAITS_FOR_APPROVAL)
        is_shown = delivery.status == "queued"
        if is_shown:
            self._database.wait_until_durable()
        return AcceptedDelivery(delivery, warnings, is_new=True, is_shown=is_shown)

    def find_replay(self, credential_id: str, idempotency_key: str, request_hash: str) -> AcceptedDelivery | None:
        """Return the operation that this credential created with this idempotency key, or None.

        `request_hash`: the hash of the present request. Raises IdempotencyConflict if the earlier request had another
        hash.
        """
        row = self._database.row(
            f"SELECT {DELIVERY_COLUMNS} FROM delivery_operations d WHERE d.credential_id = ? AND d.idempotency_key = ?",
            (credential_id, idempotency_key),
        )
        if row is None:
            return None
        if row[11] != request_hash:
            if self._database.row("SELECT 1 FROM accounts WHERE id = ?", (row[1],)) is None:
                raise KeyOfRemovedMailbox
            raise IdempotencyConflict(operation=f": see the delivery operation {row[0]}")
        return AcceptedDelivery(to_delivery(row), warnings_of(row), is_new=False, is_shown=bool(row[10]))

    def mark_shown(self, operation_id: str) -> bool:
        """Record that a response is about to contain the operation's ID. From now on the operation cannot be withdrawn.

        Returns False if it has been withdrawn.
        """
        if self._database.value("SELECT shown FROM delivery_operations WHERE id = ?", (operation_id,)):
            return True  # A shown operation stays shown.
        sql = "UPDATE delivery_operations SET shown = 1 WHERE id = ? AND NOT shown"
        with self._database.transaction(durable=True):
            return bool(self._database.change(sql, (operation_id,))) or self.find(operation_id) is not None

    def withdraw(self, operation_id: str) -> bool:
        """Delete an operation with the status `sending` whose ID no response has contained. Its idempotency key is free
        again.

        Returns False, and deletes nothing, if a response has contained its ID, or if its status is not `sending`.
        """
        with self._database.transaction(durable=True):
            return bool(
                self._database.change(
                    "DELETE FROM delivery_operations WHERE id = ? AND NOT shown AND status = 'sending'", (operation_id,)
                )
            )

    # --- while sending ------------------------------------------------------------------------------------------------

    def begin_sending(self, operation_id: str) -> bool:
        """Change an operation from `queued` to `sending`; False if it is no longer queued or its mailbox is gone."""
        at = to_timestamp(self._clock.now())
        with self._database.transaction(durable=True):
            begun = self._database.change(
                "UPDATE delivery_operations SET status = 'sending', phase = 'accepted', next_attempt_at = NULL,"
                " updated_at = ? WHERE id = ? AND status = 'queued'"
                " AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id) AND NOT EXISTS ("
                " SELECT 1 FROM approvals p WHERE p.operation = delivery_operations.id AND p.status <> 'approved')",
                (at, operation_id),
            )
        return bool(begun)

    def requeue(self, operation_id: str, next_at: datetime, cause: str) -> bool:
        """Change a scheduled operation from `sending` back to `queued`, after an attempt in which certainly nobody got
        the message.

        `next_at`: time of the next attempt. `cause`: the reason for the delay. Returns False if the operation has
        ended.
        """
        at = to_timestamp(self._clock.now())
        with self._database.transaction(durable=True):
            queued = self._database.change(
                "UPDATE delivery_operations SET status = 'queued', phase = 'accepted', next_attempt_at = ?,"
                " last_cause = ?, updated_at = ? WHERE id = ? AND status = 'sending' AND send_at IS NOT NULL",
                (to_millis(next_at), cause, at, operation_id),
            )
        return bool(queued)

    def enter_phases(
        self, operation_id: str, steps: Sequence[PhaseStep], *, provider_draft_id: str | None = None
    ) -> bool:
        """Record the phases that sending has entered, and last the one that it is about to enter, such as `dot`.

        They are on the disk when this returns; call it before the last phase. `provider_draft_id`: if a provider's API
        is about to send a draft, the draft's ID there. Returns False if the operation has ended or its mailbox is gone.
        """
        with self._database.transaction(durable=True):
            is_open = enter_phases(self._database, operation_id, steps)
            if provider_draft_id is not None:
                set_provider_draft(self._database, operation_id, provider_draft_id)
        return is_open

    def note_phases(self, operation_id: str, steps: Sequence[PhaseStep]) -> None:
        """Record the phases of an attempt that ended before the dot. The commit is not durable: after a power failure
        the timeline lacks them.
        """
        with self._database.transaction():
            enter_phases(self._database, operation_id, steps)

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def succeed(
        self, operation_id: str, sent: SentCopy | None, *, reply_code: int, is_shown_later: bool = False
    ) -> bool:
        """Record that the server accepted the message, and that a copy of it must be filed in Sent.

        `sent`: folder and content of that copy; None if it cannot be shown yet. `reply_code`: the SMTP reply code.
        `is_shown_later`: leave `sent` to `add_copies`, unless the message may join a conversation, since the result
        names the conversation. Returns whether it was left.
        """
        ending = DeliveryOutcome("succeeded", reply_code=reply_code)
        with self._database.transaction(durable=True):
            if not self._end_delivery(operation_id, ending):
                return False
            is_left = is_shown_later and sent is not None and self._mirror.begins_thread(*sent)
            self._expect_copy(operation_id, None if is_left else sent)
        return is_left

    def set_outcome(
        self,
        operation_id: str,
        status: DeliveryStatus,
        error_code: str | None = None,
        warnings: Iterable[str] = (),
        *,
        reply_code: int | None = None,
        reply_enhanced: str | None = None,
    ) -> None:
        """Change an operation from `sending` to `failed` or `uncertain`; nothing changes if it has another status.

        `reply_code`, `reply_enhanced`: the SMTP reply code and enhanced status code, if there was a reply.
        """
        ending = DeliveryOutcome(status, error_code, tuple(warnings), reply_code, reply_enhanced)
        with self._database.transaction(durable=True):
            self._end_delivery(operation_id, ending)

    def fail_queued(self, operation_id: str, code: str, warnings: Iterable[str] = ()) -> bool:
        """Change an operation from `queued` to `failed` without an attempt; False if it is no longer queued."""
        with self._database.transaction(durable=True):
            return self._end_delivery(
                operation_id, DeliveryOutcome("failed", code, tuple(warnings), came_from="queued")
            )

    def cancel(self, account_id: str, schedule_id: str) -> tuple[str, bool]:
        """Cancel a scheduled message; a follow-up task then saves it as a draft.

        Returns the operation's ID, and whether this call canceled it (False: it was canceled before). Raises NotFound.
        Raises NotWaiting if it is being sent or has ended in another way.
        """
        with self._database.transaction(durable=True):
            row = self._database.row(
                "SELECT id, status, error_code FROM delivery_operations WHERE account_id = ? AND schedule_id = ?",
                (account_id, schedule_id),
            )
            if row is None:
                raise NotFound(what="scheduled send")
            operation_id, status, code = row
            is_new = self._end_delivery(operation_id, DeliveryOutcome("failed", "canceled", came_from="queued"))
            if not is_new and code != "canceled":
                raise NotWaiting(status=status)
        return str(operation_id), is_new

    def confirm(self, operation_id: str, found: FoundCopy | None, sent: SentCopy | None) -> bool:
        """Change an operation from `uncertain` to `succeeded`, because its message was found at the server.

        `found`: the place where it was found. If that is Sent or all mail, the found message becomes the result.
        Otherwise the local copy (`sent`) is shown and filed in Sent, as after any success. Returns False if the
        operation is no longer uncertain.
        """
        with self._database.transaction(durable=True):
            if not self._end_delivery(operation_id, DeliveryOutcome("succeeded", came_from="uncertain")):
                return False
            self._expect_copy(operation_id, sent)
            if found is not None and found.folder.role in ("sent", "all"):
                self._adopt_as_copy(operation_id, found)
        return True

    def resolve(self, operation_id: str, outcome: DeliveryStatus, sent: SentCopy | None = None) -> None:
        """Change an operation from `uncertain` to the outcome that a person chose: `succeeded` or `failed`.

        `sent`: folder and content of the copy for Sent, to show it at once after a success. Raises NotUncertain if the
        operation has another status.
        """
        code = "resolved_as_failed" if outcome == "failed" else None
        with self._database.transaction(durable=True):
            if not self._end_delivery(operation_id, DeliveryOutcome(outcome, code, came_from="uncertain")):
                raise NotUncertain(status=self.get_work(operation_id).status)
            if outcome == "succeeded":
                self._expect_copy(operation_id, sent)

    def end_mailbox_deliveries(self, account_id: str) -> None:
        """End the queued operations of a mailbox that is being removed, and delete its stored messages.

        An operation that is being sent now is ended by the thread that sends it. Call it inside a transaction.
        """
        end_mailbox_deliveries(self._database, account_id, self._clock.now())

    # --- reading ------------------------------------------------------------------------------------------------------

    def find(self, operation_id: str) -> tuple[Delivery, tuple[str, ...]] | None:
        """Return an operation and its warnings without checking access; None if the operation was withdrawn."""
        row = self._database.row(
            f"SELECT {DELIVERY_COLUMNS} FROM delivery_operations d WHERE d.id = ?", (operation_id,)
        )
        return None if row is None else (to_delivery(row), warnings_of(row))

    def get_work(self, operation_id: str) -> DeliveryWork:
        """Return an operation with its message, as the worker that sends it needs it. Raises NotFound."""
        row = self._database.row(f"{SELECT_WORK} WHERE d.id = ?", (operation_id,))
        if row is None:
            raise NotFound(what="delivery operation")
        return to_work(row, load_message_bytes(self._database, operation_id, row[6]))

    def list_sending(self) -> tuple[OpenDelivery, ...]:
        """Return the operations with the status `sending`, oldest first: at the start, those that were interrupted."""
        # Written exactly as in the partial index of open operations, so that SQLite uses it.
        is_open = "status IN ('queued', 'sending', 'uncertain')"
        sql = f"{SELECT_OPEN} WHERE {is_open} AND status = 'sending' ORDER BY number"
        return tuple(map(to_open_delivery, self._database.rows(sql)))

    # --- our copy -----------------------------------------------------------------------------------------------------

    def add_copies(self, copies: Iterable[tuple[str, SentCopy]]) -> None:
        """Add the local copies of sent messages to the mirrored mail, unless they are there or not to be filed.

        `copies`: pairs of operation ID and copy. The commit is not durable: a copy that is lost is added when it is
        filed.
        """
        there = (
            "SELECT d.copy = 'pending' AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = d.result_id)"
            " FROM delivery_operations d WHERE d.id = ?"
        )
        with self._database.transaction():
            for operation_id, sent in copies:
                if self._database.value(there, (operation_id,)):
                    self._add_copy(operation_id, sent)

    def _end_delivery(self, operation_id: str, ending: DeliveryOutcome) -> bool:
        return end_delivery(self._database, operation_id, ending, self._clock.now())

    def _expect_copy(self, operation_id: str, sent: SentCopy | None) -> None:
        if sent is not None:
            self._add_copy(operation_id, sent)
        sql = "UPDATE delivery_operations SET copy = 'pending', copy_next_at = ? WHERE id = ?"
        self._database.change(sql, (to_millis(self._clock.now()), operation_id))

    def _adopt_as_copy(self, operation_id: str, found: FoundCopy) -> None:
        """Use a message that was found in Sent as the operation's result, so that no copy must be filed.

        If sync has already mirrored the found message, that row becomes the result, and the local copy is deleted.
        Otherwise the local copy gets the UID of the found message.
        """
        sql = "SELECT m.id, t.id FROM messages m JOIN threads t ON t.number = m.thread WHERE m.folder = ? AND m.uid = ?"
        row = self._database.row(sql, (found.folder.number, found.uid))
        work = self.get_work(operation_id)
        if row is None:
            self._mirror.record_server_copy(work.result_id, found)
        elif row[0] != work.result_id:
            self._mirror.drop_pending(work.result_id)
            change = "UPDATE delivery_operations SET result_id = ?, result_thread_id = ? WHERE id = ?"
            self._database.change(change, (*row, operation_id))
        self._database.change("UPDATE delivery_operations SET copy = 'filed' WHERE id = ?", (operation_id,))
        delete_message_bytes(self._database, operation_id)

    def _add_copy(self, operation_id: str, sent: SentCopy) -> None:
        """If the message belongs to a stored thread, the operation gets the ID of that thread."""
        row = self._database.row(
            "SELECT result_id, result_thread_id FROM delivery_operations WHERE id = ?", (operation_id,)
        )
        if row is None:
            raise NotFound(what="delivery operation")
        result_id, thread_id = row
        self._mirror.add_pending(*sent, PendingCopy(result_id, thread_id))
        found = self._database.value(_THREAD_OF, (result_id,))
        sql = "UPDATE delivery_operations SET result_thread_id = ? WHERE id = ?"
        self._database.change(sql, (found or thread_id, operation_id))
