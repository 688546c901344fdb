"""Convert HTML to plain text and to Markdown. Nothing is fetched, and hidden content is left out."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html import unescape

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.html.reader import read_visible
from mailbox_appliance.mail.html.tokenizer import Token, find_attribute

_MOST_READ_FOR_PREVIEW = 20_000  # characters
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


def to_text(html: str, hidden: Counter[str] | None = None) -> str:
    """Return HTML as plain text: blocks on lines of their own, links with their address, `- ` before list items, ` | `
    between cells.

    `hidden`: receives the counts of hidden text that is left out, by technique such as `opacity`.
    """
    writer = TextWriter()
    read_visible(html, writer.write_token, hidden)
    return writer.finish()


def to_preview_text(html: str) -> str:
    """Return the first visible text of HTML, for a preview. It is fast, since it runs for every message that has only
    HTML.

    Reading stops when there is enough text for a preview. The result also includes quoted mail and pieces with
    unprintable characters, but these do not count as enough.
    """
    writer, written, length = TextWriter(), 0, 0

    def is_enough() -> bool:
        nonlocal written, length
        if not writer.quoted:
            length += sum(len(piece) for piece in writer.pieces[written:] if piece.isprintable())
        written = len(writer.pieces)
        return length >= _ENOUGH_FOR_PREVIEW

    read_visible(html, writer.write_token, limit=_MOST_READ_FOR_PREVIEW, is_enough=is_enough)
    return writer.finish()


def decode_attribute(value: str) -> str:
    """Return the value of an attribute with entities decoded and invisible characters removed."""
    return invisible_characters.strip_invisible(unescape(value) if "&" in value else value)[0]


@dataclass
class TextWriter:
    """Collects visible tokens and writes them as plain text."""

    pieces: list[str] = field(default_factory=list)
    breaks: int = 2  # line breaks at the end of the text written; at the start, the maximum
    gap: bool = False  # white space is needed before the next word
    preformatted: int = 0
    quoted: int = 0
    lists: list[int] = field(default_factory=list)  # the number of the last item; -1 in a list without numbers
    links: list[tuple[str, int]] = field(default_factory=list)  # address, and the number of pieces before it

    def write_token(self, token: Token) -> None:
        """Write the next token, which must be visible."""
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
                if self.links:  # a link ends at the start of the next one, closed or not
                    self._end_link(*self.links.pop())
                self.links.append((find_attribute(attributes, "href"), len(self.pieces)))
            case "img":
                self._text(decode_attribute(find_attribute(attributes, "alt")))

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
        """End a link: write its address in parentheses, unless its text already shows it. `start`: the index in
        `pieces` at which the text of the link begins.
        """
        address = decode_attribute(address).strip()
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
        """Write text that is not from the sender: the separator between cells, or a horizontal line."""
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
        """Return all text that was written, without white space at the ends of lines."""
        text = "".join(self.pieces)
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


# --- Markdown (CommonMark, tables as in GFM), by the reader that also makes the text: linear, and bounded ---
#
# Hidden content, scripts and remote pictures are left out, as in the text. Links lead only to the web, to mail and to
# telephones. The sender's text is escaped, so it cannot act as Markdown.


_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<![^\W_])_|_(?![^\W_])|~~|&(?=#?\w{1,31};)")
_AT_START = re.compile(r"(?=[#>+=-])|(?<=\d)(?=[.)](?:\s|$))")
_NUMBERED = re.compile(r"\d{1,9}[.)](?:\s|$)")
_UNSAFE_IN_LINK = re.compile(r"[\s<>()\[\]\\`*_\x00-\x1f\x7f]")
_BACKTICKS = re.compile(r"`+")
_SCHEMES = ("http://", "https://", "mailto:", "tel:")
_LONGEST_LINK = 2_000
_SLICE = 64 * 1024
_DEEPEST_QUOTE, _DEEPEST_LIST = 10, 8  # deeper levels are written like these, so that the start of a line stays short


def to_markdown(html: str, hidden: Counter[str] | None = None) -> str:
    """Return the visible content of HTML as Markdown. `hidden`: receives the counts of hidden text that is left out, by
    technique such as `opacity`.
    """
    writer = _MarkdownWriter()
    read_visible(html, writer.write_token, hidden)
    return writer.finish()


@dataclass
class _MarkdownWriter(TextWriter):
    """Collects visible tokens and writes them as Markdown."""

    wanted: dict[str, int] = field(default_factory=dict)  # marks such as `**`: the number of elements that need each
    open: list[str] = field(default_factory=list)  # marks that are written and not closed; `[`: a link
    address: str = ""  # the address of the link whose text is being read
    heading: int = 0
    indents: list[int] = field(default_factory=list)  # the indent of the items of each list
    code: int = 0
    fence: int = -1  # the first piece of a block of code
    ticks: int = 0  # the longest run of backticks in it
    tables: int = 0
    header_cells: int = 0  # cells in the current row; -1: it is not a header row
    ends_line: bool = False  # the line above is text that continues

    # --- tags ---

    def _open(self, name: str, attributes: str) -> None:
        if mark := _MARKS.get(name):
            self.wanted[mark] = self.wanted.get(mark, 0) + 1
            return
        match name:
            case "a":
                self._open_link(attributes)
            case "code" | "tt" | "kbd" | "samp":
                self.code += 1
            case "br" if self.heading:
                self.gap = True
            case "pre":
                self._open_code()
            case _:
                self._open_block(name, attributes)

    def _open_block(self, name: str, attributes: str) -> None:
        if len(name) == 2 and name[0] == "h" and name[1] in "123456":
            self._close_marks()
            super()._open(name, attributes)
            self.heading = int(name[1])
            return
        if name in ("ul", "ol"):
            self.indents.append(0)
        elif name == "table":
            self.tables += 1
        elif name in ("tr", "tbody"):
            self._end_header()
            self.header_cells = 0
        elif name in ("th", "td"):
            self.header_cells = self.header_cells + 1 if name == "th" and self.header_cells >= 0 else -1
        super()._open(name, attributes)

    def _close(self, name: str) -> None:
        if mark := _MARKS.get(name):
            self.wanted[mark] = max(0, self.wanted.get(mark, 0) - 1)
            if not self.wanted[mark] and mark in self.open:
                self._close_marks(down_to=self.open.index(mark))
            return
        match name:
            case "a":
                self._close_link()
            case "code" | "tt" | "kbd" | "samp":
                self.code = max(0, self.code - 1)
            case "pre":
                self._close_code()
            case _:
                self._close_block(name)

    def _close_block(self, name: str) -> None:
        if name in ("tr", "thead"):
            self._end_header()
        elif name == "table":
            self.tables = max(0, self.tables - 1)
        elif name in ("ul", "ol", "li"):
            self.breaks = max(self.breaks, 0)
            if name != "li" and self.indents:
                self.indents.pop()
        super()._close(name)
        if self.heading and name == f"h{self.heading}":
            self.heading = 0

    def _item(self) -> None:
        if self.lists and self.lists[-1] >= 0:
            self.lists[-1] += 1
        sign = f"{self.lists[-1]}. " if self.lists and self.lists[-1] >= 0 else "- "
        if self.indents:
            self.indents[-1] = 0
        self.ends_line = False
        self._write(sign)
        if self.indents:
            self.indents[-1] = len(sign)
        self.breaks, self.gap = -1, False  # the item's text follows its sign

    def _end_header(self) -> None:
        """Write the line of dashes that GitHub Flavored Markdown requires after the header row of a table. Nothing is
        written unless the row consists of at least two header cells.
        """
        if self.header_cells >= 2 and self.tables == 1 and self.breaks <= 0:
            self._break(1)
            self.ends_line = False
            self._write(" | ".join(["---"] * min(self.header_cells, 1_000)))
            self._break(1)
            self.ends_line = False
        self.header_cells = -1

    # --- links and marks ---

    def _open_link(self, attributes: str) -> None:
        self._close_link()
        address = decode_attribute(find_attribute(attributes, "href")).strip()
        if address.lower().startswith(_SCHEMES) and len(address) <= _LONGEST_LINK:
            self.address = _UNSAFE_IN_LINK.sub(_percent_encode, address)

    def _close_link(self) -> None:
        if "[" in self.open:
            self._close_marks(down_to=self.open.index("["))
        self.address = ""

    def _close_marks(self, down_to: int = 0) -> None:
        while len(self.open) > down_to:
            mark = self.open.pop()
            self.pieces.append(f"]({self.address})" if mark == "[" else mark)
            if mark == "[":
                self.address = ""  # its text may have continued in another block: one link is enough

    def _open_marks(self) -> None:
        if self.address and "[" not in self.open:
            self._mark("[")
        for mark, elements in self.wanted.items():
            if elements and mark not in self.open:
                self._mark(mark)

    def _mark(self, mark: str) -> None:
        if mark != "[" and self.pieces[-1] == mark:
            self.pieces.pop()  # the same mark was just closed: `**a****b**` would show the signs
        else:
            self.pieces.append(mark)
        self.open.append(mark)

    # --- code ---

    def _open_code(self) -> None:
        self._close_marks()
        self._break(2)
        self.preformatted += 1
        if self.preformatted == 1:
            self._write("")
            self.fence, self.ticks = len(self.pieces), 0
            self.pieces.append("```")
            self.breaks = 0
            self._newline()

    def _close_code(self) -> None:
        if self.preformatted != 1:
            self.preformatted = max(0, self.preformatted - 1)
            return
        self._break(1)
        fence = "`" * max(3, self.ticks + 1)
        self.pieces[self.fence] = fence
        self._write(fence)
        self.preformatted = 0
        self._break(2)

    # --- text ---

    def _word(self, text: str) -> None:
        """Write text of the sender, escaped so that it has no effect as Markdown."""
        if self.preformatted:
            self.ticks = max(self.ticks, _longest_ticks(text))
            self._write(text)
        else:
            self._sender_text(text)

    def _sign(self, text: str) -> None:
        self._write(text)

    def _sender_text(self, text: str) -> None:
        if self.code:
            fence = "`" * (1 + _longest_ticks(text))
            pad = " " if text.startswith("`") or text.endswith("`") else ""
            written = f"{fence}{pad}{text}{pad}{fence}"
        else:
            written = _escape(text)
            if self.tables:
                written = written.replace("|", "\\|")
        if self.breaks and not self.heading and not self.code:
            written = _escape_line_start(written)
        self._write("")
        self._open_marks()
        self._write(written)
        self.ends_line = True

    def _write(self, text: str) -> None:
        if self.breaks > 0:
            self._begin_line()
        elif self.gap and self.breaks == 0 and self.pieces and not self.pieces[-1].endswith(" "):
            self.pieces.append(" ")
        self.gap = False
        self.breaks = 0
        if text:
            self.pieces.append(text)

    def _begin_line(self) -> None:
        """Write the start of a line: `> ` for quotes, the indent of lists, and the `#` of a heading."""
        quote = "> " * min(self.quoted, _DEEPEST_QUOTE)
        if self.breaks == 1 and self.ends_line and not self.preformatted:
            self.pieces[-1] = "  \n"  # CommonMark 6.7: a line break is intended here
        elif self.breaks == 2 and quote and len(self.pieces) > 1:
            self.pieces[-1] = f"{quote.rstrip()}\n"  # otherwise another quote would begin
        self.ends_line = False
        indent = " " * sum(self.indents[:_DEEPEST_LIST])
        self.pieces.append(quote + indent + ("#" * self.heading + " " if self.heading else ""))

    def _newline(self) -> None:
        self._close_marks()
        super()._newline()

    def _break(self, wanted: int) -> None:
        if self.breaks < 0:
            return  # a block at the start of an item follows its sign
        if self.breaks < wanted:
            self._close_marks()
        super()._break(wanted)
        if wanted > 1:
            self.ends_line = False

    def finish(self) -> str:
        """Close all open marks such as `**`, and return the Markdown."""
        if self.preformatted:
            self.preformatted = 1
            self._close_code()
        self._close_link()
        self._close_marks()
        return "".join(self.pieces).strip("\n")


def _escape(text: str) -> str:
    """Return text with backslashes before characters that have a meaning in Markdown. It works on slices, since many
    matches at once need much memory.
    """
    slices = (text[start : start + _SLICE] for start in range(0, len(text), _SLICE))
    return "".join(_SPECIAL.sub(r"\\\g<0>", part) for part in slices)


def _escape_line_start(text: str) -> str:
    """Return text for the start of a line, escaped so that it does not act as a heading, quote, list or horizontal
    line.
    """
    if text[:1] in "#>+=-" or _NUMBERED.match(text):
        return _AT_START.sub(r"\\", text, count=1)
    return text


def _longest_ticks(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _percent_encode(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
