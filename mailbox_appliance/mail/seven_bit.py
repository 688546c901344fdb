"""A message made fit for every server: in 7 bits with CRLF, and exactly as it was wherever it is so already.

Parts that are not are encoded anew (RFC 2045 6), but for one that is signed: its signature would break.
"""

import re
from collections.abc import Iterator

from mailbox_appliance.mail import field_reading, field_writing, parse, structure
from mailbox_appliance.mail.address import has_forbidden
from mailbox_appliance.mail.part_writing import WrittenPart, base64_lines, encode_text
from mailbox_appliance.mail.structure import Part
from mailbox_appliance.model.content import Content

_BREAK = re.compile(rb"\r\n|\r|\n")
_LONGEST_LINE = 998  # octets, without CRLF (RFC 5322 2.1.1)
_FIELD = re.compile(rb"^([!-9;-~]{1,200})[ \t]*:([^\n]*(?:\n[ \t][^\n]*)*)$", re.M)
_CLEAN_LINES = re.compile(rb"[\t -~]++(?:\n[\t ]++(?=[!-~])[\t -~]++)*+")
_BOUNDARY = re.compile(r"[ -!#-\[\]-~]{1,900}")
# fmt: off
_TELLING = frozenset({
    "type", "transfer-encoding", "disposition", "id", "description", "language", "location", "base", "md5", "features",
    "class", "duration", "alternative", "translation-type"
})
# fmt: on
_NAME = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}")
_VALUE = re.compile(r"[!-~]{1,200}")
_LINE_ORIENTED = frozenset({"", "7bit", "8bit"})
_ENCODED = frozenset({"base64", "quoted-printable"})
_TORN = frozenset({structure.TOO_MANY, structure.TOO_DEEP, "A boundary between parts is missing."})
_SIGNED = "a signed part is not 7-bit, as RFC 1847 wants it, and would lose its signature: sign it again as 7-bit"


def is_seven_bit(content: bytes) -> bool:
    """Whether any server takes these lines as they are: ASCII without NUL, CRLF alone, at most 998 octets each."""
    if not content.isascii() or b"\0" in content:
        return False
    if not content.count(b"\r\n") == content.count(b"\r") == content.count(b"\n"):
        return False
    return max(map(len, content.split(b"\r\n"))) <= _LONGEST_LINE


def fields_of(header: bytes) -> Iterator[tuple[str, bytes, str]]:
    """The header fields: name in lower case, the lines as written (with line feeds), the value unfolded.

    8-bit octets stand in the value as `field_reading.split` has them. What is no field is passed over.
    """
    for match in _FIELD.finditer(header.replace(b"\r\n", b"\n")):
        value = match[2].replace(b"\n", b"").decode("ascii", "surrogateescape")
        yield match[1].decode().lower(), match[0], value


def as_lines(field: bytes) -> bytes | None:
    """A field as it was written, with CRLF; None where it is not clean ASCII in lines that every server takes.

    Clean is also that no reader finds a line break in what looks like an encoded word.
    """
    if not _CLEAN_LINES.fullmatch(field) or max(map(len, field.split(b"\n"))) > _LONGEST_LINE:
        return None
    if b"=?" in field and has_forbidden(field.replace(b"\n", b"").decode()):
        return None
    return field.replace(b"\n", b"\r\n") + b"\r\n"


def rewritten(root: Part, warnings: tuple[str, ...]) -> WrittenPart:
    """The content of a message: its Content fields, and its body. Raises ValueError where it cannot be made 7-bit."""
    if not is_seven_bit(body := root.source[root.start : root.end]):
        if not _TORN.isdisjoint(warnings):
            raise ValueError("its parts cannot be told apart: save the draft again")
        return _part(root, ())
    return WrittenPart(_fields(root), Content(body))


def ended(body: Content) -> Content:
    """The body of a message, with a line break at its end (RFC 5321 4.1.1.4)."""
    last = b""
    for piece in body.pieces():
        last = (last + piece)[-2:]
    return body if last == b"\r\n" else Content(body, b"\r\n")


def _part(part: Part, boundaries: tuple[bytes, ...]) -> WrittenPart:
    """A part that need not be 7-bit. None of these boundaries may come to stand in it."""
    if is_seven_bit(body := part.source[part.start : part.end]):
        return WrittenPart(_fields(part), Content(body))
    if part.mime_type == "multipart/signed":
        raise ValueError(_SIGNED)
    return _multipart(part, boundaries) if part.children else _leaf(part, boundaries)


def _multipart(part: Part, boundaries: tuple[bytes, ...]) -> WrittenPart:
    boundary = part.parameters.get("boundary", "").rstrip()
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError("a boundary between its parts cannot be written: save the draft again")
    delimiter = f"--{boundary}".encode()
    pieces: list[bytes | Content] = []
    for child in part.children:
        made = _part(child, (*boundaries, delimiter))
        pieces += [delimiter + b"\r\n" + made.fields + b"\r\n", made.body, b"\r\n"]
    return WrittenPart(_fields(part, leaving_out="content-transfer-encoding"), Content(*pieces, delimiter + b"--\r\n"))


def _leaf(part: Part, boundaries: tuple[bytes, ...]) -> WrittenPart:
    raw, encoding, is_text = part.source[part.start : part.end], part.encoding(), part.mime_type.startswith("text/")
    if encoding in _LINE_ORIENTED or encoding in _ENCODED:
        lines = _BREAK.sub(b"\r\n", raw)
        if is_seven_bit(lines) and (is_text or encoding in _ENCODED or b"\r" not in raw.replace(b"\r\n", b"")):
            return WrittenPart(_fields(part), Content(lines))
    elif encoding != "binary":
        raise ValueError("a part has an encoding that is not known, and is not 7-bit: attach the file again")
    if part.mime_type.startswith("message/"):
        return _attached_message(part)
    content = part.content()[0]
    if is_text and encoding not in ("base64", "binary") and b"\0" not in content:
        encoding, body = encode_text(_BREAK.sub(b"\r\n", content))
        if not any(boundary in body for boundary in boundaries):
            return WrittenPart(_encoded(part, encoding), Content(body))
    return WrittenPart(_encoded(part, "base64"), base64_lines(content))


def _attached_message(part: Part) -> WrittenPart:
    """RFC 2046 5.2.1: no encoding is allowed for a message. It goes as a file, so that it stays exact."""
    name = part.filename() or parse.made_up_name(part)
    words = field_writing.with_parameters("attachment", [field_writing.parameter("filename", name)])
    fields = b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
    return WrittenPart(fields + field_writing.field("Content-Disposition", words), base64_lines(part.content()[0]))


def _encoded(part: Part, encoding: str) -> bytes:
    fields = _fields(part, leaving_out="content-transfer-encoding")
    if part.mime_type == "text/plain" and "content-type" not in part.fields and _is_utf_8(part):
        fields += b"Content-Type: text/plain; charset=utf-8\r\n"
    return fields + field_writing.field("Content-Transfer-Encoding", [encoding])


def _is_utf_8(part: Part) -> bool:
    try:
        return not part.content()[0].decode().isascii()
    except UnicodeError:
        return False


def _fields(part: Part, leaving_out: str = "") -> bytes:
    """The fields that say what a part is (RFC 2045 3), each once; all others mean nothing in a part."""
    seen, lines = {leaving_out}, []
    for name, written, value in fields_of(part.source[part.begin : part.start]):
        if name.removeprefix("content-") in _TELLING and name.startswith("content-") and name not in seen:
            seen.add(name)
            lines.append(as_lines(written) or _written_anew(name, value))
    return b"".join(lines)


def _written_anew(name: str, value: str) -> bytes:
    """A field that was not written in clean ASCII, such as one with a file name in UTF-8."""
    readable = field_reading.readable(value)
    if name == "content-description":
        return field_writing.field("Content-Description", field_writing.text(field_reading.text(value)))
    if name not in ("content-type", "content-disposition"):
        return b""
    first, parameters = field_reading.parameters(readable)
    if not _VALUE.fullmatch(first) or has_forbidden(first):
        return b""
    written = (_parameter(*each) for each in parameters.items() if _NAME.fullmatch(each[0]))
    return field_writing.field(name.title(), field_writing.with_parameters(first, written))


def _parameter(name: str, value: str) -> list[str]:
    if name == "boundary":  # no reader looks for one in sections
        return [f'boundary="{value.rstrip()}"'] if _BOUNDARY.fullmatch(value) else []
    return field_writing.parameter(name, field_reading.without_controls(value))
