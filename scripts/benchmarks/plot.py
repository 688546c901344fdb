"""A plot of curves over the size of a store as SVG: both axes logarithmic, readable on light and on dark ground."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.growth import Curve

_WIDTH, _HEIGHT = 800, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 270, 36, 48
#: For light and for dark ground; each pair is one curve's. Marks differ as well, for eyes that tell no colors apart.
_COLORS = (
    ("#0969da", "#58a6ff"),
    ("#bc4c00", "#f0883e"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#bc8cff"),
    ("#cf222e", "#ff7b72"),
    ("#9a6700", "#d29922"),
    ("#57606a", "#c9d1d9"),
)
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-4-4h8v8h-8z",
    "M0-5l5 9h-10z",
    "M0-5l5 5l-5 5l-5-5z",
    "M0 5l5-9h-10z",
    "M-5-1.5h10v3h-10z",
    "M-1.5-5h3v10h-3z",
)


def drawn(curves: Sequence[Curve]) -> str:
    """The plot: how many times each curve's value at its smallest store the value is at larger ones."""
    sizes = sorted({size for curve in curves for size, _ in curve.points})
    ratios = [value / curve.points[0][1] for curve in curves for _, value in curve.points]
    plane = _Plane(sizes[0], sizes[-1], min(ratios), max(ratios))
    parts = [*_opening(), *_grid(plane, sizes)]
    for place, curve in enumerate(curves):
        parts += _line(plane, curve, place % len(_COLORS))
        parts += _legend(curve, place)
    return "\n".join([*parts, "</svg>", ""])


class _Plane:
    """Where a size and a ratio lie."""

    def __init__(self, smallest: float, largest: float, low: float, high: float) -> None:
        self._x = math.log10(smallest), max(0.3, math.log10(largest / smallest))
        self._y = math.log10(low) - 0.1, math.log10(max(high, 10) / low) + 0.2
        self.powers = [power for power in range(-6, 9) if 0 <= power - self._y[0] <= self._y[1]]

    def x(self, size: float) -> float:
        """Pixels from the left."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(size) - self._x[0]) / self._x[1]

    def y(self, ratio: float) -> float:
        """Pixels from the top."""
        part = (math.log10(ratio) - self._y[0]) / self._y[1]
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part


def _opening() -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="12">'
    )
    yield "<title>Cost as the store grows, as a multiple of the cost at the smallest store</title>"
    light, dark = (
        "".join(f".c{place}{{--c:{pair[ground]}}}" for place, pair in enumerate(_COLORS)) for ground in (0, 1)
    )
    yield (
        "<style>text{fill:#1f2328}.g{stroke:#d0d7de}.l{fill:none;stroke:var(--c);stroke-width:2}.m{fill:var(--c)}"
        f"{light}@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.g{{stroke:#3d444d}}{dark}}}</style>"
    )


def _grid(plane: _Plane, sizes: Sequence[int]) -> Iterator[str]:
    top, bottom, left, right = _TOP, _HEIGHT - _BOTTOM, _LEFT, _WIDTH - _RIGHT
    for size in sizes:
        x = plane.x(size)
        yield f'<path class="g" d="M{x:.1f} {top}V{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{size:,}</text>'
    for power in plane.powers:
        y = plane.y(10.0**power)
        yield f'<path class="g" d="M{left} {y:.1f}H{right}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}x</text>'
    yield f'<text x="{(left + right) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">messages in the store</text>'
    yield f'<text x="{left - 8}" y="{top - 16}">cost, of that at {sizes[0]:,}</text>'
    yield f'<text x="{right + 24}" y="{top - 16}">exponent</text>'


def _line(plane: _Plane, curve: Curve, place: int) -> Iterator[str]:
    first = curve.points[0][1]
    dots = [(plane.x(size), plane.y(value / first)) for size, value in curve.points]
    yield f'<g class="c{place}">'
    yield f'<path class="l" d="M{" ".join(f"{x:.1f} {y:.1f}" for x, y in dots)}"/>'
    yield from (_mark(place, x, y) for x, y in dots)
    yield "</g>"


def _legend(curve: Curve, place: int) -> Iterator[str]:
    x, y = _WIDTH - _RIGHT + 24, _TOP + 12 + 24 * place
    color = place % len(_COLORS)
    yield f'<g class="c{color}">{_mark(color, x + 6, y - 4)}</g>'
    yield f'<text x="{x + 20}" y="{y}">{curve.exponent:.2f}  {escape(curve.name)}</text>'


def _mark(place: int, x: float, y: float) -> str:
    return f'<path class="m" transform="translate({x:.1f} {y:.1f})" d="{_MARKS[place]}"/>'
