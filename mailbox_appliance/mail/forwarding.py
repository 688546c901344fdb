"""Forwarding a message: its subject, the text and HTML that quote it, and what goes along (RFC 5322, RFC 2392).

A forward names no parent, so it is not a reply in the conversation. Its subject keeps the base of the original's, and
clients that thread by subject (RFC 5256 3, step 5) show both together.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html import escape

from msgspec.structs import replace

from mailbox_appliance.mail import dates, structure
from mailbox_appliance.mail.address import has_forbidden
from mailbox_appliance.mail.field_reading import without_controls
from mailbox_appliance.mail.part_writing import is_content_id, media_type
from mailbox_appliance.mail.quoted_html import embedded, with_content_ids
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.mail.threads import forward_subject
from mailbox_appliance.model.records import Address, OutgoingAttachment, ParsedAttachment, ParsedMessage

_TITLE = "---------- Forwarded message ----------"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_ATOMS = re.compile(r"[^()<>@,;:\\\"\[\]]*")  # a name that needs no quotes to be told from an address
# Marks that turn the direction of all that follows around: in a name they could make another address of it.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OCTETS = "application/octet-stream"


def _style(*rules: str) -> str:
    return ' style="' + ";".join(f"{rule}!important" for rule in rules) + '"'


# Inline and `!important` wins over every style sheet (CSS Cascade 4, 6.1), so that one of the original does not hide
# what stands above it. `all` is for readers that know it; the others get what sheets hide things by.
_SEEN = (
    *("visibility:visible", "opacity:1", "position:static", "transform:none", "translate:none", "scale:none"),
    *("filter:none", "clip-path:none", "mask:none", "content-visibility:visible", "zoom:1", "margin:0"),
)
_WHOLE = ("height:auto", "max-height:none", "overflow:visible")
_LETTERS = ("color:#000", "background:#fff", "font-size:medium", "line-height:normal", "text-indent:0")
_PAGE = _style("display:block", *_SEEN, *_WHOLE)
_BLOCK = _style("all:initial", "display:block", *_SEEN, *_WHOLE, *_LETTERS, "width:auto", "max-width:none")
_INLINE = _style("all:unset", "display:inline", *_SEEN, *_LETTERS, "font-weight:bold")
_BREAK = f"<br{_style('all:revert', 'display:inline')}>\n"


@dataclass(frozen=True)
class Forwarded:
    """A forwarded message. `parts`: what of the original goes along, as it is to be sent.

    A part that the HTML shows is `inline` and has the Content-ID by which the HTML names it; all others are
    attachments without one. It begins a new thread: it has neither In-Reply-To nor References.
    """

    subject: str
    text: str
    html: str | None
    parts: tuple[ParsedAttachment, ...]


def forwarded(
    original: ParsedMessage, comment: str | None, *, with_attachments: bool, reader: HtmlReader = TAGS
) -> Forwarded:
    """The original below a comment. Without attachments only the pictures go along that its HTML shows.

    The HTML of the original stays as its sender wrote it, style sheets included, scripts left out; it can neither end
    the block above it that tells whose it is, nor style it away.
    """
    comment, block, shown = comment or "", list(_block(original)), _Shown()
    html = None
    if original.html is not None:
        for part in original.attachments:
            shown.add(part)
        html = _html(comment, block, with_content_ids(embedded(original.html), shown.content_id_for))
    parts = (shown.to_attachment(part) for part in original.attachments)
    return Forwarded(
        subject=without_controls(forward_subject(original.subject)),
        text=_text(comment, block, _plain(original, reader)),
        html=html,
        parts=tuple(part for part in parts if with_attachments or part.disposition == "inline"),
    )


def taken_along(source: bytes, parts: Iterable[ParsedAttachment]) -> tuple[OutgoingAttachment, ...]:
    """These parts of the original, decoded, with all that their type says (such as a character set)."""
    root, _, _ = structure.read(source)
    found = ((part, structure.find(root, part.part)) for part in parts)
    return tuple(_attachment(part, there) for part, there in found if there is not None and not there.children)


@dataclass
class _Shown:
    """Which parts the HTML shows, by number, and the Content-ID that each of them is sent with."""

    by_id: dict[str, ParsedAttachment] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def add(self, part: ParsedAttachment) -> None:
        """A part may be shown. Of several with one Content-ID the first is."""
        if part.content_id:
            self.by_id.setdefault(part.content_id.casefold(), part)

    def content_id_for(self, candidates: tuple[str, ...]) -> str | None:
        """Note that the HTML names a part. Answers the Content-ID that it must name instead, or None."""
        part = next((self.by_id[each.casefold()] for each in candidates if each.casefold() in self.by_id), None)
        if part is None or not part.content_id:
            return None
        if not is_content_id(part.content_id):
            self.ids[part.part] = self._new_id(part.part)
            return self.ids[part.part]
        self.ids[part.part] = part.content_id
        return None if part.content_id in candidates else part.content_id

    def _new_id(self, number: str) -> str:
        made = f"part-{number}@forwarded"
        while made in self.by_id:
            made = f"x-{made}"
        return made

    def to_attachment(self, part: ParsedAttachment) -> ParsedAttachment:
        """The part as it is sent."""
        content_id = self.ids.get(part.part)
        return replace(part, content_id=content_id, disposition="inline" if content_id else "attachment")


def _block(original: ParsedMessage) -> Iterator[tuple[str, str]]:
    """The names and values of the header block."""
    yield "From", _people((original.sender,) if original.sender else ())
    yield "Date", _date(original)
    yield "Subject", _TURNS.sub("", original.subject)
    yield "To", _people(original.to)
    yield "Cc", _people(original.cc)


def _people(people: Iterable[Address]) -> str:
    return ", ".join(_person(each) for each in people)


def _person(person: Address) -> str:
    """As a header field shows it: a name that could be taken for an address, or for two, stands in quotes."""
    name = _TURNS.sub("", person.name) if isinstance(person.name, str) else ""
    if name and not _ATOMS.fullmatch(name):
        name = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return f"{name} <{person.email}>" if name else person.email


def _date(original: ParsedMessage) -> str:
    """The date for a reader anywhere, in the offset that its sender wrote it in."""
    written = next((value for name, value in original.headers.items() if name.lower() == "date"), "")
    moment: datetime | None = dates.read_local(written) or original.date
    if moment is None:
        return ""
    day = f"{_DAYS[moment.weekday()]}, {moment.day} {_MONTHS[moment.month - 1]} {moment.year:04d}"
    return f"{day}, {moment:%H:%M} ({moment.tzname()})"


def _plain(original: ParsedMessage, reader: HtmlReader) -> str:
    if original.text is not None or original.html is None:
        return original.text or ""
    return reader.extract(original.html, "text").text


def _text(comment: str, block: Iterable[tuple[str, str]], original: str) -> str:
    lines = [_TITLE, *(f"{name}: {value}" for name, value in block if value), "", original]
    return "\n".join([comment, "", *lines] if comment else lines)


def _html(comment: str, block: Iterable[tuple[str, str]], original: str) -> str:
    rows = (f"{_BREAK}<b{_INLINE}>{name}:</b> {escape(value)}" for name, value in block if value)
    above = f"<div{_BLOCK}>{_as_html(comment)}</div>\n{_BREAK}" if comment else ""
    body = f"{above}<div{_BLOCK}>{_TITLE}{''.join(rows)}</div>\n{_BREAK}{original}"
    return f"<!DOCTYPE html>\n<html{_PAGE}>\n<body{_PAGE}>\n{body}\n</body>\n</html>\n"


def _as_html(text: str) -> str:
    """Text as HTML that shows the same: its line breaks, and spaces that stand together."""
    lines = (re.sub("^ |  ", lambda run: "\u00a0" * len(run[0]), line) for line in _LINE_BREAK.split(text))
    return _BREAK.join(escape(line) for line in lines)


def _attachment(part: ParsedAttachment, there: structure.Part) -> OutgoingAttachment:
    return OutgoingAttachment(
        filename=part.filename,
        mime_type=_type(part.mime_type, there),
        content=there.content()[0],
        content_id=part.content_id,
        inline=part.disposition == "inline",
    )


def _type(mime_type: str, there: structure.Part) -> str:
    """The type with those of its parameters that can be written; for a type that cannot, that of any file."""
    if not _is_type(mime_type):
        return _OCTETS
    written = mime_type
    for name, value in there.parameters.items():
        quoted = re.sub(r'(["\\])', r"\\\1", value)
        if _is_type(longer := f'{written}; {name}="{quoted}"'):
            written = longer
    return written


def _is_type(text: str) -> bool:
    try:
        media_type(text)
    except ValueError:
        return False
    return not has_forbidden(text)
