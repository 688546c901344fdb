"""Compose a message: turn recipients, texts and files into its bytes for SMTP (RFC 5322, RFC 2045), always 7-bit.

Header fields and parts are written in forms that every server transports unchanged. `row_of` returns the values that
message lists show, without parsing the bytes again.
"""

import binascii
import codecs
import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Literal
from urllib.parse import quote

from msgspec import structs

from mailbox_appliance.mail import encoded_words, headers
from mailbox_appliance.mail.address import domain_of, has_forbidden_characters, needs_smtputf8, to_envelope_address
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.search import snippet
from mailbox_appliance.model.content import LARGE, Base64Lines, Content
from mailbox_appliance.model.messages import (
    Address,
    ComposedMessage,
    Envelope,
    OutgoingAttachment,
    OutgoingMessage,
    ParsedAttachment,
    ParsedMessage,
)

# --- Header fields: folded at 78, ASCII; every reader gets the exact text back (RFC 5322, RFC 2047, RFC 2231) ---
#
# The `email` package is not used for writing: up to 3.11 its folding loses quotes and spaces in names, does not encode
# text that looks like an encoded word, and lets encoded line breaks through (python/cpython#121650).


_FOLD_AT = 78  # RFC 5322 2.1.1
_PLAIN_WORDS = re.compile(r"[!-~]{1,60}(?: [!-~]{1,60})*")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,60}(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,60})*")
_QUOTABLE = re.compile(r"[ -~]{1,60}")
_PLAIN_PARAMETER = re.compile(r"[ !#-\[\]-~]{1,60}")
_SECTION_LENGTH = 48  # characters of an RFC 2231 section; none is cut inside `%XX`


def write_field(name: str, words: Sequence[str]) -> bytes:
    """Return a header field that ends with CRLF. Long fields are folded, but only between `words`."""
    lines = [f"{name}:"]
    for position, word in enumerate(words):
        if position and len(lines[-1]) + 1 + len(word) > _FOLD_AT:
            lines.append("")
        lines[-1] += f" {word}"
    # UTF-8 occurs only in addresses with a non-ASCII local part (RFC 6532); all other text is ASCII here.
    return ("\r\n".join(lines) + "\r\n").encode("utf-8", "replace")


def text_words(value: str) -> list[str]:
    """Return free text, such as a subject, as words for `write_field`. Plain ASCII stays unchanged; any other text
    becomes encoded words (RFC 2047).
    """
    if not value or (_PLAIN_WORDS.fullmatch(value) and "=?" not in value):
        return value.split(" ")
    return encoded_words.encode_words(value)


def address_list_words(addresses: Iterable[Address]) -> list[str]:
    """Return a list of addresses as words for `write_field` (RFC 5322 3.4). Raises ValueError for an invalid
    address.
    """
    words: list[str] = []
    for address in addresses:
        if words:
            words[-1] += ","
        words += address_words(address)
    return words


def address_words(address: Address) -> list[str]:
    """Return one address with its display name as words for `write_field`. Raises ValueError for an invalid address."""
    email = to_envelope_address(address.email)
    name = address.name if isinstance(address.name, str) else ""
    return [*phrase_words(name), f"<{email}>"] if name else [email]


def phrase_words(name: str) -> list[str]:
    """Return a display name as words for `write_field`: unchanged, as a quoted string, or as encoded words (RFC
    2047).
    """
    if "=?" not in name:
        if _ATOMS.fullmatch(name):
            return name.split(" ")
        if _QUOTABLE.fullmatch(name):
            return ['"' + re.sub(r'(["\\])', r"\\\1", name) + '"']
    return encoded_words.encode_words(name)


def format_parameter(name: str, value: str) -> list[str]:
    """Return a parameter of a header field, such as `filename="a.pdf"`, as words for `write_field` (RFC 2045 5.1). If
    it is long, contains quotes or is not ASCII, it is written in RFC 2231 sections.
    """
    if _PLAIN_PARAMETER.fullmatch(value) and "=?" not in value:
        return [f'{name}="{value}"']
    # The first two are characters of RFC 5987 attr-char that `quote` does not escape; escaping the others is safe.
    escaped = re.findall(r"%..|.", "utf-8''" + quote(value, safe="", errors="replace"))
    sections = [
        "".join(escaped[start : start + _SECTION_LENGTH // 3]) for start in range(0, len(escaped), _SECTION_LENGTH // 3)
    ]
    if len(sections) == 1:
        return [f"{name}*={sections[0]}"]
    words = [f"{name}*{number}*={section}" for number, section in enumerate(sections)]
    return [f"{word};" for word in words[:-1]] + words[-1:]


def value_words(value: str, parameters: Iterable[list[str]]) -> list[str]:
    """Return a value followed by its parameters, separated by semicolons, as words for `write_field`. `parameters`:
    results of `format_parameter`.
    """
    words = [value]
    for parameter_words in parameters:
        words[-1] += ";"
        words += parameter_words
    return words


# --- Parts: text, files and multiparts (RFC 2045, RFC 2046) ---


_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
# Sent unencoded: short lines of printable ASCII, which no transport has a reason to change.
_UNTOUCHED = re.compile(rb"(?:(?!From |\.)(?:[\t -~]{0,77}[!-~])?\r\n)*")
# RFC 2049 3: some transports change "From " or a dot at the start of a line.
_FRAGILE_LINE = re.compile(rb"^(?:\.|From )[^\r\n]*", re.M)
_PRINTABLE = bytes(set(range(0x20, 0x7F)) - {0x3D} | {0x09, 0x0A, 0x0D})
# RFC 6838 4.2 limits the length of the names.
_MIME_TYPE = re.compile(r"([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})/([A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})")
# RFC 2045 5.1: a token or a quoted string. Extended names (RFC 2231) are generated here, not accepted.
_MIME_PARAMETER = re.compile(
    r"""[ \t]*;[ \t]*([A-Za-z0-9!#$&^_.+-]{1,60})="""
    r"""(?:"((?:[ !#-\[\]-~]|\\[ -~]){0,200})"|([A-Za-z0-9!#$%&'*+.^_`{|}~-]{1,200}))"""
)
_RESERVED_PARAMETERS = ("name", "boundary")  # the file name belongs in Content-Disposition
# 998 octets are allowed, and there is a CR (RFC 5322 2.1.1). Anchored: otherwise the search would restart at each byte
# of a line.
_TOO_LONG = re.compile(rb"(?m)^[^\n]{1000}")
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,900}")


@dataclass(frozen=True)
class WrittenPart:
    """A MIME part in the form in which it is sent: its header fields and its encoded body. `files`: the files in it, as
    a reader of the message lists them.
    """

    fields: bytes
    body: Content
    files: tuple[ParsedAttachment, ...] = ()


def text_part(text: str, subtype: str) -> WrittenPart:
    """Return a `text` part, encoded in UTF-8. Line breaks of any kind become CRLF, and the last line ends with one.
    `subtype`: `plain` or `html`.
    """
    raw = _LINE_BREAK.sub(b"\r\n", text.encode("utf-8", "replace"))
    if raw and not raw.endswith(b"\r\n"):
        raw += b"\r\n"
    charset = "us-ascii" if raw.isascii() else "utf-8"
    fields = write_field("Content-Type", [f"text/{subtype};", f"charset={charset}"])
    encoding, body = encode_text(raw)
    return WrittenPart(fields + _encoding_field(encoding), Content(body))


def encode_text(raw: bytes) -> tuple[str, bytes]:
    """Choose the best transfer encoding (`7bit`, `quoted-printable` or `base64`) for text with CRLF line breaks.
    Returns its name and the encoded text.
    """
    if _UNTOUCHED.fullmatch(raw):
        return "7bit", raw
    if len(raw.translate(None, _PRINTABLE)) * 6 > len(raw):  # 3 octets for each: base64 is shorter
        return "base64", base64_lines(raw).read()
    quoted = binascii.b2a_qp(raw, istext=True)
    if b"\r\n" not in raw:  # without a CRLF, `binascii` does not know how lines end
        quoted = quoted.replace(b"\n", b"\r\n")
    return "quoted-printable", _FRAGILE_LINE.sub(_escape_start, quoted)


def _escape_start(match: re.Match[bytes]) -> bytes:
    """Return a quoted-printable line with its first octet escaped, so that no server changes it. A line that becomes
    longer than 76 octets is split (RFC 2045 6.7).
    """
    line = match[0]
    escaped = b"=%02X" % line[0]
    if len(line) <= 74:
        return escaped + line[1:]
    return escaped + b"=\r\n" + _FRAGILE_LINE.sub(_escape_start, line[1:])


def base64_lines(raw: bytes | Content) -> Content:
    """Return the content as base64, in lines of 76 characters (RFC 2045 6.8). Large content is not kept in memory, but
    encoded again each time it is read.
    """
    lines = Base64Lines(Content(raw))
    return lines if len(lines) > LARGE else Content(lines.read())


def file_part(attachment: OutgoingAttachment) -> WrittenPart:
    """Return the part for an attached file. Recipients get its bytes unchanged; only in an attached message, line
    breaks become CRLF.

    The file name is made safe to show: without folders and direction controls, and a generic one if nothing remains.
    Raises ValueError if a header field cannot contain the type, the name or the Content-ID.
    """
    mime_type, parameters = parse_media_type(attachment.mime_type)
    name = headers.safe_file_name(attachment.filename) or headers.default_file_name("attachment", mime_type)
    content_id = None if attachment.content_id is None else attachment.content_id.removeprefix("<").removesuffix(">")
    disposition: Literal["inline", "attachment"] = "inline" if attachment.inline else "attachment"
    naming = _naming_fields(disposition, name, content_id)
    content, encoding = Content(attachment.content), "base64"
    if mime_type.startswith("message/"):
        # RFC 2046 5.2.1: a message may not be encoded. One that needs it is sent as a file, so that it stays exact.
        if (as_lines := _seven_bit_lines(content.read())) is not None:
            content, encoding = Content(as_lines), "7bit"
        else:
            mime_type, parameters = "application/octet-stream", []
    elif mime_type.startswith("text/") and not any(name == "charset" for name, _ in parameters):
        parameters += [("charset", "utf-8")] if _is_utf_8(content) else []
    words = value_words(mime_type, (format_parameter(*each) for each in parameters))
    fields = write_field("Content-Type", words) + _encoding_field(encoding) + naming
    file = ParsedAttachment("", name, mime_type, len(content), content_id, disposition)
    return WrittenPart(fields, base64_lines(content) if encoding == "base64" else content, (file,))


def parse_media_type(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a MIME type in lower case, and its parameters (RFC 2045 5.1). The parameters `name` and `boundary` are
    left out, since callers must not set them.

    Raises ValueError if the type is not valid for a file, or if a parameter occurs twice.
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
    return match[0].lower(), [each for each in parameters.items() if each[0] not in _RESERVED_PARAMETERS]


def _seven_bit_lines(content: bytes) -> bytes | None:
    """Return the content with CRLF line breaks. None if it is not ASCII, contains NUL, or has lines over 998 octets."""
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
    words = value_words(disposition, [format_parameter("filename", name)])
    fields = write_field("Content-Disposition", words)
    if content_id is None:
        return fields
    if not is_content_id(content_id):
        raise ValueError("not a content ID")
    return fields + write_field("Content-ID", [f"<{content_id}>"])


def is_content_id(text: str) -> bool:
    """Whether a Content-ID can be written in a header field: ASCII without spaces and angle brackets, and no control
    characters in encoded words.
    """
    return _CONTENT_ID.fullmatch(text) is not None and not has_forbidden_characters(text)


def multipart_part(subtype: str, parts: Sequence[WrittenPart], boundary: str) -> WrittenPart:
    """Return a multipart of this subtype (such as `mixed`) that contains the parts (RFC 2046 5.1). `boundary` must not
    occur in any part.
    """
    # RFC 2387 3.1: multipart/related names the type of its root.
    more = [format_parameter("type", "text/html")] if subtype == "related" else []
    words = value_words(f"multipart/{subtype}", [*more, format_parameter("boundary", boundary)])
    pieces: list[bytes | Content] = []
    for part in parts:
        pieces += [f"--{boundary}\r\n".encode() + part.fields + b"\r\n", part.body, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    # Numbered as in IMAP (RFC 9051 6.4.5): parts of a part have its number as prefix.
    files = tuple(
        structs.replace(file, part=f"{number}.{file.part}".removesuffix("."))
        for number, part in enumerate(parts, 1)
        for file in part.files
    )
    return WrittenPart(write_field("Content-Type", words), Content(*pieces), files)


def _encoding_field(encoding: str) -> bytes:
    return write_field("Content-Transfer-Encoding", [encoding])


# --- The whole message ---


_LONGEST_TEXT = 10_000
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")
_DATE_FIELD = re.compile(rb"^Date[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*", re.I | re.M)


def compose(message: OutgoingMessage, *, message_id: str, date: datetime) -> ComposedMessage:
    """Return a message ready to be sent: its bytes, its envelope, and the Bcc field for the sender's copy. Equal input
    gives equal bytes.

    Raises ValueError for values that a header field cannot contain: a line break or NUL (also inside encoded words), or
    an invalid address, MIME type or Content-ID.
    """
    lines, text = list(header_fields(message, message_id, date)), _plain_text(message)
    content = _content_part(message, text, boundary_seed(message_id))
    header, bcc_header = b"".join([*lines, b"MIME-Version: 1.0\r\n", content.fields]), bcc_field(message.bcc)
    return ComposedMessage(
        wire=Content(header + b"\r\n", content.body),
        bcc_header=bcc_header,
        envelope=envelope_of(message),
        message_id=message_id,
        row=row_of(message, text, content.files, header + bcc_header, date),
    )


def boundary_seed(message_id: str) -> str:
    """Return the text that the boundaries of a message contain. It derives from the Message-ID, which is random: nobody
    can put a boundary into a text beforehand.
    """
    return hashlib.sha256(message_id.encode()).hexdigest()[:24]


def new_message_id(sender_email: str) -> str:
    """Return a new Message-ID: random, at the domain of this address (RFC 5322 3.6.4)."""
    return f"<{secrets.token_hex(16)}@{domain_of(to_envelope_address(sender_email))}>"


def bcc_field(people: Sequence[Address]) -> bytes:
    """Return the Bcc field, which only the sender's own copy contains. Empty if there are no Bcc recipients."""
    return write_field("Bcc", address_list_words(people)) if people else b""


def with_bcc(wire: Content, bcc_header: bytes) -> Content:
    """Return the sender's copy of a message: the bytes that are sent, with the Bcc field at the end of the header."""
    if not bcc_header:
        return wire
    head, rest = wire.split_header()
    return Content(head + bcc_header, rest)


def with_date(wire: Content, date: datetime) -> Content:
    """Return the message with this Date. It replaces the first Date in the header, or is added at the end of the
    header.
    """
    head, rest = wire.split_header()
    written = write_field("Date", [format_datetime(date)])
    fields, found = _DATE_FIELD.subn(written, head, count=1)
    return Content(fields + (b"" if found else written), rest)


def has_text(text: str | None, html: str | None) -> bool:
    """Whether a body has content: more than white space in its text, or something visible (text or a picture) in its
    HTML.
    """
    if text and text.strip():
        return True
    if not html or not html.strip():
        return False
    # A picture is visible content, even if it is not attached.
    return "<img" in html.lower() or TAG_READER.has_text(html)


def _header_texts(message: OutgoingMessage) -> Iterator[str]:
    for address in (message.sender, *message.to, *message.cc, *message.bcc):
        yield address.email
        yield address.name if isinstance(address.name, str) else ""
    yield message.subject
    for attachment in message.attachments:
        yield from (attachment.filename, attachment.mime_type, attachment.content_id or "")


def header_fields(message: OutgoingMessage, message_id: str, date: datetime) -> Iterator[bytes]:
    """Yield the header fields with sender, recipients, subject, date, Message-ID and references, without Bcc.

    Raises ValueError for values that a header field cannot contain, such as a line break or an invalid address.
    """
    if any(len(text) > _LONGEST_TEXT or has_forbidden_characters(text) for text in _header_texts(message)):
        raise ValueError("a header field cannot contain line breaks, control characters or very long text")
    if not _is_message_id(message_id):
        raise ValueError("not a Message-ID")
    yield write_field("From", address_words(message.sender))
    if message.to:
        yield write_field("To", address_list_words(message.to))
    elif not message.cc:
        # Seen in practice: servers that add such a line, or refuse a message without recipients in its header.
        yield b"To: undisclosed-recipients:;\r\n"
    if message.cc:
        yield write_field("Cc", address_list_words(message.cc))
    if message.subject:
        yield write_field("Subject", text_words(message.subject))
    yield write_field("Date", [format_datetime(date)])
    yield write_field("Message-ID", [message_id])
    if parents := writable_ids([message.in_reply_to or ""]):
        yield write_field("In-Reply-To", parents)
    if ancestors := writable_ids(message.references):
        yield write_field("References", ancestors)


def writable_ids(ids: Iterable[str]) -> list[str]:
    """Return those of the Message-IDs that a header field can contain, with angle brackets. In practice, some messages
    have an ID with spaces or 8-bit characters.
    """
    bracketed = (each if each.startswith("<") else f"<{each}>" for each in ids)
    return [each for each in bracketed if _is_message_id(each)]


def _is_message_id(text: str) -> bool:
    return _MESSAGE_ID.fullmatch(text) is not None and not has_forbidden_characters(text)


def _content_part(message: OutgoingMessage, text: str, seed: str) -> WrittenPart:
    """Return the body of a message as a tree of parts: mixed(alternative(text, related(html, images...)), files...). A
    level that is not needed is left out.

    `text`: the plain text. `seed`: a random text from which the boundaries are made.
    """
    with_html = message.html is not None
    shown = [file_part(a) for a in message.attachments if with_html and a.inline and a.content_id]
    files = [file_part(a) for a in message.attachments if not (with_html and a.inline and a.content_id)]
    body = text_part(text, "plain")
    if message.html is not None:
        html = text_part(message.html, "html")
        if shown:
            html = multipart_part("related", [html, *shown], f"=_related_{seed}")
        body = multipart_part("alternative", [body, html], f"=_alternative_{seed}")
    return multipart_part("mixed", [body, *files], f"=_mixed_{seed}") if files else body


def _plain_text(message: OutgoingMessage) -> str:
    """Return the plain text of a message. If it has only white space, return the text between the tags of its HTML.

    That may include text that styles hide. To prevent this, callers of `compose` call `with_plain_text` first.
    """
    if message.html is None or (message.text and message.text.strip()):
        return message.text or ""
    return TAG_READER.extract(message.html, "text").text


def with_plain_text(message: OutgoingMessage, reader: HtmlReader) -> OutgoingMessage:
    """Return the message with a plain text. If its plain text has only white space, a new one is made from its HTML by
    `reader`.
    """
    if message.html is None or (message.text and message.text.strip()):
        return message
    return replace(message, text=reader.extract(message.html, "text").text)


def envelope_of(message: OutgoingMessage, *, also_named: Iterable[Address] = ()) -> Envelope:
    """Return the sender and recipients for SMTP, with each recipient once. Local parts that differ in case stay
    separate, since only their server knows whether they are the same mailbox.

    `also_named`: more addresses that the header contains, such as Reply-To, but that get no copy. The envelope requires
    SMTPUTF8 if any sender, recipient or one of these has a local part that is not ASCII.
    """
    recipients = [to_envelope_address(address.email) for address in (*message.to, *message.cc, *message.bcc)]
    sender = to_envelope_address(message.sender.email)
    named = (to_envelope_address(address.email) for address in also_named)
    return Envelope(
        sender=sender,
        recipients=tuple(dict.fromkeys(recipients)),
        smtputf8=any(needs_smtputf8(each) for each in (sender, *recipients, *named)),
    )


# --- The row of a composed message: its values for lists and readers ---
#
# It equals the result of parsing the bytes, without the time that takes. There is no row for values that a parser reads
# differently than they were written: addresses beyond ASCII, controls in a text, text that looks like an encoded word.
# A long message has none either, since rows stay in memory while messages wait to be sent.


_LONGEST_HEADER = 4_000  # bytes; so the parser's bounds for fields, addresses and Message-IDs cannot be reached
_LONGEST_BODY = 64_000  # characters of text and HTML
_LONGEST_VALUE = 500
_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&*+/^_`{|}~-]+@[A-Za-z0-9.-]+")
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ud800-\udfff]")


def row_of(
    message: OutgoingMessage, text: str, files: Sequence[ParsedAttachment], header: bytes, date: datetime
) -> ParsedMessage | None:
    """Return what `parse_message` would return for a composed message, without parsing it. None if the two could
    differ, as for unusual characters or long messages; callers must then parse it.

    `text`: the plain text as written. `files`: the attachments as written. `header`: all header fields as written,
    including Bcc.
    """
    people = {"From": (message.sender,), "To": message.to, "Cc": message.cc, "Bcc": message.bcc}
    is_known = (
        len(header) <= _LONGEST_HEADER
        and header.isascii()
        and date.utcoffset() == timedelta(0)
        and all(map(_is_read_back, _values(message, files)))
        and all(_EMAIL.fullmatch(to_envelope_address(each.email)) for group in people.values() for each in group)
        and _is_text_read_back(text, message.html or "")
    )
    if not is_known:
        return None
    fields = dict(line.split(": ", 1) for line in header.decode().replace("\r\n ", " ").split("\r\n") if line)
    shown = {name: ", ".join(map(_shown, group)) for name, group in people.items()} | {"Subject": message.subject}
    headers = {name: shown.get(name, value) if "=?" in value else value for name, value in fields.items()}
    if any("=?" in value for value in headers.values()):
        return None
    text = _as_read(text)
    return ParsedMessage(
        message_id=headers["Message-ID"],
        in_reply_to=_ids(headers, "In-Reply-To"),
        references=_ids(headers, "References"),
        subject=message.subject,
        sender=_address(message.sender),
        to=tuple(map(_address, message.to)),
        cc=tuple(map(_address, message.cc)),
        bcc=tuple(map(_address, message.bcc)),
        reply_to=(),
        date=date.astimezone(UTC).replace(microsecond=0),
        headers=headers,
        text=text,
        html=None if message.html is None else _as_read(message.html),
        snippet=snippet(text) if text.strip() else "",
        attachments=tuple(files),
        warnings=(),
    )


def _values(message: OutgoingMessage, files: Iterable[ParsedAttachment]) -> Iterable[str]:
    """Yield the texts of a message that header fields contain: subject, names of people, file names, Content-IDs."""
    yield message.subject
    for address in (message.sender, *message.to, *message.cc, *message.bcc):
        yield _name(address)
    for file in files:
        yield from (file.filename, file.content_id or "")


def _is_read_back(value: str) -> bool:
    """Whether parsing returns a header text exactly as written: it is printable, has single spaces, and looks unlike an
    encoded word.
    """
    is_single_spaced = value.isprintable() and value == " ".join(value.split())
    return is_single_spaced and len(value) <= _LONGEST_VALUE and "=?" not in value and not value.startswith("'")


def _is_text_read_back(text: str, html: str) -> bool:
    if len(text) + len(html) > _LONGEST_BODY or _ODD.search(text) or _ODD.search(html):
        return False
    return bool(text.strip()) or not html  # otherwise the snippet needs an analysis of the HTML


def _as_read(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _ids(headers: dict[str, str], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(headers.get(name, "").split()))


def _name(address: Address) -> str:
    return address.name if isinstance(address.name, str) else ""


def _address(written: Address) -> Address:
    email, name = to_envelope_address(written.email), _name(written)
    return Address(email=email, name=name) if name and name != email else Address(email=email)


def _shown(address: Address) -> str:
    """Return an address as a parsed header field shows it: a name in encoded words is decoded, a quoted name keeps its
    quotes.
    """
    *phrase, email = address_words(address)
    if phrase and "=?" in phrase[0]:
        phrase = [_name(address)]
    return " ".join([*phrase, email])
