"""The mirrored messages as sync writes them: in batches, each of which is one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mailbox_appliance.clock import to_millis
from mailbox_appliance.ids import new_id
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.records import FetchedMessage, FlagChange, MirroredFolder, ParsedMessage
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import flag_bits, keywords, pack_attachments, pack_people, unpack_flags
from mailbox_appliance.store.threads import join_thread

_INSERT = """
INSERT INTO messages (number, id, account, folder, uid, thread, message_id, flags, keywords, date, internal_date, size,
  subject, snippet, people, attachments) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_INSERT_BODY = "INSERT INTO bodies (number, text, html, headers, warnings) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class PendingCopy:
    """A message of ours that stands in a folder here and not on the server yet: its ids are fixed, it has no UID."""

    message_id: str
    thread_id: str


class Mirror:
    """Writes messages. Each method that writes is one transaction of its own, unless it says otherwise."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, folder_number: int) -> dict[int, frozenset[str]]:
        """UID -> flags of the messages that are mirrored in a folder."""
        sql = "SELECT uid, flags, keywords FROM messages WHERE folder = ? AND uid IS NOT NULL"
        return {uid: unpack_flags(bits, words) for uid, bits, words in self._database.rows(sql, (folder_number,))}

    def add(self, folder: MirroredFolder, batch: Sequence[tuple[FetchedMessage, ParsedMessage]]) -> tuple[str, ...]:
        """Add messages of a folder and answer the ids of the new ones.

        A UID that is there already is passed over; a pending copy of ours with the same Message-ID gets the UID instead
        of a second row. A folder that is gone takes nothing.
        """
        with self._database.transaction():
            account = self._database.value("SELECT account FROM folders WHERE number = ?", (folder.number,))
            if account is None:
                return ()
            added = [self._add_one(account, folder.number, *pair) for pair in batch]
        return tuple(message_id for message_id in added if message_id is not None)

    def add_pending(
        self, folder: MirroredFolder, message: FetchedMessage, parsed: ParsedMessage, copy: PendingCopy
    ) -> None:
        """Add our copy of a sent message before the server has it, under promised ids. Inside a transaction."""
        account = self._database.value("SELECT account FROM folders WHERE number = ?", (folder.number,))
        self._insert(account, folder.number, message, parsed, pending=copy)

    def change_flags(self, folder_number: int, changes: Sequence[FlagChange]) -> None:
        """Set the flags of messages of a folder."""
        rows = [(flag_bits(c.flags), keywords(c.flags), folder_number, c.uid) for c in changes]
        with self._database.transaction():
            # The bit for attachments is no flag of the server's.
            self._database.change_many(
                "UPDATE messages SET flags = (flags & 64) | ?, keywords = ? WHERE folder = ? AND uid = ?", rows
            )

    def remove(self, folder_number: int, uids: Sequence[int]) -> None:
        """Remove messages that the server no longer has in this folder."""
        with self._database.transaction():
            rows = [(folder_number, uid) for uid in uids]
            self._database.change_many("DELETE FROM messages WHERE folder = ? AND uid = ?", rows)

    def set_uid(self, message_id: str, uid: int) -> None:
        """Note where the server put a copy of ours. A UID that sync has seen meanwhile keeps the row it got."""
        with self._database.transaction():
            self._database.change(
                "UPDATE OR IGNORE messages SET uid = ? WHERE id = ? AND uid IS NULL", (uid, message_id)
            )

    def _add_one(self, account: int, folder: int, message: FetchedMessage, parsed: ParsedMessage) -> str | None:
        sql = "SELECT 1 FROM messages WHERE folder = ? AND uid = ?"
        if self._database.value(sql, (folder, message.uid)) is not None:
            return None
        if self._adopt(folder, message, parsed):
            return None
        return self._insert(account, folder, message, parsed)

    def _adopt(self, folder: int, message: FetchedMessage, parsed: ParsedMessage) -> bool:
        own = canonical_message_id(parsed.message_id or "")
        return own is not None and bool(
            self._database.change(
                "UPDATE messages SET uid = ? WHERE number = (SELECT number FROM messages"
                " WHERE folder = ? AND message_id = ? AND uid IS NULL LIMIT 1)",
                (message.uid, folder, own),
            )
        )

    def _insert(
        self,
        account: int,
        folder: int,
        message: FetchedMessage,
        parsed: ParsedMessage,
        pending: PendingCopy | None = None,
    ) -> str:
        own = canonical_message_id(parsed.message_id or "")
        named = (own, *map(canonical_message_id, (*parsed.references, *parsed.in_reply_to)))
        thread = join_thread(
            self._database, account, filter(None, named), proposed=pending.thread_id if pending else None
        )
        number = self._next_number(message)
        identity = pending.message_id if pending else new_id("msg")
        millis = to_millis(message.internal_date)
        self._database.change(
            _INSERT,
            (
                number,
                identity,
                account,
                folder,
                None if pending else message.uid,
                thread,
                own,
                flag_bits(message.flags) | (64 if any(a.disposition != "inline" for a in parsed.attachments) else 0),
                keywords(message.flags),
                to_millis(parsed.date) if parsed.date else millis,
                millis,
                message.size,
                parsed.subject,
                parsed.snippet,
                pack_people(parsed),
                pack_attachments(parsed),
            ),
        )
        headers = msgspec.json.encode(parsed.headers).decode()
        warnings = msgspec.json.encode(parsed.warnings).decode()
        self._database.change(_INSERT_BODY, (number, parsed.text, parsed.html, headers, warnings))
        return identity

    def _next_number(self, message: FetchedMessage) -> int:
        """The first free number from this message's second on: order by date, whatever order they arrive in."""
        first = (to_millis(message.internal_date) // 1000) << 4
        # One index look-up in nearly every case; where many share a second, their numbers run on into the next ones.
        taken = self._database.rows("SELECT number FROM messages WHERE number >= ? ORDER BY number LIMIT 64", (first,))
        number = first
        for (other,) in taken:
            if other != number:
                return number
            number += 1
        return number if len(taken) < 64 else self._after_run(number - 1)

    def _after_run(self, number: int) -> int:
        """A free number after one that is taken, soon found however many messages share a second (an import does)."""
        step = 1
        while self._is_taken(number + step):
            step *= 2
        taken, free = number + step // 2, number + step
        while free - taken > 1:
            middle = (taken + free) // 2
            taken, free = (middle, free) if self._is_taken(middle) else (taken, middle)
        return free

    def _is_taken(self, number: int) -> bool:
        return self._database.value("SELECT 1 FROM messages WHERE number = ?", (number,)) is not None
