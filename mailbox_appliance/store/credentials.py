"""Reads and writes sessions, API keys, single-use tokens and failed sign-ins. Only the hashes of tokens are stored."""

import hmac
import json
import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import peewee

from mailbox_appliance.clock import Clock, from_timestamp, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound, Throttled
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, ApiKey, Capability, KeyPermissions, Member, Session
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import DATABASE_ERRORS, Database, Row

API_KEYS = peewee.Table("api_keys")
ATTEMPTS = peewee.Table("attempts")
INVITATIONS = peewee.Table("invitations")
SESSIONS = peewee.Table("sessions")

log = logging.getLogger(__name__)

SESSION_MAX_IDLE = timedelta(days=30)
SESSION_MAX_AGE = timedelta(days=90)
# Resolution of `lastUsedAt`, so that not every request has to write.
_USE_NOTED_EVERY = timedelta(minutes=1)
_EVER = datetime.min.replace(tzinfo=UTC)
_MOST_READ = 256  # credentials whose rows are kept decoded
#: The maximum of valid sessions of a member; one more ends the least recently used one. This bounds the store.
#: A session in use never ends by it: use is recorded by the minute, and this many sign-ins of one member do not fit
#: into a minute, since they are hashed one after another, 30 ms each.
MOST_SESSIONS = 5_000
# Expired sessions are deleted now and then, several at once, not at each sign-in.
_SESSIONS_SWEPT_EVERY, _SESSIONS_SWEPT_AT_ONCE = timedelta(minutes=1), 1000

_SELECT_SESSION = (
    "SELECT s.token_hash, s.id, s.logged_in_at, s.last_used_at, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at FROM sessions s JOIN members m ON m.id = s.member_id WHERE "
)
_SESSION_BY_TOKEN, _SESSION_BY_ID = f"{_SELECT_SESSION} s.token_hash = ?", f"{_SELECT_SESSION} s.id = ?"
_LIST_SESSIONS = "SELECT id, device_name, created_at, last_used_at, logged_in_at FROM sessions WHERE "
_SURPLUS_SESSIONS = """
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE member_id = ? AND id <> ?
  ORDER BY last_used_at, rowid LIMIT ?) RETURNING id, logged_in_at, last_used_at"""
_ENDED_SESSIONS = """
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE last_used_at <= ? OR logged_in_at <= ? LIMIT ?)"""
_SELECT_KEY_CREDENTIAL = (
    "SELECT k.token_hash, k.id, k.capabilities, k.account_ids, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at, k.last_used_at FROM api_keys k JOIN members m ON m.id = k.member_id"
    # The creator of a key for somebody else was shown its token, and must currently be allowed to create such keys.
    " WHERE k.revoked_at IS NULL AND (coalesce(k.made_by_member_id, k.member_id) = k.member_id OR EXISTS (SELECT 1"
    " FROM members a WHERE a.id = k.made_by_member_id AND a.role = 'admin' AND a.status = 'active')) AND "
)
_KEY_BY_TOKEN, _KEY_BY_ID = f"{_SELECT_KEY_CREDENTIAL} k.token_hash = ?", f"{_SELECT_KEY_CREDENTIAL} k.id = ?"
# The columns of a member are where the other queries have them.
_MEMBER_BY_ID = (
    "SELECT NULL, NULL, NULL, NULL, m.id, m.name, m.email, m.role, m.status, m.created_at, m.updated_at,"
    " m.last_login_at FROM members m WHERE m.id = ?"
)


@dataclass(frozen=True)
class FoundCredential:
    """A valid session or API key, with its member.

    `capabilities`: those stored with an API key, in stored order; empty for a session. `account_ids`: the mailboxes
    that an API key is restricted to; None means no restriction. `ends_at`: when the session ends if it is not used
    again; None for an API key.
    """

    kind: Literal["session", "api_key"]
    id: str
    member: Member
    capabilities: tuple[Capability, ...] = ()
    account_ids: frozenset[str] | None = None
    ends_at: datetime | None = field(default=None, compare=False)


class Credentials:
    """Reads and writes the sessions and API keys that authenticate requests."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._swept_at: datetime | None = None
        self._read: dict[str, _ReadCredential] = {}

    def find(self, token_hash: str) -> FoundCredential | None:
        """Return the valid credential whose token has this hash, or None. Records that it was used."""
        return self._find_session(token_hash) or self._find_key(token_hash)

    def find_by_id(self, credential_id: str, member_id: str) -> FoundCredential | None:
        """Return the credential of an earlier request with its current permissions, for work which that request
        scheduled.

        `credential_id` and `member_id`: the credential and the member of that request. Returns None if the API key was
        revoked, or if the member no longer exists. A session may have ended: the work that it scheduled remains valid.
        """
        row = self._database.row(_KEY_BY_ID, (credential_id,))
        if row is not None:
            return _to_key_credential(row)
        if credential_id.startswith("key_"):
            return None
        row = self._database.row(_MEMBER_BY_ID, (member_id,))
        return None if row is None else FoundCredential("session", credential_id, _to_member(row))

    def find_live(self, kind: Literal["session", "api_key"], credential_id: str) -> FoundCredential | None:
        """Return the valid credential with this ID, or None. Does not record a use."""
        if kind == "api_key":
            row = self._database.row(_KEY_BY_ID, (credential_id,))
            return None if row is None else _to_key_credential(row)
        row = self._database.row(_SESSION_BY_ID, (credential_id,))
        if row is None or not self._is_live(row[2], row[3]):
            return None
        return FoundCredential("session", row[1], _to_member(row), ends_at=_session_end(row[2], row[3]))

    def is_over(self, found: FoundCredential) -> bool:
        """Whether a session has ended by time, unless it was used after it was found."""
        return found.ends_at is not None and self._clock.now() >= found.ends_at

    def add_session(
        self, member_id: str, token_hash: str, device_name: str, *, logged_in_at: str | None = None
    ) -> Session:
        """Add a session that began at the timestamp `logged_in_at` (None: now). Call it inside a transaction."""
        self._delete_ended_sessions()
        at = to_timestamp(self._clock.now())
        session_id, began = new_id("ses"), logged_in_at or at
        row = {"id": session_id, "member_id": member_id, "token_hash": token_hash, "device_name": device_name}
        self._database.run(SESSIONS.insert(**row, created_at=at, last_used_at=at, logged_in_at=began))
        return _to_session((session_id, device_name, at, at, began), session_id)

    def find_login_time(self, session_id: str) -> str | None:
        """Return the timestamp of the sign-in that began a session; None if the session has ended."""
        row = self._database.row(_SESSION_BY_ID, (session_id,))
        return None if row is None or not self._is_live(row[2], row[3]) else str(row[2])

    def remove_surplus_sessions(self, member_id: str, keep: str) -> tuple[str, ...]:
        """End the least recently used sessions of a member, if the member has more than MOST_SESSIONS.

        `keep`: ID of a session that is never ended. Returns the IDs of the ended sessions that were still valid. Call
        it inside a transaction.
        """
        count = self._database.value("SELECT count(*) FROM sessions WHERE member_id = ?", (member_id,))
        if count <= MOST_SESSIONS:  # An index answers this, without sorting.
            return ()
        rows = self._database.rows(_SURPLUS_SESSIONS, (member_id, keep, count - MOST_SESSIONS))
        return tuple(row[0] for row in rows if self._is_live(row[1], row[2]))

    def list_sessions(self, member_id: str, current_id: str | None) -> tuple[Session, ...]:
        """Return a member's valid sessions, most recently used first. `current_id`: the one to mark as `current`."""
        rows = self._database.rows(f"{_LIST_SESSIONS} member_id = ? ORDER BY last_used_at DESC, id DESC", (member_id,))
        return tuple(_to_session(row, current_id) for row in rows if self._is_live(row[4], row[3]))

    def get_session(self, member_id: str, session_id: str, current_id: str | None) -> Session:
        """Return a valid session of this member. `current_id`: the session to mark as `current`. Raises NotFound."""
        row = self._database.row(f"{_LIST_SESSIONS} id = ? AND member_id = ?", (session_id, member_id))
        if row is None or not self._is_live(row[4], row[3]):
            raise NotFound(what="session")
        return _to_session(row, current_id)

    def remove_sessions(self, member_id: str, keep: str | None = None) -> tuple[str, ...]:
        """End a member's sessions except `keep`, and return the IDs of the ended ones. Call it inside a transaction."""
        sql = "DELETE FROM sessions WHERE member_id = ? AND id IS NOT ? RETURNING id"
        return tuple(row[0] for row in self._database.rows(sql, (member_id, keep)))

    def remove_session(self, member_id: str, session_id: str) -> None:
        """End a session of this member. Raises NotFound. Call it inside a transaction."""
        removed = self._database.run(
            SESSIONS.delete().where((SESSIONS.c.id == session_id) & (SESSIONS.c.member_id == member_id))
        )
        if not removed:
            raise NotFound(what="session")

    def _delete_ended_sessions(self) -> None:
        now = self._clock.now()
        if self._swept_at is not None and abs(now - self._swept_at) < _SESSIONS_SWEPT_EVERY:
            return
        self._swept_at = now
        unused, old = to_timestamp(now - SESSION_MAX_IDLE), to_timestamp(now - SESSION_MAX_AGE)
        self._database.change(_ENDED_SESSIONS, (unused, old, _SESSIONS_SWEPT_AT_ONCE))

    def _find_session(self, token_hash: str) -> FoundCredential | None:
        row = self._database.cached_row(_SESSION_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash):
            return None
        read, now = self._read.get(token_hash), self._clock.now()
        if read is None or read.row is not row:
            ends_at = _session_end(row[2], row[3])
            found = FoundCredential("session", row[1], _to_member(row), ends_at=ends_at)
            read = self._keep(token_hash, _ReadCredential(row, found, _use_due(row[3])))
        if read.credential.ends_at is not None and now >= read.credential.ends_at:
            return None
        if now >= read.note_use_at:
            self._note_use("sessions", row[1])
        return read.credential

    def _find_key(self, token_hash: str) -> FoundCredential | None:
        row = self._database.cached_row(_KEY_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash):
            return None
        read = self._read.get(token_hash)
        if read is None or read.row is not row:
            read = self._keep(token_hash, _ReadCredential(row, _to_key_credential(row), _use_due(row[12])))
        if self._clock.now() >= read.note_use_at:
            self._note_use("api_keys", row[1])
        return read.credential

    def _keep(self, token_hash: str, read: "_ReadCredential") -> "_ReadCredential":
        if len(self._read) >= _MOST_READ:
            self._read.clear()
        self._read[token_hash] = read
        return read

    def _is_live(self, logged_in_at: str, last_used_at: str) -> bool:
        # Timestamps are compared as text, since this runs with every request.
        now = self._clock.now()
        return last_used_at > to_timestamp(now - SESSION_MAX_IDLE) and logged_in_at > to_timestamp(
            now - SESSION_MAX_AGE
        )

    def _note_use(self, table: Literal["sessions", "api_keys"], credential_id: str) -> None:
        at = to_timestamp(self._clock.now())
        try:
            with self._database.transaction():
                self._database.change(f"UPDATE {table} SET last_used_at = ? WHERE id = ?", (at, credential_id))
        except DATABASE_ERRORS:  # On a full disk mail can still be read.
            log.exception("credential_use_not_recorded", extra={"credential": credential_id})


class _ReadCredential(NamedTuple):
    """A credential as read from a row of the store, which holds for requests until a commit makes another row.

    `note_use_at`: when its use is recorded again.
    """

    row: Row
    credential: FoundCredential
    note_use_at: datetime


def _use_due(last_used_at: str | None) -> datetime:
    return _EVER if last_used_at is None else from_timestamp(last_used_at) + _USE_NOTED_EVERY


def _session_end(logged_in_at: str, last_used_at: str) -> datetime:
    return min(from_timestamp(logged_in_at) + SESSION_MAX_AGE, from_timestamp(last_used_at) + SESSION_MAX_IDLE)


def _to_key_credential(row: Row) -> FoundCredential:
    accounts = None if row[3] is None else frozenset(json.loads(row[3]))
    return FoundCredential("api_key", row[1], _to_member(row), tuple(map(Capability, json.loads(row[2]))), accounts)


def _to_session(row: Row, current_id: str | None) -> Session:
    session_id, device, created_at, last_used_at, logged_in_at = row
    return Session(
        id=session_id,
        device_name=device,
        created_at=created_at,
        last_used_at=last_used_at,
        expires_at=to_timestamp(_session_end(logged_in_at, last_used_at)),
        current=session_id == current_id,
    )


def _to_member(row: Row) -> Member:
    return Member(
        id=row[4],
        name=row[5],
        email=row[6],
        role=row[7],
        status=row[8],
        created_at=row[9],
        updated_at=row[10],
        last_login_at=row[11],
        invitation=None,
    )


# --- API keys: the permissions and mailboxes of each; a revoked key is never found again ---


_SELECT_KEYS = """
SELECT id, name, created_at, last_used_at, member_id, permission_profile, capabilities, supplemental_capabilities,
  account_ids FROM api_keys WHERE revoked_at IS NULL"""


class ApiKeys:
    """Reads and writes API keys."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, member_id: str, name: str, token_hash: str, permissions: KeyPermissions, *, made_by: str) -> ApiKey:
        """Add an API key for a member, and return it. Call it inside a transaction.

        `made_by`: ID of the member who creates the key and is shown its token. A key created for somebody else works
        only while its creator is an active administrator.
        """
        key_id = new_id("key")
        row = {"id": key_id, "name": name, "member_id": member_id, "token_hash": token_hash}
        at = to_timestamp(self._clock.now())
        query = API_KEYS.insert(**row, **_permission_columns(permissions), made_by_member_id=made_by, created_at=at)
        self._database.run(query)
        return self.get(key_id)

    def list(self, member_id: str | None = None) -> tuple[ApiKey, ...]:
        """Return the keys of a member (None: of all members) that are not revoked, oldest first."""
        order = "ORDER BY created_at, id"
        if member_id is None:
            rows = self._database.rows(f"{_SELECT_KEYS} {order}")
        else:
            rows = self._database.rows(f"{_SELECT_KEYS} AND member_id = ? {order}", (member_id,))
        return tuple(map(_to_api_key, rows))

    def get(self, key_id: str, member_id: str | None = None) -> ApiKey:
        """Return a key. Raises NotFound if it was revoked or belongs to another member than `member_id` (None: any)."""
        row = self._database.row(f"{_SELECT_KEYS} AND id = ?", (key_id,))
        if row is None or member_id not in (None, row[4]):
            raise NotFound(what="API key")
        return _to_api_key(row)

    def get_maker_id(self, key_id: str) -> str:
        """Return the ID of the member who created a key and was shown its token. Raises NotFound."""
        maker = self._database.value(
            "SELECT coalesce(made_by_member_id, member_id) FROM api_keys WHERE id = ?", (key_id,)
        )
        if maker is None:
            raise NotFound(what="API key")
        return str(maker)

    def list_made_for_others(self, maker_id: str) -> tuple[ApiKey, ...]:
        """Return the keys that a member created for others, oldest first."""
        sql = f"{_SELECT_KEYS} AND made_by_member_id = ? AND member_id <> made_by_member_id ORDER BY created_at, id"
        return tuple(map(_to_api_key, self._database.rows(sql, (maker_id,))))

    def set_permissions(self, key_id: str, permissions: KeyPermissions) -> ApiKey:
        """Replace the permissions of a key. Call it inside a transaction. Raises NotFound."""
        self._database.run(API_KEYS.update(**_permission_columns(permissions)).where(API_KEYS.c.id == key_id))
        return self.get(key_id)

    def revoke(self, key_id: str) -> None:
        """Revoke a key permanently. Call it inside a transaction. Raises NotFound."""
        at = to_timestamp(self._clock.now())
        if not self._database.change(
            "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (at, key_id)
        ):
            raise NotFound(what="API key")


def _permission_columns(permissions: KeyPermissions) -> dict[str, str | None]:
    return {
        "permission_profile": permissions.profile,
        "capabilities": json.dumps(permissions.capabilities),
        "supplemental_capabilities": json.dumps(permissions.supplemental),
        "account_ids": None if permissions.account_ids is None else json.dumps(permissions.account_ids),
    }


def _to_api_key(row: Sequence[Any]) -> ApiKey:
    held = tuple(map(Capability, json.loads(row[6])))
    supplemental = tuple(map(Capability, json.loads(row[7])))
    if row[5] == "custom":  # a key of an older format has NULL in that column
        supplemental = tuple(one for one in held if one in ADMIN_CAPABILITIES)
    return ApiKey(
        id=row[0],
        name=row[1],
        created_at=row[2],
        last_used_at=row[3],
        member_id=row[4],
        permission_profile=row[5],
        capabilities=held,
        supplemental_capabilities=supplemental,
        account_ids=None if row[8] is None else tuple(json.loads(row[8])),
    )


# --- Single-use tokens: invitations, password resets, console links ---


TokenKind = Literal["invitation", "password_reset", "console_link"]
#: `by_key` of a link that was pending when its store was upgraded: a key may have been shown it. So it counts as shown
#: to a key (1), and not as created by a person (0).
SHOWN_TO_UNKNOWN = 2

_SELECT_LINK = """
SELECT token_hash, id, member_id FROM invitations
WHERE token_hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?"""
_LAST_USED_LINK = """
SELECT by_key FROM invitations WHERE member_id = ? AND kind <> 'console_link' AND used_at IS NOT NULL
ORDER BY used_at DESC, rowid DESC LIMIT 1"""


class OneTimeTokens:
    """Reads and writes single-use tokens: invitations, password resets, and links that sign in to the console."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def issue(
        self,
        kind: TokenKind,
        member_id: str,
        token_hash: str,
        lives_for: timedelta,
        *,
        session_id: str | None = None,
        by_key: bool = False,
    ) -> str:
        """Store a new token, and return the timestamp of its expiry. Call it inside a transaction.

        - lives_for: time until the token expires.
        - session_id: the session that requested the token; the token ends with that session.
        - by_key: whether an API key requested the token and is shown it.

        Earlier unused tokens of the same kind for the member are revoked. Console links are an exception, since the
        member may sign in on several devices.
        """
        now = self._clock.now()
        expires_at = to_timestamp(now + lives_for)
        if kind != "console_link":
            sql = "DELETE FROM invitations WHERE member_id = ? AND kind = ? AND used_at IS NULL"
            self._database.change(sql, (member_id, kind))
        self._database.change(
            "DELETE FROM invitations WHERE kind = 'console_link' AND expires_at <= ?", (to_timestamp(now),)
        )
        row = {"id": new_id("inv"), "member_id": member_id, "kind": kind, "token_hash": token_hash}
        self._database.run(INVITATIONS.insert(**row, expires_at=expires_at, by_key=int(by_key), session_id=session_id))
        return expires_at

    def find(self, kind: TokenKind, token_hash: str) -> str | None:
        """Return the ID of the token's member, without using up the token; None if the token is not valid."""
        found = self._find(kind, token_hash)
        return None if found is None else str(found[2])

    def redeem(self, kind: TokenKind, token_hash: str) -> str | None:
        """Use up a token, and return its member's ID; None if it is not valid. Call it inside a transaction."""
        found = self._find(kind, token_hash)
        if found is None:
            return None
        at = to_timestamp(self._clock.now())
        self._database.run(INVITATIONS.update(used_at=at).where(INVITATIONS.c.id == found[1]))
        return str(found[2])

    def find_session_id(self, token_hash: str) -> str | None:
        """Return the ID of the session that requested a token; None if no session did or the token does not exist."""
        found: str | None = self._database.value(
            "SELECT session_id FROM invitations WHERE token_hash = ?", (token_hash,)
        )
        return found

    def is_password_known_to_key(self, member_id: str) -> bool:
        """Whether an API key may have seen the token with which the member last set a password."""
        return bool(self._database.value(_LAST_USED_LINK, (member_id,)))

    def revoke_all(self, member_id: str) -> None:
        """Revoke all unused tokens of this member. Call it inside a transaction."""
        self._database.change("DELETE FROM invitations WHERE member_id = ? AND used_at IS NULL", (member_id,))

    def revoke_shown_to_keys(self, member_id: str) -> None:
        """Revoke the unused tokens of a member that an API key may have seen. Call it inside a transaction."""
        sql = "DELETE FROM invitations WHERE member_id = ? AND used_at IS NULL AND by_key <> 0"
        self._database.change(sql, (member_id,))

    def _find(self, kind: TokenKind, token_hash: str) -> Row | None:
        row = self._database.row(_SELECT_LINK, (token_hash, kind, to_timestamp(self._clock.now())))
        return row if row is not None and hmac.compare_digest(row[0], token_hash) else None


# --- Failed sign-ins, counted by bucket (an email, an address) ---
#
# Failures are in the store, running attempts in memory. Nobody learns how an attempt ended before its failure is
# stored, so a restart forgets nothing that anybody knows.


#: The time for which a failure counts.
FAILURE_WINDOW = timedelta(minutes=15)
_FAILURE_WINDOW = FAILURE_WINDOW // timedelta(milliseconds=1)
# Expired failures are deleted now and then, not at each attempt.
_FAILURES_SWEPT_EVERY = 60_000
# Rows from before the clock was set back lie in the future: they do not extend a lockout.
_FAILURES_IN_WINDOW = "FROM attempts WHERE bucket = ? AND at > ? AND at <= ?"
# While other attempts are running that may fail, the wait is unknown: their outcome is known shortly.
_RETRY_SOON = 1


class LoginAttempts:
    """Counts failed sign-ins of the last 15 minutes, and limits them.

    Failures are counted per bucket, for example one for each email address and one for each client address.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._swept_at = 0

    def require_room(self, limits: Mapping[str, int]) -> None:
        """Raise Throttled if too many sign-ins failed recently. Changes nothing.

        `limits`: bucket, such as an email or client address -> maximum of failures. `retry_after` of Throttled: seconds
        until all buckets allow an attempt.
        """
        if wait := max(self._seconds_to_wait(bucket, limit) for bucket, limit in limits.items()):
            raise Throttled(retry_after=wait)

    @contextmanager
    def reserve(self, limits: Mapping[str, int]) -> Iterator[None]:
        """Context manager: count a running sign-in attempt until the block ends, so that parallel attempts stay in the
        limits.

        `limits`: bucket, such as an email or client address -> maximum of failures. Raises Throttled if failures and
        running attempts reach a limit. The count is in memory only; call `record_failure` if the attempt fails.
        """
        with self._lock:
            self.require_room(limits)
            now = to_millis(self._clock.now())
            for bucket, limit in limits.items():
                sql = f"SELECT count(*) {_FAILURES_IN_WINDOW}"
                if self._database.value(sql, _window_bounds(bucket, now)) + self._under_way[bucket] >= limit:
                    raise Throttled(retry_after=_RETRY_SOON)
            self._under_way.update(limits.keys())
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= Counter(limits.keys())

    def record_failure(self, buckets: Collection[str]) -> None:
        """Record a failed sign-in in each bucket, such as an email or client address. Call it inside a transaction."""
        now = to_millis(self._clock.now())
        if abs(now - self._swept_at) >= _FAILURES_SWEPT_EVERY:
            self._swept_at = now
            self._database.run(ATTEMPTS.delete().where(ATTEMPTS.c.at <= now - _FAILURE_WINDOW))
        self._database.change_many("INSERT INTO attempts VALUES (?, ?)", [(bucket, now) for bucket in buckets])

    def clear(self, bucket: str) -> None:
        """Delete the recorded failures of a bucket, such as an email address. Call it inside a transaction."""
        self._database.run(ATTEMPTS.delete().where(ATTEMPTS.c.bucket == bucket))

    def _seconds_to_wait(self, bucket: str, limit: int) -> int:
        now = to_millis(self._clock.now())
        oldest = self._database.value(
            f"SELECT at {_FAILURES_IN_WINDOW} ORDER BY at DESC LIMIT 1 OFFSET ?",
            (*_window_bounds(bucket, now), limit - 1),
        )
        return 0 if oldest is None else max(1, -(-(oldest + _FAILURE_WINDOW - now) // 1000))


def _window_bounds(bucket: str, now: int) -> tuple[str, int, int]:
    return bucket, now - _FAILURE_WINDOW, now
