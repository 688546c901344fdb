"""FETCH as Gmail answers it: X-GM-MSGID, X-GM-THRID and X-GM-LABELS besides what RFC 9051 6.4.5 has.

(developers.google.com/workspace/gmail/imap/imap-extensions)
"""

import re
from collections.abc import Callable
from datetime import datetime

from tests.servers.gmail_folders import Folder, Letter
from tests.servers.gmail_words import Unreadable, Word, texts_of, written_label

_BODY = re.compile(r"BODY\.PEEK\[([^\]]*)\](?:<(\d+)\.(\d+)>)?", re.I)
_SECTION = re.compile(r"(\d+(?:\.\d+)*)?(HEADER\.FIELDS \(([^)]*)\)|HEADER)?", re.I)
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
)
#: What one item gives of a message in a folder.
Item = Callable[[Letter, Folder], bytes]


def items(asked: Word, *, with_modseq: bool) -> list[Item]:
    """What gives the answer, one function an item."""
    names = texts_of(asked)
    upper = {name.upper() for name in names}
    if "UID" not in upper:
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


def flags_told(letter: Letter, _: Folder) -> str:
    return f"FLAGS ({' '.join(sorted(letter.flags()))})"


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
        "BODYSTRUCTURE": lambda letter, _: b"BODYSTRUCTURE " + bytes(_loaded(letter.source).get_body_structure()),
    }
    if name.upper() in plain:
        return plain[name.upper()]
    if found := _BODY.fullmatch(name):
        return _section_item(found)
    raise Unreadable


def _section_item(found: re.Match[str]) -> Item:
    section, start, count = found.groups()
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
    part, what, fields = found.groups()
    if part:
        return bytes(_loaded(source).get_body([int(number) for number in part.split(".")]))
    if fields is not None:
        wanted = {name.encode() for name in fields.upper().split()}
        lines = (each[0] for each in _FIELD.finditer(header_bytes(source)))
        return b"".join(each for each in lines if each.partition(b":")[0].strip().upper() in wanted) + b"\r\n"
    return header_bytes(source) if what else source


def _loaded(source: bytes):  # type: ignore[no-untyped-def]
    # Another reader than ours and than imapclient's, imported where it is needed: it takes a moment.
    from pymap.message import BaseLoadedMessage
    from pymap.mime import MessageContent
    from pymap.parsing.specials import FetchRequirement

    return BaseLoadedMessage(None, FetchRequirement.CONTENT, MessageContent.parse(source))  # type: ignore[arg-type]


def written_date(at: datetime) -> str:
    """An INTERNALDATE."""
    return f"{at.day:02d}-{_MONTHS[at.month - 1]}-{at.year:04d} {at:%H:%M:%S} {at:%z}"
