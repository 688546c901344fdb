"""Parse a message, however broken, into what a person reads: header, text, HTML and attachments (RFC 5322, RFC 2045,
RFC 8621 4.1.4).

Never raises. The amounts of data that are read and kept are limited.
"""

import html as html_entities
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from msgspec.structs import replace

from mailbox_appliance.mail import encoded_words, headers, mime, search, threads
from mailbox_appliance.mail.headers import Fields
from mailbox_appliance.mail.html.analysis import TAG_READER, UNANALYZED_PART, UNANALYZED_PREVIEW, HtmlReader
from mailbox_appliance.mail.mime import MimePart
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.model.messages import Address, ParsedAttachment, ParsedMessage

# --- The parts that form the text, and that text as a person reads it (RFC 8621 4.1.4, RFC 3676) ---


MAX_BODY = 4 * 1024 * 1024  # characters of text, and of HTML, that are kept
MAX_RAW = 3 * MAX_BODY  # bytes of a part that are read: quoted-printable needs up to three for one
TEXT_TOO_LONG = own_text("The text of this message is very long; its end is not shown.")
_UNREADABLE = "This message could not be read; the raw message is shown."

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}[\"']?([A-Za-z0-9_.:-]{1,40})", re.I)
_QUOTE = re.compile(r">*")


@dataclass
class BodyParts:
    """The parts of a message sorted by use: those that form the plain text, those that form the HTML, and attachments.
    A part may be in both `text` and `html`.
    """

    text: list[MimePart] = field(default_factory=list)
    html: list[MimePart] = field(default_factory=list)
    attachments: list[MimePart] = field(default_factory=list)


def choose_bodies(root: MimePart) -> BodyParts:
    """Sort the parts of a message into plain text, HTML and attachments (RFC 8621 4.1.4). Pictures between texts become
    attachments, so that none is lost.
    """
    chosen = BodyParts()
    _sort_parts([root], root, "mixed", chosen, in_alternative=False)
    return chosen


def charset_of(root: MimePart, chosen: BodyParts) -> str | None:
    """Return the character set that 8-bit header fields probably have: that of the message, otherwise that of its first
    text. None if neither names one.
    """
    named = (part.parameters.get("charset") for part in (root, *chosen.text[:1], *chosen.html[:1]))
    return next(filter(None, named), None)


def _sort_parts(
    parts: Sequence[MimePart], main: MimePart, multipart: str, chosen: BodyParts, *, in_alternative: bool
) -> None:
    texts, htmls = len(chosen.text), len(chosen.html)
    for part in parts:
        before = len(chosen.html)
        if part.children:
            subtype = part.mime_type.partition("/")[2]
            inside = in_alternative or subtype == "alternative"
            _sort_parts(part.children, _main_part(part), subtype, chosen, in_alternative=inside)
        elif not _is_body(part, part is main, multipart):
            chosen.attachments.append(part)
        elif multipart == "alternative" or in_alternative:
            (chosen.text if part.mime_type == "text/plain" else chosen.html).append(part)
        else:
            chosen.text.append(part)
            chosen.html.append(part)
        if multipart == "alternative" and htmls < before < len(chosen.html):
            _move_superseded(chosen, htmls, before)
    if multipart == "alternative":
        # RFC 8621 4.1.4: a single form also serves as the other form.
        if len(chosen.text) == texts:
            chosen.text += chosen.html[htmls:]
        elif len(chosen.html) == htmls:
            chosen.html += chosen.text[texts:]


def _move_superseded(chosen: BodyParts, start: int, end: int) -> None:
    """Keep only the last of several alternative HTML parts (RFC 2046 5.1.4). Earlier ones, at `start` to `end` in
    `chosen.html`, become attachments, so that none is lost.
    """
    texts = {part.number for part in chosen.text}
    chosen.attachments += [part for part in chosen.html[start:end] if part.number not in texts]
    del chosen.html[start:end]


def _main_part(multipart: MimePart) -> MimePart:
    """Return the part that a multipart shows first: the root that a multipart/related names (RFC 2387 3.2), otherwise
    the first part.
    """
    if start := multipart.parameters.get("start", "").strip().removeprefix("<").removesuffix(">"):
        return next((part for part in multipart.children if part.content_id() == start), multipart.children[0])
    return multipart.children[0]


def _is_body(part: MimePart, is_main: bool, multipart: str) -> bool:
    if part.mime_type not in ("text/plain", "text/html") or part.disposition == "attachment":
        return False
    return is_main or (multipart != "related" and not part.filename())


def text_body(chosen: BodyParts, warn: Callable[[str], None], reader: HtmlReader = TAG_READER) -> str | None:
    """Return the plain text of a message, its parts joined in order. None if it has no plain part. `warn`: is called
    with each warning.

    HTML parts beside plain ones, such as footers of mailing lists, are inserted as text by `reader`, unless the plain
    parts are empty. If `reader` cannot analyze an HTML part, this one and all later HTML parts are left out, with a
    warning. Otherwise, previews and excerpts, which show no warnings, could contain hidden text.
    """
    found = [_plain_text_of(part, warn) if part.mime_type == "text/plain" else None for part in chosen.text]
    plain = [piece for piece in found if piece is not None]
    if len(plain) < len(found) and any(map(str.strip, plain)):
        plain = _with_html(chosen.text, found, warn, reader)
    return (
        _bound_text("\n\n".join(piece for piece in plain if piece) if len(plain) > 1 else plain[0], warn)
        if plain
        else None
    )


def html_body(chosen: BodyParts, warn: Callable[[str], None]) -> str | None:
    """Return the HTML of a message, with plain parts beside it inserted. None if it has no HTML part. `warn`: is called
    with each warning.
    """
    if not any(part.mime_type == "text/html" for part in chosen.html):
        return None
    pieces = [
        _decode_part(part, warn)
        if part.mime_type == "text/html"
        else f"<pre>{html_entities.escape(_plain_text_of(part, warn), quote=False)}</pre>"
        for part in chosen.html
    ]
    return _bound_text("\n".join(pieces).rstrip("\n"), warn)


def _bound_text(text: str, warn: Callable[[str], None]) -> str:
    if len(text) > MAX_BODY:
        warn(TEXT_TOO_LONG)
    return text[:MAX_BODY]


def _with_html(
    parts: Sequence[MimePart], texts: Sequence[str | None], warn: Callable[[str], None], reader: HtmlReader
) -> list[str]:
    """Return the texts of a message in order: plain ones as given, and the text of each HTML part. From the first HTML
    part on that cannot be analyzed, HTML is left out.

    `texts`: for each part its plain text, or None for HTML. `warn`: is called with each warning.
    """
    pieces: list[str] = []
    is_analyzed = True
    for part, text in zip(parts, texts, strict=True):
        if text is not None:
            pieces.append(text)
        elif is_analyzed:
            seen = reader.extract(_bound_text(_decode_part(part, warn), warn), "text")
            is_analyzed = seen.is_analyzed
            for sentence in seen.hidden.warnings() if is_analyzed else (UNANALYZED_PART,):
                warn(sentence)
            if is_analyzed:
                pieces.append(seen.text)
    return pieces


def _plain_text_of(part: MimePart, warn: Callable[[str], None]) -> str:
    text = _decode_part(part, warn)
    if part.parameters.get("format", "").lower() == "flowed":
        text = unflow(text, delete_space=part.parameters.get("delsp", "").lower() == "yes")
    return text.rstrip("\n")


def _decode_part(part: MimePart, warn: Callable[[str], None]) -> str:
    """Return the decoded text of a part, with line feeds as line breaks and without NUL."""
    raw, whole = part.content(limit=MAX_RAW, is_text=True)
    if not whole:
        warn(own_text("The encoding of a text in this message is damaged; only the readable part is shown."))
    charset = part.parameters.get("charset") or None
    if charset is None and part.mime_type == "text/html":
        charset = _meta_charset(raw[:2048])
    text, sure = encoded_words.decode_charset(raw, charset)
    if not sure:
        warn(own_text("The character set of a text in this message is missing or wrong; some characters may be wrong."))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "").removeprefix("\ufeff")  # a byte order mark that is not part of the character set


def _meta_charset(start: bytes) -> str | None:
    """Return the character set that a `meta` tag at the start of HTML declares, or None (HTML 13.2.3.2, leniently)."""
    meta = _META_CHARSET.search(start) if b"charset" in start.lower() else None
    # HTML 13.2.3.2: if this declaration is readable, the text is not UTF-16.
    return re.sub("^utf-?16.*", "utf-8", meta[1].decode("ascii").lower()) if meta else None


def unflow(text: str, *, delete_space: bool) -> str:
    """Return text in format=flowed with each paragraph joined to one line (RFC 3676 4.1 to 4.5). `delete_space`:
    whether the space at the end of each flowed line is removed (parameter DelSp).
    """
    pieces: list[str] = []
    open_depth = -1  # quote depth of an unfinished paragraph; -1: none
    for raw in text.split("\n"):
        depth = _QUOTE.match(raw).end()  # type: ignore[union-attr]
        content = raw[depth:].removeprefix(" ")  # 4.4: space-stuffing
        flows = content.endswith(" ") and content != "-- "  # 4.3: the signature line is never joined
        kept = content[:-1] if flows and delete_space else content
        if depth == open_depth and content != "-- ":
            pieces.append(kept)
        else:  # 4.5: a paragraph ends when its depth changes
            pieces += ["\n", ">" * depth + " " if depth else "", kept]
        open_depth = depth if flows else -1
    return "".join(pieces)[1:]


# --- The whole message ---


_MAX_HEADERS = 200
_MAX_HEADER_TEXT = 64 * 1024  # characters of all header fields that are kept
_LONGEST_HEADER = 16 * 1024
_LONGEST_SUBJECT = 2_000
_MAX_SHOWN_WARNINGS = 20
_SHOWN_OF_UNREADABLE = 100_000  # bytes


def parse_message(source: bytes, reader: HtmlReader = TAG_READER) -> ParsedMessage:
    """Return the content of a message. Unreadable parts are left out or replaced, with a warning.

    `reader`: extracts text from HTML parts for the plain text and the snippet.
    """
    return assemble(*mime.parse_structure(source), reader)


def assemble(
    root: MimePart, fields: list[tuple[str, str]], found: Iterable[str], reader: HtmlReader = TAG_READER
) -> ParsedMessage:
    """Return the content of a message whose parts are already found. `root`: the tree of parts. `fields`: the header
    fields. `found`: warnings so far, which are added to the result. `reader`: extracts text from HTML.
    """
    warnings = dict.fromkeys(found)
    chosen = choose_bodies(root)
    text = text_body(chosen, warnings.setdefault, reader)
    markup = html_body(chosen, warnings.setdefault)
    named, charset = root.fields, charset_of(root, chosen)
    senders = _addresses_of(named, "from", charset) or _addresses_of(named, "sender", charset)
    message_ids = _message_ids_of(named, "message-id")
    return ParsedMessage(
        message_id=message_ids[0] if message_ids else None,
        in_reply_to=_message_ids_of(named, "in-reply-to"),
        references=_message_ids_of(named, "references"),
        subject=headers.decode_text(headers.first_value(named, "subject"), charset)[:_LONGEST_SUBJECT],
        sender=senders[0] if senders else None,
        to=_addresses_of(named, "to", charset),
        cc=_addresses_of(named, "cc", charset),
        bcc=_addresses_of(named, "bcc", charset),
        reply_to=_addresses_of(named, "reply-to", charset),
        date=headers.read_date(headers.first_value(named, "date")),
        headers=_decode_headers(fields, charset),
        text=text,
        html=markup,
        snippet=search.snippet(text if text and text.strip() else _preview_html(markup, reader, warnings.setdefault)),
        attachments=tuple(_to_parsed_attachment(part) for part in chosen.attachments),
        warnings=_own_warnings(warnings),
    )


def _own_warnings(found: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings to show with a message, at most 20. Only those of the type `OwnText` are kept, since any
    other may contain words of the message.
    """
    return tuple(str(one) for one in found if isinstance(one, OwnText))[:_MAX_SHOWN_WARNINGS]


def _preview_html(markup: str | None, reader: HtmlReader, warn: Callable[[str], object]) -> str:
    if not markup:
        return ""
    seen = reader.extract(markup, "beginning")
    if seen.is_analyzed:
        return seen.text
    warn(UNANALYZED_PREVIEW)
    return ""  # a preview shows no warnings, so it must not contain hidden text


def parse_unreadable(source: bytes) -> ParsedMessage:
    """Return a message whose text is the start of the raw message, with a warning. Callers use this if `parse_message`
    fails because of an internal error.
    """
    text = source[:_SHOWN_OF_UNREADABLE].decode("ascii", "replace").replace("\0", "")
    return replace(parse_message(b""), text=text, warnings=(_UNREADABLE,))


def attachment_bytes(source: bytes, part: str) -> bytes | None:
    """Return the decoded bytes of the part with this number, such as `2` or `1.3`. None if it does not exist or is a
    multipart. `source`: the raw message.
    """
    return attachments_bytes(source)(part)


def attachments_bytes(source: bytes) -> Callable[[str], bytes | None]:
    """Parse a message, and return a function that returns the decoded bytes of a part by its number, or None if it does
    not exist or is a multipart.
    """
    root, _, _ = mime.parse_structure(source)

    def bytes_of(part: str) -> bytes | None:
        found = mime.find_part(root, part)
        return None if found is None or found.children else found.content()[0]

    return bytes_of


def part_sizes(source: bytes) -> dict[tuple[str, str], int]:
    """Return the decoded size in bytes of each part, by its number and type. Multiparts are left out."""
    sizes: dict[tuple[str, str], int] = {}
    left = [mime.parse_structure(source)[0]]
    while left:
        part = left.pop()
        if part.children:
            left += part.children
        else:
            sizes[part.number, part.mime_type] = part.size()
    return sizes


def header_message_id(source: bytes) -> str | None:
    """Return the Message-ID of a raw message with angle brackets, or None. Only the header is read."""
    header = source[: min(headers.body_start(source), headers.MAX_HEADER)]
    ids = _message_ids_of(headers.fields_by_name(headers.split_fields(header)), "message-id")
    return ids[0] if ids else None


def _addresses_of(fields: Fields, name: str, charset: str | None) -> tuple[Address, ...]:
    """Return the addresses of all header fields of this name. In practice, some messages have one To field for each
    recipient. `charset`: for 8-bit bytes that are not UTF-8.
    """
    values = fields.get(name)
    if not values:
        return ()
    if len(values) == 1:
        return headers.read_addresses(headers.decode_octets(values[0], charset))
    found = [headers.read_addresses(headers.decode_octets(value, charset)) for value in values[:50]]
    return tuple(chain.from_iterable(found))


def _message_ids_of(fields: Fields, name: str) -> tuple[str, ...]:
    value = headers.first_value(fields, name)
    return threads.message_ids(headers.decode_text(value)) if value else ()


def _decode_headers(fields: list[tuple[str, str]], charset: str | None) -> dict[str, str]:
    """Return the decoded header fields by name as written. If a field is repeated, the first one counts.

    For `Received` and other trace fields, that is the newest one, which the recipient's own server added.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    room = _MAX_HEADER_TEXT
    for name, raw in fields:
        lower = name.lower()
        if lower in seen:
            continue
        seen.add(lower)
        value = headers.decode_text(raw, charset)
        if len(value) > _LONGEST_HEADER or len(value) > room:
            value = value[: min(_LONGEST_HEADER, room)]
        found[name] = value
        room -= len(value) + len(name)
        if room <= 0 or len(found) >= _MAX_HEADERS:
            break
    return found


def _to_parsed_attachment(part: MimePart) -> ParsedAttachment:
    disposition = part.disposition
    return ParsedAttachment(
        part=part.number,
        filename=part.filename() or default_part_name(part),
        mime_type=headers.without_controls(part.mime_type),
        size_bytes=part.size(),
        content_id=part.content_id(),
        disposition="inline" if disposition == "inline" else "attachment" if disposition else None,
    )


def default_part_name(part: MimePart) -> str:
    """Return a file name for a part that has none: the subject of an attached message, otherwise a name with the number
    of the part.
    """
    if part.mime_type in ("message/rfc822", "message/global"):  # message/global: RFC 6532 3.7
        content, _ = part.content()
        header = content[: min(headers.body_start(content), headers.MAX_HEADER)]
        subject = headers.decode_text(
            headers.first_value(headers.fields_by_name(headers.split_fields(header)), "subject")
        )
        # A subject is not a path: slashes are part of its text.
        if name := headers.safe_file_name(subject[:150].replace("/", "-").replace("\\", "-")):
            return f"{name}.eml"
    return headers.default_file_name(f"attachment-{part.number}", part.mime_type)
