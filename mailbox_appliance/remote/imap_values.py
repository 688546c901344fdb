"""IMAP answers to values, and values to IMAP: folders, positions, sets of UIDs. Pure: no connection in here."""

import re
from collections.abc import Collection, Iterable, Iterator

from imapclient import imap_utf7

from mailbox_appliance.model.records import AccountCapabilities, FolderState, ListedFolder
from mailbox_appliance.remote.imap_lexer import Reader, Value, number, uid_number
from mailbox_appliance.remote.imap_wire import Pieces

MAX_FOLDERS = 10_000
MAX_PATH = 1024
SET_LENGTH = 4000  # characters of one set of UIDs: servers bound the length of a command line

_LIST = re.compile(rb"\* LIST ", re.I)
_STATUS = re.compile(rb"\* STATUS ", re.I)
_SET = re.compile(rb"\d{1,10}(?::\d{1,10})?(?:,\d{1,10}(?::\d{1,10})?)*")
_APPENDUID = re.compile(rb"\[APPENDUID (\d+) (\d+)\]", re.I)
_COPYUID = re.compile(rb"\[COPYUID (\d+) ([\d:,]+) ([\d:,]+)\]", re.I)
_FLAG = re.compile(r"\\?[^\x00-\x20\x7f-\U0010ffff(){%*\"\\\]]+")  # RFC 9051 9: flag, an atom


def capabilities(words: Collection[str], permanent_flags: Collection[str]) -> AccountCapabilities:
    """What the server can do. Labels are keywords that a client may make up: `\\*` among the permanent flags."""
    return AccountCapabilities(
        labels="\\*" in permanent_flags,
        move="MOVE" in words,
        idle="IDLE" in words,
        condstore="CONDSTORE" in words or "QRESYNC" in words,
        qresync="QRESYNC" in words,
        uidplus="UIDPLUS" in words,
    )


def listed_folder(pieces: Pieces) -> ListedFolder | None:
    """The folder of a LIST answer. None for another answer, and for a folder that we have no way to name."""
    begin = _LIST.match(pieces[0])
    if not begin:
        return None
    values = Reader(pieces, begin.end()).read_rest()
    if len(values) < 3:
        return None  # one without a name must not take the others away
    attributes, delimiter, name = values[:3]
    if not isinstance(attributes, list) or isinstance(delimiter, list):
        raise ValueError("not a listed folder")
    path = folder_path(name)
    if path is None or not (delimiter or b"").isascii():
        return None
    lower = frozenset(one.decode("ascii", "replace").lower() for one in attributes if isinstance(one, bytes))
    return ListedFolder(path, delimiter.decode("ascii") if delimiter else None, lower)


def status(pieces: Pieces) -> tuple[str, FolderState] | None:
    """The path and the position of a STATUS answer; None for another answer, as `listed_folder`."""
    begin = _STATUS.match(pieces[0])
    values = Reader(pieces, begin.end()).read_rest() if begin else []
    if len(values) < 2:
        return None
    name, items = values[:2]
    if not isinstance(items, list):
        raise ValueError("not a status")
    path = folder_path(name)
    if path is None:
        return None
    pairs = zip(items[::2], items[1::2], strict=False)
    told = {key.upper(): value for key, value in pairs if isinstance(key, bytes)}

    def of(key: bytes) -> int:
        return number(told.get(key) or b"0")

    highest = modseq(told.get(b"HIGHESTMODSEQ")) or None
    return path, FolderState(of(b"UIDVALIDITY"), of(b"UIDNEXT"), of(b"MESSAGES"), highest)


def modseq(value: Value) -> int:
    """A number as EXAMINE and STATUS tell it; 0 where there is none, and for a mod-sequence of 64 bits.

    RFC 4551 allowed those; RFC 7162 has 63. Who has none is simply asked for all flags.
    """
    if not isinstance(value, bytes) or not value.isdigit() or len(value) > 19:
        return 0
    return found if (found := int(value)) < 1 << 63 else 0


def folder_path(name: Value) -> str | None:
    """A folder's path, from modified UTF-7 (RFC 3501 5.1.3). Raises ValueError where it is no string.

    None where it is empty, too long, or written so that we would call it by another name: `R&D`, or bytes of UTF-8.
    """
    if isinstance(name, list):
        raise ValueError("a name is a list")
    written = b"NIL" if name is None else name
    try:
        path = str(imap_utf7.decode(written))
        # Half of a surrogate pair, which is no character (RFC 3629 3), is not written at all.
        is_its_name = imap_utf7.encode(path) == written
    except ValueError:
        return None
    if not is_its_name or not 0 < len(path) <= MAX_PATH:
        return None
    return "INBOX" if path.upper() == "INBOX" else path


def wire_path(path: str) -> str:
    """A folder's path as a quoted string in modified UTF-7 (RFC 3501 5.1.3), which leaves no control character."""
    return quoted(imap_utf7.encode(path).decode("ascii"))


def quoted(text: str) -> str:
    """A quoted string. It must have no line end, nor NUL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_flag(name: str) -> bool:
    """Whether a flag or keyword can be written so (RFC 9051 9); `\\Recent` cannot be set."""
    return bool(_FLAG.fullmatch(name)) and name.lower() != "\\recent"


def appended_uid(text: bytes, uidvalidity: int | None = None) -> int | None:
    """The UID of an appended message, from servers that tell (APPENDUID, RFC 4315); none under another UIDVALIDITY."""
    found = _APPENDUID.search(text)
    uids = _uids(found[2], 1) if found and _is_valid(found[1], uidvalidity) else []
    return uids[0] if uids else None


def copied_uids(text: bytes, asked: Collection[int], uidvalidity: int | None = None) -> dict[int, int | None]:
    """Old UID to new of those asked for, as far as a COPYUID (RFC 4315 3) tells; empty where it contradicts itself.

    Under another UIDVALIDITY than this, no new UID means anything: None for each.
    """
    found = _COPYUID.search(text)
    if not found:
        return {}
    old, new = (_uids(one, len(asked)) for one in found.groups()[1:])
    if len(old) != len(new):
        return {}
    is_valid = _is_valid(found[1], uidvalidity)
    return {before: after if is_valid else None for before, after in zip(old, new, strict=True) if before in asked}


def _is_valid(told: bytes, uidvalidity: int | None) -> bool:
    return uidvalidity is None or told.lstrip(b"0") == str(uidvalidity).encode()


def _uids(text: bytes, most: int) -> list[int]:
    # What is done is done: an answer that tells it in an odd way is as good as one that does not tell it.
    try:
        return read_uid_set(text, most) or []
    except ValueError:
        return []


def read_uid_set(text: bytes, most: int) -> list[int] | None:
    """The UIDs of a set, in its order; None when they are more than `most`. Raises ValueError when it is no set."""
    if not _SET.fullmatch(text):
        raise ValueError("not a set of UIDs")
    uids: list[int] = []
    for part in text.split(b","):
        first, _, last = part.partition(b":")
        ends = sorted((uid_number(first), uid_number(last or first)))  # 4:2 is 2:4 (RFC 9051 9, seq-range)
        if len(uids) + ends[1] - ends[0] + 1 > most:
            return None
        uids.extend(range(ends[0], ends[1] + 1))
    return uids


def uid_sets(uids: Iterable[int]) -> Iterator[str]:
    """The UIDs as sequence sets (`1:3,7`), ascending, each short enough for one command."""
    current = ""
    for first, last in _ranges(uids):
        part = str(first) if first == last else f"{first}:{last}"
        if current and len(current) + 1 + len(part) > SET_LENGTH:
            yield current
            current = ""
        current = f"{current},{part}" if current else part
    if current:
        yield current


def _ranges(uids: Iterable[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(set(uids))
    start = 0
    for index, uid in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != uid + 1:
            yield ordered[start], uid
            start = index + 1
