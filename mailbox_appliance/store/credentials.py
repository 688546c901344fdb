"""Sessions and API keys: found by the hash of their token."""

import hmac
import json
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from mailbox_appliance.clock import Clock, from_timestamp, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.records import Capability, Member, Session
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import FAILED, Database, Row
from mailbox_appliance.store.tables import SESSIONS

log = logging.getLogger(__name__)

UNUSED_FOR = timedelta(days=30)
LIVES_FOR = timedelta(days=90)
# `lastUsedAt` is this coarse, so that not every request has to write.
_USE_NOTED_EVERY = timedelta(minutes=1)
#: Live sessions of a member; with one more, the one that was not used for longest ends. It bounds the store, and never
#: ends one that is in use: that is known by the minute, and log-ins of a member are hashed one after another, 30 ms
#: each, so that nobody comes to so many within a minute.
MOST_SESSIONS = 5_000
# Sessions that have died by age are swept out now and then, some at once, not with each log-in.
_SWEPT_EVERY, _SWEPT_AT_ONCE = timedelta(minutes=1), 1000

_SELECT_SESSION = (
    "SELECT s.token_hash, s.id, s.logged_in_at, s.last_used_at, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at FROM sessions s JOIN members m ON m.id = s.member_id WHERE "
)
_SESSION_BY_TOKEN, _SESSION_BY_ID = f"{_SELECT_SESSION} s.token_hash = ?", f"{_SELECT_SESSION} s.id = ?"
_LISTED = "SELECT id, device_name, created_at, last_used_at, logged_in_at FROM sessions WHERE "
_SURPLUS = """
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE member_id = ? AND id <> ?
  ORDER BY last_used_at, rowid LIMIT ?) RETURNING id, logged_in_at, last_used_at"""
_ENDED = """
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE last_used_at <= ? OR logged_in_at <= ? LIMIT ?)"""
_SELECT_KEY = (
    "SELECT k.token_hash, k.id, k.capabilities, k.account_ids, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at, k.last_used_at FROM api_keys k JOIN members m ON m.id = k.member_id"
    # Whoever made a key for somebody else was shown its token, and is to be one who may do that now.
    " WHERE k.revoked_at IS NULL AND (coalesce(k.made_by_member_id, k.member_id) = k.member_id OR EXISTS (SELECT 1"
    " FROM members a WHERE a.id = k.made_by_member_id AND a.role = 'admin' AND a.status = 'active')) AND "
)
_KEY_BY_TOKEN, _KEY_BY_ID = f"{_SELECT_KEY} k.token_hash = ?", f"{_SELECT_KEY} k.id = ?"
# The columns of a member stand where the others have them.
_MEMBER_BY_ID = (
    "SELECT NULL, NULL, NULL, NULL, m.id, m.name, m.email, m.role, m.status, m.created_at, m.updated_at,"
    " m.last_login_at FROM members m WHERE m.id = ?"
)


@dataclass(frozen=True)
class FoundCredential:
    """A live credential. `capabilities`: what a key stores, in its order; a session stores none."""

    kind: Literal["session", "api_key"]
    id: str
    member: Member
    capabilities: tuple[Capability, ...] = ()
    account_ids: frozenset[str] | None = None


class Credentials:
    """Reads and writes what a request may be made with."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._swept_at: datetime | None = None

    def find(self, token_hash: str) -> FoundCredential | None:
        """The live credential whose token has this hash, or None. Notes that it was used."""
        return self._find_session(token_hash) or self._find_key(token_hash)

    def find_by_id(self, credential_id: str, member_id: str) -> FoundCredential | None:
        """What a request of earlier may do now: its key, if that is not revoked; of a session its member.

        A session need not live any more: what somebody planned while logged in holds after that.
        """
        row = self._database.row(_KEY_BY_ID, (credential_id,))
        if row is not None:
            return _to_key(row)
        if credential_id.startswith("key_"):
            return None
        row = self._database.row(_MEMBER_BY_ID, (member_id,))
        return None if row is None else FoundCredential("session", credential_id, _to_member(row))

    def find_current(self, found: FoundCredential) -> FoundCredential | None:
        """The same credential as it is now; None where it has ended since. Notes nothing."""
        return self.find_live(found.kind, found.id)

    def find_live(self, kind: Literal["session", "api_key"], credential_id: str) -> FoundCredential | None:
        """The live credential with this id, or None. Notes nothing."""
        if kind == "api_key":
            row = self._database.row(_KEY_BY_ID, (credential_id,))
            return None if row is None else _to_key(row)
        row = self._database.row(_SESSION_BY_ID, (credential_id,))
        if row is None or not self._is_live(row[2], row[3]):
            return None
        return FoundCredential("session", row[1], _to_member(row))

    def add_session(
        self, member_id: str, token_hash: str, device_name: str, *, logged_in_at: str | None = None
    ) -> Session:
        """A new session, of a log-in of this moment or of an earlier one. Inside a transaction."""
        self._delete_ended_sessions()
        at = to_timestamp(self._clock.now())
        session_id, began = new_id("ses"), logged_in_at or at
        row = {"id": session_id, "member_id": member_id, "token_hash": token_hash, "device_name": device_name}
        self._database.run(SESSIONS.insert(**row, created_at=at, last_used_at=at, logged_in_at=began))
        return _to_session((session_id, device_name, at, at, began), session_id)

    def find_login_time(self, session_id: str) -> str | None:
        """When the log-in was that a live session came of; None where it has ended."""
        row = self._database.row(_SESSION_BY_ID, (session_id,))
        return None if row is None or not self._is_live(row[2], row[3]) else str(row[2])

    def remove_surplus_sessions(self, member_id: str, keep: str) -> tuple[str, ...]:
        """End what this member has beyond the most, the longest unused first and one never; answers those that lived.

        Inside a transaction.
        """
        count = self._database.value("SELECT count(*) FROM sessions WHERE member_id = ?", (member_id,))
        if count <= MOST_SESSIONS:  # an index tells, and nothing has to be sorted
            return ()
        rows = self._database.rows(_SURPLUS, (member_id, keep, count - MOST_SESSIONS))
        return tuple(row[0] for row in rows if self._is_live(row[1], row[2]))

    def list_sessions(self, member_id: str, current_id: str | None) -> tuple[Session, ...]:
        """The live sessions of a member, the last used first."""
        rows = self._database.rows(f"{_LISTED} member_id = ? ORDER BY last_used_at DESC, id DESC", (member_id,))
        return tuple(_to_session(row, current_id) for row in rows if self._is_live(row[4], row[3]))

    def get_session(self, member_id: str, session_id: str, current_id: str | None) -> Session:
        """A live session of this member. Raises NotFound."""
        row = self._database.row(f"{_LISTED} id = ? AND member_id = ?", (session_id, member_id))
        if row is None or not self._is_live(row[4], row[3]):
            raise NotFound(what="session")
        return _to_session(row, current_id)

    def remove_sessions(self, member_id: str, keep: str | None = None) -> tuple[str, ...]:
        """End every session of this member but one; answers the ids of those that ended. Inside a transaction."""
        sql = "DELETE FROM sessions WHERE member_id = ? AND id IS NOT ? RETURNING id"
        return tuple(row[0] for row in self._database.rows(sql, (member_id, keep)))

    def remove_session(self, member_id: str, session_id: str) -> None:
        """End a session of this member. Raises NotFound. Inside a transaction."""
        removed = self._database.run(
            SESSIONS.delete().where((SESSIONS.id == session_id) & (SESSIONS.member_id == member_id))
        )
        if not removed:
            raise NotFound(what="session")

    def _delete_ended_sessions(self) -> None:
        now = self._clock.now()
        if self._swept_at is not None and abs(now - self._swept_at) < _SWEPT_EVERY:
            return
        self._swept_at = now
        unused, old = to_timestamp(now - UNUSED_FOR), to_timestamp(now - LIVES_FOR)
        self._database.change(_ENDED, (unused, old, _SWEPT_AT_ONCE))

    def _find_session(self, token_hash: str) -> FoundCredential | None:
        row = self._database.cached_row(_SESSION_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash) or not self._is_live(row[2], row[3]):
            return None
        self._note_use("sessions", row[1], row[3])
        return FoundCredential("session", row[1], _to_member(row))

    def _find_key(self, token_hash: str) -> FoundCredential | None:
        row = self._database.cached_row(_KEY_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash):
            return None
        self._note_use("api_keys", row[1], row[12])
        return _to_key(row)

    def _is_live(self, logged_in_at: str, last_used_at: str) -> bool:
        # Timestamps are compared as text: this is asked with every request.
        now = self._clock.now()
        return last_used_at > to_timestamp(now - UNUSED_FOR) and logged_in_at > to_timestamp(now - LIVES_FOR)

    def _note_use(self, table: Literal["sessions", "api_keys"], credential_id: str, last_used_at: str | None) -> None:
        now = self._clock.now()
        if last_used_at is not None and last_used_at > to_timestamp(now - _USE_NOTED_EVERY):
            return
        try:
            with self._database.transaction():
                self._database.change(
                    f"UPDATE {table} SET last_used_at = ? WHERE id = ?",
                    (to_timestamp(now), credential_id),
                )
        except FAILED:  # on a full disk mail can still be read
            log.exception("the use of a credential was not noted", extra={"credential": credential_id})


def _to_key(row: Row) -> FoundCredential:
    accounts = None if row[3] is None else frozenset(json.loads(row[3]))
    return FoundCredential("api_key", row[1], _to_member(row), tuple(map(Capability, json.loads(row[2]))), accounts)


def _end(logged_in_at: str, last_used_at: str) -> str:
    ends = (from_timestamp(logged_in_at) + LIVES_FOR, from_timestamp(last_used_at) + UNUSED_FOR)
    return to_timestamp(min(ends))


def _to_session(row: Row, current_id: str | None) -> Session:
    session_id, device, created_at, last_used_at, logged_in_at = row
    return Session(
        id=session_id,
        device_name=device,
        created_at=created_at,
        last_used_at=last_used_at,
        expires_at=_end(logged_in_at, last_used_at),
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
