"""The style sheets of a mail: which of their rules count on a screen, and what they declare of an element.

What can be told without what lies around an element is told once for all that are written alike. Bounded by the number
of comparisons: where these are used up, rules that hide are taken to fit, and others not to.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape

from mailbox_appliance.mail import boxes, css, media
from mailbox_appliance.mail.markup import attributes_of, tokens
from mailbox_appliance.mail.properties import Declared, declared
from mailbox_appliance.mail.selectors import Compound, Known, NotUnderstood, Selector, asks_for_place, fits, selector
from mailbox_appliance.mail.style import ROOT, styled
from mailbox_appliance.mail.unjudged import Unjudged

MOST_RULES = 20_000  # selectors of one mail; of those behind only the rules that hide count
_MOST_RULES_AT_ALL = 40_000
_MOST_COMPARISONS = 1_000_000
_MOST_AFTER_THAT = 20  # rules that are looked at, of each kind, when these are used up
_LONGEST_KEPT = 200_000  # characters
_LONGEST_PARENT = 500  # characters of a selector
_DEEPEST = 5  # `@media` in `@media`, rules in rules
_MOST_SIGNS = 12  # `&` in one selector
_LAYERS = re.compile(r"@layer\s++([^;{}\s][^;{}]{0,499}+)[;{]")
_UNLAYERED = (float("inf"),)
_INCLUDED = re.compile(r"@import\s*+(?:url\(\s*+)?[\"']?\s*+(?:data|cid):")
_SUPPORTED = re.compile(r"@supports\s*+\(?\s*+(not\s*+)?\(\s*+([\w-]+\s*+:[^()]++)\)\s*+\)?")
#: Blocks whose rules may count or not: the appliance does not know the size of boxes or what happens over time.
_DOUBTED = {name: name for name in ("@container", "@scope", "@starting-style", "@when", "@else")}
_PSEUDO = re.compile(r"::?(first-line|first-letter|before|after|details-content)\s*\Z", re.I)
_LETTERS = frozenset({"color", "-webkit-text-fill-color"})
_PAINTED = frozenset({"background-color", "background-image"})
#: What a mail declares that concerns all of its text, and cannot be judged.
DATA_SHEET, DATA_FONT, SELECTOR = "style sheet in a data: URL", "@font-face", "selector"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one selector declares. `hides`: whether something is not seen where only that is declared."""

    selector: Selector
    around: tuple[str, ...]  # what the elements around must have, each: a name, `.class` or `#id`
    order: tuple[tuple[float, ...], int, int, int, int]
    usual: Declared
    important: Declared
    hides: bool
    is_plain: bool  # whoever has what it is found by is its subject
    depends_on_place: bool = False  # which of its siblings an element is
    doubt: str = ""  # why it cannot be told whether it counts


def sheets_of(html: str) -> Iterator[str]:
    """The style sheets that stand in HTML, wherever: one at the end counts for what stands before it.

    For one that a link brings with it, in a `data:` or `cid:` address, stands an `@import` of it.
    """
    lower = html.lower()
    last = max(lower.rfind("<style"), lower.rfind("<link"))
    counts: bool | str = False
    if last < 0:
        return
    for token in tokens(html):
        if token.name == "link" and not token.closes:
            if _is_included(attributes_of(token.content)):
                yield '@import "data:"'
        elif token.name == "style" and not token.closes:
            attributes = attributes_of(token.content)
            kind = attributes.get("type", "").strip().lower()
            counts = kind in ("", "text/css") and media.holds(unescape(attributes.get("media", "")))
            continue
        elif counts:
            sheet = unescape(token.content)
            yield sheet if counts is True else f"@media (unknown) {{{sheet}}}"
        if token.end > last:
            return
        counts = False


def _is_included(attributes: dict[str, str]) -> bool:
    """Whether a link is to a style sheet in the message; mail programs load none from elsewhere."""
    if "stylesheet" not in unescape(attributes.get("rel", "")).lower():
        return False
    address = re.sub(r"[\t\r\n]", "", unescape(attributes.get("href", ""))).strip().lower()
    return address.startswith(("data:", "cid:"))


def _holds_here(prelude: str) -> bool | str:
    """Whether the rules in such a block count; a name where that cannot be told."""
    name = re.split(r"[\s(]", prelude, maxsplit=1)[0]
    if name.startswith("@media"):
        return media.holds(prelude.removeprefix("@media"))
    if name == "@supports":
        return _is_supported(prelude)
    return _DOUBTED.get(name, name == "@layer")


def _is_supported(prelude: str) -> bool | str:
    """What is read here, browsers support."""
    found = _SUPPORTED.fullmatch(prelude.strip())
    if found is None or not any(declared(found[2])):
        return "@supports"
    return not found[1]


@dataclass
class Index:
    """Rules, found by what the element that they are about must have."""

    count: int = 0
    depends_on_ancestors: bool = False
    depends_on_place: bool = False  # which of its siblings an element is
    depends_on_attributes: bool = False  # others than `id` and `class`
    by_key: dict[str, list[Rule]] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)  # what concerns all text
    animations: set[str] = field(default_factory=set)  # their names, of those that could hide something
    _layers: dict[str, int] = field(default_factory=dict)

    def add(self, sheet: str) -> None:
        """Take in the rules of a style sheet without comments."""
        plain = css.unescaped(sheet).lower()
        if "@import" in plain and _INCLUDED.search(plain):
            self.unjudged.add(DATA_SHEET)
        for found in _LAYERS.finditer(plain) if "@layer" in plain else ():
            for name in found[1].split(","):
                self._layers.setdefault(name.strip(), len(self._layers))
        self._add_blocks(css.blocks(sheet), ("",), _Place())

    def _add_blocks(self, blocks: Iterable[css.Block], parents: Sequence[str], place: "_Place") -> None:
        """Take in rules; `parents`: the selectors of the rule that they stand in."""
        for block in blocks:
            if self.count >= _MOST_RULES_AT_ALL:
                return
            if block.prelude.startswith("@"):
                self._add_at_rule(block, parents, place)
            elif place.depth < _DEEPEST:
                written = list(css.split(block.prelude, ","))
                inside = [each for parent in parents for each in self._nested_selectors(parent, written)]
                self._add_rules(inside, block.content, place)
            elif "{" in block.content or any(declared(block.content)):
                self.unjudged.add(SELECTOR)

    def _nested_selectors(self, parent: str, written: Sequence[str]) -> Iterator[str]:
        """The selectors of a rule in another one (CSS Nesting 1, 3)."""
        if not parent:
            yield from written
            return
        for each in written:
            self.count += 1
            if self.count > _MOST_RULES_AT_ALL:
                return
            signs = each.count("&")
            if signs > _MOST_SIGNS or len(parent) > _LONGEST_PARENT:
                self.unjudged.add(SELECTOR)
            else:
                yield each.replace("&", parent) if signs else f"{parent} {each.strip()}"

    def _add_at_rule(self, block: css.Block, parents: Sequence[str], place: "_Place") -> None:
        prelude = css.unescaped(block.prelude).lower()
        if prelude.startswith(("@keyframes", "@-webkit-keyframes")):
            self._add_animation(prelude, block.content)
        elif prelude.startswith("@font-face"):
            content = css.unescaped(block.content).lower()
            if "data:" in content or "cid:" in content or "size-adjust" in content:
                self.unjudged.add(DATA_FONT)
        elif holds := _holds_here(prelude):
            if place.depth >= _DEEPEST:
                self.unjudged.add(SELECTOR)
                return
            inside = place.inside("" if holds is True else holds, self._layer(prelude, place))
            if parents == ("",):
                self._add_blocks(css.blocks(block.content), parents, inside)
            else:
                self._add_rules(parents, block.content, inside)

    def _layer(self, prelude: str, place: "_Place") -> tuple[float, ...]:
        if not prelude.startswith("@layer"):
            return place.layer
        name = prelude.removeprefix("@layer").strip()
        number = self._layers.setdefault(name or f" {len(self._layers)}", len(self._layers))
        return (*place.layer[:-1], number, *_UNLAYERED)

    def _add_animation(self, prelude: str, content: str) -> None:
        for block in css.blocks(content):
            usual, important = declared(block.content)
            found = {**usual, **important}
            style = styled(ROOT, "div", found)
            if style.hidden or style.unjudged or not (_LETTERS | _PAINTED).isdisjoint(found):
                self.animations.add(prelude.partition("keyframes")[2].strip().strip("\"'"))
                return

    def _add_rules(self, written: Sequence[str], content: str, place: "_Place") -> None:
        own, inside = css.nested(content)
        usual, important = declared(own)
        if usual or important:
            found = {**usual, **important}
            style = styled(ROOT, "div", found)
            hides = bool(style.hidden)
            for each in written:
                self.count += 1
                if self.count > _MOST_RULES_AT_ALL:
                    return
                if pseudo := _PSEUDO.search(each):
                    doubt = _of_pseudo_element(pseudo[1].lower(), found, hides or bool(style.unjudged))
                    if doubt:
                        self._add_rule(each[: pseudo.start()] or "*", {doubt: Unjudged(doubt)}, {}, place, hides=False)
                elif self.count <= MOST_RULES or hides:
                    self._add_rule(each, usual, important, place, hides=hides)
        if inside:
            self._add_blocks(inside, tuple(each.strip() for each in written), place.inside("", place.layer))

    def _add_rule(self, written: str, usual: Declared, important: Declared, place: "_Place", *, hides: bool) -> None:
        try:
            found = selector(written)
        except NotUnderstood:
            if hides:
                self.unjudged.add(SELECTOR)
            return
        if found:
            self._add_parsed(found, usual, important, place, hides=hides)

    def _add_parsed(
        self, found: Selector, usual: Declared, important: Declared, place: "_Place", *, hides: bool
    ) -> None:
        compounds = (found.subject, *(compound for _, compound in found.around))
        asks_place = any(map(asks_for_place, compounds)) or any(sign in ("+", "~") for sign, _ in found.around)
        around = _around(found) or (("*",) if asks_place else ())
        self.depends_on_ancestors = self.depends_on_ancestors or bool(around)
        self.depends_on_place = self.depends_on_place or asks_place
        self.depends_on_attributes = self.depends_on_attributes or any(each.depends_on_attributes for each in compounds)
        doubt = place.doubt or next((each.vague for each in compounds if each.vague), "")
        order = (place.layer, *found.weight, self.count)
        rule = Rule(found, around, order, usual, important, hides, _is_plain(found.subject), asks_place, doubt)
        self.by_key.setdefault(_key(found.subject), []).append(rule)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule stands: how deep, in which layer, and why it may not count."""

    depth: int = 0
    layer: tuple[float, ...] = _UNLAYERED
    doubt: str = ""

    def inside(self, doubt: str, layer: tuple[float, ...]) -> "_Place":
        return _Place(self.depth + 1, layer, self.doubt or doubt)


def _of_pseudo_element(name: str, found: Declared, could_hide: bool) -> str:
    """A name where letters may be hidden by what is declared of a line, of a letter, or of what is put over them."""
    if name in ("before", "after"):
        kind = "img" if isinstance(found.get("content"), Unjudged) else ""
        return f"::{name}" if boxes.may_cover(kind, found, 16.0, is_behind_text=True) else ""
    is_coloured = name == "first-line" and not _LETTERS.isdisjoint(found)
    return f"::{name}" if could_hide or is_coloured else ""


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

    def candidates(self, known: Known) -> list[Rule]:
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

    def matches(self, rule: Rule, known: Known, around: Sequence[Known]) -> bool:
        """Whether a rule is about an element that is its subject, in its place; `around`, the outermost first."""
        if rule.depends_on_place and not fits(rule.selector.subject, known):
            return False
        return self._matches_from(rule, known, around, len(around), 0)

    def _matches_from(self, rule: Rule, known: Known, around: Sequence[Known], stop: int, part: int) -> bool:
        """Whether what is before an element is what the rule asks for, from one of its parts on."""
        if part == len(rule.selector.around):
            return True
        sign, compound = rule.selector.around[part]
        for other, place in _before(sign, known, around, stop):
            self.comparisons += 1
            if self.is_over:
                return rule.hides
            if fits(compound, other) and self._matches_from(rule, other, around, place, part + 1):
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
    Selector(Compound(), (), (0, 0, 0)),
    (),
    (_UNLAYERED, 9, 0, 0, 0),
    {},
    {"display": "none"},
    hides=True,
    is_plain=True,
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
    for rule in sorted(rules, key=_importance) if any(rule.order[0] != _UNLAYERED for rule in rules) else rules:
        found |= rule.important
    return found | important


def _importance(rule: Rule) -> tuple[object, ...]:
    """What is important counts the more the earlier its layer is (CSS Cascade 5, 6.4.4)."""
    return (tuple(-number for number in rule.order[0]), *rule.order[1:])
