"""Elements open and close as in a browser (HTML 13.2.6), each with its style, and what is seen of their tags is told.

Tags are told in good order: each is closed where a browser closes it, whatever the sender wrote. That is not only for
looks: words could be hidden from the eye, and not from us, by tags that close elsewhere than we think.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mailbox_appliance.mail import boxes, elements
from mailbox_appliance.mail.backdrop import Backdrop, Picture
from mailbox_appliance.mail.deeper import Deeper
from mailbox_appliance.mail.looks import Facts, Looks
from mailbox_appliance.mail.markup import Token, attributes_of
from mailbox_appliance.mail.open_elements import Columns, Element, OpenElements, Piece
from mailbox_appliance.mail.selectors import Known
from mailbox_appliance.mail.sheets import Rule
from mailbox_appliance.mail.style import UNSHOWN, Style, judged

IMPLIED = Token("implied")  # for what has no tag of its own
NOT_TOLD_UNSEEN = frozenset({"hr", "li", "pre"})  # they would leave a mark
_MOST_RESTYLED = 200_000
_MOST_COLUMNS = 1_000  # HTML 4.9.11
_DIGITS = re.compile(r"\s*\d{1,6}")


class Nesting:
    """The open elements, and what is told of them."""

    def __init__(self, looks: Looks, tell: Callable[[Token], object], hidden: Counter[str]) -> None:
        self._write = tell
        self._hidden = hidden
        self._looks = looks
        self._open = OpenElements()
        self._outer: list[tuple[str, str]] = []  # the tags `html` and `body`
        self._set_outermost()
        self._deeper = Deeper()
        self._line: Piece | None = None  # the rest of the line is moved off the screen
        self._restyled = 0
        self._has_text = self._is_behind_text = False  # some was seen; what was seen last is text, and no picture
        self._covers = 0  # elements that may lie over text that is yet to come

    def _set_outermost(self) -> None:
        self._base, outermost = self._looks.root_style(self._outer)
        self._open.set_outermost(outermost)
        self._base_piece = Piece(self._base.hidden, is_counted=False) if self._base.hidden else None
        self._base_doubts = self._doubts_of(self._base, None)

    def _push(self, name: str, content: str, token: Token | None = None, piece: Piece | None = None) -> None:
        """Open an element; `piece` is the one that it goes on with, where it is opened again."""
        around, stack, facts = self._style_around(name), self._open.stack, self._looks.tag_style(name, content)
        known = (
            self._open.place_next(facts.match_target)
            if facts.match_target and self._looks.depends_on_place
            else facts.match_target
        )
        if stack and stack[-1].has_picture and facts.declared.get("position") in ("absolute", "fixed"):
            around = replace(around, behind=_on_picture(around.behind), behind_blocks=_on_picture(around.behind_blocks))
        if name == "summary" and stack and stack[-1].name == "details" and not stack[-1].has_summary:
            stack[-1].has_summary = True
            around = judged(replace(around, folded=False))
        style = self._looks.style_of(around, name, facts, self._open, known)
        if name == "details" and "open" not in attributes_of(content) and not style.hidden:
            style = judged(replace(style, folded=True))
        elif name in elements.CELLS:
            style = self._style_of_cell(style, content)
        outer = stack[-1].piece if stack else self._base_piece
        if not style.hidden or name in elements.NO_TEXT:
            piece = None
        elif outer and outer.technique == style.hidden:
            piece = outer
        else:
            piece = piece or Piece(style.hidden, is_counted=False)
        if name in elements.BLOCKS:
            self._line = None
        elif style.moves_line and not style.hidden:
            self._line = Piece("off-screen", is_counted=False)
        is_told = not style.gone and not (style.hidden and name in NOT_TOLD_UNSEEN) and token is not IMPLIED
        if is_told and not self._deeper.piece:
            self._write(token or Token(name, content=content))
        doubts = self._doubts_of(style, stack[-1].doubts if stack else self._base_doubts) if style.unjudged else None
        self._open.push(Element(name, content, style, known, is_told, piece, doubts=doubts))
        self._note_cover(name, style, facts.declared)

    def _doubts_of(self, style: Style, outer: dict[str, Piece] | None) -> dict[str, Piece]:
        """What cannot be judged of an element, each counted once; `outer`: of what it lies in."""
        if outer and len(outer) == len(style.unjudged) and all(name in outer for name in style.unjudged):
            return outer
        known = outer or {}
        return {name: known.get(name) or Piece(name, is_counted=False) for name in style.unjudged}

    def _note_cover(self, name: str, style: Style, declared: Mapping[str, object]) -> None:
        """Remember what may lie over other text: that is a doubt for the whole message."""
        if not style.gone and boxes.may_cover(name, declared, style.letters, is_behind_text=self._is_behind_text):
            if self._has_text:
                self._hidden["position: absolute"] += 1
            else:
                self._covers += 1

    # --- tables ---

    def _add_column(self, name: str, style: Style, attributes: Mapping[str, str]) -> None:
        """Take in a `col` or a `colgroup`."""
        table = self._open.last_place_of("table")
        if table < 0:
            return
        columns = self._open.stack[table].columns = self._open.stack[table].columns or Columns()
        is_collapsed = not style.visible or bool(style.gone)
        if name == "colgroup":
            columns.is_group_collapsed = is_collapsed
        span = 0 if name == "colgroup" and "span" not in attributes else _span(attributes.get("span", ""))
        if is_collapsed or columns.is_group_collapsed:
            columns.collapsed.update(range(columns.count, columns.count + span))
        columns.count += span

    def _style_of_cell(self, style: Style, content: str) -> Style:
        """The style of a cell: nothing is seen of one in a column that is collapsed (CSS 2.1, 17.5.5)."""
        table = self._open.last_place_of("table")
        columns = self._open.stack[table].columns if table >= 0 else None
        if columns is None or not columns.collapsed:
            return style
        attributes = attributes_of(content)
        start, columns.next = columns.next, columns.next + _span(attributes.get("colspan", ""))
        columns.has_long_cells = columns.has_long_cells or "rowspan" in attributes
        if style.hidden:
            return style
        if columns.has_long_cells:
            return judged(replace(style, doubts=style.doubts | {"col"}))
        if not columns.collapsed.issuperset(range(start, columns.next)):
            return style
        return Style(gone="visibility", hidden="visibility")

    def _style_of(self, around: Style, name: str, content: str) -> Style:
        facts = self._looks.tag_style(name, content)
        known = (
            self._open.place_next(facts.match_target)
            if facts.match_target and self._looks.depends_on_place
            else facts.match_target
        )
        return self._looks.style_of(around, name, facts, self._open, known)

    def _style_around(self, name: str) -> Style:
        """The style that text or an element gets from what it lies in.

        What stands in a table and in none of its cells is shown before the table (HTML 13.2.6.1, foster parenting).
        """
        stack = self._open.stack
        if not stack:
            return self._base
        style = stack[-1].style
        if stack[-1].name in elements.ROWS_AND_ABOVE and name not in elements.TABLE_PARTS:
            table = self._open.last_place_of("table")
            return stack[table - 1].style if table > 0 else self._base
        return style

    # --- tags that close ---

    def _close(self, name: str, token: Token) -> None:
        opened = self._open
        top = opened.stack[-1] if opened.stack else None
        if top and top.name == name and not (self._deeper.count or opened.waiting[-1] or top.is_closed):
            opened.pop()  # as nearly always
            if self._line and name in elements.BLOCKS:
                self._line = None
            if top.is_written:
                self._write(token)
            return
        if self._deeper.count and not self._ends_deeper(name, token):
            return
        if name in elements.FORMATTING:
            self._close_formatting(name)
        elif name not in elements.OUTER and name not in elements.PASSED_OVER:
            is_line = name == "p" or opened.last_place_of(name) < 0
            self._pop(opened.place_closed_by(name), else_tell=name if is_line else "")

    def _ends_deeper(self, name: str, token: Token) -> bool:
        """Whether a tag closes something around the elements beyond DEEPEST, and these with it."""
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

    def _pop(self, place: int, else_tell: str = "", *, by_its_tag: bool = False) -> None:
        """Close all down to a place; where there is none, the closing tag may yet begin a new line."""
        if place < 0:
            if else_tell and not self._style_around("").hidden:
                self._write(Token(else_tell, closes=True))
            return
        for element in self._open.pop_to(place, by_its_tag=by_its_tag):
            if element.name in elements.BLOCKS:
                self._line = None
            if element.is_written:
                self._write(Token(element.name, closes=True))

    def _close_formatting(self, name: str) -> None:
        """HTML 13.2.6.4.7, the adoption agency: blocks in such an element stay open behind its closing tag."""
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
        """The elements from here on lie in something of another style."""
        stack = self._open.stack
        self._restyled += len(stack) - place
        for number in range(place, len(stack)):
            element = stack[number]
            if self._restyled > _MOST_RESTYLED:
                style = UNSHOWN
            elif not element.is_closed:
                facts = self._looks.tag_style(element.name, element.content)
                style = self._looks.style_of(style, element.name, facts, _Up(self._open, number), element.match_target)
            element.style, element.matched_rules = style, None
            element.piece = Piece(style.hidden, is_counted=False) if style.hidden else None
            element.doubts = self._doubts_of(style, stack[number - 1].doubts if number else None)


def _on_picture(behind: Backdrop) -> Backdrop:
    return Backdrop(behind.colour, Picture("position: absolute", covers=False))


def _span(value: str) -> int:
    found = _DIGITS.match(value)
    return min(_MOST_COLUMNS, max(1, int(found[0]))) if found else 1


@dataclass
class _Up:
    """The elements up to a place."""

    opened: OpenElements
    place: int

    @property
    def key_counts(self) -> Mapping[str, int]:
        return self.opened.key_counts

    def match_targets(self) -> Sequence[Known]:
        return self.opened.match_targets(self.place)

    def matched_rules(self) -> dict[Facts, tuple[Rule, ...]]:
        return {}
