"""From a message as a person means it to the bytes that travel (RFC 5322, RFC 2045), ready for every server.

The bytes are 7-bit with CRLF, so that no server has to offer 8BITMIME. One exception: an address whose local part is
not ASCII exists only in UTF-8, and stands so in its header field (RFC 6532); the envelope tells it by `smtputf8`.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from email.utils import format_datetime

from mailbox_appliance.mail import field_writing, part_writing
from mailbox_appliance.mail.address import domain_of, has_forbidden, needs_smtputf8, to_envelope_address
from mailbox_appliance.mail.composed_row import row_of
from mailbox_appliance.mail.part_writing import WrittenPart
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import Address, ComposedMessage, Envelope, OutgoingMessage

_LONGEST_TEXT = 10_000
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")
_DATE_FIELD = re.compile(rb"^Date[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*", re.I | re.M)


def compose(message: OutgoingMessage, *, message_id: str, date: datetime) -> ComposedMessage:
    """The bytes of a message, its envelope, and the Bcc field for our own copy; the same input gives the same bytes.

    Raises ValueError for what no header field can hold: a line break or NUL (also hidden in what looks like an encoded
    word), no address, no MIME type, no content id.
    """
    lines, text = list(head(message, message_id, date)), _plain_text(message)
    # The boundaries follow from the Message-ID, which is random: nobody can put one into a text beforehand.
    content = _content(message, text, hashlib.sha256(message_id.encode()).hexdigest()[:24])
    header, bcc_header = b"".join([*lines, b"MIME-Version: 1.0\r\n", content.fields]), bcc_field(message.bcc)
    return ComposedMessage(
        wire=Content(header + b"\r\n", content.body),
        bcc_header=bcc_header,
        envelope=envelope_of(message),
        message_id=message_id,
        row=row_of(message, text, content.files, header + bcc_header, date),
    )


def new_message_id(sender_email: str) -> str:
    """A Message-ID that nobody else makes: random, at the sender's domain (RFC 5322 3.6.4)."""
    return f"<{secrets.token_hex(16)}@{domain_of(to_envelope_address(sender_email))}>"


def bcc_field(people: Sequence[Address]) -> bytes:
    """The Bcc field, for our own copy alone; nothing where it would name nobody."""
    return field_writing.field("Bcc", field_writing.mailboxes(people)) if people else b""


def with_bcc(wire: Content, bcc_header: bytes) -> Content:
    """The message as our own copy holds it: with its Bcc field, at the end of the header."""
    if not bcc_header:
        return wire
    head, rest = wire.split_header()
    return Content(head + bcc_header, rest)


def redated(wire: Content, date: datetime) -> Content:
    """The same message with this Date: in place of the first one in its header, else at the end of the header."""
    head, rest = wire.split_header()
    written = field_writing.field("Date", [format_datetime(date)])
    fields, found = _DATE_FIELD.subn(written, head, count=1)
    return Content(fields + (b"" if found else written), rest)


def has_text(text: str | None, html: str | None) -> bool:
    """Whether there is something to read beside subject and files: more than white space, or something in the HTML."""
    if text and text.strip():
        return True
    if not html or not html.strip():
        return False
    # A picture, also one that is not attached, is something to see.
    return "<img" in html.lower() or TAGS.has_text(html)


def _header_texts(message: OutgoingMessage) -> Iterator[str]:
    for address in (message.sender, *message.to, *message.cc, *message.bcc):
        yield address.email
        yield address.name if isinstance(address.name, str) else ""
    yield message.subject
    for attachment in message.attachments:
        yield from (attachment.filename, attachment.mime_type, attachment.content_id or "")


def head(message: OutgoingMessage, message_id: str, date: datetime) -> Iterator[bytes]:
    """The header fields that say from whom, to whom, what about and when; no Bcc. Raises ValueError as `compose`."""
    if any(len(text) > _LONGEST_TEXT or has_forbidden(text) for text in _header_texts(message)):
        raise ValueError("a header field cannot hold line breaks, control characters or very long text")
    if not _is_message_id(message_id):
        raise ValueError("not a Message-ID")
    yield field_writing.field("From", field_writing.mailbox(message.sender))
    if message.to:
        yield field_writing.field("To", field_writing.mailboxes(message.to))
    elif not message.cc:
        # Seen in practice: servers that add such a line, or refuse a message that names nobody.
        yield b"To: undisclosed-recipients:;\r\n"
    if message.cc:
        yield field_writing.field("Cc", field_writing.mailboxes(message.cc))
    if message.subject:
        yield field_writing.field("Subject", field_writing.text(message.subject))
    yield field_writing.field("Date", [format_datetime(date)])
    yield field_writing.field("Message-ID", [message_id])
    if parents := writable_ids([message.in_reply_to or ""]):
        yield field_writing.field("In-Reply-To", parents)
    if ancestors := writable_ids(message.references):
        yield field_writing.field("References", ancestors)


def writable_ids(ids: Iterable[str]) -> list[str]:
    """The Message-IDs that can be written; seen in practice: parents whose id holds spaces or 8-bit characters."""
    bracketed = (each if each.startswith("<") else f"<{each}>" for each in ids)
    return [each for each in bracketed if _is_message_id(each)]


def _is_message_id(text: str) -> bool:
    return _MESSAGE_ID.fullmatch(text) is not None and not has_forbidden(text)


def _content(message: OutgoingMessage, text: str, seed: str) -> WrittenPart:
    """The tree of parts: mixed(alternative(text, related(html, images...)), files...), each level only where needed."""
    with_html = message.html is not None
    shown = [part_writing.file_part(a) for a in message.attachments if with_html and a.inline and a.content_id]
    files = [part_writing.file_part(a) for a in message.attachments if not (with_html and a.inline and a.content_id)]
    body = part_writing.text_part(text, "plain")
    if message.html is not None:
        html = part_writing.text_part(message.html, "html")
        if shown:
            html = part_writing.multipart("related", [html, *shown], f"=_related_{seed}")
        body = part_writing.multipart("alternative", [body, html], f"=_alternative_{seed}")
    return part_writing.multipart("mixed", [body, *files], f"=_mixed_{seed}") if files else body


def _plain_text(message: OutgoingMessage) -> str:
    """The text, or that of the tags where there is none but white space: `with_text` makes a better one."""
    if message.html is None or (message.text and message.text.strip()):
        return message.text or ""
    return TAGS.extract(message.html, "text").text


def with_text(message: OutgoingMessage, reader: HtmlReader) -> OutgoingMessage:
    """Return the message with a plain text, made from its HTML where it has none but white space."""
    if message.html is None or (message.text and message.text.strip()):
        return message
    return replace(message, text=reader.extract(message.html, "text").text)


def envelope_of(message: OutgoingMessage, *, also_named: Iterable[Address] = ()) -> Envelope:
    """Who gets it, each once. Local parts are told apart by case: only their server may say that they are the same.

    SMTPUTF8 is needed also where the header alone names somebody whose local part is not ASCII.
    """
    recipients = [to_envelope_address(address.email) for address in (*message.to, *message.cc, *message.bcc)]
    sender = to_envelope_address(message.sender.email)
    named = (to_envelope_address(address.email) for address in also_named)
    return Envelope(
        sender=sender,
        recipients=tuple(dict.fromkeys(recipients)),
        smtputf8=any(needs_smtputf8(each) for each in (sender, *recipients, *named)),
    )
