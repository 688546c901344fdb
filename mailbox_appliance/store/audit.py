"""The audit log: append-only rows, each sealed by an HMAC over itself and the head that the row before left.

    row n, sealed with head n-1  ->  head n = HMAC of (n, seal n), kept apart in `meta` with the count n

An empty log has a head as well, and none can be made from what stands in the rows. So rows cut off at the end are
missed, also where all are, and after others followed: these were chained to the head of a row that is gone.
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
# that is done once.


_HMAC_BLOCK = 64  # bytes that SHA-256 takes at a time


class Mac:
    """Makes authentication codes under a key of at most 64 bytes."""

    def __init__(self, key: bytes) -> None:
        if len(key) > _HMAC_BLOCK:
            raise ValueError("a key of more than one block would have to be hashed first")
        padded = key.ljust(_HMAC_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def digest(self, text: bytes) -> bytes:
        """The code of a text, 32 bytes."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


# --- Sealing a log again for another key, row after row ---


_RECHAINED_AT_ONCE = 1000
_PUT_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


def write_log_end(database: Database, count: int, head: str) -> None:
    """Keep how many rows the log has, and what the next one is chained to."""
    database.change_many(_PUT_META, (("audit_head", head), ("audit_count", str(count))))


class LogRechainer:
    """Gives the rows of a log new seals, from the first one on. `head` and `seal` are those of the new key."""

    def __init__(
        self,
        database: Database,
        head: Callable[[int, bytes], str],
        seal: Callable[[str, Sequence[object]], bytes],
        each: Callable[[int, int], None],
    ) -> None:
        self._database, self._head, self._seal, self._each = database, head, seal, each
        self._number, self._last = 0, b""
        self._sealed: list[tuple[bytes, int]] = []

    def add_row(self, row: Sequence[Any], count: int) -> None:
        """Seal the next row, given with its old seal at the end; `count`: how many there are."""
        self._last = self._seal(self._head(self._number, self._last), row[:-1])
        self._number = row[0]
        self._sealed.append((self._last, self._number))
        if len(self._sealed) >= _RECHAINED_AT_ONCE:
            self._write_seals()
            self._each(self._number, count)

    def finish(self, *, is_right: bool) -> None:
        """Write the rest, and the end of the log: one that fits no row where the log is not right."""
        self._write_seals()
        with self._database.transaction():
            if is_right:
                write_log_end(self._database, self._number, self._head(self._number, self._last))
            else:
                self._database.change(_PUT_META, ("audit_head", secrets.token_hex(32)))

    def _write_seals(self) -> None:
        with self._database.transaction():
            self._database.change_many("UPDATE audit_events SET mac = ? WHERE number = ?", self._sealed)
        self._sealed.clear()


# --- The log ---


# Rows that are looked at together: some milliseconds, in which no other thread gets on. Then those that wait have a
# turn: without a pause, who has just let go of the interpreter is mostly the one who gets it again.
_CHECKED_AT_ONCE, _CHECK_PAUSE = 100, 0.001
_APPENDED_AT_ONCE = 1000
_RETRY_CHECK_AFTER = 3
#: What a row tells, beside its number and its seal.
FACT_COLUMNS = (
    "id, at, actor_kind, actor_id, actor_member_id, action, target_kind, target_id, outcome, client_address,"
    " about_member_id"
)
_COLUMNS = f"number, {FACT_COLUMNS}"
_INSERT = f"INSERT INTO audit_events ({_COLUMNS}, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# An action, or all of its kind: `session` is `session.create` as well.
_NEWEST = f"""
SELECT {_COLUMNS} FROM audit_events WHERE {{}} < :before AND (:outcome IS NULL OR outcome = :outcome)
  AND (:action IS NULL OR action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')
  ORDER BY number DESC LIMIT :limit"""
# What concerns a member: their own acts, what was done to them, and to their keys, sessions and mailboxes. Each of the
# two goes by an index of its own, in its order.
_NEWEST_ABOUT = f"""
SELECT * FROM ({_NEWEST.format("actor_member_id = :member AND number")}) UNION
SELECT * FROM ({_NEWEST.format("about_member_id = :member AND number")}) ORDER BY number DESC LIMIT :limit"""
_AFTER_ALL = 1 << 62
# What others did to a member, a line for each kind of act and day; restores, which concern everybody; and what was done
# by API keys of theirs that somebody else made and was shown. Always one row, so that it can be kept between commits.
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
    """Who did something: `kind`, the credential's id, the member's id, and from where."""

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None = None
    member_id: str | None = None
    client_address: str | None = None


SYSTEM_ACTOR = Actor("system")


@dataclass(frozen=True, order=True)
class ActByOther:
    """That somebody did something on a day (UTC, as `2026-01-31`): `by` is the kind of the actor."""

    day: str
    by: str
    action: str


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
        self._database, self._mac, self._clock = database, Mac(key), clock
        self._checking = threading.Lock()

    def start_log(self) -> None:
        """Seal an empty log, in a store that is being made: one whose rows are all gone is told from it."""
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
        """Append one row: an action such as `session.create`, the kind and id of what it was done to, how it ended.

        `about`: the member whom it concerns, besides the one who acted; of a target that is a member, that one.
        """
        kind, identity = target or (None, None)
        about = identity if about is None and kind == "member" else about
        at = to_timestamp(self._clock.now())
        row = (new_id("aud"), at, actor.kind, actor.id, actor.member_id, action, kind, identity, outcome)
        with self._database.transaction():
            self.append([(*row, actor.client_address, about)])

    def append(self, rows: Iterable[Sequence[object]]) -> None:
        """Append rows that were written elsewhere, the oldest first; each in the order of FACT_COLUMNS.

        They follow the row that is the last here, and are sealed anew. Inside a transaction; a few are kept in memory.
        """
        count, head, newest = self._read_end()
        # What is broken stays so, but nothing must fail for it: a number is never taken twice.
        number, waiting = max(count, newest), iter(rows)
        while batch := [*islice(waiting, _APPENDED_AT_ONCE)]:
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
        """The newest rows, those below the number `before`; of those that concern a member where one is named.

        Answers them and the number to go on below, or None at the end.
        """
        values: dict[str, object] = {"member": about, "action": action, "outcome": outcome, "limit": limit + 1}
        values["before"] = _AFTER_ALL if before is None else before
        rows = self._database.rows(_NEWEST.format("number") if about is None else _NEWEST_ABOUT, values)
        following = rows[limit - 1][0] if len(rows) > limit else None
        return tuple(map(_to_event, rows[:limit])), following

    def has_action(self, *actions: str) -> bool:
        """Whether any of these was ever done. It looks through all of it."""
        asked = f"SELECT EXISTS (SELECT 1 FROM audit_events WHERE action IN ({', '.join('?' * len(actions))}))"
        return bool(self._database.value(asked, actions))

    def list_acts_by_others(self, member_id: str, since: str) -> tuple[ActByOther, ...]:
        """What others did to a member after a moment, each kind of act once a day, oldest first.

        `api_key.use` stands for all that was done by a key of the member's whose token somebody else was shown.
        `since` is a timestamp or the beginning of one: the same for many requests, so that the answer can be kept.
        """
        about, restored, used = (member_id, since, member_id), (since, member_id), (since, member_id)
        found = self._database.cached_row(_DONE_BY_OTHERS, (*about, *restored, *used))
        lines = found[0].split(",") if found is not None and found[0] else ()
        return tuple(sorted(ActByOther(*line.split(" ", 2)) for line in lines))

    def verify(self) -> AuditCheck:
        """Look through the whole log for the first row that was changed, dropped, added or moved.

        Rows that are written meanwhile are not looked at: those that were there at the beginning do not change. It is
        done once at a time, with pauses for others. Raises LogBeingChecked.
        """
        with self.exclusive_check():
            if self._database.row("SELECT 1 FROM sqlite_schema WHERE name = 'audit_events'") is None:
                return AuditCheck(0, AuditBreak(1, None, "it is missing, and so is the whole table of the log"))
            return self._check_rows(*self._read_end())

    @contextmanager
    def exclusive_check(self) -> Iterator[None]:
        """Nobody else checks the log meanwhile. Raises LogBeingChecked where somebody does."""
        if not self._checking.acquire(blocking=False):
            raise LogBeingChecked(retry_after=_RETRY_CHECK_AFTER)
        try:
            yield
        finally:
            self._checking.release()

    def rechain(self, key: bytes, each: Callable[[int, int], None]) -> AuditCheck:
        """Seal the log for another key, in a copy of the store whose rows may be changed: a thousand a transaction.

        A log that is not right is none afterwards either: from its first broken row on, all keep seals that the new key
        does not know, and its end is nobody's. `each` is told after every some rows: how many are done, of how many.
        """
        to = Audit(self._database, key, self._clock)
        sealer = LogRechainer(self._database, to._head, to._seal, each)
        check = self._check_rows(*self._read_end(), sealer.add_row)
        sealer.finish(is_right=check.broken is None)
        return check

    def _check_rows(
        self, count: int, last_head: str, newest: int, also: Callable[[Sequence[Any], int], None] | None = None
    ) -> AuditCheck:
        """`also` is given every row that is right, and how many there should be; nobody waits then, so no pauses."""
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
        """A few at a time, with no transaction open between them: one that stays open keeps the log of the file from
        being folded in."""
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
        """The count and the head as they are kept, and the newest number, all of one moment."""
        row = self._database.row(
            "SELECT (SELECT value FROM meta WHERE name = 'audit_count'),"
            " (SELECT value FROM meta WHERE name = 'audit_head'), (SELECT max(number) FROM audit_events)"
        )
        count, head, newest = row or (None, None, None)
        # A count that somebody made nonsense of is none: the log goes on, and is found broken.
        return int(count) if count and count.isdecimal() else 0, head or "", newest or 0

    def _write_end(self, count: int, seal: bytes) -> None:
        write_log_end(self._database, count, self._head(count, seal))

    def _head(self, count: int, seal: bytes) -> str:
        return self._mac.digest(b"head" + _encode_facts(count) + seal).hex()

    def _seal(self, head: str, facts: Sequence[object]) -> bytes:
        return self._mac.digest(_encode_facts(head, *facts))


def _check_end(number: int, count: int, is_head: bool) -> AuditBreak | None:
    if number < count:
        return AuditBreak(number + 1, None, "it is missing, and so are all later rows")
    return None if is_head else AuditBreak(number + 1, None, "it is missing: the log ended with another row")


def _encode_facts(*facts: object) -> bytes:
    """Facts with their lengths, so that no two rows read the same; one that is not there has no length."""
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
