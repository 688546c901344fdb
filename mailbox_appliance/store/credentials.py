"""Sessions and API keys: found by the hash of their token."""

import hmac
import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mailbox_appliance.clock import Clock, from_timestamp, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.ids import new_id
from mailbox_appliance.records import Capability, Member, Session
from mailbox_appliance.store.database import FAILED, Database, Row
from mailbox_appliance.store.tables import SESSIONS

log = logging.getLogger(__name__)

UNUSED_FOR = timedelta(days=30)
LIVES_FOR = timedelta(days=90)
# `lastUsedAt` is this coarse, so that not every request has to write.
_USE_NOTED_EVERY = timedelta(minutes=1)

_SELECT_SESSION = (
    "SELECT s.token_hash, s.id, s.created_at, s.last_used_at, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at FROM sessions s JOIN members m ON m.id = s.member_id WHERE "
)
_SESSION_BY_TOKEN, _SESSION_BY_ID = f"{_SELECT_SESSION} s.token_hash = ?", f"{_SELECT_SESSION} s.id = ?"
_SELECT_KEY = (
    "SELECT k.token_hash, k.id, k.capabilities, k.account_ids, m.id, m.name, m.email, m.role, m.status, m.created_at,"
    " m.updated_at, m.last_login_at, k.last_used_at FROM api_keys k JOIN members m ON m.id = k.member_id"
    " WHERE k.revoked_at IS NULL AND "
)
_KEY_BY_TOKEN, _KEY_BY_ID = f"{_SELECT_KEY} k.token_hash = ?", f"{_SELECT_KEY} k.id = ?"
# The columns of a member stand where the others have them.
_MEMBER_BY_ID = (
    "SELECT NULL, NULL, NULL, NULL, m.id, m.name, m.email, m.role, m.status, m.created_at, m.updated_at,"
    " m.last_login_at FROM members m WHERE m.id = ?"
)


@dataclass(frozen=True)
class FoundCredential:
    """A live credential. `capabilities` is what a key stores; a session stores none, it has its member's."""

    kind: Literal["session", "api_key"]
    id: str
    member: Member
    capabilities: frozenset[Capability] = frozenset()
    account_ids: frozenset[str] | None = None


class Credentials:
    """Reads and writes what a request may be made with."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

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

    def find_again(self, found: FoundCredential) -> FoundCredential | None:
        """The same credential as it is now; None where it has ended since. Notes nothing."""
        if found.kind == "api_key":
            row = self._database.row(_KEY_BY_ID, (found.id,))
            return None if row is None else _to_key(row)
        row = self._database.row(_SESSION_BY_ID, (found.id,))
        if row is None or not self._is_live(row[2], row[3]):
            return None
        return FoundCredential("session", row[1], _to_member(row))

    def add_session(self, member_id: str, token_hash: str, device_name: str) -> Session:
        """A new session; sessions that have died by age are forgotten. Inside a transaction."""
        self._remove_ended_sessions()
        at = to_timestamp(self._clock.now())
        session_id = new_id("ses")
        row = {"id": session_id, "member_id": member_id, "token_hash": token_hash, "device_name": device_name}
        self._database.run(SESSIONS.insert(**row, created_at=at, last_used_at=at))
        return _to_session(session_id, device_name, at, at, current=True)

    def list_sessions(self, member_id: str, current_id: str | None) -> tuple[Session, ...]:
        """The live sessions of a member, the last used first."""
        rows = self._database.rows(
            "SELECT id, device_name, created_at, last_used_at FROM sessions WHERE member_id = ?"
            " ORDER BY last_used_at DESC, id DESC",
            (member_id,),
        )
        live = (row for row in rows if self._is_live(row[2], row[3]))
        return tuple(_to_session(*row, current=row[0] == current_id) for row in live)

    def get_session(self, member_id: str, session_id: str, current_id: str | None) -> Session:
        """A live session of this member. Raises NotFound."""
        for session in self.list_sessions(member_id, current_id):
            if session.id == session_id:
                return session
        raise NotFound(what="session")

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

    def _remove_ended_sessions(self) -> None:
        now = self._clock.now()
        unused, old = to_timestamp(now - UNUSED_FOR), to_timestamp(now - LIVES_FOR)
        self._database.change("DELETE FROM sessions WHERE last_used_at <= ? OR created_at <= ?", (unused, old))

    def _find_session(self, token_hash: str) -> FoundCredential | None:
        row = self._database.kept_row(_SESSION_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash) or not self._is_live(row[2], row[3]):
            return None
        self._note_use("sessions", row[1], row[3])
        return FoundCredential("session", row[1], _to_member(row))

    def _find_key(self, token_hash: str) -> FoundCredential | None:
        row = self._database.kept_row(_KEY_BY_TOKEN, (token_hash,))
        if row is None or not hmac.compare_digest(row[0], token_hash):
            return None
        self._note_use("api_keys", row[1], row[12])
        return _to_key(row)

    def _is_live(self, created_at: str, last_used_at: str) -> bool:
        # Timestamps are compared as text: this is asked with every request.
        now = self._clock.now()
        return last_used_at > to_timestamp(now - UNUSED_FOR) and created_at > to_timestamp(now - LIVES_FOR)

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
    return FoundCredential("api_key", row[1], _to_member(row), frozenset(map(Capability, json.loads(row[2]))), accounts)


def _end(created_at: str, last_used_at: str) -> str:
    ends = (from_timestamp(created_at) + LIVES_FOR, from_timestamp(last_used_at) + UNUSED_FOR)
    return to_timestamp(min(ends))


def _to_session(session_id: str, device: str, created_at: str, last_used_at: str, *, current: bool) -> Session:
    return Session(
        id=session_id,
        device_name=device,
        created_at=created_at,
        last_used_at=last_used_at,
        expires_at=_end(created_at, last_used_at),
        current=current,
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
