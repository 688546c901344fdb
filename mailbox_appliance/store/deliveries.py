"""The journal of sending: every request accepted once per idempotency key, every phase committed before its act.

    (none) --accept--> sending --mark: connecting, envelope, data, dot--> succeeded | failed | uncertain
                          `--withdraw (nobody got it, and nobody was shown the operation)--> (none)

Every commit comes before what it announces; accepting, the final dot, and what a client is told are on the disk before.
A commit that is on the disk has all earlier ones with it, so those in between need not wait for the disk.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from mailbox_appliance.clock import Clock, to_millis, to_timestamp
from mailbox_appliance.errors import IdempotencyConflict, NotFound
from mailbox_appliance.ids import new_id
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.records import (
    AcceptedDelivery,
    Delivery,
    DeliveryStatus,
    DeliveryWork,
    FetchedMessage,
    MirroredFolder,
    NewDelivery,
    OpenDelivery,
    ParsedMessage,
    Phase,
)
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_rows import (
    COLUMNS,
    OPEN_DELIVERY,
    WORK,
    source_of,
    to_delivery,
    to_open_delivery,
    to_work,
    warnings_of,
)
from mailbox_appliance.store.messages import Messages
from mailbox_appliance.store.mirror import Mirror, PendingCopy

# Written exactly as in the partial index of open operations, so that it is used.
_OPEN = "status IN ('queued', 'sending', 'uncertain')"


class Deliveries:
    """Reads and writes delivery operations. Each method that writes is one transaction of its own."""

    def __init__(self, database: Database, messages: Messages, mirror: Mirror, clock: Clock) -> None:
        self._database, self._messages, self._mirror, self._clock = database, messages, mirror, clock

    def accept(self, new: NewDelivery) -> AcceptedDelivery:
        """Take a request in, or find the operation that its key made before.

        Raises IdempotencyConflict where the key was used for another request, NotFound where the mailbox is gone.
        """
        with self._database.transaction(durable=True):
            earlier = self.find_replay(new.credential_id, new.idempotency_key, new.request_hash)
            if earlier is not None:
                return earlier
            operation_id = self._insert(new)
        delivery = Delivery(operation_id=operation_id, account_id=new.account_id, kind=new.kind, status="sending")
        return AcceptedDelivery(delivery, (), is_new=True, is_shown=False)

    def find_replay(self, credential_id: str, idempotency_key: str, request_hash: str) -> AcceptedDelivery | None:
        """The operation that this key made before, or None. Raises IdempotencyConflict where it was another request."""
        row = self._database.row(
            f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.credential_id = ? AND d.idempotency_key = ?",
            (credential_id, idempotency_key),
        )
        if row is None:
            return None
        if row[11] != request_hash:
            raise IdempotencyConflict
        return AcceptedDelivery(to_delivery(row), warnings_of(row), is_new=False, is_shown=bool(row[10]))

    def get(self, account_id: str, operation_id: str, member_id: str) -> tuple[Delivery, tuple[str, ...]]:
        """An operation of this member, or any scheduled one, once a client was shown it. Raises NotFound."""
        row = self._database.row(
            f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.id = ? AND d.account_id = ? AND d.shown"
            " AND (d.member_id = ? OR d.kind = 'scheduled')",
            (operation_id, account_id, member_id),
        )
        if row is None:
            raise NotFound(what="delivery operation")
        return to_delivery(row), warnings_of(row)

    def find(self, operation_id: str) -> tuple[Delivery, tuple[str, ...]] | None:
        """An operation by its id, whoever may see it, or None where it was withdrawn."""
        row = self._database.row(f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.id = ?", (operation_id,))
        return None if row is None else (to_delivery(row), warnings_of(row))

    def find_source(self, account_id: str, message_id: str) -> bytes | None:
        """The source of our copy of a sent message, or None where it is none that is known here."""
        return source_of(self._database, account_id, message_id)

    def show(self, operation_id: str) -> bool:
        """Note that a client is about to be shown the operation; from now on it cannot be withdrawn.

        False where it was withdrawn already.
        """
        if self._database.value("SELECT shown FROM delivery_operations WHERE id = ?", (operation_id,)):
            return True  # what is shown stays so
        sql = "UPDATE delivery_operations SET shown = 1 WHERE id = ? AND NOT shown"
        with self._database.transaction(durable=True):
            return bool(self._database.change(sql, (operation_id,))) or self.find(operation_id) is not None

    def mark(self, operation_id: str, phase: Phase) -> bool:
        """Enter a phase, committed when this returns. False where the operation is over or its mailbox is gone.

        Only the dot must be on the disk: a power cut that loses one of the phases before it leaves another one of
        them, and they all mean that nobody can have got the message. None is lost when the process dies.
        """
        at = to_timestamp(self._clock.now())
        step = 1 if phase is Phase.CONNECTING else 0
        with self._database.transaction(durable=phase is Phase.DOT):
            marked = self._database.change(
                "UPDATE delivery_operations SET phase = ?, updated_at = ?, attempts = attempts + ? WHERE id = ?"
                " AND status = 'sending' AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)",
                (phase, at, step, operation_id),
            )
            if marked:
                self._note_phase(operation_id, phase, at)
        return bool(marked)

    def succeed(
        self, operation_id: str, sent: tuple[MirroredFolder, FetchedMessage, ParsedMessage] | None, *, reply_code: int
    ) -> None:
        """The server has taken the message. Our copy stands in the mirror at once, in the folder `sent` names."""
        with self._database.transaction(durable=True):
            work = self.work(operation_id)
            thread = work.result_thread_id if sent is None else self._add_copy(work, sent)
            self._settle(operation_id, "succeeded", None, (), reply_code, None)
            self._database.change(
                "UPDATE delivery_operations SET result_thread_id = ?, copy = 'pending' WHERE id = ?",
                (thread, operation_id),
            )

    def add_copy(self, operation_id: str, sent: tuple[MirroredFolder, FetchedMessage, ParsedMessage]) -> None:
        """Put our copy into the mirror under its promised id where that could not be done on success."""
        with self._database.transaction(durable=True):
            work = self.work(operation_id)
            if self._database.value("SELECT 1 FROM messages WHERE id = ?", (work.result_id,)) is None:
                thread = self._add_copy(work, sent)
                sql = "UPDATE delivery_operations SET result_thread_id = ? WHERE id = ?"
                self._database.change(sql, (thread, operation_id))

    def settle(
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
        with self._database.transaction(durable=True):
            self._settle(operation_id, status, error_code, tuple(warnings), reply_code, reply_enhanced)

    def withdraw(self, operation_id: str) -> bool:
        """Take an operation back as if it had never been; its key is free. False where a client was shown it."""
        with self._database.transaction(durable=True):
            return bool(
                self._database.change(
                    "DELETE FROM delivery_operations WHERE id = ? AND NOT shown AND status = 'sending'", (operation_id,)
                )
            )

    def list_sending(self) -> tuple[OpenDelivery, ...]:
        """What was being sent when the appliance stopped, the oldest first."""
        sql = f"{OPEN_DELIVERY} WHERE {_OPEN} AND status = 'sending' ORDER BY number"
        return tuple(map(to_open_delivery, self._database.rows(sql)))

    def list_copies(self) -> tuple[tuple[str, int, str], ...]:
        """Succeeded operations whose copy is not in Sent yet: id, when to try next (milliseconds), mailbox id."""
        rows = self._database.rows(
            "SELECT id, coalesce(copy_next_at, 0), account_id FROM delivery_operations WHERE copy = 'pending'"
            " ORDER BY number"
        )
        return tuple((row[0], row[1], row[2]) for row in rows)

    def work(self, operation_id: str) -> DeliveryWork:
        """What the worker needs of an operation. Raises NotFound."""
        row = self._database.row(f"{WORK} WHERE d.id = ?", (operation_id,))
        if row is None:
            raise NotFound(what="delivery operation")
        return to_work(row)

    def mark_filed(self, operation_id: str) -> None:
        """The copy is in Sent. The bytes are on the server now and are no longer kept here.

        Where a power cut loses this, the copy is looked for once more and found.
        """
        with self._database.transaction():
            sql = "UPDATE delivery_operations SET copy = 'filed', result_warnings = '[]' WHERE id = ?"
            self._database.change(sql, (operation_id,))
            self._database.change("DELETE FROM delivery_messages WHERE operation = ?", (operation_id,))

    def postpone_copy(self, operation_id: str, seconds: float, warning: str) -> None:
        """The copy could not be filed; it is tried again after so many seconds, and the result says so meanwhile."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET copy_attempts = copy_attempts + 1, copy_next_at = ?,"
                " result_warnings = ? WHERE id = ?",
                (to_millis(self._clock.now()) + int(seconds * 1000), json.dumps([warning]), operation_id),
            )

    def forget_messages(self, account_id: str) -> None:
        """Drop the stored bytes of a mailbox that is being removed; what is being sent right now drops its own.

        Inside a transaction.
        """
        ended = "account_id = ? AND status <> 'sending'"
        self._database.change(f"UPDATE delivery_operations SET copy = 'none' WHERE {ended}", (account_id,))
        self._database.change(
            f"DELETE FROM delivery_messages WHERE operation IN (SELECT id FROM delivery_operations WHERE {ended})",
            (account_id,),
        )

    def counts(self, account_ids: Collection[str]) -> dict[str, int]:
        """How many operations of these mailboxes are `queued`, `sending` and `uncertain`."""
        rows = self._database.rows(f"SELECT status, account_id FROM delivery_operations WHERE {_OPEN}")
        found = Counter(status for status, account_id in rows if account_id in account_ids)
        return {status: found[status] for status in ("queued", "sending", "uncertain")}

    def _insert(self, new: NewDelivery) -> str:
        if self._database.value("SELECT 1 FROM accounts WHERE id = ?", (new.account_id,)) is None:
            raise NotFound(what="mailbox")
        operation_id, at = new_id("dlv"), to_timestamp(self._clock.now())
        self._database.change(
            "INSERT INTO delivery_operations (id, account_id, credential_id, member_id, idempotency_key, request_hash,"
            " kind, status, phase, envelope, message_id_header, result_id, result_thread_id, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'sending', 'accepted', ?, ?, ?, ?, ?, ?)",
            (
                operation_id,
                new.account_id,
                new.credential_id,
                new.member_id,
                new.idempotency_key,
                new.request_hash,
                new.kind,
                msgspec.json.encode(new.message.envelope).decode(),
                new.message.message_id,
                new_id("msg"),
                new.thread_id or new_id("thr"),
                at,
                at,
            ),
        )
        stored = (operation_id, new.message.wire, new.message.bcc_header)
        self._database.change("INSERT INTO delivery_messages VALUES (?, ?, ?)", stored)
        self._note_phase(operation_id, Phase.ACCEPTED, at)
        return operation_id

    def _settle(
        self,
        operation_id: str,
        status: DeliveryStatus,
        error_code: str | None,
        warnings: tuple[str, ...],
        reply_code: int | None,
        reply_enhanced: str | None,
    ) -> None:
        at = to_timestamp(self._clock.now())
        settled = self._database.change(
            "UPDATE delivery_operations SET status = ?, shown = 1, error_code = ?, warnings = ?, reply_code = ?,"
            " reply_enhanced = ?, updated_at = ?, phase = CASE WHEN ? IS NULL THEN phase ELSE 'replied' END"
            " WHERE id = ? AND status = 'sending'",
            (status, error_code, json.dumps(warnings), reply_code, reply_enhanced, at, reply_code, operation_id),
        )
        # What was not sent, and what belongs to a mailbox that is gone, is not needed any more.
        self._database.change(
            "DELETE FROM delivery_messages WHERE operation = (SELECT id FROM delivery_operations WHERE id = ?"
            " AND (status = 'failed' OR NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)))",
            (operation_id,),
        )
        if settled and reply_code is not None:
            self._note_phase(operation_id, Phase.REPLIED, at)

    def _note_phase(self, operation_id: str, phase: Phase, at: str) -> None:
        self._database.change(
            "INSERT INTO delivery_phases SELECT id, attempts, ?, ? FROM delivery_operations WHERE id = ?",
            (phase, at, operation_id),
        )

    def _add_copy(self, work: DeliveryWork, sent: tuple[MirroredFolder, FetchedMessage, ParsedMessage]) -> str:
        """Our copy stands in the mirror; answers the id of its thread."""
        folder, message, parsed = sent
        self._mirror.add_pending(folder, message, parsed, PendingCopy(work.result_id, work.result_thread_id))
        return self._thread_of(work)

    def _thread_of(self, work: DeliveryWork) -> str:
        own = canonical_message_id(work.message_id)
        return self._messages.find_thread(work.account_id, filter(None, [own])) or work.result_thread_id
