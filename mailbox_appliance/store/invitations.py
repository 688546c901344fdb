"""Tokens that are good once: invitations, password resets, links into the console. Only their hash is stored."""

import hmac
from datetime import timedelta
from typing import Literal

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.tables import INVITATIONS

Kind = Literal["invitation", "password_reset", "console_link"]
#: `by_key` of a link that was open when its store was upgraded: a key may have been shown it, so it counts as one of
#: those (1), and as no person's (0).
NOT_KNOWN = 2

_SELECT = """
SELECT token_hash, id, member_id FROM invitations
WHERE token_hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?"""
_LAST_LINK = """
SELECT by_key FROM invitations WHERE member_id = ? AND kind <> 'console_link' AND used_at IS NOT NULL
ORDER BY used_at DESC, rowid DESC LIMIT 1"""


class Invitations:
    """Reads and writes one-time tokens."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def issue(
        self,
        kind: Kind,
        member_id: str,
        token_hash: str,
        lives_for: timedelta,
        *,
        session_id: str | None = None,
        by_key: bool = False,
    ) -> str:
        """Keep a new token; answers when it expires. Inside a transaction.

        With a session named, it ends with that. `by_key`: an API key asked for it, and is shown it. Earlier ones of
        this kind stop working, but for links into the console: several devices may be on their way.
        """
        now = self._clock.now()
        expires_at = to_timestamp(now + lives_for)
        if kind != "console_link":
            self._remove(member_id, kind)
        self._database.change(
            "DELETE FROM invitations WHERE kind = 'console_link' AND expires_at <= ?", (to_timestamp(now),)
        )
        row = {"id": new_id("inv"), "member_id": member_id, "kind": kind, "token_hash": token_hash}
        self._database.run(INVITATIONS.insert(**row, expires_at=expires_at, by_key=int(by_key), session_id=session_id))
        return expires_at

    def find(self, kind: Kind, token_hash: str) -> str | None:
        """The member whom a token is for, if it is good; it stays so."""
        found = self._find(kind, token_hash)
        return None if found is None else str(found[2])

    def redeem(self, kind: Kind, token_hash: str) -> str | None:
        """The member whom a token is for, if it is good; it never is again. Inside a transaction."""
        found = self._find(kind, token_hash)
        if found is None:
            return None
        at = to_timestamp(self._clock.now())
        self._database.run(INVITATIONS.update(used_at=at).where(INVITATIONS.id == found[1]))
        return str(found[2])

    def find_session_id(self, token_hash: str) -> str | None:
        """The session that a token was made for."""
        found: str | None = self._database.value(
            "SELECT session_id FROM invitations WHERE token_hash = ?", (token_hash,)
        )
        return found

    def is_password_known_to_key(self, member_id: str) -> bool:
        """Whether the password of a member was last set with a token that an API key was shown, or may have been."""
        return bool(self._database.value(_LAST_LINK, (member_id,)))

    def revoke_all(self, member_id: str) -> None:
        """No token that this member has been given works any more. Inside a transaction."""
        self._database.change("DELETE FROM invitations WHERE member_id = ? AND used_at IS NULL", (member_id,))

    def revoke_shown_to_keys(self, member_id: str) -> None:
        """No token for this member works any more that an API key was, or may have been, shown. In a transaction."""
        sql = "DELETE FROM invitations WHERE member_id = ? AND used_at IS NULL AND by_key <> 0"
        self._database.change(sql, (member_id,))

    def _find(self, kind: Kind, token_hash: str) -> Row | None:
        row = self._database.row(_SELECT, (token_hash, kind, to_timestamp(self._clock.now())))
        return row if row is not None and hmac.compare_digest(row[0], token_hash) else None

    def _remove(self, member_id: str, kind: Kind) -> None:
        self._database.change(
            "DELETE FROM invitations WHERE member_id = ? AND kind = ? AND used_at IS NULL", (member_id, kind)
        )
