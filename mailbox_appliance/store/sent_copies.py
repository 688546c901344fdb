"""The copies of sent messages that are still to be filed in Sent."""

from datetime import datetime

from mailbox_appliance.clock import Clock, to_millis
from mailbox_appliance.store import endings
from mailbox_appliance.store.database import Database

#: The warnings of a result, without and with what is said of the copy.
_WITHOUT = "json_remove(result_warnings, '$.copy')"
_WITH = "json_set(result_warnings, '$.copy', ?)"
_DUE = "FROM delivery_operations WHERE copy = 'pending' AND copy_next_at <= ?"


class SentCopies:
    """Reads and writes what is known of the copies. Each method that writes is one transaction of its own.

    Where a power cut loses one of these, the copy is looked for once more at the server.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def list_due_accounts(self, now: datetime) -> tuple[str, ...]:
        """The mailboxes with copies whose time has come, the longest due first."""
        # `+`: by the index of what is due, not by that of the mailboxes.
        sql = f"SELECT account_id {_DUE} GROUP BY +account_id ORDER BY min(copy_next_at)"
        return tuple(row[0] for row in self._database.rows(sql, (to_millis(now),)))

    def list_due(self, now: datetime, account_id: str) -> tuple[str, ...]:
        """The operations of a mailbox whose copy is to be filed now, the longest due first."""
        sql = f"SELECT id {_DUE} AND +account_id = ? ORDER BY copy_next_at"
        return tuple(row[0] for row in self._database.rows(sql, (to_millis(now), account_id)))

    def mark_filed(self, operation_id: str) -> None:
        """The copy is in Sent. The bytes are on the server now and are no longer kept here."""
        with self._database.transaction():
            sql = f"UPDATE delivery_operations SET copy = 'filed', result_warnings = {_WITHOUT} WHERE id = ?"
            self._database.change(sql, (operation_id,))
            endings.forget_bytes(self._database, operation_id)

    def give_up(self, operation_id: str, warning: str) -> None:
        """There will be no copy; the result says so."""
        with self._database.transaction():
            sql = f"UPDATE delivery_operations SET copy = 'none', result_warnings = {_WITH} WHERE id = ?"
            self._database.change(sql, (warning, operation_id))
            endings.forget_bytes(self._database, operation_id)

    def postpone(self, operation_id: str, seconds: float, warning: str) -> None:
        """The copy could not be filed; it is tried again after so many seconds, and the result says so meanwhile."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET copy_attempts = copy_attempts + 1, copy_next_at = ?,"
                f" result_warnings = {_WITH} WHERE id = ?",
                (to_millis(self._clock.now()) + int(seconds * 1000), warning, operation_id),
            )

    def await_provider(self, operation_id: str, seconds: float) -> None:
        """The provider has not filed the copy yet; it is looked for again after so many seconds."""
        with self._database.transaction():
            self._database.change(
                "UPDATE delivery_operations SET copy_attempts = copy_attempts + 1, copy_next_at = ?,"
                f" result_warnings = {_WITHOUT} WHERE id = ?",
                (to_millis(self._clock.now()) + int(seconds * 1000), operation_id),
            )
