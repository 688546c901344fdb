"""Where CSS moves something, and what it leaves of its shape (CSS Transforms, CSS Masking): enough to see it or not."""

import re
from collections.abc import Mapping

from mailbox_appliance.mail.lengths import Length, length

_CALL = re.compile(r"([a-z0-9-]{1,20})\(([^()]{0,300})\)")
_CLIP = re.compile(r"rect\(([^()]{1,100})\)")
_PLACES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}  # of one to four words, for four sides
_PERCENT_OF_ITSELF = 3.0  # pixels of something of the usual size: `translate(-50%)` is for what is centred
_LEAST_SCALE, _LEAST_AREA = 0.06, 0.0036


def transform(value: str) -> Mapping[str, object] | None:
    """How it is moved, in pixels, and whether nothing is left of it."""
    if value == "none":
        return {"transform": (0.0, False)}
    moved, flat = 0.0, False
    for name, content in _CALL.findall(value):
        numbers = [
            each.resolved(16.0, _PERCENT_OF_ITSELF) for each in map(length, content.replace(",", " ").split()) if each
        ]
        if name.startswith("scale") or name in ("matrix", "matrix3d"):
            flat = flat or _is_flat(name, numbers)
        elif name.startswith("translate") and numbers:
            moved = max(moved, *(abs(number) for number in numbers))
        elif name in ("rotatex", "rotatey"):
            flat = flat or content.strip() in ("90deg", "-90deg", "270deg", "100grad", "0.25turn", ".25turn")
        if name == "matrix" and len(numbers) == 6:
            moved = max(moved, abs(numbers[4]), abs(numbers[5]))
    return {"transform": (moved, flat)} if "(" in value else None


def _is_flat(name: str, numbers: list[float]) -> bool:
    if name == "matrix":
        return len(numbers) == 6 and abs(numbers[0] * numbers[3] - numbers[1] * numbers[2]) < _LEAST_AREA
    if name == "matrix3d":
        return len(numbers) == 16 and abs(numbers[0] * numbers[5] - numbers[1] * numbers[4]) < _LEAST_AREA
    return any(abs(number) < _LEAST_SCALE for number in numbers[: 1 if name == "scalez" else 2]) and name != "scalez"


def scale(value: str) -> Mapping[str, object] | None:
    """Whether nothing is left of it."""
    numbers = [each.pixels + each.percent / 100 for each in map(length, value.split()) if each]
    return {"scale": any(abs(number) < _LEAST_SCALE for number in numbers[:2])} if numbers or value == "none" else None


def translate(value: str) -> Mapping[str, object] | None:
    """How far it is moved, in pixels."""
    numbers = [abs(each.resolved(16.0, _PERCENT_OF_ITSELF)) for each in map(length, value.split()) if each]
    return {"translate": max(numbers, default=0.0)} if numbers or value == "none" else None


def clip(value: str) -> Mapping[str, object] | None:
    """Whether the rectangle that is shown is empty, or next to it."""
    if value == "auto":
        return {"clip": False}
    found = _CLIP.fullmatch(value)
    sides = [length(word) for word in found[1].replace(",", " ").split()] if found else []
    if len(sides) != 4:
        return None
    top, right, bottom, left = (each.resolved(16.0) if each else None for each in sides)
    return {"clip": _is_narrow(left or 0.0, right) or _is_narrow(top or 0.0, bottom)}


def _is_narrow(start: float, end: float | None) -> bool:
    return end is not None and end - start <= 1


def clip_path(value: str) -> Mapping[str, object] | None:
    """Whether the shape that is shown is empty."""
    found = _CALL.match(value)
    if found is None:
        return {"clip-path": False} if value == "none" or "(" in value else None
    words = found[2].partition(" at ")[0].partition(" round ")[0].replace(",", " ").split()
    numbers = [each for each in map(length, words) if each]
    return {"clip-path": bool(numbers) and _leaves_nothing(found[1], numbers)}


def _leaves_nothing(shape: str, numbers: list[Length]) -> bool:
    if shape == "inset":
        top, right, bottom, left = (numbers[place] for place in _PLACES[min(4, len(numbers))])
        return any(one.percent + other.percent >= 99 for one, other in ((top, bottom), (left, right)))
    if shape in ("circle", "ellipse"):
        return any(each.resolved(16.0) <= 1 for each in numbers)
    return shape == "polygon" and _is_line(numbers[::2]) | _is_line(numbers[1::2])


def _is_line(numbers: list[Length]) -> bool:
    places = [each.resolved(16.0) for each in numbers]
    return bool(places) and max(places) - min(places) <= 1
