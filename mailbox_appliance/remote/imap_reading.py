"""Reading the messages of the selected folder, in batches bounded by count and by bytes. Nothing is marked as read."""

import re
from collections.abc import Iterator, Mapping, Sequence

from mailbox_appliance.records import FetchedMessage, ListedPart
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_fetch import MAX_MESSAGES, Answers, FlagAnswers, Told
from mailbox_appliance.remote.imap_lexer import uid_number
from mailbox_appliance.remote.imap_structure import listed_part
from mailbox_appliance.remote.imap_values import read_uid_set, uid_sets
from mailbox_appliance.remote.imap_wire import Pieces, Wire

BATCH_COUNT = 500
BATCH_BYTES = 8 << 20
#: A larger message is given cut: its source holds the first CUT_BYTES, while its size is the true one.
LARGEST = 64 << 20
CUT_BYTES = 1 << 20
#: Of the header fields of one message: 500 of them stay within what one answer may have.
HEADER_BYTES = 1 << 17
#: The fields that a list of messages shows, or that recognise one.
HEADER_FIELDS = "DATE FROM SENDER TO CC BCC REPLY-TO SUBJECT MESSAGE-ID IN-REPLY-TO REFERENCES CONTENT-TYPE"

_ITEMS = "UID FLAGS INTERNALDATE RFC822.SIZE"
_HEADERS = f"({_ITEMS} BODY.PEEK[HEADER.FIELDS ({HEADER_FIELDS})]<0.{HEADER_BYTES}>)"
_WHOLE = f"({_ITEMS} BODY.PEEK[])"
_CUT = f"({_ITEMS} BODY.PEEK[]<0.{CUT_BYTES}>)"
_ESEARCH = re.compile(rb"\* ESEARCH\b.* ALL ([\d:,]+) *", re.I)
_MOST_IN_A_LINE = 300_000  # UIDs: in the worst case each takes 11 bytes of a line
_SECTION = re.compile(r"|(?:\d{1,9}(?:\.\d{1,9})*)(?:\.(?:HEADER|TEXT|MIME))?|HEADER|TEXT")


def flags(wire: Wire, uids: Sequence[int] | None, changed_since: int | None = None) -> dict[int, frozenset[str]]:
    """UID to flags: of all messages, of those of the given ones that are there, or of all changed since (RFC 7162)."""
    answers = FlagAnswers(None if uids is None else frozenset(uids))
    modifier = "" if changed_since is None else f" (CHANGEDSINCE {changed_since})"
    for numbers in ["1:*"] if uids is None else uid_sets(uids):
        wire.ask(f"UID FETCH {numbers} (UID FLAGS){modifier}", answers.hear)
    return answers.found


def uids(wire: Wire, exists: int, *, has_esearch: bool) -> frozenset[int]:
    """The UIDs of all messages. `exists`: how many there are, at least roughly."""
    if not exists:  # some servers refuse 1:* then
        return frozenset()
    if not has_esearch or exists > _MOST_IN_A_LINE:
        return frozenset(flags(wire, None))
    found: list[int] = []

    def hear(pieces: Pieces) -> bool:
        answer = _ESEARCH.fullmatch(pieces[0])  # RFC 4731; without ALL where there is none
        found.extend(read_uid_set(answer[1], MAX_MESSAGES) or () if answer else ())
        return bool(answer)

    wire.ask("UID SEARCH RETURN (ALL) ALL", hear)
    return frozenset(found)


def headers(wire: Wire, uids: Sequence[int]) -> Iterator[FetchedMessage]:
    """The header fields that a list shows."""
    for start in range(0, len(uids), BATCH_COUNT):
        yield from messages(wire, uids[start : start + BATCH_COUNT], _HEADERS)


def whole(wire: Wire, uids: Sequence[int]) -> Iterator[FetchedMessage]:
    """The messages; one over LARGEST cut."""
    for start in range(0, len(uids), BATCH_COUNT):
        some = uids[start : start + BATCH_COUNT]
        answers = _told(wire, some, "(UID RFC822.SIZE)", with_flags=False)
        sizes = {uid: one.size or 0 for uid, one in answers.items()}
        for batch in _batches([uid for uid in some if uid in sizes], sizes):
            yield from messages(wire, batch, _CUT if sizes[batch[0]] > LARGEST else _WHOLE)


def messages(wire: Wire, uids: Sequence[int], items: str) -> Iterator[FetchedMessage]:
    """The messages that the server can give, in the order given."""
    for some in _told_one_by_one(wire, uids, items):
        for uid in uids:
            if uid in some and (message := some[uid].message()):
                yield message


def told(wire: Wire, uids: Sequence[int], items: str) -> dict[int, Told]:
    """What the server tells of those messages that it can tell something of."""
    found: dict[int, Told] = {}
    for some in _told_one_by_one(wire, uids, items):
        found |= some
    return found


def find(wire: Wire, message_id: str) -> tuple[int, ...]:
    """The UIDs of messages whose Message-ID contains this text, ascending."""
    found: set[int] = set()

    def hear(pieces: Pieces) -> bool:
        if is_answer := pieces[0][:8].upper() == b"* SEARCH":
            found.update(uid_number(word) for word in pieces[0][8:].split())
        return is_answer

    # A literal, which may have any character (RFC 9051 6.4.4).
    charset = "" if message_id.isascii() else "CHARSET UTF-8 "
    wire.ask(f"UID SEARCH {charset}HEADER Message-ID ", hear, literal=message_id.encode())
    return tuple(sorted(found))


def read(wire: Wire, uid: int, section: str, offset: int, count: int) -> bytes:
    """Bytes of a section of a message (RFC 9051 6.4.5); fewer, or none, at its end. Raises RemoteFault: it is gone."""
    if not _SECTION.fullmatch(section) or offset < 0 or count < 1:
        raise ValueError("not a section of a message")
    one = _one(wire, uid, f"(UID BODY.PEEK[{section}]<{offset}.{count}>)")
    data = one.section or b""
    # Seen in practice: a server that gives the whole section, and does not say that it is a part.
    return data[:count] if one.is_partial else data[offset : offset + count]


def structure(wire: Wire, uid: int) -> ListedPart:
    """The parts of a message. Raises RemoteFault when it is gone."""
    told = _one(wire, uid, "(UID BODYSTRUCTURE)").structure
    if not isinstance(told, list):
        raise RemoteFault("imap", "refused", "The IMAP server does not tell what this message consists of.")
    return listed_part(told)


def _one(wire: Wire, uid: int, items: str) -> Told:
    if uid not in (found := _told(wire, [uid], items, with_flags=False)):
        raise RemoteFault("imap", "refused", "The message is no longer in this folder. Look at the folder again.")
    return found[uid]


def _told(wire: Wire, uids: Sequence[int], items: str, *, with_flags: bool = True) -> dict[int, Told]:
    answers = Answers(uids, with_flags=with_flags)
    for numbers in uid_sets(uids):
        wire.ask(f"UID FETCH {numbers} {items}", answers.hear)
    return answers.found


def _told_one_by_one(wire: Wire, uids: Sequence[int], items: str) -> Iterator[dict[int, Told]]:
    """What is told of all of them at once; where that is refused, of ever fewer.

    Seen in practice: one message that the server cannot read fails the whole FETCH.
    """
    try:
        yield _told(wire, uids, items)
        return
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
    half = (len(uids) + 1) // 2
    for some in (uids[:half], uids[half:]) if half < len(uids) else ():
        yield from _told_one_by_one(wire, some, items)


def _batches(uids: Sequence[int], sizes: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """The UIDs in order, in groups bounded by bytes; one that is to be cut stands alone."""
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
