"""Converts the deliveries of format 4 to format 5. The old status of a delivery decides what happens to it:

queued       stays queued, with its message ready to send; one without message or recipients becomes failed
sending      the old release stopped during the attempt: the outcome is unknown, so it becomes uncertain
uncertain    stays uncertain; the checks of Sent and the inbox start again
succeeded, failed    final; the message stays with them
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from mailbox_appliance.clock import from_timestamp, to_millis
from mailbox_appliance.mail import compose, legacy
from mailbox_appliance.mail.address import is_writable
from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.model.messages import ComposedMessage, Envelope
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.deliveries import FIRST_EVIDENCE_DELAY
from mailbox_appliance.store.delivery_queries import ScheduledSummary

_BATCH = 500
_NOBODY = "nobody@mailbox-appliance.invalid"
_HEADER = 256 * 1024  # bytes of a message that are read for its header
_COLUMNS = (
    *("id", "account_id", "credential_id", "member_id", "idempotency_key", "request_hash", "kind", "status"),
    *("envelope", "message_id_header", "result_id", "result_thread_id", "result_warnings", "error_code"),
    *("schedule_id", "send_at", "attempts", "created_at", "updated_at"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM older_delivery_operations"
# In the order of acceptance, which is the order of the new numbers.
_ORDER = "CREATE TEMP TABLE accepted AS SELECT id FROM older_delivery_operations ORDER BY created_at, id"
_IDS = "SELECT rowid, id FROM temp.accepted WHERE rowid > ? ORDER BY rowid LIMIT ?"
_INSERT = """
INSERT INTO main.delivery_operations (id, account_id, credential_id, member_id, idempotency_key, request_hash, kind,
  status, phase, shown, envelope, message_id_header, result_id, result_thread_id, result_warnings, error_code,
  schedule_id, send_at, summary, attempts, next_attempt_at, uncertain_at, evidence_next_at, created_at, updated_at)
VALUES (:id, :account_id, :credential_id, :member_id, :idempotency_key, :request_hash, :kind, :status, :phase, 1,
  :envelope, :message_id_header, :result_id, :result_thread_id, :result_warnings, :error_code, :schedule_id, :send_at,
  :summary, :attempts, :next_attempt_at, :uncertain_at, :evidence_next_at, :created_at, :updated_at)"""
_PHASES = {"queued": Phase.ACCEPTED, "uncertain": Phase.DOT, "succeeded": Phase.REPLIED, "failed": Phase.ACCEPTED}
# Operations that cannot be sent, and their error code.
_UNSENDABLE = """
(o.status = 'queued' AND (coalesce(length(o.message), 0) = 0 OR json_array_length(o.envelope, '$.recipients') = 0))"""
_REJECTED = "message_rejected"
_OVER = "o.status IN ('succeeded', 'failed')"
DELIVERY_COUNT = "SELECT count(*) FROM older_delivery_operations"
#: The ID of an operation that is missing or different in the new store.
DELIVERY_DIFFERING = f"""
SELECT o.id FROM older_delivery_operations o LEFT JOIN main.delivery_operations n ON n.id = o.id
  LEFT JOIN main.delivery_messages m ON m.operation = o.id
WHERE n.id IS NULL OR n.account_id IS NOT o.account_id OR n.credential_id IS NOT coalesce(o.credential_id, '')
  OR n.member_id IS NOT o.member_id OR n.idempotency_key IS NOT o.idempotency_key
  OR n.request_hash IS NOT coalesce(o.request_hash, '') OR n.kind IS NOT o.kind
  OR n.status IS NOT CASE WHEN o.status = 'sending' THEN 'uncertain' WHEN {_UNSENDABLE} THEN 'failed' ELSE o.status END
  OR n.error_code IS NOT iif({_UNSENDABLE}, '{_REJECTED}', o.error_code)
  OR (o.result_id IS NOT NULL AND n.result_id IS NOT o.result_id) OR n.attempts IS NOT o.attempts
  OR (o.result_thread_id IS NOT NULL AND n.result_thread_id IS NOT o.result_thread_id)
  OR (o.schedule_id IS NOT NULL AND n.schedule_id IS NOT o.schedule_id) OR n.created_at IS NOT o.created_at
  OR (o.send_at IS NOT NULL AND n.send_at IS NOT o.send_at) OR n.updated_at IS NOT o.updated_at
  OR (o.message IS NOT NULL AND (m.wire IS NULL OR ({_OVER} AND m.wire IS NOT o.message))) LIMIT 1"""


@dataclass(frozen=True)
class OldDelivery:
    """A delivery operation as read from the old store. `facts`: its columns by name.

    `source`: the bytes of its message; only the beginning if the operation has ended; None if there is no message.
    """

    facts: dict[str, Any]
    source: bytes | None

    @property
    def status(self) -> str:
        """The status that the operation gets in the new store."""
        told: str = self.facts["status"]
        if told == "sending":
            return "uncertain"
        return "failed" if told == "queued" and not self.can_be_sent else told

    @property
    def can_be_sent(self) -> bool:
        """Whether the operation has a message and at least one recipient."""
        return self.source is not None and bool(_envelope(self.facts).recipients)

    @property
    def is_over(self) -> bool:
        """Whether the operation has ended as `succeeded` or `failed`."""
        return self.facts["status"] in ("succeeded", "failed")


def assign_operation_ids(database: Database) -> None:
    """Store a new operation ID for each scheduled message of format 3, in the temporary table `operation_ids`."""
    sends = database.rows("SELECT id FROM old.scheduled_sends")
    database.change_many("INSERT INTO temp.operation_ids VALUES (?, ?)", [(row[0], new_id("dlv")) for row in sends])


def load_operation_ids(database: Database) -> None:
    """Fill the temporary table `operation_ids` from a completed new store, instead of assigning new IDs."""
    sql = "SELECT schedule_id, id FROM main.delivery_operations WHERE schedule_id IS NOT NULL"
    database.change(f"INSERT INTO temp.operation_ids {sql}")


def copy_deliveries(database: Database, now: datetime) -> None:
    """Convert all operations and their messages, and write them to the new store. Call it inside a transaction.

    `now`: the current time, for operations whose outcome is unknown. Raises ValueError for data that cannot be
    converted.
    """
    for send in _read_deliveries(database):
        values, composed = _delivery_values(send, now)
        database.change(_INSERT, values)
        _write_message(database, send.facts["id"], composed)


def rehearse_deliveries(database: Database, now: datetime) -> None:
    """Convert all operations without writing them, to find data that cannot be converted: it raises ValueError."""
    for send in _read_deliveries(database):
        _delivery_values(send, now)


def list_rejected(database: Database) -> list[str]:
    """Return the IDs, or schedule IDs, of queued operations that cannot be sent and become failed."""
    sql = f"SELECT coalesce(o.schedule_id, o.id) FROM older_delivery_operations o WHERE {_UNSENDABLE} ORDER BY 1"
    return [row[0] for row in database.rows(sql)]


def _read_deliveries(database: Database) -> Iterator[OldDelivery]:
    database.change(_ORDER)
    after = 0
    while batch := database.rows(_IDS, (after, _BATCH)):
        for _, operation in batch:
            row = database.row(f"{_SELECT} WHERE id = ?", (operation,))
            facts = dict(zip(_COLUMNS, row or (), strict=True))
            length = _HEADER if facts["status"] in ("succeeded", "failed") else 1 << 40
            sql = "SELECT substr(message, 1, ?) FROM older_delivery_operations WHERE id = ?"
            yield OldDelivery(facts, database.value(sql, (length, operation)))
        after = batch[-1][0]


def _delivery_values(send: OldDelivery, now: datetime) -> tuple[dict[str, Any], ComposedMessage | None]:
    """Return the new row by column, and the message if it is still to be sent (otherwise None)."""
    facts, source = send.facts, send.source
    told, millis = legacy.read_listing(source or b""), to_millis(now)
    status = send.status
    result = facts["result_id"] or new_id("msg")
    thread = result if facts["result_id"] else new_id("thr")
    values = {
        **facts,
        "status": status,
        "phase": _PHASES[status],
        "credential_id": facts["credential_id"] or "",
        "request_hash": facts["request_hash"] or "",
        "message_id_header": facts["message_id_header"] or told.message_id,
        "result_id": result,
        "result_thread_id": facts["result_thread_id"] or thread,
        "result_warnings": _convert_warnings(facts["result_warnings"]),
        "summary": msgspec.json.encode(ScheduledSummary(told.to, told.subject)).decode() if facts["send_at"] else None,
        "next_attempt_at": None,
        "error_code": _REJECTED if status == "failed" != facts["status"] else facts["error_code"],
        "uncertain_at": millis if status == "uncertain" else None,
        "evidence_next_at": millis + FIRST_EVIDENCE_DELAY if status == "uncertain" else None,
    }
    composed = None if send.is_over or not send.can_be_sent else _compose_open(send)
    values["envelope"] = msgspec.json.encode(composed.envelope if composed else _envelope(facts)).decode()
    if composed is not None:
        values["message_id_header"] = composed.message_id
    if status == "queued":
        # Without a time to send, it is due since its creation.
        values["send_at"] = facts["send_at"] or facts["created_at"]
        values["next_attempt_at"] = to_millis(from_timestamp(values["send_at"]))
        values["schedule_id"] = facts["schedule_id"] or new_id("sch")
    return values, composed


def _write_message(database: Database, operation: str, composed: ComposedMessage | None) -> None:
    if composed is not None:
        row = (operation, composed.wire.read(), composed.bcc_header)
        database.change("INSERT INTO main.delivery_messages VALUES (?, ?, ?)", row)
        return
    sql = "SELECT id, message, x'' FROM older_delivery_operations WHERE id = ? AND message IS NOT NULL"
    database.change(f"INSERT INTO main.delivery_messages {sql}", (operation,))


def _compose_open(send: OldDelivery) -> ComposedMessage:
    facts, envelope = send.facts, _envelope(send.facts)
    date = from_timestamp(facts["send_at"] or facts["created_at"])
    sender = envelope.sender if is_writable(envelope.sender) else _NOBODY
    message_id = facts["message_id_header"] or compose.new_message_id(sender)
    return legacy.normalize(send.source or b"", envelope, message_id=message_id, date=date)


def _envelope(facts: dict[str, Any]) -> Envelope:
    told = json.loads(facts["envelope"])
    return Envelope(told["from"], tuple(told["recipients"]))


def _convert_warnings(stored: str | None) -> str:
    """An old list has no topics; it gets numbered ones."""
    found = json.loads(stored or "{}")
    if isinstance(found, list):
        found = {f"told{number}": text for number, text in enumerate(found) if isinstance(text, str)}
    return json.dumps(found if isinstance(found, dict) else {})
