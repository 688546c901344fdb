"""Finds the delivery tasks that are due (whose planned time has come), and plans the next attempts.

- scheduled messages to send
- evidence checks: searches for the message of an uncertain operation in Sent and the inbox
- follow-up tasks after an operation, such as deleting the draft that was sent
- copies of sent messages to file in Sent

Times are stored in milliseconds since 1970, UTC. A retry is never planned more than half an hour ahead. A later time
means that the clock was set back since; `pull_forward` corrects it.
"""

from datetime import datetime, timedelta

from mailbox_appliance.clock import Clock, from_millis, to_millis, to_timestamp
from mailbox_appliance.model.base import to_stored_text
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.deliveries import OpenDelivery, PostSendTask, UncertainDelivery
from mailbox_appliance.model.messages import Envelope
from mailbox_appliance.store import deliveries
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.delivery_queries import SELECT_OPEN, to_open_delivery

LONGEST_RETRY_DELAY = timedelta(minutes=30)
_MAX_OF_A_KIND = 200  # follow-up tasks of one kind in a mailbox that are returned at once; the others remain due
#: Due messages of one mailbox that are returned at once; so many leave the store before their turn.
MOST_SCHEDULED = 32

_NEXT_DUE = """
SELECT min(due) FROM (
  SELECT min((SELECT min(next_attempt_at) FROM delivery_operations WHERE account_id = a.id
    AND next_attempt_at > :after)) AS due FROM accounts a
  UNION ALL SELECT min(evidence_next_at) FROM delivery_operations WHERE evidence_next_at > :after
  UNION ALL SELECT min(next_at) FROM delivery_chores WHERE next_at > :after
  UNION ALL SELECT min(copy_next_at) FROM delivery_operations WHERE copy = 'pending' AND copy_next_at > :after)"""
# Mailbox by mailbox, so that many operations of one mailbox neither hide those of others nor are all read at each
# query.
_DUE_SENDS = f"""
{SELECT_OPEN} WHERE number IN (SELECT d.number FROM accounts a CROSS JOIN delivery_operations d WHERE d.number IN (
  SELECT number FROM delivery_operations WHERE account_id = a.id AND next_attempt_at <= :now AND status = 'queued'
  ORDER BY next_attempt_at LIMIT {MOST_SCHEDULED})) ORDER BY next_attempt_at"""
# `+`: otherwise SQLite reads all operations ever made, by the index of mailboxes, to group them.
_DUE_ACCOUNTS = "SELECT account_id FROM {table} WHERE {due} <= ? GROUP BY +account_id ORDER BY min({due})"
_EVIDENCE_ACCOUNTS = _DUE_ACCOUNTS.format(table="delivery_operations", due="evidence_next_at")
_CHORE_ACCOUNTS = _DUE_ACCOUNTS.format(
    table="delivery_chores c CROSS JOIN delivery_operations d ON d.id = c.operation", due="c.next_at"
)
_PULL_FORWARD = (
    """UPDATE delivery_operations SET next_attempt_at = :now
         WHERE next_attempt_at > :far AND last_cause IS NOT NULL AND send_at <= :at""",
    "UPDATE delivery_operations SET evidence_next_at = :now WHERE evidence_next_at > :far",
    "UPDATE delivery_operations SET copy_next_at = :now WHERE copy = 'pending' AND copy_next_at > :far",
    "UPDATE delivery_chores SET next_at = :now WHERE next_at > :far",
)
_PULL_FORWARD_MAILBOX = (
    """UPDATE delivery_operations SET next_attempt_at = :now WHERE account_id = :account
         AND next_attempt_at > :now AND last_cause IS NOT NULL AND send_at <= :at""",
    """UPDATE delivery_operations SET copy_next_at = :now WHERE account_id = :account
         AND copy = 'pending' AND copy_next_at > :now AND copy_attempts > 0""",
    """UPDATE delivery_chores SET next_at = :now WHERE next_at > :now AND attempts > 0
         AND (SELECT account_id FROM delivery_operations WHERE id = operation) = :account""",
)
_SELECT_CHORES = """
SELECT c.operation, d.account_id, c.kind, iif(c.kind = 'flag_parent', d.parent_id, d.draft_id), d.draft_version,
  CASE c.kind WHEN 'flag_parent' THEN iif(d.kind = 'forward', '$Forwarded', '\\Answered') END, c.attempts
FROM delivery_chores c CROSS JOIN delivery_operations d ON d.id = c.operation WHERE """


class DeliverySchedule:
    """Finds delivery tasks that are due, and records results. Writing methods run in transactions of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find_next_due(self, after: datetime) -> datetime | None:
        """Return the earliest due time later than `after` among all tasks; None if there is none."""
        millis = self._database.value(_NEXT_DUE, {"after": to_millis(after)})
        return None if millis is None else from_millis(millis)

    def pull_forward(self, now: datetime) -> None:
        """Make retries due now that are planned more than half an hour ahead, because the clock was set back."""
        values = {"now": to_millis(now), "far": to_millis(now + LONGEST_RETRY_DELAY), "at": to_timestamp(now)}
        with self._database.transaction():
            for sql in _PULL_FORWARD:
                self._database.change(sql, values)

    def pull_forward_mailbox(self, account_id: str, now: datetime) -> None:
        """Make the retries of a mailbox due now, because its servers work again.

        First attempts, and searches for the message of an uncertain operation, keep their times.
        """
        values = {"account": account_id, "now": to_millis(now), "at": to_timestamp(now)}
        with self._database.transaction():
            for sql in _PULL_FORWARD_MAILBOX:
                self._database.change(sql, values)

    def list_due_sends(self, now: datetime) -> tuple[OpenDelivery, ...]:
        """Return the scheduled messages that are due, earliest first; at most 32 of each mailbox."""
        rows = self._database.rows(_DUE_SENDS, {"now": to_millis(now)})
        return tuple(map(to_open_delivery, rows))

    def list_evidence_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of mailboxes with uncertain operations to search for, longest due first."""
        return tuple(row[0] for row in self._database.rows(_EVIDENCE_ACCOUNTS, (to_millis(now),)))

    def list_due_evidence(self, now: datetime, account_id: str) -> tuple[UncertainDelivery, ...]:
        """Return the uncertain operations of a mailbox whose message is due to be searched for in Sent and the inbox.

        The longest due come first; at most 200 are returned.
        """
        rows = self._database.rows(
            "SELECT id, account_id, message_id_header, envelope, uncertain_at, evidence_looks, provider_draft_id"
            " FROM delivery_operations"
            f" WHERE evidence_next_at <= ? AND +account_id = ? ORDER BY evidence_next_at LIMIT {_MAX_OF_A_KIND}",
            (to_millis(now), account_id),
        )
        return tuple(
            UncertainDelivery(
                row[0], row[1], row[2], decode_json(row[3], Envelope).recipients, from_millis(row[4]), row[5], row[6]
            )
            for row in rows
        )

    def schedule_evidence(self, operation_id: str, next_at: datetime | None) -> None:
        """Record a vain search for an uncertain operation's message. `next_at`: time of the next one; None: no more."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET evidence_next_at = ?, evidence_looks = evidence_looks + 1"
                " WHERE id = ? AND status = 'uncertain'",
                (None if next_at is None else to_millis(next_at), operation_id),
            )

    def list_chore_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of the mailboxes with follow-up tasks that are due, longest due first."""
        return tuple(row[0] for row in self._database.rows(_CHORE_ACCOUNTS, (to_millis(now),)))

    def list_due_chores(self, now: datetime, account_id: str) -> tuple[PostSendTask, ...]:
        """Return the follow-up tasks of a mailbox that are due, longest due first, at most 200."""
        sql = f"{_SELECT_CHORES} c.next_at <= ? AND +d.account_id = ? ORDER BY c.next_at LIMIT {_MAX_OF_A_KIND}"
        return tuple(map(_to_chore, self._database.rows(sql, (to_millis(now), account_id))))

    def list_chores(self, operation_id: str) -> tuple[PostSendTask, ...]:
        """Return the follow-up tasks of an operation that are not done yet."""
        return tuple(map(_to_chore, self._database.rows(f"{_SELECT_CHORES} c.operation = ?", (operation_id,))))

    def finish_chore(self, chore: PostSendTask, warning: str | None = None) -> None:
        """Delete a follow-up task that is done or has failed permanently, and the stored message if nothing else needs
        it.

        `warning`: the warning to add to the operation's result after a permanent failure.
        """
        with self._database.transaction():
            sql = "DELETE FROM delivery_chores WHERE operation = ? AND kind = ?"
            self._database.change(sql, (chore.operation_id, chore.kind))
            if warning is not None:
                sql = "UPDATE delivery_operations SET result_warnings = json_set(result_warnings, '$.' || ?, ?)"
                self._database.change(f"{sql} WHERE id = ?", (chore.kind, to_stored_text(warning), chore.operation_id))
            deliveries.delete_message_bytes(self._database, chore.operation_id)

    def postpone_chore(self, chore: PostSendTask, next_at: datetime) -> None:
        """Record a failed attempt of a follow-up task, and when to try it again."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_chores SET attempts = attempts + 1, next_at = ? WHERE operation = ? AND kind = ?",
                (to_millis(next_at), chore.operation_id, chore.kind),
            )


def _to_chore(row: Row) -> PostSendTask:
    operation_id, account_id, kind, message_id, version, flag, attempts = row
    return PostSendTask(operation_id, account_id, kind, message_id, version, flag, attempts)


# --- Copies of sent messages that are still to be filed in Sent ---


#: The warnings of a result, without and with the one about the copy.
_WITHOUT_COPY_WARNING = "json_remove(result_warnings, '$.copy')"
_WITH_COPY_WARNING = "json_set(result_warnings, '$.copy', ?)"
_DUE_COPIES = "FROM delivery_operations WHERE copy = 'pending' AND copy_next_at <= ?"


class SentCopies:
    """Keeps track of the copies of sent messages that must still be filed in Sent on the server.

    Each method that writes runs in a transaction of its own, which is not durable. If a power failure loses a change,
    the copy is searched for once more at the server.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def list_due_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of the mailboxes with copies that are due for filing, longest due first."""
        # `+`: use the index of what is due, not that of the mailboxes.
        sql = f"SELECT account_id {_DUE_COPIES} GROUP BY +account_id ORDER BY min(copy_next_at)"
        return tuple(row[0] for row in self._database.rows(sql, (to_millis(now),)))

    def list_due(self, now: datetime, account_id: str) -> tuple[str, ...]:
        """Return the IDs of a mailbox's operations whose copy is due for filing, longest due first."""
        sql = f"SELECT id {_DUE_COPIES} AND +account_id = ? ORDER BY copy_next_at"
        return tuple(row[0] for row in self._database.rows(sql, (to_millis(now), account_id)))

    def list_unshown(self) -> tuple[str, ...]:
        """Return the IDs of all operations with a copy to file that the mirror does not show, oldest first."""
        sql = (
            "SELECT id FROM delivery_operations WHERE copy = 'pending'"
            " AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = result_id) ORDER BY number"
        )
        return tuple(row[0] for row in self._database.rows(sql))

    def mark_filed(self, operation_id: str) -> None:
        """Record that the copy of an operation is in Sent on the server, and delete the stored message."""
        with self._database.transaction():
            sql = (
                f"UPDATE delivery_operations SET copy = 'filed', result_warnings = {_WITHOUT_COPY_WARNING} WHERE id = ?"
            )
            self._database.change(sql, (operation_id,))
            deliveries.delete_message_bytes(self._database, operation_id)

    def give_up(self, operation_id: str, warning: str) -> None:
        """Record that an operation's copy will not be filed, with a warning, and delete the stored message."""
        with self._database.transaction():
            sql = f"UPDATE delivery_operations SET copy = 'none', result_warnings = {_WITH_COPY_WARNING} WHERE id = ?"
            self._database.change(sql, (to_stored_text(warning), operation_id))
            deliveries.delete_message_bytes(self._database, operation_id)

    def postpone(self, operation_id: str, seconds: float, warning: str) -> None:
        """Plan the next attempt to file a copy, `seconds` from now. Until then the result has the warning."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET copy_attempts = copy_attempts + 1, copy_next_at = ?,"
                f" result_warnings = {_WITH_COPY_WARNING} WHERE id = ?",
                (to_millis(self._clock.now()) + int(seconds * 1000), to_stored_text(warning), operation_id),
            )

    def await_provider(self, operation_id: str, seconds: float) -> None:
        """Plan when to look again for a copy that the provider itself will file: `seconds` from now."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET copy_attempts = copy_attempts + 1, copy_next_at = ?,"
                f" result_warnings = {_WITHOUT_COPY_WARNING} WHERE id = ?",
                (to_millis(self._clock.now()) + int(seconds * 1000), operation_id),
            )
