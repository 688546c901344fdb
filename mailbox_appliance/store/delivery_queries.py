"""Reading the delivery operations: lists, timelines, counts for charts, and old idempotency keys.

`deliveries.py` changes the operations. The statements that insert or change a single row are in this module, next to
the columns of that row.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import Clock, from_millis, from_timestamp, to_millis, to_timestamp
from mailbox_appliance.errors import Detail, DraftInUse, DraftSent, IdempotencyConflict, NotFound, QuotaReached
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.preview import summarize
from mailbox_appliance.model.base import from_stored_text, own_text, to_stored_text
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.deliveries import (
    Delivery,
    DeliveryEntry,
    DeliveryError,
    DeliveryResult,
    DeliveryStatus,
    DeliveryStep,
    DeliveryTimeline,
    DeliveryWork,
    LegacyResponse,
    LegacySendResult,
    NewApproval,
    NewDelivery,
    OpenDelivery,
    Phase,
    PhaseStep,
    Quota,
    ScheduledSend,
    SentCopy,
)
from mailbox_appliance.model.messages import Address, ComposedMessage, Envelope
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.changes import VISIBLE_APPROVALS
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.moves import first_number

# --- Rows: writing them, and converting them for clients and the worker ---


_IS_PENDING = "EXISTS (SELECT 1 FROM approvals p WHERE p.operation = d.id AND p.status = 'pending')"
#: The warning of a message while a person must approve it.
WAITS_FOR_APPROVAL = own_text(
    "This message waits until a person approves it: `mailbox-appliance approvals list`, or the console."
)
DELIVERY_COLUMNS = (
    "d.id, d.account_id, d.kind, d.status, d.result_id, d.result_thread_id, d.result_warnings, d.error_code,"
    " d.schedule_id, d.warnings, d.shown, d.request_hash, d.accepted_warnings,"
    f" {_IS_PENDING}"
)
SELECT_WORK = (
    "SELECT d.id, d.account_id, d.kind, d.status, d.phase, d.shown, m.wire, m.bcc_header, d.envelope,"
    " d.message_id_header, d.result_id, d.result_thread_id, d.created_at, d.copy_attempts, d.attempts, d.send_at,"
    " d.last_cause, d.credential_id, d.member_id, d.draft_id, d.parent_id, d.updated_at,"
    " d.provider_draft_id"
    " FROM delivery_operations d LEFT JOIN delivery_messages m ON m.operation = d.id"
)
SELECT_OPEN = "SELECT id, account_id, phase, shown, kind FROM delivery_operations"
SELECT_SCHEDULED = (
    "SELECT d.schedule_id, d.account_id, d.id, d.send_at, d.status, d.summary, d.created_at, d.number"
    " FROM delivery_operations d"
)
_INSERT_DELIVERY = """
INSERT INTO delivery_operations (id, account_id, credential_id, member_id, idempotency_key, request_hash, kind, status,
  phase, shown, envelope, message_id_header, result_id, result_thread_id, draft_id, draft_version, parent_id,
  schedule_id, send_at, summary, next_attempt_at, accepted_warnings, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'accepted', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_INSERT_APPROVAL = """
INSERT INTO approvals (operation, id, reasons, by_owner, digest, message, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


class ScheduledSummary(msgspec.Struct, frozen=True):
    """The recipients and subject of a scheduled message, stored as JSON to show them in lists."""

    to: tuple[Address, ...] = ()
    subject: str = ""


def warnings_of(row: Row) -> tuple[str, ...]:
    """Return the warnings of a row of DELIVERY_COLUMNS: of the request, of a pending approval, of the outcome."""
    accepted, ended = (tuple(map(from_stored_text, json.loads(row[number]))) for number in (12, 9))
    return (*accepted, *((WAITS_FOR_APPROVAL,) if row[13] else ()), *ended)


def to_delivery(row: Row) -> Delivery:
    """Convert a row of DELIVERY_COLUMNS to the record that clients receive."""
    result_warnings = tuple(map(from_stored_text, json.loads(row[6]).values()))
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
    """Convert a row of SELECT_WORK to the record for the worker that sends. `wire`: the bytes of the message."""
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
    """Convert a row of SELECT_OPEN to the record of an operation that has not ended. The record lacks the message."""
    return OpenDelivery(row[0], row[1], Phase(row[2]), bool(row[3]), row[4])


def to_scheduled(row: Row) -> ScheduledSend:
    """Convert a row of SELECT_SCHEDULED to the record that clients receive."""
    summary = decode_json(row[5] or b"{}", ScheduledSummary)
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


def insert_delivery(
    database: Database, new: NewDelivery, now: datetime, approval: NewApproval | None = None
) -> Delivery:
    """Insert a new operation with its message, and return it. Call it inside a transaction.

    With an approval it is queued, and due only to expire.
    """
    at, expires = to_timestamp(now), None if approval is None else now + approval.lifetime
    operation_id, is_scheduled = new_id("dlv"), new.send_at is not None
    due = expires or new.send_at
    status: DeliveryStatus = "sending" if due is None else "queued"
    schedule_id = new_id("sch") if is_scheduled else None
    summary = msgspec.json.encode(ScheduledSummary(new.to, new.subject)).decode() if is_scheduled else None
    database.change(
        _INSERT_DELIVERY,
        (
            operation_id,
            new.account_id,
            new.credential_id,
            new.member_id,
            new.idempotency_key,
            new.request_hash,
            new.kind,
            status,
            due is not None,  # It is answered at once, and cannot be withdrawn.
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
            None if due is None else to_millis(due),
            json.dumps([to_stored_text(one) for one in new.warnings]),
            at,
            at,
        ),
    )
    _insert_message(database, operation_id, new.message)
    if approval is not None:
        insert_approval(database, operation_id, new.message, approval, now)
    note_phase(database, operation_id, Phase.ACCEPTED, at)
    return Delivery(
        operation_id=operation_id,
        account_id=new.account_id,
        kind=new.kind,
        status=status,
        schedule_id=schedule_id or UNSET,
    )


def insert_approval(
    database: Database, operation_id: str, message: ComposedMessage, approval: NewApproval, now: datetime
) -> None:
    """Insert the approval that a delivery waits for. Call it inside a transaction."""
    reasons = json.dumps([to_stored_text(one) for one in approval.reasons])
    times = to_timestamp(now), to_timestamp(now + approval.lifetime)
    summary = msgspec.json.encode(summarize(message)).decode()
    row = (operation_id, new_id("apr"), reasons, approval.by_owner, digest_of(message.wire), summary, *times)
    database.change(_INSERT_APPROVAL, row)


def digest_of(wire: Content) -> str:
    """Return the digest by which people approve a message: of exactly the bytes that are sent."""
    digest = hashlib.sha256()
    for piece in wire.pieces():
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def enter_phases(database: Database, operation_id: str, steps: Sequence[PhaseStep]) -> bool:
    """Add phases to the history of an operation that is `sending`; the last one is its current phase. Call it inside a
    transaction.

    Returns False if the operation has ended or its mailbox is gone.
    """
    # The state that an earlier attempt left at the provider does not apply to this one.
    is_new = any(phase is Phase.CONNECTING for phase, _ in steps)
    phase, at = steps[-1]
    marked = database.change(
        "UPDATE delivery_operations SET phase = ?, updated_at = ?, attempts = attempts + ?,"
        " provider_draft_id = CASE WHEN ? THEN NULL ELSE provider_draft_id END WHERE id = ?"
        " AND status = 'sending' AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = account_id)",
        (phase, at, int(is_new), is_new, operation_id),
    )
    if marked:
        for phase, at in steps:
            note_phase(database, operation_id, phase, at)
    return bool(marked)


def set_provider_draft(database: Database, operation_id: str, draft_id: str | None) -> None:
    """Store the ID of the provider's draft that is about to be sent, or None. Call it inside a transaction."""
    sql = "UPDATE delivery_operations SET provider_draft_id = ? WHERE id = ?"
    database.change(sql, (draft_id, operation_id))


def note_phase(database: Database, operation_id: str, phase: Phase, at: str) -> None:
    """Add a phase and its timestamp to the history of an operation. Call it inside a transaction."""
    database.change(
        "INSERT INTO delivery_phases SELECT id, attempts, ?, ? FROM delivery_operations WHERE id = ?",
        (phase, at, operation_id),
    )


def _insert_message(database: Database, operation_id: str, message: ComposedMessage) -> None:
    pieces = message.wire.pieces()
    first = message.wire.read() if len(message.wire) <= LARGE else next(pieces)
    row = (operation_id, first, message.bcc_header)
    database.change("INSERT INTO delivery_messages VALUES (?, ?, ?)", row)
    if len(first) < len(message.wire):
        for position, piece in enumerate(pieces):
            database.change("INSERT INTO delivery_chunks VALUES (?, ?, ?)", (operation_id, position, piece))
        database.release_memory()


def load_message_bytes(database: Database, operation_id: str, first: bytes | None) -> Content:
    """Return the stored bytes of an operation's message; empty if they were deleted.

    `first`: the column `wire` of its row: the whole message, or the beginning of a large one. The rest is read when
    needed.
    """
    sql = "SELECT count(*), coalesce(sum(length(content)), 0) FROM delivery_chunks WHERE operation = ?"
    count, size = database.row(sql, (operation_id,)) or (0, 0)
    return Content(first or b"", _StoredChunks(database, operation_id, count, size)) if count else Content(first or b"")


class _StoredChunks(Content):
    """Read one at a time, without an open transaction between them. Raises NotFound if the message was deleted."""

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


# --- Lists, quotas, and drafts that are in use ---


# Written exactly as in the partial indexes, so that SQLite uses them.
_OPEN_DELIVERIES = "status IN ('queued', 'sending', 'uncertain')"
_VISIBLE_TO_MEMBER = "d.shown AND (d.member_id = ? OR d.kind = 'scheduled')"
# The member's own operations and everybody's scheduled ones, each by its index, however few they are.
_LISTED_NUMBERS = """
SELECT number FROM (SELECT number FROM delivery_operations WHERE account_id = :account AND {whose}
  AND number < :before AND shown ORDER BY number DESC LIMIT :most)"""
_DELIVERY_PAGE = f"""
SELECT {DELIVERY_COLUMNS}, d.number FROM delivery_operations d WHERE d.number IN (
  {_LISTED_NUMBERS.format(whose="member_id = :member")} UNION ALL {_LISTED_NUMBERS.format(whose="kind = 'scheduled'")})
  ORDER BY d.number DESC LIMIT :most"""
_DRAFT_IN_USE = f"""
SELECT id, status FROM delivery_operations d WHERE draft_id = ? AND account_id = ? AND ({_OPEN_DELIVERIES} OR EXISTS (
  SELECT 1 FROM delivery_chores c WHERE c.operation = d.id AND c.kind = 'remove_draft')) LIMIT 1"""
# Only the newest are read, as many as the quota allows. Those from before the clock was set back lie in the future.
_COUNT_HANDED_IN = """
SELECT count(*), min(created_at) FROM (SELECT created_at FROM delivery_operations WHERE {column} = ?
  ORDER BY number DESC LIMIT ?) WHERE created_at > ? AND created_at <= ?"""
_QUOTA_OWNERS = {"credential": "This API key or session", "account": "This mailbox"}
_QUOTA_WINDOWS = {timedelta(hours=1): ("an hour", "per_hour"), timedelta(days=1): ("a day", "per_day")}


class DeliveryLists:
    """Reads single delivery operations and lists of them, and checks quotas and drafts in use.

    Methods that return operations wait until what they return is on the disk.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def get(self, account_id: str, operation_id: str, member_id: str) -> tuple[Delivery, tuple[str, ...]]:
        """Return an operation that this member may see, and its warnings. Raises NotFound.

        A member may see their own operations, and all scheduled ones. An operation whose ID no response has contained
        yet is not found.
        """
        row = self._database.row(
            f"SELECT {DELIVERY_COLUMNS} FROM delivery_operations d"
            f" WHERE d.id = ? AND d.account_id = ? AND {_VISIBLE_TO_MEMBER}",
            (operation_id, account_id, member_id),
        )
        self._database.wait_until_durable()
        if row is None:
            raise NotFound(what="delivery operation")
        return to_delivery(row), warnings_of(row)

    def find(self, operation_id: str) -> Delivery | None:
        """Return an operation without checking access. None: no response has named it, or it does not exist."""
        row = self._database.row(
            f"SELECT {DELIVERY_COLUMNS} FROM delivery_operations d WHERE d.id = ? AND d.shown", (operation_id,)
        )
        return None if row is None else to_delivery(row)

    def get_sender_id(self, account_id: str, operation_id: str) -> str:
        """Return the ID of the member who submitted an operation. Raises NotFound, also before its ID was shown."""
        sql = "SELECT member_id FROM delivery_operations WHERE id = ? AND account_id = ? AND shown"
        member_id = self._database.value(sql, (operation_id, account_id))
        if member_id is None:
            raise NotFound(what="delivery operation")
        return str(member_id)

    def list(
        self, account_id: str, member_id: str, *, before: int | None, limit: int
    ) -> tuple[tuple[Delivery, ...], int | None]:
        """Return a page of the operations that this member may see, newest first, and the `before` of the next page
        (None at the end).

        `before`: row number; only older operations are returned. None begins with the newest.
        """
        before = before if before is not None else 1 << 62
        values = {"account": account_id, "member": member_id, "before": before, "most": limit + 1}
        rows = self._database.rows(_DELIVERY_PAGE, values)
        self._database.wait_until_durable()
        page = rows[:limit]
        return tuple(map(to_delivery, page)), page[-1][-1] if len(rows) > limit else None

    def list_scheduled(
        self, account_id: str, *, after: int | None, limit: int
    ) -> tuple[tuple[ScheduledSend, ...], int | None]:
        """Return a page of the scheduled messages that have not ended, soonest first, and the `after` of the next page
        (None at the end).

        `after`: row number of the last operation of the previous page; None for the first page.
        """
        place = "(SELECT send_at, number FROM delivery_operations WHERE number = ?)"
        beyond = f" AND (d.send_at, d.number) > {place}" if after is not None else ""
        rows = self._database.rows(
            f"{SELECT_SCHEDULED} WHERE d.account_id = ? AND d.schedule_id IS NOT NULL AND d.{_OPEN_DELIVERIES}{beyond}"
            " ORDER BY d.send_at, d.number LIMIT ?",
            (account_id, *(() if after is None else (after,)), limit + 1),
        )
        self._database.wait_until_durable()
        page = rows[:limit]
        return tuple(map(to_scheduled, page)), page[-1][-1] if len(rows) > limit else None

    def find_source(self, account_id: str, message_id: str) -> Content | None:
        """Return the bytes of a sent message that is not filed in Sent yet, with its Bcc header; None for any other."""
        row = self._database.row(
            "SELECT d.id, m.wire, m.bcc_header FROM delivery_operations d JOIN delivery_messages m"
            " ON m.operation = d.id WHERE d.account_id = ? AND d.result_id = ? AND d.copy = 'pending'",
            (account_id, message_id),
        )
        return None if row is None else with_bcc(load_message_bytes(self._database, row[0], row[1]), row[2])

    def count_open(self, account_ids: Collection[str]) -> dict[str, int]:
        """Return the number of operations of these mailboxes by status, for `queued`, `sending` and `uncertain`."""
        # `+`: use the index of open operations, not that of all operations of these mailboxes.
        mine = f"+account_id IN ({', '.join('?' * len(account_ids))})"
        sql = f"SELECT status, count(*) FROM delivery_operations WHERE {_OPEN_DELIVERIES} AND {mine} GROUP BY status"
        found: dict[str, int] = dict(self._database.rows(sql, tuple(account_ids)))
        return {status: found.get(status, 0) for status in ("queued", "sending", "uncertain")}

    def require_free_draft(self, account_id: str, draft_id: str) -> None:
        """Raise DraftInUse if a saved draft is being sent or may have been sent, and DraftSent if it was sent."""
        row = self._database.row(_DRAFT_IN_USE, (draft_id, account_id))
        if row is not None:
            operation_id, status = row
            problem = DraftSent if status == "succeeded" else DraftInUse
            raise problem(operation=operation_id, details=(Detail("operation", operation_id),))

    def require_quotas(self, account_id: str, credential_id: str, quotas: Iterable[Quota]) -> None:
        """Raise QuotaReached if one of these sending quotas is used up for the credential or the mailbox.

        `retry_after` of the error: seconds until this quota allows another message.
        """
        for quota in quotas:
            owner = credential_id if quota.of == "credential" else account_id
            self._require_quota(quota, owner)

    def _require_quota(self, quota: Quota, owner: str) -> None:
        now = self._clock.now()
        row = self._database.row(
            _COUNT_HANDED_IN.format(column=f"{quota.of}_id"),
            (owner, quota.most, to_timestamp(now - quota.window), to_timestamp(now)),
        )
        count, oldest = row or (0, None)
        if count >= quota.most:
            window, setting = _QUOTA_WINDOWS[quota.window]
            began = now if oldest is None else from_timestamp(oldest)
            left = (began + quota.window - now).total_seconds()
            raise QuotaReached(
                retry_after=max(1, int(left) + 1),
                who=_QUOTA_OWNERS[quota.of],
                most=quota.most,
                window=window,
                setting=quota.setting or f"`sending.{quota.of}_{setting}`",
            )


# --- Timelines: messages with recipients and times, and each step of their deliveries ---


#: The bytes of a message that are read for its header; the subject of a message with a longer header is not shown.
_HEADER_SIZE = 65_536
_WIDTH = len(DELIVERY_COLUMNS.split(","))
# The subject comes from the filed or mirrored copy, or from the stored bytes; for others it is unknown.
_ENTRY = f"""
SELECT {DELIVERY_COLUMNS}, d.created_at, d.updated_at, d.send_at, d.summary, d.envelope, d.member_id,
  (SELECT m.subject FROM messages m WHERE m.id = d.result_id),
  (SELECT substr(w.wire, 1, {_HEADER_SIZE}) FROM delivery_messages w WHERE w.operation = d.id), d.number,
  d.message_id_header, d.attempts, CASE WHEN NOT {_IS_PENDING} THEN d.next_attempt_at END, d.copy, d.evidence_looks,
  d.evidence_next_at, d.reply_code, d.reply_enhanced, d.uncertain_at, (SELECT iif({VISIBLE_APPROVALS}, p.id, '')
    FROM approvals p WHERE p.operation = d.id AND p.status = 'pending') FROM delivery_operations d"""
_OWN_DELIVERIES, _SCHEDULED_DELIVERIES = "member_id = :member", "kind = 'scheduled'"
_VISIBLE_ENTRY = f"d.shown AND (d.{_OWN_DELIVERIES} OR d.{_SCHEDULED_DELIVERIES})"
# Each mailbox by its index, the member's own operations and everybody's scheduled ones, as many of each as the page may
# need.
_ENTRY_NUMBERS = """
SELECT n.number FROM json_each(:accounts) a JOIN delivery_operations n ON n.number IN (
  SELECT number FROM delivery_operations WHERE account_id = a.value AND {whose} AND number < :before AND shown{status}
  ORDER BY number DESC LIMIT :most)"""
_SELECT_PHASES = "SELECT at, attempt, phase FROM delivery_phases WHERE operation = ? ORDER BY rowid"


class DeliveryTimelines:
    """Reads delivery operations with their recipients, times and steps, mainly for the console.

    The methods wait until what they return is on the disk.
    """

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
        """Return a page of the operations in these mailboxes that this member may see, newest first.

        Also returns the `before` of the next page (None at the end). `status`: only operations with this status; None:
        all. `before`: row number; only older operations are returned.
        """
        having = " AND status = :status" if status else ""
        both = (_ENTRY_NUMBERS.format(whose=whose, status=having) for whose in (_OWN_DELIVERIES, _SCHEDULED_DELIVERIES))
        sql = f"{_ENTRY} WHERE d.number IN ({' UNION ALL '.join(both)}) ORDER BY d.number DESC LIMIT :most"
        before = before if before is not None else 1 << 62
        values = {"accounts": json.dumps([*account_ids]), "member": member_id, "before": before, "most": limit + 1}
        values |= {"status": status} if status else {}
        rows = self._database.rows(sql, values)
        self._database.wait_until_durable()
        page = rows[:limit]
        return tuple(_to_entry(row, member_id) for row in page), _entry_details(page[-1]).number if len(
            rows
        ) > limit else None

    def get(
        self, account_id: str, operation_id: str, member_id: str, running: Sequence[PhaseStep] = ()
    ) -> tuple[DeliveryTimeline, tuple[str, ...]]:
        """Return an operation that this member may see with all its steps, and its warnings. Raises NotFound.

        `running`: the phases of the present attempt that are not recorded yet, read before this call.
        """
        values = {"id": operation_id, "account": account_id, "member": member_id}
        row = self._database.row(f"{_ENTRY} WHERE d.id = :id AND d.account_id = :account AND {_VISIBLE_ENTRY}", values)
        self._database.wait_until_durable()
        if row is None:
            raise NotFound(what="delivery operation")
        phases = self._database.rows(_SELECT_PHASES, (operation_id,))
        if row[3] == "sending":
            attempt, recorded = _entry_details(row).attempts + 1, {(phase, at) for at, _, phase in phases}
            phases += [(at, attempt, phase) for phase, at in running if (phase, at) not in recorded]
        return _to_timeline(row, phases, member_id), warnings_of(row)


class _EntryDetails(NamedTuple):
    """The columns that the query `_ENTRY` adds after DELIVERY_COLUMNS."""

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
    #: ID of the approval that it waits for; empty if the member does not see it, None if it waits for none.
    approval_id: str | None


def _entry_details(row: Row) -> _EntryDetails:
    return _EntryDetails(*row[_WIDTH:])


def _to_entry(row: Row, member_id: str) -> DeliveryEntry:
    more = _entry_details(row)
    summary = decode_json(more.summary or b"{}", ScheduledSummary)
    is_own = more.member_id == member_id
    # Hidden recipients are shown only to the member who sent it.
    told = decode_json(more.envelope, Envelope).recipients if is_own else tuple(a.email for a in summary.to)
    return DeliveryEntry(
        **msgspec.structs.asdict(to_delivery(row)),
        created_at=more.created_at,
        updated_at=more.updated_at,
        send_at=more.send_at,
        subject=summary.subject or _subject(more),
        recipients=told,
        is_own=is_own,
        approval_id=UNSET if more.approval_id is None else more.approval_id or None,
    )


def _subject(more: _EntryDetails) -> str | None:
    if more.subject is not None or more.wire is None:
        return more.subject
    header, end, _ = bytes(more.wire).partition(b"\r\n\r\n")
    return parse_message(header + end).subject if end else None


def _to_timeline(row: Row, phases: list[Row], member_id: str) -> DeliveryTimeline:
    more = _entry_details(row)
    return DeliveryTimeline(
        **msgspec.structs.asdict(_to_entry(row, member_id)),
        message_id_header=more.message_id_header,
        attempts=more.attempts,
        next_attempt_at=_to_moment(more.next_attempt_at),
        sent_copy=more.copy,
        outcome_warnings=tuple(map(from_stored_text, json.loads(row[9]))),
        looks=more.looks,
        next_look_at=_to_moment(more.next_look_at),
        reply_code=more.reply_code,
        reply_enhanced=more.reply_enhanced,
        steps=tuple(_timeline_steps(phases, row[3], more)),
    )


def _timeline_steps(phases: list[Row], status: DeliveryStatus, more: _EntryDetails) -> Iterator[DeliveryStep]:
    yield from (DeliveryStep(at=at, attempt=attempt, step=phase) for at, attempt, phase in phases)
    if more.uncertain_at is not None:
        at = to_timestamp(from_millis(more.uncertain_at))
        yield DeliveryStep(at=at, attempt=more.attempts, step="uncertain")
    if status in ("succeeded", "failed"):
        yield DeliveryStep(at=more.updated_at, attempt=more.attempts, step=status)


def _to_moment(millis: int | None) -> str | None:
    return None if millis is None else to_timestamp(from_millis(millis))


# --- Counts of sent and received messages over time, for charts; answered from indexes ---


# Folders whose messages are ours or lie in another folder as well, so nothing has arrived in them. On a server with
# labels, all messages lie in the folder of all mail, and other folders show ours.
_ALL_MAIL_FOLDERS = (
    "SELECT h.number FROM folders h JOIN folders s ON s.account = h.account AND s.label = '\\Sent'"
    " WHERE h.role = 'all' AND h.label IS NULL"
)
_FOLDERS_OF_OURS = f"""
SELECT number FROM folders WHERE role IN ('sent', 'drafts', 'all', 'starred') AND number NOT IN ({_ALL_MAIL_FOLDERS})"""
_SENT_BY_US = """
SELECT 1 FROM message_labels l JOIN folders s ON s.number = l.folder
  WHERE l.number = m.number AND s.label IN ('\\Sent', '\\Draft')"""
_FIRST_DELIVERY_FROM = "SELECT number, created_at FROM delivery_operations WHERE number >= ? ORDER BY number LIMIT 1"
# Each mailbox by its index, only the newest part; the member's own operations and everybody's scheduled ones.
_COUNT_DELIVERIES = """
SELECT (unixepoch(d.created_at) - :from) / :step, d.status, count(*)
  FROM accounts a JOIN delivery_operations d ON d.account_id = a.id AND d.number >= :first
  WHERE a.id IN (SELECT value FROM json_each(:accounts)) AND d.shown AND (d.member_id = :member OR d.kind = 'scheduled')
  AND d.created_at >= :since GROUP BY 1, 2"""
# The number of a message contains the second in which it arrived. The index has all columns needed.
_COUNT_ARRIVALS = f"""
SELECT ((m.number >> 4) - :from) / :step, count(*)
  FROM accounts a CROSS JOIN messages m INDEXED BY messages_account
  ON m.account = a.number AND m.number >= :low AND m.number < :high
  WHERE a.id IN (SELECT value FROM json_each(:accounts)) AND m.folder NOT IN ({_FOLDERS_OF_OURS})
  AND (m.folder NOT IN ({_ALL_MAIL_FOLDERS}) OR NOT EXISTS ({_SENT_BY_US})) GROUP BY 1"""


class TrafficHistory:
    """Counts sent and received messages for charts, by steps of equal length, numbered from 0 at `since`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count_deliveries(
        self, accounts: str, member_id: str, since: datetime, step: int
    ) -> Mapping[int, Mapping[str, int]]:
        """Return step number -> status -> number of operations that this member may see.

        `accounts`: mailbox IDs as a JSON array. `since`: start of step 0. `step`: length of a step in seconds. Steps
        without operations are missing.
        """
        values = self._step_values(accounts, since, step) | {
            "member": member_id,
            "first": self._find_first_delivery(to_timestamp(since)),
            "since": to_timestamp(since),
        }
        found: dict[int, dict[str, int]] = {}
        for index, status, count in self._database.rows(_COUNT_DELIVERIES, values):
            found.setdefault(index, {})[status] = count
        return found

    def count_arrivals(self, accounts: str, since: datetime, until: datetime, step: int) -> Mapping[int, int]:
        """Return step number -> number of messages that the server received in that step, without sent messages and
        drafts.

        `accounts`: mailbox IDs as a JSON array. `since`: start of step 0. `until`: end, exclusive. `step`: length of a
        step in seconds. Steps without messages are missing.
        """
        bounds = {"low": first_number(to_millis(since)), "high": first_number(to_millis(until))}
        rows: Iterable[tuple[int, int]] = self._database.rows(
            _COUNT_ARRIVALS, self._step_values(accounts, since, step) | bounds
        )
        return dict(rows)

    @staticmethod
    def _step_values(accounts: str, since: datetime, step: int) -> dict[str, object]:
        return {"accounts": accounts, "from": int(since.timestamp()), "step": step}

    def _find_first_delivery(self, since: str) -> int:
        """Return a row number from which on all operations were created at `since` or later, by binary search.

        Returns one above the highest number if there are none. Creation times are assumed to grow with the numbers. If
        the clock was set back, some operations may be missed, which makes a bar of a chart too short.
        """
        low, high = 0, int(self._database.value("SELECT max(number) FROM delivery_operations") or 0) + 1
        while low < high:
            middle = (low + high) // 2
            row = self._database.row(_FIRST_DELIVERY_FROM, (middle,))
            if row is None or row[1] >= since:
                high = middle
            else:
                low = row[0] + 1
        return low


# --- Idempotency keys from before delivery operations existed: for 24 hours they give the same answer ---


class _LegacyAnswer(msgspec.Struct, frozen=True):
    data: LegacySendResult
    warnings: tuple[str, ...] = ()


class LegacyIdempotencyKeys:
    """Reads the responses to send requests that older releases stored, before delivery operations existed."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, credential_id: str, idempotency_key: str, request_hash: str) -> LegacyResponse | None:
        """Return the stored response for this idempotency key; None if there is none or it has expired.

        `request_hash`: the hash of the present request. Raises IdempotencyConflict if the earlier request had another
        hash.
        """
        row = self._database.row(
            "SELECT request_hash, status, response_body FROM legacy_idempotency WHERE credential_id = ?"
            " AND idempotency_key = ? AND expires_at > ?",
            (credential_id, idempotency_key, to_timestamp(self._clock.now())),
        )
        if row is None:
            return None
        if row[0] != request_hash:
            raise IdempotencyConflict(operation="")
        envelope = decode_json(row[2], _LegacyAnswer)
        return LegacyResponse(row[1], envelope.data, envelope.warnings)
