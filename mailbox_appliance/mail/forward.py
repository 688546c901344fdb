"""Forward a message: subject, quoted text and HTML, and the attachments and pictures that are sent with it (RFC 5322,
RFC 2392).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html import escape, unescape

from msgspec.structs import replace

from mailbox_appliance.mail import headers, mime
from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.mail.compose import is_content_id, parse_media_type
from mailbox_appliance.mail.headers import without_controls
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.html.tags import find_attribute, replace_content_ids
from mailbox_appliance.mail.threads import forward_subject
from mailbox_appliance.model.messages import Address, OutgoingAttachment, ParsedAttachment, ParsedMessage

# --- HTML of a received message inside the HTML of another: unchanged, except for what would break the other ---
#
# Its style sheets affect the comment and the header block too, as in all mail programs.


# Possessive (`++`): nothing here can match in a second way, and backtracking would need memory for every character.
_TOKEN = re.compile(
    r"""<!--(?:-?>|.*?--!?>|.*)                 # a comment (HTML 13.2.5.43); an unclosed one goes to the end
    | <[!?][^>]*>?
    | (?P<text>(?:[^<]++|<+(?=<)|<(?!/?[A-Za-z]|[!?]))++)
    | <(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,30})
      (?P<attributes>(?:[^<>"']++|"[^"]{0,5000}+"|'[^']{0,5000}+')*+)>
    | </?[A-Za-z][^<>]*>?                       # a tag with broken quotes""",
    re.X | re.S,
)
_RAW = re.compile(r"</(script|style|textarea|title|noscript)", re.I)
_OUTER = frozenset({"html", "head", "body"})
_FOR_THE_WHOLE = frozenset({"base", "meta"})  # a character set, a refresh, the base address of links
_DECLARATION = re.compile(r"<(?:!doctype|\?xml)", re.I)
_SCRIPT = re.compile(r"<(/?)script(?![A-Za-z0-9:-])", re.I)
_WHOLE_COMMENT = re.compile(r"<!--(?:-?>|.*--!?>)\Z", re.S)
_END_OF_TITLE = re.compile(r"</title[^>]{0,100}>", re.I)
_COLOR = re.compile(r"#?[A-Za-z0-9]{3,20}")


def embed_html(html: str) -> str:
    """Return an HTML document as a single `div` for use inside another document. It has the colors, style and direction
    of the `body`.

    Scripts are left out, and unclosed elements cannot extend beyond the `div`.
    """
    pieces: list[str] = []
    position, pictures, opening = 0, 0, "<div>"
    while match := _TOKEN.match(html, position):
        start, position = position, match.end()
        name = (match["name"] or "").lower()
        if name == "svg":
            pictures += -1 if match["close"] else 1
        if name == "title" and pictures <= 0:
            position = _after_title(html, position) if not match["close"] else position
        elif name == "body" and not match["close"] and opening == "<div>":
            opening = _as_div(match["attributes"])
        elif script := _SCRIPT.match(match[0]):
            position = position if script[1] else _end_of_raw_text("script", html, position)
        elif name == "style" and not match["close"]:
            position = _end_of_raw_text(name, html, position)
            pieces.append(html[start:position] + ("</style>" if position == len(html) else ""))
        elif not (name in _OUTER or name in _FOR_THE_WHOLE or (not name and _is_left_out(match[0]))):
            pieces.append(match[0])
    return f"{opening}{''.join(pieces).strip()}{html[position:]}</div>"


def _is_left_out(token: str) -> bool:
    """Whether a token that is not a tag is left out: a declaration such as `doctype`, or an unclosed comment."""
    if token.startswith("<!--"):
        return not _WHOLE_COMMENT.match(token)
    return _DECLARATION.match(token) is not None


def _after_title(html: str, position: int) -> int:
    found = _END_OF_TITLE.search(html, position)
    return found.end() if found else len(html)


def _end_of_raw_text(name: str, html: str, start: int) -> int:
    """Return the position of the closing tag of a script or style, or the end of the HTML if there is none."""
    for match in _RAW.finditer(html, start):
        if match[1].lower() == name:
            return match.start()
    return len(html)


def _as_div(attributes: str) -> str:
    """Return the opening tag of a `div` that looks like a `body` with these attributes."""
    style = unescape(find_attribute(attributes, "style")).strip().rstrip(";")
    for name, rule in (("bgcolor", "background-color"), ("text", "color")):
        color = unescape(find_attribute(attributes, name)).strip()
        style += f"; {rule}: {color}" if _COLOR.fullmatch(color) else ""
    kept = {"style": style.removeprefix("; ")} | {
        name: unescape(find_attribute(attributes, name)) for name in ("dir", "lang", "class")
    }
    written = (f' {name}="{escape(value)}"' for name, value in kept.items() if value)
    return f"<div{''.join(written)}>"


# --- The forward: header block, quoted text and HTML, and the parts that are sent with it ---


_TITLE = "---------- Forwarded message ----------"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_ATOMS = re.compile(r"[^()<>@,;:\\\"\[\]]*")  # a name that looks unlike an address even without quotes
# Marks that reverse the direction of the text after them: in a name they could make an address look like another.
_DIRECTION_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OCTET_STREAM = "application/octet-stream"


def _style(*rules: str) -> str:
    return ' style="' + ";".join(f"{rule}!important" for rule in rules) + '"'


# Inline and `!important`, which has priority over every style sheet (CSS Cascade 4, 6.1), so that the original cannot
# hide the text above it. `all` is for readers that support it; the other properties cover common ways to hide text.
_SHOWN_STYLE = (
    *("visibility:visible", "opacity:1", "position:static", "transform:none", "translate:none", "scale:none"),
    *("filter:none", "clip-path:none", "mask:none", "content-visibility:visible", "zoom:1", "margin:0"),
)
_WHOLE_STYLE = ("height:auto", "max-height:none", "overflow:visible")
_LETTER_STYLE = ("color:#000", "background:#fff", "font-size:medium", "line-height:normal", "text-indent:0")
_PAGE = _style("display:block", *_SHOWN_STYLE, *_WHOLE_STYLE)
_BLOCK = _style(
    "all:initial", "display:block", *_SHOWN_STYLE, *_WHOLE_STYLE, *_LETTER_STYLE, "width:auto", "max-width:none"
)
_INLINE = _style("all:unset", "display:inline", *_SHOWN_STYLE, *_LETTER_STYLE, "font-weight:bold")
_BREAK = f"<br{_style('all:revert', 'display:inline')}>\n"


@dataclass(frozen=True)
class ForwardedMessage:
    """Content of a forward. `parts`: the attachments and pictures of the original that are sent with it.

    A part that the HTML shows is `inline` and has the Content-ID by which the HTML refers to it. All other parts are
    attachments without a Content-ID. A forward starts a new thread: it has neither In-Reply-To nor References.
    """

    subject: str
    text: str
    html: str | None
    parts: tuple[ParsedAttachment, ...]


def forward_message(
    original: ParsedMessage, comment: str | None, *, with_attachments: bool, reader: HtmlReader = TAG_READER
) -> ForwardedMessage:
    """Return a forward: the comment, a block with sender, date, subject and recipients of the original, and the
    original.

    Without `with_attachments`, only pictures that the original's HTML shows are included. `reader`: makes a plain text
    from the HTML if the original has none.

    The HTML of the original stays as its sender wrote it, with style sheets but without scripts. It cannot hide or
    restyle the block above it, which names the original sender.
    """
    comment, block, shown = comment or "", list(_header_block(original)), _ShownParts()
    html = None
    if original.html is not None:
        for part in original.attachments:
            shown.add(part)
        html = _forward_html(comment, block, replace_content_ids(embed_html(original.html), shown.content_id_for))
    parts = (shown.to_attachment(part) for part in original.attachments)
    return ForwardedMessage(
        subject=without_controls(forward_subject(original.subject)),
        text=_forward_text(comment, block, _original_text(original, reader)),
        html=html,
        parts=tuple(part for part in parts if with_attachments or part.disposition == "inline"),
    )


def decode_parts(source: bytes, parts: Iterable[ParsedAttachment]) -> tuple[OutgoingAttachment, ...]:
    """Return these parts of the original for sending: decoded, with all parameters of their types, such as a character
    set. Parts that do not exist are left out. `source`: the original.
    """
    root, _, _ = mime.parse_structure(source)
    found = ((part, mime.find_part(root, part.part)) for part in parts)
    return tuple(_to_attachment(part, there) for part, there in found if there is not None and not there.children)


@dataclass
class _ShownParts:
    """The parts of the original that its HTML shows. They are recorded while its references to Content-IDs are read.

    - by_id: the parts that the HTML may show, by Content-ID in lower case.
    - ids: for each part that the HTML does show, by part number, the Content-ID under which it is sent.
    """

    by_id: dict[str, ParsedAttachment] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def add(self, part: ParsedAttachment) -> None:
        """Add a part that the HTML may show. If several have the same Content-ID, the first one counts."""
        if part.content_id:
            self.by_id.setdefault(part.content_id.casefold(), part)

    def content_id_for(self, candidates: tuple[str, ...]) -> str | None:
        """Return the new Content-ID for a reference in the HTML, and record that the HTML shows this part. None if the
        reference stays unchanged, as for one to no known part.

        `candidates`: the possible readings of the Content-ID in the reference.
        """
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
        """Return the part in the form in which it is sent: inline with its Content-ID if the HTML shows it, otherwise
        an attachment.
        """
        content_id = self.ids.get(part.part)
        return replace(part, content_id=content_id, disposition="inline" if content_id else "attachment")


def _header_block(original: ParsedMessage) -> Iterator[tuple[str, str]]:
    """Yield the lines about the original that a forward shows above it: From, Date, Subject, To and Cc, each with its
    value, which may be empty.
    """
    yield "From", _format_people((original.sender,) if original.sender else ())
    yield "Date", _format_date(original)
    yield "Subject", _DIRECTION_CONTROLS.sub("", original.subject)
    yield "To", _format_people(original.to)
    yield "Cc", _format_people(original.cc)


def _format_people(people: Iterable[Address]) -> str:
    return ", ".join(_format_person(each) for each in people)


def _format_person(person: Address) -> str:
    """Return a person as `Name <address>`. A name that could be read as an address, or as two people, is quoted.
    Direction controls are removed.
    """
    name = _DIRECTION_CONTROLS.sub("", person.name) if isinstance(person.name, str) else ""
    if name and not _ATOMS.fullmatch(name):
        name = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return f"{name} <{person.email}>" if name else person.email


def _format_date(original: ParsedMessage) -> str:
    """Return the date of the original such as `Mon, 2 Mar 2026, 12:30 (UTC+01:00)`: in the UTC offset that its sender
    used. Empty if it has none.
    """
    written = next((value for name, value in original.headers.items() if name.lower() == "date"), "")
    moment: datetime | None = headers.read_local_date(written) or original.date
    if moment is None:
        return ""
    day = f"{_DAYS[moment.weekday()]}, {moment.day} {_MONTHS[moment.month - 1]} {moment.year:04d}"
    return f"{day}, {moment:%H:%M} ({moment.tzname()})"


def _original_text(original: ParsedMessage, reader: HtmlReader) -> str:
    if original.text is not None or original.html is None:
        return original.text or ""
    return reader.extract(original.html, "text").text


def _forward_text(comment: str, block: Iterable[tuple[str, str]], original: str) -> str:
    lines = [_TITLE, *(f"{name}: {value}" for name, value in block if value), "", original]
    return "\n".join([comment, "", *lines] if comment else lines)


def _forward_html(comment: str, block: Iterable[tuple[str, str]], original: str) -> str:
    rows = (f"{_BREAK}<b{_INLINE}>{name}:</b> {escape(value)}" for name, value in block if value)
    above = f"<div{_BLOCK}>{_text_to_html(comment)}</div>\n{_BREAK}" if comment else ""
    body = f"{above}<div{_BLOCK}>{_TITLE}{''.join(rows)}</div>\n{_BREAK}{original}"
    return f"<!DOCTYPE html>\n<html{_PAGE}>\n<body{_PAGE}>\n{body}\n</body>\n</html>\n"


def _text_to_html(text: str) -> str:
    """Return HTML that shows a text with its line breaks and repeated spaces."""
    lines = (re.sub("^ |  ", lambda run: "\u00a0" * len(run[0]), line) for line in _LINE_BREAK.split(text))
    return _BREAK.join(escape(line) for line in lines)


def _to_attachment(part: ParsedAttachment, there: mime.MimePart) -> OutgoingAttachment:
    return OutgoingAttachment(
        filename=part.filename,
        mime_type=_writable_type(part.mime_type, there),
        content=there.content()[0],
        content_id=part.content_id,
        inline=part.disposition == "inline",
    )


def _writable_type(mime_type: str, there: mime.MimePart) -> str:
    """Return the MIME type with those of its parameters that can be written."""
    if not _is_media_type(mime_type):
        return _OCTET_STREAM
    written = mime_type
    for name, value in there.parameters.items():
        quoted = re.sub(r'(["\\])', r"\\\1", value)
        if _is_media_type(longer := f'{written}; {name}="{quoted}"'):
            written = longer
    return written


def _is_media_type(text: str) -> bool:
    try:
        parse_media_type(text)
    except ValueError:
        return False
    return not has_forbidden_characters(text)
