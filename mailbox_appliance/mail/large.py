"""Handle large messages without their large attachments: read a message on the server without fetching them, or take
them out of a message before it is sent.

To read a message, only the header, BODYSTRUCTURE and the texts are fetched (RFC 9051 7.5.2). The exact size of an
attachment follows from its last bytes, so only these are fetched.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mailbox_appliance.mail import encoded_words, headers, mime, parse
from mailbox_appliance.mail.compose import parse_media_type
from mailbox_appliance.mail.headers import fields_of
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.html.tags import replace_content_ids
from mailbox_appliance.mail.mime import MAX_DEPTH, MAX_PARTS, TOO_DEEP, TOO_MANY, MimePart, decode_transfer
from mailbox_appliance.mail.parse import assemble
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import ListedPart

LARGE_MESSAGE = 256 * 1024  # larger messages, in bytes, are read this way
LONGEST_SECTION = parse.MAX_RAW  # bytes that are used of one section
_END_BYTES = 200  # bytes at the end of a part: two line breaks are among them
_EXTRA_BYTES = 64  # additional bytes to request, since the sizes of servers may be too small
_MOST_ENDS = 100  # parts of one message; the sizes of others are estimated
#: The last full line of base64, and the last line.
_LAST_LINES = re.compile(rb"\r\n([A-Za-z0-9+/]+)\r\n([A-Za-z0-9+/]+={0,2})\Z")
_LONGEST_TEXTS = 2 * parse.MAX_RAW  # encoded bytes of all sections together


@dataclass(frozen=True)
class PartEnd:
    """A range of bytes to fetch at the end of an encoded part, from which its exact size follows.

    - number: the number of the part.
    - offset: the position of the first byte in the part.
    - count: the number of bytes to request, which is more than the part should still have. If the server returns as
      many, the part is longer than reported.
    """

    number: str
    offset: int
    count: int


def text_sections(structure: ListedPart) -> tuple[str, ...]:
    """Return the numbers of the parts that form the text and the HTML of a message, in order, each once. Callers fetch
    these for `parse_large`.
    """
    tree = _PartTree({})
    chosen = parse.choose_bodies(tree.build(structure))
    wanted: list[str] = []
    room = _LONGEST_TEXTS
    for part in dict.fromkeys((*chosen.text, *chosen.html)):
        if room > 0:
            wanted.append(part.number)
            room -= tree.octets[part.number]
    return tuple(wanted)


def part_ends(structure: ListedPart) -> tuple[PartEnd, ...]:
    """Return the ends of attachments in base64, at most 100. Callers fetch these bytes and pass them to
    `size_by_end`.
    """
    texts = text_sections(structure)
    encoded = (
        part for part in _listed_leaves(structure) if _is_base64(part) and part.number not in texts and part.octets
    )
    offsets = ((part.number, max(0, part.octets - _END_BYTES), part.octets) for part in encoded)
    found = (PartEnd(number, offset, octets - offset + _EXTRA_BYTES) for number, offset, octets in offsets)
    return tuple(end for end, _ in zip(found, range(_MOST_ENDS), strict=False))


def size_by_end(end: PartEnd, tail: bytes) -> int | None:
    """Return the decoded size of a part in bytes. `tail`: its last bytes, as the server returned them. None if the size
    does not follow from these.
    """
    if not tail or len(tail) >= end.count:  # the server did not return it, or it does not end here
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
    reader: HtmlReader = TAG_READER,
) -> ParsedMessage:
    """Return the content of a message on the server of which only some parts were fetched.

    - header: its header.
    - structure: its BODYSTRUCTURE.
    - texts: the parts from `text_sections` as fetched, still encoded, by number.
    - sizes: exact decoded sizes of parts, by number, as far as `size_by_end` found them.

    Other sizes are computed from the encoded ones. They are exact for parts without an encoding, and for base64 without
    padding in lines of 76 characters. For quoted-printable they are an upper bound. If a text is missing or cut off,
    the `warnings` of the result report it.
    """
    tree = _PartTree(texts, sizes or {})
    root = tree.build(structure)
    chosen = parse.choose_bodies(root)
    if any(tree.is_cut(part) for part in (*chosen.text, *chosen.html)):
        tree.warnings.append(parse.TEXT_TOO_LONG)
    fields = headers.split_fields(header)
    root.fields = headers.fields_by_name(fields) | root.fields
    return assemble(root, fields, tree.warnings, reader)


class _PartTree:
    """Builds a tree of parts from a BODYSTRUCTURE and the texts that were fetched. `octets`: the encoded size of each
    part by number.
    """

    def __init__(self, texts: Mapping[str, bytes], sizes: Mapping[str, int] | None = None) -> None:
        self.warnings: list[str] = []
        self.octets: dict[str, int] = {}
        self._texts, self._sizes = texts, sizes or {}
        self._room = MAX_PARTS

    def build(self, listed: ListedPart, depth: int = 0) -> MimePart:
        """Return a part with its children. An attached message has none: its own parts are not parts of this message.
        `depth`: the number of multiparts around it.
        """
        self.octets[listed.number] = listed.octets
        size = self._sizes.get(listed.number, _decoded_size(listed))
        part = _to_leaf(listed, self._texts.get(listed.number, b""), size)
        if part.mime_type.startswith("multipart/"):
            self._descend(part, listed, depth)
        return part

    def _descend(self, part: MimePart, listed: ListedPart, depth: int) -> None:
        if not listed.children:
            part.mime_type = "text/plain"  # like `structure`: a multipart without parts may still have a text
        if depth >= MAX_DEPTH:
            self.warnings.append(TOO_DEEP)
            return
        for child in listed.children:
            if self._room <= 0:
                self.warnings.append(TOO_MANY)
                return
            self._room -= 1
            part.children.append(self.build(child, depth + 1))

    def is_cut(self, part: MimePart) -> bool:
        """Whether only the start of a text was fetched. A difference of up to ten percent does not count, since some
        servers report sizes that are a little too large.
        """
        return len(part.source) < self.octets[part.number] * 0.9


def _to_leaf(listed: ListedPart, source: bytes, size: int) -> MimePart:
    fields = {"content-transfer-encoding": [listed.encoding]}
    if listed.content_id:
        fields["content-id"] = [_to_field_value(listed.content_id)]
    return MimePart(
        number=listed.number,
        source=source,
        start=0,
        end=len(source),
        fields=fields,
        mime_type=listed.mime_type.lower(),
        parameters=_join_parameters(listed.parameters),
        disposition=(listed.disposition or "").lower(),
        disposition_parameters=_join_parameters(listed.disposition_parameters),
        estimated=size,
    )


def _to_field_value(value: str) -> str:
    """Return text from a BODYSTRUCTURE in the form of a header value: bytes outside ASCII are lone surrogates (PEP
    383).
    """
    return value.encode("utf-8", "surrogateescape").decode("ascii", "surrogateescape")


def _join_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    return headers.join_parameters((name.lower(), value) for name, value in parameters.items())


def _listed_leaves(listed: ListedPart) -> Iterator[ListedPart]:
    """Yield the parts of a message that contain no other parts, in order. An attached message counts as one of
    these.
    """
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


# --- A message divided for sending: its MIME without its large files, and these files separately ---
#
# The MIME keeps the header, the texts, everything signed or encrypted, and the files that fit: pictures that a text
# shows and attached messages before others, small ones before large ones.


_CHUNK = 1 << 18
#: Multiparts whose parts may be taken out. The parts of all others belong together (RFC 1847, RFC 3462).
_SEPARABLE_MULTIPARTS = frozenset({"multipart/mixed", "multipart/related", "multipart/alternative"})
_MESSAGES = frozenset({"message/rfc822", "message/global"})
#: Types that have no meaning elsewhere (RFC 8551 3, RFC 3156), or need their parameters (RFC 6047 2.4: the method).
_INSEPARABLE_TYPES = ("application/pkcs7-", "application/x-pkcs7-", "application/pgp-", "text/calendar")
_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "base64", "quoted-printable"})
_BROKEN_STRUCTURE = frozenset({mime.TOO_MANY, mime.TOO_DEEP, mime.NO_BOUNDARY})


@dataclass(frozen=True)
class SplitAttachment:
    """An attachment that was taken out of a message. `size`: its decoded size in bytes. `is_inline`: whether the HTML
    shows it by its `content_id`.
    """

    name: str
    mime_type: str
    content_id: str | None
    is_inline: bool
    size: int
    _part: MimePart = field(repr=False)

    def pieces(self, length: int) -> Iterator[bytes]:
        """Yield the decoded bytes of the attachment in pieces of `length` bytes; the last one may be shorter."""
        held = bytearray()
        for some in _decode_part(self._part):
            held += some
            while len(held) >= length:
                yield bytes(held[:length])
                del held[:length]
        if held:
            yield bytes(held)

    def content(self) -> bytes:
        """Return all decoded bytes of the attachment."""
        return b"".join(_decode_part(self._part))


@dataclass(frozen=True)
class SplitMessage:
    """A message whose large attachments are separate. `mime`: the bytes of the message without them. `files`: the
    attachments taken out, in the order of the message.
    """

    mime: bytes = field(repr=False)
    files: tuple[SplitAttachment, ...] = ()


def split_attachments(wire: bytes, most: int) -> SplitMessage:
    """Take attachments out of a message until the rest has at most `most` bytes. `wire`: the bytes of the message.

    Nothing is taken out if the message is small enough, or if it cannot be made small enough.
    """
    if len(wire) <= most:
        return SplitMessage(wire)
    root, _, warnings = mime.parse_structure(wire)
    if root.source is not wire or not _BROKEN_STRUCTURE.isdisjoint(warnings):
        return SplitMessage(wire)
    read = parse.choose_bodies(root)
    files, shown = list(_separable_files(root, read)), _shown_content_ids(read)
    cut = _choose_parts_to_split(files, shown, most - len(wire) + sum(map(_source_size, files)))
    if cut is None:
        return SplitMessage(wire)
    chosen = [each for each in files if each[0] in cut]
    left_out = tuple(_to_split_attachment(part, part.content_id() in shown) for part, _ in chosen)
    return SplitMessage(b"".join(_source_without(root, chosen)), left_out)


def _shown_content_ids(read: parse.BodyParts) -> frozenset[str | None]:
    """Return the Content-IDs to which the HTML of a message refers (RFC 2392)."""
    shown = set[str]()
    replace_content_ids(parse.html_body(read, lambda _: None) or "", shown.update)
    return frozenset(shown)


def _separable_files(root: MimePart, read: parse.BodyParts) -> Iterator[tuple[MimePart, MimePart]]:
    """Yield the attachments that may be taken out of a message, each with its parent part, in the order of the message.
    `read`: the parts that form bodies and attachments.
    """
    among = set(map(id, read.attachments))
    if not root.children:
        if id(root) in among and _is_separable(root, root):
            yield root, root
        return
    for part, parent in _leaves_with_parents(root):
        if id(part) in among and _is_separable(part, parent):
            yield part, parent


def _leaves_with_parents(parent: MimePart) -> Iterator[tuple[MimePart, MimePart]]:
    if parent.mime_type not in _SEPARABLE_MULTIPARTS:
        return
    for child in parent.children:
        if child.children:
            yield from _leaves_with_parents(child)
        else:
            yield child, parent


def _is_separable(part: MimePart, parent: MimePart) -> bool:
    if part.mime_type.startswith(_INSEPARABLE_TYPES) or parent.mime_type == "multipart/alternative":
        return False
    if part.encoding() not in _ENCODINGS:  # readers could not interpret it elsewhere
        return False
    if part.mime_type.startswith("message/") and part.mime_type not in _MESSAGES:
        return False
    if parent.mime_type == "multipart/related":  # RFC 2387 3.2: the first one shows the others
        return part.content_id() is not None and part is not parent.children[0]
    return not part.mime_type.startswith("multipart/")


def _source_size(file: tuple[MimePart, MimePart]) -> int:
    part, _ = file
    return part.end - part.begin


def _choose_parts_to_split(
    files: Iterable[tuple[MimePart, MimePart]], shown: Container[str | None], room: int
) -> "set[MimePart] | None":
    """Return the attachments to take out, because they do not fit into `room` bytes. None if the rest of the message
    does not fit either (negative `room`).

    The message keeps small attachments rather than large ones. Before all others, it keeps attached messages and the
    pictures that the HTML shows. `shown`: the Content-IDs of these pictures.
    """
    if room < 0:
        return None
    cut: set[MimePart] = set()
    for file in sorted(
        files,
        key=lambda file: (file[0].content_id() not in shown and file[0].mime_type not in _MESSAGES, _source_size(file)),
    ):
        if _source_size(file) <= room:
            room -= _source_size(file)
        else:
            cut.add(file[0])
    return cut


def _source_without(root: MimePart, cut: list[tuple[MimePart, MimePart]]) -> Iterator[bytes]:
    """Yield the bytes of the message without these parts. `cut`: parts, each with its parent. If a parent loses all its
    parts, an empty text takes their place.
    """
    source, position = root.source, 0
    if cut[0][0] is root:
        yield from _header_alone(source[: root.start])
        return
    gone = {part for part, _ in cut}
    for part, parent in cut:
        is_last_of_all = part is parent.children[0] and gone.issuperset(parent.children)
        start = part.begin if is_last_of_all else source.rfind(b"\n", 0, part.begin - 1) + 1
        yield source[position:start]
        if is_last_of_all:
            yield b"\r\n"
        position = part.end if is_last_of_all else _after_line_break(source, part.end)
    yield source[position:]


def _after_line_break(source: bytes, end: int) -> int:
    """Return the position after the line break at `end`, if there is one. It belongs to the delimiter line after it
    (RFC 2046 5.1.1).
    """
    return end + 2 if source.startswith(b"\r\n", end) else end + source.startswith(b"\n", end)


def _header_alone(head: bytes) -> Iterator[bytes]:
    """Yield the header of a message that consisted of a single file, without the fields that describe the file. The
    body is then empty.
    """
    for name, written, _ in fields_of(head):
        if not name.startswith("content-"):
            yield written.replace(b"\n", b"\r\n") + b"\r\n"
    yield b"\r\n"


def _to_split_attachment(part: MimePart, is_shown: bool) -> SplitAttachment:
    return SplitAttachment(
        name=(part.filename() or parse.default_part_name(part)).encode("utf-8", "replace").decode(),
        mime_type=_writable_type(part.mime_type),
        content_id=part.content_id(),
        is_inline=is_shown,
        size=sum(map(len, _decode_part(part))),
        _part=part,
    )


def _writable_type(mime_type: str) -> str:
    """Return the MIME type in lower case. The generic file type if it is not valid."""
    try:
        return parse_media_type(mime_type)[0]
    except ValueError:
        return "application/octet-stream"


def _decode_part(part: MimePart) -> Iterator[bytes]:
    starts = range(part.start, part.end, _CHUNK)
    return decode_transfer((part.source[start : min(start + _CHUNK, part.end)] for start in starts), part.encoding())
