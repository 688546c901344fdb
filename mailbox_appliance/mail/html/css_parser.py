"""Cut CSS into declarations and rules as browsers do (CSS Syntax 3).

All of it takes linear time. Other modules interpret the values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


def parse_blocks(sheet: str) -> list[RuleBlock]:
    """Return the rules of a style sheet whose comments are already removed. Statements without braces, such as
    `@import`, are skipped.
    """
    return _split(sheet, is_sheet=True)[1]


def split_nested(content: str) -> tuple[str, list[RuleBlock]]:
    """Return the declarations directly in a rule's block as text, and the rules nested in that block (CSS Nesting
    1).
    """
    return _split(content, is_sheet=False) if "{" in content else (content, [])


def _split(text: str, *, is_sheet: bool) -> tuple[str, list[RuleBlock]]:
    """Return the text outside all rules, and the rules. In a sheet, only a statement such as `@import` ends with a
    semicolon. There, `<!--` and `-->` between rules count as white space (CSS Syntax 5.4.1).
    """
    own: list[str] = []
    found: list[RuleBlock] = []
    start, opened, prelude = _SPACE.match(text).end() if is_sheet else 0, 0, ""  # type: ignore[union-attr]
    expected: list[str] = []
    for mark in _MARKS.finditer(text):
        sign = mark[0]
        if not expected and sign == "{":
            prelude, opened = text[start : mark.start()].strip(), mark.end()
            expected.append("}")
        elif expected and sign == expected[-1]:
            expected.pop()
            if not expected and sign == "}" and opened:
                found.append(RuleBlock(prelude, text[opened : mark.start()]))
                start, opened = mark.end(), 0
        elif not expected and sign == ";" and (not is_sheet or text.startswith("@", start)):
            own.append(text[start : mark.end()])
            start = mark.end()
        elif sign in _CLOSING and len(expected) < _MOST_NESTED_BRACKETS:
            expected.append(_CLOSING[sign])
        if is_sheet and start == mark.end():
            start = _SPACE.match(text, start).end()  # type: ignore[union-attr]
    if expected and opened:
        found.append(RuleBlock(prelude, text[opened:]))  # CSS Syntax 5.4.9: an unclosed block ends with the sheet
        start = len(text)
    return "".join([*own, text[start:]]), found
