"""Fetch messages of the selected folder, and search in it. Requests are limited by count and bytes.

No function of this module marks a message as read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from mailbox_appliance.mail.large import PartEnd
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.sync import FetchedMessage, ListedPart
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import values
from mailbox_appliance.remote.imap.values import (
    FetchCollector,
    FetchedItems,
    FlagCollector,
    LabelCollector,
    SectionCollector,
    read_body_structure,
    read_uid_set,
    uid_sets,
)
from mailbox_appliance.remote.imap.wire import ImapWire, Pieces, read_uid

BATCH_COUNT = 500
BATCH_BYTES = 8 << 20
#: A larger message is cut: its source holds the first CUT_BYTES, while its size is the real one.
LARGEST_MESSAGE = 64 << 20
CUT_BYTES = 1 << 20
#: Bytes of header fields of one message: 500 of them stay within the bound of one response.
HEADER_BYTES = 1 << 17
#: The header fields that a list of messages shows, or that identify a message.
HEADER_FIELDS = "DATE FROM SENDER TO CC BCC REPLY-TO SUBJECT MESSAGE-ID IN-REPLY-TO REFERENCES CONTENT-TYPE"

_ITEMS = "UID FLAGS INTERNALDATE RFC822.SIZE"
_HEADERS = f"BODY.PEEK[HEADER.FIELDS ({HEADER_FIELDS})]<0.{HEADER_BYTES}>"
_WHOLE = "BODY.PEEK[]"
_CUT = f"BODY.PEEK[]<0.{CUT_BYTES}>"
_ESEARCH = re.compile(rb"\* ESEARCH\b.* ALL ([\d:,]+) *", re.I)
_MOST_IN_A_LINE = 300_000  # UIDs: in the worst case each takes 11 bytes of a line
# UIDs, if a folder grows during the search: a range of 20 bytes may stand for billions
_MOST_LISTED = 2 * _MOST_IN_A_LINE
_MOST_FOUND = 100_000
_SECTION = re.compile(r"|(?:\d{1,9}(?:\.\d{1,9})*)(?:\.(?:HEADER|TEXT|MIME))?|HEADER|TEXT")


def message_items(wire: ImapWire, section: str = "") -> str:
    """Return the FETCH items for a message to be stored: UID, flags, date, size, and labels if the server has them.

    `section`: one more item for the content, such as `BODY.PEEK[]`.
    """
    asked = (_ITEMS, *((values.IDENTITY_ITEMS, values.LABELS_ITEM) if wire.has_labels else ()), section)
    return f"({' '.join(filter(None, asked))})"


def fetch_flags(
    wire: ImapWire, uids: Sequence[int] | None, changed_since: int | None = None
) -> dict[int, frozenset[str]]:
    """Return flags by UID, as `ImapMailbox.fetch_flags`. `changed_since`: only above this mod-sequence (RFC 7162)."""
    kind, asked = (
        (LabelCollector, f"UID FLAGS {values.LABELS_ITEM}") if wire.has_labels else (FlagCollector, "UID FLAGS")
    )
    answers = kind(None if uids is None else frozenset(uids))
    modifier = "" if changed_since is None else f" (CHANGEDSINCE {changed_since})"
    for numbers in ["1:*"] if uids is None else uid_sets(uids):
        wire.run_command(f"UID FETCH {numbers} ({asked}){modifier}", answers.collect)
    return answers.found


def search_uids(wire: ImapWire, exists: int, *, has_esearch: bool) -> frozenset[int]:
    """Return the UIDs of all messages, as `ImapMailbox.search_uids`. `exists`: how many there are, as far as known."""
    if not exists:  # some servers refuse 1:* in an empty folder
        return frozenset()
    if not has_esearch or exists > _MOST_IN_A_LINE:
        return frozenset(fetch_flags(wire, None))
    found: set[int] = set()

    def hear(pieces: Pieces) -> bool:
        answer = _ESEARCH.fullmatch(pieces[0])  # RFC 4731; without ALL if there are no messages
        told = read_uid_set(answer[1], _MOST_LISTED - len(found)) if answer else ()
        if told is None:
            raise ValueError("more messages than there can be")
        found.update(told)
        return bool(answer)

    wire.run_command("UID SEARCH RETURN (ALL) ALL", hear)
    return frozenset(found)


def fetch_headers(wire: ImapWire, uids: Sequence[int]) -> Iterator[FetchedMessage]:
    """Yield messages with some header fields, as `ImapMailbox.fetch_headers`. The source is empty if refused."""
    for start in range(0, len(uids), BATCH_COUNT):
        some = uids[start : start + BATCH_COUNT]
        refused: dict[int, RemoteFault] = {}
        found = _merge_items(_fetch_past_refusals(wire, some, message_items(wire, _HEADERS), refused))
        found |= _fetch_without_section(wire, list(refused))
        yield from _messages_in_order(found, some)


def fetch_outlines(wire: ImapWire, uids: Sequence[int]) -> Iterator[FetchedMessage]:
    """Yield messages without their source, as `ImapMailbox.fetch_outlines`."""
    return _messages_in_order(_fetch_without_section(wire, uids), uids)


def fetch_sizes(wire: ImapWire, uids: Sequence[int]) -> dict[int, int]:
    """Return sizes in bytes by UID, as `ImapMailbox.fetch_sizes`."""
    answers = _merge_items(_fetch_past_refusals(wire, uids, "(UID RFC822.SIZE)", {}, with_flags=False))
    return {uid: one.size or 0 for uid, one in answers.items()}


def fetch_messages(
    wire: ImapWire, uids: Sequence[int], sizes: Mapping[int, int] | None = None
) -> Iterator[FetchedMessage]:
    """Yield whole messages, as `ImapMailbox.fetch_messages`."""
    for start in range(0, len(uids), BATCH_COUNT):
        some = uids[start : start + BATCH_COUNT]
        known = fetch_sizes(wire, some) if sizes is None else sizes
        for batch in _batches([uid for uid in some if uid in known], known):
            section = _CUT if known[batch[0]] > LARGEST_MESSAGE else _WHOLE
            for told in _fetch_past_refusals(wire, batch, message_items(wire, section), {}):
                yield from _messages_in_order(told, batch)


def fetch_items(wire: ImapWire, uids: Sequence[int], items: str) -> dict[int, FetchedItems]:
    """Return the requested FETCH items by UID. Messages that the server does not return are left out."""
    return _merge_items(_fetch_past_refusals(wire, uids, items, {}))


def search_message_id(wire: ImapWire, message_id: str) -> tuple[int, ...]:
    """Return the UIDs of messages whose Message-ID contains this text, ascending."""
    # A literal, which may have any character (RFC 9051 6.4.4).
    charset = "" if message_id.isascii() else "CHARSET UTF-8 "
    return _search(wire, f"{charset}HEADER Message-ID ", message_id.encode())


def search_provider_id(wire: ImapWire, provider_id: str) -> int | None:
    """Return the UID of the message with this X-GM-MSGID, or None. Only for servers with labels (X-GM-EXT-1)."""
    if not provider_id.isdigit():
        raise ValueError("not the id of a message")
    found = _search(wire, f"X-GM-MSGID {provider_id}")
    return found[-1] if found else None


def _search(wire: ImapWire, criteria: str, literal: bytes | None = None) -> tuple[int, ...]:
    found: set[int] = set()

    def hear(pieces: Pieces) -> bool:
        if is_answer := pieces[0][:8].upper() == b"* SEARCH":
            found.update(read_uid(word) for word in pieces[0][8:].split())
            if len(found) > _MOST_FOUND:
                raise ValueError("more messages than there can be")
        return is_answer

    wire.run_command(f"UID SEARCH {criteria}", hear, literal=None if literal is None else Content(literal))
    return tuple(sorted(found))


def read_section(wire: ImapWire, uid: int, section: str, offset: int, count: int) -> bytes:
    """Return bytes of a section (RFC 9051 6.4.5), as `ImapMailbox.read_section`."""
    if not _SECTION.fullmatch(section) or offset < 0 or count < 1:
        raise ValueError("not a section of a message")
    one = _fetch_one(wire, uid, f"(UID BODY.PEEK[{section}]<{offset}.{count}>)")
    data = one.section or b""
    # Seen in practice: a server that returns the whole section without marking it as partial.
    wire.gives_partial_sections = one.is_partial
    return data[:count] if one.is_partial else data[offset : offset + count]


def read_ends(wire: ImapWire, uid: int, wanted: Sequence[PartEnd]) -> dict[str, bytes]:
    """Return the last bytes of parts in one request, as `ImapMailbox.read_ends`."""
    if not wanted or not wire.gives_partial_sections:
        return {}
    names = {end.number: f"BODY[{end.number}]<{end.offset}>" for end in wanted}
    answers = SectionCollector(uid, {names[end.number]: end.count for end in wanted})
    sections = " ".join(f"BODY.PEEK[{end.number}]<{end.offset}.{end.count}>" for end in wanted)
    wire.run_command(f"UID FETCH {uid} (UID {sections})", answers.collect)
    return {number: answers.found[name] for number, name in names.items() if name in answers.found}


def fetch_structure(wire: ImapWire, uid: int) -> ListedPart:
    """Return the tree of parts of a message. Raises RemoteFault if it no longer exists or has no reported structure."""
    told = _fetch_one(wire, uid, "(UID BODYSTRUCTURE)").structure
    if not isinstance(told, list):
        raise RemoteFault("imap", "refused", "The IMAP server did not report the structure of this message.")
    return read_body_structure(told)


def _fetch_one(wire: ImapWire, uid: int, items: str) -> FetchedItems:
    if uid not in (found := _fetch(wire, [uid], items, with_flags=False)):
        raise RemoteFault("imap", "refused", "The message is no longer in this folder. List the folder again.")
    return found[uid]


def _fetch(wire: ImapWire, uids: Sequence[int], items: str, *, with_flags: bool = True) -> dict[int, FetchedItems]:
    answers = FetchCollector(uids, with_flags=with_flags)
    for numbers in uid_sets(uids):
        wire.run_command(f"UID FETCH {numbers} {items}", answers.collect)
    return answers.found


def _fetch_past_refusals(
    wire: ImapWire, uids: Sequence[int], items: str, refused: dict[int, RemoteFault], *, with_flags: bool = True
) -> Iterator[dict[int, FetchedItems]]:
    """Fetch items of messages; if the server refuses, in halves, so that one bad message does not fail the others.

    Seen in practice: one message that the server cannot read fails the whole FETCH. `refused` receives the faults of
    messages that fail even alone. If each of several messages fails, or the server reports an internal error, the cause
    is not the messages, and the RemoteFault is raised.
    """
    is_any_told = False
    for told in _fetch_by_halves(wire, uids, items, refused, with_flags):
        is_any_told = True
        yield told
    for fault in () if is_any_told else refused.values():
        if len(uids) > 1 or fault.code == "SERVERBUG":
            raise fault


def _fetch_by_halves(
    wire: ImapWire, uids: Sequence[int], items: str, refused: dict[int, RemoteFault], with_flags: bool
) -> Iterator[dict[int, FetchedItems]]:
    try:
        told = _fetch(wire, uids, items, with_flags=with_flags)
    except RemoteFault as fault:
        if fault.kind != "refused" or fault.code == "UNAVAILABLE":
            raise
        if len(uids) == 1:
            refused[uids[0]] = fault
    else:
        yield told
        return
    half = (len(uids) + 1) // 2
    for some in (uids[:half], uids[half:]) if half < len(uids) else ():
        yield from _fetch_by_halves(wire, some, items, refused, with_flags)


def _fetch_without_section(wire: ImapWire, uids: Sequence[int]) -> dict[int, FetchedItems]:
    """Fetch flags, date and size of messages whose content the server does not return. `section` is empty."""
    found = _merge_items(_fetch_by_halves(wire, uids, message_items(wire), {}, with_flags=True)) if uids else {}
    for told in found.values():
        told.section = b""
    return found


def _merge_items(answers: Iterator[dict[int, FetchedItems]]) -> dict[int, FetchedItems]:
    return {uid: told for some in answers for uid, told in some.items()}


def _messages_in_order(told: Mapping[int, FetchedItems], uids: Sequence[int]) -> Iterator[FetchedMessage]:
    return (message for uid in uids if uid in told and (message := told[uid].to_message()))


def _batches(uids: Sequence[int], sizes: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """Yield the UIDs in order, in groups of at most BATCH_BYTES. A larger message is a group of its own.

    `sizes`: the size of each message in bytes, by UID.
    """
    batch: list[int] = []
    weight = 0
    for uid in uids:
        if batch and weight + sizes[uid] > BATCH_BYTES:
            yield batch
            batch, weight = [], 0
        batch.append(uid)
        weight += sizes[uid]
    if batch:
        yield batch
