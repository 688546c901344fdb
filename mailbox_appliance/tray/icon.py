"""The icon, drawn in any size: the figure of web/console/icon.svg, an envelope on a rounded square, and how it looks
when something is to be seen to or nothing runs. Packages and installers take their icons from here as well.

Every edge is a distance, and a pixel is covered as far as its middle lies inside: smooth edges without a library.
"""

import math
from functools import lru_cache
from itertools import pairwise

from mailbox_appliance.tray.host import Look

_Colour = tuple[float, float, float]
_Point = tuple[float, float]
#: From where to where, and half its width.
_Line = tuple[_Point, _Point, float]

#: The figure is measured in 32nds of its side, as in the SVG file.
_SIDE = 32.0
_ROUND = 7.0
_LEFT, _TOP, _BOTTOM = 6.0, 10.5, 22.5
#: The flap begins a little inside the corners, and its tip is here.
_INSIDE, _TIP = 0.5, (16.0, 18.0)
_LINE = 2.0
#: Pixels: a slanting line that is thinner fades.
_THINNEST = 1.5
_DOT: _Point = (24.5, 24.5)
_DOT_RADIUS, _DOT_GAP = 7.0, 1.8

_WHITE: _Colour = (255, 255, 255)
_BLUE: _Colour = (0x01, 0x72, 0xAD)
_GREY: _Colour = (0x73, 0x78, 0x80)
_AMBER: _Colour = (0xFF, 0xB0, 0x00)


@lru_cache(maxsize=32)
def pixels(size: int, look: Look) -> bytes:
    """The icon as `size` rows of `size` pixels, each red, green, blue, opacity, the colours not multiplied by it."""
    drawn, scale = bytearray(), size / _SIDE
    for row in range(size):
        for column in range(size):
            drawn += _pixel((column + 0.5) / scale, (row + 0.5) / scale, scale, look)
    return bytes(drawn)


def _pixel(x: float, y: float, scale: float, look: Look) -> bytes:
    colour = _mixed(_GREY if look is Look.STOPPED else _BLUE, _WHITE, _paper(x, y, scale))
    opacity = _cover(_from_square(x, y), scale)
    if look is Look.ATTENTION:
        colour, opacity = _with_dot(x, y, scale, colour, opacity)
    return bytes(round(part) for part in (*colour, opacity * 255))


def _paper(x: float, y: float, scale: float) -> float:
    """How much of a pixel is a line of the envelope."""
    if not (_LEFT - _LINE < x < _SIDE - _LEFT + _LINE and _TOP - _LINE < y < _BOTTOM + _LINE):
        return 0.0
    return _cover(min(_from_line((x, y), line) for line in _envelope(scale)), scale)


def _with_dot(x: float, y: float, scale: float, colour: _Colour, opacity: float) -> tuple[_Colour, float]:
    """The dot, with nothing around it, so that it is seen on any ground."""
    distance = math.dist((x, y), _DOT) - _DOT_RADIUS
    dot = _cover(distance, scale)
    behind = min(opacity * (1 - _cover(distance - _DOT_GAP, scale)), 1 - dot)
    whole = dot + behind
    return _mixed(colour, _AMBER, dot / whole if whole else 0.0), whole


def _cover(distance: float, scale: float) -> float:
    """How much of a pixel is inside; `distance` is that of its middle from the edge, negative inside."""
    return min(max(0.5 - distance * scale, 0.0), 1.0)


def _mixed(one: _Colour, other: _Colour, share: float) -> _Colour:
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def _from_square(x: float, y: float) -> float:
    half = _SIDE / 2
    aside, above = abs(x - half) - half + _ROUND, abs(y - half) - half + _ROUND
    return math.hypot(max(aside, 0.0), max(above, 0.0)) + min(max(aside, above), 0.0) - _ROUND


@lru_cache(maxsize=32)
def _envelope(scale: float) -> tuple[_Line, ...]:
    """The lines of the envelope. The outline lies on whole pixels, as small icons are a blur otherwise."""
    width = max(1, round(_LINE * scale))
    aside = width % 2 / 2

    def on_pixels(place: float) -> float:
        return (math.floor(place * scale - aside + 0.5) + aside) / scale

    left, top, bottom = (on_pixels(place) for place in (_LEFT, _TOP, _BOTTOM))
    right = _SIDE - left
    flap = ((left + _INSIDE, top + _INSIDE), _TIP, (right - _INSIDE, top + _INSIDE))
    outline = ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
    half, slanting = width / scale / 2, max(width, _THINNEST) / scale / 2
    straight = ((start, end, half) for start, end in pairwise(outline))
    return (*straight, *((start, end, slanting) for start, end in pairwise(flap)))


def _from_line(point: _Point, line: _Line) -> float:
    start, end, half = line
    along = (end[0] - start[0], end[1] - start[1])
    here = (point[0] - start[0], point[1] - start[1])
    share = (here[0] * along[0] + here[1] * along[1]) / (along[0] ** 2 + along[1] ** 2)
    share = min(max(share, 0.0), 1.0)
    return math.dist(here, (along[0] * share, along[1] * share)) - half
