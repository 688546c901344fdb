"""Lengths as CSS writes them (CSS Values 4). On a screen of 1,000 by 1,000 pixels, for want of the real one."""

import math
import re
from dataclasses import dataclass

_NUMBER = r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:e[+-]?\d{1,9})?"
_LENGTH = re.compile(rf"({_NUMBER})([a-z]{{1,5}}|%)?")
_FUNCTION = re.compile(r"(?:-webkit-|-moz-)?(calc|min|max|clamp)\(")
_LONGEST_FUNCTION = 300  # characters
_PARTS = re.compile(
    rf"(?P<number>{_NUMBER})(?P<unit>[a-z]{{1,5}}|%)?"
    r"|(?:-webkit-|-moz-)?(?P<call>(?:calc|min|max|clamp)?)\(|(?P<sign>[-+*/),])|\s+|(?P<other>.)",
    re.S,
)
_DEEPEST = 10  # parentheses in each other
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6}
_OF_LETTERS = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2} | dict.fromkeys(
    ("rem", "rlh", "rex", "rch", "rcap", "ric"), 0.0
)
_OF_SCREEN = frozenset(
    kind + side for kind in ("v", "sv", "lv", "dv", "cq") for side in ("w", "h", "min", "max", "i", "b")
)
_ROOT = {"rem": 16.0, "rlh": 19.2, "rex": 8.0, "rch": 8.0, "rcap": 11.2, "ric": 16.0}
PERCENT_OF_SCREEN = 10.0  # pixels


@dataclass(frozen=True, slots=True)
class Length:
    """A length: pixels, and what depends on the size of letters and on what a percentage is of."""

    pixels: float = 0.0
    letters: float = 0.0  # times the size of the letters
    percent: float = 0.0
    is_number: bool = False  # written without a unit

    def to_pixels(self, letters: float, percent: float = PERCENT_OF_SCREEN) -> float:
        """In pixels, where letters have that size, and one percent is that."""
        return self.pixels + self.letters * letters + self.percent * percent

    def times(self, factor: float) -> "Length":
        """That many times the length."""
        return Length(self.pixels * factor, self.letters * factor, self.percent * factor, self.is_number)

    def plus(self, other: "Length") -> "Length":
        """Both together."""
        return Length(
            self.pixels + other.pixels,
            self.letters + other.letters,
            self.percent + other.percent,
            self.is_number and other.is_number,
        )


def length(value: str) -> Length | None:
    """A length, a percentage or a number in lower case; None for what is none, or is not worked out here."""
    if found := _LENGTH.fullmatch(value):
        return _plain(float(found[1]), found[2])
    if _FUNCTION.match(value) and len(value) <= _LONGEST_FUNCTION:
        try:
            return _Sum(value).parse()
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
    return None


def _plain(number: float, unit: str | None) -> Length | None:
    if unit is None:
        return Length(pixels=number, is_number=True)
    if unit == "%":
        return Length(percent=number)
    if unit in _PIXELS:
        return Length(pixels=number * _PIXELS[unit])
    if unit in _OF_LETTERS:
        return Length(letters=number * _OF_LETTERS[unit], pixels=number * _ROOT.get(unit, 0))
    return Length(pixels=number * PERCENT_OF_SCREEN) if unit in _OF_SCREEN else None


class _Sum:
    """Reads `calc()`, `min()`, `max()` and `clamp()`, in each other (CSS Values 4, 10). Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._parts = [part for part in _PARTS.finditer(text) if not part[0].isspace()]
        self._place = 0

    def parse(self) -> Length:
        found = self._value(0)
        if self._place < len(self._parts) or not math.isfinite(found.to_pixels(16.0)):
            raise ValueError(found)  # CSS takes what is no number for 0, and what is infinite for the largest
        return found

    def _sign(self, signs: str) -> str:
        """The next part if it is one of these signs; what is not closed ends with the value (CSS Syntax 5.4.9)."""
        if self._place == len(self._parts):
            return ")" if ")" in signs else ""
        sign = self._parts[self._place]["sign"]
        if not sign or sign not in signs:
            return ""
        self._place += 1
        return sign

    def _value(self, depth: int) -> Length:
        if self._place == len(self._parts) or depth > _DEEPEST:
            raise ValueError(depth)
        part = self._parts[self._place]
        self._place += 1
        if part["number"]:
            found = _plain(float(part["number"]), part["unit"])
            if found is None:
                raise ValueError(part[0])
            return found
        if part["call"] is None:
            raise ValueError(part[0])
        given = [self._sum(depth)]
        while (end := self._sign("),")) != ")":
            if not end:
                raise ValueError(part[0])
            given.append(self._sum(depth))
        return _chosen(part["call"], given)

    def _sum(self, depth: int) -> Length:
        total = self._product(depth)
        while sign := self._sign("+-"):
            total = total.plus(self._product(depth).times(-1 if sign == "-" else 1))
        return total

    def _product(self, depth: int) -> Length:
        total = self._value(depth + 1)
        while sign := self._sign("*/"):
            other = self._value(depth + 1)
            if sign == "/":
                other = Length(pixels=1 / other.pixels, is_number=other.is_number)
            if not (total.is_number or other.is_number):
                raise ValueError(sign)
            total = total.times(other.pixels) if other.is_number else other.times(total.pixels)
        return total


def _chosen(name: str, given: list[Length]) -> Length:
    """What a function gives, taken where letters have their usual size."""
    if name in ("", "calc"):
        if len(given) > 1:
            raise ValueError(name)
        return given[0]
    sizes = [each.to_pixels(16.0) for each in given]
    is_number = all(each.is_number for each in given)
    if name == "clamp":
        low, middle, high = sizes
        return Length(pixels=max(low, min(middle, high)), is_number=is_number)
    return Length(pixels=min(sizes) if name == "min" else max(sizes), is_number=is_number)
