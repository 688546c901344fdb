"""The style sheets of a mail: which of their rules count on a screen, and what they declare of an element.

What can be told without what lies around an element is told once for all that are written alike. Bounded by the number
of comparisons: where these are used up, rules that hide are taken to fit, and others not to.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape

from mailbox_appliance.mail import css
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.markup import attributes_of, tokens
from mailbox_appliance.mail.properties import UNKNOWN, Declared, declared
from mailbox_appliance.mail.selectors import Compound, Known, Selector, asks_for_place, fits, selectors
from mailbox_appliance.mail.style import ROOT, styled

MOST_RULES = 20_000  # selectors of one mail; of those behind only the rules that hide count
_MOST_RULES_AT_ALL = 40_000
_MOST_COMPARISONS = 1_000_000
_MOST_AFTER_THAT = 20  # rules that are looked at, of each kind, when these are used up
_LONGEST_KEPT = 200_000  # characters
_DEEPEST = 5  # `@media` in `@media`
_CONDITION = re.compile(r"\(\s*(min|max)-(?:device-)?(?:width|height)\s*:\s*(\d{1,6})(?:\.\d+)?(px)?\s*\)")
_EVERY_SCREEN = range(320, 3_000)  # pixels: a screen is at least so wide, and at most


@dataclass(frozen=True, slots=True)
class Rule:
    """What one selector declares. `hides`: whether something is not seen where only that is declared."""

    selector: Selector
    around: tuple[str, ...]  # what the elements around must have, each: a name, `.class` or `#id`
    order: tuple[int, int, int, int]
    usual: Declared
    important: Declared
    hides: bool
    is_plain: bool  # whoever has what it is found by is its subject
    asks_place: bool = False  # which of its siblings an element is


def sheets_of(html: str) -> Iterator[str]:
    """The style sheets that stand in HTML, wherever: one at the end counts for what stands before it."""
    last = html.lower().rfind("<style")
    is_css = False
    if last < 0:
        return
    for token in tokens(html):
        if token.name == "style" and not token.closes:
            attributes = attributes_of(token.content)
            kind = attributes.get("type", "").strip().lower()
            is_css = kind in ("", "text/css") and is_for_screens(attributes.get("media", ""))
            continue
        if is_css:
            yield unescape(token.content)
        if token.end > last:
            return
        is_css = False


def is_for_screens(media: str) -> bool:
    """Whether a media query holds on every screen: a list of `screen`, `all`, and of widths that all screens have."""
    queries = [query.strip() for query in media.lower().split(",")]
    return queries == [""] or any(_holds(query) for query in queries)


def _holds_here(prelude: str) -> bool:
    """Whether the rules in such a block count. Browsers support what mail asks for."""
    name, _, condition = prelude.partition(" ")
    if name.startswith("@media"):
        return is_for_screens(prelude.removeprefix("@media"))
    return name.startswith("@layer") or (name.startswith("@supports") and not condition.startswith("not"))


def _holds(query: str) -> bool:
    parts = [part.strip().removeprefix("only ").strip() for part in re.split(r"\band\b", query)]
    return all(part in ("screen", "all") or _is_met(part) for part in parts)


def _is_met(condition: str) -> bool:
    found = _CONDITION.fullmatch(condition)
    if found is None:
        return False
    pixels = int(found[2])
    return pixels <= _EVERY_SCREEN.start if found[1] == "min" else pixels >= _EVERY_SCREEN.stop


@dataclass
class Index:
    """Rules, found by what the element that they are about must have."""

    count: int = 0
    asks_around: bool = False
    asks_place: bool = False  # which of its siblings an element is
    asks_for_attributes: bool = False  # others than `id` and `class`
    by_key: dict[str, list[Rule]] = field(default_factory=dict)

    def add(self, sheet: str, depth: int = 0) -> None:
        """Take in the rules of a style sheet without comments."""
        for block in css.blocks(sheet):
            if self.count >= _MOST_RULES_AT_ALL:
                return
            if not block.prelude.startswith("@"):
                self._add_rules(block)
            elif depth < _DEEPEST and _holds_here(block.prelude.lower()):
                self.add(block.content, depth + 1)

    def _add_rules(self, block: css.Block) -> None:
        usual, important = declared(block.content)
        if not usual and not important:
            return
        hides = bool(styled(ROOT, "div", {**usual, **important}).hidden)
        for selector in selectors(block.prelude):
            self.count += 1
            if self.count > _MOST_RULES_AT_ALL:
                return
            if self.count <= MOST_RULES or hides:
                self._keep(selector, usual, important, hides=hides)

    def _keep(self, selector: Selector, usual: Declared, important: Declared, *, hides: bool) -> None:
        compounds = (selector.subject, *(compound for _, compound in selector.around))
        asks_place = any(map(asks_for_place, compounds)) or any(sign in ("+", "~") for sign, _ in selector.around)
        around = _around(selector) or (("*",) if asks_place else ())
        self.asks_around = self.asks_around or bool(around)
        self.asks_place = self.asks_place or asks_place
        self.asks_for_attributes = self.asks_for_attributes or any(each.asks_for_attributes for each in compounds)
        if any(each.is_vague for each in compounds):
            usual, important, hides = _vaguely(usual), _vaguely(important), False
        order = (*selector.weight, self.count)
        rule = Rule(selector, around, order, usual, important, hides, _is_plain(selector.subject), asks_place)
        self.by_key.setdefault(_key(selector.subject), []).append(rule)


def _vaguely(found: Declared) -> Declared:
    """What counts of a rule of which it is not told whether it fits: that something may be seen that else is not."""
    vague: Declared = {name: UNKNOWN for name in ("color", "-webkit-text-fill-color") if name in found}
    if any(name in found for name in ("background-color", "background-image", "box-shadow")):
        vague["background-image"] = True
    size, opacity = found.get("font-size"), found.get("opacity")
    if isinstance(size, Length) and size.resolved(16.0, 0.16) >= 2:
        vague["font-size"] = size
    if isinstance(opacity, float) and opacity >= 0.1:
        vague["opacity"] = opacity
    if found.get("display", "none") != "none":
        vague["display"] = found["display"]
    return vague | ({"visibility": "visible"} if found.get("visibility") == "visible" else {})


def _around(selector: Selector) -> tuple[str, ...]:
    """What one of the elements around must have; of a sibling nothing is said."""
    signs = {sign for sign, _ in selector.around}
    if "+" in signs or "~" in signs:
        return ("*",)
    return tuple(_key(compound) for _, compound in selector.around)


def index_of(sheets: tuple[str, ...]) -> Index:
    """The rules of all style sheets of a mail. Kept for a while: a newsletter has the same ones each time."""
    return _index_kept(sheets) if sum(map(len, sheets)) <= _LONGEST_KEPT else _index(sheets)


def _index(sheets: tuple[str, ...]) -> Index:
    index = Index()
    for sheet in sheets:
        index.add(css.without_comments(sheet))
    return index


_index_kept = lru_cache(maxsize=8)(_index)


@dataclass
class Matching:
    """Which rules are about the elements of one mail."""

    index: Index
    comparisons: int = 0

    @property
    def is_over(self) -> bool:
        """Whether there were as many comparisons as there may be."""
        return self.comparisons > _MOST_COMPARISONS

    def about(self, known: Known) -> list[Rule]:
        """The rules whose subject an element is, the weightiest last; around it they may ask for others yet."""
        if self.index.count >= _MOST_RULES_AT_ALL and (known.id or known.classes):
            return [_LEFT_OUT]
        found: list[Rule] = []
        for key in ("*", *known.keys):
            rules = self.index.by_key.get(key, ())
            self.comparisons += len(rules)
            if not self.is_over:
                found += [rule for rule in rules if rule.is_plain or fits(rule.selector.subject, known)]
            else:
                found += hiding(rules)
        return sorted(found, key=lambda rule: rule.order)

    def suits(self, rule: Rule, known: Known, around: Sequence[Known]) -> bool:
        """Whether a rule is about an element that is its subject, in its place; `around`, the outermost first."""
        if rule.asks_place and not fits(rule.selector.subject, known):
            return False
        return self._stands(rule, known, around, len(around), 0)

    def _stands(self, rule: Rule, known: Known, around: Sequence[Known], stop: int, part: int) -> bool:
        """Whether what is before an element is what the rule asks for, from one of its parts on."""
        if part == len(rule.selector.around):
            return True
        sign, compound = rule.selector.around[part]
        for other, place in _before(sign, known, around, stop):
            self.comparisons += 1
            if self.is_over:
                return rule.hides
            if fits(compound, other) and self._stands(rule, other, around, place, part + 1):
                return True
        return False


def _before(sign: str, known: Known, around: Sequence[Known], stop: int) -> Iterator[tuple[Known, int]]:
    """Siblings or elements around, the nearest first, and how many of those around lie around them."""
    if sign in ("+", "~"):
        other = known.previous
        while other is not None:
            yield other, stop
            other = other.previous if sign == "~" else None
        return
    lowest = stop - 1 if sign else 0
    for place in range(stop - 1, max(lowest, 0) - 1, -1):
        yield around[place], place


def hiding(rules: Sequence[Rule]) -> list[Rule]:
    """Some of the rules that hide: those that are taken to fit where there is no time to look."""
    return [rule for rule in rules[-_MOST_AFTER_THAT:] if rule.hides]


_LEFT_OUT = Rule(
    Selector(Compound(), (), (0, 0, 0)), (), (9, 0, 0, 0), {}, {"display": "none"}, hides=True, is_plain=True
)


def _is_plain(compound: Compound) -> bool:
    others = len(compound.attributes) + len(compound.conditions)
    return bool(compound.id) + len(compound.classes) + bool(compound.tag) + 2 * others <= 1


def _key(compound: Compound) -> str:
    """What an element must have before all: it is found by that."""
    if compound.id:
        return f"#{compound.id}"
    return f".{compound.classes[0]}" if compound.classes else compound.tag or "*"


def cascaded(rules: Sequence[Rule], hints: Declared, style: str) -> Declared:
    """What is declared of an element in the end: by old attributes, by rules, by its `style` (CSS Cascade 6)."""
    usual, important = declared(style) if style else ({}, {})
    found = dict(hints)
    for rule in rules:
        found |= rule.usual
    found |= usual
    for rule in rules:
        found |= rule.important
    return found | important
