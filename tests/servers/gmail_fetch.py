"""FETCH as Gmail answers it: X-GM-MSGID, X-GM-THRID and X-GM-LABELS besides what RFC 9051 6.4.5 has.

(developers.google.com/workspace/gmail/imap/imap-extensions)
"""

import re
from collections.abc import Callable
from datetime import datetime

from tests.servers.gmail_folders import Folder, Letter
from tests.servers.gmail_words import Unreadable, Word, written_label

_MACROS: dict[str, list[Word]] = {
    "ALL": [b"FLAGS", b"INTERNALDATE", b"RFC822.SIZE", b"ENVELOPE"],
    "FAST": [b"FLAGS", b"INTERNALDATE", b"RFC822.SIZE"],
    "FULL": [b"FLAGS", b"INTERNALDATE", b"RFC822.SIZE", b"ENVELOPE", b"BODY"],
}
_BODY = re.compile(r"BODY(\.PEEK)?\[([^\]]*)\](?:<(\d+)\.(\d+)>)?", re.I)
_SECTION = re.compile(r"((?:\d+(?:\.\d+)*)?)\.?(HEADER\.FIELDS(?:\.NOT)? \(([^)]*)\)|HEADER|TEXT|MIME)?", re.I)
_FIELD = re.compile(rb"[^\r\n]+(?:\r?\n[ \t][^\r\n]*)*\r?\n")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: In this order, whatever was asked for first; sections come last (seen in transcripts of real connections).
_FIRST = (
    "X-GM-THRID",
    "X-GM-MSGID",
    "X-GM-LABELS",
    "UID",
    "RFC822.SIZE",
    "MODSEQ",
    "INTERNALDATE",
    "FLAGS",
    "ENVELOPE",
)
#: What one item gives of a message in a folder.
Item = Callable[[Letter, Folder], bytes]


def items_of(word: Word) -> list[Word]:
    """The items of FETCH, macros resolved."""
    if isinstance(word, list):
        return word
    return _MACROS.get(word.decode("latin-1").upper(), [word])


def reads(items: list[Word]) -> bool:
    """Whether a FETCH of these marks a message as read."""
    return any(_is_read(bytes(each).upper()) for each in items if isinstance(each, bytes))


def _is_read(item: bytes) -> bool:
    return item.startswith(b"BODY[") or item in (b"RFC822", b"RFC822.TEXT")


def items(asked: list[Word], *, with_uid: bool, with_modseq: bool) -> list[Item]:
    """What gives the answer, one function an item."""
    names = [each.decode("latin-1") for each in asked if isinstance(each, bytes)]
    upper = {name.upper() for name in names}
    if with_uid and "UID" not in upper:
        names.insert(0, "UID")
    if with_modseq and "MODSEQ" not in upper:
        names.append("MODSEQ")
    names.sort(key=lambda name: _FIRST.index(name.upper()) if name.upper() in _FIRST else len(_FIRST))
    return [_item(name) for name in names]


def answer(number: int, letter: Letter, folder: Folder, wanted: list[Item]) -> bytes:
    """One untagged answer."""
    return b"* %d FETCH (%b)\r\n" % (number, b" ".join(item(letter, folder) for item in wanted))


def labels_told(letter: Letter, folder: Folder) -> str:
    """X-GM-LABELS, without the label of the folder that is selected.

    (github.com/dlech/gmailbuttons/issues/10)
    """
    shown = sorted(letter.labels - {folder.label})
    return f"X-GM-LABELS ({' '.join(map(written_label, shown))})"


def flags_told(letter: Letter, folder: Folder) -> str:
    """FLAGS."""
    return f"FLAGS ({' '.join(sorted(letter.flags(folder)))})"


def _item(name: str) -> Item:
    plain: dict[str, Item] = {
        "UID": lambda letter, folder: b"UID %d" % letter.uids[folder],
        "FLAGS": lambda letter, folder: flags_told(letter, folder).encode(),
        "MODSEQ": lambda letter, _: b"MODSEQ (%d)" % letter.modseq,
        "INTERNALDATE": lambda letter, _: b'INTERNALDATE "%b"' % written_date(letter.date).encode(),
        "RFC822.SIZE": lambda letter, _: b"RFC822.SIZE %d" % len(letter.source),
        "X-GM-MSGID": lambda letter, _: b"X-GM-MSGID %d" % letter.number,
        "X-GM-THRID": lambda letter, _: b"X-GM-THRID %d" % letter.thread,
        "X-GM-LABELS": lambda letter, folder: labels_told(letter, folder).encode(),
        "RFC822": lambda letter, _: _literal("RFC822", letter.source),
        "RFC822.HEADER": lambda letter, _: _literal("RFC822.HEADER", header_bytes(letter.source)),
        "ENVELOPE": lambda letter, _: b"ENVELOPE " + _structures(letter)[0],
        "BODYSTRUCTURE": lambda letter, _: b"BODYSTRUCTURE " + _structures(letter)[1],
        "BODY": lambda letter, _: b"BODY " + _structures(letter)[1],
    }
    if name.upper() in plain:
        return plain[name.upper()]
    if found := _BODY.fullmatch(name):
        return _section_item(found)
    raise Unreadable


def _section_item(found: re.Match[str]) -> Item:
    section, start, count = found[2], found[3], found[4]
    if not _SECTION.fullmatch(section):
        raise Unreadable
    label = f"BODY[{section}]" + ("" if start is None else f"<{start}>")

    def item(letter: Letter, _: Folder) -> bytes:
        data = _section(letter.source, section)
        return _literal(label, data if start is None else data[int(start) : int(start) + int(count)])

    return item


def _literal(label: str, data: bytes) -> bytes:
    return b"%b {%d}\r\n%b" % (label.encode(), len(data), data)


def header_bytes(source: bytes) -> bytes:
    """The header fields with the empty line behind them."""
    head, end, _ = source.partition(b"\r\n\r\n")
    return head + end


def _section(source: bytes, section: str) -> bytes:
    found = _SECTION.fullmatch(section)
    assert found is not None
    part, what, fields = found[1], (found[2] or "").upper(), found[3]
    if part:
        return _part(source, part, what)
    if fields is not None:
        return _fields(header_bytes(source), fields.upper().split(), without=".NOT" in what)
    if what == "HEADER":
        return header_bytes(source)
    return source[len(header_bytes(source)) :] if what == "TEXT" else source


def _fields(header: bytes, names: list[str], *, without: bool) -> bytes:
    wanted = {name.encode() for name in names}
    fields = (each[0] for each in _FIELD.finditer(header))
    kept = [each for each in fields if (each.partition(b":")[0].strip().upper() in wanted) is not without]
    return b"".join(kept) + b"\r\n"


def _part(source: bytes, part: str, what: str) -> bytes:
    loaded = _loaded(source)
    numbers = [int(number) for number in part.split(".")]
    try:
        if what == "MIME":
            return bytes(loaded.get_headers(numbers))
        if what.startswith("HEADER"):
            return bytes(loaded.get_message_headers(numbers))
        return bytes(loaded.get_message_text(numbers) if what == "TEXT" else loaded.get_body(numbers))
    except (IndexError, ValueError):
        return b""


def _structures(letter: Letter) -> tuple[bytes, bytes]:
    loaded = _loaded(letter.source)
    return bytes(loaded.get_envelope_structure()), bytes(loaded.get_body_structure())


def _loaded(source: bytes):  # type: ignore[no-untyped-def]
    # Another reader than ours and than imapclient's, imported where it is needed: it takes a moment.
    from pymap.message import BaseLoadedMessage
    from pymap.mime import MessageContent
    from pymap.parsing.specials import FetchRequirement

    return BaseLoadedMessage(None, FetchRequirement.CONTENT, MessageContent.parse(source))  # type: ignore[arg-type]


def written_date(at: datetime) -> str:
    """An INTERNALDATE."""
    return f"{at.day:02d}-{_MONTHS[at.month - 1]}-{at.year:04d} {at:%H:%M:%S} {at:%z}"
