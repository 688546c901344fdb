"""Sending policies as they are stored, and approvals: deliveries that wait until a person approves them.

pending --approve--> approved: the delivery is queued for now, or for the time at which it is scheduled
   |----reject-----> rejected: the delivery has failed
   `--(its delivery ends otherwise, or nobody decides in time)--> expired
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import Clock, from_timestamp, to_millis, to_timestamp
from mailbox_appliance.errors import Conflict, NotFound
from mailbox_appliance.model.approvals import Approval, Requester, SendingPolicy, StoredApproval
from mailbox_appliance.model.base import from_stored_text
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.deliveries import DeliveryWork, NewApproval
from mailbox_appliance.model.messages import ComposedMessage, MessageSummary
from mailbox_appliance.store.changes import VISIBLE_APPROVALS
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.deliveries import DeliveryOutcome, end_delivery
from mailbox_appliance.store.delivery_queries import insert_approval


class SendingPolicies:
    """Reads and writes the sending policies of mailboxes and API keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, account_id: str, credential_id: str) -> tuple[SendingPolicy | None, SendingPolicy | None]:
        """Return the policies of a mailbox and of a credential; None without one. A session has none.

        Raises msgspec.DecodeError for one that cannot be read.
        """
        return self.find_of_account(account_id), self.find_of_key(credential_id)

    def find_of_account(self, account_id: str) -> SendingPolicy | None:
        """Return the policy of a mailbox; None without one. Raises msgspec.DecodeError if it cannot be read."""
        return _decode(self._database.value("SELECT sending_policy FROM accounts WHERE id = ?", (account_id,)))

    def find_of_key(self, key_id: str) -> SendingPolicy | None:
        """Return the policy of an API key; None without one. Raises msgspec.DecodeError if it cannot be read."""
        return _decode(self._database.value("SELECT sending_policy FROM api_keys WHERE id = ?", (key_id,)))

    def is_set_of_key(self, key_id: str) -> bool:
        """Whether an API key has a policy, also one that cannot be read."""
        return bool(self._database.value("SELECT sending_policy IS NOT NULL FROM api_keys WHERE id = ?", (key_id,)))

    def set_of_account(self, account_id: str, policy: SendingPolicy) -> None:
        """Replace the policy of a mailbox. Call it inside a transaction."""
        self._set("accounts", account_id, policy)

    def set_of_key(self, key_id: str, policy: SendingPolicy) -> None:
        """Replace the policy of an API key. Call it inside a transaction."""
        self._set("api_keys", key_id, policy)

    def _set(self, table: str, row_id: str, policy: SendingPolicy) -> None:
        text = None if policy == SendingPolicy() else msgspec.json.encode(policy).decode()
        self._database.change(f"UPDATE {table} SET sending_policy = ? WHERE id = ?", (text, row_id))


def _decode(text: str | None) -> SendingPolicy | None:
    return None if text is None else decode_json(text, SendingPolicy)


_COLUMNS = (
    "p.id, p.operation, d.account_id, d.kind, p.status, d.credential_id, d.member_id, p.reasons, p.by_owner, p.digest,"
    " p.message, p.created_at, p.expires_at, p.decided_at, p.decided_by,"
    " coalesce((SELECT name FROM api_keys k WHERE k.id = d.credential_id),"
    " (SELECT name FROM members m WHERE m.id = d.member_id)),"
    " iif(d.kind = 'scheduled', d.send_at, NULL), d.number"
)
_FROM = "FROM approvals p JOIN delivery_operations d ON d.id = p.operation"


class Approvals:
    """Reads approvals, and records decisions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def list(
        self, member_id: str, *, status: str | None, before: int | None, limit: int
    ) -> tuple[tuple[StoredApproval, ...], int | None]:
        """Return a page of the approvals that a member sees, newest first, and the `before` of the next page (None at
        the end).

        `status`: only those with this status; None for all. `before`: from the previous page; None begins with the
        newest.
        """
        wanted = "" if status is None else " AND p.status = :status"
        rows = self._database.rows(
            f"SELECT {_COLUMNS} {_FROM} WHERE d.number < :before AND {VISIBLE_APPROVALS}{wanted}"
            " ORDER BY d.number DESC LIMIT :most",
            {"member": member_id, "status": status, "before": before or 1 << 62, "most": limit + 1},
        )
        return self._to_page(rows, limit)

    def list_requested(
        self, credential_id: str, account_ids: Collection[str], *, status: str | None, before: int | None, limit: int
    ) -> tuple[tuple[StoredApproval, ...], int | None]:
        """Return a page of the approvals that a credential asked for in these mailboxes, as `list` does."""
        wanted = "" if status is None else " AND p.status = :status"
        rows = self._database.rows(
            f"SELECT {_COLUMNS} {_FROM} WHERE d.number < :before AND d.credential_id = :credential{wanted}"
            " AND d.account_id IN (SELECT value FROM json_each(:accounts)) ORDER BY d.number DESC LIMIT :most",
            {
                "credential": credential_id,
                "accounts": json.dumps([*account_ids]),
                "status": status,
                "before": before or 1 << 62,
                "most": limit + 1,
            },
        )
        return self._to_page(rows, limit)

    def _to_page(self, rows: Sequence[Row], limit: int) -> tuple[tuple[StoredApproval, ...], int | None]:
        self._database.wait_until_durable()
        page = rows[:limit]
        return tuple(map(_to_approval, page)), page[-1][-1] if len(rows) > limit else None

    def get(self, approval_id: str, member_id: str) -> StoredApproval:
        """Return an approval that this member sees. Raises NotFound."""
        row = self._database.row(
            f"SELECT {_COLUMNS} {_FROM} WHERE p.id = :id AND {VISIBLE_APPROVALS}",
            {"id": approval_id, "member": member_id},
        )
        self._database.wait_until_durable()
        if row is None:
            raise NotFound(what="approval")
        return _to_approval(row)

    def find(self, approval_id: str) -> StoredApproval | None:
        """Return an approval, without a check who may see it, or None."""
        row = self._database.row(f"SELECT {_COLUMNS} {_FROM} WHERE p.id = ?", (approval_id,))
        return None if row is None else _to_approval(row)

    def find_of(self, operation_id: str) -> StoredApproval | None:
        """Return the approval that a delivery needs or needed, or None."""
        row = self._database.row(f"SELECT {_COLUMNS} {_FROM} WHERE p.operation = ?", (operation_id,))
        return None if row is None else _to_approval(row)

    def count_pending(self, member_id: str) -> int:
        """Return how many pending approvals this member can give: of those by owners, only as the owner."""
        owner = "(SELECT o.owner_member_id FROM accounts o WHERE o.id = d.account_id)"
        may_decide = f"(NOT p.by_owner OR {owner} = :member)"
        sql = f"SELECT count(*) {_FROM} WHERE p.status = 'pending' AND {may_decide} AND {VISIBLE_APPROVALS}"
        return int(self._database.value(sql, {"member": member_id}))

    def add(self, work: DeliveryWork, approval: NewApproval) -> None:
        """Let a queued delivery wait for an approval, in a transaction of its own. An earlier approval is void."""
        now = self._clock.now()
        with self._database.transaction(durable=True):
            due = to_millis(now + approval.lifetime)
            # Without a cause: the queue moves attempts forward that failed earlier.
            sql = (
                "UPDATE delivery_operations SET next_attempt_at = ?, last_cause = NULL"
                " WHERE id = ? AND status = 'queued'"
            )
            if self._database.change(sql, (due, work.operation_id)):
                self._database.change("DELETE FROM approvals WHERE operation = ?", (work.operation_id,))
                message = ComposedMessage(work.wire, work.bcc_header, work.envelope, work.message_id)
                insert_approval(self._database, work.operation_id, message, approval, now)

    def approve(self, approval: StoredApproval, member_id: str) -> None:
        """Record an approval, and queue its delivery. Call it inside a transaction.

        Raises Conflict if it is not pending any more.
        """
        now = self._clock.now()
        if from_timestamp(approval.shown.expires_at) <= now:
            raise Conflict(reason="This approval has expired, so the message is not sent.")
        self._decide(approval, "approved", member_id, now)
        # If its time has passed, or it has none, it is due now, and from then on tried like a scheduled message.
        planned = self._database.value(
            "SELECT send_at FROM delivery_operations WHERE id = ?", (approval.shown.operation_id,)
        )
        due = now if planned is None else max(now, from_timestamp(planned))
        self._database.change(
            "UPDATE delivery_operations SET send_at = ?, next_attempt_at = ? WHERE id = ? AND status = 'queued'",
            (to_timestamp(due), to_millis(due), approval.shown.operation_id),
        )

    def reject(self, approval: StoredApproval, member_id: str, remark: str | None) -> None:
        """Record a rejection, and end its delivery as failed. Call it inside a transaction.

        Raises Conflict if it is not pending any more.
        """
        now = self._clock.now()
        self._decide(approval, "rejected", member_id, now, remark)
        warnings = () if remark is None else (f"It was rejected: {remark}",)
        end_delivery(
            self._database,
            approval.shown.operation_id,
            DeliveryOutcome("failed", "approval_rejected", warnings, came_from="queued"),
            now,
        )

    def _decide(
        self, approval: StoredApproval, status: str, member_id: str, now: datetime, remark: str | None = None
    ) -> None:
        changed = self._database.change(
            "UPDATE approvals SET status = ?, decided_at = ?, decided_by = ?, remark = ?"
            " WHERE id = ? AND status = 'pending'",
            (status, to_timestamp(now), member_id, remark, approval.shown.id),
        )
        if not changed:
            raise Conflict(reason="This approval is no longer pending. Get it again to see its status.")


def _to_approval(row: Row) -> StoredApproval:
    reasons: Sequence[str] = json.loads(row[7])
    message = decode_json(row[10], MessageSummary)
    shown = Approval(
        id=row[0],
        operation_id=row[1],
        account_id=row[2],
        kind=row[3],
        send_at=row[16] or UNSET,
        status=row[4],
        requested_by=Requester(
            kind="api_key" if row[5].startswith("key_") else "session", id=row[5], name=row[15] or ""
        ),
        reasons=tuple(map(from_stored_text, reasons)),
        from_=message.from_,
        to=message.to,
        cc=message.cc,
        bcc=message.bcc,
        subject=message.subject,
        attachments=message.attachments,
        digest=row[9],
        created_at=row[11],
        expires_at=row[12],
        decided_at=row[13],
        decided_by=row[14],
    )
    return StoredApproval(shown, member_id=row[6], by_owner=bool(row[8]))
