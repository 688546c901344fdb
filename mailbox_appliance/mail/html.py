"""From HTML to text that reads well. Nothing is fetched; what cannot be seen is left out."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html import unescape

from mailbox_appliance.mail import invisible
from mailbox_appliance.mail.markup import Token, attribute
from mailbox_appliance.mail.seen import read

_READ_FOR_A_START = 20_000  # characters
_ENOUGH_FOR_A_START = 600  # characters of what a sender wrote
_SPACES = re.compile(r"[ \t\r\n\f\u00a0]+")

# fmt: off
_PARAGRAPHS = frozenset({
    "blockquote", "dl", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "ul"
})
_LINES = frozenset({
    "address", "article", "aside", "body", "caption", "center", "dd", "div", "dt", "fieldset", "figcaption",
    "footer", "form", "header", "html", "li", "main", "nav", "section", "tbody", "tfoot", "thead", "tr"
})
# fmt: on


def to_text(html: str, hidden: Counter[str] | None = None) -> str:
    """The text of HTML: lines where blocks are, links with their address, `- ` for list items, ` | ` between cells.

    `hidden`: where it is counted, by technique, what is left out.
    """
    writer = Writer()
    read(html, writer.write_token, hidden)
    return writer.finish()


def start_of_text(html: str) -> str:
    """Some of the text, for a preview: fast, for it is made for every message that has only HTML.

    Quoted mail, and pieces with what cannot be seen, are not taken for enough.
    """
    writer, written, length = Writer(), 0, 0

    def is_enough() -> bool:
        nonlocal written, length
        if not writer.quoted:
            length += sum(len(piece) for piece in writer.pieces[written:] if piece.isprintable())
        written = len(writer.pieces)
        return length >= _ENOUGH_FOR_A_START

    read(html, writer.write_token, limit=_READ_FOR_A_START, is_enough=is_enough)
    return writer.finish()


def as_read(value: str) -> str:
    """The value of an attribute as it is read: without entities and invisible characters."""
    return invisible.without(unescape(value) if "&" in value else value)[0]


@dataclass
class Writer:
    """Text that grows token by token."""

    pieces: list[str] = field(default_factory=list)
    breaks: int = 2  # line breaks at the end of what is written; at the start as many as can be
    gap: bool = False  # white space is due before the next word
    preformatted: int = 0
    quoted: int = 0
    lists: list[int] = field(default_factory=list)  # the number of the last item; -1 in a list without numbers
    links: list[tuple[str, int]] = field(default_factory=list)  # address, and how many pieces there were before it

    def write_token(self, token: Token) -> None:
        """Write what the next token that is seen adds."""
        if not token.name:
            self._text(token.content)
        elif token.closes:
            self._close(token.name)
        else:
            self._open(token.name, token.content)

    def _open(self, name: str, attributes: str) -> None:
        self._break_for(name)
        match name:
            case "br":
                self._newline()
            case "hr":
                self._sign("---")
                self._break(2)
            case "ul" | "ol":
                self.lists.append(0 if name == "ol" else -1)
            case "li":
                self._item()
            case "td" | "th":
                if self.breaks == 0:
                    self._sign(" | ")
            case "blockquote":
                self.quoted += 1
            case "pre":
                self.preformatted += 1
            case "a":
                if self.links:  # a link ends where the next begins, closed or not
                    self._end_link(*self.links.pop())
                self.links.append((attribute(attributes, "href"), len(self.pieces)))
            case "img":
                self._text(as_read(attribute(attributes, "alt")))

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
        address = as_read(address).strip()
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

    def _sign(self, text: str) -> None:
        """A sign of ours, between cells or as a rule."""
        self._word(text)

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
