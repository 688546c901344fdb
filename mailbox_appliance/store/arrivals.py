"""How messages come into the mirror: a batch at a time, told apart into what is new, ours, and to be filled.

no row with its UID ........................... a new row, in its thread, indexed
none, but a copy of ours or a draft waits ..... that one gets the UID (same folder and Message-ID; where the provider
                                                has ids, any folder: somebody may have put it away at once, and
                                                a draft is a draft)
none, but one with the provider's id .......... that one, wherever it lay: it moved, or was put there anew
a row of which only the header has come ....... its body, and the index again with its words
one that was listed without even its header ... that too, and its thread
a whole row ................................... passed over
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.records import FetchedMessage, MessageIdentity, ParsedMessage
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store import index, moving, provided, removal
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import (
    HAS_ATTACHMENT,
    as_json,
    flag_bits,
    keywords,
    pack_attachments,
    pack_people,
)
from mailbox_appliance.store.numbers import free_numbers
from mailbox_appliance.store.provided import Provided
from mailbox_appliance.store.threads import Joining, Threads

HEADER, WHOLE, LARGE = 0, 1, 2  # how much of a message is here: messages.body

Arriving = tuple[FetchedMessage, ParsedMessage]

_KNOWN = """
SELECT m.uid, m.number, m.body, m.message_id IS NULL AND m.subject = ''
FROM json_each(?) j CROSS JOIN messages m ON m.folder = ? AND m.uid = j.value"""
# Not by folder and UID, which SQLite would choose: all that is gone of a folder has no UID either.
_WAITING = """
SELECT m.message_id, m.provider_id IS NOT NULL AND m.flags & 4, m.number FROM json_each(?) j
  CROSS JOIN messages m INDEXED BY messages_message_id
  ON m.account = ? AND m.message_id = j.value AND (m.folder = ? OR m.provider_id = '') AND m.uid IS NULL AND m.gone = 0
  ORDER BY m.number"""
_INSERT = """
INSERT INTO messages (number, id, account, folder, uid, thread, message_id, flags, keywords, date, internal_date, size,
  subject, snippet, people, attachments, body, provider_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# Of a provider that gives ids '' stands for one that was not told yet.
_UNTOLD = "SELECT '' FROM folders WHERE account = ? AND label IS NOT NULL LIMIT 1"
_INSERT_BODY = "INSERT OR REPLACE INTO bodies (number, text, html, headers, warnings) VALUES (?, ?, ?, ?, ?)"
_FILL = "UPDATE messages SET snippet = ?, attachments = ?, body = ? WHERE number = ?"
_INTRODUCE = """
UPDATE messages SET thread = ?, message_id = ?, date = ?, subject = ?, people = ? WHERE number = ?"""
_ADOPT = "UPDATE messages SET folder = ?, uid = ?, size = ?, internal_date = ? WHERE number = ?"
_FLAG = f"UPDATE messages SET flags = (flags & {HAS_ATTACHMENT}) | ?, keywords = ? WHERE number = ?"


@dataclass(frozen=True)
class Place:
    """Where messages come in, by number, and how much of them."""

    account: int
    folder: int
    body: int


@dataclass(frozen=True)
class _Known:
    """A message that is there: its number, how much of it, and whether not even its header tells anything."""

    number: int
    body: int
    is_bare: int


def add(database: Database, place: Place, batch: Sequence[Arriving]) -> tuple[str, ...]:
    """Take in a batch; answers the ids of the messages that are new. Inside a transaction."""
    by_uid = {message.uid: (message, parsed) for message, parsed in batch}
    known = _known(database, place, by_uid)
    if moved := _moved_here(database, place, by_uid.values()):
        known |= _known(database, place, moved)
    if place.body != HEADER:
        _fill(database, place, by_uid, known)
    # By UID, so that of messages which came in one second the later one has the higher number.
    new = [pair for uid, pair in sorted(by_uid.items()) if uid not in known]
    return insert(database, place, _without_adopted(database, place, new))


def _moved_here(database: Database, place: Place, batch: Iterable[Arriving]) -> frozenset[int]:
    """The UIDs of those that are known by the provider's id; they lie here now."""
    named = [sighting_of(message, parsed) for message, parsed in batch if message.provider_id is not None]
    return moving.reattach(database, place.account, place.folder, named) if named else frozenset()


def sighting_of(message: FetchedMessage, parsed: ParsedMessage) -> MessageIdentity:
    """What a message is recognised by."""
    own = canonical_message_id(parsed.message_id or "")
    ids = (message.provider_id, message.provider_thread_id)
    return MessageIdentity(message.uid, message.flags, own, message.size, message.internal_date, *ids)


def fill(database: Database, place: Place, batch: Sequence[Arriving]) -> None:
    """Give those messages their body that are there without one. Inside a transaction."""
    by_uid = {message.uid: (message, parsed) for message, parsed in batch}
    _fill(database, place, by_uid, _known(database, place, by_uid))


def _known(database: Database, place: Place, uids: Iterable[int]) -> dict[int, _Known]:
    """By UID."""
    return {uid: _Known(*row) for uid, *row in database.rows(_KNOWN, (as_json(uids), place.folder))}


def _fill(database: Database, place: Place, batch: Mapping[int, Arriving], known: Mapping[int, _Known]) -> None:
    bare = [(one.number, batch[uid]) for uid, one in known.items() if one.body == HEADER and one.is_bare]
    _introduce(database, place, [pair for pair in bare if pair[1][1].message_id or pair[1][1].subject])
    filled = [(one.number, batch[uid][1]) for uid, one in known.items() if one.body == HEADER]
    filled.sort(key=lambda pair: pair[0])
    rows = [(parsed.snippet, pack_attachments(parsed), place.body, number) for number, parsed in filled]
    database.change_many(_FILL, rows)
    attached = [(HAS_ATTACHMENT, number) for number, parsed in filled if _has_attachment(parsed)]
    database.change_many("UPDATE messages SET flags = flags | ? WHERE number = ?", attached)
    database.change_many(_INSERT_BODY, [_body_row(number, parsed) for number, parsed in filled])
    database.change_many(index.UPDATE, [index.index_row(number, place.account, parsed) for number, parsed in filled])


def _introduce(database: Database, place: Place, bare: Sequence[tuple[int, Arriving]]) -> None:
    """Give rows their header of which it was not known."""
    if not bare:
        return
    numbers = as_json(number for number, _ in bare)
    before = database.rows("SELECT thread FROM messages WHERE number IN (SELECT value FROM json_each(?))", (numbers,))
    threads = Threads(database, place.account, [_joining(arriving, None) for _, arriving in bare]).assign()
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
    database.change_many(_INTRODUCE, rows)
    removal.delete_empty_threads(database, [thread for (thread,) in before])


def _joining(arriving: Arriving, proposed: str | None) -> Joining:
    message, parsed = arriving
    own = canonical_message_id(parsed.message_id or "")
    named, millis = _named(own, parsed), to_millis(message.internal_date)
    return Joining(own, named, parsed.subject, millis, proposed, message.provider_thread_id)


def insert(
    database: Database, place: Place, batch: Sequence[Arriving], promised: tuple[str, str] | None = None
) -> tuple[str, ...]:
    """Add new messages; answers their ids. Inside a transaction.

    `promised`: the ids of message and thread for a single one that the server does not have yet.
    """
    owns = [canonical_message_id(parsed.message_id or "") for _, parsed in batch]
    moments = [to_millis(message.internal_date) for message, _ in batch]
    joining = [_joining(arriving, promised[1] if promised else None) for arriving in batch]
    threads = Threads(database, place.account, joining).assign()
    numbers = free_numbers(database, moments)
    ids = [promised[0] if promised else new_id("msg") for _ in batch]
    rows = sorted(zip(numbers, ids, threads, owns, moments, batch, strict=True), key=lambda row: row[0])
    untold = database.value(_UNTOLD, (place.account,))
    database.change_many(
        _INSERT, [(*_row(place, *row, is_pending=bool(promised)), _id(row[-1], untold)) for row in rows]
    )
    database.change_many(_INSERT_BODY, [_body_row(number, parsed) for number, *_, (_, parsed) in rows])
    database.change_many(
        index.INSERT, [index.index_row(number, place.account, parsed) for number, *_, (_, parsed) in rows]
    )
    return tuple(ids)


def _row(
    place: Place,
    number: int,
    identity: str,
    thread: int,
    own: str | None,
    millis: int,
    arriving: Arriving,
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
        keywords(message.flags),
        to_millis(parsed.date) if parsed.date else millis,
        millis,
        message.size,
        parsed.subject,
        parsed.snippet,
        pack_people(parsed),
        pack_attachments(parsed),
        place.body,
    )


def _id(arriving: Arriving, untold: str | None) -> str | None:
    return arriving[0].provider_id or untold


def _body_row(number: int, parsed: ParsedMessage) -> tuple[object, ...]:
    headers = msgspec.json.encode(parsed.headers).decode()
    warnings = msgspec.json.encode(parsed.warnings).decode()
    return (number, parsed.text, parsed.html, headers, warnings)


def _without_adopted(database: Database, place: Place, batch: Sequence[Arriving]) -> list[Arriving]:
    """What is left of a batch when copies of ours that wait for their UID have taken theirs."""
    owns = [canonical_message_id(parsed.message_id or "") for _, parsed in batch]
    named = (as_json({own for own in owns if own}), place.account, place.folder)
    waiting: dict[tuple[str, bool], list[int]] = {}
    for message_id, is_draft, number in database.rows(_WAITING, named):
        waiting.setdefault((message_id, bool(is_draft)), []).append(number)
    left: list[Arriving] = []
    told: list[tuple[int, FetchedMessage]] = []
    for own, (message, parsed) in zip(owns, batch, strict=True):
        is_draft = message.provider_id is not None and bool(flag_bits(message.flags) & 4)
        if own is not None and waiting.get((own, is_draft)):
            moment, number = to_millis(message.internal_date), waiting[own, is_draft].pop(0)
            database.change(_ADOPT, (place.folder, message.uid, message.size, moment, number))
            told += [(number, message)] if message.provider_id is not None else []
        else:
            left.append((message, parsed))
    _provide(database, place, told)
    return left


def _provide(database: Database, place: Place, adopted: Sequence[tuple[int, FetchedMessage]]) -> None:
    """Give copies of ours that were found at the server what only the provider knows: its ids, and the labels."""
    provided.give(
        database,
        place.account,
        [Provided(number, one.provider_id or "", one.provider_thread_id) for number, one in adopted],
    )
    database.change_many(_FLAG, [(flag_bits(one.flags), keywords(one.flags), number) for number, one in adopted])


def _named(own: str | None, parsed: ParsedMessage) -> tuple[str, ...]:
    """The canonical Message-IDs that a message has and names, each once."""
    named = (own, *map(canonical_message_id, (*parsed.references, *parsed.in_reply_to)))
    return tuple(dict.fromkeys(filter(None, named)))


def _has_attachment(parsed: ParsedMessage) -> bool:
    return any(each.disposition != "inline" for each in parsed.attachments)
