"""IMAP answers to values, and values to IMAP: folders, flags, messages, sets of UIDs. Pure: no connection in here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from imapclient import imap_utf7
from imapclient.response_parser import parse_fetch_response, parse_response

from mailbox_appliance.records import AccountCapabilities, FetchedMessage, FolderState, ListedFolder

MAX_FOLDERS = 10_000
MAX_PATH = 1024
SET_LENGTH = 4000  # characters of one set of UIDs: servers bound the length of a command line

_FLAGS_ITEM = re.compile(rb"[( ]FLAGS \(([^)]*)\)")
_UID_ITEM = re.compile(rb"[( ]UID (\d+)[ )]")
_SIZE_ITEM = re.compile(rb"[( ]RFC822\.SIZE (\d+)[ )]")
_APPENDUID = re.compile(rb"\[APPENDUID \d+ (\d+)\]")
_SYSTEM_FLAGS = {flag.lower(): flag for flag in ("\\Seen", "\\Flagged", "\\Draft", "\\Answered", "\\Deleted")}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def capabilities(words: Iterable[bytes], permanent_flags: bytes) -> AccountCapabilities:
    """What the server can do. Labels are keywords that a client may make up: `\\*` among the permanent flags."""
    offered = {word.upper() for word in words}
    return AccountCapabilities(
        labels=b"\\*" in permanent_flags,
        move=b"MOVE" in offered,
        idle=b"IDLE" in offered,
        condstore=bool(offered & {b"CONDSTORE", b"QRESYNC"}),
        qresync=b"QRESYNC" in offered,
        uidplus=b"UIDPLUS" in offered,
    )


def folders(data: Sequence[Any]) -> tuple[ListedFolder, ...]:
    """The folders of a LIST answer, each once. A name that is empty, too long to be kept, or no text is left out."""
    parsed = parse_response([item for item in data if item])
    listed: dict[str, ListedFolder] = {}
    for attributes, delimiter, name in zip(parsed[::3], parsed[1::3], parsed[2::3], strict=False):
        path = _path(name)
        if 0 < len(path) <= MAX_PATH and _is_text(path) and len(listed) < MAX_FOLDERS:
            lower = frozenset(bytes(one).decode("ascii", "replace").lower() for one in attributes)
            listed[path] = ListedFolder(path, None if delimiter is None else delimiter.decode("ascii"), lower)
    return tuple(listed.values())


def _path(name: Any) -> str:
    # Seen in practice: a folder named 2024, unquoted, which the parser takes for a number.
    path = str(name) if isinstance(name, int) else str(imap_utf7.decode(name or b""))
    return "INBOX" if path.upper() == "INBOX" else path


def _is_text(path: str) -> bool:
    # Modified UTF-7 can write half of a surrogate pair, which is no character (RFC 3629 3).
    return not any("\ud800" <= character <= "\udfff" for character in path)


def wire_path(path: str) -> str:
    """A folder's path as a quoted string in modified UTF-7 (RFC 3501 5.1.3), which leaves no control character."""
    encoded = imap_utf7.encode(path).decode("ascii")
    return '"' + encoded.replace("\\", "\\\\").replace('"', '\\"') + '"'


def folder_state(untagged: dict[str, list[Any]]) -> FolderState:
    """What EXAMINE told. A value that the server leaves out is 0; without a HIGHESTMODSEQ it keeps none (RFC 7162)."""

    def number(name: str) -> int:
        return int((untagged.get(name) or [0])[-1] or 0)

    modseq = number("HIGHESTMODSEQ")
    return FolderState(number("UIDVALIDITY"), number("UIDNEXT"), number("EXISTS"), modseq or None)


def flags(data: Sequence[Any]) -> dict[int, frozenset[str]]:
    """UID to flags of a FETCH (UID FLAGS) answer; what carries no UID was not asked for."""
    found: dict[int, frozenset[str]] = {}
    known: dict[bytes, frozenset[str]] = {}  # a folder of 100,000 has a dozen different sets
    for line in data:
        if isinstance(line, bytes) and (uid := _UID_ITEM.search(line)) and (item := _FLAGS_ITEM.search(line)):
            if (written := item[1]) not in known:
                known[written] = flag_set(written.split())
            found[int(uid[1])] = known[written]
    return found


def flag_set(written: Iterable[bytes]) -> frozenset[str]:
    """Flags as we keep them: system flags in the standard's spelling, keywords as written, without \\Recent."""
    names = (flag.decode("utf-8", "replace") for flag in written)
    return frozenset(_SYSTEM_FLAGS.get(name.lower(), name) for name in names if name.lower() != "\\recent")


def sizes(data: Sequence[Any]) -> dict[int, int]:
    """UID to size of a FETCH (UID RFC822.SIZE) answer."""
    found = ((_UID_ITEM.search(line), _SIZE_ITEM.search(line)) for line in data if isinstance(line, bytes))
    return {int(uid[1]): int(size[1]) for uid, size in found if uid and size}


def messages(data: Sequence[Any], wanted: Iterable[int]) -> Iterator[FetchedMessage]:
    """The messages of a FETCH answer, in the order wanted; one that is gone by now is left out."""
    answer = parse_fetch_response([item for item in data if item], normalise_times=False) if any(data) else {}
    for uid in wanted:
        item = answer.get(uid, {})
        # BODY[]<0> names a part of the source (RFC 9051 7.5.2). NIL: the server cannot give it; it is listed anyway.
        sources = [value for key, value in item.items() if key.startswith(b"BODY[]")]
        if sources:
            source = sources[0] if isinstance(sources[0], bytes) else b""
            size = item.get(b"RFC822.SIZE", len(source))
            at = _in_utc(item.get(b"INTERNALDATE") or _EPOCH)
            yield FetchedMessage(uid, flag_set(item.get(b"FLAGS", ())), at, size, source)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in UTC it lies before the year 1 or after 9999
        return _EPOCH


def appended_uid(text: bytes) -> int | None:
    """The UID of an appended message, from servers that tell (APPENDUID, RFC 4315)."""
    found = _APPENDUID.search(text)
    return int(found[1]) if found else None


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
