"""Read the visible tags and text of HTML. Content that a browser would not show is left out and counted.

Only the child process that parses mail imports this module: the library that builds the tree is written in C.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from turbohtml import Comment, Element, Node, Text, parse

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.encoded_words import without_surrogates
from mailbox_appliance.mail.html import css_style
from mailbox_appliance.mail.html.css_backdrop import Backdrop, BackgroundPicture
from mailbox_appliance.mail.html.css_cascade import StyleResolver
from mailbox_appliance.mail.html.css_properties import Declared
from mailbox_appliance.mail.html.css_style import BLOCK_ELEMENTS, Style, judge
from mailbox_appliance.mail.html.tags import MAX_INPUT, NO_TEXT

#: The attributes of an element. Those that hold a list of words are lists.
Attributes = Mapping[str, object]

_NO_SENDER_COMMENT = ("[if", "[endif", "<![endif", "doctype", "?xml", "[cdata[")
_BUTTONS = frozenset({"submit", "button", "reset"})
_CELLS = frozenset({"td", "th"})
_EMBEDDED_ELEMENTS = frozenset({"svg", "math", "template"})
_SILENT_WHEN_HIDDEN = frozenset({"hr", "li", "pre"})  # they would leave a visible mark
_PAINTED_VOIDS = frozenset({"img", "hr", "input"})
_REACH_OF_PICTURES = 3  # nested elements
_DEEPEST = 512  # nested elements; the tree has the content of deeper ones beside them
_MOST_COLUMNS = 1_000  # HTML 4.9.11
_DIGITS = re.compile(r"\s*\d{1,6}")


class Writer(ABC):
    """Receives the visible tags and texts of HTML in order. Each `open` has its `close`."""

    @abstractmethod
    def open(self, name: str, attributes: Attributes, element: Element) -> None:
        """Write the start of an element."""

    @abstractmethod
    def close(self, name: str) -> None:
        """Write the end of an element."""

    @abstractmethod
    def text(self, words: str) -> None:
        """Write text, which has no invisible characters."""

    def is_full(self) -> bool:
        """Whether no more is needed."""
        return False


def read_visible(html: str, writer: Writer, hidden: Counter[str]) -> None:
    """Pass each visible tag and text of the first 2 Mi characters of HTML to a writer, until it is full.

    `hidden`: receives the counts of hidden text that is left out, by technique such as `opacity`.
    """
    _Reader(without_surrogates(html[:MAX_INPUT]).replace("\0", "\ufffd"), writer, hidden).read()


@dataclass(slots=True)
class _HiddenPiece:
    """One passage of hidden text, to count it only once: an element, and elements inside it that hide text by the same
    technique.
    """

    technique: str
    is_counted: bool = False


@dataclass(slots=True)
class _TableColumns:
    """The columns of a table, to find cells in hidden ones. `count`: columns declared so far. `collapsed`: the numbers
    of hidden ones. `next`: the column of the next cell in the current row.
    """

    count: int = 0
    collapsed: set[int] = field(default_factory=set)
    is_group_collapsed: bool = False  # the group of columns being declared
    next: int = 0
    has_long_cells: bool = False  # cells that span rows: the columns of later cells are then unknown


@dataclass(slots=True)
class _OpenElement:
    """An element whose content is being read, with its style."""

    name: str
    children: Iterator[Node]
    style: Style
    is_written: bool = False  # whether its tag was passed on
    piece: _HiddenPiece | None = None
    doubts: dict[str, _HiddenPiece] | None = None  # unjudged styles of its text
    has_picture: bool = False  # positioned content inside may be over a picture
    has_summary: bool = False  # for `details`


class _Reader:
    def __init__(self, html: str, writer: Writer, hidden: Counter[str]) -> None:
        self._writer, self._hidden = writer, hidden
        tree = parse(html)
        self._styles = StyleResolver(html, tree)
        self._open = [_OpenElement("", iter(tree), self._styles.root)]
        root = self._open[0]
        root.doubts = self._doubts_of(root.style, None)
        self._tables: list[_TableColumns] = []
        self._line: _HiddenPiece | None = None  # the rest of the line is moved off the screen
        # some text was visible; the last visible content is text, not a picture
        self._has_text = self._is_behind_text = False
        self._covers = 0  # elements that may cover later text

    def read(self) -> None:
        """Read all content."""
        opened = self._open
        while opened and not self._writer.is_full():
            node = next(opened[-1].children, None)
            if node is None:
                self._close(opened.pop())
            elif isinstance(node, Text):
                self._add_text(node.data, opened[-1])
            elif isinstance(node, Element):
                self._add_element(node, opened[-1])
            elif isinstance(node, Comment):
                self._hidden["element"] += is_sender_comment(node.data) and not opened[-1].style.hidden

    def _close(self, element: _OpenElement) -> None:
        if element.name in BLOCK_ELEMENTS:
            self._line = None
            if element.name == "table":
                self._tables.pop()
        if element.is_written:
            self._writer.close(element.name)

    def _count(self, piece: _HiddenPiece | None) -> None:
        if piece and not piece.is_counted:
            piece.is_counted = True
            self._hidden[piece.technique] += 1

    def _add_text(self, content: str, around: _OpenElement) -> None:
        words, zero_width, bidi = invisible_characters.strip_invisible(content)
        is_blank = not words or words.isspace()
        if around.style.hidden or self._line:
            if not is_blank:
                self._count(around.piece if around.style.hidden else self._line)
            return
        if zero_width or bidi:
            self._hidden["zero-width"] += zero_width
            self._hidden["bidi"] += bidi
        if not is_blank:
            self._has_text = self._is_behind_text = True
            if around.doubts or self._covers:
                self._count_doubts(around)
        if words:
            self._writer.text(words)

    def _count_doubts(self, element: _OpenElement) -> None:
        """Count, for visible text, the styles that may hide it but whose effect is unknown: once for each element that
        declares them.
        """
        for piece in (element.doubts or {}).values():
            self._count(piece)
        self._hidden["position: absolute"] += self._covers
        self._covers = 0

    # --- elements ---

    def _add_element(self, element: Element, around: _OpenElement) -> None:
        name = element.tag
        if name in NO_TEXT:
            return
        attributes: Attributes = dict(element.attrs) if len(element.attrs) else {}
        style, declared = self._style_of(element, name, attributes, around)
        if name in _PAINTED_VOIDS:
            is_unseen = name == "input" and _word(attributes, "type").lower() == "hidden"
            self._note_cover("" if is_unseen else name, style, declared)
        else:
            self._note_cover(name, style, declared)
        piece = self._piece_of(style, around)
        if len(self._open) > _DEEPEST:
            # What follows may be content of this element or come after it. To be safe, it looks like its content.
            around.style, around.piece, around.doubts = style, piece, self._doubts_of(style, around.doubts)
        if name in _EMBEDDED_ELEMENTS:
            self._leave_out(element, name, around.piece or _HiddenPiece("element"))
        elif style.gone and name not in ("img", "input"):
            self._leave_out(element, name, piece or _HiddenPiece(style.gone))
        elif name == "img":
            self._add_picture(element, attributes, style, around)
        elif name == "input":
            self._add_input(attributes, style)
        elif name in ("col", "colgroup"):
            self._add_column(name, style, attributes, element)
        else:
            self._enter(element, name, attributes, style, piece, around)

    def _style_of(
        self, element: Element, name: str, attributes: Attributes, around: _OpenElement
    ) -> tuple[Style, Declared]:
        inherited = around.style
        if name == "summary" and around.name == "details" and not around.has_summary:
            around.has_summary = True
            inherited = judge(replace(inherited, folded=False))
        style, declared = self._styles.style_of(inherited, name, element, attributes)
        if around.has_picture and declared.get("position") in ("absolute", "fixed"):
            over = replace(
                inherited, behind=_over_picture(inherited.behind), behind_blocks=_over_picture(inherited.behind_blocks)
            )
            style, declared = self._styles.style_of(over, name, element, attributes)
        if name == "details" and "open" not in attributes and not style.hidden:
            style = judge(replace(style, folded=True))
        elif name in _CELLS and self._tables:
            style = self._style_of_cell(style, attributes)
        elif name == "tr" and self._tables:
            self._tables[-1].next = 0
        return style, declared

    def _piece_of(self, style: Style, around: _OpenElement) -> _HiddenPiece | None:
        if not style.hidden:
            return None
        if around.piece and around.piece.technique == style.hidden:
            return around.piece
        return _HiddenPiece(style.hidden)

    def _enter(
        self,
        element: Element,
        name: str,
        attributes: Attributes,
        style: Style,
        piece: _HiddenPiece | None,
        around: _OpenElement,
    ) -> None:
        if name == "option":
            self._writer.open("br", {}, element)
            self._writer.close("br")
        if name in BLOCK_ELEMENTS or name in ("br", "hr"):
            self._line = None
            if name == "table":
                self._tables.append(_TableColumns())
        elif style.moves_line and not style.hidden:
            self._line = _HiddenPiece("off-screen")
        is_written = not (style.hidden and name in _SILENT_WHEN_HIDDEN)
        if is_written:
            self._writer.open(name, attributes, element)
        doubts = self._doubts_of(style, around.doubts) if style.unjudged else None
        self._open.append(_OpenElement(name, iter(element), style, is_written, piece, doubts))

    def _leave_out(self, element: Element, name: str, piece: _HiddenPiece) -> None:
        """Leave out an element with all its content. It counts if it has text or, unless it is a drawing, a picture."""
        if name in BLOCK_ELEMENTS:
            self._line = None
        content = next(iter(element), None) if name == "template" else element
        for node in content.descendants if content is not None and not piece.is_counted else ():
            if isinstance(node, Text):
                words = invisible_characters.strip_invisible(node.data)[0]
                is_content = bool(words) and not words.isspace() and getattr(node.parent, "tag", "") not in NO_TEXT
            else:
                is_content = isinstance(node, Element) and node.tag == "img" and name not in _EMBEDDED_ELEMENTS
            if is_content:
                self._count(piece)
                return

    def _doubts_of(self, style: Style, outer: dict[str, _HiddenPiece] | None) -> dict[str, _HiddenPiece]:
        """Return the styles of an element that may hide text but whose effect is unknown, by name. `outer`: the same
        for its parent.

        The value for each name records whether the style was counted already. An element shares it with its parent, so
        that an inherited style is counted once.
        """
        known = outer or {}
        if len(known) == len(style.unjudged) and all(name in known for name in style.unjudged):
            return known
        return {name: known.get(name) or _HiddenPiece(name) for name in style.unjudged}

    def _note_cover(self, name: str, style: Style, declared: Declared) -> None:
        """Record an element that may cover other text, so that the message gets a warning. If there was no text yet, it
        is counted with the first text after it.
        """
        is_seen = not style.gone or name == "svg"
        if (
            declared
            and is_seen
            and css_style.may_cover(name, declared, style.letters, is_behind_text=self._is_behind_text)
        ):
            if self._has_text:
                self._hidden["position: absolute"] += 1
            else:
                self._covers += 1

    def _add_input(self, attributes: Attributes, style: Style) -> None:
        """Process an `input` field. Of these, only buttons show text: their label."""
        kind, value = _word(attributes, "type").lower(), _word(attributes, "value")
        if not value or style.gone:
            return
        if kind == "hidden":
            self._hidden["element"] += 1
        elif kind in _BUTTONS and style.visible:
            if style.hidden:
                self._hidden[style.hidden] += 1
                return
            self._hidden.update(style.unjudged)
            self._writer.text(invisible_characters.strip_invisible(value)[0])

    def _add_picture(self, element: Element, attributes: Attributes, style: Style, around: _OpenElement) -> None:
        """Process an `img`. A picture is visible whatever the size and color of text around it. Without an address it
        shows its description, which counts as text.
        """
        is_letters = not _word(attributes, "src")
        if not style.gone and style.visible and not (is_letters and style.hidden):
            self._writer.open("img", attributes, element)
            self._writer.close("img")
            if not is_letters:
                for opened in self._open[-_REACH_OF_PICTURES:]:
                    opened.has_picture = True
                self._is_behind_text = False
        elif not around.style.visible:
            self._count(around.piece)
        elif _word(attributes, "alt"):
            self._hidden[style.hidden or "visibility"] += 1

    # --- tables ---

    def _add_column(self, name: str, style: Style, attributes: Attributes, element: Element) -> None:
        """Record the columns that a `col` or `colgroup` declares for the innermost table, and whether they are
        hidden.
        """
        if not self._tables:
            return
        columns = self._tables[-1]
        is_collapsed = not style.visible or bool(style.gone)
        span = _parse_span(attributes, "span")
        if name == "colgroup":
            columns.is_group_collapsed = is_collapsed
            span = span if "span" in attributes else 0
        if is_collapsed or columns.is_group_collapsed:
            columns.collapsed.update(range(columns.count, columns.count + span))
        columns.count += span
        for child in element if name == "colgroup" else ():
            if isinstance(child, Element) and child.tag == "col":
                given: Attributes = dict(child.attrs)
                self._add_column("col", self._styles.style_of(style, "col", child, given)[0], given, child)

    def _style_of_cell(self, style: Style, attributes: Attributes) -> Style:
        """Return the style of a table cell, given its style without regard to columns. A cell in a collapsed column is
        hidden (CSS 2.1, 17.5.5).
        """
        columns = self._tables[-1]
        if not columns.collapsed:
            return style
        start, columns.next = columns.next, columns.next + _parse_span(attributes, "colspan")
        columns.has_long_cells = columns.has_long_cells or "rowspan" in attributes
        if style.hidden:
            return style
        if columns.has_long_cells:
            return judge(replace(style, doubts=style.doubts | {"col"}))
        if not columns.collapsed.issuperset(range(start, columns.next)):
            return style
        return Style(gone="visibility", hidden="visibility")


def is_sender_comment(comment: str) -> bool:
    """Whether an HTML comment has text of the sender. Empty ones, declarations such as `doctype`, and conditions for
    one mail program (`[if mso]`) do not count.
    """
    start = comment.lstrip()
    return start != "" and not start[:20].lower().startswith(_NO_SENDER_COMMENT)


def _word(attributes: Attributes, name: str) -> str:
    return str(attributes.get(name) or "").strip()


def _parse_span(attributes: Attributes, name: str) -> int:
    found = _DIGITS.match(str(attributes.get(name) or ""))
    return min(_MOST_COLUMNS, max(1, int(found[0]))) if found else 1


def _over_picture(behind: Backdrop) -> Backdrop:
    return Backdrop(behind.colour, BackgroundPicture("position: absolute", covers=False))
