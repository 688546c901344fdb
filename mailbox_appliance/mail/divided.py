"""A message divided, for whoever takes a large one in pieces only: its MIME without its large files, and these.

What stays in the MIME: the header, the texts, whatever is signed or encrypted, and of the files those that fit,
pictures that a text shows and attached messages before others, small ones before large ones.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from mailbox_appliance.mail import bodies, parse, structure
from mailbox_appliance.mail.part_writing import media_type
from mailbox_appliance.mail.quoted_html import with_content_ids
from mailbox_appliance.mail.seven_bit import fields_of
from mailbox_appliance.mail.structure import Part
from mailbox_appliance.mail.transfer_decoding import decoded

_CHUNK = 1 << 18
#: Whose parts may be taken out: all others belong together as they are (RFC 1847, RFC 3462).
_LOOSE = frozenset({"multipart/mixed", "multipart/related", "multipart/alternative"})
_MESSAGES = frozenset({"message/rfc822", "message/global"})
#: What means nothing but where it stands (RFC 8551 3, RFC 3156), or as it stands there (RFC 6047 2.4: its method).
_BOUND = ("application/pkcs7-", "application/x-pkcs7-", "application/pgp-", "text/calendar")
_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "base64", "quoted-printable"})
_TORN = frozenset({structure.TOO_MANY, structure.TOO_DEEP, "A boundary between parts is missing."})


@dataclass(frozen=True)
class LeftOut:
    """A file that is not in the MIME. `size`: in bytes, decoded. `is_inline`: a text shows it by its `content_id`."""

    name: str
    mime_type: str
    content_id: str | None
    is_inline: bool
    size: int
    _part: Part = field(repr=False)

    def pieces(self, length: int) -> Iterator[bytes]:
        """Its bytes, decoded, in pieces of this length; the last may be shorter."""
        held = bytearray()
        for some in _decoded(self._part):
            held += some
            while len(held) >= length:
                yield bytes(held[:length])
                del held[:length]
        if held:
            yield bytes(held)

    def content(self) -> bytes:
        """All its bytes."""
        return b"".join(_decoded(self._part))


@dataclass(frozen=True)
class Divided:
    """`mime` with `files`, in their order, is the message."""

    mime: bytes = field(repr=False)
    files: tuple[LeftOut, ...] = ()


def divided(wire: bytes, most: int) -> Divided:
    """The message, with a MIME of at most so many bytes; whole where that is so already, or cannot be made so."""
    if len(wire) <= most:
        return Divided(wire)
    root, _, warnings = structure.read(wire)
    if root.source is not wire or not _TORN.isdisjoint(warnings):
        return Divided(wire)
    read = bodies.choose(root)
    files, shown = list(_files(root, read)), _shown(read)
    cut = _not_fitting(files, shown, most - len(wire) + sum(map(_size, files)))
    if cut is None:
        return Divided(wire)
    chosen = [each for each in files if each[0] in cut]
    left_out = tuple(_left_out(part, part.content_id() in shown) for part, _ in chosen)
    return Divided(b"".join(_without(root, chosen)), left_out)


def _shown(read: bodies.Chosen) -> frozenset[str | None]:
    """The Content-IDs of what the HTML shows (RFC 2392)."""
    shown = set[str]()
    with_content_ids(bodies.html_of(read, lambda _: None) or "", shown.update)
    return frozenset(shown)


def _files(root: Part, read: bodies.Chosen) -> Iterator[tuple[Part, Part]]:
    """What may be left out, each with what holds it, in the order of the message."""
    among = set(map(id, read.attachments))
    if not root.children:
        if id(root) in among and _is_free(root, root):
            yield root, root
        return
    for part, parent in _leaves(root):
        if id(part) in among and _is_free(part, parent):
            yield part, parent


def _leaves(parent: Part) -> Iterator[tuple[Part, Part]]:
    if parent.mime_type not in _LOOSE:
        return
    for child in parent.children:
        if child.children:
            yield from _leaves(child)
        else:
            yield child, parent


def _is_free(part: Part, parent: Part) -> bool:
    if part.mime_type.startswith(_BOUND) or parent.mime_type == "multipart/alternative":
        return False
    if part.encoding() not in _ENCODINGS:  # nobody would know how to read it elsewhere
        return False
    if part.mime_type.startswith("message/") and part.mime_type not in _MESSAGES:
        return False
    if parent.mime_type == "multipart/related":  # RFC 2387 3.2: the first is what shows the others
        return part.content_id() is not None and part is not parent.children[0]
    return not part.mime_type.startswith("multipart/")


def _size(file: tuple[Part, Part]) -> int:
    part, _ = file
    return part.end - part.begin


def _not_fitting(files: Iterable[tuple[Part, Part]], shown: Container[str | None], room: int) -> "set[Part] | None":
    """The parts for which there is no room; None where there is none for the rest of the message."""
    if room < 0:
        return None
    cut: set[Part] = set()
    for file in sorted(
        files, key=lambda file: (file[0].content_id() not in shown and file[0].mime_type not in _MESSAGES, _size(file))
    ):
        if _size(file) <= room:
            room -= _size(file)
        else:
            cut.add(file[0])
    return cut


def _without(root: Part, cut: list[tuple[Part, Part]]) -> Iterator[bytes]:
    """The source without these parts. What held nothing else holds an empty text."""
    source, position = root.source, 0
    if cut[0][0] is root:
        yield from _head_alone(source[: root.start])
        return
    gone = {part for part, _ in cut}
    for part, parent in cut:
        is_last_of_all = part is parent.children[0] and gone.issuperset(parent.children)
        start = part.begin if is_last_of_all else source.rfind(b"\n", 0, part.begin - 1) + 1
        yield source[position:start]
        if is_last_of_all:
            yield b"\r\n"
        position = part.end if is_last_of_all else _behind_line_break(source, part.end)
    yield source[position:]


def _behind_line_break(source: bytes, end: int) -> int:
    """RFC 2046 5.1.1: the line break before a delimiter belongs to it."""
    return end + 2 if source.startswith(b"\r\n", end) else end + source.startswith(b"\n", end)


def _head_alone(head: bytes) -> Iterator[bytes]:
    """The header of a message that was nothing but a file, and no text."""
    for name, written, _ in fields_of(head):
        if not name.startswith("content-"):
            yield written.replace(b"\n", b"\r\n") + b"\r\n"
    yield b"\r\n"


def _left_out(part: Part, is_shown: bool) -> LeftOut:
    return LeftOut(
        name=(part.filename() or parse.made_up_name(part)).encode("utf-8", "replace").decode(),
        mime_type=_type(part.mime_type),
        content_id=part.content_id(),
        is_inline=is_shown,
        size=sum(map(len, _decoded(part))),
        _part=part,
    )


def _type(mime_type: str) -> str:
    """The type in lower case; for one that nobody may write, that of any file."""
    try:
        return media_type(mime_type)[0]
    except ValueError:
        return "application/octet-stream"


def _decoded(part: Part) -> Iterator[bytes]:
    starts = range(part.start, part.end, _CHUNK)
    return decoded((part.source[start : min(start + _CHUNK, part.end)] for start in starts), part.encoding())
