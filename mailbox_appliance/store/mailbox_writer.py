"""Writing the mirror, the local copy of a mailbox's mail: adding, completing, changing and removing messages.

Each batch of messages is one transaction. Messages are added with their header only or complete, and may get their body
later. `moves.py` recognizes messages that were moved, and deletes those that are gone.

"Local messages" are drafts and copies of sent messages that the appliance made. They get their IDs before the server
has them. These IDs never change, since clients know them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from mailbox_appliance.clock import to_millis
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.search import searched_words, to_index_text, with_searched_words
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.deliveries import FoundCopy
from mailbox_appliance.model.messages import Address, ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, FlagChange, LocatedMessage, MessageIdentity, MirroredFolder
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store import changes, moves
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.messages import (
    HAS_ATTACHMENT,
    LOCATED_COLUMNS,
    JoiningMessage,
    ThreadAssigner,
    as_json,
    begins_thread,
    flag_bits,
    pack_attachments,
    pack_keywords,
    pack_people,
    resize_attachments,
    to_located,
    unpack_flags,
)
from mailbox_appliance.store.moves import ProviderIds, free_numbers

# --- Drafts and sent copies that the server now has: their location and IDs ---
#
# The promised ID stays, whatever sync has seen in the meantime. On a server with labels all of them are in one folder,
# where a draft and the message sent from it may have the same Message-ID.


_SEEN_DOUBLE = """
SELECT m.account, m.number, other.number, other.uid, other.size, other.internal_date, other.flags, other.keywords,
  other.provider_id, t.provider_id
  FROM messages m
  JOIN messages other INDEXED BY messages_message_id ON other.account = m.account AND other.message_id = m.message_id
  AND other.folder = m.folder AND other.uid IS NOT NULL AND (?1 IS NULL OR other.uid = ?1)
  AND (m.provider_id IS NULL OR other.flags & 4 = m.flags & 4)
  JOIN threads t ON t.number = other.thread
  WHERE m.id = ?2 AND m.uid IS NULL AND m.gone = 0 ORDER BY other.uid DESC LIMIT 1"""
_SET_UID = """
UPDATE OR IGNORE messages SET uid = ?, size = coalesce(?, size), internal_date = coalesce(?, internal_date)
  WHERE id = ? AND uid IS NULL AND gone = 0"""
_SET_FLAGS = f"UPDATE messages SET flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ? WHERE number = ?"
_WITH_PROVIDER_ID = "SELECT number, id FROM messages WHERE account = ? AND provider_id = ?"
_THREAD_IS_NEW = """
SELECT 1 FROM messages m JOIN threads t ON t.number = m.thread AND t.provider_id IS NULL WHERE m.number = ?"""
_SET_PLACE = "UPDATE messages SET folder = ?, uid = ?, size = ?, internal_date = ?, gone = 0 WHERE number = ?"


def _replace_doubles(database: Database, account: int, doubles: Sequence[int], ours: ProviderIds) -> None:
    """Delete the rows that sync made for a local draft or sent copy, and assign the local message to the provider's
    thread.

    `doubles`: row numbers of the rows to delete. `ours`: the local message with the provider's IDs. If the message's
    present thread has no provider's ID yet, it becomes the provider's thread. So its thread ID, which clients know,
    stays valid.
    """
    is_new = database.value(_THREAD_IS_NEW, (ours.number,)) is not None
    if is_new:
        moves.delete_messages(database, doubles)
    if ours.provider_id:
        moves.set_provider_ids(database, account, [ours])
    if not is_new:
        moves.delete_messages(database, doubles)


# --- The full-text index: FTS5 without content, so it stores the words but not the text ---
#
# Write rows in the order of their numbers: within a transaction, FTS5 flushes its buffer at every lower number.


INSERT_INDEX_ROW = (
    "INSERT INTO message_index (subject, sender, recipients, body, scope, rowid) VALUES (?, ?, ?, ?, ?, ?)"
)
# Every column is written again: an index without content cannot keep its earlier values.
UPDATE_INDEX_ROW = (
    "UPDATE message_index SET subject = ?, sender = ?, recipients = ?, body = ?, scope = ? WHERE rowid = ?"
)

IndexRow = tuple[str, str, str, str, str, int]


def index_row(number: int, account: int, parsed: ParsedMessage) -> IndexRow:
    """Return the row of a message for the full-text index, in the order of INSERT_INDEX_ROW and UPDATE_INDEX_ROW.

    `number`, `account`: row numbers of message and mailbox.
    """
    return (
        to_index_text(parsed.subject),
        to_index_text(_people_text((parsed.sender,) if parsed.sender else ())),
        to_index_text(_people_text((*parsed.to, *parsed.cc, *parsed.bcc))),
        searched_words(parsed),
        f"a{account}",
        number,
    )


def _people_text(people: Iterable[Address]) -> str:
    return " ".join([f"{each.name} {each.email}" if each.name else each.email for each in people])


# --- Messages that arrive in the mirror, a batch at a time ---
#
# No row with this UID .......................... A new row is added to its thread and to the index.
# None, but a pending copy of ours or a draft ... That row gets the UID. Folder and Message-ID must be the same; if the
#                                                 provider has message IDs, any folder will do for a sent copy, since
#                                                 somebody may have moved it at once, but a draft must be a draft.
# None, but a row with the provider's ID ........ That row is used, in whatever folder it was: the message was moved.
# A row with its header only .................... It gets its body, and is indexed again with its words.
# A row without even its header ................. It gets its header and its thread as well.
# A complete row ................................ It is skipped.


HEADER_ONLY, WHOLE, LARGE = 0, 1, 2  # values of messages.body: how much of a message is stored

ArrivingMessage = tuple[FetchedMessage, ParsedMessage]

_SELECT_KNOWN = """
SELECT m.uid, m.number, m.body, m.message_id IS NULL AND m.subject = ''
FROM json_each(?) j CROSS JOIN messages m ON m.folder = ? AND m.uid = j.value"""
# Not the index by folder and UID, which SQLite would choose: all gone messages of a folder lack a UID as well.
_SELECT_PENDING = """
SELECT m.message_id, m.provider_id IS NOT NULL AND m.flags & 4, m.number FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_message_id
  ON m.account = ? AND m.message_id = j.value AND (m.folder = ? OR m.provider_id = '') AND m.uid IS NULL AND m.gone = 0
  ORDER BY m.number"""
_INSERT_MESSAGE = """
INSERT INTO messages (number, id, account, folder, uid, thread, message_id, flags, keywords, date, internal_date, size,
  subject, snippet, people, attachments, body, provider_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# For a provider with message IDs, '' stands for an ID that was not reported yet.
_UNKNOWN_PROVIDER_ID = "SELECT '' FROM folders WHERE account = ? AND label IS NOT NULL LIMIT 1"
_INSERT_BODY = "INSERT OR REPLACE INTO bodies (number, text, html, headers, warnings) VALUES (?, ?, ?, ?, ?)"
_FILL_BODY = "UPDATE messages SET snippet = ?, attachments = ?, body = ? WHERE number = ?"
_FILL_HEADER = """
UPDATE messages SET thread = ?, message_id = ?, date = ?, subject = ?, people = ? WHERE number = ?"""
_ADOPT = "UPDATE messages SET folder = ?, uid = ?, size = ?, internal_date = ? WHERE number = ?"
_SET_ADOPTED_FLAGS = f"UPDATE messages SET flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ? WHERE number = ?"


@dataclass(frozen=True)
class ArrivalPlace:
    """The mailbox and folder to which messages are added, by row number, and how much of each message is added.

    `body`: HEADER_ONLY, WHOLE, or LARGE for a message without its attachments.
    """

    account: int
    folder: int
    body: int


@dataclass(frozen=True)
class _KnownMessage:
    """A stored message: how much of it is stored (`body`), and whether even its header is missing."""

    number: int
    body: int
    is_bare: int


def to_sighting(message: FetchedMessage, parsed: ParsedMessage) -> MessageIdentity:
    """Return the properties by which a message is recognized in another folder or under another UID."""
    own = canonical_message_id(parsed.message_id or "")
    ids = (message.provider_id, message.provider_thread_id)
    return MessageIdentity(message.uid, message.flags, own, message.size, message.internal_date, *ids)


def _load_known(database: Database, place: ArrivalPlace, uids: Iterable[int]) -> dict[int, _KnownMessage]:
    return {uid: _KnownMessage(*row) for uid, *row in database.rows(_SELECT_KNOWN, (as_json(uids), place.folder))}


def _fill_bodies(
    database: Database, place: ArrivalPlace, batch: Mapping[int, ArrivingMessage], known: Mapping[int, _KnownMessage]
) -> None:
    bare = [(one.number, batch[uid]) for uid, one in known.items() if one.body == HEADER_ONLY and one.is_bare]
    _fill_headers(database, place, [pair for pair in bare if pair[1][1].message_id or pair[1][1].subject])
    filled = [(one.number, batch[uid][1]) for uid, one in known.items() if one.body == HEADER_ONLY]
    filled.sort(key=lambda pair: pair[0])
    rows = [(parsed.snippet, pack_attachments(parsed), place.body, number) for number, parsed in filled]
    database.change_many(_FILL_BODY, rows)
    attached = [(HAS_ATTACHMENT, number) for number, parsed in filled if _has_attachment(parsed)]
    database.change_many("UPDATE messages SET flags = flags | ? WHERE number = ?", attached)
    database.change_many(_INSERT_BODY, [_body_row(number, parsed) for number, parsed in filled])
    database.change_many(UPDATE_INDEX_ROW, [index_row(number, place.account, parsed) for number, parsed in filled])


def _fill_headers(database: Database, place: ArrivalPlace, bare: Sequence[tuple[int, ArrivingMessage]]) -> None:
    """`bare`: pairs of row number and complete message."""
    if not bare:
        return
    numbers = as_json(number for number, _ in bare)
    before = database.rows("SELECT thread FROM messages WHERE number IN (SELECT value FROM json_each(?))", (numbers,))
    threads = ThreadAssigner(database, place.account, [_to_joining(arriving, None) for _, arriving in bare]).assign()
    rows = [
        (
            thread,
            canonical_message_id(parsed.message_id or ""),
            to_millis(parsed.date or message.internal_date),
            parsed.subject,
            pack_people(parsed),
            number,
        )
        for thread, (number, (message, parsed)) in zip(threads, bare, strict=True)
    ]
    database.change_many(_FILL_HEADER, rows)
    moves.delete_empty_threads(database, [thread for (thread,) in before])


def _to_joining(arriving: ArrivingMessage, proposed: str | None) -> JoiningMessage:
    message, parsed = arriving
    own = canonical_message_id(parsed.message_id or "")
    named, millis = _all_message_ids(own, parsed), to_millis(message.internal_date)
    return JoiningMessage(own, named, parsed.subject, millis, proposed, message.provider_thread_id)


def insert_messages(
    database: Database, place: ArrivalPlace, batch: Sequence[ArrivingMessage], promised: tuple[str, str] | None = None
) -> tuple[str, ...]:
    """Insert new messages with their threads and index entries, and return their IDs. Call it inside a transaction.

    `promised`: message ID and thread ID for a single draft or sent copy that the server does not have yet; it gets no
    UID.
    """
    owns = [canonical_message_id(parsed.message_id or "") for _, parsed in batch]
    moments = [to_millis(message.internal_date) for message, _ in batch]
    joining = [_to_joining(arriving, promised[1] if promised else None) for arriving in batch]
    threads = ThreadAssigner(database, place.account, joining).assign()
    numbers = free_numbers(database, moments)
    ids = [promised[0] if promised else new_id("msg") for _ in batch]
    rows = sorted(zip(numbers, ids, threads, owns, moments, batch, strict=True), key=lambda row: row[0])
    untold = database.value(_UNKNOWN_PROVIDER_ID, (place.account,))
    database.change_many(
        _INSERT_MESSAGE,
        [(*_message_row(place, *row, is_pending=bool(promised)), row[-1][0].provider_id or untold) for row in rows],
    )
    database.change_many(_INSERT_BODY, [_body_row(number, parsed) for number, *_, (_, parsed) in rows])
    database.change_many(
        INSERT_INDEX_ROW, [index_row(number, place.account, parsed) for number, *_, (_, parsed) in rows]
    )
    return tuple(ids)


def _message_row(
    place: ArrivalPlace,
    number: int,
    identity: str,
    thread: int,
    own: str | None,
    millis: int,
    arriving: ArrivingMessage,
    *,
    is_pending: bool,
) -> tuple[object, ...]:
    message, parsed = arriving
    return (
        number,
        identity,
        place.account,
        place.folder,
        None if is_pending else message.uid,
        thread,
        own,
        flag_bits(message.flags) | (HAS_ATTACHMENT if _has_attachment(parsed) else 0),
        pack_keywords(message.flags),
        to_millis(parsed.date) if parsed.date else millis,
        millis,
        message.size,
        parsed.subject,
        parsed.snippet,
        pack_people(parsed),
        pack_attachments(parsed),
        place.body,
    )


def _body_row(number: int, parsed: ParsedMessage) -> tuple[object, ...]:
    headers = msgspec.json.encode(parsed.headers).decode()
    warnings = msgspec.json.encode(parsed.warnings).decode()
    return (number, parsed.text, parsed.html, headers, warnings)


def _adopt_pending(database: Database, place: ArrivalPlace, batch: Sequence[ArrivingMessage]) -> list[ArrivingMessage]:
    """Match by Message-ID. Returns the other messages of the batch."""
    owns = [canonical_message_id(parsed.message_id or "") for _, parsed in batch]
    named = (as_json({own for own in owns if own}), place.account, place.folder)
    waiting: dict[tuple[str, bool], list[int]] = {}
    for message_id, is_draft, number in database.rows(_SELECT_PENDING, named):
        waiting.setdefault((message_id, bool(is_draft)), []).append(number)
    left: list[ArrivingMessage] = []
    told: list[tuple[int, FetchedMessage]] = []
    for own, (message, parsed) in zip(owns, batch, strict=True):
        is_draft = message.provider_id is not None and bool(flag_bits(message.flags) & 4)
        if own is not None and waiting.get((own, is_draft)):
            moment, number = to_millis(message.internal_date), waiting[own, is_draft].pop(0)
            database.change(_ADOPT, (place.folder, message.uid, message.size, moment, number))
            told += [(number, message)] if message.provider_id is not None else []
        else:
            left.append((message, parsed))
    _set_adopted_ids(database, place, told)
    return left


def _set_adopted_ids(database: Database, place: ArrivalPlace, adopted: Sequence[tuple[int, FetchedMessage]]) -> None:
    """Give local drafts and sent copies the provider's IDs, labels and flags of the messages that were found at the
    server.

    `adopted`: pairs of the local message's row number and the found message.
    """
    moves.set_provider_ids(
        database,
        place.account,
        [ProviderIds(number, one.provider_id or "", one.provider_thread_id) for number, one in adopted],
    )
    database.change_many(
        _SET_ADOPTED_FLAGS, [(flag_bits(one.flags), pack_keywords(one.flags), number) for number, one in adopted]
    )


def _all_message_ids(own: str | None, parsed: ParsedMessage) -> tuple[str, ...]:
    """Return its own Message-ID and those in References and In-Reply-To, each once."""
    named = (own, *map(canonical_message_id, (*parsed.references, *parsed.in_reply_to)))
    return tuple(dict.fromkeys(filter(None, named)))


def _has_attachment(parsed: ParsedMessage) -> bool:
    return any(each.disposition != "inline" for each in parsed.attachments)


# --- The writer ---


_CHANGE_FLAGS = "UPDATE messages SET flags = (flags & 64) | ?, keywords = ? WHERE folder = ? AND uid = ?"
_SELECT_FLAGS = "SELECT uid, flags, keywords FROM messages WHERE folder = ?"
_NUMBERS_OF_UIDS = "SELECT number FROM messages WHERE folder = ? AND uid IN (SELECT value FROM json_each(?))"
_NUMBERS_OF_IDS = """
SELECT m.number FROM json_each(?) j CROSS JOIN messages m ON m.id = j.value JOIN accounts a ON a.number = m.account
  WHERE a.id = ?"""
_SELECT_LOCATED = f"""
SELECT {LOCATED_COLUMNS} FROM json_each(?) j
CROSS JOIN messages m ON m.id = j.value JOIN accounts a ON a.number = m.account
WHERE a.id = ?"""
_FOR_REPLACING = """
SELECT m.number, m.account, m.folder, m.thread, t.id FROM messages m JOIN threads t ON t.number = m.thread
WHERE m.id = ?"""
_HAS_LABELS = "SELECT 1 FROM folders WHERE account = ? AND label IS NOT NULL LIMIT 1"


@dataclass(frozen=True)
class PendingCopy:
    """The message ID and thread ID, known to clients, of a draft or sent copy that the server does not have yet."""

    message_id: str
    thread_id: str


class MailboxWriter:
    """Writes mirrored messages. Each method that writes runs in a transaction of its own, unless stated otherwise."""

    def __init__(self, database: Database, folders: Folders) -> None:
        self._database, self._folders = database, folders
        #: Called before messages arrive, while nobody else can write. It adds copies of sent messages that are still
        #: left, so that what arrives is recognized as one of them.
        self.add_copies_left: Callable[[], None] = lambda: None

    # --- reading --------------------------------------------------------------------------------------------------

    def load_flags(self, folder_number: int, uids: Collection[int] | None = None) -> dict[int, frozenset[str]]:
        """Return UID -> flags of the mirrored messages of a folder. `uids`: only these messages; None: all."""
        if uids is None:
            sql, values = f"{_SELECT_FLAGS} AND uid IS NOT NULL", (folder_number,)
            rows = self._database.rows(sql, values)
        else:
            sql = f"{_SELECT_FLAGS} AND uid IN (SELECT value FROM json_each(?))"
            rows = self._database.rows(sql, (folder_number, as_json(uids)))
        return {uid: unpack_flags(bits, words) for uid, bits, words in rows}

    def count_in_folder(self, folder_number: int) -> int:
        """Return the number of mirrored messages of a folder that have a UID."""
        sql = "SELECT count(*) FROM messages WHERE folder = ? AND uid IS NOT NULL"
        return int(self._database.value(sql, (folder_number,)))

    def list_without_body(self, folder_number: int, limit: int) -> tuple[tuple[int, int], ...]:
        """Return UID and size in bytes of at most `limit` messages stored with their header only, newest first."""
        sql = "SELECT uid, size FROM messages WHERE folder = ? AND body = 0 AND uid IS NOT NULL ORDER BY number DESC"
        return tuple((uid, size) for uid, size in self._database.rows(f"{sql} LIMIT ?", (folder_number, limit)))

    def count_without_body(self, *account_ids: str) -> int:
        """Return the number of messages of these mailboxes of which only the header is stored."""
        # Usually none is: then the folders of hundreds of mailboxes are not looked up.
        if (
            self._database.value(
                "SELECT 1 FROM messages INDEXED BY messages_unfilled WHERE folder > 0 AND body = 0 LIMIT 1"
            )
            is None
        ):
            return 0
        sql = (
            "SELECT count(*) FROM json_each(?) j CROSS JOIN accounts a ON a.id = j.value JOIN folders f"
            " ON f.account = a.number JOIN messages m ON m.folder = f.number WHERE m.body = 0"
        )
        return int(self._database.value(sql, (as_json(account_ids),)))

    def locate(self, account_id: str, message_ids: Iterable[str]) -> dict[str, LocatedMessage]:
        """Return message ID -> facts needed to find the message at the server. Unknown IDs are left out."""
        rows = self._database.rows(_SELECT_LOCATED, (as_json(message_ids), account_id))
        folders = {folder.number: folder for folder in self._folders.list(account_id)} if rows else {}
        return {row[0]: to_located(row, folders[row[2]]) for row in rows if row[2] in folders}

    # --- adding ---------------------------------------------------------------------------------------------------

    def add_headers(self, folder: MirroredFolder, batch: Sequence[ArrivingMessage]) -> tuple[str, ...]:
        """Add messages with their headers only, and return the IDs of the new ones. Stored messages are skipped."""
        return self._add(folder, batch, HEADER_ONLY)

    def add(self, folder: MirroredFolder, batch: Sequence[ArrivingMessage], *, large: bool = False) -> tuple[str, ...]:
        """Add messages of a folder, and return the IDs of the new ones.

        `large`: the messages come without their attachments. A message that is stored without its body gets it; a
        complete one is skipped. A local draft or sent copy in this folder without UID, but with the same Message-ID,
        gets the UID instead of a second row. If the folder is gone, nothing is added.
        """
        return self._add(folder, batch, LARGE if large else WHOLE)

    def add_bodies(self, folder: MirroredFolder, batch: Sequence[ArrivingMessage], *, large: bool = False) -> None:
        """Add missing bodies to stored messages of this folder; skip all others. `large`: without the attachments."""
        ready = _prepare_batch(batch)
        with self._database.transaction():
            account = self._find_account(folder.number)
            if account is not None:
                place = ArrivalPlace(account, folder.number, LARGE if large else WHOLE)
                by_uid = {message.uid: (message, parsed) for message, parsed in ready}
                _fill_bodies(self._database, place, by_uid, _load_known(self._database, place, by_uid))

    def add_pending(
        self, folder: MirroredFolder, message: FetchedMessage, parsed: ParsedMessage, copy: PendingCopy
    ) -> None:
        """Add a draft or sent copy to a folder before the server has it, under the IDs in `copy`, which clients know.

        Pass `parsed` through `with_searched_words` before the transaction, since that takes long. Call it inside a
        transaction.
        """
        account = self._find_account(folder.number)
        if account is not None:
            insert_messages(
                self._database,
                ArrivalPlace(account, folder.number, WHOLE),
                [(message, parsed)],
                (copy.message_id, copy.thread_id),
            )
            # The provider itself files a message that is sent.
            if self._database.value(_HAS_LABELS, (account,)) is not None:
                self.set_uid(copy.message_id, None)

    def begins_thread(self, folder: MirroredFolder, message: FetchedMessage, parsed: ParsedMessage) -> bool:
        """Whether a message certainly begins a conversation in the mailbox of this folder. Call it in a transaction."""
        account = self._find_account(folder.number)
        return account is not None and begins_thread(self._database, account, _to_joining((message, parsed), None))

    def drop_pending(self, message_id: str) -> None:
        """Delete a draft or sent copy that another row replaces and the server lacks. Call it inside a transaction."""
        number = self._database.value("SELECT number FROM messages WHERE id = ? AND uid IS NULL", (message_id,))
        if number is not None:
            moves.delete_messages(self._database, [number])

    def replace_source(
        self, message_id: str, message: FetchedMessage, parsed: ParsedMessage, into: MirroredFolder | None = None
    ) -> None:
        """Replace the content of a draft, and keep its ID. Raises NotFound.

        The draft has no UID until `set_uid` records that of the new version. `into`: folder of the new version; None:
        the folder in which the draft is.
        """
        parsed = with_searched_words(parsed)
        with self._database.transaction():
            row = self._database.row(_FOR_REPLACING, (message_id,))
            if row is None:
                raise NotFound(what="message")
            number, account, folder, thread, thread_id = row
            target = into.number if into is not None else folder
            with changes.told_as_one(self._database, message_id, has_moved=target != folder):
                self._database.change("DELETE FROM messages WHERE number = ?", (number,))
                place = ArrivalPlace(account, target, WHOLE)
                insert_messages(self._database, place, [(message, parsed)], (message_id, thread_id))
            moves.delete_empty_threads(self._database, [thread])

    def set_uid(
        self, message_id: str, uid: int | None, size: int | None = None, internal_date: datetime | None = None
    ) -> None:
        """Record the UID that the server gave a draft or sent copy of the appliance, with its size in bytes and date
        there.

        All three may be None if the server did not report them. If sync has already mirrored the message, that row is
        deleted, and its facts go to the message with this ID. If another message has the UID, nothing is recorded.
        """
        millis = None if internal_date is None else to_millis(internal_date)
        with self._database.transaction():
            double = self._database.row(_SEEN_DOUBLE, (uid, message_id))
            if double is None:
                if uid is not None:
                    self._database.change(_SET_UID, (uid, size, millis, message_id))
                return
            account, number, seen, *place, bits, words, provider_id, thread_id = double
            _replace_doubles(self._database, account, [seen], ProviderIds(number, provider_id or "", thread_id))
            self._database.change(_SET_UID, (*place, message_id))
            if provider_id:
                self._database.change(_SET_FLAGS, (bits & ~HAS_ATTACHMENT, words, number))

    def record_server_copy(self, message_id: str, found: FoundCopy) -> None:
        """Record the place where a draft or sent copy of the appliance was found at the server, and the provider's IDs,
        if any.

        If sync has already mirrored the message, that row is deleted, and its facts go to the message with this ID.
        """
        seen = found.seen
        if found.uid is None or seen is None or seen.provider_id is None:
            self.set_uid(message_id, found.uid, found.size, found.internal_date)
            return
        with self._database.transaction():
            database, folder = self._database, found.folder.number
            account = self._find_account(folder)
            number = database.value("SELECT number FROM messages WHERE id = ? AND account = ?", (message_id, account))
            if account is None or number is None:
                return
            rows = database.rows(_WITH_PROVIDER_ID, (account, seen.provider_id))
            doubles = [row[0] for row in rows if row[1] != message_id]
            ours = ProviderIds(number, seen.provider_id, seen.provider_thread_id)
            _replace_doubles(database, account, doubles, ours)
            holder = database.value("SELECT id FROM messages WHERE folder = ? AND uid = ?", (folder, seen.uid))
            if holder in (None, message_id):  # Otherwise the UIDs have changed, and sync has not reported that yet.
                database.change(_SET_PLACE, (folder, seen.uid, seen.size, to_millis(seen.internal_date), number))
                database.change(_SET_FLAGS, (flag_bits(seen.flags), pack_keywords(seen.flags), number))

    def change_flags(self, folder_number: int, flag_changes: Sequence[FlagChange]) -> None:
        """Replace the flags of messages of a folder; UIDs that are not stored are ignored."""
        rows = [(flag_bits(c.flags), pack_keywords(c.flags), folder_number, c.uid) for c in flag_changes]
        with self._database.transaction():
            self._database.change_many(_CHANGE_FLAGS, rows)

    # --- changing and removing ------------------------------------------------------------------------------------

    def delete_by_uid(self, folder_number: int, uids: Sequence[int]) -> None:
        """Delete the messages with these UIDs, which the server no longer has. Each batch is a transaction."""
        for start in range(0, len(uids), moves.DELETED_AT_ONCE):
            with self._database.transaction():
                rows = self._database.rows(
                    _NUMBERS_OF_UIDS, (folder_number, as_json(uids[start : start + moves.DELETED_AT_ONCE]))
                )
                moves.delete_messages(self._database, [row[0] for row in rows])

    def delete_by_id(self, account_id: str, message_ids: Collection[str]) -> None:
        """Delete messages from the mirror that the appliance has removed from the server, whatever their folder."""
        with self._database.transaction():
            rows = self._database.rows(_NUMBERS_OF_IDS, (as_json(message_ids), account_id))
            moves.delete_messages(self._database, [row[0] for row in rows])

    def detach(self, folder_number: int, uids: Collection[int] | None) -> int:
        """Mark messages as `gone`, because their folder no longer contains them, and return their number.

        `uids`: None means all messages of the folder. The messages can be read until they are found in another place
        (`reattach`) or deleted (`purge_gone`). Each batch is a transaction.
        """
        return moves.detach_messages(self._database, folder_number, uids)

    def reattach(self, folder: MirroredFolder, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
        """Find stored messages marked `gone` among the messages that sync saw in a folder, and move them to that
        folder.

        `sightings`: the messages seen. One with a provider's ID is found even if it is not marked `gone`. Returns the
        UIDs of the messages found.
        """
        with self._database.transaction():
            account = self._find_account(folder.number)
            if account is None:
                return frozenset()
            return moves.reattach_messages(self._database, account, folder.number, sightings)

    def find_other_folders(self, folder: MirroredFolder, sightings: Sequence[MessageIdentity]) -> frozenset[int]:
        """Return the row numbers of the other folders of a mailbox that contain one of the messages that sync saw in
        `folder`.

        `sightings`: the messages seen. The folders are searched in the store, not at the server.
        """
        account = self._find_account(folder.number)
        return (
            moves.find_other_folders(self._database, account, folder.number, sightings)
            if account is not None
            else frozenset()
        )

    def record_moves(self, account_id: str, moved: Sequence[tuple[str, int, int | None]]) -> None:
        """Record that the appliance has moved messages at the server.

        `moved`: for each message its ID, the row number of its new folder, and its new UID (None: unknown).
        """
        with self._database.transaction():
            moves.record_moves(self._database, self._account_number(account_id), moved)

    def correct_sizes(self, number: int, sizes: Mapping[tuple[str, str], int]) -> None:
        """Correct the stored sizes of a message's attachments after they were downloaded.

        `number`: the message's row number. `sizes`: bytes by MIME part number and media type.
        """
        sql = "SELECT attachments FROM messages WHERE number = ?"
        if (packed := self._database.value(sql, (number,))) is None or resize_attachments(packed, sizes) is None:
            return
        with self._database.transaction():
            packed = self._database.value(sql, (number,))
            if packed is not None and (changed := resize_attachments(packed, sizes)) is not None:
                self._database.change("UPDATE messages SET attachments = ? WHERE number = ?", (changed, number))

    def has_gone(self, account_id: str) -> bool:
        """Whether a mailbox has messages that are missing from their folder and were not found in another one yet."""
        sql = "SELECT 1 FROM messages INDEXED BY messages_gone WHERE account = ? AND gone > 0 LIMIT 1"
        return self._database.value(sql, (self._account_number(account_id),)) is not None

    def list_gone(self, account_id: str) -> frozenset[int]:
        """Return the row numbers of messages that are missing from their folder and not yet found in another one."""
        return moves.list_gone(self._database, self._account_number(account_id))

    def purge_gone(self, account_id: str, before: frozenset[int] | None = None) -> int:
        """Delete the messages of a mailbox that are missing from their folder and were not found in another one.

        `before`: row numbers from an earlier `list_gone`; only these are deleted, if they are still missing. None: all.
        Returns the number of deleted messages. Each batch is a transaction.
        """
        return moves.purge_gone(self._database, self._account_number(account_id), before)

    def _add(self, folder: MirroredFolder, batch: Sequence[ArrivingMessage], body: int) -> tuple[str, ...]:
        database, by_uid = self._database, {message.uid: (message, parsed) for message, parsed in _prepare_batch(batch)}
        with database.block_writers():
            self.add_copies_left()
            return self._insert(folder, by_uid, body)

    def _insert(self, folder: MirroredFolder, by_uid: Mapping[int, ArrivingMessage], body: int) -> tuple[str, ...]:
        database = self._database
        with database.transaction():
            account = self._find_account(folder.number)
            if account is None:
                return ()
            place = ArrivalPlace(account, folder.number, body)
            known = _load_known(database, place, by_uid)
            # Messages that are stored in other folders are recognized by the provider's ID.
            named = [
                to_sighting(message, parsed) for message, parsed in by_uid.values() if message.provider_id is not None
            ]
            if named and (moved := moves.reattach_messages(database, account, folder.number, named)):
                known |= _load_known(database, place, moved)
            if body != HEADER_ONLY:
                _fill_bodies(database, place, by_uid, known)
            # By UID, so that of the messages of one second the later one has the higher number.
            new = [pair for uid, pair in sorted(by_uid.items()) if uid not in known]
            return insert_messages(database, place, _adopt_pending(database, place, new))

    def _find_account(self, folder_number: int) -> int | None:
        number: int | None = self._database.value("SELECT account FROM folders WHERE number = ?", (folder_number,))
        return number

    def _account_number(self, account_id: str) -> int:
        """0, which no mailbox has, if it does not exist."""
        return int(self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,)) or 0)


def _prepare_batch(batch: Sequence[ArrivingMessage]) -> list[ArrivingMessage]:
    """Computing the words takes too long inside a transaction."""
    return [(message, with_searched_words(parsed)) for message, parsed in batch]
