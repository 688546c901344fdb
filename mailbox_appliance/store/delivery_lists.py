"""Reading delivery operations: one, lists of them, and what stands against taking in another one."""

from collections.abc import Collection, Iterable
from datetime import timedelta

from mailbox_appliance.clock import Clock, from_timestamp, to_timestamp
from mailbox_appliance.errors import DraftInUse, DraftSent, NotFound, QuotaReached
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import Delivery, Quota, ScheduledSend
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.delivery_rows import (
    COLUMNS,
    SCHEDULED,
    source_of,
    to_delivery,
    to_scheduled,
    warnings_of,
)

# Written exactly as in the partial indexes, so that they are used.
_OPEN = "status IN ('queued', 'sending', 'uncertain')"
_VISIBLE = "d.shown AND (d.member_id = ? OR d.kind = 'scheduled')"
# Theirs, and the scheduled ones of everybody: each by its index, however few they are among the others.
_SEEN = """
SELECT number FROM (SELECT number FROM delivery_operations WHERE account_id = :account AND {whose}
  AND number < :before AND shown ORDER BY number DESC LIMIT :most)"""
_PAGE = f"""
SELECT {COLUMNS}, d.number FROM delivery_operations d WHERE d.number IN (
  {_SEEN.format(whose="member_id = :member")} UNION ALL {_SEEN.format(whose="kind = 'scheduled'")})
  ORDER BY d.number DESC LIMIT :most"""
_IN_USE = f"""
SELECT id, status FROM delivery_operations d WHERE draft_id = ? AND account_id = ? AND ({_OPEN} OR EXISTS (
  SELECT 1 FROM delivery_chores c WHERE c.operation = d.id AND c.kind = 'remove_draft')) LIMIT 1"""
# The newest ones are looked at, as many as the quota allows. Those of before the clock was set back lie in the future.
_HANDED_IN = """
SELECT count(*), min(created_at) FROM (SELECT created_at FROM delivery_operations WHERE {column} = ?
  ORDER BY number DESC LIMIT ?) WHERE created_at > ? AND created_at <= ?"""
_WHO = {"credential": "This API key or session", "account": "This mailbox"}
_WINDOWS = {timedelta(hours=1): ("an hour", "per_hour"), timedelta(days=1): ("a day", "per_day")}


class DeliveryLists:
    """Reads the journal of sending."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def get(self, account_id: str, operation_id: str, member_id: str) -> tuple[Delivery, tuple[str, ...]]:
        """An operation of this member, or any scheduled one, once a client was shown it. Raises NotFound."""
        row = self._database.row(
            f"SELECT {COLUMNS} FROM delivery_operations d WHERE d.id = ? AND d.account_id = ? AND {_VISIBLE}",
            (operation_id, account_id, member_id),
        )
        if row is None:
            raise NotFound(what="delivery operation")
        return to_delivery(row), warnings_of(row)

    def get_sender_id(self, account_id: str, operation_id: str) -> str:
        """The member who handed an operation in, once a client was shown it. Raises NotFound."""
        sql = "SELECT member_id FROM delivery_operations WHERE id = ? AND account_id = ? AND shown"
        member_id = self._database.value(sql, (operation_id, account_id))
        if member_id is None:
            raise NotFound(what="delivery operation")
        return str(member_id)

    def list(
        self, account_id: str, member_id: str, *, before: int | None, limit: int
    ) -> tuple[tuple[Delivery, ...], int | None]:
        """A page of the operations that this member sees, newest first, and the position to go on from."""
        before = before if before is not None else 1 << 62
        values = {"account": account_id, "member": member_id, "before": before, "most": limit + 1}
        rows = self._database.rows(_PAGE, values)
        page = rows[:limit]
        return tuple(map(to_delivery, page)), page[-1][-1] if len(rows) > limit else None

    def list_scheduled(
        self, account_id: str, *, after: int | None, limit: int
    ) -> tuple[tuple[ScheduledSend, ...], int | None]:
        """A page of the scheduled sends that are not over, the soonest first, and the position to go on from."""
        place = "(SELECT send_at, number FROM delivery_operations WHERE number = ?)"
        beyond = f" AND (d.send_at, d.number) > {place}" if after is not None else ""
        rows = self._database.rows(
            f"{SCHEDULED} WHERE d.account_id = ? AND d.schedule_id IS NOT NULL AND d.{_OPEN}{beyond}"
            " ORDER BY d.send_at, d.number LIMIT ?",
            (account_id, *(() if after is None else (after,)), limit + 1),
        )
        page = rows[:limit]
        return tuple(map(to_scheduled, page)), page[-1][-1] if len(rows) > limit else None

    def find_source(self, account_id: str, message_id: str) -> Content | None:
        """The source of our copy of a sent message, or None where it is none that is known here."""
        return source_of(self._database, account_id, message_id)

    def count_open(self, account_ids: Collection[str]) -> dict[str, int]:
        """How many operations of these mailboxes are `queued`, `sending` and `uncertain`."""
        # `+`: by the index of what is open, not by that of all that there ever was in these mailboxes.
        mine = f"+account_id IN ({', '.join('?' * len(account_ids))})"
        sql = f"SELECT status, count(*) FROM delivery_operations WHERE {_OPEN} AND {mine} GROUP BY status"
        found: dict[str, int] = dict(self._database.rows(sql, tuple(account_ids)))
        return {status: found.get(status, 0) for status in ("queued", "sending", "uncertain")}

    def require_free_draft(self, account_id: str, draft_id: str) -> None:
        """Raises DraftInUse where a saved draft is on its way, or may have been sent, DraftSent where it was."""
        row = self._database.row(_IN_USE, (draft_id, account_id))
        if row is not None:
            operation_id, status = row
            raise (DraftSent if status == "succeeded" else DraftInUse)(operation=operation_id)

    def require_quotas(self, account_id: str, credential_id: str, quotas: Iterable[Quota]) -> None:
        """Raises QuotaReached where one of these quotas is used up; `retry_after` says when it has room again."""
        for quota in quotas:
            owner = credential_id if quota.of == "credential" else account_id
            self._require_quota(quota, owner)

    def _require_quota(self, quota: Quota, owner: str) -> None:
        now = self._clock.now()
        row = self._database.row(
            _HANDED_IN.format(column=f"{quota.of}_id"),
            (owner, quota.most, to_timestamp(now - quota.window), to_timestamp(now)),
        )
        count, oldest = row or (0, None)
        if count >= quota.most and oldest is not None:
            window, setting = _WINDOWS[quota.window]
            left = (from_timestamp(oldest) + quota.window - now).total_seconds()
            raise QuotaReached(
                retry_after=max(1, int(left) + 1),
                who=_WHO[quota.of],
                most=quota.most,
                window=window,
                setting=f"`sending.{quota.of}_{setting}`",
            )
