"""A message that an older release stored for later, made ready to go; whatever any server takes stays as it was.

Its recipients are those of the stored envelope. Only what would keep it from going is changed: line breaks, octets
above 127, a Bcc field, and a Date or Message-ID that is missing (RFC 5322 3.6).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from mailbox_appliance.mail import address_lists, bodies, compose, field_reading, field_writing, structure, threads
from mailbox_appliance.mail.address import is_writable, needs_smtputf8, to_envelope_address
from mailbox_appliance.mail.part_writing import WrittenPart
from mailbox_appliance.mail.seven_bit import as_lines, ended, fields_of, is_seven_bit, rewritten
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import Address, ComposedMessage, Envelope

_BREAK = re.compile(rb"\r\n|\r|\n")
_BINARY = re.compile(rb"(?i)encoding[ \t]*:[ \t]*binary")  # a part in which a lone line feed means itself
_MOST_LISTED = 100
_LONGEST_TEXT = 10_000
_PEOPLE = frozenset({"from", "sender", "to", "cc", "bcc", "reply-to", "disposition-notification-to"})
_IDS = frozenset({"in-reply-to", "references", "message-id"})
Field = tuple[str, bytes, str]


@dataclass(frozen=True)
class Listed:
    """How a message is listed: its recipients in To, its subject, and its Message-ID, empty where it has none."""

    to: tuple[Address, ...]
    subject: str
    message_id: str


def listed(source: bytes) -> Listed:
    """What the header of a stored message says of it."""
    fields = list(fields_of(source[: field_reading.body_start(source)]))
    to = tuple(person for value in _values(fields, "to") for person in address_lists.read(_readable(value)))
    subject = next((field_reading.text(value) for value in _values(fields, "subject")), "")
    return Listed(to[:_MOST_LISTED], subject, _message_id(fields))


def made_ready(source: bytes, envelope: Envelope, *, message_id: str, date: datetime) -> ComposedMessage:
    """The message as it goes to these recipients. `message_id` and `date` are for one that has none.

    What cannot be made 7-bit stays 8-bit, and goes where the server takes that.
    """
    root, _, warnings = structure.read(source)
    charset = bodies.charset_of(root, bodies.choose(root))
    fields = list(fields_of(root.source[: root.start]))
    own_id = _message_id(fields)
    content = _content(root, warnings)
    wanted = [field for field in fields if _goes(field, own_id) and not (content.fields and _is_mime(field[0]))]
    lines = [line for field in wanted for line in _written(field, charset)]
    lines += _missing(fields, envelope, own_id, message_id, date)
    return ComposedMessage(
        wire=Content(b"".join([*lines, content.fields, b"\r\n"]), ended(content.body)),
        bcc_header=b"".join(line for field in fields if field[0] == "bcc" for line in _written(field, charset)),
        envelope=_travelling(envelope, lines),
        message_id=own_id or message_id,
    )


def _content(root: structure.Part, warnings: tuple[str, ...]) -> WrittenPart:
    """The body, and the fields that tell what it is; none where those in the header may stay."""
    as_it_is = _BREAK.sub(b"\r\n", root.source[root.start :])
    is_exact = as_it_is == root.source[root.start :] or not _BINARY.search(root.source)
    if is_exact and is_seven_bit(as_it_is) and root.source[: root.start].isascii():
        return WrittenPart(b"", Content(as_it_is))
    try:
        made = rewritten(root, warnings)
    except ValueError:  # a signature would break, or its parts cannot be told apart
        return WrittenPart(b"", Content(as_it_is))
    return WrittenPart(b"MIME-Version: 1.0\r\n" + made.fields, made.body)


def _goes(field: Field, own_id: str) -> bool:
    """Hidden recipients are never on the wire; what cannot be read as a date or an id is none."""
    name, _, value = field
    if name in ("bcc", "resent-bcc"):
        return False
    return value.strip() != "" if name == "date" else name != "message-id" or own_id != ""


def _is_mime(name: str) -> bool:
    return name == "mime-version" or name.startswith("content-")


def _written(field: Field, charset: str | None) -> list[bytes]:
    """A field as it was, where that is clean ASCII; else written anew, which may leave nothing."""
    name, raw, value = field
    if (clean := as_lines(raw)) is not None:
        return [clean]
    title, readable = raw.partition(b":")[0].strip().decode(), field_reading.readable(value, charset)
    if name in _PEOPLE:
        people = [person for person in address_lists.read(readable) if is_writable(person.email)]
        return [field_writing.field(title, field_writing.mailboxes(people))] if people else []
    if name in _IDS:
        ids = compose.writable_ids(threads.exact_message_ids(field_reading.text(value)))
        return [field_writing.field(title, ids)] if ids else []
    if name.startswith("content-"):  # those in their place are made with the body
        return [raw.replace(b"\n", b"\r\n") + b"\r\n"]
    text = field_reading.text(value, charset)[:_LONGEST_TEXT]
    return [field_writing.field(title, field_writing.text(text))] if text and name != "date" else []


def _missing(fields: list[Field], envelope: Envelope, own_id: str, message_id: str, date: datetime) -> Iterator[bytes]:
    dates = [field for field in fields if field[0] == "date" and field[2].strip() and as_lines(field[1])]
    if not any(field[0] == "from" for field in fields):
        yield f"From: <{envelope.sender}>\r\n".encode()
    if not dates:
        yield field_writing.field("Date", [format_datetime(date)])
    if not own_id:
        yield field_writing.field("Message-ID", [message_id])


def _message_id(fields: Iterable[Field]) -> str:
    """The Message-ID where it can be written as it is; nothing where there is none."""
    for value in _values(fields, "message-id"):
        for found in compose.writable_ids(threads.exact_message_ids(field_reading.text(value))):
            return found
    return ""


def _travelling(envelope: Envelope, lines: Iterable[bytes]) -> Envelope:
    """The envelope with domains in A-labels; a name with a local part that is not ASCII needs SMTPUTF8."""
    addresses = [_address(each) for each in (envelope.sender, *envelope.recipients)]
    named = any(not line.isascii() and not line.lower().startswith(b"content-") for line in lines)
    needs = named or any(needs_smtputf8(each) for each in addresses)
    return Envelope(addresses[0], tuple(dict.fromkeys(addresses[1:])), needs)


def _address(email: str) -> str:
    try:
        return to_envelope_address(email)
    except ValueError:  # its server may know it; it is refused else
        return email


def _values(fields: Iterable[Field], name: str) -> Iterator[str]:
    return (value for found, _, value in fields if found == name)


def _readable(value: str) -> str:
    return field_reading.readable(value)
