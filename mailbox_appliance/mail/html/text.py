"""Convert HTML to plain text and to Markdown. Nothing is fetched, and hidden content is left out."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html import escape

from turbohtml import Element, Markdown, parse

from mailbox_appliance.mail.html.hidden_text import safe_attribute
from mailbox_appliance.mail.html.reader import Attributes, Writer, read_visible

_ENOUGH_FOR_PREVIEW = 600  # characters of the sender's text
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


def to_text(html: str, hidden: Counter[str]) -> str:
    """Return HTML as plain text: blocks on lines of their own, links with their address, `- ` before list items, ` | `
    between cells.

    `hidden`: receives the counts of hidden text that is left out, by technique such as `opacity`.
    """
    writer = TextWriter()
    read_visible(html, writer, hidden)
    return writer.finish()


def to_preview_text(html: str) -> str:
    """Return the first visible text of HTML, for a preview. It is fast, since it runs for every message that has only
    HTML.

    Reading stops when there is enough text for a preview. The result also includes quoted mail and pieces with
    unprintable characters, but these do not count as enough.
    """
    writer = _PreviewWriter()
    read_visible(html, writer, Counter())
    return writer.finish()


@dataclass
class TextWriter(Writer):
    """Writes visible content as plain text."""

    pieces: list[str] = field(default_factory=list)
    breaks: int = 2  # line breaks at the end of the text written; at the start, the maximum
    gap: bool = False  # white space is needed before the next word
    preformatted: int = 0
    quoted: int = 0
    lists: list[int] = field(default_factory=list)  # the number of the last item; -1 in a list without numbers
    links: list[tuple[str, int]] = field(default_factory=list)  # address, and the number of pieces before it

    def open(self, name: str, attributes: Attributes, element: Element) -> None:  # noqa: ARG002
        """Write the start of an element."""
        self._break_for(name)
        match name:
            case "br":
                self._newline()
            case "hr":
                self._break(2)
                self._word("---")
                self._break(2)
            case "ul" | "ol":
                self.lists.append(0 if name == "ol" else -1)
            case "li":
                self._item()
            case "td" | "th" if self.breaks == 0:
                self._word(" | ")
            case "blockquote":
                self.quoted += 1
            case "pre":
                self.preformatted += 1
            case "a":
                self.links.append((safe_attribute("href", str(attributes.get("href") or "")), len(self.pieces)))
            case "img":
                self.text(safe_attribute("alt", str(attributes.get("alt") or "")))

    def close(self, name: str) -> None:
        """Write the end of an element."""
        match name:
            case "ul" | "ol":
                self.lists.pop()
            case "blockquote":
                self._break(1)
                self.quoted -= 1
            case "pre":
                self.preformatted -= 1
            case "a":
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
        """End a link: write its address in parentheses, unless its text already shows it."""
        if address and start < len(self.pieces):
            shown = "".join(self.pieces[start : start + 50]).strip()
            if address.partition(":")[2].strip("/") not in shown:
                self.gap = True
                self._word(f"({_SPACES.sub('', address)})")

    def text(self, words: str) -> None:
        """Write text."""
        if self.preformatted:
            for position, line in enumerate(words.replace("\r\n", "\n").split("\n")):
                if position:
                    self._newline()
                if line:
                    self._word(line)
            return
        words = _SPACES.sub(" ", words)
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
        """Return all text that was written, without white space at the ends of lines."""
        text = "".join(self.pieces)
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


class _PreviewWriter(TextWriter):
    """Writes plain text until there is enough for a preview."""

    length = 0

    def text(self, words: str) -> None:
        """Write text."""
        before = len(self.pieces)
        super().text(words)
        if not self.quoted:
            self.length += sum(len(piece) for piece in self.pieces[before:] if piece.isprintable())

    def is_full(self) -> bool:
        """Whether there is enough text for a preview."""
        return self.length >= _ENOUGH_FOR_PREVIEW


# --- Markdown (CommonMark, tables as in GFM) ---
#
# Visible content is first written as the few elements that Markdown has. Links lead only to the web, to mail and to
# telephones, and pictures become their description.


_MARKDOWN = Markdown(
    links=Markdown.Links(autolink=False),
    images=Markdown.Images(mode="ignore"),
    tables=Markdown.Tables(header="first", cell_blocks="text"),
)
#: The elements that mark words, and how they are written.
_MARKS = {
    **dict.fromkeys(("b", "strong"), "strong"),
    **dict.fromkeys(("i", "em"), "em"),
    **dict.fromkeys(("del", "s", "strike"), "s"),
    **dict.fromkeys(("code", "tt", "kbd", "samp"), "code"),
}
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | {"ul", "ol", "li", "blockquote", "pre", "p"}
_OF_TABLES = frozenset({"table", "thead", "tbody", "tfoot", "tr", "th", "td"})
_MOST_PADDING = 10  # times as many cells as a table has, so that all rows are of one length
_UNSAFE_IN_LINK = re.compile(r"[\s<>()\[\]\\`*_\x00-\x1f\x7f\ufdd0]")
_INSIDE_WORD = re.compile(r"(?<=[^\W_])_(?=[^\W_])")
_UNDERSCORE = "\ufdd0"  # a noncharacter for `_` inside a word, which needs no escape


def to_markdown(html: str, hidden: Counter[str]) -> str:
    """Return the visible content of HTML as Markdown. `hidden`: receives the counts of hidden text that is left out, by
    technique such as `opacity`.
    """
    writer = _SemanticWriter()
    read_visible(html, writer, hidden)
    return parse("".join(writer.pieces)).to_markdown(_MARKDOWN).replace(_UNDERSCORE, "_")


class _SemanticWriter(Writer):
    """Writes visible content as HTML that has nothing but the elements of Markdown.

    Other blocks become line breaks, as in plain text. A table stays one only if it has header cells and no other table
    inside. Other tables mostly arrange content, so their rows become lines. A link ends with the block it begins in.
    """

    def __init__(self) -> None:
        self.pieces: list[str] = []
        # Opening tags that are not written until there is text, each with whether its block begins another one.
        self._pending: list[tuple[str, bool | None]] = []
        self._marks: Counter[str] = Counter()  # open elements such as `strong`; inside another one they have no effect
        self._breaks = 0  # line breaks due before the next text
        self._is_new = True  # nothing was written in this block yet
        # The address around this text, the pending tags outside that link, and whether its tag is written.
        self._link, self._link_at, self._is_linked = "", 0, False
        self._headings = self._preformatted = 0  # open elements
        self._tables: list[int] = []  # the number of columns of each open table; 0 if it does not stay one
        self._cells = 0  # in the current row

    def open(self, name: str, attributes: Attributes, element: Element) -> None:
        """Write the start of an element."""
        if name == "table":
            self._tables.append(_columns(element))
        if name == "a":
            self._end_link()
            address = safe_attribute("href", str(attributes.get("href") or ""))
            self._link, self._link_at = escape(_UNSAFE_IN_LINK.sub(_percent_encode, address)), len(self._pending)
        elif mark := _MARKS.get(name):
            self._marks[mark] += 1
            if self._marks[mark] == 1:
                self._pending.append((f"<{mark}>", None))
        elif self._stays(name):
            was_new = self._is_new
            self._end_block()
            self._pending.append((f"<{name}>", was_new))
            self._link_at = len(self._pending)
            self._headings += name in _HEADINGS
            self._preformatted += name == "pre"
            if name in ("td", "th"):
                self._cells += 1
                self._write_pending()
            elif name == "tr":
                self._cells = 0
        elif name == "hr":
            self._end_block()
            self._write_pending()
            self.pieces.append("<hr>")
        elif name == "br":
            self._breaks = min(2, self._breaks + 1)
        elif name == "img":
            self.text(safe_attribute("alt", str(attributes.get("alt") or "")))
        elif name in ("td", "th") and not (self._breaks or self._is_new):
            self.pieces.append(" | ")
        else:
            self._break_for(name)

    def close(self, name: str) -> None:
        """Write the end of an element."""
        if name == "a":
            self._end_link()
        elif mark := _MARKS.get(name):
            self._marks[mark] -= 1
            if not self._marks[mark]:
                self._end(mark)
        elif self._stays(name):
            self._end_block()
            if name == "tr" and self._cells:
                self.pieces.append("<td></td>" * (self._tables[-1] - self._cells))
            self._end(name)
            self._headings -= name in _HEADINGS
            self._preformatted -= name == "pre"
        else:
            self._break_for(name)
        if name == "table":
            self._tables.pop()

    def _stays(self, name: str) -> bool:
        return name in _BLOCKS or (name in _OF_TABLES and bool(self._tables) and self._tables[-1] > 0)

    def _end(self, name: str) -> None:
        """Write a closing tag, or forget the opening one if nothing was written since."""
        if self._pending:
            _, was_new = self._pending.pop()
            if was_new is not None:
                self._breaks, self._is_new = 2, was_new
        else:
            self.pieces.append(f"</{name}>")

    def _end_link(self) -> None:
        if self._is_linked:
            self.pieces.append("</a>")
            self._link = ""
        self._is_linked = False

    def _end_block(self) -> None:
        self._end_link()
        self._breaks, self._is_new = 0, True

    def _break_for(self, name: str) -> None:
        if name in _PARAGRAPHS or name in _LINES:
            self._breaks = max(self._breaks, 2 if name in _PARAGRAPHS else 1)

    def _write_pending(self) -> None:
        self.pieces += [tag for tag, _ in self._pending]
        self._pending.clear()

    def text(self, words: str) -> None:
        """Write text."""
        words = words.replace(_UNDERSCORE, "\ufffd")
        if not self._preformatted:
            words = _INSIDE_WORD.sub(_UNDERSCORE, _SPACES.sub(" ", words))
        is_blank = words.isspace()
        if not words or (is_blank and not self._preformatted and (self._breaks or self._is_new)):
            return
        if self._breaks and not self._is_new:
            if self._breaks == 2:
                self._end_link()
            paragraph = "<br>" if self._breaks == 1 else "<p></p>"
            self.pieces.append("\n" if self._preformatted else " " if self._headings else paragraph)
        self._breaks, self._is_new = 0, False
        if not is_blank:
            if self._link and not self._is_linked:
                self._pending.insert(self._link_at, (f'<a href="{self._link}">', None))
                self._is_linked = True
            self._write_pending()
        self.pieces.append(escape(words, quote=False))


def _columns(table: Element) -> int:
    """Return the number of columns of a table that Markdown can show as one, otherwise 0."""
    if table.select_one("table") is not None or table.select_one("th") is None:
        return 0
    widths = [len(row.select("td, th")) for row in table.select("tr")]
    return max(widths) if max(widths) * len(widths) <= _MOST_PADDING * sum(widths) else 0


def _percent_encode(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
