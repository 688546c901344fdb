"""How a delivery operation lies in a row, and the row as clients and the worker see it."""

import json

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.records import (
    Delivery,
    DeliveryError,
    DeliveryResult,
    DeliveryWork,
    Envelope,
    OpenDelivery,
    Phase,
)
from mailbox_appliance.store.database import Database, Row

COLUMNS = (
    "d.id, d.account_id, d.kind, d.status, d.result_id, d.result_thread_id, d.result_warnings, d.error_code,"
    " d.schedule_id, d.warnings, d.shown, d.request_hash"
)
WORK = (
    "SELECT d.id, d.account_id, d.kind, d.status, d.phase, d.shown, m.wire, m.bcc_header, d.envelope,"
    " d.message_id_header, d.result_id, d.result_thread_id, d.created_at, d.copy_attempts"
    " FROM delivery_operations d LEFT JOIN delivery_messages m ON m.operation = d.id"
)
OPEN_DELIVERY = "SELECT id, account_id, phase, shown FROM delivery_operations"


def warnings_of(row: Row) -> tuple[str, ...]:
    """What a client was told beside the operation."""
    return tuple(json.loads(row[9]))


def to_delivery(row: Row) -> Delivery:
    """A row of `COLUMNS` as clients see it."""
    result_warnings = tuple(json.loads(row[6]))
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


def to_work(row: Row) -> DeliveryWork:
    """A row of `WORK` as the worker needs it."""
    return DeliveryWork(
        operation_id=row[0],
        account_id=row[1],
        kind=row[2],
        status=row[3],
        phase=Phase(row[4]),
        is_shown=bool(row[5]),
        wire=bytes(row[6] or b""),
        bcc_header=bytes(row[7] or b""),
        envelope=msgspec.json.decode(row[8], type=Envelope),
        message_id=row[9],
        result_id=row[10],
        result_thread_id=row[11],
        created_at=from_timestamp(row[12]),
        copy_attempts=row[13],
    )


def to_open_delivery(row: Row) -> OpenDelivery:
    """A row of `OPEN_DELIVERY`, without the message."""
    return OpenDelivery(row[0], row[1], Phase(row[2]), bool(row[3]))


def source_of(database: Database, account_id: str, result_id: str) -> bytes | None:
    """The message that was sent under this id, as our copy has it, with Bcc; None where there is none."""
    row = database.row(
        "SELECT m.wire, m.bcc_header FROM delivery_operations d JOIN delivery_messages m ON m.operation = d.id"
        " WHERE d.account_id = ? AND d.result_id = ?",
        (account_id, result_id),
    )
    return None if row is None else with_bcc(bytes(row[0]), bytes(row[1]))
