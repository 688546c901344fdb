"""CSS as browsers cut it into declarations and rules (CSS Syntax 3), in linear time; values are another matter."""

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
_DEEPEST = 50  # brackets in brackets


def without_comments(text: str) -> str:
    """CSS with a space for each comment; what only looks like one, in a string or an address, stays."""
    return _COMMENTS.sub(lambda found: found[1] or " ", text) if "/*" in text else text


def unescaped(text: str) -> str:
    """CSS without escapes (CSS Syntax 4.3.7): `dis\\70lay` is `display`."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    if found[2]:
        return found[2]
    number = int(found[1], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


def split(text: str, separator: str) -> Iterator[str]:
    """The pieces of CSS between separators that stand in no string and in no brackets."""
    start = 0
    expected: list[str] = []  # the closing brackets that are due
    for found in _MARKS.finditer(text):
        sign = found[0]
        if not expected and sign == separator:
            yield text[start : found.start()]
            start = found.end()
        elif expected and sign == expected[-1]:
            expected.pop()
        elif sign in _CLOSING and len(expected) < _DEEPEST:
            expected.append(_CLOSING[sign])
    yield text[start:]


def declarations(text: str) -> Iterator[tuple[str, str, bool]]:
    """Name, value and whether it is important, of the declarations of a `style` attribute or a block.

    Names and values are in lower case and unescaped. In their order: of two alike the last counts, unless the browser
    does not know its value.
    """
    text = without_comments(text)
    simple = not any(sign in text for sign in "\"'([{\\")
    for piece in text.split(";") if simple else split(text, ";"):
        name, colon, value = piece.partition(":")
        if colon:
            value = unescaped(value).strip().lower()
            is_important = "!" in value and _IMPORTANT.search(value) is not None
            if is_important:
                value = _IMPORTANT.sub("", value).rstrip()
            yield unescaped(name).strip().lower(), value, is_important


@dataclass(frozen=True, slots=True)
class Block:
    """A rule of a style sheet: what stands before its brackets, and in them."""

    prelude: str
    content: str


def blocks(sheet: str) -> Iterator[Block]:
    """The rules of a style sheet without comments; statements such as `@import` are passed over."""
    start, opened, prelude = _behind_space(sheet, 0), 0, ""
    expected: list[str] = []
    for found in _MARKS.finditer(sheet):
        sign = found[0]
        if not expected and sign == "{":
            prelude, opened = sheet[start : found.start()].strip(), found.end()
            expected.append("}")
        elif expected and sign == expected[-1]:
            expected.pop()
            if not expected and sign == "}" and opened:
                yield Block(prelude, sheet[opened : found.start()])
                start, opened = _behind_space(sheet, found.end()), 0
        elif not expected and sign == ";" and sheet.startswith("@", start):
            start = _behind_space(sheet, found.end())
        elif sign in _CLOSING and len(expected) < _DEEPEST:
            expected.append(_CLOSING[sign])
    if expected and opened:
        yield Block(prelude, sheet[opened:])  # CSS Syntax 5.4.9: what is not closed ends with the sheet


def nested(content: str) -> tuple[str, list[Block]]:
    """What a block declares itself, and the rules in it (CSS Nesting 1)."""
    if "{" not in content:
        return content, []
    own: list[str] = []
    found: list[Block] = []
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
                found.append(Block(prelude, content[opened : mark.start()]))
                start = mark.end()
        elif sign in _CLOSING and len(expected) < _DEEPEST:
            expected.append(_CLOSING[sign])
    if expected and opened > start:
        found.append(Block(prelude, content[opened:]))
        start = len(content)
    return "".join([*own, content[start:]]), found


def _behind_space(sheet: str, start: int) -> int:
    """Where the next rule begins; the marks of HTML comments around a sheet count as white space (5.4.1)."""
    return _SPACE.match(sheet, start).end()  # type: ignore[union-attr]
