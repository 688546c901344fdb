"""Large messages, read without their attachments: from the header, BODYSTRUCTURE, and the texts (RFC 9051 7.5.2).

How large an attachment is, decoded, follows from its size in transfer and its end: there the padding stands, and how
long its lines are (RFC 2045 6.8).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mailbox_appliance.mail import bodies, encoded_words, field_reading
from mailbox_appliance.mail.parse import assemble
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.mail.structure import MAX_DEPTH, MAX_PARTS, TOO_DEEP, TOO_MANY, Part
from mailbox_appliance.model.records import ListedPart, ParsedMessage

LARGE = 256 * 1024  # bytes of a message above which it is read this way
LONGEST_SECTION = bodies.MAX_RAW  # bytes of one section that are of use
_END = 200  # bytes at the end of a part: two line breaks are among them
_BEYOND = 64  # bytes more are asked for, since servers' sizes may be too small
_MOST_ENDS = 100  # parts of one message; the sizes of others are estimated
#: A whole line of base64, and the last one.
_LAST_LINES = re.compile(rb"\r\n([A-Za-z0-9+/]+)\r\n([A-Za-z0-9+/]+={0,2})\Z")
_LONGEST_TEXTS = 2 * bodies.MAX_RAW  # bytes of all sections together, as they travel


@dataclass(frozen=True)
class End:
    """The end of a part as it travels: `count` bytes, of which some lie beyond it, from `offset`."""

    number: str
    offset: int
    count: int


def text_sections(structure: ListedPart) -> tuple[str, ...]:
    """The numbers of the parts that make the text and the HTML, in the order of their use, each once."""
    tree = _Tree({})
    chosen = bodies.choose(tree.build(structure))
    wanted: list[str] = []
    room = _LONGEST_TEXTS
    for part in dict.fromkeys((*chosen.text, *chosen.html)):
        if room > 0:
            wanted.append(part.number)
            room -= tree.octets[part.number]
    return tuple(wanted)


def ends(structure: ListedPart) -> tuple[End, ...]:
    """The ends of parts by which their sizes are known exactly."""
    texts = text_sections(structure)
    encoded = (part for part in _leaves(structure) if _is_base64(part) and part.number not in texts and part.octets)
    offsets = ((part.number, max(0, part.octets - _END), part.octets) for part in encoded)
    found = (End(number, offset, octets - offset + _BEYOND) for number, offset, octets in offsets)
    return tuple(end for end, _ in zip(found, range(_MOST_ENDS), strict=False))


def size_by_end(end: End, tail: bytes) -> int | None:
    """How many bytes a part has, decoded, by what the server gives of its end; None where that does not tell."""
    if not tail or len(tail) >= end.count:  # it is not given, or goes on
        return None
    if end.offset == 0:
        return encoded_words.size_of_base64(tail)
    body = tail.rstrip(b" \t\r\n")
    if not (lines := _LAST_LINES.search(body)) or len(lines[1]) < len(lines[2]):
        return None
    line, last = len(lines[1]), len(lines[2])
    before = end.offset + len(body) - last
    characters = before // (line + 2) * line + last
    if before % (line + 2) or characters % 4:
        return None
    return characters // 4 * 3 - body.count(b"=")


def parse_large(
    header: bytes,
    structure: ListedPart,
    texts: Mapping[str, bytes],
    sizes: Mapping[str, int] | None = None,
    reader: HtmlReader = TAGS,
) -> ParsedMessage:
    """As `parse`, from the header, and the texts as they travel, by their numbers.

    What is missing of a text is told in `warnings`. `sizes`: of parts, decoded, as far as they are known. The others
    follow from those in transfer: exact where these are not encoded; for base64 but for its padding, and odd lines; for
    quoted-printable an upper bound.
    """
    tree = _Tree(texts, sizes or {})
    root = tree.build(structure)
    chosen = bodies.choose(root)
    if any(tree.is_cut(part) for part in (*chosen.text, *chosen.html)):
        tree.warnings.append(bodies.TOO_LONG)
    fields = field_reading.split(header)
    root.fields = field_reading.by_name(fields) | root.fields
    return assemble(root, fields, tree.warnings, reader)


class _Tree:
    """The parts of a structure, with the texts that are there."""

    def __init__(self, texts: Mapping[str, bytes], sizes: Mapping[str, int] | None = None) -> None:
        self.warnings: list[str] = []
        self.octets: dict[str, int] = {}
        self._texts, self._sizes = texts, sizes or {}
        self._room = MAX_PARTS

    def build(self, listed: ListedPart, depth: int = 0) -> Part:
        """The part, and those in it. What lies inside an attached message belongs to that message."""
        self.octets[listed.number] = listed.octets
        size = self._sizes.get(listed.number, _decoded_size(listed))
        part = _leaf(listed, self._texts.get(listed.number, b""), size)
        if part.mime_type.startswith("multipart/"):
            self._descend(part, listed, depth)
        return part

    def _descend(self, part: Part, listed: ListedPart, depth: int) -> None:
        if not listed.children:
            part.mime_type = "text/plain"  # as `structure` has it: what has no parts may still have a text
        if depth >= MAX_DEPTH:
            self.warnings.append(TOO_DEEP)
            return
        for child in listed.children:
            if self._room <= 0:
                self.warnings.append(TOO_MANY)
                return
            self._room -= 1
            part.children.append(self.build(child, depth + 1))

    def is_cut(self, part: Part) -> bool:
        """Whether a text is not all there. Seen in practice: servers whose sizes are a little too big."""
        return len(part.source) < self.octets[part.number] * 0.9


def _leaf(listed: ListedPart, source: bytes, size: int) -> Part:
    fields = {"content-transfer-encoding": [listed.encoding]}
    if listed.content_id:
        fields["content-id"] = [_as_split(listed.content_id)]
    return Part(
        number=listed.number,
        source=source,
        start=0,
        end=len(source),
        fields=fields,
        mime_type=listed.mime_type.lower(),
        parameters=_joined(listed.parameters),
        disposition=(listed.disposition or "").lower(),
        disposition_parameters=_joined(listed.disposition_parameters),
        estimated=size,
    )


def _as_split(value: str) -> str:
    """A value as `field_reading.split` gives it."""
    return value.encode("utf-8", "surrogateescape").decode("ascii", "surrogateescape")


def _joined(parameters: Mapping[str, str]) -> dict[str, str]:
    return field_reading.joined((name.lower(), value) for name, value in parameters.items())


def _leaves(listed: ListedPart) -> Iterator[ListedPart]:
    """The parts that are no multiparts; what lies inside an attached message belongs to that message."""
    left = [listed]
    while left:
        part = left.pop()
        if part.mime_type.lower().startswith("multipart/"):
            left += reversed(part.children)
        else:
            yield part


def _is_base64(listed: ListedPart) -> bool:
    return listed.encoding.lower() == "base64"


def _decoded_size(listed: ListedPart) -> int:
    if not _is_base64(listed):
        return listed.octets
    # RFC 2045 6.8: lines of 76 characters, each with CRLF; three bytes for four characters.
    return (listed.octets - 2 * (-(-listed.octets // 78))) * 3 // 4
