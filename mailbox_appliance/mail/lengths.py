"""Lengths as CSS writes them (CSS Values 4). On a screen of 1,000 by 1,000 pixels, for want of the real one."""

import re
from dataclasses import dataclass

_NUMBER = r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:e[+-]?\d{1,3})?"
_LENGTH = re.compile(rf"({_NUMBER})([a-z]{{1,5}}|%)?")
_FUNCTION = re.compile(r"(?:-webkit-)?(calc|min|max|clamp)\((.{1,200})\)", re.S)
_TERM = re.compile(rf"\s*([-+*/]\s)?\s*({_NUMBER}(?:[a-z]{{1,5}}|%)?)")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6}
_OF_LETTERS = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2, "rem": 0.0, "rlh": 0.0}
_OF_SCREEN = frozenset(
    kind + side for kind in ("v", "sv", "lv", "dv", "cq") for side in ("w", "h", "min", "max", "i", "b")
)
_ROOT = {"rem": 16.0, "rlh": 19.2}
PERCENT_OF_SCREEN = 10.0  # pixels


@dataclass(frozen=True, slots=True)
class Length:
    """A length: pixels, and what depends on the size of letters and on what a percentage is of."""

    pixels: float = 0.0
    letters: float = 0.0  # times the size of the letters
    percent: float = 0.0
    is_number: bool = False  # written without a unit

    def resolved(self, letters: float, percent: float = PERCENT_OF_SCREEN) -> float:
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
    if found := _FUNCTION.fullmatch(value):
        return _sum(found[2]) if found[1] == "calc" else _choice(found[1], found[2])
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


def _sum(content: str) -> Length | None:
    """Of `calc`: sums and products without parentheses."""
    total, last, place = Length(is_number=True), None, 0
    while found := _TERM.match(content, place):
        term = length(found[2])
        sign = (found[1] or "+").strip()
        if term is None or (last is None) != (found[1] is None):
            return None
        place = found.end()
        if sign in "+-":
            total = total.plus(last) if last else total
            last = term.times(-1 if sign == "-" else 1)
        else:
            last = _product(last or term, term, divides=sign == "/")
            if last is None:
                return None
    return total.plus(last) if last and not content[place:].strip() else None


def _product(one: Length, other: Length, *, divides: bool) -> Length | None:
    if divides:
        return one.times(1 / other.pixels) if other.is_number and other.pixels else None
    if other.is_number:
        return one.times(other.pixels)
    return other.times(one.pixels) if one.is_number else None


def _choice(name: str, content: str) -> Length | None:
    """Of `min`, `max` and `clamp`, taken where letters have their usual size."""
    found = [_sum(part) for part in content.split(",")]
    if not found or None in found or (name == "clamp" and len(found) != 3):
        return None
    sizes = [each.resolved(16.0) for each in found if each]
    if name == "clamp":
        return Length(pixels=max(sizes[0], min(sizes[1], sizes[2])))
    return Length(pixels=min(sizes) if name == "min" else max(sizes))
