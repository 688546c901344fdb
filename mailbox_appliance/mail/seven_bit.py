"""Convert a message so that every server accepts it: 7-bit, with CRLF line breaks.

Parts that already have this form stay unchanged. Other parts are encoded again (RFC 2045 6). Signed parts that would
need encoding are refused, since it would break the signature.
"""

import re

from mailbox_appliance.mail import compose, headers, mime, parse
from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.mail.compose import WrittenPart, base64_lines, encode_text
from mailbox_appliance.mail.headers import fields_of
from mailbox_appliance.mail.mime import MimePart
from mailbox_appliance.model.content import Content

_BREAK = re.compile(rb"\r\n|\r|\n")
_LONGEST_LINE = 998  # octets, without CRLF (RFC 5322 2.1.1)
_CLEAN_LINES = re.compile(rb"[\t -~]++(?:\n[\t ]++(?=[!-~])[\t -~]++)*+")
_BOUNDARY = re.compile(r"[ -!#-\[\]-~]{1,900}")
# fmt: off
_CONTENT_FIELDS = frozenset({
    "type", "transfer-encoding", "disposition", "id", "description", "language", "location", "base", "md5", "features",
    "class", "duration", "alternative", "translation-type"
})
# fmt: on
_NAME = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}")
_VALUE = re.compile(r"[!-~]{1,200}")
_LINE_ORIENTED = frozenset({"", "7bit", "8bit"})
_ENCODED = frozenset({"base64", "quoted-printable"})
_BROKEN_STRUCTURE = frozenset({mime.TOO_MANY, mime.TOO_DEEP, mime.NO_BOUNDARY})
_SIGNED_REASON = (
    "a signed part is not 7-bit (RFC 1847), and encoding it would break its signature: sign it again as 7-bit"
)


def is_seven_bit(content: bytes) -> bool:
    """Whether every server accepts this content unchanged: ASCII without NUL, line breaks only as CRLF, at most 998
    octets in a line.
    """
    if not content.isascii() or b"\0" in content:
        return False
    if not content.count(b"\r\n") == content.count(b"\r") == content.count(b"\n"):
        return False
    return max(map(len, content.split(b"\r\n"))) <= _LONGEST_LINE


def clean_lines(field: bytes) -> bytes | None:
    """Return a header field as written, with CRLF line breaks. None if it is not ASCII in lines that every server
    accepts, or if an encoded word in it contains control characters.
    """
    if not _CLEAN_LINES.fullmatch(field) or max(map(len, field.split(b"\n"))) > _LONGEST_LINE:
        return None
    if b"=?" in field and has_forbidden_characters(field.replace(b"\n", b"").decode()):
        return None
    return field.replace(b"\n", b"\r\n") + b"\r\n"


def to_seven_bit(root: MimePart, warnings: tuple[str, ...]) -> WrittenPart:
    """Return the body of a message in 7-bit form, and the header fields that describe it. `root`: the message.
    `warnings`: the warnings of `parse_structure` about it.

    Raises ValueError with the next step for the user if that is impossible, as for a body with missing boundaries that
    is not 7-bit.
    """
    if not is_seven_bit(body := root.source[root.start : root.end]):
        if not _BROKEN_STRUCTURE.isdisjoint(warnings):
            raise ValueError("the boundaries between its parts are missing: save the draft again")
        return _rewrite_part(root, ())
    return WrittenPart(_content_fields(root), Content(body))


def with_final_line_break(body: Content) -> Content:
    """Return the body of a message so that it ends with a line break, which SMTP requires (RFC 5321 4.1.1.4)."""
    last = b""
    for piece in body.pieces():
        last = (last + piece)[-2:]
    return body if last == b"\r\n" else Content(body, b"\r\n")


def _rewrite_part(part: MimePart, boundaries: tuple[bytes, ...]) -> WrittenPart:
    """Return a part in 7-bit form; unchanged if it is so already. Raises ValueError if that is impossible."""
    if is_seven_bit(body := part.source[part.start : part.end]):
        return WrittenPart(_content_fields(part), Content(body))
    if part.mime_type == "multipart/signed":
        raise ValueError(_SIGNED_REASON)
    return _rewrite_multipart(part, boundaries) if part.children else _rewrite_leaf(part, boundaries)


def _rewrite_multipart(part: MimePart, boundaries: tuple[bytes, ...]) -> WrittenPart:
    boundary = part.parameters.get("boundary", "").rstrip()
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError("a boundary between its parts is not valid: save the draft again")
    delimiter = f"--{boundary}".encode()
    pieces: list[bytes | Content] = []
    for child in part.children:
        made = _rewrite_part(child, (*boundaries, delimiter))
        pieces += [delimiter + b"\r\n" + made.fields + b"\r\n", made.body, b"\r\n"]
    return WrittenPart(
        _content_fields(part, leaving_out="content-transfer-encoding"), Content(*pieces, delimiter + b"--\r\n")
    )


def _rewrite_leaf(part: MimePart, boundaries: tuple[bytes, ...]) -> WrittenPart:
    raw, encoding, is_text = part.source[part.start : part.end], part.encoding(), part.mime_type.startswith("text/")
    if encoding in _LINE_ORIENTED or encoding in _ENCODED:
        lines = _BREAK.sub(b"\r\n", raw)
        if is_seven_bit(lines) and (is_text or encoding in _ENCODED or b"\r" not in raw.replace(b"\r\n", b"")):
            return WrittenPart(_content_fields(part), Content(lines))
    elif encoding != "binary":
        raise ValueError("a part has an unknown encoding and is not 7-bit: attach the file again")
    if part.mime_type.startswith("message/"):
        return _rewrite_attached_message(part)
    content = part.content()[0]
    if is_text and encoding not in ("base64", "binary") and b"\0" not in content:
        encoding, body = encode_text(_BREAK.sub(b"\r\n", content))
        if not any(boundary in body for boundary in boundaries):
            return WrittenPart(_encode_part(part, encoding), Content(body))
    return WrittenPart(_encode_part(part, "base64"), base64_lines(content))


def _rewrite_attached_message(part: MimePart) -> WrittenPart:
    """Return an attached message as a generic file in base64, with its bytes unchanged. As a message it must not be
    encoded (RFC 2046 5.2.1).
    """
    name = part.filename() or parse.default_part_name(part)
    words = compose.value_words("attachment", [compose.format_parameter("filename", name)])
    fields = b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
    return WrittenPart(fields + compose.write_field("Content-Disposition", words), base64_lines(part.content()[0]))


def _encode_part(part: MimePart, encoding: str) -> bytes:
    fields = _content_fields(part, leaving_out="content-transfer-encoding")
    if part.mime_type == "text/plain" and "content-type" not in part.fields and _is_utf_8(part):
        fields += b"Content-Type: text/plain; charset=utf-8\r\n"
    return fields + compose.write_field("Content-Transfer-Encoding", [encoding])


def _is_utf_8(part: MimePart) -> bool:
    try:
        return not part.content()[0].decode().isascii()
    except UnicodeError:
        return False


def _content_fields(part: MimePart, leaving_out: str = "") -> bytes:
    """Return the header fields that describe a part (`Content-...`, RFC 2045 3), each once. Other fields have no
    meaning in a part. `leaving_out`: the name of a field to omit.
    """
    seen, lines = {leaving_out}, []
    for name, written, value in fields_of(part.source[part.begin : part.start]):
        if name.removeprefix("content-") in _CONTENT_FIELDS and name.startswith("content-") and name not in seen:
            seen.add(name)
            lines.append(clean_lines(written) or _rewrite_field(name, value))
    return b"".join(lines)


def _rewrite_field(name: str, value: str) -> bytes:
    """Return a `Content-...` field in ASCII, for one that is not clean ASCII, such as one with a file name in UTF-8."""
    readable = headers.decode_octets(value)
    if name == "content-description":
        return compose.write_field("Content-Description", compose.text_words(headers.decode_text(value)))
    if name not in ("content-type", "content-disposition"):
        return b""
    first, parameters = headers.parse_parameters(readable)
    if not _VALUE.fullmatch(first) or has_forbidden_characters(first):
        return b""
    written = (_rewrite_parameter(*each) for each in parameters.items() if _NAME.fullmatch(each[0]))
    return compose.write_field(name.title(), compose.value_words(first, written))


def _rewrite_parameter(name: str, value: str) -> list[str]:
    if name == "boundary":  # readers do not expect one in sections
        return [f'boundary="{value.rstrip()}"'] if _BOUNDARY.fullmatch(value) else []
    return compose.format_parameter(name, headers.without_controls(value))
