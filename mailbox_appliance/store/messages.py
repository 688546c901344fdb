"""The mirrored messages as they are read: in pages, newest first, or one by one."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import UNSET

from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.excerpt import Excerpts
from mailbox_appliance.mail.labels import is_nameable, is_of_user
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.model.records import Attachment, Message, MessageFilter, SearchContext, StoredBody
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import (
    SELECT,
    SELECT_WHOLE,
    find_attachment,
    to_message,
    to_whole_message,
)
from mailbox_appliance.store.search import Search
from mailbox_appliance.store.sources import among

_BY_MESSAGE_ID = """
SELECT m.id FROM messages m JOIN accounts a ON a.number = m.account WHERE a.id = ? AND m.message_id = ?
  ORDER BY m.number DESC LIMIT 1"""

_LABELS = """
SELECT f.label FROM accounts a JOIN folders f ON f.account = a.number AND f.label IS NOT NULL WHERE a.id = ?"""


class Messages:
    """Reads messages; `store.mirror` writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._search = Search(database)

    def list(
        self,
        account_ids: Sequence[str],
        wanted: MessageFilter,
        *,
        folders: Collection[int] | None,
        before: int | None,
        limit: int,
        reader: HtmlReader = TAGS,
    ) -> tuple[tuple[Message, ...], int | None]:
        """A page of the messages that a filter means, newest first, and the position to go on from (None at the end).

        Without folders: of every folder of these mailboxes but spam and trash. Where the filter has a text, each
        message says where it stands in its body.
        """
        numbers = self._search.find_numbers(account_ids, wanted, folders=folders, before=before, limit=limit + 1)
        page = numbers[:limit]
        contexts = self._search_contexts(page, wanted.text, reader) if wanted.text is not None else {}
        rows = sorted(self._database.rows(f"{SELECT} WHERE {among('m.number', page)}", page), reverse=True)
        messages = tuple(to_message(row, contexts.get(row[0], UNSET)) for row in rows)
        return messages, page[-1] if len(numbers) > limit else None

    def list_labels(self, account_id: str) -> tuple[str, ...]:
        """Every label that a message of a mailbox has, in order; once, whatever its case (RFC 9051 2.3.2).

        On a server with labels also those that no message has. Only people's: what the system calls a label is told in
        other ways.
        """
        sets = self._search.list_keyword_sets(account_id)
        # Beside the folder of all mail may lie others, such as chats, whose names are no labels of messages.
        made = (label for (label,) in self._database.rows(_LABELS, (account_id,)) if is_nameable(label))
        found = {*made, *(label for words in sets for label in json.loads(words))}
        names = sorted(filter(is_of_user, found), reverse=True)
        return tuple(label for _, label in sorted({label.casefold(): label for label in names}.items()))

    def get(self, account_id: str, message_id: str) -> tuple[Message, tuple[str, ...]]:
        """A whole message, and what a reader should know about how it was read. Raises NotFound."""
        row = self._database.row(f"{SELECT_WHOLE} WHERE m.id = ? AND a.id = ?", (message_id, account_id))
        if row is None:
            raise NotFound(what="message")
        return to_whole_message(row), tuple(json.loads(row[-1] or "[]"))

    def get_body(self, account_id: str, message_id: str) -> StoredBody:
        """The body of a message. Raises NotFound."""
        row = self._database.row(
            "SELECT b.text, b.html, m.body FROM messages m JOIN accounts a ON a.number = m.account"
            " LEFT JOIN bodies b ON b.number = m.number WHERE m.id = ? AND a.id = ?",
            (message_id, account_id),
        )
        if row is None:
            raise NotFound(what="message")
        return StoredBody(text=row[0], html=row[1], is_there=bool(row[2]))

    def get_attachment(self, account_id: str, message_id: str, attachment_id: str) -> tuple[Attachment, str]:
        """An attachment as it is listed, and the number of its part. Raises NotFound."""
        packed = self._database.value(
            "SELECT m.attachments FROM messages m JOIN accounts a ON a.number = m.account WHERE m.id = ? AND a.id = ?",
            (message_id, account_id),
        )
        if packed is None:
            raise NotFound(what="message")
        found = find_attachment(packed, attachment_id)
        if found is None:
            raise NotFound(what="attachment")
        return found

    def get_thread_subject(self, account_id: str, thread_id: str) -> str:
        """The subject that a thread began with. Raises NotFound."""
        row = self._database.row(
            "SELECT m.subject FROM messages m JOIN threads t ON t.number = m.thread"
            " JOIN accounts a ON a.number = m.account WHERE t.id = ? AND a.id = ? ORDER BY m.number LIMIT 1",
            (thread_id, account_id),
        )
        if row is None:
            raise NotFound(what="thread")
        return str(row[0])

    def list_thread(
        self, account_id: str, thread_id: str, *, after: int | None, limit: int
    ) -> tuple[tuple[Message, ...], int | None]:
        """A page of a thread's messages, oldest first, and the position to go on from."""
        rows = self._database.rows(
            f"{SELECT} JOIN accounts a ON a.number = m.account WHERE t.id = ? AND a.id = ? AND m.number > ?"
            " ORDER BY m.number LIMIT ?",
            (thread_id, account_id, after if after is not None else -(1 << 62), limit + 1),
        )
        page = rows[:limit]
        return tuple(map(to_message, page)), page[-1][0] if len(rows) > limit else None

    def find_thread(self, account_id: str, message_ids: Iterable[str]) -> str | None:
        """The id of the thread that one of these canonical Message-IDs belongs to, or None."""
        for message_id in message_ids:
            found = self._database.value(
                "SELECT t.id FROM thread_links l JOIN threads t ON t.number = l.thread JOIN accounts a"
                " ON a.number = l.account WHERE a.id = ? AND l.message_id = ?",
                (account_id, message_id),
            )
            if found is not None:
                return str(found)
        return None

    def find_by_message_id(self, account_id: str, message_id: str) -> str | None:
        """The id of a message with this canonical Message-ID, the newest one where there are several; or None."""
        found = self._database.value(_BY_MESSAGE_ID, (account_id, message_id))
        return None if found is None else str(found)

    def get_reply_headers(self, account_id: str, message_id: str) -> Mapping[str, str]:
        """The header fields of a message that a reply needs, with lower-case names. Raises NotFound."""
        sql = (
            "SELECT b.headers FROM messages m JOIN accounts a ON a.number = m.account JOIN bodies b USING (number)"
            " WHERE m.id = ? AND a.id = ?"
        )
        text = self._database.value(sql, (message_id, account_id))
        if text is None:
            raise NotFound(what="message")
        return {name.lower(): value for name, value in json.loads(text).items()}

    def _search_contexts(self, numbers: Sequence[int], text: str, reader: HtmlReader) -> dict[int, SearchContext]:
        sql = (
            "SELECT m.number, b.text, b.html, m.body <> 0 FROM messages m LEFT JOIN bodies b USING (number)"
            f" WHERE {among('m.number', numbers)}"
        )
        excerpts = Excerpts(text, reader)
        # In the order of the page: what may be read of HTML is bounded, and the newest come first.
        rows = sorted(self._database.rows(sql, numbers), key=lambda row: row[0], reverse=True)
        return {number: excerpts.find(body, html, is_there=bool(there)) for number, body, html, there in rows}
