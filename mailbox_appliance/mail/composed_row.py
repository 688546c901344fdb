"""What a reader of a composed message is shown, from the values that it was composed of.

It equals what parsing the bytes gives, without the time that takes. Values that are read in another way than they were
written (addresses beyond ASCII, controls in a text, what looks like an encoded word) have no such row, and neither has
a long message: rows stay in memory while messages wait to be sent.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from mailbox_appliance.mail import field_writing
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.mail.excerpt import snippet
from mailbox_appliance.model.records import Address, OutgoingMessage, ParsedAttachment, ParsedMessage

_LONGEST_HEADER = 4_000  # bytes; so the bounds of the parser for fields, addresses and Message-IDs are not met
_LONGEST_BODY = 64_000  # characters of text and HTML
_LONGEST_VALUE = 500
_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&*+/^_`{|}~-]+@[A-Za-z0-9.-]+")
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ud800-\udfff]")


def row_of(
    message: OutgoingMessage, text: str, files: Sequence[ParsedAttachment], header: bytes, date: datetime
) -> ParsedMessage | None:
    """The message as `parse` reads it, or None where only the bytes can tell.

    `text`: the plain text that was written, `header`: all fields that were written, with Bcc.
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
    """The texts that stand in header fields."""
    yield message.subject
    for address in (message.sender, *message.to, *message.cc, *message.bcc):
        yield _name(address)
    for file in files:
        yield from (file.filename, file.content_id or "")


def _is_read_back(value: str) -> bool:
    """Whether a text in a header field is read as it was written: printable, with single spaces, nothing hidden."""
    is_single_spaced = value.isprintable() and value == " ".join(value.split())
    return is_single_spaced and len(value) <= _LONGEST_VALUE and "=?" not in value and not value.startswith("'")


def _is_text_read_back(text: str, html: str) -> bool:
    if len(text) + len(html) > _LONGEST_BODY or _ODD.search(text) or _ODD.search(html):
        return False
    return bool(text.strip()) or not html  # else the HTML is analyzed for the snippet


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
    """An address as its field shows it: with its name decoded, or quoted as it was written."""
    *phrase, email = field_writing.mailbox(address)
    if phrase and "=?" in phrase[0]:
        phrase = [_name(address)]
    return " ".join([*phrase, email])
