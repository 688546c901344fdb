"""Webhooks in the store: what each sends and to where, how far it has come, and its attempts."""

import json
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.clock import Clock, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.changes import EventType
from mailbox_appliance.model.webhooks import Webhook, WebhookAttempt, WebhookFailure, WebhookStatus
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database, Row

#: Attempts that are kept of each webhook.
KEPT_ATTEMPTS = 1000
#: Seconds between two attempts at most.
LONGEST_WAIT = 12 * 3600.0
_SELECT = """
SELECT id, url, types, account_ids, include_body, status, created_at, last_success_at, last_failure_at,
  last_failure_status, last_failure_reason, member_id, secret, old_secret, old_secret_until, position, failures,
  failing_since, replays FROM webhooks"""
_ACTIVE = "status = 'active' AND member_id IN (SELECT id FROM members WHERE status = 'active')"
# A time that is later than any wait stems from a clock that was set back since.
_DUE = f"""
SELECT id, position, replays, failures, last_success_at IS NOT NULL FROM webhooks
  WHERE {_ACTIVE} AND position < ?1 AND (coalesce(next_at, 0) <= ?2 OR next_at > ?2 + {int(LONGEST_WAIT * 1000)})"""
_NEXT = f"SELECT min(next_at) FROM webhooks WHERE {_ACTIVE} AND position < ? AND next_at > ?"
_SURPLUS = """
DELETE FROM webhook_attempts WHERE webhook = ?1 AND number <= (
  SELECT number FROM webhook_attempts WHERE webhook = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"""


@dataclass(frozen=True)
class StoredWebhook:
    """A webhook with what only the appliance knows.

    - shown: The webhook as members see it.
    - member_id: Its owner, whose rights decide which events are sent.
    - secrets: Those that sign now, the newest first.
    - position: Number of the last change that was delivered, or need not be.
    - replays: How often somebody changed it or set its position; what was being sent then does not count.
    - failures: Failed attempts of the next event.
    - failing_since: When these began, in milliseconds since 1970; None if there are none.
    """

    shown: Webhook
    member_id: str
    secrets: tuple[str, ...]
    position: int
    failures: int
    failing_since: int | None
    replays: int


@dataclass(frozen=True)
class DueWebhook:
    """A webhook that may have something to send now; the fields are as in `StoredWebhook`.

    `has_succeeded`: its target has accepted an event before.
    """

    id: str
    position: int
    replays: int
    failures: int
    has_succeeded: bool


@dataclass(frozen=True)
class NewWebhook:
    """The part of a `Webhook` that its member chooses."""

    url: str
    types: tuple[EventType, ...]
    account_ids: tuple[str, ...] | None
    include_body: bool


class Webhooks:
    """Reads and writes webhooks. Functions that write run in the caller's transaction, if there is one."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def list(self, member_id: str | None = None) -> tuple[StoredWebhook, ...]:
        """Return the webhooks of a member, or of all members, oldest first."""
        if member_id is None:
            return tuple(map(self._to_webhook, self._database.rows(f"{_SELECT} ORDER BY rowid")))
        rows = self._database.rows(f"{_SELECT} WHERE member_id = ? ORDER BY rowid", (member_id,))
        return tuple(map(self._to_webhook, rows))

    def get(self, webhook_id: str, member_id: str | None = None) -> StoredWebhook:
        """Return a webhook. Raises NotFound, also for one that another member than `member_id` owns."""
        row = self._database.row(f"{_SELECT} WHERE id = ?", (webhook_id,))
        found = None if row is None else self._to_webhook(row)
        if found is None or member_id not in (None, found.member_id):
            raise NotFound(what="webhook")
        return found

    def add(self, member_id: str, new: NewWebhook, secret: str, position: int) -> str:
        """Add a webhook that sends the changes after `position`, and return its ID."""
        webhook_id = new_id("whk")
        with self._database.transaction():
            self._database.change(
                "INSERT INTO webhooks (id, member_id, url, types, account_ids, include_body, secret, position,"
                " created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (webhook_id, member_id, *_columns(new), secret, position, to_timestamp(self._clock.now())),
            )
        return webhook_id

    def change(self, webhook_id: str, new: NewWebhook, status: WebhookStatus) -> None:
        """Change a webhook. What failed before is tried again at once."""
        with self._database.transaction():
            self._database.change(
                "UPDATE webhooks SET url = ?1, types = ?2, account_ids = ?3, include_body = ?4, status = ?5,"
                " replays = replays + 1, failures = CASE WHEN status = 'disabled' AND ?5 = 'disabled' THEN failures"
                " ELSE 0 END, failing_since = NULL, next_at = NULL WHERE id = ?6",
                (*_columns(new), status, webhook_id),
            )

    def rotate(self, webhook_id: str, secret: str, until: datetime) -> None:
        """Replace the secret. The earlier one signs as well, until the moment `until`."""
        with self._database.transaction():
            self._database.change(
                "UPDATE webhooks SET old_secret = secret, old_secret_until = ?, secret = ? WHERE id = ?",
                (to_timestamp(until), secret, webhook_id),
            )

    def set_position(self, webhook_id: str, position: int) -> None:
        """Send the changes after this number next, at once."""
        with self._database.transaction():
            self._database.change(
                "UPDATE webhooks SET position = ?, replays = replays + 1, failures = 0, failing_since = NULL,"
                " next_at = NULL WHERE id = ?",
                (position, webhook_id),
            )

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its attempts."""
        with self._database.transaction():
            self._database.change("DELETE FROM webhooks WHERE id = ?", (webhook_id,))

    def has_any(self) -> bool:
        """Whether there is any webhook."""
        return self._database.value("SELECT 1 FROM webhooks LIMIT 1") is not None

    def list_due(self, end: int) -> tuple[DueWebhook, ...]:
        """Return the webhooks of active members that may have something to send now.

        `end`: number of the last change.
        """
        now = to_millis(self._clock.now())
        rows = self._database.rows(_DUE, (end, now))
        return tuple(
            DueWebhook(one, position, replays, failed, bool(ok)) for one, position, replays, failed, ok in rows
        )

    def next_due(self, end: int) -> float | None:
        """Return the seconds until a failed webhook is tried again; None if none waits."""
        now = to_millis(self._clock.now())
        at = self._database.value(_NEXT, (end, now))
        return None if at is None else max(0.0, (at - now) / 1000)

    def note(self, webhook_id: str, attempt: WebhookAttempt) -> None:
        """Record an attempt. Only the last thousand are kept."""
        with self._database.transaction():
            self._database.change(
                "INSERT INTO webhook_attempts (id, webhook, event_id, at, status, duration_ms, error)"
                " SELECT ?, id, ?, ?, ?, ?, ? FROM webhooks WHERE id = ?",
                (
                    *(attempt.id, attempt.event_id, attempt.at, attempt.status, attempt.duration_ms, attempt.error),
                    webhook_id,
                ),
            )
            self._database.change(_SURPLUS, (webhook_id, KEPT_ATTEMPTS))

    def succeed(self, sent: StoredWebhook, position: int, at: str) -> None:
        """Record that everything up to `position` was accepted. `sent`: the webhook as it was when sending began.

        Nothing is changed if somebody has changed it or set its position since then.
        """
        with self._database.transaction():
            self._database.change(
                "UPDATE webhooks SET position = ?, failures = 0, failing_since = NULL, next_at = NULL,"
                " last_success_at = ? WHERE id = ? AND replays = ?",
                (position, at, sent.shown.id, sent.replays),
            )

    def skip(self, read: StoredWebhook, position: int) -> None:
        """Record that nothing up to `position` need be sent, unless somebody has set the position since then."""
        with self._database.transaction():
            sql = "UPDATE webhooks SET position = ? WHERE id = ? AND replays = ?"
            self._database.change(sql, (position, read.shown.id, read.replays))

    def fail(self, sent: StoredWebhook, failure: WebhookFailure, *, wait: float, disable: bool) -> bool:
        """Record a failed attempt. `sent`: the webhook as it was when sending began. `wait`: seconds until the next
        attempt. `disable`: there is to be none.

        Returns False, and changes nothing, if somebody has changed or deleted it since then.
        """
        now = to_millis(self._clock.now())
        with self._database.transaction():
            changed = self._database.change(
                "UPDATE webhooks SET failures = failures + 1, failing_since = min(coalesce(failing_since, ?1), ?1),"
                " next_at = ?2, last_failure_at = ?3, last_failure_status = ?4, last_failure_reason = ?5,"
                " status = CASE WHEN ?6 THEN 'disabled' ELSE status END WHERE id = ?7 AND replays = ?8",
                (
                    *(now, now + int(wait * 1000), failure.at, failure.status, failure.reason),
                    *(int(disable), sent.shown.id, sent.replays),
                ),
            )
        return bool(changed)

    def lose(self, behind: StoredWebhook, position: int, failure: WebhookFailure) -> None:
        """Continue after `position`, because the changes before it were deleted, and record that as a failure."""
        with self._database.transaction():
            self._database.change(
                "UPDATE webhooks SET position = ?, replays = replays + 1, last_failure_at = ?,"
                " last_failure_status = NULL, last_failure_reason = ?"
                " WHERE id = ? AND replays = ?",
                (position, failure.at, failure.reason, behind.shown.id, behind.replays),
            )

    def list_attempts(
        self, webhook_id: str, *, before: int | None, limit: int
    ) -> tuple[tuple[WebhookAttempt, ...], int | None]:
        """Return a page of the attempts, newest first, and the `before` of the next page (None at the end)."""
        rows = self._database.rows(
            "SELECT number, id, event_id, at, status, duration_ms, error FROM webhook_attempts"
            " WHERE webhook = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (webhook_id, 1 << 62 if before is None else before, limit + 1),
        )
        attempts = tuple(
            WebhookAttempt(id=one, event_id=event, at=at, status=status, duration_ms=took, error=error)
            for _, one, event, at, status, took, error in rows[:limit]
        )
        return attempts, rows[limit - 1][0] if len(rows) > limit else None

    def _to_webhook(self, row: Row) -> StoredWebhook:
        failure = None if row[8] is None else WebhookFailure(at=row[8], status=row[9], reason=row[10])
        shown = Webhook(
            id=row[0],
            url=row[1],
            types=tuple(json.loads(row[2])),
            account_ids=None if row[3] is None else tuple(json.loads(row[3])),
            include_body=bool(row[4]),
            status=row[5],
            created_at=row[6],
            last_success_at=row[7],
            last_failure=failure,
        )
        is_old_valid = row[13] is not None and row[14] > to_timestamp(self._clock.now())
        secrets = (row[12], row[13]) if is_old_valid else (row[12],)
        return StoredWebhook(shown, row[11], secrets, row[15], row[16], row[17], row[18])


def _columns(new: NewWebhook) -> tuple[object, ...]:
    accounts = None if new.account_ids is None else json.dumps(new.account_ids)
    return new.url, json.dumps(new.types), accounts, int(new.include_body)
