"""Deliveries as people look at them: what was sent, to whom and when, and each step that it went."""

import json
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from mailbox_appliance.clock import from_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import (
    DeliveryEntry,
    DeliveryStatus,
    DeliveryStep,
    DeliveryTimeline,
    Envelope,
    SentCopy,
)
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.delivery_rows import COLUMNS, Summary, to_delivery, warnings_of

#: Bytes of a message that hold its header; the subject of one with a longer header is not told.
_HEADER = 65_536
_WIDTH = len(COLUMNS.split(","))
# What is filed or mirrored is told from there, what is kept from its bytes; of others nobody knows the subject.
_ENTRY = f"""
SELECT {COLUMNS}, d.created_at, d.updated_at, d.send_at, d.summary, d.envelope, d.member_id,
  (SELECT m.subject FROM messages m WHERE m.id = d.result_id),
  (SELECT substr(w.wire, 1, {_HEADER}) FROM delivery_messages w WHERE w.operation = d.id), d.number,
  d.message_id_header, d.attempts, d.next_attempt_at, d.copy, d.evidence_looks, d.evidence_next_at, d.reply_code,
  d.reply_enhanced, d.uncertain_at FROM delivery_operations d"""
_THEIRS, _OF_ALL = "member_id = :member", "kind = 'scheduled'"
_VISIBLE = f"d.shown AND (d.{_THEIRS} OR d.{_OF_ALL})"
# Each mailbox by its index, theirs and the scheduled ones of everybody: so many of each as the page may need.
_NUMBERS = """
SELECT n.number FROM json_each(:accounts) a JOIN delivery_operations n ON n.number IN (
  SELECT number FROM delivery_operations WHERE account_id = a.value AND {whose} AND number < :before AND shown{status}
  ORDER BY number DESC LIMIT :most)"""
_STEPS = "SELECT at, attempt, phase FROM delivery_phases WHERE operation = ? ORDER BY rowid"


class DeliveryTimelines:
    """Reads the journal of sending for people."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        account_ids: Collection[str],
        member_id: str,
        *,
        status: DeliveryStatus | None,
        before: int | None,
        limit: int,
    ) -> tuple[tuple[DeliveryEntry, ...], int | None]:
        """A page of what this member sees in these mailboxes, newest first, and the position to go on from."""
        having = " AND status = :status" if status else ""
        both = (_NUMBERS.format(whose=whose, status=having) for whose in (_THEIRS, _OF_ALL))
        sql = f"{_ENTRY} WHERE d.number IN ({' UNION ALL '.join(both)}) ORDER BY d.number DESC LIMIT :most"
        before = before if before is not None else 1 << 62
        values = {"accounts": json.dumps([*account_ids]), "member": member_id, "before": before, "most": limit + 1}
        values |= {"status": status} if status else {}
        rows = self._database.rows(sql, values)
        page = rows[:limit]
        return tuple(_to_entry(row, member_id) for row in page), _more(page[-1]).number if len(rows) > limit else None

    def get(self, account_id: str, operation_id: str, member_id: str) -> tuple[DeliveryTimeline, tuple[str, ...]]:
        """All the steps of an operation that this member sees, and its warnings. Raises NotFound."""
        values = {"id": operation_id, "account": account_id, "member": member_id}
        row = self._database.row(f"{_ENTRY} WHERE d.id = :id AND d.account_id = :account AND {_VISIBLE}", values)
        if row is None:
            raise NotFound(what="delivery operation")
        phases = self._database.rows(_STEPS, (operation_id,))
        return _to_timeline(row, phases, member_id), warnings_of(row)


class _More(NamedTuple):
    """What `_ENTRY` has behind `COLUMNS`."""

    created_at: str
    updated_at: str
    send_at: str | None
    summary: str | None
    envelope: str
    member_id: str
    subject: str | None
    wire: bytes | None
    number: int
    message_id_header: str
    attempts: int
    next_attempt_at: int | None
    copy: SentCopy
    looks: int
    next_look_at: int | None
    reply_code: int | None
    reply_enhanced: str | None
    uncertain_at: int | None


def _more(row: Row) -> _More:
    return _More(*row[_WIDTH:])


def _to_entry(row: Row, member_id: str) -> DeliveryEntry:
    more = _more(row)
    summary = decode_json(more.summary or b"{}", Summary)
    is_own = more.member_id == member_id
    # Hidden recipients are told to who sent it.
    told = decode_json(more.envelope, Envelope).recipients if is_own else tuple(a.email for a in summary.to)
    return DeliveryEntry(
        **msgspec.structs.asdict(to_delivery(row)),
        created_at=more.created_at,
        updated_at=more.updated_at,
        send_at=more.send_at,
        subject=summary.subject or _subject(more),
        recipients=told,
        is_own=is_own,
    )


def _subject(more: _More) -> str | None:
    if more.subject is not None or more.wire is None:
        return more.subject
    header, end, _ = bytes(more.wire).partition(b"\r\n\r\n")
    return parse(header + end).subject if end else None


def _to_timeline(row: Row, phases: list[Row], member_id: str) -> DeliveryTimeline:
    more = _more(row)
    return DeliveryTimeline(
        **msgspec.structs.asdict(_to_entry(row, member_id)),
        message_id_header=more.message_id_header,
        attempts=more.attempts,
        next_attempt_at=_moment(more.next_attempt_at),
        sent_copy=more.copy,
        looks=more.looks,
        next_look_at=_moment(more.next_look_at),
        reply_code=more.reply_code,
        reply_enhanced=more.reply_enhanced,
        steps=tuple(_steps(phases, row[3], more)),
    )


def _steps(phases: list[Row], status: DeliveryStatus, more: _More) -> Iterator[DeliveryStep]:
    """What was noted at each phase, and what came of it in the end."""
    yield from (DeliveryStep(at=at, attempt=attempt, step=phase) for at, attempt, phase in phases)
    if more.uncertain_at is not None:
        at = to_timestamp(from_millis(more.uncertain_at))
        yield DeliveryStep(at=at, attempt=more.attempts, step="uncertain")
    if status in ("succeeded", "failed"):
        yield DeliveryStep(at=more.updated_at, attempt=more.attempts, step=status)


def _moment(millis: int | None) -> str | None:
    return None if millis is None else to_timestamp(from_millis(millis))
