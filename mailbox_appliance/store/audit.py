"""The audit log: append-only rows, each sealed by an HMAC over itself and the head that the row before left.

    row n, sealed with head n-1  ->  head n = HMAC of (n, seal n), kept apart in `meta` with the count n

A head cannot be made from what stands in the rows. So rows cut off at the end are missed, also after others followed:
these were chained to the head of a row that is gone.
"""

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.ids import new_id
from mailbox_appliance.records import AuditActor, AuditEvent, AuditTarget
from mailbox_appliance.store.database import Database

# Rows that are looked at together; no more than these are held in memory.
_BATCH = 1000
_COLUMNS = (
    "number, id, at, actor_kind, actor_id, actor_member_id, action, target_kind, target_id, outcome, client_address,"
    " about_member_id"
)
# What concerns a member: their own acts, what was done to them, and to their keys, sessions and mailboxes.
_ABOUT = "(actor_member_id = :member OR about_member_id = :member OR (target_kind = 'member' AND target_id = :member))"
_BEFORE = "number < :before"


@dataclass(frozen=True)
class Actor:
    """Who did something: `kind`, the credential's id, the member's id, and from where."""

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None = None
    member_id: str | None = None
    client_address: str | None = None


SYSTEM = Actor("system")


@dataclass(frozen=True)
class AuditBreak:
    """The first place where the log is not what was written: its number, the id of the row there (if any), and why."""

    number: int
    id: str | None
    reason: str


@dataclass(frozen=True)
class AuditCheck:
    """What looking through the whole log found: how many rows there should be, and the first that is not right."""

    count: int
    broken: AuditBreak | None


class Audit:
    """Writes the log. Call `record` inside the transaction of what it tells of, so that both are there or neither."""

    def __init__(self, database: Database, key: bytes, clock: Clock) -> None:
        self._database, self._key, self._clock = database, key, clock

    def record(
        self,
        actor: Actor,
        action: str,
        target: tuple[str, str] | None = None,
        outcome: Literal["success", "failure", "denied"] = "success",
        *,
        about: str | None = None,
    ) -> None:
        """Append one row: an action such as `session.create`, the kind and id of what it was done to, how it ended.

        `about`: the member whom it concerns, besides the one who acted.
        """
        kind, identity = target or (None, None)
        at = to_timestamp(self._clock.now())
        with self._database.transaction():
            count, head = self._meta()
            # What is broken stays so, but nothing must fail for it: a number is never taken twice.
            number = max(count, self._database.value("SELECT max(number) FROM audit_events") or 0) + 1
            row = (new_id("aud"), at, actor.kind, actor.id, actor.member_id, action, kind, identity, outcome)
            facts = (number, *row, actor.client_address, about)
            mac = self._seal(head, facts)
            marks = ", ".join("?" * (len(facts) + 1))
            self._database.change(f"INSERT INTO audit_events ({_COLUMNS}, mac) VALUES ({marks})", (*facts, mac))
            self._database.change_many(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (("audit_head", self._head(number, mac)), ("audit_count", str(number))),
            )

    def list(
        self, before: int | None, limit: int, *, about: str | None = None
    ) -> tuple[tuple[AuditEvent, ...], int | None]:
        """The newest rows, those below the number `before`; of those that concern a member where one is named.

        Answers them and the number to go on below, or None at the end.
        """
        where = [_BEFORE] * (before is not None) + [_ABOUT] * (about is not None)
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM audit_events {'WHERE ' * bool(where)}{' AND '.join(where)}"
            " ORDER BY number DESC LIMIT :limit",
            {"before": before, "member": about, "limit": limit + 1},
        )
        following = rows[limit - 1][0] if len(rows) > limit else None
        return tuple(map(_to_event, rows[:limit])), following

    def verify(self) -> AuditCheck:
        """Look through the whole log for the first row that was changed, dropped, added or moved."""
        head, number = "", 0
        count, last_head = self._meta()
        for row in self._rows():
            number += 1
            if row[0] != number:
                return AuditCheck(count, AuditBreak(number, None, "it is missing"))
            if not hmac.compare_digest(bytes(row[-1]), self._seal(head, row[:-1])):
                reason = "it was changed, or the rows before it are not those that it was written after"
                return AuditCheck(count, AuditBreak(number, row[1], reason))
            head = self._head(number, bytes(row[-1]))
        return AuditCheck(count, _look_at_end(number, count, hmac.compare_digest(head, last_head)))

    def _rows(self) -> Iterator[Sequence[Any]]:
        after = -(1 << 62)
        while batch := self._database.rows(
            f"SELECT {_COLUMNS}, mac FROM audit_events WHERE number > ? ORDER BY number LIMIT ?", (after, _BATCH)
        ):
            yield from batch
            after = batch[-1][0]

    def _meta(self) -> tuple[int, str]:
        found: dict[str, str] = dict(
            self._database.rows("SELECT name, value FROM meta WHERE name IN ('audit_head', 'audit_count')")
        )
        return int(found.get("audit_count", "0")), found.get("audit_head", "")

    def _head(self, count: int, seal: bytes) -> str:
        return hmac.digest(self._key, b"head" + _framed(count) + seal, "sha256").hex()

    def _seal(self, head: str, facts: Sequence[object]) -> bytes:
        return hmac.digest(self._key, b"".join(map(_framed, (head, *facts))), "sha256")


def _look_at_end(number: int, count: int, is_head: bool) -> AuditBreak | None:
    if number < count:
        return AuditBreak(number + 1, None, "it is missing, as are all after it")
    if number > count:
        return AuditBreak(count + 1, None, "it was added")
    return None if is_head else AuditBreak(number + 1, None, "it is missing: the log ended with another row")


def _framed(fact: object) -> bytes:
    """A fact with its length, so that no two rows read the same; one that is not there has no length."""
    if fact is None:
        return b"\xff\xff\xff\xff"
    text = str(fact).encode()
    return len(text).to_bytes(4, "big") + text


def _to_event(row: Sequence[Any]) -> AuditEvent:
    return AuditEvent(
        id=row[1],
        at=row[2],
        actor=AuditActor(kind=row[3], id=row[4], member_id=row[5]),
        action=row[6],
        target=None if row[7] is None else AuditTarget(kind=row[7], id=row[8]),
        outcome=row[9],
        client_address=row[10],
    )
