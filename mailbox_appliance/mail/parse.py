"""From the bytes of a message, however broken, to what a person reads (RFC 5322, RFC 2045). Never raises; bounded."""

from collections.abc import Callable, Iterable
from itertools import chain

from msgspec.structs import replace

from mailbox_appliance.mail import address_lists, bodies, dates, excerpt, field_reading, file_names, structure, threads
from mailbox_appliance.mail.field_reading import Fields
from mailbox_appliance.mail.readers import TAGS, UNANALYZED_PREVIEW, HtmlReader
from mailbox_appliance.mail.structure import Part
from mailbox_appliance.model.records import Address, ParsedAttachment, ParsedMessage

_MAX_HEADERS = 200
_MAX_HEADER_TEXT = 64 * 1024  # characters of all header fields that are kept
_LONGEST_HEADER = 16 * 1024
_LONGEST_SUBJECT = 2_000
_MAX_SHOWN_WARNINGS = 20
_SHOWN_OF_UNREADABLE = 100_000  # bytes


def parse(source: bytes, reader: HtmlReader = TAGS) -> ParsedMessage:
    """Return what a message says. Anything that cannot be read is left out or replaced, with a warning.

    `reader`: for the HTML that makes the text or the snippet.
    """
    return assemble(*structure.read(source), reader)


def assemble(
    root: Part, fields: list[tuple[str, str]], found: Iterable[str], reader: HtmlReader = TAGS
) -> ParsedMessage:
    """Return what a message says, from the tree of its parts, its header fields, and the warnings so far."""
    warnings = dict.fromkeys(found)
    chosen = bodies.choose(root)
    text = bodies.text_of(chosen, warnings.setdefault, reader)
    markup = bodies.html_of(chosen, warnings.setdefault)
    named, charset = root.fields, bodies.charset_of(root, chosen)
    senders = _addresses(named, "from", charset) or _addresses(named, "sender", charset)
    message_ids = _message_ids(named, "message-id")
    return ParsedMessage(
        message_id=message_ids[0] if message_ids else None,
        in_reply_to=_message_ids(named, "in-reply-to"),
        references=_message_ids(named, "references"),
        subject=field_reading.text(field_reading.first(named, "subject"), charset)[:_LONGEST_SUBJECT],
        sender=senders[0] if senders else None,
        to=_addresses(named, "to", charset),
        cc=_addresses(named, "cc", charset),
        bcc=_addresses(named, "bcc", charset),
        reply_to=_addresses(named, "reply-to", charset),
        date=dates.read(field_reading.first(named, "date")),
        headers=_headers(fields, charset),
        text=text,
        html=markup,
        snippet=excerpt.snippet(text if text and text.strip() else _start_of(markup, reader, warnings.setdefault)),
        attachments=tuple(_listed(part) for part in chosen.attachments),
        warnings=tuple(warnings)[:_MAX_SHOWN_WARNINGS],
    )


def _start_of(markup: str | None, reader: HtmlReader, warn: Callable[[str], object]) -> str:
    if not markup:
        return ""
    seen = reader.extract(markup, "beginning")
    if seen.is_analyzed:
        return seen.text
    warn(UNANALYZED_PREVIEW)
    return ""  # a line of preview comes without warnings, so it must not show hidden text


def unreadable(source: bytes) -> ParsedMessage:
    """What is shown of a message on which `parse` fails, against its promise: its beginning as it is, and a warning."""
    text = source[:_SHOWN_OF_UNREADABLE].decode("ascii", "replace").replace("\0", "")
    return replace(parse(b""), text=text, warnings=("This message could not be read; its source is shown.",))


def attachment_bytes(source: bytes, part: str) -> bytes | None:
    """The decoded bytes of the part with this number; None where there is none, or where it only holds other parts."""
    return attachments_bytes(source)(part)


def attachments_bytes(source: bytes) -> Callable[[str], bytes | None]:
    """As `attachment_bytes`, for several parts of one message, which is read once."""
    root, _, _ = structure.read(source)

    def bytes_of(part: str) -> bytes | None:
        found = structure.find(root, part)
        return None if found is None or found.children else found.content()[0]

    return bytes_of


def part_sizes(source: bytes) -> dict[tuple[str, str], int]:
    """How many bytes each part has, decoded, by its number and type; of what holds other parts none is told."""
    sizes: dict[tuple[str, str], int] = {}
    left = [structure.read(source)[0]]
    while left:
        part = left.pop()
        if part.children:
            left += part.children
        else:
            sizes[part.number, part.mime_type] = part.size()
    return sizes


def header_message_id(source: bytes) -> str | None:
    """The Message-ID, from the header alone."""
    header = source[: min(field_reading.body_start(source), field_reading.MAX_HEADER)]
    ids = _message_ids(field_reading.by_name(field_reading.split(header)), "message-id")
    return ids[0] if ids else None


def _addresses(fields: Fields, name: str, charset: str | None) -> tuple[Address, ...]:
    """The addresses of all fields of this name. Seen in practice: one To field for each recipient."""
    values = fields.get(name)
    if not values:
        return ()
    if len(values) == 1:
        return address_lists.read(field_reading.readable(values[0], charset))
    found = [address_lists.read(field_reading.readable(value, charset)) for value in values[:50]]
    return tuple(chain.from_iterable(found))


def _message_ids(fields: Fields, name: str) -> tuple[str, ...]:
    value = field_reading.first(fields, name)
    return threads.message_ids(field_reading.text(value)) if value else ()


def _headers(fields: list[tuple[str, str]], charset: str | None) -> dict[str, str]:
    """The header fields, decoded, under their names as written. Of a repeated field the first counts.

    For `Received` and other trace fields that is the newest, and the one of the reader's own server.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    room = _MAX_HEADER_TEXT
    for name, raw in fields:
        lower = name.lower()
        if lower in seen:
            continue
        seen.add(lower)
        value = field_reading.text(raw, charset)
        if len(value) > _LONGEST_HEADER or len(value) > room:
            value = value[: min(_LONGEST_HEADER, room)]
        found[name] = value
        room -= len(value) + len(name)
        if room <= 0 or len(found) >= _MAX_HEADERS:
            break
    return found


def _listed(part: Part) -> ParsedAttachment:
    disposition = part.disposition
    return ParsedAttachment(
        part=part.number,
        filename=part.filename() or made_up_name(part),
        mime_type=field_reading.without_controls(part.mime_type),
        size_bytes=part.size(),
        content_id=part.content_id(),
        disposition="inline" if disposition == "inline" else "attachment" if disposition else None,
    )


def made_up_name(part: Part) -> str:
    """A name for a part that has none: the subject of an attached message, else the number of the part."""
    if part.mime_type in ("message/rfc822", "message/global"):  # the latter: RFC 6532 3.7
        content, _ = part.content()
        header = content[: min(field_reading.body_start(content), field_reading.MAX_HEADER)]
        subject = field_reading.text(field_reading.first(field_reading.by_name(field_reading.split(header)), "subject"))
        # A subject is no path: its slashes are part of what it says.
        if name := file_names.plain(subject[:150].replace("/", "-").replace("\\", "-")):
            return f"{name}.eml"
    return file_names.made_up(f"attachment-{part.number}", part.mime_type)
