"""The parts of a message as bytes: text, files and multiparts, always 7-bit (RFC 2045, RFC 2046)."""

import binascii
import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from mailbox_appliance.mail import field_writing, file_names
from mailbox_appliance.mail.address import has_forbidden
from mailbox_appliance.model.content import LARGE, Base64Lines, Content
from mailbox_appliance.model.records import OutgoingAttachment, ParsedAttachment

_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
# As it is: short lines of printable ASCII that no transport has a reason to touch.
_UNTOUCHED = re.compile(rb"(?:(?!From |\.)(?:[\t -~]{0,77}[!-~])?\r\n)*")
# RFC 2049 3: "From " and a dot at the start of a line do not survive every transport.
_FRAGILE_LINE = re.compile(rb"^(?:\.|From )[^\r\n]*", re.M)
_PRINTABLE = bytes(set(range(0x20, 0x7F)) - {0x3D} | {0x09, 0x0A, 0x0D})
# RFC 6838 4.2 bounds the names.
_MIME_TYPE = re.compile(r"([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})/([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})")
# RFC 2045 5.1: a token or a quoted string; extended names (RFC 2231) are made here, not taken.
_MIME_PARAMETER = re.compile(
    r"""[ \t]*;[ \t]*([A-Za-z0-9!#$&^_.+-]{1,60})="""
    r"""(?:"((?:[ !#-\[\]-~]|\\[ -~]){0,200})"|([A-Za-z0-9!#$%&'*+.^_`{|}~-]{1,200}))"""
)
_OWN_PARAMETERS = ("name", "boundary")  # the name of a file stands in Content-Disposition
# 998 octets are allowed, and there is a CR (RFC 5322 2.1.1). Anchored: else it begins anew at each byte of a line.
_TOO_LONG = re.compile(rb"(?m)^[^\n]{1000}")
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,900}")


@dataclass(frozen=True)
class WrittenPart:
    """The header fields of a part, and its body, encoded. `files`: those in it, as a reader lists them."""

    fields: bytes
    body: Content
    files: tuple[ParsedAttachment, ...] = ()


def text_part(text: str, subtype: str) -> WrittenPart:
    """A `text` part in UTF-8. Line breaks of any kind become CRLF, and the last line has one."""
    raw = _LINE_BREAK.sub(b"\r\n", text.encode("utf-8", "replace"))
    if raw and not raw.endswith(b"\r\n"):
        raw += b"\r\n"
    charset = "us-ascii" if raw.isascii() else "utf-8"
    fields = field_writing.field("Content-Type", [f"text/{subtype};", f"charset={charset}"])
    encoding, body = encode_text(raw)
    return WrittenPart(fields + _encoding_field(encoding), Content(body))


def encode_text(raw: bytes) -> tuple[str, bytes]:
    """The encoding that suits a text with CRLF best, and the text in it."""
    if _UNTOUCHED.fullmatch(raw):
        return "7bit", raw
    if len(raw.translate(None, _PRINTABLE)) * 6 > len(raw):  # 3 octets for each: base64 is shorter
        return "base64", base64_lines(raw).read()
    quoted = binascii.b2a_qp(raw, istext=True)
    if b"\r\n" not in raw:  # then it does not know how lines end
        quoted = quoted.replace(b"\n", b"\r\n")
    return "quoted-printable", _FRAGILE_LINE.sub(_escape_start, quoted)


def _escape_start(match: re.Match[bytes]) -> bytes:
    """A quoted-printable line whose first octet is escaped, in lines of at most 76 octets still (RFC 2045 6.7)."""
    line = match[0]
    escaped = b"=%02X" % line[0]
    if len(line) <= 74:
        return escaped + line[1:]
    return escaped + b"=\r\n" + _FRAGILE_LINE.sub(_escape_start, line[1:])


def base64_lines(raw: bytes | Content) -> Content:
    """Base64 in lines of 76 (RFC 2045 6.8). What is large is encoded each time it is read."""
    lines = Base64Lines(Content(raw))
    return lines if len(lines) > LARGE else Content(lines.read())


def file_part(attachment: OutgoingAttachment) -> WrittenPart:
    """An attached file. Its bytes arrive exactly; only an attached message is sent as it is, with CRLF.

    Its name arrives as a reader may show it: without folders and marks of direction, and made up where nothing is left.

    Raises ValueError where the type, the name or the content id cannot stand in a header field.
    """
    mime_type, parameters = media_type(attachment.mime_type)
    name = file_names.plain(attachment.filename) or file_names.made_up("attachment", mime_type)
    content_id = None if attachment.content_id is None else attachment.content_id.removeprefix("<").removesuffix(">")
    disposition: Literal["inline", "attachment"] = "inline" if attachment.inline else "attachment"
    naming = _naming_fields(disposition, name, content_id)
    content, encoding = Content(attachment.content), "base64"
    if mime_type.startswith("message/"):
        # RFC 2046 5.2.1: no encoding is allowed here. A message that needs one goes as a file, so that it stays exact.
        if (as_lines := _seven_bit_lines(content.read())) is not None:
            content, encoding = Content(as_lines), "7bit"
        else:
            mime_type, parameters = "application/octet-stream", []
    elif mime_type.startswith("text/") and not any(name == "charset" for name, _ in parameters):
        parameters += [("charset", "utf-8")] if _is_utf_8(content) else []
    words = field_writing.with_parameters(mime_type, (field_writing.parameter(*each) for each in parameters))
    fields = field_writing.field("Content-Type", words) + _encoding_field(encoding) + naming
    file = ParsedAttachment("", name, mime_type, len(content), content_id, disposition)
    return WrittenPart(fields, base64_lines(content) if encoding == "base64" else content, (file,))


def media_type(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The type in lower case, and its parameters (RFC 2045 5.1) without those that are not the caller's to set.

    Raises ValueError where it is none that a file can have, or holds a parameter twice.
    """
    match = _MIME_TYPE.match(text)
    if not match or match[1].lower() == "multipart":
        raise ValueError("not a MIME type")
    parameters: dict[str, str] = {}
    position = match.end()
    while position < len(text):
        found = _MIME_PARAMETER.match(text, position)
        if not found or len(parameters) == 20 or found[1].lower() in parameters:
            raise ValueError("not a MIME type")
        quoted = found[2]
        parameters[found[1].lower()] = found[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = found.end()
    return match[0].lower(), [each for each in parameters.items() if each[0] not in _OWN_PARAMETERS]


def _seven_bit_lines(content: bytes) -> bytes | None:
    """The content with CRLF, or None where it is not ASCII, holds NUL, or has lines over 998 octets."""
    lines = _LINE_BREAK.sub(b"\r\n", content)
    lines += b"" if lines.endswith(b"\r\n") else b"\r\n"
    return lines if lines.isascii() and b"\0" not in lines and not _TOO_LONG.search(lines) else None


def _is_utf_8(content: Content) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in content.pieces():
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return not content.isascii()


def _naming_fields(disposition: str, name: str, content_id: str | None) -> bytes:
    words = field_writing.with_parameters(disposition, [field_writing.parameter("filename", name)])
    fields = field_writing.field("Content-Disposition", words)
    if content_id is None:
        return fields
    if not is_content_id(content_id):
        raise ValueError("not a content id")
    return fields + field_writing.field("Content-ID", [f"<{content_id}>"])


def is_content_id(text: str) -> bool:
    """Whether a Content-ID can be written: ASCII without spaces and angle brackets, and nothing hidden in it."""
    return _CONTENT_ID.fullmatch(text) is not None and not has_forbidden(text)


def multipart(subtype: str, parts: Sequence[WrittenPart], boundary: str) -> WrittenPart:
    """Parts put together (RFC 2046 5.1). The boundary is one that no part holds."""
    # RFC 2387 3.1: related names the type of its root.
    more = [field_writing.parameter("type", "text/html")] if subtype == "related" else []
    words = field_writing.with_parameters(
        f"multipart/{subtype}", [*more, field_writing.parameter("boundary", boundary)]
    )
    pieces: list[bytes | Content] = []
    for part in parts:
        pieces += [f"--{boundary}\r\n".encode() + part.fields + b"\r\n", part.body, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    # Numbered as in IMAP (RFC 9051 6.4.5): the parts of a part have its number in front.
    files = tuple(
        structs.replace(file, part=f"{number}.{file.part}".removesuffix("."))
        for number, part in enumerate(parts, 1)
        for file in part.files
    )
    return WrittenPart(field_writing.field("Content-Type", words), Content(*pieces), files)


def _encoding_field(encoding: str) -> bytes:
    return field_writing.field("Content-Transfer-Encoding", [encoding])
