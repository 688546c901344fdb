"""The CSS cascade: attributes, style sheets, CSS variables and parent elements give each element its style.

Newsletters are repetitive, so the style is computed once for elements with the same tag text, the same matching rules
and the same style of the parent.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Protocol

from mailbox_appliance.mail.html import css_backdrop, css_parser, css_values
from mailbox_appliance.mail.html.css_parser import MatchTarget
from mailbox_appliance.mail.html.css_properties import Declared
from mailbox_appliance.mail.html.css_sheets import (
    RuleMatcher,
    StyleRule,
    build_index,
    cascade,
    find_sheets,
    select_hiding,
)
from mailbox_appliance.mail.html.css_style import ROOT_STYLE, Style, either_style, judge, link_style, style_of
from mailbox_appliance.mail.html.css_style import UNSHOWN_STYLE as NOT_SHOWN
from mailbox_appliance.mail.html.css_values import Colour, Length, UnjudgedValue
from mailbox_appliance.mail.html.tokenizer import BLOCK_ELEMENTS, UNSHOWN_ELEMENTS, parse_attributes

# --- CSS variables with the same value throughout a mail (CSS Variables 1) ---


_LONGEST_VALUE = 60  # characters
_LONGEST_TEXT = 200_000  # variables are replaced in texts up to this many characters
_EVERYWHERE = frozenset({":root", "html", "body", "*"})
_MENTION = re.compile(r"(?<![\w-])(var\(\s*+)?(--[\w-]{1,100})", re.I)
_DEFINITION = re.compile(r"""(?:\A|;)\s*+(--[\w-]{1,100})\s*+:((?:[^;{}()"'!\\]|\([^(){};"'\\]*+\))++)(?=;|\Z)""")
_USE = re.compile(r"(?<![\w-])var\(\s*+(--[\w-]{1,100})\s*+(?:,[^()]*+)?\)", re.I)


def constant_variables(html: str, sheets: Iterable[str]) -> Mapping[str, str]:
    """Return the CSS variables whose value is certain, by name: those with one literal definition in the HTML, in a
    rule for `:root`, `html`, `body` or `*`.

    `sheets`: the texts of the style sheets. A variable that is mentioned anywhere else, other than in `var()`, is left
    out, as that may be a second definition.
    """
    if "var(" not in html.lower():
        return {}
    mentions = Counter(
        found[2].lower() for found in _MENTION.finditer(css_parser.unescape(unescape(html))) if not found[1]
    )
    return {
        name: value
        for sheet in sheets
        for block in css_parser.parse_blocks(css_parser.without_comments(sheet))
        if "{" not in block.content and _EVERYWHERE.issuperset(map(str.strip, block.prelude.lower().split(",")))
        for name, value in ((found[1], found[2].strip()) for found in _DEFINITION.finditer(block.content))
        if mentions[name.lower()] == 1 and 0 < len(value) <= _LONGEST_VALUE and "--" not in value
    }


def replace_variables(text: str, known: Mapping[str, str]) -> str:
    """Return CSS in which each `var()` of a known variable is replaced by its value. `known`: values by name; other
    variables stay.
    """
    if not known or len(text) > _LONGEST_TEXT:
        return text
    return _USE.sub(lambda found: f" {known[found[1]]} " if found[1] in known else found[0], text)


# --- The style of each element ---


_MOST_KEPT = 4_000
_SMALLEST_PICTURE = 1.0  # pixels
_STYLE_ATTRIBUTES = (
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
_MAYBE_STYLED = re.compile("style|hidden|popover|color|background|text|size|width|height|href|open")
_MOST_DOUBTFUL_RULES = 8  # rules that are judged separately for an element
_MOST_CLASSES = 50  # of one element
_LONGEST_KEPT = 1_000  # characters
_ELEMENTS_WITH_STYLE = UNSHOWN_ELEMENTS | {
    "button",
    "dialog",
    "mark",
    "marquee",
    "small",
    "sub",
    "sup",
    "table",
    "textarea",
}  # elements that look different from their surroundings
_NAMES = re.compile(r"[^\s,()\"']+")
_DIGITS = re.compile(r"\s*([+-]?)(\d{1,5})")
_SIZES = (10.0, 10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0)  # of `<font size>`, 1 to 7


@dataclass(frozen=True, slots=True, eq=False)
class TagStyle:
    """The part of an element's style that follows from its own tag: its declarations, and the CSS rules that apply or
    may apply. It does not depend on other elements, so equal tags share one.
    """

    declared: Declared
    match_target: MatchTarget | None
    rules: tuple[StyleRule, ...]
    context_rules: Mapping[
        str, Sequence[StyleRule]
    ]  # rules with conditions on surrounding elements, by the first condition
    hiding_rules: tuple[StyleRule, ...]  # some of these that hide text
    hints: Declared
    style: str
    doubtful_rules: tuple[StyleRule, ...]  # rules that may apply or not
    is_link: bool
    depends_on_place: bool = False


_NO_TAG_STYLE = TagStyle({}, None, (), {}, (), {}, "", (), is_link=False)


class Ancestors(Protocol):
    """Interface to the elements that contain an element, for CSS rules with conditions on them (such as `table td`)."""

    @property
    def key_counts(self) -> Mapping[str, int]:
        """The number of ancestors by name (`td`), class (`.class`) and ID (`#id`), to rule out most rules quickly."""

    def match_targets(self) -> Sequence[MatchTarget]:
        """Return the facts about each ancestor that selectors can test, the outermost ancestor first."""

    def matched_rules(self) -> dict[TagStyle, tuple[StyleRule, ...]]:
        """Return a cache of the rules that match children of the innermost ancestor. Its keys are the TagStyle of each
        child. Callers add entries.
        """


@dataclass
class StyleResolver:
    """Computes the style of each element of one mail from its style sheets and attributes. `link`: the color of links
    if `body` sets one.
    """

    html: str
    link: Colour | None = None
    _tag_styles: dict[tuple[str, str], TagStyle] = field(default_factory=dict)
    _alike: dict[tuple[object, ...], TagStyle] = field(default_factory=dict)
    _styles: dict[tuple[Style, str, TagStyle, tuple[object, ...]], Style] = field(default_factory=dict)
    _interned: dict[tuple[object, ...], Style] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sheets = tuple(find_sheets(self.html))
        self._variables = constant_variables(self.html, sheets)
        index = build_index(tuple([replace_variables(sheet, self._variables) for sheet in sheets]))
        self._matching = RuleMatcher(index) if index.count else None
        self._animations = index.animations
        self._root = replace(ROOT_STYLE, doubts=frozenset(index.unjudged)) if index.unjudged else ROOT_STYLE

    @property
    def depends_on_place(self) -> bool:
        """Whether any rule tests the position of an element among its siblings."""
        return self._matching is not None and self._matching.index.depends_on_place

    def style_of(
        self, around: Style, name: str, facts: TagStyle, elements: Ancestors, known: MatchTarget | None
    ) -> Style:
        """Return the style of an element.

        `around`: the style of its parent. `name`: its element name. `facts`: the result of `tag_style` for its tag.
        `elements`: its ancestors. `known`: the facts that selectors can test, or None if no rule needs them.
        """
        if around.gone:
            return around
        if (
            facts is _NO_TAG_STYLE
            and name not in _ELEMENTS_WITH_STYLE
            and (around.same_for_blocks or name not in BLOCK_ELEMENTS)
        ):
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

    def tag_style(self, name: str, content: str) -> TagStyle:
        """Return the part of an element's style that follows from its own tag. `content`: its attributes as written."""
        if self._matching is None and name != "dialog" and not (content and _MAYBE_STYLED.search(content.lower())):
            return _NO_TAG_STYLE
        key = (name, content)
        found = self._tag_styles.get(key)
        if found is None:
            found = self._tag_style_of(name, parse_attributes(content))
            if len(self._tag_styles) < _MOST_KEPT and len(content) <= _LONGEST_KEPT:
                self._tag_styles[key] = found
        return found

    def _tag_style_of(self, name: str, attributes: dict[str, str]) -> TagStyle:
        """Return the style facts of a tag. Tags that differ only in attributes without effect on style get the same
        object.
        """
        matters = (
            tuple(sorted(attributes.items()))
            if self._matching and self._matching.index.depends_on_attributes
            else tuple([attributes.get(each) for each in _STYLE_ATTRIBUTES])
        )
        key = (name, "href" in attributes, "open" in attributes, matters)
        found = self._alike.get(key)
        if found is None:
            found = self._make_tag_style(name, {key: unescape(value) for key, value in attributes.items()})
            if len(self._alike) < _MOST_KEPT:
                self._alike[key] = found
        return found

    def _make_tag_style(self, name: str, attributes: dict[str, str]) -> TagStyle:
        known: MatchTarget | None = None
        rules: list[StyleRule] = []
        doubtful: list[StyleRule] = []
        asking: dict[str, list[StyleRule]] = {}
        if self._matching:
            known = _to_match_target(name, attributes)
            for rule in self._matching.candidates(known):
                if rule.around:
                    asking.setdefault(rule.around[0], []).append(rule)
                else:
                    (doubtful if rule.doubt else rules).append(rule)
        hints, style = (
            _presentational_hints(name, attributes),
            replace_variables(attributes.get("style", ""), self._variables),
        )
        declared = cascade(rules, hints, style)
        is_link = name == "a" and "href" in attributes
        if not (self._matching and self._matching.index.depends_on_ancestors):
            known = None
        if not (declared or asking or doubtful or known or is_link):
            return _NO_TAG_STYLE
        hidden = tuple(select_hiding([rule for few in asking.values() for rule in few]))
        asks_place = any(rule.depends_on_place for few in asking.values() for rule in few)
        return TagStyle(
            declared, known, tuple(rules), asking, hidden, hints, style, tuple(doubtful), is_link, asks_place
        )

    def _rules_for(self, facts: TagStyle, elements: Ancestors, known: MatchTarget | None) -> tuple[StyleRule, ...]:
        """Return the rules with conditions on other elements (ancestors or siblings) that apply to this element.

        `known`: the facts that selectors can test. Equal children of one parent share a cached result. After too many
        comparisons, only rules that hide text are returned, untested.
        """
        matching = self._matching
        if matching is None or matching.is_over or known is None:
            return facts.hiding_rules
        kept = {} if facts.depends_on_place else elements.matched_rules()
        found = kept.get(facts)
        if found is None:
            found = kept[facts] = self._find_rules(facts, elements, known, matching)
        matching.comparisons += len(found)
        return found

    def _find_rules(
        self, facts: TagStyle, elements: Ancestors, known: MatchTarget, matching: RuleMatcher
    ) -> tuple[StyleRule, ...]:
        present = elements.key_counts
        matching.comparisons += len(facts.context_rules)
        likely = [rule for key, rules in facts.context_rules.items() if key == "*" or key in present for rule in rules]
        if not likely:
            return ()
        around = elements.match_targets()
        matching.comparisons += len(around) + len(likely)
        return tuple([rule for rule in likely if matching.matches(rule, known, around)])

    def _compute_style(self, around: Style, name: str, facts: TagStyle, rules: Sequence[StyleRule]) -> Style:
        if name in UNSHOWN_ELEMENTS:
            return NOT_SHOWN
        usual = link_style(around, self.link) if facts.is_link else around
        certain = [rule for rule in rules if not rule.doubt]
        doubtful = [*facts.doubtful_rules, *(rule for rule in rules if rule.doubt)]
        style = self._style_by(usual, name, facts, certain)
        if doubtful:
            other = self._style_by(usual, name, facts, (*certain, *doubtful))
            style = either_style(style, other, min(rule.doubt for rule in doubtful))
            # One rule may hide what another one shows, and they do not always apply together.
            for rule in doubtful[:_MOST_DOUBTFUL_RULES] if len(doubtful) > 1 else ():
                style = either_style(style, self._style_by(usual, name, facts, (*certain, rule)), rule.doubt)
        return style

    def _style_by(self, around: Style, name: str, facts: TagStyle, rules: Sequence[StyleRule]) -> Style:
        """Return the style of an element from `rules` and those that always apply to its tag. `around`: the style of
        its parent.
        """
        declared = facts.declared
        if rules:
            declared = cascade(sorted((*facts.rules, *rules), key=lambda rule: rule.order), facts.hints, facts.style)
        animation = declared.get("animation")
        if isinstance(animation, str) and not self._animations.isdisjoint(_NAMES.findall(animation)):
            declared = declared | {"animation": UnjudgedValue("animation")}
        style = style_of(around, name, declared)
        return _NOT_SHOWN_AS_SMALL if name == "img" and _is_tiny(declared) and not style.gone else style

    def root_style(self, tags: Sequence[tuple[str, str]]) -> tuple[Style, list[MatchTarget]]:
        """Return the style inside `body`, and the facts about `html` and `body` that selectors can test. `tags`: name
        and attributes of these tags as far as the HTML has them.
        """
        given, style = dict(tags), judge(self._root)
        outermost = _OutermostAncestors()
        for name in ("html", "body"):
            facts = self.tag_style(name, given.get(name, ""))
            style = self.style_of(style, name, facts, outermost, facts.match_target)
            outermost.add(facts.match_target or _to_match_target(name, {}))
            if name == "body" and "link" in given.get(name, "").lower():
                self.link = css_values.parse_html_colour(parse_attributes(given[name]).get("link", ""))
        return style, outermost.found


class _OutermostAncestors:
    def __init__(self) -> None:
        self.found: list[MatchTarget] = []
        self.key_counts: dict[str, int] = {}

    def add(self, known: MatchTarget) -> None:
        self.found.append(known)
        self.key_counts |= dict.fromkeys(known.keys, 1)

    def match_targets(self) -> Sequence[MatchTarget]:
        return self.found

    def matched_rules(self) -> dict[TagStyle, tuple[StyleRule, ...]]:
        return {}


_NOT_SHOWN_AS_SMALL = Style(gone="size", hidden="size")


def _to_match_target(name: str, attributes: dict[str, str]) -> MatchTarget:
    id_ = attributes.get("id", "").strip().lower()
    classes = frozenset(attributes.get("class", "").lower().split()[:_MOST_CLASSES])
    keys = (name, *([f"#{id_}"] if id_ else []), *(f".{each}" for each in classes))
    return MatchTarget(name, id_, classes, attributes, keys)


def _is_tiny(declared: Declared) -> bool:
    sides = (declared.get(side) for side in ("width", "height", "max-width", "max-height"))
    return any(isinstance(side, Length) and side.to_pixels(16.0) <= _SMALLEST_PICTURE for side in sides)


def _presentational_hints(name: str, attributes: dict[str, str]) -> Declared:
    """Return the declarations that HTML attributes such as `bgcolor`, `hidden` and `width` stand for (HTML 15.3).
    Declarations in CSS have priority over them.
    """
    found: Declared = {}
    if "hidden" in attributes or "popover" in attributes or (name == "dialog" and "open" not in attributes):
        found["display"] = "none"
    if "bgcolor" in attributes and (colour := css_values.parse_html_colour(attributes["bgcolor"])):
        found["background-color"] = colour
    if attributes.get("background", "").strip():
        found["background-image"] = css_backdrop.parse_picture("url()") or False
    letters = attributes.get({"font": "color", "body": "text"}.get(name, ""), "")
    if letters and (colour := css_values.parse_html_colour(letters)):
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
