"""The journal of sending: every request accepted once per idempotency key, every phase committed before its act.

    (none) --accept--> sending --mark: connecting, envelope, data, dot--> succeeded | failed | uncertain
       |                 |  ^ `--withdraw (nobody got it, and nobody was shown the operation)--> (none)
       |         requeue |  | begin, when it is due
       `--accept-------> queued --cancel, fail_queued--> failed      uncertain --confirm, resolve--> succeeded | failed

Every commit comes before what it announces, and is on the disk by then (`synchronous=FULL`).
"""

from collections.abc import Iterable
from datetime import datetime

from mailbox_appliance.clock import Clock, to_millis, to_timestamp
from mailbox_appliance.errors import IdempotencyConflict, NotFound, NotUncertain, NotWaiting
from mailbox_appliance.model.records import (
    AcceptedDelivery,
    Delivery,
    DeliveryStatus,
    DeliveryWork,
    FetchedMessage,
    FoundCopy,
    MirroredFolder,
    NewDelivery,
    OpenDelivery,
    ParsedMessage,
    Phase,
)
from mailbox_appliance.store import endings
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_lists import DeliveryLists
from mailbox_appliance.store.delivery_rows import (
    COLUMNS,
    OPEN_DELIVERY,
    WORK,
    enter_phase,
    insert,
    note_draft,
    to_delivery,
    to_open_delivery,
    to_work,
    warnings_of,
    wire_of,
)
from mailbox_appliance.store.endings import Ending
from mailbox_appliance.store.mirror import Mirror, PendingCopy

Copy = tuple[MirroredFolder, FetchedMessage, ParsedMessage]
_THREAD_OF = "SELECT t.id FROM messages m JOIN threads t ON t.number = m.thread WHERE m.id = ?"


class Deliveries:
    """Writes delivery operations. Each method that writes is one durable transaction, or part of the caller's."""

    def __init__(self, database: Database, lists: DeliveryLists, mirror: Mirror, clock: Clock) -> None:
        self._database, self._lists = database, lists
        self._mirror, self._clock = mirror, clock

    # --- from a request on --------------------------------------------------------------------------------------------

    def accept(self, new: NewDelivery) -> AcceptedDelivery:
        """Take a request in, or find the operation that its key made before.

        Raises IdempotencyConflict where the key was used for another request, DraftInUse, QuotaReached, and NotFound
        where the mailbox is gone.
        """
        with self._database.transaction(durable=True):
            earlier = self.find_replay(new.credential_id, new.idempotency_key, new.request_hash)
            if earlier is not None:
                return earlier
            if self._database.value("SELECT 1 FROM accounts WHERE id = ?", (new.account_id,)) is None:
                raise NotFound(what="mailbox")
            if new.draft_id is not None:
                self._lists.require_free_draft(new.account_id, new.draft_id)
            self._lists.require_quotas(new.account_id, new.credential_id, new.quotas)
            delivery = insert(self._database, new, to_timestamp(self._clock.now()))
        return AcceptedDelivery(delivery, new.warnings, is_new=True, is_shown=new.send_at is not None)

    def find_replay(self, credential_id: str, idempotency_key: str, request_hash: str) -> AcceptedDelivery | None:
        """The operation that this key made before, or None. Raises IdempotencyConflict where it was another request."""
        row = self._database.row(
            f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.credential_id = ? AND d.idempotency_key = ?",
            (credential_id, idempotency_key),
        )
        if row is None:
            return None
        if row[11] != request_hash:
            raise IdempotencyConflict(operation=f": see the delivery operation {row[0]}")
        return AcceptedDelivery(to_delivery(row), warnings_of(row), is_new=False, is_shown=bool(row[10]))

    def mark_shown(self, operation_id: str) -> bool:
        """Note that a client is about to be shown the operation; from now on it cannot be withdrawn.

        False where it was withdrawn already.
        """
        if self._database.value("SELECT shown FROM delivery_operations WHERE id = ?", (operation_id,)):
            return True  # what is shown stays so
        sql = "UPDATE delivery_operations SET shown = 1 WHERE id = ? AND NOT shown"
        with self._database.transaction(durable=True):
            return bool(self._database.change(sql, (operation_id,))) or self.find(operation_id) is not None

    def withdraw(self, operation_id: str) -> bool:
        """Take an operation back as if it had never been; its key is free. False where a client was shown it."""
        with self._database.transaction(durable=True):
            return bool(
                self._database.change(
                    "DELETE FROM delivery_operations WHERE id = ? AND NOT shown AND status = 'sending'", (operation_id,)
                )
            )

    # --- on the way ---------------------------------------------------------------------------------------------------

    def begin_sending(self, operation_id: str) -> bool:
        """A scheduled operation is due: it is being sent from now on. False where it does not wait any more."""
        at = to_timestamp(self._clock.now())
        with self._database.transaction(durable=True):
            begun = self._database.change(
                "UPDATE delivery_operations SET status = 'sending', phase = 'accepted', next_attempt_at = NULL,"
                " updated_at = ? WHERE id = ? AND status = 'queued'"
                " AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)",
                (at, operation_id),
            )
        return bool(begun)

    def requeue(self, operation_id: str, next_at: datetime, cause: str) -> bool:
        """An attempt of a scheduled operation surely reached nobody: it waits until `next_at`. False where it ended."""
        at = to_timestamp(self._clock.now())
        with self._database.transaction(durable=True):
            queued = self._database.change(
                "UPDATE delivery_operations SET status = 'queued', phase = 'accepted', next_attempt_at = ?,"
                " last_cause = ?, updated_at = ? WHERE id = ? AND status = 'sending' AND schedule_id IS NOT NULL",
                (to_millis(next_at), cause, at, operation_id),
            )
        return bool(queued)

    def enter_phases(self, operation_id: str, *phases: Phase, provider_draft_id: str | None = None) -> bool:
        """Enter a phase, on the disk when this returns; several where nothing is done between them.

        `provider_draft_id`: what is sent by it next. False where the operation is over or its mailbox is gone.
        """
        at = to_timestamp(self._clock.now())
        with self._database.transaction(durable=True):
            if provider_draft_id is not None:
                note_draft(self._database, operation_id, provider_draft_id)
            return all(enter_phase(self._database, operation_id, phase, at) for phase in phases)

    # --- how it ends --------------------------------------------------------------------------------------------------

    def succeed(self, operation_id: str, sent: Copy | None, *, reply_code: int) -> None:
        """The server has taken the message. Our copy stands in the mirror at once, in the folder `sent` names."""
        ending = Ending("succeeded", reply_code=reply_code)
        with self._database.transaction(durable=True):
            if self._end_delivery(operation_id, ending):
                self._expect_copy(operation_id, sent)

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
        """Give an operation that is being sent the status it has from now on: `failed` or `uncertain`."""
        ending = Ending(status, error_code, tuple(warnings), reply_code, reply_enhanced)
        with self._database.transaction(durable=True):
            self._end_delivery(operation_id, ending)

    def fail_queued(self, operation_id: str, code: str, warnings: Iterable[str] = ()) -> bool:
        """A scheduled operation ends without an attempt. False where it does not wait any more."""
        with self._database.transaction(durable=True):
            return self._end_delivery(operation_id, Ending("failed", code, tuple(warnings), came_from="queued"))

    def cancel(self, account_id: str, schedule_id: str) -> tuple[str, bool]:
        """Take a scheduled send back; answers its operation, and whether it was not canceled already.

        Its message is to be found among the drafts then. Raises NotFound, NotWaiting.
        """
        with self._database.transaction(durable=True):
            row = self._database.row(
                "SELECT id, status, error_code FROM delivery_operations WHERE account_id = ? AND schedule_id = ?",
                (account_id, schedule_id),
            )
            if row is None:
                raise NotFound(what="scheduled send")
            operation_id, status, code = row
            is_new = self._end_delivery(operation_id, Ending("failed", "canceled", came_from="queued"))
            if not is_new and code != "canceled":
                raise NotWaiting(status=status)
        return str(operation_id), is_new

    def confirm(self, operation_id: str, found: FoundCopy | None, sent: Copy | None) -> bool:
        """The message of an uncertain operation was taken. False where it is not uncertain any more.

        Found in Sent, or in all mail, it is the sent message; else our copy is to be filed, as after any success.
        """
        with self._database.transaction(durable=True):
            if not self._end_delivery(operation_id, Ending("succeeded", came_from="uncertain")):
                return False
            self._expect_copy(operation_id, sent)
            if found is not None and found.folder.role in ("sent", "all"):
                self._adopt_as_copy(operation_id, found)
        return True

    def resolve(self, operation_id: str, outcome: DeliveryStatus, sent: Copy | None = None) -> None:
        """A person says what became of an uncertain operation: `succeeded` or `failed`. Raises NotUncertain."""
        code = "resolved_as_failed" if outcome == "failed" else None
        with self._database.transaction(durable=True):
            if not self._end_delivery(operation_id, Ending(outcome, code, came_from="uncertain")):
                raise NotUncertain(status=self.get_work(operation_id).status)
            if outcome == "succeeded":
                self._expect_copy(operation_id, sent)

    def end_mailbox_deliveries(self, account_id: str) -> None:
        """End what waits in a mailbox that is being removed, and drop the stored bytes. Inside a transaction.

        What is being sent right now ends, and drops its own, when it notices.
        """
        endings.end_with_mailbox(self._database, account_id, self._clock.now())

    # --- what there is ------------------------------------------------------------------------------------------------

    def find(self, operation_id: str) -> tuple[Delivery, tuple[str, ...]] | None:
        """An operation by its id, whoever may see it, or None where it was withdrawn."""
        row = self._database.row(f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.id = ?", (operation_id,))
        return None if row is None else (to_delivery(row), warnings_of(row))

    def get_work(self, operation_id: str) -> DeliveryWork:
        """What the worker needs of an operation. Raises NotFound."""
        row = self._database.row(f"{WORK} WHERE d.id = ?", (operation_id,))
        if row is None:
            raise NotFound(what="delivery operation")
        return to_work(row, wire_of(self._database, operation_id, row[6]))

    def list_sending(self) -> tuple[OpenDelivery, ...]:
        """What was being sent when the appliance stopped, the oldest first."""
        # Written exactly as in the partial index of open operations, so that it is used.
        is_open = "status IN ('queued', 'sending', 'uncertain')"
        sql = f"{OPEN_DELIVERY} WHERE {is_open} AND status = 'sending' ORDER BY number"
        return tuple(map(to_open_delivery, self._database.rows(sql)))

    # --- our copy -----------------------------------------------------------------------------------------------------

    def add_copy(self, operation_id: str, sent: Copy) -> None:
        """Put our copy into the mirror under its promised id where that could not be done on success."""
        with self._database.transaction(durable=True):
            there = "SELECT 1 FROM messages WHERE id = (SELECT result_id FROM delivery_operations WHERE id = ?)"
            if self._database.value(there, (operation_id,)) is None:
                self._add_copy(operation_id, sent)

    def _end_delivery(self, operation_id: str, ending: Ending) -> bool:
        return endings.end(self._database, operation_id, ending, self._clock.now())

    def _expect_copy(self, operation_id: str, sent: Copy | None) -> None:
        """Our copy is to be filed in Sent, and stands in the mirror already where `sent` is given."""
        if sent is not None:
            self._add_copy(operation_id, sent)
        sql = "UPDATE delivery_operations SET copy = 'pending', copy_next_at = ? WHERE id = ?"
        self._database.change(sql, (to_millis(self._clock.now()), operation_id))

    def _adopt_as_copy(self, operation_id: str, found: FoundCopy) -> None:
        """What lies in Sent is the sent message: the one that is mirrored already, or our copy, which has its UID."""
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
        endings.forget_bytes(self._database, operation_id)

    def _add_copy(self, operation_id: str, sent: Copy) -> None:
        """Our copy stands in the mirror under its promised ids, or in the thread that it belongs to."""
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
