"""From HTML to text that reads well. Nothing is fetched; what cannot be seen is left out.

A reader of its own instead of a library: `html.parser`, and all that is built on it, takes quadratic time on unclosed
tags (eight thousand times `<a ` need seven seconds), and whoever can send a mail could stop the appliance. Here every
character is looked at a bounded number of times.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

import msgspec

from mailbox_appliance.mail.charsets import without_surrogates

MAX_INPUT = 2 * 1024 * 1024  # characters that are read
_ENOUGH_FOR_A_START = 600  # characters of what a sender wrote

# Possessive (`++`): nothing here can match in a second way, and ways back would be kept for every character.
TOKEN = re.compile(
    r"""<!--(?:-?>|.*?--!?>|.*)                 # a comment (HTML 13.2.5.43); an unclosed one goes to the end
    | <[!?][^>]*>?
    | (?P<text>(?:[^<]++|<+(?=<)|<(?!/?[A-Za-z]|[!?]))++)
    | <(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]{0,30})
      (?P<attributes>(?:[^<>"']++|"[^"]{0,5000}+"|'[^']{0,5000}+')*+)>
    | </?[A-Za-z][^<>]*>?                       # a tag with broken quotes""",
    re.X | re.S,
)
_ATTRIBUTE = re.compile(r"""([A-Za-z-]{1,20})\s{0,10}=\s{0,10}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_HIDING = re.compile(r"display\s{0,5}:\s{0,5}none|visibility\s{0,5}:\s{0,5}hidden|mso-hide\s{0,5}:\s{0,5}all", re.I)
_HIDDEN = re.compile(r"(?:^|\s)hidden(?:\s|=|$)", re.I)
_RAW = re.compile(r"</(script|style|textarea|title|noscript)", re.I)
_SPACES = re.compile(r"[ \t\r\n\f\u00a0]+")

# fmt: off
_DROPPED = frozenset({
    "audio", "head", "iframe", "math", "noscript", "object", "script", "select", "style", "svg", "template",
    "title", "video"
})
# fmt: on
UNREAD = frozenset({"script", "style"})  # their text is not HTML: a `<` in it opens nothing
# fmt: off
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"
})
_PARAGRAPHS = frozenset({
    "blockquote", "dl", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "ul"
})
_LINES = frozenset({
    "address", "article", "aside", "body", "caption", "center", "dd", "div", "dt", "fieldset", "figcaption",
    "footer", "form", "header", "html", "li", "main", "nav", "section", "tbody", "tfoot", "thead", "tr"
})
# fmt: on


def to_text(html: str) -> str:
    """The text of HTML: lines where blocks are, links with their address, `- ` for list items, ` | ` between cells."""
    writer = Writer()
    for token in tokens(html):
        writer.take(token)
    return writer.finish()


def start_of_text(html: str) -> str:
    """Some of the text, for a preview: fast, for it is made for every message that has only HTML.

    Quoted mail, and pieces with what cannot be seen, are not taken for enough.
    """
    writer, written, length = Writer(), 0, 0
    for token in tokens(html[:20_000]):
        writer.take(token)
        if not writer.quoted:
            length += sum(len(piece) for piece in writer.pieces[written:] if piece.isprintable())
        written = len(writer.pieces)
        if length >= _ENOUGH_FOR_A_START:
            break
    return writer.finish()


class Token(msgspec.Struct, frozen=True):
    """A tag, or text between tags."""

    name: str = ""  # of a tag, in lower case; empty for text
    closes: bool = False
    content: str = ""  # the attributes of a tag, or the text


def tokens(html: str) -> Iterator[Token]:
    """The tags and texts of HTML, without comments and what is not HTML; at most MAX_INPUT characters are read."""
    html = without_surrogates(html[:MAX_INPUT]).replace("\0", "\ufffd")
    position = 0
    while match := TOKEN.match(html, position):
        position = match.end()
        if match["text"]:
            yield Token(content=match["text"])
        elif match["name"]:
            name = match["name"].lower()
            yield Token(name, bool(match["close"]), match["attributes"])
            if name in UNREAD and not match["close"]:
                position = end_of(name, html, position)


def end_of(name: str, html: str, start: int) -> int:
    """Where the closing tag of a script or style begins; the end of the HTML where there is none."""
    for match in _RAW.finditer(html, start):
        if match[1].lower() == name:
            return match.start()
    return len(html)


@dataclass
class Writer:
    """Text that grows token by token."""

    pieces: list[str] = field(default_factory=list)
    breaks: int = 2  # line breaks at the end of what is written; at the start as many as can be
    gap: bool = False  # white space is due before the next word
    dropped: str = ""  # the element whose content is left out
    depth: int = 0  # elements of that name inside it, itself included
    preformatted: int = 0
    quoted: int = 0
    lists: list[int] = field(default_factory=list)  # the number of the last item; -1 in a list without numbers
    links: list[tuple[str, int]] = field(default_factory=list)  # address, and how many pieces there were before it

    def take(self, token: Token) -> None:
        """Write what the next token adds, unless it cannot be seen."""
        if self.dropped:
            self._skip(token)
        elif not token.name:
            self._text(unescape(token.content))
        elif token.closes:
            self._close(token.name)
        elif token.name in _DROPPED or (token.name not in _VOID and _hides(token.content)):
            if not token.content.rstrip().endswith("/") or token.name in UNREAD:
                self.dropped, self.depth = token.name, 1
        else:
            self._open(token.name, token.content)

    def _skip(self, token: Token) -> None:
        if token.name == self.dropped:
            self.depth += -1 if token.closes else 1
        if self.depth == 0 or (self.dropped == "head" and token.name == "body"):
            self.dropped = ""

    def _open(self, name: str, attributes: str) -> None:
        self._break_for(name)
        match name:
            case "br":
                self._newline()
            case "hr":
                self._word("---")
                self._break(2)
            case "ul" | "ol":
                self.lists.append(0 if name == "ol" else -1)
            case "li":
                self._item()
            case "td" | "th":
                if self.breaks == 0:
                    self._word(" | ")
            case "blockquote":
                self.quoted += 1
            case "pre":
                self.preformatted += 1
            case "a":
                if self.links:  # a link ends where the next begins, closed or not
                    self._end_link(*self.links.pop())
                self.links.append((attribute(attributes, "href"), len(self.pieces)))
            case "img":
                self._text(unescape(attribute(attributes, "alt")))

    def _close(self, name: str) -> None:
        match name:
            case "ul" | "ol" if self.lists:
                self.lists.pop()
            case "blockquote" if self.quoted:
                self._break(1)
                self.quoted -= 1
            case "pre" if self.preformatted:
                self.preformatted -= 1
            case "a" if self.links:
                self._end_link(*self.links.pop())
        self._break_for(name)

    def _break_for(self, name: str) -> None:
        if name in _PARAGRAPHS:
            self._break(1 if self.lists and name in ("ul", "ol") else 2)
        elif name in _LINES:
            self._break(1)

    def _item(self) -> None:
        if self.lists and self.lists[-1] >= 0:
            self.lists[-1] += 1
        sign = f"{self.lists[-1]}. " if self.lists and self.lists[-1] >= 0 else "- "
        self._word("  " * min(len(self.lists) - 1, 10) + sign)

    def _end_link(self, address: str, start: int) -> None:
        """A link is its text, and its address where the text does not tell it."""
        address = unescape(address).strip()
        if not address.lower().startswith(("http://", "https://", "mailto:", "tel:")) or start == len(self.pieces):
            return
        shown = "".join(self.pieces[start : start + 50]).strip()
        plain = address.partition(":")[2].strip("/")
        if plain not in shown and len(address) <= 2_000:
            self.gap = True
            self._word(f"({_SPACES.sub('', address)})")

    def _text(self, text: str) -> None:
        if self.preformatted:
            for position, line in enumerate(text.replace("\r\n", "\n").split("\n")):
                if position:
                    self._newline()
                if line:
                    self._word(line)
            return
        words = _SPACES.sub(" ", text)
        if words.startswith(" ") and self.breaks == 0:
            self.gap = True
        if stripped := words.strip(" "):
            self._word(stripped)
            self.gap = words.endswith(" ")

    def _word(self, text: str) -> None:
        if self.breaks and self.quoted:
            self.pieces.append("> " * min(self.quoted, 20))
        elif self.gap and not self.breaks and not self.pieces[-1].endswith(" "):
            self.pieces.append(" ")
        self.pieces.append(text)
        self.gap, self.breaks = False, 0

    def _newline(self) -> None:
        if self.breaks < 2 or self.preformatted:
            self.pieces.append("\n")
            self.breaks += 1
        self.gap = False

    def _break(self, wanted: int) -> None:
        while self.breaks < wanted:
            self.pieces.append("\n")
            self.breaks += 1
        self.gap = False

    def finish(self) -> str:
        """What was written, without white space at the ends of lines."""
        text = "".join(self.pieces)
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def attribute(attributes: str, name: str) -> str:
    """The value of an attribute as written; empty where there is none."""
    if name not in attributes.lower():
        return ""
    for match in _ATTRIBUTE.finditer(attributes[:10_000]):
        if match[1].lower() == name:
            return match[2] or match[3] or match[4] or ""
    return ""


def _hides(attributes: str) -> bool:
    """Whether an element says that it is not to be seen; senders hide words in such, for filters and assistants."""
    lower = attributes.lower()
    if "none" not in lower and "hid" not in lower:
        return False
    return bool(_HIDING.search(attribute(attributes, "style")) or _HIDDEN.search(attributes[:1000]))
