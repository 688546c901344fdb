"""How the elements of one mail look: attributes, style sheets and what lies around them, brought together.

Elements that are written alike in the same place are looked at once: newsletters repeat themselves.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Protocol

from mailbox_appliance.mail import backdrop, colours, variables
from mailbox_appliance.mail.colours import Colour
from mailbox_appliance.mail.elements import BLOCKS, UNSHOWN
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.markup import attributes_of
from mailbox_appliance.mail.properties import Declared
from mailbox_appliance.mail.selectors import Known
from mailbox_appliance.mail.sheets import Matching, Rule, cascaded, hiding, index_of, sheets_of
from mailbox_appliance.mail.style import ROOT, Style, either, judged, link_colour, styled
from mailbox_appliance.mail.style import UNSHOWN as NOT_SHOWN
from mailbox_appliance.mail.unjudged import Unjudged

_MOST_KEPT = 4_000
_SMALLEST_PICTURE = 1.0  # pixels
_LOOKED_AT = (
    "style",
    "hidden",
    "popover",
    "bgcolor",
    "background",
    "color",
    "text",
    "size",
    "width",
    "height",
    "id",
    "class",
)
_TELLING = re.compile("style|hidden|popover|color|background|text|size|width|height|href|open")
_MOST_DOUBTED = 8  # rules that are judged alone, for one element
_MOST_CLASSES = 50  # of one element
_LONGEST_KEPT = 1_000  # characters
_OF_THEIR_OWN = UNSHOWN | {
    "button",
    "dialog",
    "mark",
    "marquee",
    "small",
    "sub",
    "sup",
    "table",
    "textarea",
}  # look other than what is around them
_NAMES = re.compile(r"[^\s,()\"']+")
_DIGITS = re.compile(r"\s*([+-]?)(\d{1,5})")
_SIZES = (10.0, 10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0)  # of `<font size>`, 1 to 7


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What can be told of an element without what lies around it."""

    declared: Declared
    match_target: Known | None
    rules: tuple[Rule, ...]
    context_rules: Mapping[
        str, Sequence[Rule]
    ]  # rules that ask for elements around, by the first thing that they ask for
    hiding_rules: tuple[Rule, ...]  # some of these, that hide
    hints: Declared
    style: str
    doubtful_rules: tuple[Rule, ...]  # rules of which it cannot be told whether they count
    is_link: bool
    depends_on_place: bool = False


_NOTHING = Facts({}, None, (), {}, (), {}, "", (), is_link=False)


class Around(Protocol):
    """The elements that another one lies in."""

    @property
    def key_counts(self) -> Mapping[str, int]:
        """How many of them rules find by each name, `.class` and `#id`."""

    def match_targets(self) -> Sequence[Known]:
        """What rules look at of each, the outermost first."""

    def matched_rules(self) -> dict[Facts, tuple[Rule, ...]]:
        """What was found to fit elements in the innermost of them."""


@dataclass
class Looks:
    """Tells the style of each element of one mail."""

    html: str
    link: Colour | None = None
    _tag_styles: dict[tuple[str, str], Facts] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], Facts] = field(default_factory=dict)
    _styles: dict[tuple[Style, str, Facts, tuple[object, ...]], Style] = field(default_factory=dict)
    _interned: dict[tuple[object, ...], Style] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sheets = tuple(sheets_of(self.html))
        self._variables = variables.constants(self.html, sheets)
        index = index_of(tuple([variables.replaced(sheet, self._variables) for sheet in sheets]))
        self._matching = Matching(index) if index.count else None
        self._animations = index.animations
        self._root = replace(ROOT, doubts=frozenset(index.unjudged)) if index.unjudged else ROOT

    @property
    def depends_on_place(self) -> bool:
        """Whether rules look at which of its siblings an element is."""
        return self._matching is not None and self._matching.index.depends_on_place

    def style_of(self, around: Style, name: str, facts: Facts, elements: Around, known: Known | None) -> Style:
        """The style of an element in one with the style `around`; `known` is what rules look at of it."""
        if around.gone:
            return around
        if facts is _NOTHING and name not in _OF_THEIR_OWN and (around.same_for_blocks or name not in BLOCKS):
            return around
        rules = self._rules_for(facts, elements, known) if facts.context_rules else ()
        key = (around, name, facts, tuple([rule.order for rule in rules]))
        found = self._styles.get(key)
        if found is None:
            found = self._compute_style(around, name, facts, rules)
            found = self._interned.setdefault(found.values(), found)
            if len(self._styles) < _MOST_KEPT:
                self._styles[key] = found
        return found

    def tag_style(self, name: str, content: str) -> Facts:
        """What can be told of an element by its tag."""
        if self._matching is None and name != "dialog" and not (content and _TELLING.search(content.lower())):
            return _NOTHING
        key = (name, content)
        found = self._tag_styles.get(key)
        if found is None:
            found = self._tag_style_of(name, attributes_of(content))
            if len(self._tag_styles) < _MOST_KEPT and len(content) <= _LONGEST_KEPT:
                self._tag_styles[key] = found
        return found

    def _tag_style_of(self, name: str, attributes: dict[str, str]) -> Facts:
        """The same for all elements that differ in nothing that matters."""
        matters = (
            tuple(sorted(attributes.items()))
            if self._matching and self._matching.index.depends_on_attributes
            else tuple([attributes.get(each) for each in _LOOKED_AT])
        )
        key = (name, "href" in attributes, "open" in attributes, matters)
        found = self._alike.get(key)
        if found is None:
            found = self._make_tag_style(name, {key: unescape(value) for key, value in attributes.items()})
            if len(self._alike) < _MOST_KEPT:
                self._alike[key] = found
        return found

    def _make_tag_style(self, name: str, attributes: dict[str, str]) -> Facts:
        known: Known | None = None
        rules: list[Rule] = []
        doubtful: list[Rule] = []
        asking: dict[str, list[Rule]] = {}
        if self._matching:
            known = _known(name, attributes)
            for rule in self._matching.candidates(known):
                if rule.around:
                    asking.setdefault(rule.around[0], []).append(rule)
                else:
                    (doubtful if rule.doubt else rules).append(rule)
        hints, style = _hints(name, attributes), variables.replaced(attributes.get("style", ""), self._variables)
        declared = cascaded(rules, hints, style)
        is_link = name == "a" and "href" in attributes
        if not (self._matching and self._matching.index.depends_on_ancestors):
            known = None
        if not (declared or asking or doubtful or known or is_link):
            return _NOTHING
        hidden = tuple(hiding([rule for few in asking.values() for rule in few]))
        asks_place = any(rule.depends_on_place for few in asking.values() for rule in few)
        return Facts(declared, known, tuple(rules), asking, hidden, hints, style, tuple(doubtful), is_link, asks_place)

    def _rules_for(self, facts: Facts, elements: Around, known: Known | None) -> tuple[Rule, ...]:
        """The rules that ask for what is around an element, and get it; told once for all that lie in one element."""
        matching = self._matching
        if matching is None or matching.is_over or known is None:
            return facts.hiding_rules
        kept = {} if facts.depends_on_place else elements.matched_rules()
        found = kept.get(facts)
        if found is None:
            found = kept[facts] = self._find_rules(facts, elements, known, matching)
        matching.comparisons += len(found)
        return found

    def _find_rules(self, facts: Facts, elements: Around, known: Known, matching: Matching) -> tuple[Rule, ...]:
        present = elements.key_counts
        matching.comparisons += len(facts.context_rules)
        likely = [rule for key, rules in facts.context_rules.items() if key == "*" or key in present for rule in rules]
        if not likely:
            return ()
        around = elements.match_targets()
        matching.comparisons += len(around) + len(likely)
        return tuple([rule for rule in likely if matching.matches(rule, known, around)])

    def _compute_style(self, around: Style, name: str, facts: Facts, rules: Sequence[Rule]) -> Style:
        if name in UNSHOWN:
            return NOT_SHOWN
        usual = link_colour(around, self.link) if facts.is_link else around
        certain = [rule for rule in rules if not rule.doubt]
        doubtful = [*facts.doubtful_rules, *(rule for rule in rules if rule.doubt)]
        style = self._style_by(usual, name, facts, certain)
        if doubtful:
            other = self._style_by(usual, name, facts, (*certain, *doubtful))
            style = either(style, other, min(rule.doubt for rule in doubtful))
            # One may hide what another one shows, and they do not always count together.
            for rule in doubtful[:_MOST_DOUBTED] if len(doubtful) > 1 else ():
                style = either(style, self._style_by(usual, name, facts, (*certain, rule)), rule.doubt)
        return style

    def _style_by(self, around: Style, name: str, facts: Facts, rules: Sequence[Rule]) -> Style:
        """The style of an element where these rules count besides those that do in any case."""
        declared = facts.declared
        if rules:
            declared = cascaded(sorted((*facts.rules, *rules), key=lambda rule: rule.order), facts.hints, facts.style)
        animation = declared.get("animation")
        if isinstance(animation, str) and not self._animations.isdisjoint(_NAMES.findall(animation)):
            declared = declared | {"animation": Unjudged("animation")}
        style = styled(around, name, declared)
        return _NOT_SHOWN_AS_SMALL if name == "img" and _is_tiny(declared) and not style.gone else style

    def root_style(self, tags: Sequence[tuple[str, str]]) -> tuple[Style, list[Known]]:
        """The style of what is in `html` and `body`, of which one or the other may have no tag."""
        given, style = dict(tags), judged(self._root)
        outermost = _Outermost()
        for name in ("html", "body"):
            facts = self.tag_style(name, given.get(name, ""))
            style = self.style_of(style, name, facts, outermost, facts.match_target)
            outermost.add(facts.match_target or _known(name, {}))
            if name == "body" and "link" in given.get(name, "").lower():
                self.link = colours.html_colour(attributes_of(given[name]).get("link", ""))
        return style, outermost.found


class _Outermost:
    def __init__(self) -> None:
        self.found: list[Known] = []
        self.key_counts: dict[str, int] = {}

    def add(self, known: Known) -> None:
        self.found.append(known)
        self.key_counts |= dict.fromkeys(known.keys, 1)

    def match_targets(self) -> Sequence[Known]:
        return self.found

    def matched_rules(self) -> dict[Facts, tuple[Rule, ...]]:
        return {}


_NOT_SHOWN_AS_SMALL = Style(gone="size", hidden="size")


def _known(name: str, attributes: dict[str, str]) -> Known:
    id_ = attributes.get("id", "").strip().lower()
    classes = frozenset(attributes.get("class", "").lower().split()[:_MOST_CLASSES])
    keys = (name, *([f"#{id_}"] if id_ else []), *(f".{each}" for each in classes))
    return Known(name, id_, classes, attributes, keys)


def _is_tiny(declared: Declared) -> bool:
    sides = (declared.get(side) for side in ("width", "height", "max-width", "max-height"))
    return any(isinstance(side, Length) and side.to_pixels(16.0) <= _SMALLEST_PICTURE for side in sides)


def _hints(name: str, attributes: dict[str, str]) -> Declared:
    """What old attributes declare (HTML 15.3); whatever CSS declares wins over them."""
    found: Declared = {}
    if "hidden" in attributes or "popover" in attributes or (name == "dialog" and "open" not in attributes):
        found["display"] = "none"
    if "bgcolor" in attributes and (colour := colours.html_colour(attributes["bgcolor"])):
        found["background-color"] = colour
    if attributes.get("background", "").strip():
        found["background-image"] = backdrop.picture("url()") or False
    letters = attributes.get({"font": "color", "body": "text"}.get(name, ""), "")
    if letters and (colour := colours.html_colour(letters)):
        found["color"] = colour
    if name == "font" and (digits := _DIGITS.match(attributes.get("size", ""))):
        number = int(digits[2]) if not digits[1] else 3 + int(digits[1] + digits[2])
        found["font-size"] = Length(pixels=_SIZES[min(7, max(1, number))])
    if name in ("img", "marquee"):
        found |= {
            side: Length(pixels=float(digits[2]))
            for side in ("width", "height")
            if (digits := _DIGITS.match(attributes.get(side, ""))) and "%" not in attributes[side]
        }
    return found
