"""The CSS cascade: attributes, style sheets, CSS variables and parent elements give each element its style.

Newsletters are repetitive, so the style is computed once for elements with the same tag text, the same matching rules
and the same style of the parent.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import unescape

from turbohtml import Document, Element

from mailbox_appliance.mail.html import css_backdrop, css_parser, css_values
from mailbox_appliance.mail.html.css_properties import Declared
from mailbox_appliance.mail.html.css_sheets import StyleRule, build_index, cascade, find_sheets
from mailbox_appliance.mail.html.css_style import (
    BLOCK_ELEMENTS,
    ROOT_STYLE,
    UNSHOWN_STYLE,
    Style,
    either_style,
    judge,
    link_style,
    style_of,
)
from mailbox_appliance.mail.html.css_values import Colour, Length, UnjudgedValue

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


#: No program shows their content, or it shows something else instead.
UNSHOWN_ELEMENTS = frozenset({
    "audio", "datalist", "iframe", "meter", "noembed", "noframes", "progress", "rp", "video", "svg", "math"
})  # fmt: skip
_MOST_KEPT = 4_000
_SMALLEST_PICTURE = 1.0  # pixels
_STYLE_ATTRIBUTES = (
    *("style", "hidden", "popover", "bgcolor", "background", "color", "text", "size", "width", "height", "href"),
    *("open", "link"),
)
_MOST_DOUBTFUL_RULES = 8  # rules that are judged separately for an element
#: Elements that look different from their surroundings.
_ELEMENTS_WITH_STYLE = UNSHOWN_ELEMENTS | {
    *("button", "dialog", "mark", "marquee", "small", "sub", "sup", "table", "textarea", "input", "select")
}
_NAMES = re.compile(r"[^\s,()\"']+")
_DIGITS = re.compile(r"\s*([+-]?)(\d{1,5})")
_SIZES = (10.0, 10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0)  # of `<font size>`, 1 to 7


class StyleResolver:
    """Computes the style of each element of one mail from its style sheets and attributes."""

    def __init__(self, html: str, tree: Document) -> None:
        sheets = tuple(find_sheets(tree))
        self._variables = constant_variables(html, sheets)
        index = build_index(tuple([replace_variables(sheet, self._variables) for sheet in sheets]))
        self._rules, doubts = index.match(tree)
        self._animations = index.animations
        self._link: Colour | None = None  # the color of links, if `body` sets one
        self._styles: dict[tuple[object, ...], tuple[Style, Declared]] = {}
        self._interned: dict[tuple[object, ...], Style] = {}
        #: The style around the whole page.
        self.root = judge(replace(ROOT_STYLE, doubts=doubts)) if doubts else ROOT_STYLE

    def style_of(
        self, around: Style, name: str, element: Element, attributes: Mapping[str, object]
    ) -> tuple[Style, Declared]:
        """Return the style of an element, and the declarations that apply to it.

        `around`: the style of its parent. `name`: its element name. `attributes`: its attributes.
        """
        rules = tuple(self._rules.get(element, ()))
        if not (attributes or rules or name in _ELEMENTS_WITH_STYLE) and (
            around.same_for_blocks or name not in BLOCK_ELEMENTS
        ):
            return around, {}
        given = tuple([attributes.get(each) for each in _STYLE_ATTRIBUTES])
        key = (around, name, given, rules)
        found = self._styles.get(key)
        if found is None:
            found = self._compute(around, name, dict(zip(_STYLE_ATTRIBUTES, given, strict=True)), rules)
            if len(self._styles) < _MOST_KEPT:
                self._styles[key] = found
        return found

    def _compute(
        self, around: Style, name: str, given: Mapping[str, object], rules: Sequence[StyleRule]
    ) -> tuple[Style, Declared]:
        attributes = {key: value for key, value in given.items() if isinstance(value, str)}
        if name == "body" and "link" in attributes:
            self._link = css_values.parse_html_colour(attributes["link"])
        hints, text = (
            _presentational_hints(name, attributes),
            replace_variables(attributes.get("style", ""), self._variables),
        )
        if around.gone:
            return around, {}
        if name in UNSHOWN_ELEMENTS:
            return UNSHOWN_STYLE, cascade([], hints, text)
        usual = link_style(around, self._link) if name == "a" and "href" in attributes else around

        def by(*few: StyleRule) -> tuple[Style, Declared]:
            return self._style_by(usual, name, cascade(sorted(few, key=lambda rule: rule.order), hints, text))

        certain = [rule for rule in rules if not rule.doubt]
        doubtful = [rule for rule in rules if rule.doubt]
        style, declared = by(*certain)
        if doubtful:
            style = either_style(style, by(*rules)[0], min(rule.doubt for rule in doubtful))
            # One rule may hide what another one shows, and they do not always apply together.
            for rule in doubtful[:_MOST_DOUBTFUL_RULES] if len(doubtful) > 1 else ():
                style = either_style(style, by(*certain, rule)[0], rule.doubt)
        return self._interned.setdefault(style.values(), style), declared

    def _style_by(self, around: Style, name: str, declared: Declared) -> tuple[Style, Declared]:
        """Return the style of an element, and its declarations. `around`: the style of its parent."""
        animation = declared.get("animation")
        if isinstance(animation, str) and not self._animations.isdisjoint(_NAMES.findall(animation)):
            declared = declared | {"animation": UnjudgedValue("animation")}
        style = style_of(around, name, declared)
        return _NOT_SHOWN_AS_SMALL if name == "img" and _is_tiny(declared) and not style.gone else style, declared


_NOT_SHOWN_AS_SMALL = Style(gone="size", hidden="size")


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
