"""Style that could hide text and whose effect is not worked out here. Its name comes from a fixed vocabulary.

A warning quotes the name, so it must never hold a word that a sender chose.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A declared value that may hide text or not. `options`: for a color, every color that it can be, if known."""

    name: str
    options: tuple[tuple[float, float, float, float], ...] = ()


# fmt: off
#: Functions whose result is known to the browser alone: whatever stands around them is valid (CSS Variables 3.1).
_LATE = re.compile(
    r"(?<![\w-])(var|env|attr|if|inherit|random|sibling-index|sibling-count|first-valid|toggle|--[\w-]{1,100})\("
)
#: Functions of CSS Values 4 and 5, Color 4 and 5, Images 4, Transforms 2, Shapes 2, Filters 1, Anchor Positioning 1.
_FUNCTIONS = frozenset({
    "calc", "min", "max", "clamp", "round", "mod", "rem", "abs", "sign", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "pow", "sqrt", "hypot", "log", "exp", "progress", "calc-size", "anchor", "anchor-size", "minmax",
    "rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix", "light-dark",
    "device-cmyk", "contrast-color", "alpha", "linear-gradient", "radial-gradient", "conic-gradient",
    "repeating-linear-gradient", "repeating-radial-gradient", "repeating-conic-gradient", "url", "image", "image-set",
    "cross-fade", "element", "paint", "inset", "rect", "xywh", "circle", "ellipse", "polygon", "path", "shape",
    "blur", "brightness", "contrast", "hue-rotate", "invert", "saturate", "sepia", "grayscale", "matrix", "matrix3d",
    "perspective", "rotate", "rotate3d", "rotatex", "rotatey", "rotatez", "scale", "scale3d", "scalex", "scaley",
    "scalez", "skew", "skewx", "skewy", "translate", "translate3d", "translatex", "translatey", "translatez",
})
#: Functions of one old browser, beside which another value stands for all others.
_OBSOLETE = frozenset({"expression", "progid", "eval"})
# fmt: on
_CALL = re.compile(r"(?<![\w-])([\w-]{1,40})\(")


def late(name: str, value: str) -> Unjudged | None:
    """A value that the browser alone can work out; None for any other."""
    found = _LATE.search(value) if "(" in value else None
    if found is None:
        return None
    return Unjudged(f"{name}: {'--function' if found[1].startswith('--') else found[1]}()")


def unread(name: str, value: str) -> Unjudged | None:
    """A value that has functions and was not understood; None where it has none, or only obsolete ones."""
    found = [call.removeprefix("-webkit-").removeprefix("-moz-") for call in _CALL.findall(value)]
    if not found or found[0] in _OBSOLETE or "progid:" in value:
        return None
    known = next((call for call in found if call in _FUNCTIONS), None)
    return Unjudged(f"{name}: {known}()" if known else f"{name}: unknown function")
