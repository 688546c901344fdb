"""How a delivery operation lies in a row, and the row as clients and the worker see it."""

import json
from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import from_timestamp, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import (
    Address,
    ComposedMessage,
    Delivery,
    DeliveryError,
    DeliveryResult,
    DeliveryStatus,
    DeliveryWork,
    Envelope,
    NewDelivery,
    OpenDelivery,
    Phase,
    ScheduledSend,
)
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database, Row

COLUMNS = (
    "d.id, d.account_id, d.kind, d.status, d.result_id, d.result_thread_id, d.result_warnings, d.error_code,"
    " d.schedule_id, d.warnings, d.shown, d.request_hash, d.accepted_warnings"
)
WORK = (
    "SELECT d.id, d.account_id, d.kind, d.status, d.phase, d.shown, m.wire, m.bcc_header, d.envelope,"
    " d.message_id_header, d.result_id, d.result_thread_id, d.created_at, d.copy_attempts, d.attempts, d.send_at,"
    " d.last_cause, d.credential_id, d.member_id, d.draft_id, d.parent_id, d.updated_at,"
    " d.provider_draft_id"
    " FROM delivery_operations d LEFT JOIN delivery_messages m ON m.operation = d.id"
)
OPEN_DELIVERY = "SELECT id, account_id, phase, shown, kind FROM delivery_operations"
SCHEDULED = (
    "SELECT d.schedule_id, d.account_id, d.id, d.send_at, d.status, d.summary, d.created_at, d.number"
    " FROM delivery_operations d"
)
_INSERT = """
INSERT INTO delivery_operations (id, account_id, credential_id, member_id, idempotency_key, request_hash, kind, status,
  phase, shown, envelope, message_id_header, result_id, result_thread_id, draft_id, draft_version, parent_id,
  schedule_id, send_at, summary, next_attempt_at, accepted_warnings, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'accepted', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Summary(msgspec.Struct, frozen=True):
    """How a scheduled send is listed."""

    to: tuple[Address, ...] = ()
    subject: str = ""


def warnings_of(row: Row) -> tuple[str, ...]:
    """What a client is told beside the operation: what was so from the beginning, then what its status brings."""
    return (*json.loads(row[12]), *json.loads(row[9]))


def to_delivery(row: Row) -> Delivery:
    """A row of `COLUMNS` as clients see it."""
    result_warnings = tuple(json.loads(row[6]).values())
    succeeded = row[3] == "succeeded"
    return Delivery(
        operation_id=row[0],
        account_id=row[1],
        kind=row[2],
        status=row[3],
        result=DeliveryResult(id=row[4], thread_id=row[5], warnings=result_warnings or UNSET) if succeeded else UNSET,
        error=DeliveryError(code=row[7]) if row[7] is not None else UNSET,
        schedule_id=row[8] or UNSET,
    )


def to_work(row: Row, wire: Content) -> DeliveryWork:
    """A row of `WORK` as the worker needs it, with its message."""
    return DeliveryWork(
        operation_id=row[0],
        account_id=row[1],
        kind=row[2],
        status=row[3],
        phase=Phase(row[4]),
        is_shown=bool(row[5]),
        wire=wire,
        bcc_header=bytes(row[7] or b""),
        envelope=decode_json(row[8], Envelope),
        message_id=row[9],
        result_id=row[10],
        result_thread_id=row[11],
        created_at=from_timestamp(row[12]),
        copy_attempts=row[13],
        attempts=row[14],
        send_at=None if row[15] is None else from_timestamp(row[15]),
        last_cause=row[16],
        credential_id=row[17],
        member_id=row[18],
        draft_id=row[19],
        parent_id=row[20],
        updated_at=from_timestamp(row[21]),
        provider_draft_id=row[22],
    )


def to_open_delivery(row: Row) -> OpenDelivery:
    """A row of `OPEN_DELIVERY`, without the message."""
    return OpenDelivery(row[0], row[1], Phase(row[2]), bool(row[3]), row[4])


def to_scheduled(row: Row) -> ScheduledSend:
    """A row of `SCHEDULED` as clients see it."""
    summary = decode_json(row[5] or b"{}", Summary)
    return ScheduledSend(
        id=row[0],
        account_id=row[1],
        operation_id=row[2],
        send_at=row[3],
        status=row[4],
        to=summary.to,
        subject=summary.subject,
        created_at=row[6],
    )


def insert(database: Database, new: NewDelivery, at: str) -> Delivery:
    """Write a new operation down with its message. Inside a transaction."""
    operation_id, is_scheduled = new_id("dlv"), new.send_at is not None
    status: DeliveryStatus = "queued" if is_scheduled else "sending"
    schedule_id = new_id("sch") if is_scheduled else None
    summary = msgspec.json.encode(Summary(new.to, new.subject)).decode() if is_scheduled else None
    database.change(
        _INSERT,
        (
            operation_id,
            new.account_id,
            new.credential_id,
            new.member_id,
            new.idempotency_key,
            new.request_hash,
            new.kind,
            status,
            is_scheduled,  # it is answered at once, and is not withdrawn
            msgspec.json.encode(new.message.envelope).decode(),
            new.message.message_id,
            new_id("msg"),
            new.thread_id or new_id("thr"),
            new.draft_id,
            new.draft_version,
            new.parent_id,
            schedule_id,
            None if new.send_at is None else to_timestamp(new.send_at),
            summary,
            None if new.send_at is None else to_millis(new.send_at),
            json.dumps(new.warnings),
            at,
            at,
        ),
    )
    _insert_message(database, operation_id, new.message)
    note_phase(database, operation_id, Phase.ACCEPTED, at)
    return Delivery(
        operation_id=operation_id,
        account_id=new.account_id,
        kind=new.kind,
        status=status,
        schedule_id=schedule_id or UNSET,
    )


def enter_phase(database: Database, operation_id: str, phase: Phase, at: str) -> bool:
    """Go on to a phase; False where the operation is over or its mailbox is gone. Inside a transaction."""
    is_new = phase is Phase.CONNECTING  # what an earlier attempt left at the provider tells nothing of this one
    marked = database.change(
        "UPDATE delivery_operations SET phase = ?, updated_at = ?, attempts = attempts + ?,"
        " provider_draft_id = CASE WHEN ? THEN NULL ELSE provider_draft_id END WHERE id = ?"
        " AND status = 'sending' AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)",
        (phase, at, int(is_new), is_new, operation_id),
    )
    if marked:
        note_phase(database, operation_id, phase, at)
    return bool(marked)


def note_draft(database: Database, operation_id: str, draft_id: str | None) -> None:
    """Note what is sent by its id at the provider; None for nothing. Inside a transaction."""
    sql = "UPDATE delivery_operations SET provider_draft_id = ? WHERE id = ?"
    database.change(sql, (draft_id, operation_id))


def note_phase(database: Database, operation_id: str, phase: Phase, at: str) -> None:
    """Note when a phase was entered. Inside a transaction."""
    database.change(
        "INSERT INTO delivery_phases SELECT id, attempts, ?, ? FROM delivery_operations WHERE id = ?",
        (phase, at, operation_id),
    )


def _insert_message(database: Database, operation_id: str, message: ComposedMessage) -> None:
    """Write the bytes down: the first of them, with the header, in the row, the rest of a large message in chunks."""
    pieces = message.wire.pieces()
    first = message.wire.read() if len(message.wire) <= LARGE else next(pieces)
    row = (operation_id, first, message.bcc_header)
    database.change("INSERT INTO delivery_messages VALUES (?, ?, ?)", row)
    if len(first) < len(message.wire):
        for position, piece in enumerate(pieces):
            database.change("INSERT INTO delivery_chunks VALUES (?, ?, ?)", (operation_id, position, piece))
        database.release_memory()


def wire_of(database: Database, operation_id: str, first: bytes | None) -> Content:
    """The bytes of a message, of which the row holds the first; empty where they are not kept any more."""
    sql = "SELECT count(*), coalesce(sum(length(content)), 0) FROM delivery_chunks WHERE operation = ?"
    count, size = database.row(sql, (operation_id,)) or (0, 0)
    return Content(first or b"", _Chunks(database, operation_id, count, size)) if count else Content(first or b"")


class _Chunks(Content):
    """The rest of a large message. No transaction is open between its pieces. Raises NotFound once it is forgotten."""

    def __init__(self, database: Database, operation_id: str, count: int, size: int) -> None:
        super().__init__()
        self._database, self._operation_id, self._count, self._size = database, operation_id, count, size

    def pieces(self) -> Iterator[bytes]:
        sql = "SELECT content FROM delivery_chunks WHERE operation = ? AND position = ?"
        for position in range(self._count):
            piece: bytes | None = self._database.value(sql, (self._operation_id, position))
            if piece is None:
                raise NotFound(what="delivery operation")
            self._database.release_memory()
            yield piece


def source_of(database: Database, account_id: str, result_id: str) -> Content | None:
    """The message that was sent under this id, as our copy has it, with Bcc; None where none is to be filed."""
    row = database.row(
        "SELECT d.id, m.wire, m.bcc_header FROM delivery_operations d JOIN delivery_messages m ON m.operation = d.id"
        " WHERE d.account_id = ? AND d.result_id = ? AND d.copy = 'pending'",
        (account_id, result_id),
    )
    return None if row is None else with_bcc(wire_of(database, row[0], row[1]), row[2])
