"""The elements that are open while HTML is read, and which of them a tag closes (HTML 13.2.4.2 to 13.2.6.4).

No tree, and no way back: every element is put on and taken off once, and where one lies is known without a search.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mailbox_appliance.mail.elements import (
    BARRIERS,
    CELLS,
    CLOSES_PARAGRAPH,
    FORMATTING,
    HEADINGS,
    ITEMS,
    LISTS,
    MARKERS,
    OPTIONS,
    SCOPES,
    SECTIONS,
    SPECIAL,
    TABLE_PARTS,
)
from mailbox_appliance.mail.selectors import Known
from mailbox_appliance.mail.style import Style

DEEPEST = 2_000  # elements in each other that are told apart
_REACH_OF_PICTURES = 3  # elements in each other
_MOST_WAITING = 6
_MOST_ALIKE = 3  # HTML 13.2.4.3, "Noah's Ark"


@dataclass(slots=True)
class Piece:
    """Text that is hidden by one element, and by those in it that hide it in the same way."""

    technique: str
    is_counted: bool


@dataclass(slots=True)
class Siblings:
    """What was opened so far in one element."""

    count: int = 0
    by_name: dict[str, int] = field(default_factory=dict)
    last: Known | None = None


@dataclass(slots=True)
class Columns:
    """The columns of a table: how many were declared, which of them are not shown, and the next one in its row."""

    count: int = 0
    collapsed: set[int] = field(default_factory=set)
    is_group_collapsed: bool = False  # the group of columns that is declared
    next: int = 0
    has_long_cells: bool = False  # cells that reach into other rows: where a cell stands is not told then


@dataclass(slots=True)
class Element:
    """An open element."""

    name: str
    content: str  # its attributes as written
    style: Style
    match_target: Known | None  # where there are rules that ask for it
    is_written: bool  # whether its tag was passed on
    piece: Piece | None
    matched_rules: dict[Any, Any] | None = None  # what was found of rules for elements in it
    has_picture: bool = False  # something may lie over that
    siblings: Siblings | None = None  # that lie in it
    doubts: dict[str, Piece] | None = None  # what cannot be judged of its text
    has_summary: bool = False  # of `details`
    columns: Columns | None = None  # of a table
    is_closed: bool = False  # its closing tag came while blocks in it were open


@dataclass
class OpenElements:
    """A stack, with the places of each name in it."""

    stack: list[Element] = field(default_factory=list)
    #: Formatting elements whose tag was not closed when what they lay in was: they go on with the next text.
    waiting: list[list[Element]] = field(default_factory=lambda: [[]])
    is_standard: bool = False  # it is no old document
    #: How many of them rules find by each name, `.class` and `#id`.
    key_counts: dict[str, int] = field(default_factory=dict)
    outermost: list[Known] = field(default_factory=list)  # `html` and `body`
    _siblings: Siblings = field(default_factory=Siblings)
    _matched_rules: dict[Any, Any] = field(default_factory=dict)
    _places: dict[str, list[int]] = field(default_factory=dict)
    _scopes: list[int] = field(default_factory=lambda: [-1])
    _special: list[int] = field(default_factory=lambda: [-1])
    _barriers: list[int] = field(default_factory=lambda: [-1])

    def set_outermost(self, outermost: list[Known]) -> None:
        """Tell what `html` and `body` are."""
        self._matched_rules.clear()
        self.outermost = outermost
        self.key_counts = dict.fromkeys((key for known in outermost for key in known.keys), 1)

    def match_targets(self, place: int | None = None) -> list[Known]:
        """What rules look at of each element up to a place, the outermost first."""
        return self.outermost + [each.match_target for each in self.stack[:place] if each.match_target]

    def matched_rules(self) -> dict[Any, Any]:
        """What was found of rules for elements in the last one."""
        if not self.stack:
            return self._matched_rules
        last = self.stack[-1]
        if last.matched_rules is None:
            last.matched_rules = {}
        return last.matched_rules

    def place_next(self, known: Known) -> Known:
        """What rules look at of the next element in the last one, with its place there."""
        siblings = self._siblings
        if self.stack:
            siblings = self.stack[-1].siblings = self.stack[-1].siblings or Siblings()
        siblings.count += 1
        of_type = siblings.by_name[known.tag] = siblings.by_name.get(known.tag, 0) + 1
        siblings.last = replace(known, number=siblings.count, of_type=of_type, previous=siblings.last)
        return siblings.last

    def mark_picture(self) -> None:
        """There is a picture in the last element, and in those around it."""
        for element in self.stack[-_REACH_OF_PICTURES:]:
            element.has_picture = True

    def push(self, element: Element) -> None:
        """Open an element inside the last one."""
        place, name = len(self.stack), element.name
        self.stack.append(element)
        self._places.setdefault(name, []).append(place)
        if name in SPECIAL:
            self._special.append(place)
            if name in BARRIERS:
                self._barriers.append(place)
            if name in SCOPES:
                self._scopes.append(place)
            if name in MARKERS:
                self.waiting.append([])
        if element.match_target:
            for key in element.match_target.keys:
                self.key_counts[key] = self.key_counts.get(key, 0) + 1

    def pop(self) -> Element:
        """Close the last element by its own tag."""
        element = self.stack.pop()
        self._forget(element, len(self.stack))
        return element

    def pop_to(self, place: int, *, by_its_tag: bool = False) -> list[Element]:
        """Close all from the top down to a place; formatting that was not closed itself waits for the next text."""
        closed: list[Element] = []
        waiting: list[Element] = []
        while len(self.stack) > place:
            element = self.stack.pop()
            if element.is_closed:
                continue
            closed.append(element)
            if self._forget(element, len(self.stack)):
                waiting.clear()
            elif element.name in FORMATTING and not (by_its_tag and len(self.stack) == place):
                waiting.append(element)
        for element in reversed(waiting):
            self._keep_formatting(element)
        return closed

    def _forget(self, element: Element, place: int) -> bool:
        """Whether what was formatted in it does not go on behind it."""
        name = element.name
        self._places[name].pop()
        if element.match_target:
            self._forget_keys(element.match_target)
        if name not in SPECIAL:
            return False
        for places in (self._special, self._barriers, self._scopes):
            if places[-1] == place:
                places.pop()
        if name in MARKERS:
            self.waiting.pop()
        return name in MARKERS

    def _forget_keys(self, known: Known) -> None:
        for key in known.keys:
            if self.key_counts[key] == 1:
                del self.key_counts[key]
            else:
                self.key_counts[key] -= 1

    def _keep_formatting(self, element: Element) -> None:
        waiting = self.waiting[-1]
        alike = [each for each in waiting if (each.name, each.content) == (element.name, element.content)]
        if len(alike) >= _MOST_ALIKE:
            waiting.remove(alike[0])
        elif len(waiting) >= _MOST_WAITING:
            waiting.remove(next((each for each in waiting if not each.style.gone), waiting[1]))
        waiting.append(element)

    def close_formatting(self, place: int) -> Element:
        """Take a formatting element out of effect in whose blocks the text goes on; it stays where it is."""
        element = self.stack[place]
        element.is_closed = True
        self._places[element.name].pop()  # it is the last of its name
        if element.match_target:
            self._forget_keys(element.match_target)
            element.match_target = None
        return element

    # --- what closes ---

    def places_to_close_first(self, name: str) -> Iterator[int]:
        """The places down to which all must be closed, one after the other, before such an element is opened."""
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
        """The place of what a closing tag closes; -1 where it closes nothing."""
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
        if name in SPECIAL:
            return self.place_in_scope(name)
        place = self.last_place_of(name)
        return place if place > self._special[-1] else -1

    def is_formatted_by(self, name: str) -> bool:
        """Whether a formatting element of that name is in force since the last cell or the like began."""
        if any(each.name == name for each in self.waiting[-1]):
            return True
        return self.last_place_of(name) > max(map(self.last_place_of, MARKERS))

    # --- where ---

    def last_place_of(self, name: str) -> int:
        """The place of the last open element of that name; -1 where there is none."""
        places = self._places.get(name)
        return places[-1] if places else -1

    def place_in_scope(self, name: str) -> int:
        """The place of the last one of that name that a closing tag reaches; -1 where there is none."""
        place = self.last_place_of(name)
        return place if place >= self._scopes[-1] else -1

    def _place_of_paragraph(self) -> int:
        place = self.place_in_scope("p")
        return place if place > self.last_place_of("button") else -1

    def _place_of_item(self, *names: str) -> int:
        barrier = self._barriers[-1]
        return barrier if barrier >= 0 and self.stack[barrier].name in names else -1

    def has_block_above(self, place: int) -> bool:
        """Whether a block is open inside an element."""
        return self._special[-1] > place

    def _is_in_table(self) -> bool:
        """Whether a table is open, and no cell or caption in it."""
        return self.last_place_of("table") > max(map(self.last_place_of, (*CELLS, "caption")))

    def place_of_table_part(self, *names: str) -> int:
        """The last of these in the last table; -1 where it has none."""
        place = max(map(self.last_place_of, names))
        return place if place > self.last_place_of("table") else -1

    def place_of_section(self) -> int:
        """The part of the last table that rows lie in."""
        return self.place_of_table_part(*SECTIONS)
