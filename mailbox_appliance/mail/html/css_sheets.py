"""The style sheets of a mail: which rules apply on a screen, and which of them match an element."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from turbohtml import Document, Element, Node
from turbohtml.convert import css_specificity

from mailbox_appliance.mail.html import css_parser, css_style
from mailbox_appliance.mail.html.css_properties import Declared, parse_declared
from mailbox_appliance.mail.html.css_style import ROOT_STYLE, style_of
from mailbox_appliance.mail.html.css_values import UnjudgedValue, parse_length

# --- Media queries: whether their rules apply on the screens of readers (Media Queries 4) ---


MEDIA_DOUBT = "@media"
_LEAST_SCREEN, _WIDEST_PHONE = 320.0, 1_024.0  # pixels of width
_WIDEST_WINDOW, _WIDEST_SCREEN = 3_000.0, 10_000.0
_MOST_NESTED_CONDITIONS = 5  # nested parentheses
_QUERY = re.compile(r"(?:(not|only)\s+)?(?!(?:not|only|and|or)\b)([a-z][\w-]*)(?:\s+and\s+(.*))?", re.S)
_SIZE = re.compile(r"(?:(min|max)-)?(?:device-)?(width|height)")
_RANGE = re.compile(r"([^<>=]*?)\s*([<>]=?|=)\s*([^<>=]*?)(?:\s*([<>]=?)\s*([^<>=]*))?")
_RESOLUTION = re.compile(
    r"(?:-webkit-min-device-pixel-ratio|min-resolution)\s*:\s*(\d{1,4}(?:\.\d{1,6})?)(dpi|dpcm|dppx|x)?"
)
_PER_PIXEL = {"dpi": 96.0, "dpcm": 96 / 2.54}  # one device pixel per CSS pixel
_PRESENT = frozenset(
    {"color", "width", "height", "device-width", "device-height", "resolution", "aspect-ratio", "orientation"}
)


class _QueryResult(IntEnum):
    """Whether screens meet a media query. The values are ordered so that `and` is the minimum of several results, and
    `or` the maximum.
    """

    NEVER = 0
    ELSEWHERE = 1  # on phones and in dark mode: newsletters swap blocks there, and only the desktop counts
    SOMETIMES = 2
    ALWAYS = 3


_NEGATED = {
    _QueryResult.NEVER: _QueryResult.ALWAYS,
    _QueryResult.ELSEWHERE: _QueryResult.SOMETIMES,
    _QueryResult.SOMETIMES: _QueryResult.SOMETIMES,
    _QueryResult.ALWAYS: _QueryResult.NEVER,
}


def media_query_holds(queries: str) -> bool | str:
    """Whether rules under these media queries apply: True if every screen meets one of them, False if none does. The
    text `@media` if only some screens do.

    Queries for phones and for dark mode count as not met, since only the desktop view counts.
    """
    text = css_parser.unescape(css_parser.without_comments(queries)).lower().strip()
    met = max(map(_evaluate_query, css_parser.split_css(text, ","))) if text else _QueryResult.ALWAYS
    return MEDIA_DOUBT if met == _QueryResult.SOMETIMES else met == _QueryResult.ALWAYS


def _evaluate_query(text: str) -> _QueryResult:
    found = _QUERY.fullmatch(text.strip())
    if found is None:
        return _evaluate_condition(text, 0)
    met = _QueryResult.ALWAYS if found[2] in ("all", "screen") else _QueryResult.NEVER
    if found[3] is not None:
        met = min(met, _evaluate_condition(found[3], 0))
    return _NEGATED[met] if found[1] == "not" else met


def _evaluate_condition(text: str, depth: int) -> _QueryResult:
    """Return whether screens meet the condition of a media query: features in parentheses, joined by `and` or by `or`.
    `depth`: the number of parentheses around it.
    """
    words, groups = _groups(text)
    if not groups:
        return _QueryResult.NEVER  # malformed, as in `screen yahoo`: browsers treat it as `not all` (section 3.2)
    first, joins = words[0], set(words[1:-1])
    if (
        first not in ("", "not")
        or words[-1]
        or not (joins <= {"and"} or joins <= {"or"})
        or depth > _MOST_NESTED_CONDITIONS
    ):
        return _QueryResult.SOMETIMES
    met = [
        _evaluate_condition(each, depth + 1) if each.startswith(("(", "not")) else _evaluate_feature(each)
        for each in groups
    ]
    found = max(met) if joins == {"or"} else min(met)
    if first == "not":
        return _NEGATED[found] if len(groups) == 1 else _QueryResult.SOMETIMES
    return found


def _groups(text: str) -> tuple[list[str], list[str]]:
    """Return two lists: the texts outside all parentheses, and the content of each outermost pair of parentheses.

    For `not (a) and (b)`, these are `["not", "and", ""]` and `["a", "b"]`.
    """
    words, groups = [""], []
    depth = start = 0
    for found in re.finditer(r"[()]", text):
        sign, place = found[0], found.start()
        if sign == "(":
            if depth == 0:
                words[-1] = text[start:place].strip()
                start = found.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                groups.append(text[start:place].strip())
                words.append("")
                start = found.end()
    if depth:
        groups.append(text[start:].strip())  # CSS Syntax 5.4.9: an unclosed block ends with the sheet
        words.append("")
    else:
        words[-1] = text[start:].strip()
    return words, groups


def _evaluate_feature(text: str) -> _QueryResult:
    if text in _PRESENT:
        return _QueryResult.ALWAYS
    name, colon, value = (part.strip() for part in text.partition(":"))
    if colon:
        size = _SIZE.fullmatch(name)
        if size and size[1]:
            return _evaluate_size(size[2], value, is_least=size[1] == "min")
        if found := _RESOLUTION.fullmatch(text):
            return (
                _QueryResult.ALWAYS
                if float(found[1]) <= _PER_PIXEL.get(found[2] or "", 1.0)
                else _QueryResult.SOMETIMES
            )
        if (name, value) == ("prefers-color-scheme", "dark") or name.startswith("-ms-"):
            return _QueryResult.ELSEWHERE
        return _QueryResult.SOMETIMES
    return _evaluate_range(text)


def _evaluate_range(text: str) -> _QueryResult:
    """Return whether screens meet `width > 1px`, `1px < width` or `1px < width <= 9px` (Media Queries 4, 2.4.3)."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return _QueryResult.SOMETIMES
    left, sign, middle, other_sign, right = found.groups()
    if size := _SIZE.fullmatch(left):
        value, is_least = middle, sign.startswith(">")
    elif size := _SIZE.fullmatch(middle):
        value, is_least = left, sign.startswith("<")
    if size is None or size[1] or sign == "=":
        return _QueryResult.SOMETIMES
    met = _evaluate_size(size[2], value, is_least=is_least)
    return min(met, _evaluate_size(size[2], right, is_least=other_sign.startswith(">"))) if other_sign else met


def _evaluate_size(side: str, value: str, *, is_least: bool) -> _QueryResult:
    found = parse_length(value)
    if found is None or found.percent or (found.is_number and found.pixels):
        return _QueryResult.SOMETIMES
    pixels = found.to_pixels(16.0)
    if is_least:
        if pixels <= _LEAST_SCREEN:
            return _QueryResult.ALWAYS
        return _QueryResult.NEVER if pixels > _WIDEST_SCREEN else _QueryResult.SOMETIMES
    if pixels < _LEAST_SCREEN:
        return _QueryResult.NEVER
    if pixels >= _WIDEST_WINDOW:
        return _QueryResult.ALWAYS
    return _QueryResult.ELSEWHERE if side == "height" or pixels <= _WIDEST_PHONE else _QueryResult.SOMETIMES


# --- Selectors: written so that the parser of HTML understands them, with names for what cannot be judged ---
#
# Selectors for actions of the reader (`:hover`) and for anything but elements (`::-webkit-scrollbar`) never match.
# Those for the state of a form, and those that ask what comes after an element, get a warning.


_NEVER, _ALWAYS = ":hover", ":not(:hover)"  # no reader points at anything
_LONGEST_SELECTOR = 500  # characters
_MOST_PARTS = 12  # elements that one selector mentions
_NESTED_ARGUMENT = r"\(((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+)\)"
_PSEUDO_CLASS = re.compile(
    rf"""(\[(?:[^\]"']|"[^"]*+"|'[^']*+')*+\]|\\.)|(::?)([\w-]++)(?:{_NESTED_ARGUMENT})?""", re.S
)
_COMBINATOR = re.compile(r"\s*[>+~]\s*|\s+")
_NAMESPACE = re.compile(r"(?<![*\\])\|(?!=)")  # a bar in a quoted value looks like one as well
_MATCHING_CLASSES = {"matches": "is", "-webkit-any": "is", "is": "is", "where": "where", "not": "not"}
_LINK_CLASSES = frozenset({"link", "any-link", "-webkit-any-link"})
_POSITION_CLASSES = frozenset({"first-child", "first-of-type", "nth-child", "nth-of-type", "root", "empty"})
_VAGUE_CLASSES = frozenset({
    "last-child", "last-of-type", "only-child", "only-of-type", "nth-last-child", "nth-last-of-type", "has",
    "lang", "dir", "checked", "default", "defined", "disabled", "enabled", "host", "in-range", "indeterminate",
    "invalid", "open", "optional", "out-of-range", "placeholder-shown", "read-only", "read-write", "required", "scope",
    "valid", "heading", "nth-col", "nth-last-col"
})  # fmt: skip


def prepare_selector(written: str) -> tuple[str, str]:
    """Return a selector as the parser of HTML can match it, and the first condition in it that cannot be judged. That
    condition counts as met; its name is empty if there is none.

    Raises ValueError for a selector that is too long, has too many parts or may name a namespace.
    """
    if len(written) > _LONGEST_SELECTOR or len(_COMBINATOR.split(written.strip())) > _MOST_PARTS:
        raise ValueError("too long")
    if _NAMESPACE.search(written):
        raise ValueError("namespace")
    if ":" not in written:
        return written, ""
    doubts: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        kept, colons, name, argument = found.groups()
        if kept is not None:
            return kept
        name = name.lower()
        if colons == "::":
            return _NEVER
        if name in _VAGUE_CLASSES or (argument and " of " in argument):
            doubts.append(f":{name}{'()' if argument else ''}")
            return _ALWAYS
        if name in _MATCHING_CLASSES and argument is not None:
            inside, doubt = prepare_selector(argument)
            doubts.extend([f":{name}()"] if doubt else [])
            return _ALWAYS if doubt else f":{_MATCHING_CLASSES[name]}({inside})"
        if name in _LINK_CLASSES:
            return "[href]"
        return found[0] if name in _POSITION_CLASSES else _NEVER

    return _PSEUDO_CLASS.sub(replaced, written), doubts[0] if doubts else ""


# --- Rules: found in sheets, and matched with the elements of a mail ---


MOST_RULES = 20_000  # selectors of one mail; of later ones, only the rules that hide apply
_MOST_RULES_AT_ALL = 40_000
_MOST_COMPARISONS = 200_000_000  # elements times depth, for all selectors of a mail
_COST_OF_MATCH = 100  # comparisons that take as long as keeping one match
_LONGEST_KEPT = 200_000  # characters
_LONGEST_PARENT = 500  # characters of a selector
_MOST_NESTED_RULES = 5  # `@media` in `@media`, rules in rules
_MOST_SIGNS = 12  # `&` in one selector
_LAYERS = re.compile(r"@layer\s++([^;{}\s][^;{}]{0,499}+)[;{]")
_UNLAYERED = (float("inf"),)
_INCLUDED = re.compile(r"@import\s*+(?:url\(\s*+)?[\"']?\s*+(?:data|cid):")
_SUPPORTED = re.compile(r"@supports\s*+\(?\s*+(not\s*+)?\(\s*+([\w-]+\s*+:[^()]++)\)\s*+\)?")
#: Blocks whose rules may apply or not: the appliance does not know the size of boxes or changes over time.
_DOUBTFUL_AT_RULES = {name: name for name in ("@container", "@scope", "@starting-style", "@when", "@else")}
_PSEUDO = re.compile(r"::?(first-line|first-letter|before|after|details-content)\s*\Z", re.I)
_NAMES, _NOT_PLAIN = re.compile(r"[.#]([\w-]+)"), re.compile(r"[:\\\[]")
_LETTER_PROPERTIES = frozenset({"color", "-webkit-text-fill-color"})
_PAINTED_PROPERTIES = frozenset({"background-color", "background-image"})
#: Names for warnings that concern all text of a mail.
DATA_SHEET_DOUBT, DATA_FONT_DOUBT, SELECTOR_DOUBT = "style sheet in a data: URL", "@font-face", "selector"


@dataclass(frozen=True, slots=True, eq=False)
class StyleRule:
    """One selector of a style sheet with its declarations.

    - hides: whether these declarations alone would hide an element.
    - usual, important: the declarations without and with `!important`.
    - order: the sort key by which rules get their priority; a rule with a higher one overrides others.
    """

    selector: str
    order: tuple[tuple[float, ...], tuple[int, int, int], int]
    usual: Declared
    important: Declared
    hides: bool
    doubt: str = ""  # why it is unknown whether it applies
    names: frozenset[str] = frozenset()  # classes and IDs in lower case without which it matches nothing


def find_sheets(tree: Document) -> Iterator[str]:
    """Yield the texts of the style sheets in HTML, wherever they are: a sheet at the end also applies to the content
    before it.

    A `link` to a style sheet in the message itself (`data:` or `cid:`) is not read. An `@import` rule is yielded
    instead, so that people get a warning. A sheet that may not apply is put in `@media (unknown)`.
    """
    for element in tree.select("style:not(template *), link:not(template *)"):
        if element.tag == "link":
            if _is_included(element):
                yield '@import "data:"'
            continue
        kind = (element.attr("type") or "").strip().lower()
        counts = kind in ("", "text/css") and media_query_holds(element.attr("media") or "")
        if counts:
            yield element.text if counts is True else f"@media (unknown) {{{element.text}}}"


def _is_included(link: Element) -> bool:
    """Whether a `link` refers to a style sheet in the message itself. Mail programs do not load any other."""
    if "stylesheet" not in (link.attr("rel") or "").lower():
        return False
    address = re.sub(r"[\t\r\n]", "", link.attr("href") or "").strip().lower()
    return address.startswith(("data:", "cid:"))


def _block_applies(prelude: str) -> bool | str:
    """Whether the rules inside an at-rule such as `@media` apply. If that is unknown, the name of the at-rule for
    warnings. `prelude`: its text before the braces.
    """
    name = re.split(r"[\s(]", prelude, maxsplit=1)[0]
    if name.startswith("@media"):
        return media_query_holds(prelude.removeprefix("@media"))
    if name == "@supports":
        return _is_supported(prelude)
    return _DOUBTFUL_AT_RULES.get(name, name == "@layer")


def _is_supported(prelude: str) -> bool | str:
    """Whether the rules in an `@supports` block apply. True for a declaration that this package can interpret, as
    browsers support all of these; False if it is negated. The text `@supports` for any other condition.
    """
    found = _SUPPORTED.fullmatch(prelude.strip())
    if found is None or not any(parse_declared(found[2])):
        return "@supports"
    return not found[1]


@dataclass
class RuleIndex:
    """All CSS rules of a mail."""

    count: int = 0
    rules: list[StyleRule] = field(default_factory=list)
    unjudged: set[str] = field(default_factory=set)  # names for warnings about all text
    animations: set[str] = field(default_factory=set)  # names of animations that could hide something
    _layers: dict[str, int] = field(default_factory=dict)

    def add(self, sheet: str) -> None:
        """Add the rules of a style sheet whose comments are already removed."""
        plain = css_parser.unescape(sheet).lower()
        if "@import" in plain and _INCLUDED.search(plain):
            self.unjudged.add(DATA_SHEET_DOUBT)
        for found in _LAYERS.finditer(plain) if "@layer" in plain else ():
            for name in found[1].split(","):
                self._layers.setdefault(name.strip(), len(self._layers))
        self._add_blocks(css_parser.parse_blocks(sheet), ("",), _RulePlace())

    def _add_blocks(self, blocks: Iterable[css_parser.RuleBlock], parents: Sequence[str], place: "_RulePlace") -> None:
        for block in blocks:
            if self.count >= _MOST_RULES_AT_ALL:
                return
            if block.prelude.startswith("@"):
                self._add_at_rule(block, parents, place)
            elif place.depth < _MOST_NESTED_RULES:
                written = list(css_parser.split_css(block.prelude, ","))
                inside = [each for parent in parents for each in self._nested_selectors(parent, written)]
                self._add_rules(inside, block.content, place)
            elif "{" in block.content or any(parse_declared(block.content)):
                self.unjudged.add(SELECTOR_DOUBT)

    def _nested_selectors(self, parent: str, written: Sequence[str]) -> Iterator[str]:
        """Yield the full selectors of a rule that is nested in another one (CSS Nesting 1, 3)."""
        if not parent:
            yield from written
            return
        for each in written:
            self.count += 1
            if self.count > _MOST_RULES_AT_ALL:
                return
            signs = each.count("&")
            if signs > _MOST_SIGNS or len(parent) > _LONGEST_PARENT:
                self.unjudged.add(SELECTOR_DOUBT)
            else:
                yield each.replace("&", parent) if signs else f"{parent} {each.strip()}"

    def _add_at_rule(self, block: css_parser.RuleBlock, parents: Sequence[str], place: "_RulePlace") -> None:
        prelude = css_parser.unescape(block.prelude).lower()
        if prelude.startswith(("@keyframes", "@-webkit-keyframes")):
            self._add_animation(prelude, block.content)
        elif prelude.startswith("@font-face"):
            content = css_parser.unescape(block.content).lower()
            if "data:" in content or "cid:" in content or "size-adjust" in content:
                self.unjudged.add(DATA_FONT_DOUBT)
        elif holds := _block_applies(prelude):
            if place.depth >= _MOST_NESTED_RULES:
                self.unjudged.add(SELECTOR_DOUBT)
                return
            inside = place.inside("" if holds is True else holds, self._layer(prelude, place))
            if parents == ("",):
                self._add_blocks(css_parser.parse_blocks(block.content), parents, inside)
            else:
                self._add_rules(parents, block.content, inside)

    def _layer(self, prelude: str, place: "_RulePlace") -> tuple[float, ...]:
        if not prelude.startswith("@layer"):
            return place.layer
        name = prelude.removeprefix("@layer").strip()
        number = self._layers.setdefault(name or f" {len(self._layers)}", len(self._layers))
        return (*place.layer[:-1], number, *_UNLAYERED)

    def _add_animation(self, prelude: str, content: str) -> None:
        for block in css_parser.parse_blocks(content):
            usual, important = parse_declared(block.content)
            found = {**usual, **important}
            style = style_of(ROOT_STYLE, "div", found)
            if style.hidden or style.unjudged or not (_LETTER_PROPERTIES | _PAINTED_PROPERTIES).isdisjoint(found):
                self.animations.add(prelude.partition("keyframes")[2].strip().strip("\"'"))
                return

    def _add_rules(self, written: Sequence[str], content: str, place: "_RulePlace") -> None:
        own, inside = css_parser.split_nested(content)
        usual, important = parse_declared(own)
        if usual or important:
            found = {**usual, **important}
            style = style_of(ROOT_STYLE, "div", found)
            hides = bool(style.hidden)
            for each in written:
                self.count += 1
                if self.count > _MOST_RULES_AT_ALL:
                    return
                if pseudo := _PSEUDO.search(each):
                    doubt = _pseudo_element_doubt(pseudo[1].lower(), found, hides or bool(style.unjudged))
                    if doubt:
                        self._add_rule(
                            each[: pseudo.start()] or "*", {doubt: UnjudgedValue(doubt)}, {}, place, hides=False
                        )
                elif self.count <= MOST_RULES or hides:
                    self._add_rule(each, usual, important, place, hides=hides)
        if inside:
            self._add_blocks(inside, tuple(each.strip() for each in written), place.inside("", place.layer))

    def _add_rule(
        self, written: str, usual: Declared, important: Declared, place: "_RulePlace", *, hides: bool
    ) -> None:
        if not written.strip():
            return
        try:
            selector, doubt = prepare_selector(written)
            weight = css_specificity(selector)[0]
        except ValueError:
            if hides:
                self.unjudged.add(SELECTOR_DOUBT)
            return
        order = (place.layer, weight, self.count)
        is_plain = _NOT_PLAIN.search(selector) is None
        names = frozenset(name.lower() for name in _NAMES.findall(selector)) if is_plain else frozenset[str]()
        self.rules.append(StyleRule(selector, order, usual, important, hides, place.doubt or doubt, names))

    def match(self, tree: Document) -> tuple[Mapping[Element, Sequence[StyleRule]], frozenset[str]]:
        """Return the rules that apply to each element, and names for warnings about all text. Elements without rules
        are left out.

        The number of comparisons is limited. If it is exceeded, or if there were too many rules to read, a rule that
        was not tested may hide text. Then every element with a class or an ID counts as hidden, and all other text
        gets a warning.
        """
        found: defaultdict[Element, list[StyleRule]] = defaultdict(list)
        cost, left = _matching_cost(tree) if self.rules else 0, _MOST_COMPARISONS
        is_over = self.count >= _MOST_RULES_AT_ALL
        named = tree.select("[class], [id]") if self.rules else []
        present = {word for each in named for word in f"{each.attr('class')} {each.attr('id')}".lower().split()}
        for rule in self.rules:
            if not present.issuperset(rule.names):
                continue
            left -= cost
            if left < 0:
                is_over |= rule.hides
                continue
            elements = tree.select(rule.selector)
            left -= _COST_OF_MATCH * len(elements)
            for element in elements:
                found[element].append(rule)
        for element in named if is_over else ():
            found[element].append(_LEFT_OUT_RULE)
        return found, frozenset(self.unjudged | ({SELECTOR_DOUBT} if is_over else set()))


def _matching_cost(tree: Document) -> int:
    """Return the cost of one selector in comparisons: the number of elements times their greatest depth."""
    depths: dict[Node | None, int] = {}
    for element in tree.iter_elements():
        depths[element] = depths.get(element.parent, 0) + 1
    return len(depths) * max(depths.values(), default=0)


_LEFT_OUT_RULE = StyleRule("", (_UNLAYERED, (9, 0, 0), 0), {}, {"display": "none"}, hides=True)


@dataclass(frozen=True, slots=True)
class _RulePlace:
    """The context of a rule in its style sheet: nesting depth, cascade layer, and the name of an at-rule because of
    which it may not apply (`doubt`).
    """

    depth: int = 0
    layer: tuple[float, ...] = _UNLAYERED
    doubt: str = ""

    def inside(self, doubt: str, layer: tuple[float, ...]) -> "_RulePlace":
        return _RulePlace(self.depth + 1, layer, self.doubt or doubt)


def _pseudo_element_doubt(name: str, found: Declared, could_hide: bool) -> str:
    """Return the name of a pseudo-element (such as `::before`) for a warning if its declarations may hide text;
    otherwise an empty text.

    `::before` and `::after` may cover text. `::first-line` and similar ones may hide it. `found`: the declarations.
    `could_hide`: whether they would hide an ordinary element.
    """
    if name in ("before", "after"):
        kind = "img" if isinstance(found.get("content"), UnjudgedValue) else ""
        return f"::{name}" if css_style.may_cover(kind, found, 16.0, is_behind_text=True) else ""
    is_coloured = name == "first-line" and not _LETTER_PROPERTIES.isdisjoint(found)
    return f"::{name}" if could_hide or is_coloured else ""


def build_index(sheets: tuple[str, ...]) -> RuleIndex:
    """Return the index of all rules in the style sheets of a mail. Results for short sheets are cached, since each
    issue of a newsletter has the same ones.
    """
    return _index_kept(sheets) if sum(map(len, sheets)) <= _LONGEST_KEPT else _build_index(sheets)


def _build_index(sheets: tuple[str, ...]) -> RuleIndex:
    index = RuleIndex()
    for sheet in sheets:
        index.add(css_parser.without_comments(sheet))
    return index


_index_kept = lru_cache(maxsize=8)(_build_index)


def cascade(rules: Sequence[StyleRule], hints: Declared, style: str) -> Declared:
    """Return the declarations that apply to an element (CSS Cascade 6). `rules`: by rising priority. `hints`:
    declarations from HTML attributes. `style`: the text of its `style` attribute.
    """
    usual, important = parse_declared(style) if style else ({}, {})
    found = dict(hints)
    for rule in rules:
        found |= rule.usual
    found |= usual
    for rule in sorted(rules, key=_importance) if any(rule.order[0] != _UNLAYERED for rule in rules) else rules:
        found |= rule.important
    return found | important


def _importance(rule: StyleRule) -> tuple[object, ...]:
    """Return the sort key of a rule for its `!important` declarations: among these, earlier layers have priority (CSS
    Cascade 5, 6.4.4).
    """
    return (tuple(-number for number in rule.order[0]), *rule.order[1:])
