"""Convert a message that an older release scheduled to one that can be sent. Content that any server accepts stays
unchanged.

Its recipients are those of the stored envelope. Only obstacles to sending are changed: line breaks, bytes above 127, a
Bcc field, and a missing Date or Message-ID (RFC 5322 3.6).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from mailbox_appliance.mail import compose, headers, mime, parse, threads
from mailbox_appliance.mail.address import is_writable, needs_smtputf8, to_envelope_address
from mailbox_appliance.mail.compose import WrittenPart
from mailbox_appliance.mail.headers import fields_of
from mailbox_appliance.mail.seven_bit import clean_lines, is_seven_bit, to_seven_bit, with_final_line_break
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Address, ComposedMessage, Envelope

_BREAK = re.compile(rb"\r\n|\r|\n")
_BINARY = re.compile(rb"(?i)encoding[ \t]*:[ \t]*binary")  # a part in which a lone line feed is content
_MOST_LISTED = 100
_LONGEST_TEXT = 10_000
_ADDRESS_FIELDS = frozenset({"from", "sender", "to", "cc", "bcc", "reply-to", "disposition-notification-to"})
_ID_FIELDS = frozenset({"in-reply-to", "references", "message-id"})
Field = tuple[str, bytes, str]


@dataclass(frozen=True)
class MessageListing:
    """The values that lists of scheduled messages show: recipients in To, subject, and Message-ID, which is empty if
    the message has none.
    """

    to: tuple[Address, ...]
    subject: str
    message_id: str


def read_listing(source: bytes) -> MessageListing:
    """Return the values that lists show, read from the header of a stored message. At most 100 recipients."""
    fields = list(fields_of(source[: headers.body_start(source)]))
    to = tuple(person for value in _values_of(fields, "to") for person in headers.read_addresses(_decode_value(value)))
    subject = next((headers.decode_text(value) for value in _values_of(fields, "subject")), "")
    return MessageListing(to[:_MOST_LISTED], subject, _writable_message_id(fields))


def normalize(source: bytes, envelope: Envelope, *, message_id: str, date: datetime) -> ComposedMessage:
    """Return a stored message in the form in which it is sent to the recipients of `envelope`. `message_id` and `date`
    are used if the message has none.

    Content that cannot be converted to 7-bit stays 8-bit, and can only be sent to servers that accept that.
    """
    root, _, warnings = mime.parse_structure(source)
    charset = parse.charset_of(root, parse.choose_bodies(root))
    fields = list(fields_of(root.source[: root.start]))
    own_id = _writable_message_id(fields)
    content = _seven_bit_content(root, warnings)
    wanted = [field for field in fields if _may_go(field, own_id) and not (content.fields and _is_mime(field[0]))]
    lines = [line for field in wanted for line in _write_field(field, charset)]
    lines += _missing_fields(fields, envelope, own_id, message_id, date)
    return ComposedMessage(
        wire=Content(b"".join([*lines, content.fields, b"\r\n"]), with_final_line_break(content.body)),
        bcc_header=b"".join(line for field in fields if field[0] == "bcc" for line in _write_field(field, charset)),
        envelope=_to_wire_envelope(envelope, lines),
        message_id=own_id or message_id,
    )


def _seven_bit_content(root: mime.MimePart, warnings: tuple[str, ...]) -> WrittenPart:
    """Return the body in 7-bit form, and the header fields that describe it. If it cannot be converted, it stays 8-bit.

    The fields are empty if the body stays as it is, because the message's own fields then still describe it.
    `warnings`: the warnings of `parse_structure` about the message.
    """
    as_it_is = _BREAK.sub(b"\r\n", root.source[root.start :])
    is_exact = as_it_is == root.source[root.start :] or not _BINARY.search(root.source)
    if is_exact and is_seven_bit(as_it_is) and root.source[: root.start].isascii():
        return WrittenPart(b"", Content(as_it_is))
    try:
        made = to_seven_bit(root, warnings)
    except ValueError:  # a signature would break, or its parts cannot be separated
        return WrittenPart(b"", Content(as_it_is))
    return WrittenPart(b"MIME-Version: 1.0\r\n" + made.fields, made.body)


def _may_go(field: Field, own_id: str) -> bool:
    """Whether a header field may be sent. Bcc fields are never sent, and an empty Date or an invalid Message-ID counts
    as missing. `own_id`: the valid Message-ID, or empty.
    """
    name, _, value = field
    if name in ("bcc", "resent-bcc"):
        return False
    return value.strip() != "" if name == "date" else name != "message-id" or own_id != ""


def _is_mime(name: str) -> bool:
    return name == "mime-version" or name.startswith("content-")


def _write_field(field: Field, charset: str | None) -> list[bytes]:
    """Return a header field as a list of at most one entry. A field in clean ASCII stays unchanged; any other is
    written again. Empty if nothing of it can be kept.
    """
    name, raw, value = field
    if (clean := clean_lines(raw)) is not None:
        return [clean]
    title, readable = raw.partition(b":")[0].strip().decode(), headers.decode_octets(value, charset)
    if name in _ADDRESS_FIELDS:
        people = [person for person in headers.read_addresses(readable) if is_writable(person.email)]
        return [compose.write_field(title, compose.address_list_words(people))] if people else []
    if name in _ID_FIELDS:
        ids = compose.writable_ids(threads.exact_message_ids(headers.decode_text(value)))
        return [compose.write_field(title, ids)] if ids else []
    if name.startswith("content-"):  # their replacements are written with the body
        return [raw.replace(b"\n", b"\r\n") + b"\r\n"]
    text = headers.decode_text(value, charset)[:_LONGEST_TEXT]
    return [compose.write_field(title, compose.text_words(text))] if text and name != "date" else []


def _missing_fields(
    fields: list[Field], envelope: Envelope, own_id: str, message_id: str, date: datetime
) -> Iterator[bytes]:
    dates = [field for field in fields if field[0] == "date" and field[2].strip() and clean_lines(field[1])]
    if not any(field[0] == "from" for field in fields):
        yield f"From: <{envelope.sender}>\r\n".encode()
    if not dates:
        yield compose.write_field("Date", [format_datetime(date)])
    if not own_id:
        yield compose.write_field("Message-ID", [message_id])


def _writable_message_id(fields: Iterable[Field]) -> str:
    """Return the Message-ID if it can be written unchanged into a header; otherwise an empty text."""
    for value in _values_of(fields, "message-id"):
        for found in compose.writable_ids(threads.exact_message_ids(headers.decode_text(value))):
            return found
    return ""


def _to_wire_envelope(envelope: Envelope, lines: Iterable[bytes]) -> Envelope:
    """Return the envelope with domains in ASCII form (A-labels). SMTPUTF8 is required if it or a header line in `lines`
    has an address that is not ASCII.
    """
    addresses = [_to_wire_address(each) for each in (envelope.sender, *envelope.recipients)]
    named = any(not line.isascii() and not line.lower().startswith(b"content-") for line in lines)
    needs = named or any(needs_smtputf8(each) for each in addresses)
    return Envelope(addresses[0], tuple(dict.fromkeys(addresses[1:])), needs)


def _to_wire_address(email: str) -> str:
    try:
        return to_envelope_address(email)
    except ValueError:  # its server may accept it; otherwise sending is refused
        return email


def _values_of(fields: Iterable[Field], name: str) -> Iterator[str]:
    return (value for found, _, value in fields if found == name)


def _decode_value(value: str) -> str:
    return headers.decode_octets(value)
