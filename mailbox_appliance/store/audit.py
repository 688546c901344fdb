"""The audit log: append-only rows, protected by a chain of HMACs, so that any later change is noticed.

Two codes are computed for each row, with a key derived from the store's key:

    seal n   stored in row n: the HMAC of head n-1 and the contents of row n
    head n   the HMAC of n and seal n; only the newest is stored, in the table `meta`, with the number of rows

Head 0, of the empty log, is computed as well. A head cannot be computed without the key. So rows that were deleted at
the end are noticed, even if all rows were deleted or new ones were appended since: new rows are chained to the head of
a deleted row.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import LogBeingChecked
from mailbox_appliance.model.members import AuditActor, AuditEvent, AuditTarget
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database

# --- HMAC-SHA-256 for many short texts under one key (RFC 2104) ---
#
# `hmac.digest` processes the key for every text, which is most of its work for texts as short as rows of the log. Here
# the key is processed once.


_HMAC_BLOCK = 64  # block size of SHA-256 in bytes


class Mac:
    """Computes HMAC-SHA-256 of many short texts under one key of at most 64 bytes. It is faster than `hmac.digest`."""

    def __init__(self, key: bytes) -> None:
        if len(key) > _HMAC_BLOCK:
            raise ValueError("a key of more than one block would have to be hashed first")
        padded = key.ljust(_HMAC_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def digest(self, text: bytes) -> bytes:
        """Return the HMAC-SHA-256 of a text, 32 bytes."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


# --- The log ---


# Rows that are checked together, which takes some milliseconds without a turn for other threads. Then the check pauses:
# without a pause, the thread that has just released the interpreter lock mostly gets it again.
_CHECKED_AT_ONCE, _CHECK_PAUSE = 100, 0.001
_WRITTEN_AT_ONCE = 1000
_RETRY_CHECK_AFTER = 3
#: The facts in a row, without its number and its seal.
FACT_COLUMNS = (
    "id, at, actor_kind, actor_id, actor_member_id, action, target_kind, target_id, outcome, client_address,"
    " about_member_id"
)
_COLUMNS = f"number, {FACT_COLUMNS}"
_PUT_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_INSERT = f"INSERT INTO audit_events ({_COLUMNS}, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# An action, or all actions of a kind: `session` includes `session.create`.
_NEWEST = f"""
SELECT {_COLUMNS} FROM audit_events WHERE {{}} < :before AND (:outcome IS NULL OR outcome = :outcome)
  AND (:action IS NULL OR action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')
  ORDER BY number DESC LIMIT :limit"""
# The rows that concern a member: their own actions, and actions on them, their keys, sessions and mailboxes. Each of
# the two sets is read in order by an index of its own.
_NEWEST_ABOUT = f"""
SELECT * FROM ({_NEWEST.format("actor_member_id = :member AND number")}) UNION
SELECT * FROM ({_NEWEST.format("about_member_id = :member AND number")}) ORDER BY number DESC LIMIT :limit"""
_AFTER_ALL = 1 << 62
# What others did to a member, one line for each kind of action and day. It includes restores, which concern everybody,
# and what was done with API keys of the member that somebody else created and was shown. Always one row, so that it can
# be cached between commits.
_DONE_BY_OTHERS = """
SELECT group_concat(DISTINCT substr(at, 1, 10) || ' ' || actor_kind || ' ' || action) FROM (
  SELECT at, actor_kind, action FROM audit_events WHERE about_member_id = ? AND outcome = 'success' AND at > ?
    AND actor_member_id IS NOT ?
  UNION ALL SELECT at, actor_kind, action FROM audit_events WHERE action = 'backup.restore' AND outcome = 'success'
    AND at > ? AND actor_member_id IS NOT ?
  UNION ALL SELECT e.at, 'api_key', 'api_key.use' FROM api_keys k JOIN audit_events e ON e.actor_id = k.id
    AND e.actor_kind = 'api_key' AND e.outcome = 'success' AND e.at > ?
    WHERE k.member_id = ? AND k.made_by_member_id <> k.member_id)"""


@dataclass(frozen=True)
class Actor:
    """The person or program that took an action: the kind, the IDs of credential and member, and the client address."""

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None = None
    member_id: str | None = None
    client_address: str | None = None


SYSTEM_ACTOR = Actor("system")


@dataclass(frozen=True, order=True)
class ActByOther:
    """An action of one kind, on one day, that concerned a member and that somebody else took.

    `day`: in UTC, such as `2026-01-31`. `by`: the kind of the actor, such as `session` or `api_key`.
    """

    day: str
    by: str
    action: str


@dataclass(frozen=True)
class AuditBreak:
    """The first altered place of the audit log: row number, ID of the row there (None: no row), and the reason."""

    number: int
    id: str | None
    reason: str


@dataclass(frozen=True)
class AuditCheck:
    """Result of verifying the audit log: the expected number of rows, and the first altered place (None: intact)."""

    count: int
    broken: AuditBreak | None


class Audit:
    """Reads, writes and verifies the audit log. Call `record` inside the transaction of the action that it records."""

    def __init__(self, database: Database, key: bytes, clock: Clock) -> None:
        self._database, self._mac, self._clock = database, Mac(key), clock
        self._checking = threading.Lock()

    def start_log(self) -> None:
        """Store the HMAC of the empty log when a store is created, so that a later deletion of all rows is noticed."""
        self._write_end(0, b"")

    def record(
        self,
        actor: Actor,
        action: str,
        target: tuple[str, str] | None = None,
        outcome: Literal["success", "failure", "denied"] = "success",
        *,
        about: str | None = None,
    ) -> None:
        """Append one row to the audit log.

        - action: such as `session.create`.
        - target: kind and ID of the object of the action, such as a mailbox; None if there is none.
        - about: ID of a member, other than the actor, whose log shows the row. Defaults to a target that is a member.
        """
        kind, identity = target or (None, None)
        about = identity if about is None and kind == "member" else about
        at = to_timestamp(self._clock.now())
        row = (new_id("aud"), at, actor.kind, actor.id, actor.member_id, action, kind, identity, outcome)
        with self._database.transaction():
            self.append([(*row, actor.client_address, about)])

    def append(self, rows: Iterable[Sequence[object]]) -> None:
        """Append rows from another log, oldest first, and chain them to the last row of this log.

        Each row has the columns of FACT_COLUMNS, in that order. Only a few rows are kept in memory. Call it inside a
        transaction.
        """
        count, head, newest = self._read_end()
        # A broken log stays broken, but recording must not fail for it: a number is never used twice.
        number, waiting = max(count, newest), iter(rows)
        while batch := [*islice(waiting, _WRITTEN_AT_ONCE)]:
            sealed = []
            for number, row in enumerate(batch, number + 1):  # noqa: B020 - it goes on
                facts = (number, *row)
                mac = self._seal(head, facts)
                head = self._head(number, mac)
                sealed.append((*facts, mac))
            self._database.change_many(_INSERT, sealed)
            self._write_end(number, mac)

    def list(
        self,
        before: int | None,
        limit: int,
        *,
        about: str | None = None,
        action: str | None = None,
        outcome: str | None = None,
    ) -> tuple[tuple[AuditEvent, ...], int | None]:
        """Return a page of at most `limit` rows, newest first, and the `before` of the next page (None at the end).

        - before: return only rows with a lower number; None begins with the newest row.
        - about: ID of a member; only rows of actions by this member, or actions that concern this member.
        - action: an action, or the first part of its name: `session` includes `session.create`.
        """
        values: dict[str, object] = {"member": about, "action": action, "outcome": outcome, "limit": limit + 1}
        values["before"] = _AFTER_ALL if before is None else before
        rows = self._database.rows(_NEWEST.format("number") if about is None else _NEWEST_ABOUT, values)
        following = rows[limit - 1][0] if len(rows) > limit else None
        return tuple(map(_to_event, rows[:limit])), following

    def has_action(self, *actions: str) -> bool:
        """Whether any of these actions was ever recorded. This may read the whole log, so do not call it often."""
        asked = f"SELECT EXISTS (SELECT 1 FROM audit_events WHERE action IN ({', '.join('?' * len(actions))}))"
        return bool(self._database.value(asked, actions))

    def list_acts_by_others(self, member_id: str, since: str) -> tuple[ActByOther, ...]:
        """Return the successful actions by others that concerned a member, oldest first.

        An action that was taken several times on one day appears once for that day. `api_key.use` stands for all use of
        the member's API keys that somebody else created. Restores are included, since they concern everybody.

        `since`: only actions from this timestamp on; the beginning of a timestamp is enough. Pass the same value in
        many requests, so that the result can be cached.
        """
        about, restored, used = (member_id, since, member_id), (since, member_id), (since, member_id)
        found = self._database.cached_row(_DONE_BY_OTHERS, (*about, *restored, *used))
        lines = found[0].split(",") if found is not None and found[0] else ()
        return tuple(sorted(ActByOther(*line.split(" ", 2)) for line in lines))

    def verify(self) -> AuditCheck:
        """Check the whole log, and report the first row that was changed, deleted, added or moved.

        Rows that are appended during the check are not checked. The check pauses regularly, so that other threads can
        run. Raises LogBeingChecked if another check is running.
        """
        with self.exclusive_check():
            if self._database.row("SELECT 1 FROM sqlite_schema WHERE name = 'audit_events'") is None:
                return AuditCheck(0, AuditBreak(1, None, "it is missing, and so is the whole table of the log"))
            return self._check_rows(*self._read_end())

    @contextmanager
    def exclusive_check(self) -> Iterator[None]:
        """Context manager: prevent other checks of the audit log. Raises LogBeingChecked if one is running."""
        if not self._checking.acquire(blocking=False):
            raise LogBeingChecked(retry_after=_RETRY_CHECK_AFTER)
        try:
            yield
        finally:
            self._checking.release()

    def rechain(self, key: bytes, each: Callable[[int, int], None]) -> AuditCheck:
        """Compute the HMACs of all rows again with another key. Use it only in a copy of the store.

        If the log was altered, the new log is found altered at the same row, which the result describes. Each
        transaction writes a thousand rows. `each`: called now and then with the number of rows done and the total.
        """
        to = Audit(self._database, key, self._clock)
        number, last = 0, b""
        sealed: list[tuple[bytes, int]] = []

        def write_seals() -> None:
            with self._database.transaction():
                self._database.change_many("UPDATE audit_events SET mac = ? WHERE number = ?", sealed)
            sealed.clear()

        def seal_row(row: Sequence[Any], count: int) -> None:
            nonlocal number, last
            last = to._seal(to._head(number, last), row[:-1])
            number = row[0]
            sealed.append((last, number))
            if len(sealed) >= _WRITTEN_AT_ONCE:
                write_seals()
                each(number, count)

        check = self._check_rows(*self._read_end(), seal_row)
        write_seals()
        with self._database.transaction():
            if check.broken is None:
                to._write_end(number, last)
            else:  # With a random end, the new log is found altered too.
                self._database.change(_PUT_META, ("audit_head", secrets.token_hex(32)))
        return check

    def _check_rows(
        self, count: int, last_head: str, newest: int, also: Callable[[Sequence[Any], int], None] | None = None
    ) -> AuditCheck:
        """`also`: called with each intact row and `count`; then the check does not pause for other threads."""
        head, number = self._head(0, b""), 0
        for row in self._rows(newest, 0 if also else _CHECK_PAUSE):
            number += 1
            if row[0] > number <= count:
                return AuditCheck(count, AuditBreak(number, None, "it is missing"))
            if row[0] != number or number > count:
                return AuditCheck(count, AuditBreak(row[0], row[1], "it was added"))
            if not hmac.compare_digest(bytes(row[-1]), self._seal(head, row[:-1])):
                reason = "it was changed, or the rows before it were"
                return AuditCheck(count, AuditBreak(number, row[1], reason))
            head = self._head(number, bytes(row[-1]))
            if also is not None:
                also(row, count)
        return AuditCheck(count, _check_end(number, count, hmac.compare_digest(head, last_head)))

    def _rows(self, last: int, pause: float) -> Iterator[Sequence[Any]]:
        """Between two batches no transaction is open: it would keep SQLite from checkpointing the write-ahead log."""
        after = -_AFTER_ALL
        while batch := self._database.rows(
            f"SELECT {_COLUMNS}, mac FROM audit_events WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
            (after, last, _CHECKED_AT_ONCE),
        ):
            yield from batch
            after = batch[-1][0]
            if pause:
                time.sleep(pause)

    def _read_end(self) -> tuple[int, str, int]:
        """Return the number of rows, the head and the highest row number; 0 or '' for an invalid value."""
        row = self._database.row(
            "SELECT (SELECT value FROM meta WHERE name = 'audit_count'),"
            " (SELECT value FROM meta WHERE name = 'audit_head'), (SELECT max(number) FROM audit_events)"
        )
        count, head, newest = row or (None, None, None)
        # A count that was overwritten with an invalid value is ignored: recording continues, and the check finds the
        # break.
        return int(count) if count and count.isdecimal() else 0, head or "", newest or 0

    def _write_end(self, count: int, seal: bytes) -> None:
        self._database.change_many(_PUT_META, (("audit_head", self._head(count, seal)), ("audit_count", str(count))))

    def _head(self, count: int, seal: bytes) -> str:
        return self._mac.digest(b"head" + _encode_facts(count) + seal).hex()

    def _seal(self, head: str, facts: Sequence[object]) -> bytes:
        return self._mac.digest(_encode_facts(head, *facts))


def _check_end(number: int, count: int, is_head: bool) -> AuditBreak | None:
    if number < count:
        return AuditBreak(number + 1, None, "it is missing, and so are all later rows")
    return None if is_head else AuditBreak(number + 1, None, "it is missing: the log ended with another row")


def _encode_facts(*facts: object) -> bytes:
    """Each value is framed by its length, so that no two rows have the same encoding."""
    framed = []
    for fact in facts:
        if fact is None:
            framed.append(b"\xff\xff\xff\xff")
        else:
            text = str(fact).encode()
            framed += (len(text).to_bytes(4, "big"), text)
    return b"".join(framed)


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
