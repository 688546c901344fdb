"""How a message lies in a row, and the row as the record that clients see."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mailbox_appliance.clock import from_millis, to_timestamp
from mailbox_appliance.mail import labels
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import (
    Address,
    Attachment,
    Body,
    Flags,
    FolderRef,
    LocatedMessage,
    Message,
    MirroredFolder,
    ParsedMessage,
    SearchContext,
)
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Row

_BITS = {"\\seen": 1, "\\flagged": 2, "\\draft": 4, "\\answered": 8, "$forwarded": 16, "\\deleted": 32}
_NAMES = {1: "\\Seen", 2: "\\Flagged", 4: "\\Draft", 8: "\\Answered", 16: "$Forwarded", 32: "\\Deleted"}
HAS_ATTACHMENT = 64

_COLUMNS = """
m.number, m.id, t.id, (SELECT id FROM accounts WHERE number = m.account), m.flags, m.keywords, m.date, m.subject,
m.snippet, m.people, m.attachments, f.id, f.name, f.role, f.role_source"""
_SHOWS = """
(SELECT s.number FROM folders s CROSS JOIN message_labels l ON l.folder = s.number AND l.number = m.number
  WHERE s.account = m.account AND s.label = '{}')"""
# Where people look for a message that lies among all mail: the first of these folders that shows it.
_PLACE = ", ".join(_SHOWS.format(label) for label in (labels.INBOX, "\\Draft", labels.SENT))
_FROM = f"""
FROM messages m JOIN threads t ON t.number = m.thread
JOIN folders f ON f.number = CASE WHEN m.provider_id IS NULL THEN m.folder ELSE coalesce({_PLACE}, m.folder) END"""
SELECT = f"SELECT {_COLUMNS} {_FROM}"
SELECT_WHOLE = (
    f"SELECT {_COLUMNS}, b.text, b.html, b.headers, b.warnings {_FROM}"
    " JOIN accounts a ON a.number = m.account LEFT JOIN bodies b ON b.number = m.number"
)

LOCATED = """
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
    """Values as a JSON array, for `json_each`."""
    return msgspec.json.encode(list(values)).decode()


# Few different sets of flags lie on many messages; of labels there may be some thousands.
@lru_cache(4096)
def flag_bits(flags: frozenset[str]) -> int:
    """The flags that have a meaning of their own (RFC 9051 2.3.2) as bits."""
    bits = 0
    for flag in flags:
        bits |= _BITS.get(flag.lower(), 0)
    return bits


@lru_cache(4096)
def keywords(flags: frozenset[str]) -> str:
    """The other keywords, as JSON. \\Recent says nothing about the message and is left out (RFC 9051 7.1)."""
    words = [flag for flag in flags if flag.lower() not in _BITS and flag.lower() != "\\recent"]
    return json.dumps(sorted(words)) if words else "[]"


@lru_cache(4096)
def unpack_flags(bits: int, words: str) -> frozenset[str]:
    """Flags and keywords as the server writes them."""
    return frozenset(name for bit, name in _NAMES.items() if bits & bit).union(json.loads(words))


def pack_people(parsed: ParsedMessage) -> str:
    """Everybody named in the header, as JSON."""
    people = _People(parsed.sender, parsed.to, parsed.cc, parsed.bcc, parsed.reply_to)
    return msgspec.json.encode(people).decode()


def pack_attachments(parsed: ParsedMessage) -> str:
    """The attachments, each under a new id, as JSON."""
    if not parsed.attachments:
        return "[]"
    stored = [
        _StoredAttachment(new_id("att"), a.part, a.filename, a.mime_type, a.size_bytes, a.content_id, a.disposition)
        for a in parsed.attachments
    ]
    return msgspec.json.encode(stored).decode()


def find_attachment(packed: str, attachment_id: str) -> tuple[Attachment, str] | None:
    """Of what `pack_attachments` made: the one with this id, and the number of its part."""
    found = next((stored for stored in decode_json(packed, _Attachments) if stored.id == attachment_id), None)
    return None if found is None else (_to_attachment(found), found.part)


def resized(packed: str, sizes: Mapping[tuple[str, str], int]) -> str | None:
    """What `pack_attachments` made, with these sizes, by part and type; None where all are as they were."""
    found = decode_json(packed, _Attachments)
    changed = [
        msgspec.structs.replace(one, size_bytes=sizes.get((one.part, one.mime_type), one.size_bytes)) for one in found
    ]
    return None if tuple(changed) == found else msgspec.json.encode(changed).decode()


def to_located(row: Row, folder: MirroredFolder) -> LocatedMessage:
    """A row of `LOCATED`."""
    identity, number, _, uid, message_id, size, millis, bits, words, body, gone, provider_id = row
    flags = unpack_flags(bits, words)
    at = from_millis(millis)
    is_gone = bool(gone)
    return LocatedMessage(
        identity, number, folder, uid, message_id, size, at, flags, body, is_gone, provider_id or None
    )


def to_message(row: Row, context: SearchContext | UnsetType = UNSET) -> Message:
    """A row of `SELECT` as it stands in a list, with what a search for a text has to say."""
    return Message(**_fields(row), search_context=context)


def to_whole_message(row: Row) -> Message:
    """A row of `SELECT_WHOLE`, with body and headers."""
    text, html, headers = row[15:18]
    body = Body(text=UNSET if text is None else text, html=UNSET if html is None else html)
    return Message(**_fields(row), body=body, headers=json.loads(headers or "{}"))


def _fields(row: Row) -> dict[str, Any]:
    flags = row[4]
    people = decode_json(row[9], _People)
    attachments = tuple(map(_to_attachment, decode_json(row[10], _Attachments))) if row[10] != "[]" else ()
    of_user = tuple(filter(labels.is_of_user, json.loads(row[5]))) if row[5] != "[]" else ()
    return {
        "id": row[1],
        "thread_id": row[2],
        "account_id": row[3],
        "draft_id": row[1] if flags & 4 else UNSET,
        "folder": FolderRef(id=row[11], name=row[12], role=row[13] or UNSET, role_source=row[14] or UNSET),
        "labels": of_user or UNSET,
        "from_": people.sender or UNSET,
        "to": people.to,
        "cc": people.cc or UNSET,
        "bcc": people.bcc or UNSET,
        "reply_to": people.reply_to or UNSET,
        "subject": row[7],
        "date": to_timestamp(from_millis(row[6])),
        "snippet": row[8],
        "attachments": attachments or UNSET,
        "flags": Flags(read=bool(flags & 1), starred=bool(flags & 2), draft=bool(flags & 4)),
    }


def _to_attachment(stored: _StoredAttachment) -> Attachment:
    return Attachment(
        id=stored.id,
        filename=stored.filename,
        mime_type=stored.mime_type,
        size_bytes=stored.size_bytes,
        content_id=stored.content_id or UNSET,
        disposition=stored.disposition or UNSET,  # type: ignore[arg-type]  # one of the two by the table it came from
    )
