"""Cut CSS into declarations, rules and selectors as browsers do, and match selectors with elements (CSS Syntax 3,
Selectors 4).

All of it takes linear time. Other modules interpret the values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

_COMMENTS = re.compile(
    r"""("(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|\burl\([^"'()]*+\)|\\.)|/\*.*?(?:\*/|\Z)""", re.S | re.I
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|([^\n\r\f]))")
_MARKS = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*+(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\.)*+(?:'|(?=\n)|\Z))
    | \burl\(\s*+[^"'\s()][^()]*+\) | \\. | [(){}\[\];,]""",
    re.X | re.S | re.I,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_IMPORTANT = re.compile(r"!\s*important\s*\Z")
_SPACE = re.compile(r"(?:\s++|<!--|-->)*+")
_MOST_NESTED_BRACKETS = 50  # nested brackets


def without_comments(text: str) -> str:
    """Return CSS with a space in place of each comment. Strings and URLs that only look like comments stay."""
    return _COMMENTS.sub(lambda found: found[1] or " ", text) if "/*" in text else text


def unescape(text: str) -> str:
    """Return CSS with its escapes decoded (CSS Syntax 4.3.7): `dis\\70lay` becomes `display`."""
    return _ESCAPE.sub(_unescape_character, text) if "\\" in text else text


def _unescape_character(found: re.Match[str]) -> str:
    if found[2]:
        return found[2]
    number = int(found[1], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


def split_css(text: str, separator: str) -> Iterator[str]:
    """Yield the pieces of CSS text between separators. Separators inside strings and brackets do not count."""
    start = 0
    expected: list[str] = []  # the closing brackets that are expected
    for found in _MARKS.finditer(text):
        sign = found[0]
        if not expected and sign == separator:
            yield text[start : found.start()]
            start = found.end()
        elif expected and sign == expected[-1]:
            expected.pop()
        elif sign in _CLOSING and len(expected) < _MOST_NESTED_BRACKETS:
            expected.append(_CLOSING[sign])
    yield text[start:]


def parse_declarations(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the declarations of a `style` attribute or a rule's block, in order: name, value, and whether it is
    `!important`.

    Names and values are in lower case and unescaped. All declarations of a name are yielded: the last one whose value
    browsers understand applies.
    """
    text = without_comments(text)
    simple = not any(sign in text for sign in "\"'([{\\")
    for piece in text.split(";") if simple else split_css(text, ";"):
        name, colon, value = piece.partition(":")
        if colon:
            value = unescape(value).strip().lower()
            is_important = "!" in value and _IMPORTANT.search(value) is not None
            if is_important:
                value = _IMPORTANT.sub("", value).rstrip()
            yield unescape(name).strip().lower(), value, is_important


@dataclass(frozen=True, slots=True)
class RuleBlock:
    """A rule of a style sheet: the text before its braces (`prelude`: selectors, or an at-rule), and the text inside
    them (`content`).
    """

    prelude: str
    content: str


def parse_blocks(sheet: str) -> Iterator[RuleBlock]:
    """Yield the rules of a style sheet whose comments are already removed. Statements without braces, such as
    `@import`, are skipped.
    """
    start, opened, prelude = _skip_space(sheet, 0), 0, ""
    expected: list[str] = []
    for found in _MARKS.finditer(sheet):
        sign = found[0]
        if not expected and sign == "{":
            prelude, opened = sheet[start : found.start()].strip(), found.end()
            expected.append("}")
        elif expected and sign == expected[-1]:
            expected.pop()
            if not expected and sign == "}" and opened:
                yield RuleBlock(prelude, sheet[opened : found.start()])
                start, opened = _skip_space(sheet, found.end()), 0
        elif not expected and sign == ";" and sheet.startswith("@", start):
            start = _skip_space(sheet, found.end())
        elif sign in _CLOSING and len(expected) < _MOST_NESTED_BRACKETS:
            expected.append(_CLOSING[sign])
    if expected and opened:
        yield RuleBlock(prelude, sheet[opened:])  # CSS Syntax 5.4.9: an unclosed block ends with the sheet


def split_nested(content: str) -> tuple[str, list[RuleBlock]]:
    """Return the declarations directly in a rule's block as text, and the rules nested in that block (CSS Nesting
    1).
    """
    if "{" not in content:
        return content, []
    own: list[str] = []
    found: list[RuleBlock] = []
    start = opened = 0
    prelude = ""
    expected: list[str] = []
    for mark in _MARKS.finditer(content):
        sign = mark[0]
        if not expected and sign == ";":
            own.append(content[start : mark.end()])
            start = mark.end()
        elif not expected and sign == "{":
            prelude, opened = content[start : mark.start()].strip(), mark.end()
            expected.append("}")
        elif expected and sign == expected[-1]:
            expected.pop()
            if not expected and sign == "}":
                found.append(RuleBlock(prelude, content[opened : mark.start()]))
                start = mark.end()
        elif sign in _CLOSING and len(expected) < _MOST_NESTED_BRACKETS:
            expected.append(_CLOSING[sign])
    if expected and opened > start:
        found.append(RuleBlock(prelude, content[opened:]))
        start = len(content)
    return "".join([*own, content[start:]]), found


def _skip_space(sheet: str, start: int) -> int:
    """Return the position of the next rule, from `start` on. `<!--` and `-->` between rules count as white space (CSS
    Syntax 5.4.1).
    """
    return _SPACE.match(sheet, start).end()  # type: ignore[union-attr]


# --- Selectors as mail uses them: tags, classes, IDs, attributes, siblings and ancestors (Selectors 4) ---
#
# Selectors for actions of the reader (`:hover`) and for anything but elements (`::before`) never match. Selectors that
# need the rest of the mail (`:last-child`, `:has()`) or the state of a form are reported separately as vague. Case is
# ignored: old documents ignore it for classes and IDs, and most mail is such a document.


_SIMPLE = re.compile(
    r"""(?P<tag>\*|(?:[\w-]|[^\x00-\x7f]|\\.)++)
    | \.(?P<class>(?:[\w-]|[^\x00-\x7f]|\\[^\n])++) | \#(?P<id>(?:[\w-]|[^\x00-\x7f]|\\[^\n])++)
    | \[\s*+(?P<name>[\w:-]++)\s*+(?:(?P<how>[~|^$*]?=)\s*+(?P<value>"[^"]*+"|'[^']*+'|[^\]\s]++)\s*+[iIsS]?\s*+)?\]
    | :(?P<pseudo>[\w-]++)(?:\((?P<argument>(?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+)\))?
    | (?P<combinator>\s*+[>+~]\s*+|\s++)""",
    re.X,
)
_NTH = re.compile(r"(?:(?P<step>[+-]?\d{0,4})n)?\s*(?P<start>[+-]?\s*\d{1,4})?")
_NTH_WORDS = {"odd": "2n+1", "even": "2n"}
_FIRST_CLASSES = frozenset({"first-child", "first-of-type"})
_NTH_CLASSES = frozenset({"nth-child", "nth-of-type"})
_VAGUE_CLASSES = frozenset({
    "last-child", "last-of-type", "only-child", "only-of-type", "nth-last-child", "nth-last-of-type", "empty", "has",
    "lang", "dir", "checked", "default", "defined", "disabled", "enabled", "host", "in-range", "indeterminate",
    "invalid", "open", "optional", "out-of-range", "placeholder-shown", "read-only", "read-write", "required", "scope",
    "valid", "heading", "nth-col", "nth-last-col"
})  # fmt: skip
_LONGEST_SELECTOR = 500  # characters of a selector
_MOST_PARTS = 12
_MOST_NESTED_SELECTORS = 3  # `:not(:is())`


class UnknownSelector(ValueError):
    """Raised for a selector that this module does not support."""


class Nth(msgspec.Struct, frozen=True, gc=False):
    """A condition on the position among siblings, as in `:nth-child(2n+1)`: here `step` is 2 and `start` is 1.

    Positions count from 1. The condition is met by each position that is `start` plus a multiple of `step`. `of_type`:
    only siblings of the same name count.
    """

    step: int
    start: int
    of_type: bool


class AnyOf(msgspec.Struct, frozen=True):
    """The condition that an element matches one of several selectors (`:is()`), or with `none` that it matches none of
    them (`:not()`).
    """

    compounds: tuple["Compound", ...]
    none: bool


UNKNOWN_CONDITION = AnyOf((), none=True)  # for conditions that are not supported


class Compound(msgspec.Struct, frozen=True, gc=False):
    """The conditions that a selector has for one element, such as `td.price:first-child` (a compound selector)."""

    tag: str = ""
    id: str = ""
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str, str], ...] = ()  # name, comparison (empty: it exists), value
    conditions: tuple[Nth | AnyOf, ...] = ()
    vague: str = ""  # the name of a condition that is not supported; empty if there is none

    @property
    def depends_on_attributes(self) -> bool:
        """Whether the conditions test attributes other than `id` and `class`."""
        anys = (each for each in self.conditions if isinstance(each, AnyOf))
        return bool(self.attributes) or any(one.depends_on_attributes for each in anys for one in each.compounds)


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector, such as `table > tr td`. `subject`: the conditions for the element itself.

    `around`: the conditions for other elements, the nearest first, each with its combinator (`>`, `+`, `~`, or empty
    for an ancestor at any distance). `weight`: the specificity.
    """

    subject: Compound
    around: tuple[tuple[str, Compound], ...]
    weight: tuple[int, int, int]  # IDs; classes and attributes; tags


@dataclass(frozen=True, slots=True)
class MatchTarget:
    """The facts about an element that selectors can test. Values are in lower case."""

    tag: str
    id: str
    classes: frozenset[str]
    attributes: Mapping[str, str]
    keys: tuple[str, ...]  # the keys of rules: its tag, `#id`, `.class`
    number: int = 0  # position among its siblings, from 1; 0: unknown
    of_type: int = 0  # position among those with its tag
    previous: Self | None = None  # the sibling before it


def parse_selector(written: str) -> Selector | None:
    """Return the parsed selector, or None if it can never match an element. Raises UnknownSelector if it is not
    supported.
    """
    return _parse_selector(written.strip(), 0)


def _parse_selector(written: str, depth: int) -> Selector | None:
    if not written:
        return None
    if len(written) > _LONGEST_SELECTOR or depth > _MOST_NESTED_SELECTORS:
        raise UnknownSelector(written)
    parts: list[list[re.Match[str]]] = [[]]
    combinators: list[str] = []
    place = 0
    while place < len(written):
        found = _SIMPLE.match(written, place)
        if found is None and written.startswith("::", place):
            return None
        if found is None or len(parts) > _MOST_PARTS or (found["tag"] and parts[-1]):
            raise UnknownSelector(written)
        place = found.end()
        if found["combinator"]:
            combinators.append(found["combinator"].strip())
            parts.append([])
        else:
            parts[-1].append(found)
    if any(each["pseudo"] == "empty" for each in parts[-1]):
        return None  # it contains no text
    compounds = [_parse_compound(part, depth) for part in parts if part]
    whole = [each for each in compounds if each]
    if len(whole) < len(parts):
        return None
    around = tuple(zip(reversed(combinators), reversed(whole[:-1]), strict=True))
    return Selector(whole[-1], around, _specificity(whole))


def _parse_compound(found: Sequence[re.Match[str]], depth: int) -> Compound | None:
    def values(group: str) -> list[str]:
        return [unescape(each[group]).lower() for each in found if each[group]]

    attributes = [
        (each["name"].lower(), each["how"] or "", unescape((each["value"] or "").strip("\"'")).lower())
        for each in found
        if each["name"]
    ]
    tags = [tag for tag in values("tag") if tag != "*"]
    conditions: list[Nth | AnyOf] = []
    vague = ""
    for each in found:
        pseudo, argument = (each["pseudo"] or "").lower(), (each["argument"] or "").strip().lower()
        if pseudo in ("link", "any-link", "-webkit-any-link"):
            attributes.append(("href", "", ""))
        elif pseudo == "root":
            tags.append("html")
        elif pseudo in _VAGUE_CLASSES:
            vague = vague or f":{pseudo}{'()' if argument else ''}"
        elif pseudo:
            condition = _parse_condition(pseudo, argument, depth)
            if condition is None:
                return None
            vague = vague or (f":{pseudo}()" if condition is UNKNOWN_CONDITION else "")
            conditions.append(condition)
    return Compound(
        "".join(tags[:1]),
        "".join(values("id")[:1]),
        tuple(values("class")),
        tuple(attributes),
        tuple(conditions),
        vague,
    )


def _parse_condition(pseudo: str, argument: str, depth: int) -> Nth | AnyOf | None:
    if pseudo in _FIRST_CLASSES:
        return Nth(0, 1, pseudo == "first-of-type")
    if pseudo in _NTH_CLASSES:
        found = _NTH.fullmatch(_NTH_WORDS.get(argument, argument))
        if found is None and " of " in argument:
            return UNKNOWN_CONDITION
        if found is None or not argument:
            return None
        step = found["step"]
        steps = 0 if step is None else int(step + "1") if step in ("", "+", "-") else int(step)
        return Nth(steps, int((found["start"] or "0").replace(" ", "")), pseudo == "nth-of-type")
    if pseudo in ("not", "is", "where", "matches", "-webkit-any"):
        try:
            given = [_parse_selector(each.strip(), depth + 1) for each in split_css(argument, ",")]
        except UnknownSelector:
            return UNKNOWN_CONDITION
        return _any_of(given, none=pseudo == "not")
    return None


def _any_of(selectors_: Sequence[Selector | None], *, none: bool) -> AnyOf | None:
    """Return the condition that an element matches one of these selectors, or with `none` that it matches none of them.

    Selectors that are None never match. Returns None if the condition can never be met, and UNKNOWN_CONDITION if a
    selector has conditions on other elements.
    """
    known = [each.subject for each in selectors_ if each]
    if any(each.around or each.subject.vague for each in selectors_ if each):
        return UNKNOWN_CONDITION
    return AnyOf(tuple(known), none) if known or none else None


def _specificity(compounds: Sequence[Compound]) -> tuple[int, int, int]:
    return (
        sum(bool(each.id) for each in compounds),
        sum(len(each.classes) + len(each.attributes) + len(each.conditions) + bool(each.vague) for each in compounds),
        sum(bool(each.tag) for each in compounds),
    )


def matches_compound(compound: Compound, known: MatchTarget) -> bool:
    """Whether an element meets all conditions of a compound selector. `known`: the facts about the element."""
    return (
        (not compound.tag or compound.tag == known.tag)
        and (not compound.id or compound.id == known.id)
        and known.classes.issuperset(compound.classes)
        and all(_matches_attribute(known.attributes, *each) for each in compound.attributes)
        and all(_meets_condition(each, known) for each in compound.conditions)
    )


def depends_on_place(compound: Compound) -> bool:
    """Whether a compound selector tests the position of an element among its siblings."""
    return any(isinstance(each, Nth) or any(map(depends_on_place, each.compounds)) for each in compound.conditions)


def _meets_condition(condition: Nth | AnyOf, known: MatchTarget) -> bool:
    """Whether an element meets a condition. `known`: the facts about it. A condition on a position that is not known
    yet counts as met.
    """
    if isinstance(condition, AnyOf):
        if not known.number and any(map(depends_on_place, condition.compounds)):
            return True
        return any(matches_compound(each, known) for each in condition.compounds) is not condition.none
    number = known.of_type if condition.of_type else known.number
    if not number:
        return True
    steps = number - condition.start
    return steps == 0 if condition.step == 0 else steps % condition.step == 0 and steps * condition.step >= 0


def _matches_attribute(attributes: Mapping[str, str], name: str, how: str, value: str) -> bool:
    if name not in attributes:
        return False
    given = attributes[name].lower()
    match how:
        case "=":
            return given == value
        case "~=":
            return value in given.split()
        case "|=":
            return given == value or given.startswith(f"{value}-")
        case "^=":
            return value != "" and given.startswith(value)
        case "$=":
            return value != "" and given.endswith(value)
        case "*=":
            return value != "" and value in given
    return True
