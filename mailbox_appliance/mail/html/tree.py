"""Track which elements of HTML are open, as a browser does (HTML 13.2.4.2 to 13.2.6), without building a tree.

Each element is put on a stack once and removed once. A closing tag is written where a browser closes the element, not
where the sender wrote it. Otherwise, a sender could hide text from people and still show it to programs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mailbox_appliance.mail.html import css_style, tokenizer
from mailbox_appliance.mail.html.css_backdrop import Backdrop, BackgroundPicture
from mailbox_appliance.mail.html.css_cascade import StyleResolver, TagStyle
from mailbox_appliance.mail.html.css_parser import MatchTarget
from mailbox_appliance.mail.html.css_sheets import StyleRule
from mailbox_appliance.mail.html.css_style import UNSHOWN_STYLE, Style, judge
from mailbox_appliance.mail.html.tokenizer import (
    BARRIER_ELEMENTS,
    CELLS,
    CLOSES_PARAGRAPH,
    FORMATTING_ELEMENTS,
    HEADINGS,
    ITEMS,
    LISTS,
    MARKER_ELEMENTS,
    OPTIONS,
    SCOPE_ELEMENTS,
    SECTIONS,
    SPECIAL_ELEMENTS,
    TABLE_PARTS,
    VOID_ELEMENTS,
    Token,
    parse_attributes,
)

MOST_OPEN_ELEMENTS = 2_000  # nested elements that are tracked individually
_REACH_OF_PICTURES = 3  # nested elements
_MOST_WAITING = 6
_MOST_ALIKE = 3  # HTML 13.2.4.3, "Noah's Ark"


@dataclass(slots=True)
class HiddenPiece:
    """One passage of hidden text, to count it only once: an element, and elements inside it that hide text by the same
    technique.
    """

    technique: str
    is_counted: bool


@dataclass(slots=True)
class Siblings:
    """Counts of the child elements that an element has so far, for selectors such as `:nth-child()`. `last`: the newest
    child.
    """

    count: int = 0
    by_name: dict[str, int] = field(default_factory=dict)
    last: MatchTarget | None = None


@dataclass(slots=True)
class TableColumns:
    """The columns of a table, to find cells in hidden ones. `count`: columns declared so far. `collapsed`: the numbers
    of hidden ones. `next`: the column of the next cell in the current row.
    """

    count: int = 0
    collapsed: set[int] = field(default_factory=set)
    is_group_collapsed: bool = False  # the group of columns being declared
    next: int = 0
    has_long_cells: bool = False  # cells that span rows: the columns of later cells are then unknown


@dataclass(slots=True)
class OpenElement:
    """An element whose closing tag was not read yet, with its style."""

    name: str
    content: str  # its attributes as written
    style: Style
    match_target: MatchTarget | None  # only if rules test it
    is_written: bool  # whether its tag was passed on
    piece: HiddenPiece | None
    matched_rules: dict[Any, Any] | None = None  # cache of rules that match elements inside
    has_picture: bool = False  # positioned content inside may be over a picture
    siblings: Siblings | None = None  # its child elements
    doubts: dict[str, HiddenPiece] | None = None  # unjudged styles of its text
    has_summary: bool = False  # for `details`
    columns: TableColumns | None = None  # for a table
    is_closed: bool = False  # its closing tag was read while blocks inside were open


@dataclass
class OpenElements:
    """The stack of open elements. In all methods, `place` is a position in this stack, from 0 for the outermost
    element. Tables of places by name and kind make it possible to find elements without a search.
    """

    stack: list[OpenElement] = field(default_factory=list)
    #: Formatting elements that were still open when the element around them was closed: they apply to the next text
    #: again.
    waiting: list[list[OpenElement]] = field(default_factory=lambda: [[]])
    is_standard: bool = False  # not an old document
    #: The number of open elements by each key of rules: name, `.class` and `#id`.
    key_counts: dict[str, int] = field(default_factory=dict)
    outermost: list[MatchTarget] = field(default_factory=list)  # `html` and `body`
    _siblings: Siblings = field(default_factory=Siblings)
    _matched_rules: dict[Any, Any] = field(default_factory=dict)
    _places: dict[str, list[int]] = field(default_factory=dict)
    _scopes: list[int] = field(default_factory=lambda: [-1])
    _special: list[int] = field(default_factory=lambda: [-1])
    _barriers: list[int] = field(default_factory=lambda: [-1])

    def set_outermost(self, outermost: list[MatchTarget]) -> None:
        """Set the facts about `html` and `body` that CSS selectors can test."""
        self._matched_rules.clear()
        self.outermost = outermost
        self.key_counts = dict.fromkeys((key for known in outermost for key in known.keys), 1)

    def match_targets(self, place: int | None = None) -> list[MatchTarget]:
        """Return the facts that CSS selectors can test about each open element, the outermost first. `place`: only
        elements below this index in the stack.
        """
        return self.outermost + [each.match_target for each in self.stack[:place] if each.match_target]

    def matched_rules(self) -> dict[Any, Any]:
        """Return the cache of CSS rules that match children of the innermost open element. Callers add to it."""
        if not self.stack:
            return self._matched_rules
        last = self.stack[-1]
        if last.matched_rules is None:
            last.matched_rules = {}
        return last.matched_rules

    def place_next(self, known: MatchTarget) -> MatchTarget:
        """Count a new child of the innermost open element. Returns `known`, the facts about the child, with its
        position among its siblings.
        """
        siblings = self._siblings
        if self.stack:
            siblings = self.stack[-1].siblings = self.stack[-1].siblings or Siblings()
        siblings.count += 1
        of_type = siblings.by_name[known.tag] = siblings.by_name.get(known.tag, 0) + 1
        siblings.last = replace(known, number=siblings.count, of_type=of_type, previous=siblings.last)
        return siblings.last

    def mark_picture(self) -> None:
        """Record that the three innermost open elements contain a picture."""
        for element in self.stack[-_REACH_OF_PICTURES:]:
            element.has_picture = True

    def push(self, element: OpenElement) -> None:
        """Put an element on the stack, inside the innermost open one."""
        place, name = len(self.stack), element.name
        self.stack.append(element)
        self._places.setdefault(name, []).append(place)
        if name in SPECIAL_ELEMENTS:
            self._special.append(place)
            if name in BARRIER_ELEMENTS:
                self._barriers.append(place)
            if name in SCOPE_ELEMENTS:
                self._scopes.append(place)
            if name in MARKER_ELEMENTS:
                self.waiting.append([])
        if element.match_target:
            for key in element.match_target.keys:
                self.key_counts[key] = self.key_counts.get(key, 0) + 1

    def pop(self) -> OpenElement:
        """Remove the innermost open element from the stack, because its own closing tag was read."""
        element = self.stack.pop()
        self._forget(element, len(self.stack))
        return element

    def pop_to(self, place: int, *, by_its_tag: bool = False) -> list[OpenElement]:
        """Close the element at index `place` of the stack and all elements inside it. Returns them, the innermost
        first.

        Formatting elements that were closed without their own tag are kept, to be opened again before the next text.
        `by_its_tag`: the element at `place` is closed by its own tag.
        """
        closed: list[OpenElement] = []
        waiting: list[OpenElement] = []
        while len(self.stack) > place:
            element = self.stack.pop()
            if element.is_closed:
                continue
            closed.append(element)
            if self._forget(element, len(self.stack)):
                waiting.clear()
            elif element.name in FORMATTING_ELEMENTS and not (by_its_tag and len(self.stack) == place):
                waiting.append(element)
        for element in reversed(waiting):
            self._keep_formatting(element)
        return closed

    def _forget(self, element: OpenElement, place: int) -> bool:
        """Remove an element from the tables that find elements by name and kind. `place`: its index in the stack.
        Returns whether the element, such as a table cell, also ends all formatting elements inside it.
        """
        name = element.name
        self._places[name].pop()
        if element.match_target:
            self._forget_keys(element.match_target)
        if name not in SPECIAL_ELEMENTS:
            return False
        for places in (self._special, self._barriers, self._scopes):
            if places[-1] == place:
                places.pop()
        if name in MARKER_ELEMENTS:
            self.waiting.pop()
        return name in MARKER_ELEMENTS

    def _forget_keys(self, known: MatchTarget) -> None:
        for key in known.keys:
            if self.key_counts[key] == 1:
                del self.key_counts[key]
            else:
                self.key_counts[key] -= 1

    def _keep_formatting(self, element: OpenElement) -> None:
        waiting = self.waiting[-1]
        alike = [each for each in waiting if (each.name, each.content) == (element.name, element.content)]
        if len(alike) >= _MOST_ALIKE:
            waiting.remove(alike[0])
        elif len(waiting) >= _MOST_WAITING:
            waiting.remove(next((each for each in waiting if not each.style.gone), waiting[1]))
        waiting.append(element)

    def close_formatting(self, place: int) -> OpenElement:
        """Mark a formatting element as closed while blocks inside it stay open. It remains on the stack. `place`: its
        index there.
        """
        element = self.stack[place]
        element.is_closed = True
        self._places[element.name].pop()  # it is the last one with its name
        if element.match_target:
            self._forget_keys(element.match_target)
            element.match_target = None
        return element

    # --- closing ---

    def places_to_close_first(self, name: str) -> Iterator[int]:
        """Yield the stack indexes of elements that must be closed before an element of this name opens, in order. An
        index of -1 means that there is nothing to close.

        Each index is computed only when it is requested, so close each element before you request the next.
        """
        if name == "li":
            yield self._place_of_item("li")
        elif name in ITEMS:
            yield self._place_of_item("dd", "dt")
        elif name in HEADINGS or name in ("option", "optgroup"):
            alike = HEADINGS if name in HEADINGS else OPTIONS
            yield len(self.stack) - 1 if self.stack and self.stack[-1].name in alike else -1
        elif name == "button":
            yield self.place_in_scope("button")
        elif name == "table":
            if self._is_in_table():
                yield self.last_place_of("table")
            if self.is_standard:
                yield self._place_of_paragraph()
        if name in CLOSES_PARAGRAPH:
            yield self._place_of_paragraph()

    def place_closed_by(self, name: str) -> int:
        """Return the stack index of the element that a closing tag of this name closes, or -1 if it closes none."""
        if name == "p":
            return self._place_of_paragraph()
        if name == "li":
            place = self.place_in_scope("li")
            return place if place > max(map(self.last_place_of, LISTS)) else -1
        if name in HEADINGS:
            return max(map(self.place_in_scope, HEADINGS))
        if name == "table":
            return self.last_place_of("table")
        if name in TABLE_PARTS:
            return self.place_of_table_part(name)
        if name in SPECIAL_ELEMENTS:
            return self.place_in_scope(name)
        place = self.last_place_of(name)
        return place if place > self._special[-1] else -1

    def is_formatted_by(self, name: str) -> bool:
        """Whether text at this point is inside a formatting element of that name. Formatting from outside the current
        table cell or similar element does not count.
        """
        if any(each.name == name for each in self.waiting[-1]):
            return True
        return self.last_place_of(name) > max(map(self.last_place_of, MARKER_ELEMENTS))

    # --- places ---

    def last_place_of(self, name: str) -> int:
        """Return the stack index of the innermost open element of that name, or -1 if none is open."""
        places = self._places.get(name)
        return places[-1] if places else -1

    def place_in_scope(self, name: str) -> int:
        """Return the stack index of the innermost open element of that name, or -1. Elements outside the current table,
        cell or similar element do not count, since closing tags inside cannot close them.
        """
        place = self.last_place_of(name)
        return place if place >= self._scopes[-1] else -1

    def _place_of_paragraph(self) -> int:
        place = self.place_in_scope("p")
        return place if place > self.last_place_of("button") else -1

    def _place_of_item(self, *names: str) -> int:
        barrier = self._barriers[-1]
        return barrier if barrier >= 0 and self.stack[barrier].name in names else -1

    def has_block_above(self, place: int) -> bool:
        """Whether a block, or an element that ends like one, was opened after (that is, inside) the element at stack
        index `place`.
        """
        return self._special[-1] > place

    def _is_in_table(self) -> bool:
        """Whether a table is open, but no cell or caption of it."""
        return self.last_place_of("table") > max(map(self.last_place_of, (*CELLS, "caption")))

    def place_of_table_part(self, *names: str) -> int:
        """Return the stack index of the innermost open element with one of these names, or -1. Only elements inside the
        innermost table count.
        """
        place = max(map(self.last_place_of, names))
        return place if place > self.last_place_of("table") else -1

    def place_of_section(self) -> int:
        """Return the stack index of the open `tbody`, `thead` or `tfoot` of the innermost table, or -1."""
        return self.place_of_table_part(*SECTIONS)


# --- Elements beyond the limit, without individual places and styles ---


@dataclass
class ElementsBeyondLimit:
    """Open elements nested deeper than MOST_OPEN_ELEMENTS. To bound memory and time, only their names are counted.

    If one of them hides its text, the text in all of them counts as hidden until they are closed.
    """

    count: int = 0
    piece: HiddenPiece | None = None
    _names: Counter[str] = field(default_factory=Counter)

    def open(self, name: str, hidden: str) -> None:
        """Open one more element. `hidden`: the technique that hides its text, such as `opacity`; empty if it is
        visible.
        """
        if name in VOID_ELEMENTS:
            return
        self._names[name] += 1
        self.count += 1
        if hidden and self.piece is None:
            self.piece = HiddenPiece(hidden, is_counted=False)

    def is_open(self, name: str) -> bool:
        """Whether an element of that name is open beyond the limit."""
        return self._names[name] > 0

    def keeps_open(self, name: str) -> bool:
        """Whether a closing tag of this name must not close an element within the limit. This is so if the name is that
        of inline formatting, or if a table, cell or similar element is open beyond the limit.
        """
        return name not in SPECIAL_ELEMENTS or any(self._names[each] for each in SCOPE_ELEMENTS)

    def close(self, name: str) -> None:
        """Close one element of this name beyond the limit."""
        self._names[name] -= 1
        self.count -= 1
        if not self.count:
            self.clear()

    def clear(self) -> None:
        """Close all elements beyond the limit."""
        self._names.clear()
        self.count, self.piece = 0, None


# --- Elements with their style, and the tags that are written for them ---


IMPLIED_TOKEN = Token("implied")  # for elements without a tag of their own
SILENT_WHEN_HIDDEN = frozenset({"hr", "li", "pre"})  # they would leave a visible mark
_MOST_RESTYLED = 200_000
_MOST_COLUMNS = 1_000  # HTML 4.9.11
_DIGITS = re.compile(r"\s*\d{1,6}")


class TreeBuilder:
    """Opens and closes elements as a browser does, computes the style of each, and writes the tags of visible ones.
    `StyledReader` adds the reading of tokens.
    """

    def __init__(self, styles: StyleResolver, write: Callable[[Token], object], hidden: Counter[str]) -> None:
        self._write = write
        self._hidden = hidden
        self._styles = styles
        self._open = OpenElements()
        self._outer: list[tuple[str, str]] = []  # the tags `html` and `body`
        self._set_outermost()
        self._deeper = ElementsBeyondLimit()
        self._line: HiddenPiece | None = None  # the rest of the line is moved off the screen
        self._restyled = 0
        # some text was visible; the last visible content is text, not a picture
        self._has_text = self._is_behind_text = False
        self._covers = 0  # elements that may cover later text

    def _set_outermost(self) -> None:
        self._base, outermost = self._styles.root_style(self._outer)
        self._open.set_outermost(outermost)
        self._base_piece = HiddenPiece(self._base.hidden, is_counted=False) if self._base.hidden else None
        self._base_doubts = self._doubts_of(self._base, None)

    def _push(self, name: str, content: str, token: Token | None = None, piece: HiddenPiece | None = None) -> None:
        """Open an element and compute its style. `content`: its attributes as written. `token`: the tag to write, if it
        is not made from name and content. `piece`: the hidden passage that continues if the element is opened again.
        """
        around, stack, facts = self._style_around(name), self._open.stack, self._styles.tag_style(name, content)
        known = (
            self._open.place_next(facts.match_target)
            if facts.match_target and self._styles.depends_on_place
            else facts.match_target
        )
        if stack and stack[-1].has_picture and facts.declared.get("position") in ("absolute", "fixed"):
            around = replace(
                around, behind=_over_picture(around.behind), behind_blocks=_over_picture(around.behind_blocks)
            )
        if name == "summary" and stack and stack[-1].name == "details" and not stack[-1].has_summary:
            stack[-1].has_summary = True
            around = judge(replace(around, folded=False))
        style = self._styles.style_of(around, name, facts, self._open, known)
        if name == "details" and "open" not in parse_attributes(content) and not style.hidden:
            style = judge(replace(style, folded=True))
        elif name in tokenizer.CELLS:
            style = self._style_of_cell(style, content)
        outer = stack[-1].piece if stack else self._base_piece
        if not style.hidden or name in tokenizer.NO_TEXT:
            piece = None
        elif outer and outer.technique == style.hidden:
            piece = outer
        else:
            piece = piece or HiddenPiece(style.hidden, is_counted=False)
        if name in tokenizer.BLOCK_ELEMENTS:
            self._line = None
        elif style.moves_line and not style.hidden:
            self._line = HiddenPiece("off-screen", is_counted=False)
        is_shown = not style.gone and not (style.hidden and name in SILENT_WHEN_HIDDEN) and token is not IMPLIED_TOKEN
        if is_shown and not self._deeper.piece:
            self._write(token or Token(name, content=content))
        doubts = self._doubts_of(style, stack[-1].doubts if stack else self._base_doubts) if style.unjudged else None
        self._open.push(OpenElement(name, content, style, known, is_shown, piece, doubts=doubts))
        self._note_cover(name, style, facts.declared)

    def _doubts_of(self, style: Style, outer: dict[str, HiddenPiece] | None) -> dict[str, HiddenPiece]:
        """Return the styles of an element that may hide text but whose effect is unknown, by name. `outer`: the same
        for its parent.

        The value for each name records whether the style was counted already. An element shares it with its parent, so
        that an inherited style is counted once.
        """
        if outer and len(outer) == len(style.unjudged) and all(name in outer for name in style.unjudged):
            return outer
        known = outer or {}
        return {name: known.get(name) or HiddenPiece(name, is_counted=False) for name in style.unjudged}

    def _note_cover(self, name: str, style: Style, declared: Mapping[str, object]) -> None:
        """Record an element that may cover other text, so that the message gets a warning. If there was no text yet, it
        is counted with the first text after it.
        """
        if not style.gone and css_style.may_cover(name, declared, style.letters, is_behind_text=self._is_behind_text):
            if self._has_text:
                self._hidden["position: absolute"] += 1
            else:
                self._covers += 1

    # --- tables ---

    def _add_column(self, name: str, style: Style, attributes: Mapping[str, str]) -> None:
        """Record the columns that a `col` or `colgroup` declares for the innermost table, and whether they are
        hidden.
        """
        table = self._open.last_place_of("table")
        if table < 0:
            return
        columns = self._open.stack[table].columns = self._open.stack[table].columns or TableColumns()
        is_collapsed = not style.visible or bool(style.gone)
        if name == "colgroup":
            columns.is_group_collapsed = is_collapsed
        span = 0 if name == "colgroup" and "span" not in attributes else _parse_span(attributes.get("span", ""))
        if is_collapsed or columns.is_group_collapsed:
            columns.collapsed.update(range(columns.count, columns.count + span))
        columns.count += span

    def _style_of_cell(self, style: Style, content: str) -> Style:
        """Return the style of a table cell, given its style without regard to columns. A cell in a collapsed column is
        hidden (CSS 2.1, 17.5.5). `content`: its attributes as written.
        """
        table = self._open.last_place_of("table")
        columns = self._open.stack[table].columns if table >= 0 else None
        if columns is None or not columns.collapsed:
            return style
        attributes = parse_attributes(content)
        start, columns.next = columns.next, columns.next + _parse_span(attributes.get("colspan", ""))
        columns.has_long_cells = columns.has_long_cells or "rowspan" in attributes
        if style.hidden:
            return style
        if columns.has_long_cells:
            return judge(replace(style, doubts=style.doubts | {"col"}))
        if not columns.collapsed.issuperset(range(start, columns.next)):
            return style
        return Style(gone="visibility", hidden="visibility")

    def _style_of(self, around: Style, name: str, content: str) -> Style:
        facts = self._styles.tag_style(name, content)
        known = (
            self._open.place_next(facts.match_target)
            if facts.match_target and self._styles.depends_on_place
            else facts.match_target
        )
        return self._styles.style_of(around, name, facts, self._open, known)

    def _style_around(self, name: str) -> Style:
        """Return the style that an element of this name, or text (empty name), inherits at this point.

        Content in a table outside its cells is shown before the table, so it inherits from outside (HTML 13.2.6.1,
        foster parenting).
        """
        stack = self._open.stack
        if not stack:
            return self._base
        style = stack[-1].style
        if stack[-1].name in tokenizer.ROWS_AND_ABOVE and name not in tokenizer.TABLE_PARTS:
            table = self._open.last_place_of("table")
            return stack[table - 1].style if table > 0 else self._base
        return style

    # --- closing tags ---

    def _close(self, name: str, token: Token) -> None:
        opened = self._open
        top = opened.stack[-1] if opened.stack else None
        if top and top.name == name and not (self._deeper.count or opened.waiting[-1] or top.is_closed):
            opened.pop()  # as nearly always
            if self._line and name in tokenizer.BLOCK_ELEMENTS:
                self._line = None
            if top.is_written:
                self._write(token)
            return
        if self._deeper.count and not self._ends_deeper(name, token):
            return
        if name in tokenizer.FORMATTING_ELEMENTS:
            self._close_formatting(name)
        elif name not in tokenizer.OUTER_ELEMENTS and name not in tokenizer.IGNORED_ELEMENTS:
            is_line = name == "p" or opened.last_place_of(name) < 0
            self._pop(opened.place_closed_by(name), else_write=name if is_line else "")

    def _ends_deeper(self, name: str, token: Token) -> bool:
        """Process a closing tag while elements beyond MOST_OPEN_ELEMENTS are open. Returns whether it closes an element
        within the limit, and so all elements beyond it.
        """
        deeper = self._deeper
        if deeper.is_open(name):
            if not deeper.piece:
                self._write(token)
            deeper.close(name)
            return False
        if deeper.keeps_open(name) or self._open.place_closed_by(name) < 0:
            return False
        deeper.clear()
        return True

    def _pop(self, place: int, else_write: str = "", *, by_its_tag: bool = False) -> None:
        """Close the element at stack index `place` and all elements inside it. The closing tags of visible ones are
        written.

        For index -1, no element is closed. A closing tag named `else_write` is written instead, since it may begin a
        new line; nothing is written if that name is empty. `by_its_tag`: whether the element's own closing tag was
        read.
        """
        if place < 0:
            if else_write and not self._style_around("").hidden:
                self._write(Token(else_write, closes=True))
            return
        for element in self._open.pop_to(place, by_its_tag=by_its_tag):
            if element.name in tokenizer.BLOCK_ELEMENTS:
                self._line = None
            if element.is_written:
                self._write(Token(element.name, closes=True))

    def _close_formatting(self, name: str) -> None:
        """Close a formatting element such as `b`, while blocks inside it stay open (HTML 13.2.6.4.7, the adoption
        agency).
        """
        opened, waiting = self._open, self._open.waiting[-1]
        for number in reversed(range(len(waiting))):
            if waiting[number].name == name:
                del waiting[number]
                return
        place = opened.place_in_scope(name)
        if place < 0:
            return
        if not opened.has_block_above(place):
            self._pop(place, by_its_tag=True)
            return
        element = opened.close_formatting(place)
        if element.is_written:
            self._write(Token(name, closes=True))
        around = opened.stack[place - 1].style if place else self._base
        if element.style is not around:
            self._restyle(place, around)

    def _restyle(self, place: int, style: Style) -> None:
        """Compute the styles of open elements again, from this stack index on, after an element around them was closed.
        `style`: the style that the first of them inherits.
        """
        stack = self._open.stack
        self._restyled += len(stack) - place
        for number in range(place, len(stack)):
            element = stack[number]
            if self._restyled > _MOST_RESTYLED:
                style = UNSHOWN_STYLE
            elif not element.is_closed:
                facts = self._styles.tag_style(element.name, element.content)
                style = self._styles.style_of(
                    style, element.name, facts, _AncestorsUpTo(self._open, number), element.match_target
                )
            element.style, element.matched_rules = style, None
            element.piece = HiddenPiece(style.hidden, is_counted=False) if style.hidden else None
            element.doubts = self._doubts_of(style, stack[number - 1].doubts if number else None)


def _over_picture(behind: Backdrop) -> Backdrop:
    return Backdrop(behind.colour, BackgroundPicture("position: absolute", covers=False))


def _parse_span(value: str) -> int:
    found = _DIGITS.match(value)
    return min(_MOST_COLUMNS, max(1, int(found[0]))) if found else 1


@dataclass
class _AncestorsUpTo:
    """The open elements below an index of the stack, as the `Ancestors` of the element at that index."""

    opened: OpenElements
    place: int

    @property
    def key_counts(self) -> Mapping[str, int]:
        return self.opened.key_counts

    def match_targets(self) -> Sequence[MatchTarget]:
        return self.opened.match_targets(self.place)

    def matched_rules(self) -> dict[TagStyle, tuple[StyleRule, ...]]:
        return {}
