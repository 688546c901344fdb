"""Convert IMAP responses to Python values and back: folders, UID sets, BODYSTRUCTURE, Gmail labels, FETCH.

Pure: no function of this module uses a connection.
"""

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from imapclient import imap_utf7

from mailbox_appliance.mail import encoded_words, folder_roles
from mailbox_appliance.model.accounts import AccountCapabilities
from mailbox_appliance.model.sync import FetchedMessage, FolderState, ListedFolder, ListedPart
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.wire import MAX_UID, Pieces, ResponseReader, Value, read_number, read_uid

MAX_FOLDERS = 10_000
MAX_PATH = 1024
SET_LENGTH = 4000  # characters of one set of UIDs: servers bound the length of a command line

_LIST = re.compile(rb"\* LIST ", re.I)
_STATUS = re.compile(rb"\* STATUS ", re.I)
_UID_SET = re.compile(rb"\d{1,10}(?::\d{1,10})?(?:,\d{1,10}(?::\d{1,10})?)*")
_APPENDUID = re.compile(rb"\[APPENDUID (\d+) (\d+)\]", re.I)
_COPYUID = re.compile(rb"\[COPYUID (\d+) ([\d:,]+) ([\d:,]+)\]", re.I)
_FLAG = re.compile(r"\\?[^\x00-\x20\x7f-\U0010ffff(){%*\"\\\]]+")  # RFC 9051 9: flag, an atom


def account_capabilities(words: Collection[str], permanent_flags: Collection[str]) -> AccountCapabilities:
    """Return the capabilities that a mailbox has.

    - words: the capabilities that the server lists, in upper case.
    - permanent_flags: the PERMANENTFLAGS of a folder that is selected for changes. If `\\*` is among them, clients
      may create keywords, which count as labels.
    """
    return AccountCapabilities(
        labels="\\*" in permanent_flags,
        move="MOVE" in words,
        idle="IDLE" in words,
        condstore="CONDSTORE" in words or "QRESYNC" in words,
        qresync="QRESYNC" in words,
        uidplus="UIDPLUS" in words,
    )


def read_listed_folder(pieces: Pieces) -> ListedFolder | None:
    """Return the folder of a LIST response.

    Returns None for another response, or if the folder's name cannot be represented (`decode_folder_path`).
    """
    begin = _LIST.match(pieces[0])
    if not begin:
        return None
    values = ResponseReader(pieces, begin.end()).read_rest()
    if len(values) < 3:
        return None  # One folder without a usable name must not discard the others.
    attributes, delimiter, name = values[:3]
    if not isinstance(attributes, list) or isinstance(delimiter, list):
        raise ValueError("not a listed folder")
    path = decode_folder_path(name)
    if path is None or not (delimiter or b"").isascii():
        return None
    lower = frozenset(one.decode("ascii", "replace").lower() for one in attributes if isinstance(one, bytes))
    return ListedFolder(path, delimiter.decode("ascii") if delimiter else None, lower)


def read_status(pieces: Pieces) -> tuple[str, FolderState] | None:
    """Return the folder's path and state from a STATUS response.

    Returns None for another response, or if the folder's name cannot be represented (`decode_folder_path`).
    """
    begin = _STATUS.match(pieces[0])
    values = ResponseReader(pieces, begin.end()).read_rest() if begin else []
    if len(values) < 2:
        return None
    name, items = values[:2]
    if not isinstance(items, list):
        raise ValueError("not a status")
    path = decode_folder_path(name)
    if path is None:
        return None
    pairs = zip(items[::2], items[1::2], strict=False)
    told = {key.upper(): value for key, value in pairs if isinstance(key, bytes)}

    def of(key: bytes) -> int:
        return read_number(told.get(key) or b"0")

    highest = read_modseq(told.get(b"HIGHESTMODSEQ")) or None
    return path, FolderState(of(b"UIDVALIDITY"), of(b"UIDNEXT"), of(b"MESSAGES"), highest)


def read_modseq(value: Value) -> int:
    """Return a number from EXAMINE or STATUS, such as HIGHESTMODSEQ; 0 if it is missing or needs more than 63 bits.

    RFC 4551 allowed 64 bits, RFC 7162 allows 63. Of a folder whose HIGHESTMODSEQ is 0, all flags are compared.
    """
    if not isinstance(value, bytes) or not value.isdigit() or len(value) > 19:
        return 0
    return found if (found := int(value)) < 1 << 63 else 0


def decode_folder_path(name: Value) -> str | None:
    """Decode a folder's path from modified UTF-7 (RFC 3501 5.1.3). Raises ValueError if the value is a list.

    Returns None if the path is empty, too long, or not in valid modified UTF-7, such as `R&D` or raw UTF-8.
    """
    if isinstance(name, list):
        raise ValueError("a name is a list")
    written = b"NIL" if name is None else name
    try:
        path = str(imap_utf7.decode(written))
        # Half of a surrogate pair, which is not a character (RFC 3629 3), is left out.
        is_its_name = imap_utf7.encode(path) == written
    except ValueError:
        return None
    if not is_its_name or not 0 < len(path) <= MAX_PATH:
        return None
    return "INBOX" if path.upper() == "INBOX" else path


def encode_folder_path(path: str) -> str:
    """Return a folder's path as a quoted string in modified UTF-7 (RFC 3501 5.1.3), without control characters."""
    return quote_string(imap_utf7.encode(path).decode("ascii"))


def quote_string(text: str) -> str:
    """Return a text as an IMAP quoted string. It must not contain a line end or NUL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_flag(name: str) -> bool:
    """Whether a name is a flag or keyword that a client may set (RFC 9051 9). `\\Recent` is not."""
    return bool(_FLAG.fullmatch(name)) and name.lower() != "\\recent"


def appended_uid(text: bytes, uidvalidity: int | None = None) -> int | None:
    """Return the UID of an appended message from the APPENDUID code in a response (RFC 4315).

    Returns None if there is no such code, or if its UIDVALIDITY is not the given one.
    """
    found = _APPENDUID.search(text)
    uids = _read_uids_leniently(found[2], 1) if found and _is_same_uidvalidity(found[1], uidvalidity) else []
    return uids[0] if uids else None


def copied_uids(text: bytes, asked: Collection[int], uidvalidity: int | None = None) -> dict[int, int | None]:
    """Return the new UIDs by old UID from the COPYUID code in a response (RFC 4315 3).

    Returns an empty dict if the code is missing or contradicts itself. If its UIDVALIDITY is not the given one, each
    new UID is None. `asked`: the UIDs that were copied; others are left out.
    """
    found = _COPYUID.search(text)
    if not found:
        return {}
    old, new = (_read_uids_leniently(one, len(asked)) for one in found.groups()[1:])
    if len(old) != len(new):
        return {}
    is_valid = _is_same_uidvalidity(found[1], uidvalidity)
    return {before: after if is_valid else None for before, after in zip(old, new, strict=True) if before in asked}


def _is_same_uidvalidity(told: bytes, uidvalidity: int | None) -> bool:
    return uidvalidity is None or told.lstrip(b"0") == str(uidvalidity).encode()


def _read_uids_leniently(text: bytes, most: int) -> list[int]:
    # The change is done: a malformed report of it counts as no report.
    try:
        return read_uid_set(text, most) or []
    except ValueError:
        return []


def read_uid_set(text: bytes, most: int) -> list[int] | None:
    """Return the UIDs of a sequence set such as `7,1:3`, in its order. Raises ValueError if the text is not a set.

    Returns None if there are more than `most` UIDs.
    """
    if not _UID_SET.fullmatch(text):
        raise ValueError("not a set of UIDs")
    uids: list[int] = []
    for part in text.split(b","):
        first, _, last = part.partition(b":")
        ends = sorted((read_uid(first), read_uid(last or first)))  # 4:2 is 2:4 (RFC 9051 9, seq-range)
        if len(uids) + ends[1] - ends[0] + 1 > most:
            return None
        uids.extend(range(ends[0], ends[1] + 1))
    return uids


def uid_sets(uids: Iterable[int]) -> Iterator[str]:
    """Yield the UIDs as sequence sets such as `1:3,7`, ascending. Each is short enough for one command."""
    current = ""
    for first, last in _uid_ranges(uids):
        part = str(first) if first == last else f"{first}:{last}"
        if current and len(current) + 1 + len(part) > SET_LENGTH:
            yield current
            current = ""
        current = f"{current},{part}" if current else part
    if current:
        yield current


def _uid_ranges(uids: Iterable[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(set(uids))
    start = 0
    for index, uid in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != uid + 1:
            yield ordered[start], uid
            start = index + 1


# --- BODYSTRUCTURE (RFC 9051 7.5.2): a tree of parts under the numbers that FETCH accepts (RFC 9051 6.4.5) ---
#
# A value that a server leaves out or writes in an odd way is replaced by a plain one, since a user could not fix it.


MAX_DEPTH = 120  # nesting of parts; deeper ones are left out

Items = list[Value]


class _Disposition(TypedDict):
    disposition: str | None
    disposition_parameters: dict[str, str]


def read_body_structure(structure: Items) -> ListedPart:
    """Return the tree of parts from a BODYSTRUCTURE value, each with the number under which FETCH returns it.

    A multipart at the root has the empty number. A multipart that is the body of an attached message `N` has `N.TEXT`.
    """
    return _read_part(structure, "1", "", "", MAX_DEPTH)


def _read_part(value: Value, single: str, multiple: str, prefix: str, room: int) -> ListedPart:
    """Return one part of a BODYSTRUCTURE value, with its children.

    - `single`: the number of the part if it is not a multipart.
    - `multiple`: the number of the part if it is a multipart.
    - `prefix`: the text before the numbers of a multipart's children.
    - `room`: how many more levels of children are read; deeper ones are left out.
    """
    items = value if isinstance(value, list) else []
    if items and isinstance(items[0], list):
        return _read_multipart(items, multiple, prefix, room)
    kind = _read_word(_item_at(items, 0)) or "application"
    is_message = kind == "message" and isinstance(_item_at(items, 8), list)
    return ListedPart(
        number=single,
        mime_type=f"{kind}/{_read_word(_item_at(items, 1)) or 'octet-stream'}",
        parameters=_read_parameters(_item_at(items, 2)),
        encoding=_read_word(_item_at(items, 5)) or "7bit",
        octets=_read_size(_item_at(items, 6)),
        content_id=_read_text(_item_at(items, 3)).strip() or None,
        children=(_read_attached(items[8], single, room),) if is_message and room else (),
        **_read_disposition(_item_at(items, _disposition_index(items, kind, is_message))),
    )


def _read_multipart(items: Items, multiple: str, prefix: str, room: int) -> ListedPart:
    count = next((index for index, item in enumerate(items) if not isinstance(item, list)), len(items))
    numbers = [f"{prefix}.{index}" if prefix else str(index) for index in range(1, count + 1)] if room else []
    children = (_read_part(item, each, each, each, room - 1) for item, each in zip(items, numbers, strict=False))
    return ListedPart(
        number=multiple,
        mime_type=f"multipart/{_read_word(_item_at(items, count)) or 'mixed'}",
        parameters=_read_parameters(_item_at(items, count + 1)),
        encoding="7bit",
        octets=0,
        children=tuple(children),
        **_read_disposition(_item_at(items, count + 2)),
    )


def _read_attached(body: Value, message: str, room: int) -> ListedPart:
    return _read_part(body, f"{message}.1", f"{message}.TEXT", message, room - 1)


def _disposition_index(items: Items, kind: str, is_message: bool) -> int:
    """Return the index of the disposition in a part of BODYSTRUCTURE, which depends on the kind of the part."""
    if is_message:
        return 11
    # Seen in practice: a text without its number of lines.
    return 9 if kind == "text" and _read_size(_item_at(items, 7), -1) >= 0 else 8


def _read_disposition(value: Value) -> _Disposition:
    items = value if isinstance(value, list) else []
    kind = _read_word(_item_at(items, 0)) or None
    return {"disposition": kind, "disposition_parameters": _read_parameters(_item_at(items, 1))}


def _read_parameters(value: Value) -> dict[str, str]:
    items = value if isinstance(value, list) else []
    pairs = zip(items[::2], items[1::2], strict=False)
    return {
        _read_word(name): _read_text(content)
        for name, content in pairs
        if _read_word(name) and isinstance(content, bytes)
    }


def _item_at(items: Items, index: int) -> Value:
    return items[index] if index < len(items) else None


def _read_word(value: Value) -> str:
    return _read_text(value).strip().lower()


def _read_text(value: Value) -> str:
    return encoded_words.decode_charset(value, None)[0] if isinstance(value, bytes) else ""


def _read_size(value: Value, otherwise: int = 0) -> int:
    try:
        return read_number(value)
    except ValueError:  # seen in practice: NIL, and -1
        return otherwise


# --- Labels of a server with X-GM-EXT-1: read and written ---
#
# A FETCH answer of such a server, and what is kept of it:
#
#     * 7 FETCH (X-GM-THRID 1 X-GM-MSGID 2 X-GM-LABELS ("\\Inbox" "a b" &AOk-) UID 5 FLAGS (\Seen $Phishing))
#     -> \Seen \Inbox `a b` é            other keywords than `$Forwarded` would be taken for labels, and are left out
#
# (developers.google.com/workspace/gmail/imap/imap-extensions: the ids are 64-bit numbers, which never change; a label
# is an ASTRING in modified UTF-7. Seen in practice: labels of the system come quoted, while the page has them as
# atoms.)


#: The capability of servers with labels.
GMAIL_EXTENSION = "X-GM-EXT-1"
#: FETCH items beside the flags, and those that identify a message and its thread permanently.
LABELS_ITEM, IDENTITY_ITEMS = "X-GM-LABELS", "X-GM-MSGID X-GM-THRID"

MAX_LABELS = 1000  # of one message
_MOST_CACHED_LABELS = 512  # largest list of labels, in bytes, whose set is cached
_GMAIL_FLAGS = ("\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft", "$Forwarded")
_GMAIL_FLAGS_BY_LOWER = {flag.lower(): flag for flag in _GMAIL_FLAGS}


def parse_labels(written: bytes) -> frozenset[str]:
    """Return the labels of an X-GM-LABELS list that is not parsed yet. Raises ValueError if it is malformed.

    Labels whose name cannot be represented (`decode_folder_path`) are left out, and so are those beyond MAX_LABELS.
    """
    # In a mailbox of 100,000 messages a few hundred sets repeat.
    return _parse_labels_cached(written) if len(written) <= _MOST_CACHED_LABELS else _parse_labels(written)


def _parse_labels(written: bytes) -> frozenset[str]:
    return labels_of_value(ResponseReader([written], 0).read_value())


_parse_labels_cached = functools.lru_cache(maxsize=4096)(_parse_labels)


def labels_of_value(told: Value) -> frozenset[str]:
    """Return the labels of a parsed X-GM-LABELS list. Raises ValueError if it is not a list.

    Labels whose name cannot be represented are left out, and so are those beyond MAX_LABELS.
    """
    if not isinstance(told, list):
        raise ValueError("labels are not a list")
    found = sorted(
        {folder_roles.canonical_label(name) for name in map(decode_folder_path, told) if name is not None},
        key=_label_rank,
    )
    return frozenset(found[:MAX_LABELS])


def _label_rank(label: str) -> tuple[bool, str]:
    """Return the sort key by which labels are kept if there are too many: system labels first.

    System labels show which folder a message is in.
    """
    return folder_roles.is_user_label(label), label


@functools.lru_cache(maxsize=4096)
def flags_with_labels(flags: frozenset[str], told: frozenset[str]) -> frozenset[str]:
    """Return the flags to store for a message on a server with labels: its labels and its Gmail flags together.

    `told`: the labels. Other flags are left out, because they would be confused with labels.
    """
    return told.union(_GMAIL_FLAGS_BY_LOWER[flag.lower()] for flag in flags if flag.lower() in _GMAIL_FLAGS_BY_LOWER)


def labels_in(flags: Iterable[str]) -> frozenset[str]:
    """Return those of the flags that are labels of a server with X-GM-EXT-1."""
    return frozenset(flag for flag in flags if flag.lower() not in _GMAIL_FLAGS_BY_LOWER)


def format_labels(names: Collection[str]) -> str:
    """Return labels as an IMAP list for STORE.

    Raises RemoteFault (`unsupported`) for a label that begins with a backslash but is not a system label.
    """
    return f"({' '.join(map(_format_label, sorted(names)))})"


def _format_label(label: str) -> str:
    if folder_roles.is_user_label(label):
        return quote_string(imap_utf7.encode(label).decode("ascii"))
    if label.lower() not in folder_roles.SYSTEM_LABELS:
        reason = (
            "A label must not begin with a backslash, which the server uses for its own labels. Choose another name."
        )
        raise RemoteFault("imap", "unsupported", reason)
    return label


def with_label(folder: ListedFolder) -> ListedFolder:
    """Return the folder with its field `label` set.

    `label` is the Gmail label whose messages the folder shows; None if the folder holds messages itself.
    """
    return dataclasses.replace(folder, label=folder_roles.label_of_folder(folder))


# --- FETCH responses (RFC 9051 7.5.2): items of a message, in any order and any number of responses ---


MAX_MESSAGES = 3_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_FLAGS = 200  # of one message
_MOST_SECTION_BYTES = 1 << 20  # bytes in response to one request for ends of parts
_MOST_CACHED_FLAGS = 256  # longest list of flags, in characters, whose set is cached

_FETCH = re.compile(rb"\* \d{1,10} FETCH \(", re.I)
_FETCH_ITEM_NAME = re.compile(rb" *([^ ()\[\]<>]+(?:\[[^\]]*\])?(?:<\d+>)?) ")
_FLAT_LIST = re.compile(rb' *\(([^()"]*)\)')
_FETCH_END = re.compile(rb" *\) *$")
#: The form of nearly all responses to FETCH (UID FLAGS).
_FLAGS_ONLY = re.compile(rb'\* \d{1,10} FETCH \(UID (\d{1,10}) FLAGS \(([^()"]*)\)(?: MODSEQ \(\d{1,19}\))?\)')
#: The form of nearly all others up to the source: the order of the request.
_USUAL_FETCH = re.compile(
    rb"\* \d{1,10} FETCH \(UID (\d{1,10})(?: FLAGS \(([^()\"]*)\))?(?: INTERNALDATE \"([^\"\\]*)\")?"
    rb"(?: RFC822\.SIZE (\d{1,18}))?(?:\)| BODY\[[^\]]*\](<\d+>)? )"
)
_LABEL_LIST = rb"(\((?:[^()\"{}]++|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+\))"
#: The form of nearly all responses to FETCH (UID FLAGS X-GM-LABELS), in Gmail's order.
_LABELS_ONLY = re.compile(
    rb"\* \d{1,10} FETCH \(X-GM-LABELS %b UID (\d{1,10})(?: MODSEQ \(\d{1,19}\))? FLAGS \(([^()\"]*)\)\)" % _LABEL_LIST
)
#: An item that can come alone, in any order; any other form is parsed word by word.
_PLAIN_ITEM = re.compile(
    rb" *(?:UID (\d{1,10})|FLAGS \(([^()\"]*)\)|INTERNALDATE \"([^\"\\]*)\"|RFC822\.SIZE (\d{1,18})"
    rb"|X-GM-MSGID (\d{1,20})|X-GM-THRID (\d{1,20})"
    rb"|X-GM-LABELS %b|MODSEQ (\()\d{1,19}\))(?=[ )])" % _LABEL_LIST,
    re.I,
)
_INTERNAL_DATE = re.compile(rb" ?(\d{1,2})-([A-Za-z]{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = {name: number for number, name in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_SYSTEM_FLAGS = {flag.lower(): flag for flag in ("\\Seen", "\\Flagged", "\\Draft", "\\Answered", "\\Deleted")}


@dataclass(slots=True)
class FetchedItems:
    """The items that FETCH returned for one message. An item that was not returned is None.

    `section`: the content; empty if the server cannot return it.
    """

    uid: int | None = None
    flags: frozenset[str] | None = None
    internal_date: datetime | None = None
    size: int | None = None
    section: bytes | None = None
    is_partial: bool = False
    structure: Value = None
    labels: frozenset[str] | None = None
    provider_id: str | None = None
    provider_thread_id: str | None = None

    @property
    def kept_flags(self) -> frozenset[str]:
        """The flags to store; on a server with labels (Gmail), they include the labels."""
        flags = self.flags or frozenset()
        return flags if self.labels is None else flags_with_labels(flags, self.labels)

    def update(self, later: "FetchedItems") -> None:
        """Replace those items that a later response for the same message contains."""
        if later.flags is not None:
            self.flags = later.flags
        if later.internal_date is not None:
            self.internal_date = later.internal_date
        if later.size is not None:
            self.size = later.size
        if later.section is not None:
            self.section, self.is_partial = later.section, later.is_partial
        if later.structure is not None:
            self.structure = later.structure
        if later.labels is not None:
            self.labels = later.labels
        self.provider_id = later.provider_id or self.provider_id
        self.provider_thread_id = later.provider_thread_id or self.provider_thread_id

    def to_message(self) -> FetchedMessage | None:
        """Return the message, or None if its UID or its content is missing."""
        if self.uid is None or self.section is None:
            return None
        size = len(self.section) if self.size is None else self.size
        date, identity = self.internal_date or EPOCH, (self.provider_id, self.provider_thread_id)
        return FetchedMessage(self.uid, self.kept_flags, date, size, self.section, *identity)


class FetchCollector:
    """Collects the items of some messages from FETCH responses."""

    def __init__(self, uids: Iterable[int], *, with_flags: bool = True) -> None:
        """`with_flags`: whether flags were requested. If not, a response with flags is an unsolicited report."""
        self._wanted = frozenset(uids)
        self._with_flags = with_flags
        self.found: dict[int, FetchedItems] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Record an untagged response for one of the messages. Returns False if it is unsolicited."""
        told = read_fetch(pieces)
        if told is None or told.uid not in self._wanted:
            return False
        known = self.found.setdefault(told.uid, told)
        if known is not told:
            known.update(told)
        return self._with_flags or told.flags is None


class SectionCollector:
    """Collects ranges of parts of one message from FETCH responses, by names such as `BODY[1.2]<300>`."""

    def __init__(self, uid: int, wanted: Mapping[str, int]) -> None:
        """`wanted`: the requested number of bytes by name; other sections are ignored."""
        self._uid, self._wanted = uid, wanted
        self._room = _MOST_SECTION_BYTES
        self.found: dict[str, bytes] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Record an untagged response for the message. Returns False if it is unsolicited.

        Raises ValueError if all responses together exceed a limit of bytes.
        """
        sections: dict[str, bytes] = {}
        told = _read_fetch_items(pieces, sections)
        if told is None or told.uid != self._uid:
            return False
        self._room -= sum(map(len, pieces))
        if self._room < 0:
            raise ValueError("far more than was asked for")
        self.found |= {name: data[: self._wanted[name]] for name, data in sections.items() if name in self._wanted}
        return told.flags is None


class FlagCollector:
    """Collects flags by UID from FETCH responses: of the messages `wanted`, or of all if it is None."""

    def __init__(self, wanted: Collection[int] | None = None) -> None:
        self._wanted = wanted
        self.found: dict[int, frozenset[str]] = {}

    def collect(self, pieces: Pieces) -> bool:
        """Record the flags in an untagged response; the latest counts. Returns False if it is unsolicited."""
        if usual := _FLAGS_ONLY.fullmatch(pieces[0]):
            uid, flags = int(usual[1]), parse_flags(usual[2])
        else:
            told = read_fetch(pieces)
            if told is None or told.uid is None or told.flags is None:
                return False
            uid, flags = told.uid, told.flags
        if not 0 < uid <= MAX_UID:
            raise ValueError("not a UID")
        return self._add(uid, flags)

    def _add(self, uid: int, flags: frozenset[str]) -> bool:
        if self._wanted is not None and uid not in self._wanted:
            return False
        self.found[uid] = flags
        if len(self.found) > MAX_MESSAGES:
            raise ValueError("more messages than we can deal with")
        return True


class LabelCollector(FlagCollector):
    """Collects flags and labels by UID from FETCH responses of a server with labels (Gmail)."""

    def collect(self, pieces: Pieces) -> bool:
        """Record the flags and labels in an untagged response. Returns False if it is unsolicited.

        A response without labels is unsolicited, since labels were requested.
        """
        if usual := _LABELS_ONLY.fullmatch(pieces[0]):
            labels, uid, flags = parse_labels(usual[1]), read_uid(usual[2]), parse_flags(usual[3])
            return self._add(uid, flags_with_labels(flags, labels))
        told = read_fetch(pieces)
        if told is None or told.uid is None or told.flags is None:
            return False
        if told.labels is not None:
            return self._add(told.uid, told.kept_flags)
        if told.uid in self.found:  # An unsolicited change of a message whose labels were returned before.
            self.found[told.uid] = flags_with_labels(told.flags, labels_in(self.found[told.uid]))
        return False


def read_fetch(pieces: Pieces) -> FetchedItems | None:
    """Return the items of a FETCH response, or None for another response. Raises ValueError if it is malformed."""
    usual = _USUAL_FETCH.fullmatch(pieces[0])
    if usual and (len(pieces) == 1 if pieces[0].endswith(b")") else len(pieces) == 3 and pieces[2] == b")"):
        return _read_usual_fetch(usual, pieces)
    return _read_fetch_items(pieces, {})


def _read_fetch_items(pieces: Pieces, sections: dict[str, bytes]) -> FetchedItems | None:
    """Return the items of a FETCH response of any form, or None for another. Raises ValueError if it is malformed.

    `sections`: receives the content of each section by its name.
    """
    begin = _FETCH.match(pieces[0])
    if not begin:
        return None
    told, reader = FetchedItems(), ResponseReader(pieces, begin.end())
    while not reader.match(_FETCH_END):
        if plain := reader.match(_PLAIN_ITEM):
            _set_plain_item(told, plain)
        elif name := reader.match(_FETCH_ITEM_NAME):
            _set_item(told, name[1].upper(), reader, sections)
        else:
            raise ValueError("no item where one is due")
    return told


def _read_usual_fetch(found: re.Match[bytes], pieces: Pieces) -> FetchedItems | None:
    uid, flags, date, size, partial = found.groups()
    return FetchedItems(
        read_uid(uid),
        None if flags is None else parse_flags(flags),
        None if date is None else parse_internal_date(date),
        None if size is None else int(size),
        pieces[1] if len(pieces) == 3 else None,
        partial is not None,
    )


def _set_plain_item(told: FetchedItems, item: re.Match[bytes]) -> None:
    match item.lastindex:
        case 1:
            told.uid = read_uid(item[1])
        case 2:
            told.flags = parse_flags(item[2])
        case 3:
            told.internal_date = parse_internal_date(item[3])
        case 4:
            told.size = int(item[4])
        case 5:
            told.provider_id = item[5].decode("ascii")
        case 6:
            told.provider_thread_id = item[6].decode("ascii")
        case 7:
            told.labels = parse_labels(item[7])


def _set_item(told: FetchedItems, name: bytes, reader: ResponseReader, sections: dict[str, bytes]) -> None:
    if name == b"FLAGS":
        if not (flags := reader.match(_FLAT_LIST)):
            raise ValueError("flags are not a list")
        told.flags = parse_flags(flags[1])
        return
    value = reader.read_value()
    if name == b"UID":
        told.uid = read_uid(value)
    elif name == b"INTERNALDATE":
        told.internal_date = parse_internal_date(value)
    elif name == b"RFC822.SIZE":
        told.size = read_number(value)
    elif name.startswith(b"BODY["):
        if isinstance(value, list):
            raise ValueError("a section is a list")
        told.section, told.is_partial = value or b"", name.endswith(b">")
        sections[name.decode("ascii", "replace")] = told.section
    elif name == b"BODYSTRUCTURE":
        told.structure = value
    elif name == b"X-GM-LABELS":  # one of them is a literal
        told.labels = labels_of_value(value)


def parse_internal_date(value: Value) -> datetime | None:
    """Return an INTERNALDATE in UTC. If it is not a valid date, return the epoch (1970)."""
    found = _INTERNAL_DATE.fullmatch(value) if isinstance(value, bytes) else None
    if not found:
        return EPOCH
    day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
    try:
        local = datetime(
            int(year), _MONTHS.get(month.lower(), 0), int(day), int(hour), int(minute), min(int(second), 59), tzinfo=UTC
        )
        return local + offset if sign == b"-" else local - offset
    except (ValueError, OverflowError):
        return EPOCH


def parse_flags(written: bytes) -> frozenset[str]:
    """Return the flags of an IMAP list in the form in which they are stored, without \\Recent.

    System flags get the spelling of the standard, such as `\\Seen`; keywords stay unchanged.
    """
    # A folder of 100,000 messages has about a dozen different sets.
    return _parse_flags_cached(written) if len(written) <= _MOST_CACHED_FLAGS else _parse_flags(written)


def _parse_flags(written: bytes) -> frozenset[str]:
    names = written.decode("utf-8", "replace").split(" ")
    if len(names) > MAX_FLAGS:  # system flags are kept first
        names = sorted(names, key=lambda name: name.lower() not in _SYSTEM_FLAGS)[:MAX_FLAGS]
    return frozenset(_SYSTEM_FLAGS.get(name.lower(), name) for name in names if name and name.lower() != "\\recent")


_parse_flags_cached = functools.lru_cache(maxsize=2048)(_parse_flags)
