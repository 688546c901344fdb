"""Undo tokens: what the bulk actions of the last 24 hours changed, so that each can be undone once.

A token belongs to a member and a mailbox. With it are stored the folder and the flags of every message before and after
the action. So an undo can tell which messages are still as the action left them, and it restores no others.

The row is written when the action is over. After a crash before that, no token exists. After a crash during an undo,
the token is used up, and the messages that were not restored stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from mailbox_appliance.clock import Clock, from_millis, to_millis, to_timestamp
from mailbox_appliance.errors import UndoUnknown, UndoUsed
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.messages import UndoOffer
from mailbox_appliance.model.sync import StateChange
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.database import Database

VALID_FOR = timedelta(hours=24)
#: Tokens that are kept of each member. They need 0.3 KiB for one message and some 4 KiB for a hundred.
MOST_KEPT = 10_000

_FIND = """
SELECT number, action, changes, used_at IS NOT NULL FROM undo_tokens
  WHERE token_hash = ? AND account_id = ? AND member_id = ? AND expires_at > ?"""
_SURPLUS = """
DELETE FROM undo_tokens WHERE member_id = ?1 AND number <= (
  SELECT number FROM undo_tokens WHERE member_id = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"""


@dataclass(frozen=True)
class StoredUndo:
    """The action that a token undoes, and what it changed. `number`: the key of its row."""

    number: int
    action: str
    changes: tuple[StateChange, ...]
    is_used: bool


class UndoTokens:
    """Reads and writes undo tokens. Each method that writes runs in a transaction of its own."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, account_id: str, member_id: str, action: str, changes: Sequence[StateChange]) -> UndoOffer:
        """Add a token that undoes these changes, and return it. Only its hash is stored."""
        token, expires_at = new_token("mbxu"), to_millis(self._clock.now() + VALID_FOR)
        with self._database.transaction(durable=True):
            self._database.change(
                "INSERT INTO undo_tokens (token_hash, account_id, member_id, action, changes, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (hash_token(token), account_id, member_id, action, _to_json(changes), expires_at),
            )
            self._database.change(_SURPLUS, (member_id, MOST_KEPT))
        return UndoOffer(token=token, expires_at=to_timestamp(from_millis(expires_at)))

    def get(self, token: str, account_id: str, member_id: str) -> StoredUndo:
        """Return what a token undoes. Raises UndoUnknown, also for a token of another mailbox or member."""
        now = to_millis(self._clock.now())
        row = self._database.row(_FIND, (hash_token(token), account_id, member_id, now))
        if row is None:
            raise UndoUnknown
        number, action, changes, is_used = row
        found = decode_json(changes, tuple[StateChange, ...])
        return StoredUndo(number, action, found, bool(is_used))

    def use(self, undo: StoredUndo) -> None:
        """Use a token up. Raises UndoUsed if it was used before; of two requests at once, one succeeds."""
        with self._database.transaction(durable=True):
            sql = "UPDATE undo_tokens SET used_at = ?, changes = '[]' WHERE number = ? AND used_at IS NULL"
            if not self._database.change(sql, (to_millis(self._clock.now()), undo.number)):
                raise UndoUsed

    def give_back(self, undo: StoredUndo) -> None:
        """Make a token valid again, because the mail server could not be reached and nothing was restored."""
        with self._database.transaction(durable=True):
            sql = "UPDATE undo_tokens SET used_at = NULL, changes = ? WHERE number = ?"
            self._database.change(sql, (_to_json(undo.changes), undo.number))

    def delete_expired(self) -> None:
        """Delete the tokens that have expired."""
        with self._database.transaction():
            sql = "DELETE FROM undo_tokens WHERE expires_at <= ?"
            self._database.change(sql, (to_millis(self._clock.now()),))


def drop_all(database: Database) -> None:
    """Delete the tokens of a restored store, whose messages are not as they were. Call it inside a transaction."""
    database.change("DELETE FROM main.undo_tokens")


def _to_json(changes: Sequence[StateChange]) -> str:
    return msgspec.json.encode(changes).decode()
