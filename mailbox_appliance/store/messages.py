"""Reading mirrored messages: pages, single messages, and the threads they belong to (RFC 5256)."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mailbox_appliance.clock import from_millis, millis_to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.address import same_address
from mailbox_appliance.mail.folder_roles import is_user_label, is_valid_label_name
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.provenance import domain_key
from mailbox_appliance.mail.search import ExcerptFinder, to_index_text
from mailbox_appliance.mail.threads import subject_key
from mailbox_appliance.model.base import OwnText
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.messages import (
    Address,
    Attachment,
    Body,
    Message,
    MessageFilter,
    MessageFlags,
    MessageFolder,
    ParsedMessage,
    SearchContext,
    StoredBody,
)
from mailbox_appliance.model.sync import LocatedMessage, MirroredFolder
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.search import Search, in_condition

# --- Rows, and the records that clients see ---


_FLAG_BITS = {"\\seen": 1, "\\flagged": 2, "\\draft": 4, "\\answered": 8, "$forwarded": 16, "\\deleted": 32}
_FLAG_NAMES = {1: "\\Seen", 2: "\\Flagged", 4: "\\Draft", 8: "\\Answered", 16: "$Forwarded", 32: "\\Deleted"}
HAS_ATTACHMENT = 64

_MESSAGE_COLUMNS = """
m.number, m.id, t.id, (SELECT id FROM accounts WHERE number = m.account), m.flags, m.keywords, m.date, m.subject,
m.snippet, m.people, m.attachments, f.id, f.name, f.role, f.role_source"""
_SHOWING_FOLDERS = """
(SELECT s.number FROM folders s CROSS JOIN message_labels l ON l.folder = s.number AND l.number = m.number
  WHERE s.account = m.account AND s.label = '{}')"""
# The folder in which people look for a message of all mail: the first of these that shows it.
_PLACE_COLUMNS = ", ".join(
    _SHOWING_FOLDERS.format(label) for label in (folder_roles.INBOX_LABEL, "\\Draft", folder_roles.SENT_LABEL)
)
_FROM_TABLES = f"""
FROM messages m JOIN threads t ON t.number = m.thread
JOIN folders f
  ON f.number = CASE WHEN m.provider_id IS NULL THEN m.folder ELSE coalesce({_PLACE_COLUMNS}, m.folder) END"""
SELECT_MESSAGES = f"SELECT {_MESSAGE_COLUMNS} {_FROM_TABLES}"
SELECT_WHOLE_MESSAGES = (
    f"SELECT {_MESSAGE_COLUMNS}, b.text, b.html, b.headers, b.warnings {_FROM_TABLES}"
    " JOIN accounts a ON a.number = m.account LEFT JOIN bodies b ON b.number = m.number"
)

LOCATED_COLUMNS = """
m.id, m.number, m.folder, m.uid, m.message_id, m.size, m.internal_date, m.flags, m.keywords, m.body, m.gone,
m.provider_id"""


class _People(msgspec.Struct, frozen=True):
    sender: Address | None
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    reply_to: tuple[Address, ...]


class _StoredAttachment(msgspec.Struct, frozen=True):
    id: str
    part: str
    filename: str
    mime_type: str
    size_bytes: int
    content_id: str | None
    disposition: str | None


_Attachments = tuple[_StoredAttachment, ...]


def as_json(values: Iterable[object]) -> str:
    """Return values as a JSON array, to pass them to SQLite's `json_each`."""
    return msgspec.json.encode(list(values)).decode()


# Many messages share few different sets of flags; labels may form some thousands of sets.
@lru_cache(4096)
def flag_bits(flags: frozenset[str]) -> int:
    r"""Return the flags that the appliance knows, such as \Seen, as bits of the column `flags`; others are ignored."""
    bits = 0
    for flag in flags:
        bits |= _FLAG_BITS.get(flag.lower(), 0)
    return bits


@lru_cache(4096)
def pack_keywords(flags: frozenset[str]) -> str:
    """Return all flags that `flag_bits` ignores as a sorted JSON array.

    \\Recent is left out, since it depends on the session, not on the message (RFC 9051 7.1).
    """
    words = [flag for flag in flags if flag.lower() not in _FLAG_BITS and flag.lower() != "\\recent"]
    return json.dumps(sorted(words)) if words else "[]"


@lru_cache(4096)
def unpack_flags(bits: int, words: str) -> frozenset[str]:
    """Return the set of IMAP flags for the results of `flag_bits` and `pack_keywords`."""
    return frozenset(name for bit, name in _FLAG_NAMES.items() if bits & bit).union(json.loads(words))


_MOST_READ = 300
# Messages that name an address, before a message: its row number contains its date.
_NAMING = """
SELECT m.people, f.role = 'sent' OR EXISTS (SELECT 1 FROM message_labels l JOIN folders s ON s.number = l.folder
  WHERE l.number = m.number AND s.role = 'sent') FROM message_index i CROSS JOIN messages m ON m.number = i.rowid
  JOIN folders f ON f.number = m.folder
  WHERE message_index MATCH '{sender recipients} : ' || :phrase || ' AND scope : a' || (
    SELECT number FROM accounts WHERE id = :account)
  AND (:message IS NULL OR i.rowid < (SELECT number FROM messages WHERE id = :message))
  AND m.account = (SELECT number FROM accounts WHERE id = :account)
  AND m.flags & 4 = 0 AND coalesce(f.role, '') NOT IN ('spam', 'trash', 'drafts')
  ORDER BY i.rowid DESC LIMIT :limit"""
_SENT_FOLDER = (
    "(SELECT f.number FROM folders f JOIN accounts a ON a.number = f.account WHERE a.id = :account AND f.role = 'sent')"
)
# On a server with labels, the folder shows messages by its label.
_NEWEST_SENT = f"""
SELECT people FROM (SELECT people FROM messages WHERE folder = {_SENT_FOLDER} ORDER BY number DESC LIMIT :limit)
UNION ALL SELECT m.people FROM (SELECT number FROM message_labels WHERE folder = {_SENT_FOLDER}
  ORDER BY number DESC LIMIT :limit) l JOIN messages m ON m.number = l.number"""


def pack_people(parsed: ParsedMessage) -> str:
    """Return sender, recipients and Reply-To of a message as JSON for the column `people`."""
    people = _People(parsed.sender, parsed.to, parsed.cc, parsed.bcc, parsed.reply_to)
    return msgspec.json.encode(people).decode()


def pack_attachments(parsed: ParsedMessage) -> str:
    """Return the attachments of a message as JSON for the column `attachments`, each with a new ID."""
    if not parsed.attachments:
        return "[]"
    stored = [
        _StoredAttachment(new_id("att"), a.part, a.filename, a.mime_type, a.size_bytes, a.content_id, a.disposition)
        for a in parsed.attachments
    ]
    return msgspec.json.encode(stored).decode()


def find_attachment(packed: str, attachment_id: str) -> tuple[Attachment, str] | None:
    """Return an attachment and its MIME part number; None if there is none. `packed`: from `pack_attachments`."""
    found = next((stored for stored in decode_json(packed, _Attachments) if stored.id == attachment_id), None)
    return None if found is None else (_to_attachment(found), found.part)


def resize_attachments(packed: str, sizes: Mapping[tuple[str, str], int]) -> str | None:
    """Return `packed` with corrected sizes (bytes by MIME part number and media type); None if no size changed."""
    found = decode_json(packed, _Attachments)
    changed = [
        msgspec.structs.replace(one, size_bytes=sizes.get((one.part, one.mime_type), one.size_bytes)) for one in found
    ]
    return None if tuple(changed) == found else msgspec.json.encode(changed).decode()


def to_located(row: Row, folder: MirroredFolder) -> LocatedMessage:
    """Convert a row of LOCATED_COLUMNS to the facts needed to find the message at the server."""
    identity, number, _, uid, message_id, size, millis, bits, words, body, gone, provider_id = row
    flags = unpack_flags(bits, words)
    at = from_millis(millis)
    is_gone = bool(gone)
    return LocatedMessage(
        identity, number, folder, uid, message_id, size, at, flags, body, is_gone, provider_id or None
    )


def to_message(row: Row, context: SearchContext | UnsetType = UNSET) -> Message:
    """Convert a row of SELECT_MESSAGES to a message as lists show it. `context`: matches of a search in its body."""
    return Message(**_message_fields(row), search_context=context)


def to_whole_message(row: Row) -> Message:
    """Convert a row of SELECT_WHOLE_MESSAGES to a message with body and headers."""
    text, html, headers = row[15:18]
    body = Body(text=UNSET if text is None else text, html=UNSET if html is None else html)
    return Message(**_message_fields(row), body=body, headers=json.loads(headers or "{}"))


def _message_fields(row: Row) -> dict[str, Any]:
    flags = row[4]
    people = decode_json(row[9], _People)
    attachments = tuple(map(_to_attachment, decode_json(row[10], _Attachments))) if row[10] != "[]" else ()
    of_user = tuple(filter(folder_roles.is_user_label, json.loads(row[5]))) if row[5] != "[]" else ()
    return {
        "id": row[1],
        "thread_id": row[2],
        "account_id": row[3],
        "draft_id": row[1] if flags & 4 else UNSET,
        "folder": _folder(*row[11:15]),
        "labels": of_user or UNSET,
        "from_": people.sender or UNSET,
        "to": people.to,
        "cc": people.cc or UNSET,
        "bcc": people.bcc or UNSET,
        "reply_to": people.reply_to or UNSET,
        "subject": row[7],
        "date": millis_to_timestamp(row[6]),
        "snippet": row[8],
        "attachments": attachments or UNSET,
        "flags": _FLAGS[flags & 7],
    }


_FLAGS = [MessageFlags(read=bool(bits & 1), starred=bool(bits & 2), draft=bool(bits & 4)) for bits in range(8)]


# The messages of a page are in few folders.
@lru_cache(256)
def _folder(identity: str, name: str, role: Any, role_source: Any) -> MessageFolder:
    return MessageFolder(id=identity, name=name, role=role or UNSET, role_source=role_source or UNSET)


def _to_attachment(stored: _StoredAttachment) -> Attachment:
    return Attachment(
        id=stored.id,
        filename=stored.filename,
        mime_type=stored.mime_type,
        size_bytes=stored.size_bytes,
        content_id=stored.content_id or UNSET,
        disposition=stored.disposition or UNSET,  # type: ignore[arg-type]  # one of the two by the table it came from
    )


# --- Pages and single messages ---


_BY_MESSAGE_ID = """
SELECT m.id FROM messages m JOIN accounts a ON a.number = m.account WHERE a.id = ? AND m.message_id = ?
  ORDER BY m.number DESC LIMIT 1"""

_KEYWORD_LABELS = """
SELECT f.label FROM accounts a JOIN folders f ON f.account = a.number AND f.label IS NOT NULL WHERE a.id = ?"""


class Messages:
    """Reads mirrored messages. `MailboxWriter` writes them."""

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
        reader: HtmlReader = TAG_READER,
    ) -> tuple[tuple[Message, ...], int | None]:
        """Return a page of the messages that match a filter, newest first, and the `before` of the next page (None at
        the end).

        - folders: row numbers of the folders to search; None: all folders of these mailboxes except spam and trash.
        - before: row number; only older messages are returned. None begins with the newest.
        - reader: converts HTML bodies to text, to show the places that match the filter's text.
        """
        numbers = self._search.find_numbers(account_ids, wanted, folders=folders, before=before, limit=limit + 1)
        page = numbers[:limit]
        contexts = self._search_contexts(page, wanted.text, reader) if wanted.text is not None else {}
        rows = sorted(
            self._database.rows(f"{SELECT_MESSAGES} WHERE {in_condition('m.number', page)}", page), reverse=True
        )
        messages = tuple(to_message(row, contexts.get(row[0], UNSET)) for row in rows)
        return messages, page[-1] if len(numbers) > limit else None

    def find_correspondents(self, account_id: str, addresses: Iterable[str]) -> frozenset[str]:
        """Return those of the addresses to which the mailbox has written, or from which it has received mail: see
        `has_met`.
        """
        return frozenset(each for each in addresses if self.has_met(account_id, each))

    def has_met(self, account_id: str, address: str, message_id: str | None = None) -> bool:
        """Whether the mailbox has received mail from this address, or written to it, before this message (None: ever).

        Mail in spam and trash does not count, and neither do drafts. Only the newest messages that name the address are
        read.
        """
        phrase = to_index_text(address).replace('"', " ")
        values = {"account": account_id, "message": message_id, "phrase": f'"{phrase}"', "limit": _MOST_READ}
        for packed, was_sent in self._database.rows(_NAMING, values):
            people = decode_json(packed, _People)
            from_them = () if people.sender is None else (people.sender,)
            named = (*people.to, *people.cc, *people.bcc) if was_sent else from_them
            if any(same_address(each.email, address) for each in named):
                return True
        return False

    def count_written_domains(self, account_id: str) -> Mapping[str, int]:
        """Return the organizational domains of the recipients of the mailbox's newest sent messages, each with the
        number of messages.
        """
        counts: Counter[str] = Counter()
        for (packed,) in self._database.rows(_NEWEST_SENT, {"account": account_id, "limit": _MOST_READ}):
            people = decode_json(packed, _People)
            counts.update({domain_key(each.email) for each in (*people.to, *people.cc, *people.bcc)})
        return counts

    def list_by_ids(self, message_ids: Sequence[str]) -> tuple[Message, ...]:
        """Return the messages with these IDs, of whatever mailbox, as lists show them. Missing ones are left out."""
        rows = self._database.rows(f"{SELECT_MESSAGES} WHERE {in_condition('m.id', message_ids)}", message_ids)
        return tuple(map(to_message, rows))

    def list_labels(self, account_id: str) -> tuple[str, ...]:
        """Return the labels that people gave to messages of a mailbox, sorted, without labels of the system.

        Labels that differ only in case count as one (RFC 9051 2.3.2). On a server with labels, unused ones are
        included.
        """
        sets = self._search.list_keyword_sets(account_id)
        # Other folders may exist beside all mail, such as chats, whose names are not labels of messages.
        made = (label for (label,) in self._database.rows(_KEYWORD_LABELS, (account_id,)) if is_valid_label_name(label))
        found = {*made, *(label for words in sets for label in json.loads(words))}
        names = sorted(filter(is_user_label, found), reverse=True)
        return tuple(label for _, label in sorted({label.casefold(): label for label in names}.items()))

    def get(self, account_id: str, message_id: str) -> tuple[Message, tuple[str, ...]]:
        """Return a complete message, and the warnings that parsing it gave. Raises NotFound."""
        row = self._database.row(f"{SELECT_WHOLE_MESSAGES} WHERE m.id = ? AND a.id = ?", (message_id, account_id))
        if row is None:
            raise NotFound(what="message")
        return to_whole_message(row), tuple(map(OwnText, json.loads(row[-1] or "[]")))

    def get_body(self, account_id: str, message_id: str) -> StoredBody:
        """Return the stored body of a message, as text and HTML, and whether it is stored yet. Raises NotFound."""
        row = self._database.row(
            "SELECT b.text, b.html, m.body FROM messages m JOIN accounts a ON a.number = m.account"
            " LEFT JOIN bodies b ON b.number = m.number WHERE m.id = ? AND a.id = ?",
            (message_id, account_id),
        )
        if row is None:
            raise NotFound(what="message")
        return StoredBody(text=row[0], html=row[1], is_there=bool(row[2]))

    def get_attachment(self, account_id: str, message_id: str, attachment_id: str) -> tuple[Attachment, str]:
        """Return the metadata of an attachment, and its MIME part number. Raises NotFound."""
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
        """Return the subject of the first message of a thread. Raises NotFound."""
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
        """Return a page of a thread's messages, oldest first, and the `after` of the next page (None at the end).

        `after`: row number of the last message of the previous page; None for the first page.
        """
        rows = self._database.rows(
            f"{SELECT_MESSAGES} JOIN accounts a ON a.number = m.account WHERE t.id = ? AND a.id = ? AND m.number > ?"
            " ORDER BY m.number LIMIT ?",
            (thread_id, account_id, after if after is not None else -(1 << 62), limit + 1),
        )
        page = rows[:limit]
        return tuple(map(to_message, page)), page[-1][0] if len(rows) > limit else None

    def find_thread(self, account_id: str, message_ids: Iterable[str]) -> str | None:
        """Return the ID of the thread of the first known of these canonical Message-IDs; None if none is known."""
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
        """Return the ID of the newest message whose header has this canonical Message-ID, or None."""
        found = self._database.value(_BY_MESSAGE_ID, (account_id, message_id))
        return None if found is None else str(found)

    def get_reply_headers(self, account_id: str, message_id: str) -> Mapping[str, str]:
        """Return the stored header fields of a message, for making a reply, by name in lower case. Raises NotFound."""
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
            f" WHERE {in_condition('m.number', numbers)}"
        )
        excerpts = ExcerptFinder(text, reader)
        # In the order of the page: the HTML that may be read is limited, and the newest messages come first.
        rows = sorted(self._database.rows(sql, numbers), key=lambda row: row[0], reverse=True)
        return {number: excerpts.find(body, html, is_there=bool(there)) for number, body, html, there in rows}


# --- Threads (RFC 5256): by the Message-IDs that messages have and name, otherwise by base subject ---
#
#     links lead to threads ........ The message joins them; several are merged, and the oldest keeps its ID.
#     no links, reply or forward ... It joins the newest earlier thread with its subject. It joins a thread that awaits
#                                    its first message only if it names no messages itself, since those may still come.
#     no links, an original ........ It becomes the first message of threads of later replies that await one.
#     otherwise .................... It begins a thread, which awaits its first message if this is a reply or forward.
#
# Subjects connect messages within 30 days only: this month's invoice is not a reply to the last one.
#
# If the provider reports the thread of a message, that alone counts, and such threads are never merged.


# A message may name any number of others; links beyond this number are ignored.
_MAX_LINKS = 100
_SUBJECT_WINDOW = 30 * 86_400_000  # milliseconds
_MAX_CANDIDATES = 20

_THREAD_COLUMNS = "t.number, t.base_subject, t.newest, t.began_as_reply, t.provider_id"
_LINKED_THREADS = f"""
SELECT l.message_id, {_THREAD_COLUMNS} FROM json_each(?) j CROSS JOIN thread_links l
  ON l.account = ? AND l.message_id = j.value JOIN threads t ON t.number = l.thread"""
_WAITING_THREADS = f"""
SELECT {_THREAD_COLUMNS} FROM json_each(?) j CROSS JOIN threads t
  ON t.account = ? AND t.base_subject = j.value AND t.newest >= ? AND t.began_as_reply = 1 LIMIT 2000"""
_THREADS_OF_SUBJECT = f"""
SELECT {_THREAD_COLUMNS} FROM threads t WHERE t.account = ? AND t.base_subject = ? AND t.newest >= ?
  ORDER BY t.newest DESC LIMIT ?"""
_THREADS_BY_PROVIDER = f"""
SELECT {_THREAD_COLUMNS} FROM json_each(?) j CROSS JOIN threads t INDEXED BY threads_provider
  ON t.account = ? AND t.provider_id = j.value"""
_INSERT_THREAD = """
INSERT INTO threads (number, id, account, base_subject, newest, began_as_reply, provider_id)
  VALUES (?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class JoiningMessage:
    """The facts that decide which thread a message belongs to.

    - own: its canonical Message-ID, if any.
    - named: its own Message-ID and those in its References and In-Reply-To.
    - millis: its date at the server, in milliseconds.
    - proposed: ID of the thread to join, or to create, if the other facts lead to none.
    - provided: the provider's ID of the message's thread; if it is given, it alone decides.
    """

    own: str | None
    named: tuple[str, ...]
    subject: str
    millis: int
    proposed: str | None = None
    provided: str | None = None


@dataclass(slots=True, eq=False)
class _Thread:
    """A thread in memory while a batch of messages is assigned.

    `base`: the base subject. `newest`: date of its newest message in milliseconds. `waits`: whether all its messages so
    far are replies, so that its first message may still come. `part_of`: the thread into which it was merged.
    """

    number: int
    base: str | None
    newest: int
    waits: bool
    first: int | None  # earliest arrival in this batch, milliseconds
    provided: str | None  # the provider's id
    identity: str = ""  # ID of a new thread
    part_of: "_Thread | None" = None

    @property
    def root(self) -> "_Thread":
        """The thread into which this one was finally merged; the thread itself if it was not merged."""
        thread = self
        while thread.part_of is not None:
            thread = thread.part_of
        return thread


def begins_thread(database: Database, account: int, one: JoiningMessage) -> bool:
    """Whether a message certainly begins a thread: it names no other message and none names it, its subject is not
    that of a reply, and no thread of replies waits for it.
    """
    base, is_reply = subject_key(one.subject)
    if is_reply or any(each != one.own for each in one.named):
        return False
    if database.rows("SELECT 1 FROM thread_links WHERE account = ? AND message_id = ?", (account, one.own)):
        return False
    return not base or not database.rows(_WAITING_THREADS, (as_json([base]), account, one.millis))


class ThreadAssigner:
    """Assigns the messages of a batch to threads. Create it inside a transaction, and call `assign` once."""

    def __init__(self, database: Database, account: int, batch: Sequence[JoiningMessage]) -> None:
        self._database, self._account, self._batch = database, account, batch
        self._keys = [subject_key(one.subject) for one in batch]
        self._last_number = int(database.value("SELECT coalesce(max(number), 0) FROM threads"))
        self._threads: dict[int, _Thread] = {}
        self._links: dict[str, _Thread] = {}
        self._new_links: list[tuple[str, _Thread]] = []
        self._provided: dict[str, _Thread] = {}  # by the provider's id
        self._waiting: dict[str, list[_Thread]] = {}  # by base subject
        self._new: list[_Thread] = []  # not written yet
        self._changed: dict[_Thread, None] = {}

    def assign(self) -> list[int]:
        """Return the row number of each message's thread, in the order of the batch. New threads are stored first."""
        self._load_linked()
        joined = [self._assign_one(one, *key) for one, key in zip(self._batch, self._keys, strict=True)]
        self._write()
        rows = [(self._account, message_id, thread.root.number) for message_id, thread in self._new_links]
        self._database.change_many("INSERT INTO thread_links VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
        return [thread.root.number for thread in joined]

    def _load_linked(self) -> None:
        provided = {one.provided for one in self._batch if one.provided}
        if provided:
            for thread in map(
                self._add_loaded, self._database.rows(_THREADS_BY_PROVIDER, (as_json(provided), self._account))
            ):
                self._provided[thread.provided or ""] = thread
        named = {message_id for one in self._batch if not one.provided for message_id in one.named}
        for message_id, *row in self._database.rows(_LINKED_THREADS, (as_json(named), self._account)):
            self._links[message_id] = self._add_loaded(row)
        pairs = zip(self._batch, self._keys, strict=True)
        originals = {base for one, (base, is_reply) in pairs if base and not is_reply and not one.provided}
        if originals:
            asked = (as_json(originals), self._account, min(one.millis for one in self._batch))
            for thread in map(self._add_loaded, self._database.rows(_WAITING_THREADS, asked)):
                self._waiting.setdefault(thread.base or "", []).append(thread)

    def _add_loaded(self, row: Sequence[Any]) -> _Thread:
        number, base, newest, began_as_reply, provided = row
        if number not in self._threads:
            self._threads[number] = _Thread(number, base, newest, bool(began_as_reply), None, provided)
        return self._threads[number]

    def _assign_one(self, one: JoiningMessage, base: str, is_reply: bool) -> _Thread:
        if one.provided is not None:
            return self._assign_by_provider(one, base, one.provided)
        named = one.named[:_MAX_LINKS]
        found = _prefer_provider_threads([self._links[each].root for each in named if each in self._links])
        if not found and one.proposed:
            found = self._find_proposed(one.proposed)
        if not found and base:
            found = self._find_by_subject(one, base) if is_reply else self._find_waiting_for(one, base)
        thread = self._merge(found) if found else self._begin_thread(one, base, is_reply)
        self._note_arrival(thread, one.millis, is_reply)
        self._link(thread, named)
        return thread

    def _assign_by_provider(self, one: JoiningMessage, base: str, provided: str) -> _Thread:
        """Without one, `one.proposed` gets the provider's ID if it has none yet; otherwise a thread is created."""
        thread = self._provided.get(provided)
        if thread is None:
            thread = self._find_unclaimed(one.proposed, provided) if one.proposed else None
            # The proposed ID is not used again if it belongs to another thread of the provider's.
            thread = thread or self._begin_thread(replace(one, proposed=None), base, is_reply=False)
            self._provided[provided] = thread
        self._note_arrival(thread, one.millis, is_reply=False)
        self._link(thread, [one.own] if one.own else [])
        return thread

    def _find_unclaimed(self, identity: str, provided: str) -> _Thread | None:
        """Returns None, and stores nothing, if there is no such thread or it already has a provider's ID."""
        for thread in self._find_proposed(identity):
            if thread.provided is None:
                thread.provided = provided
                self._database.change("UPDATE threads SET provider_id = ? WHERE number = ?", (provided, thread.number))
                return thread
        return None

    def _link(self, thread: _Thread, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            if message_id not in self._links:
                self._links[message_id] = thread
                self._new_links.append((message_id, thread))

    def _note_arrival(self, thread: _Thread, millis: int, is_reply: bool) -> None:
        thread.first = millis if thread.first is None else min(thread.first, millis)
        if millis > thread.newest or (thread.waits and not is_reply):
            thread.newest, thread.waits = max(millis, thread.newest), thread.waits and is_reply
            self._changed[thread] = None

    def _find_proposed(self, identity: str) -> set[_Thread]:
        sql = f"SELECT {_THREAD_COLUMNS} FROM threads t WHERE t.id = ? AND t.account = ?"
        return {self._add_loaded(row).root for row in self._database.rows(sql, (identity, self._account))}

    def _find_by_subject(self, one: JoiningMessage, base: str) -> set[_Thread]:
        """Return the newest thread that a reply may join by its base subject alone; an empty set if there is none."""
        self._write()
        names_others = any(each != one.own for each in one.named)
        rows = self._database.rows(
            _THREADS_OF_SUBJECT, (self._account, base, one.millis - _SUBJECT_WINDOW, _MAX_CANDIDATES)
        )
        for thread in map(self._add_loaded, rows):
            # If the thread's first message is stored, an earlier message is not a reply to it.
            latest = one.millis + (_SUBJECT_WINDOW if thread.waits else 0)
            if not (thread.waits and names_others) and self._first_moment(thread) <= latest:
                return {thread}
        return set()

    def _find_waiting_for(self, one: JoiningMessage, base: str) -> set[_Thread]:
        """Return the threads of replies with this base subject of which the message may be the first."""
        waiting = {thread.root for thread in self._waiting.get(base, ())}
        later = [
            each for each in waiting if each.waits and 0 <= self._first_moment(each) - one.millis <= _SUBJECT_WINDOW
        ]
        return set(sorted(later, key=lambda thread: thread.number)[:_MAX_CANDIDATES])

    def _first_moment(self, thread: _Thread) -> int:
        number = self._database.value("SELECT min(number) FROM messages WHERE thread = ?", (thread.number,))
        moments = ([] if number is None else [(number >> 4) * 1000]) + ([] if thread.first is None else [thread.first])
        return min(moments, default=thread.newest)

    def _begin_thread(self, one: JoiningMessage, base: str, is_reply: bool) -> _Thread:
        self._last_number += 1
        identity = one.proposed or new_id("thr")
        thread = _Thread(self._last_number, base or None, one.millis, is_reply, None, one.provided, identity)
        self._threads[thread.number] = thread
        if is_reply and base:
            self._waiting.setdefault(base, []).append(thread)
        self._new.append(thread)
        return thread

    def _merge(self, threads: set[_Thread]) -> _Thread:
        """The merged thread keeps the ID of the oldest, since clients may know that."""
        kept, *others = sorted(threads, key=lambda thread: thread.number)
        if others:
            self._write()
        for other in others:
            for table in ("messages", "thread_links"):
                self._database.change(f"UPDATE {table} SET thread = ? WHERE thread = ?", (kept.number, other.number))
            self._database.change("DELETE FROM threads WHERE number = ?", (other.number,))
            other.part_of = kept
            self._changed[kept] = None
            kept.newest, kept.waits = max(kept.newest, other.newest), kept.waits and other.waits
            kept.first = min((each.first for each in (kept, other) if each.first is not None), default=None)
        return kept

    def _write(self) -> None:
        """Write new and changed threads to the database. Call it before queries that must find them."""
        new, self._new = self._new, []
        changed, self._changed = self._changed, {}
        self._database.change_many(
            _INSERT_THREAD, [(t.number, t.identity, self._account, t.base, t.newest, t.waits, t.provided) for t in new]
        )
        self._database.change_many(
            "UPDATE threads SET newest = ?, began_as_reply = ? WHERE number = ?",
            [(t.newest, t.waits, t.number) for t in changed],
        )


def _prefer_provider_threads(threads: Sequence[_Thread]) -> set[_Thread]:
    """Threads with a provider's ID are never merged, so of these a message joins only the last."""
    provided = [thread for thread in threads if thread.provided is not None]
    return {provided[-1]} if provided else set(threads)
