"""What is to be done at a time: scheduled sends, looks for evidence, chores. Times are milliseconds since 1970 in UTC.

A retry is never planned further ahead than half an hour: what lies further ahead was planned before the clock was set
back, and `hasten` brings it near. A scheduled send waits for its time as the clock tells it.
"""

from datetime import datetime, timedelta

import msgspec

from mailbox_appliance.clock import from_millis, to_millis, to_timestamp
from mailbox_appliance.records import Chore, Envelope, OpenDelivery, UncertainDelivery
from mailbox_appliance.store import endings
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_rows import OPEN_DELIVERY, to_open_delivery

LONGEST_WAIT = timedelta(minutes=30)
_MOST = 200  # of a kind at once; what is left is due still

_NEXT = """
SELECT min(due) FROM (
  SELECT min(next_attempt_at) AS due FROM delivery_operations WHERE next_attempt_at IS NOT NULL
  UNION ALL SELECT min(evidence_next_at) FROM delivery_operations WHERE evidence_next_at IS NOT NULL
  UNION ALL SELECT min(next_at) FROM delivery_chores
  UNION ALL SELECT min(coalesce(copy_next_at, 0)) FROM delivery_operations WHERE copy = 'pending')"""
_HASTEN = (
    """UPDATE delivery_operations SET next_attempt_at = :now
         WHERE next_attempt_at > :far AND last_cause IS NOT NULL AND send_at <= :at""",
    "UPDATE delivery_operations SET evidence_next_at = :now WHERE evidence_next_at > :far",
    "UPDATE delivery_operations SET copy_next_at = :now WHERE copy = 'pending' AND copy_next_at > :far",
    "UPDATE delivery_chores SET next_at = :now WHERE next_at > :far",
)
_CHORES = """
SELECT c.operation, d.account_id, c.kind, CASE c.kind WHEN 'remove_draft' THEN d.draft_id WHEN 'flag_parent' THEN
  d.parent_id END, CASE c.kind WHEN 'flag_parent' THEN iif(d.kind = 'forward', '$Forwarded', '\\Answered') END,
  c.attempts
FROM delivery_chores c JOIN delivery_operations d ON d.id = c.operation WHERE """


class Due:
    """Reads what is due, and notes what was done about it. Each method that writes is one transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def next(self) -> datetime | None:
        """When something is due next, or None where nothing waits."""
        millis = self._database.value(_NEXT)
        return None if millis is None else from_millis(millis)

    def hasten(self, now: datetime) -> None:
        """Bring near what was planned before the clock was set back."""
        values = {"now": to_millis(now), "far": to_millis(now + LONGEST_WAIT), "at": to_timestamp(now)}
        with self._database.transaction():
            for sql in _HASTEN:
                self._database.change(sql, values)

    def scheduled(self, now: datetime) -> tuple[OpenDelivery, ...]:
        """Scheduled sends whose time has come, the earliest first."""
        where = "next_attempt_at IS NOT NULL AND next_attempt_at <= ? AND status = 'queued'"
        sql = f"{OPEN_DELIVERY} WHERE {where} ORDER BY next_attempt_at LIMIT {_MOST}"
        return tuple(map(to_open_delivery, self._database.rows(sql, (to_millis(now),))))

    def evidence(self, now: datetime) -> tuple[UncertainDelivery, ...]:
        """Uncertain operations whose message is to be looked for now."""
        rows = self._database.rows(
            "SELECT id, account_id, message_id_header, envelope, uncertain_at, evidence_looks FROM delivery_operations"
            f" WHERE evidence_next_at IS NOT NULL AND evidence_next_at <= ? ORDER BY evidence_next_at LIMIT {_MOST}",
            (to_millis(now),),
        )
        return tuple(
            UncertainDelivery(
                row[0],
                row[1],
                row[2],
                msgspec.json.decode(row[3], type=Envelope).recipients,
                from_millis(row[4]),
                row[5],
            )
            for row in rows
        )

    def plan_evidence(self, operation_id: str, next_at: datetime | None) -> None:
        """Evidence was looked for and not found: when to look again, or None for never."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET evidence_next_at = ?, evidence_looks = evidence_looks + 1"
                " WHERE id = ? AND status = 'uncertain'",
                (None if next_at is None else to_millis(next_at), operation_id),
            )

    def chores(self, now: datetime) -> tuple[Chore, ...]:
        """Chores whose time has come."""
        rows = self._database.rows(f"{_CHORES} c.next_at <= ? ORDER BY c.next_at LIMIT {_MOST}", (to_millis(now),))
        return tuple(Chore(*row) for row in rows)

    def chores_of(self, operation_id: str) -> tuple[Chore, ...]:
        """What is left to be done after an operation."""
        return tuple(Chore(*row) for row in self._database.rows(f"{_CHORES} c.operation = ?", (operation_id,)))

    def finish_chore(self, chore: Chore) -> None:
        """It is done, or never can be. What was kept for it is dropped."""
        with self._database.transaction():
            sql = "DELETE FROM delivery_chores WHERE operation = ? AND kind = ?"
            self._database.change(sql, (chore.operation_id, chore.kind))
            endings.forget_bytes(self._database, chore.operation_id)

    def put_off_chore(self, chore: Chore, next_at: datetime) -> None:
        """It could not be done: when to try again."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_chores SET attempts = attempts + 1, next_at = ? WHERE operation = ? AND kind = ?",
                (to_millis(next_at), chore.operation_id, chore.kind),
            )
