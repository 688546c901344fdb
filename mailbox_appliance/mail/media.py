"""Media queries: whether the rules that they guard count on the screens of readers (Media Queries 4)."""

import re
from enum import IntEnum

from mailbox_appliance.mail import css
from mailbox_appliance.mail.lengths import length

MEDIA = "@media"
_LEAST_SCREEN, _LARGEST_PHONE = 320.0, 1_024.0  # pixels of width
_WIDEST_WINDOW, _WIDEST_SCREEN = 3_000.0, 10_000.0
_DEEPEST = 5  # parentheses in each other
_QUERY = re.compile(r"(?:(not|only)\s+)?(?!(?:not|only|and|or)\b)([a-z][\w-]*)(?:\s+and\s+(.*))?", re.S)
_SIZE = re.compile(r"(?:(min|max)-)?(?:device-)?(width|height)")
_RANGE = re.compile(r"([^<>=]*?)\s*([<>]=?|=)\s*([^<>=]*?)(?:\s*([<>]=?)\s*([^<>=]*))?")
_RESOLUTION = re.compile(
    r"(?:-webkit-min-device-pixel-ratio|min-resolution)\s*:\s*(\d{1,4}(?:\.\d{1,6})?)(dpi|dpcm|dppx|x)?"
)
_PER_PIXEL = {"dpi": 96.0, "dpcm": 96 / 2.54}  # of one device pixel for each pixel of CSS
_PRESENT = frozenset(
    {"color", "width", "height", "device-width", "device-height", "resolution", "aspect-ratio", "orientation"}
)


class _Met(IntEnum):
    """Whether screens meet a query. In this order `and` is the least of several, and `or` the largest."""

    NEVER = 0
    ELSEWHERE = 1  # on phones and in dark mode: newsletters swap blocks there, and the desktop is what counts
    SOMETIMES = 2
    ALWAYS = 3


_NEGATED = {
    _Met.NEVER: _Met.ALWAYS,
    _Met.ELSEWHERE: _Met.SOMETIMES,
    _Met.SOMETIMES: _Met.SOMETIMES,
    _Met.ALWAYS: _Met.NEVER,
}


def holds(queries: str) -> bool | str:
    """Whether a list of media queries is met on every screen, or the doubt `@media` where only some meet it.

    Queries of phones and of dark mode count as not met.
    """
    text = css.unescaped(css.without_comments(queries)).lower().strip()
    met = max(map(_query, css.split(text, ","))) if text else _Met.ALWAYS
    return MEDIA if met == _Met.SOMETIMES else met == _Met.ALWAYS


def _query(text: str) -> _Met:
    found = _QUERY.fullmatch(text.strip())
    if found is None:
        return _condition(text, 0)
    met = _Met.ALWAYS if found[2] in ("all", "screen") else _Met.NEVER
    if found[3] is not None:
        met = min(met, _condition(found[3], 0))
    return _NEGATED[met] if found[1] == "not" else met


def _condition(text: str, depth: int) -> _Met:
    """Features in parentheses, joined by `and` or by `or`."""
    words, groups = _groups(text)
    if not groups:
        return _Met.NEVER  # malformed, as in `screen yahoo`: browsers take it for `not all` (section 3.2)
    first, joins = words[0], set(words[1:-1])
    if first not in ("", "not") or words[-1] or not (joins <= {"and"} or joins <= {"or"}) or depth > _DEEPEST:
        return _Met.SOMETIMES
    met = [_condition(each, depth + 1) if each.startswith(("(", "not")) else _feature(each) for each in groups]
    found = max(met) if joins == {"or"} else min(met)
    if first == "not":
        return _NEGATED[found] if len(groups) == 1 else _Met.SOMETIMES
    return found


def _groups(text: str) -> tuple[list[str], list[str]]:
    """The words around the outermost parentheses, and what stands in these."""
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
        groups.append(text[start:].strip())  # CSS Syntax 5.4.9: what is not closed ends with the sheet
        words.append("")
    else:
        words[-1] = text[start:].strip()
    return words, groups


def _feature(text: str) -> _Met:
    if text in _PRESENT:
        return _Met.ALWAYS
    name, colon, value = (part.strip() for part in text.partition(":"))
    if colon:
        size = _SIZE.fullmatch(name)
        if size and size[1]:
            return _of_size(size[2], value, is_least=size[1] == "min")
        if found := _RESOLUTION.fullmatch(text):
            return _Met.ALWAYS if float(found[1]) <= _PER_PIXEL.get(found[2] or "", 1.0) else _Met.SOMETIMES
        if (name, value) == ("prefers-color-scheme", "dark") or name.startswith("-ms-"):
            return _Met.ELSEWHERE
        return _Met.SOMETIMES
    return _in_range(text)


def _in_range(text: str) -> _Met:
    """Of `width > 1px`, `1px < width` and `1px < width <= 9px` (section 2.4.3)."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return _Met.SOMETIMES
    left, sign, middle, other_sign, right = found.groups()
    if size := _SIZE.fullmatch(left):
        value, is_least = middle, sign.startswith(">")
    elif size := _SIZE.fullmatch(middle):
        value, is_least = left, sign.startswith("<")
    if size is None or size[1] or sign == "=":
        return _Met.SOMETIMES
    met = _of_size(size[2], value, is_least=is_least)
    return min(met, _of_size(size[2], right, is_least=other_sign.startswith(">"))) if other_sign else met


def _of_size(side: str, value: str, *, is_least: bool) -> _Met:
    found = length(value)
    if found is None or found.percent or (found.is_number and found.pixels):
        return _Met.SOMETIMES
    pixels = found.to_pixels(16.0)
    if is_least:
        if pixels <= _LEAST_SCREEN:
            return _Met.ALWAYS
        return _Met.NEVER if pixels > _WIDEST_SCREEN else _Met.SOMETIMES
    if pixels < _LEAST_SCREEN:
        return _Met.NEVER
    if pixels >= _WIDEST_WINDOW:
        return _Met.ALWAYS
    return _Met.ELSEWHERE if side == "height" or pixels <= _LARGEST_PHONE else _Met.SOMETIMES
