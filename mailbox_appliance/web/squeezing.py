"""JavaScript without the space that only people need: a fortieth of what the console weighs compressed.

Texts, templates and regular expressions stay as they are. It relies on what our formatter sees to: every statement ends
with a semicolon or a brace, so a line break means no more than a space (ECMAScript 12.10).
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[\w$]+)"""
    r"""|(?P<mark>\+\+|--|[^\s\w$"'])""",
    re.DOTALL,
)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
#: The text of a template, up to its end or to code within it (ECMAScript 12.9.6).
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
#: Words after which a slash begins a regular expression: what stands before it is no value.
_NO_VALUE = frozenset({"return", "typeof", "case", "in", "of", "await", "else", "void", "delete", "new", "throw"})
_CLOSING = (")", "]", "}")


def squeezed(source: str) -> str:
    """The same program with less space, and without the commas that stand before what closes a list."""
    kept: list[str] = []
    last = ""
    for each in _tokens(source):
        if last == "," and each in _CLOSING and kept[-2:-1] not in ([","], ["["]):
            kept.pop()
        if _runs_together(last, each):
            kept.append(" ")
        kept.append(each)
        last = each
    return "".join(kept)


def _runs_together(before: str, after: str) -> bool:
    """Whether two tokens would be read as one, or as others."""
    if not before:
        return False
    first, second = before[-1], after[0]
    return (_is_of_words(first) and _is_of_words(second)) or (first == second and first in "+-/")


def _is_of_words(character: str) -> bool:
    return character.isalnum() or character in "_$"


def _tokens(source: str) -> Iterator[str]:
    """All that means something. A template comes in pieces: what lies between them is code again."""
    place, last = 0, ""
    braces: list[int] = []  # that are open in the code of each template that we are within
    while place < len(source):
        found = _next(source, place, last)
        each = found[0]
        if braces:
            braces[-1] += (each == "{") - (each == "}")
        if each == "`" or (braces and braces[-1] < 0):
            if each == "}":
                braces.pop()
            each += _text_of_template(source, place + 1)
            if each.endswith("${"):
                braces.append(0)
        place += len(each)
        if found.lastgroup != "space":
            last = each
            yield each


def _next(source: str, place: int, last: str) -> re.Match[str]:
    """What begins here; whether a slash divides is told by what stands before it."""
    is_expression = source[place] == "/" and not _is_value(last)
    found = (_EXPRESSION.match(source, place) if is_expression else None) or _TOKEN.match(source, place)
    if found is None:
        raise ValueError(f"this is no JavaScript: {source[place : place + 40]!r}")
    return found


def _text_of_template(source: str, place: int) -> str:
    found = _TEMPLATE.match(source, place)
    if found is None:
        raise ValueError(f"a template has no end: {source[place : place + 40]!r}")
    return found[0]


def _is_value(before: str) -> bool:
    """Whether a slash behind it divides."""
    if not before:
        return False
    return before[-1] in ")]`\"'" or (_is_of_words(before[-1]) and before not in _NO_VALUE)
