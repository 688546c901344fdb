"""Where CSS moves something, and what it leaves of its shape (CSS Transforms, CSS Masking): enough to see it or not."""

import math
import re
from collections.abc import Mapping

from mailbox_appliance.mail.lengths import Length, length
from mailbox_appliance.mail.unjudged import Unjudged

_CALL = re.compile(r"([a-z0-9-]{1,20})\(((?:[^()]|\([^()]*+\))*+)\)")
_CLIP = re.compile(r"rect\(([^()]{1,100})\)")
_PLACES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}  # of one to four words, for four sides
_PERCENT_OF_ITSELF = 3.0  # pixels of something of the usual size: `translate(-50%)` is for what is centred
_FAR = 400.0  # pixels
_LEAST_SCALE, _LEAST_AREA = 0.06, 0.0036
_LARGEST_SCALE = 10.0  # beyond that letters are larger than what is around them
_LARGEST_SKEW = 80.0  # degrees
_ANGLE = re.compile(r"([+-]?[\d.]{1,30}(?:e[+-]?\d{1,3})?)(deg|grad|rad|turn)?")
_DEGREES = {"deg": 1.0, "grad": 0.9, "rad": 180 / math.pi, "turn": 360.0}
_EMPTY_PATH = re.compile(r"""["'](?:[mz]|[\d.,\s+-])*+["']""")
_FILL_RULE = re.compile(r"\A\s*+(?:nonzero|evenodd)\s*+,")


#: Of a `clip-path` that is the box itself: what flows over is not shown.
CLIPS = "box"
_BOXES = frozenset({"border-box", "padding-box", "content-box", "margin-box", "fill-box", "stroke-box", "view-box"})
#: How far something is moved in pixels, whether nothing is left of it, and the factor of the size of its letters.
_Effect = tuple[float, bool, float]
_NO_EFFECT: _Effect = (0.0, False, 1.0)


def transform(value: str) -> Mapping[str, object] | None:
    """How far it is moved, in pixels, whether nothing is left of it, and the factor of the size of its letters."""
    if value == "none":
        return {"transform": (0.0, False, 1.0), "turned": False}
    if "(" not in value:
        return None
    moved, is_flat, factor, unjudged, turned = 0.0, False, 1.0, "", False
    for name, content in _CALL.findall(value):
        found = _one_transform(name, content)
        if found is None:
            unjudged = unjudged or (name if name in _TRANSFORMS else "unknown function")
            continue
        moved, is_flat, factor = moved + found[0], is_flat or found[1], factor * found[2]
    turned = any(f"rotate{axis}" in value for axis in "xy3") or "matrix3d" in value
    if is_flat or moved >= 400 or not unjudged:
        return {"transform": (moved, is_flat, factor), "turned": turned}
    name = f"transform: {unjudged}{'' if ' ' in unjudged else '()'}"
    return {"transform": Unjudged(name), "turned": turned}


# fmt: off
_TRANSFORMS = frozenset({
    "matrix", "matrix3d", "perspective", "rotate", "rotate3d", "rotatex", "rotatey", "rotatez", "scale", "scale3d",
    "scalex", "scaley", "scalez", "skew", "skewx", "skewy", "translate", "translate3d", "translatex", "translatey",
    "translatez"
})
# fmt: on


def _one_transform(name: str, content: str) -> _Effect | None:
    """The effect of one function; None where that is not worked out."""
    words = content.replace(",", " ").split() if "(" not in content else [each.strip() for each in content.split(",")]
    if name in ("rotate", "rotatez"):
        return _NO_EFFECT
    if name in ("rotatex", "rotatey"):
        return _turned(content.strip())
    if name == "rotate3d":
        return _rotated(words)
    if name.startswith("skew"):
        angles = [_degrees(word) for word in words]
        return _NO_EFFECT if all(each is not None and abs(each) < _LARGEST_SKEW for each in angles) else None
    lengths = [length(word) for word in words]
    if not words or None in lengths:
        return None
    numbers = [each.to_pixels(16.0, _PERCENT_OF_ITSELF) for each in lengths if each]
    if name in ("scalex", "scaley", "scale", "scale3d", "scalez"):
        factors = [each.pixels + each.percent / 100 for each in lengths if each]
        return _scaled([] if name == "scalez" else factors[:2])
    if name in ("translate", "translatex", "translatey") or (name == "translate3d" and not any(numbers[2:])):
        moved = max(map(abs, numbers))
        return None if moved < _FAR and _is_by_its_size(lengths) else (moved, False, 1.0)
    if name == "translatez" and not any(numbers):
        return _NO_EFFECT
    if name == "matrix" and len(numbers) == 6:
        return _by_matrix(numbers)
    if name == "matrix3d" and len(numbers) == 16:
        is_plane = not any((*numbers[2:4], *numbers[6:8], *numbers[8:10], numbers[11], numbers[14]))
        flat = _by_matrix([*numbers[:2], *numbers[4:6], *numbers[12:14]])
        return flat if is_plane or (flat and flat[1]) else None
    return None


def _is_by_its_size(lengths: list[Length | None]) -> bool:
    """Whether it is moved by its own size or more, so that it may lie where its surroundings cut it off."""
    return any(each and abs(each.percent) >= 100 for each in lengths)


def _by_matrix(numbers: list[float]) -> _Effect | None:
    is_flat = abs(numbers[0] * numbers[3] - numbers[1] * numbers[2]) < _LEAST_AREA
    if max(map(abs, numbers[:4])) > _LARGEST_SCALE and not is_flat:
        return None
    factor = min(math.hypot(*numbers[:2]), math.hypot(*numbers[2:4]))
    return (max(abs(numbers[4]), abs(numbers[5])), is_flat, factor)


def _scaled(factors: list[float]) -> _Effect | None:
    least = min(map(abs, factors), default=1.0)
    if least < _LEAST_SCALE:
        return (0.0, True, least)
    return None if any(abs(factor) > _LARGEST_SCALE for factor in factors) else (0.0, False, least)


def _degrees(word: str) -> float | None:
    found = _ANGLE.fullmatch(word)
    if found is None or (not found[2] and found[1].strip("+-0.")):
        return None
    try:
        return float(found[1]) * _DEGREES[found[2] or "deg"]
    except ValueError:
        return None


def _turned(angle: str) -> _Effect | None:
    """Of a turn out of the plane of the page."""
    degrees = _degrees(angle)
    return None if degrees is None else (0.0, abs(math.cos(math.radians(degrees))) < _LEAST_SCALE, 1.0)


def _rotated(words: list[str]) -> _Effect | None:
    """Of three parts of an axis, and an angle."""
    axis = [each.pixels for each in map(length, words[:3]) if each]
    if len(axis) < 3 or len(words) != 4:
        return None
    if not any(axis[:2]):
        return _NO_EFFECT
    return _turned(words[3]) if not axis[2] else None


def rotate(value: str) -> Mapping[str, object] | None:
    """Whether nothing is left of it (CSS Transforms 2, 5)."""
    words = value.split()
    if value == "none" or (len(words) == 1 and _degrees(value) is not None):
        return {"rotate": False, "turned": False}
    axes = [word for word in words if word in ("x", "y", "z")]
    angles = [word for word in words if _degrees(word) is not None and not word.replace(".", "").isdigit()]
    if len(axes) == 1 and len(words) == 2 and angles:
        found = _NO_EFFECT if axes[0] == "z" else _turned(angles[0])
    elif len(words) == 4 and len(angles) == 1:
        found = _rotated([*(word for word in words if word != angles[0]), angles[0]])
    else:
        return None
    is_turned = "z" not in axes
    return {"rotate": found[1] if found else Unjudged("rotate"), "turned": is_turned}


def scale(value: str) -> Mapping[str, object] | None:
    """The factor by which its letters shrink or grow; True if nothing is left of it."""
    if value == "none":
        return {"scale": 1.0}
    numbers = [each.pixels + each.percent / 100 for each in map(length, value.split()) if each]
    if not numbers:
        return None
    found = _scaled(numbers[:2])
    return {"scale": (found[1] or found[2]) if found else Unjudged("scale")}


def translate(value: str) -> Mapping[str, object] | None:
    """How far it is moved, in pixels."""
    words = [value] if value.endswith(")") and value.count("(") == 1 else value.split()
    found = [length(word) for word in words] if value != "none" else []
    if None in found:
        return None
    numbers = [abs(each.to_pixels(16.0, _PERCENT_OF_ITSELF)) for each in found if each]
    moved = max(numbers[:2], default=0.0)
    return {"translate": Unjudged("translate") if moved < _FAR and _is_by_its_size(found) else moved}


def transform_origin(value: str) -> Mapping[str, object] | None:
    """A point far away, around which a turn moves something off the screen."""
    found = [length(word) for word in value.split()]
    is_far = any(each and abs(each.to_pixels(16.0, _PERCENT_OF_ITSELF)) >= 400 for each in found)
    return {"transform-origin": Unjudged("transform-origin") if is_far else value}


def clip(value: str) -> Mapping[str, object] | None:
    """Whether the rectangle that is shown is empty, or next to it."""
    if value == "auto":
        return {"clip": False}
    found = _CLIP.fullmatch(value)
    sides = [length(word) for word in found[1].replace(",", " ").split()] if found else []
    if len(sides) != 4:
        return None
    top, right, bottom, left = (each.to_pixels(16.0) if each else None for each in sides)
    if _is_narrow(left or 0.0, right) or _is_narrow(top or 0.0, bottom):
        return {"clip": True}
    return {"clip": Unjudged("clip: rect()") if any(side is not None for side in (right, bottom)) else False}


def _is_narrow(start: float, end: float | None) -> bool:
    return end is not None and end - start <= 1


def clip_path(value: str) -> Mapping[str, object] | None:
    """Whether the shape that is shown is empty (CSS Masking 1, 5; CSS Shapes 2, 3)."""
    found = _CALL.match(value)
    if found is None:
        return {"clip-path": CLIPS if value in _BOXES else False} if value == "none" or value in _BOXES else None
    shape, content = found[1], found[2]
    if shape == "path":
        is_empty = _EMPTY_PATH.fullmatch(_FILL_RULE.sub("", content).strip())
        return {"clip-path": True if is_empty else Unjudged("clip-path: path()")}
    words = content.partition(" at ")[0].partition(" round ")[0].replace(",", " ").split()
    given = [length(word) for word in words]
    numbers = [each for each in given if each]
    if numbers and _leaves_nothing(shape, given, numbers):
        return {"clip-path": True}
    if shape == "inset" and numbers and all(each.to_pixels(16.0) <= 0 for each in numbers):
        return {"clip-path": False if any(each.to_pixels(16.0) < 0 for each in numbers) else CLIPS}
    return None  # not understood, so reported


def _leaves_nothing(shape: str, given: list[Length | None], numbers: list[Length]) -> bool:
    if shape == "inset":
        top, right, bottom, left = (numbers[place] for place in _PLACES[min(4, len(numbers))])
        return any(one.percent + other.percent >= 99 for one, other in ((top, bottom), (left, right)))
    if shape == "rect" and len(given) == 4:
        # From the upper left corner; `auto` is the far edge of the box.
        top_, right_, bottom_, left_ = (each.to_pixels(16.0) if each else None for each in given)
        return _is_narrow(left_ or 0.0, right_) or _is_narrow(top_ or 0.0, bottom_)
    if shape == "xywh" and len(numbers) == 4:
        return any(each.to_pixels(16.0) <= 1 for each in numbers[2:])
    if shape in ("circle", "ellipse"):
        return any(each.to_pixels(16.0) <= 1 for each in numbers)
    return shape == "polygon" and _is_line(numbers[::2]) | _is_line(numbers[1::2])


def _is_line(numbers: list[Length]) -> bool:
    places = [each.to_pixels(16.0) for each in numbers]
    return bool(places) and max(places) - min(places) <= 1
