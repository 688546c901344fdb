"""Draws the tray icon in any size, and shows it on Windows and macOS with the library pystray."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any

from mailbox_appliance.tray.view import NAME, TITLE, Action, IconLook, MenuRow, OnClick, default_action

# --- Drawing the icon in any size: web/console/icon.svg, an envelope on a rounded square, and its other looks ---
#
# Packages and installers take their icons from here as well.
#
# Every edge is a distance, and a pixel is covered as far as its middle lies inside: smooth edges without a library.


_Colour = tuple[float, float, float]
_Point = tuple[float, float]
#: Start, end, and half the width.
_Line = tuple[_Point, _Point, float]

#: The figure is measured in 32nds of its side, as in the SVG file.
_SIDE = 32.0
_ROUND = 7.0
_LEFT, _TOP, _BOTTOM = 6.0, 10.5, 22.5
#: The flap begins a little inside the corners, and its tip is here.
_INSIDE, _TIP = 0.5, (16.0, 18.0)
_LINE = 2.0
#: Minimum pixels of a line: a thinner slanting line would fade.
_THINNEST = 1.5
_DOT: _Point = (24.5, 24.5)
_DOT_RADIUS, _DOT_GAP = 7.0, 1.8

_WHITE: _Colour = (255, 255, 255)
_BLUE: _Colour = (0x01, 0x72, 0xAD)
_GREY: _Colour = (0x73, 0x78, 0x80)
_AMBER: _Colour = (0xFF, 0xB0, 0x00)


@lru_cache(maxsize=32)
def draw_icon(size: int, look: IconLook) -> bytes:
    """Return the icon as RGBA pixels (not premultiplied): `size` rows of `size` pixels."""
    drawn, scale = bytearray(), size / _SIDE
    for row in range(size):
        for column in range(size):
            drawn += _draw_pixel((column + 0.5) / scale, (row + 0.5) / scale, scale, look)
    return bytes(drawn)


def _draw_pixel(x: float, y: float, scale: float, look: IconLook) -> bytes:
    colour = _mix(_GREY if look is IconLook.STOPPED else _BLUE, _WHITE, _envelope_cover(x, y, scale))
    opacity = _pixel_cover(_distance_from_square(x, y), scale)
    if look is IconLook.ATTENTION:
        colour, opacity = _with_dot(x, y, scale, colour, opacity)
    return bytes(round(part) for part in (*colour, opacity * 255))


def _envelope_cover(x: float, y: float, scale: float) -> float:
    """Return the part of the pixel at (x, y) that the lines of the envelope cover, from 0 to 1.

    `scale`: pixels per unit of x and y.
    """
    if not (_LEFT - _LINE < x < _SIDE - _LEFT + _LINE and _TOP - _LINE < y < _BOTTOM + _LINE):
        return 0.0
    return _pixel_cover(min(_distance_from_line((x, y), line) for line in _envelope_lines(scale)), scale)


def _with_dot(x: float, y: float, scale: float, colour: _Colour, opacity: float) -> tuple[_Colour, float]:
    """Return color and opacity of the pixel at (x, y) after the attention dot is drawn over it.

    An empty ring around the dot keeps it visible on any background.
    """
    distance = math.dist((x, y), _DOT) - _DOT_RADIUS
    dot = _pixel_cover(distance, scale)
    behind = min(opacity * (1 - _pixel_cover(distance - _DOT_GAP, scale)), 1 - dot)
    whole = dot + behind
    return _mix(colour, _AMBER, dot / whole if whole else 0.0), whole


def _pixel_cover(distance: float, scale: float) -> float:
    """Return the part of a pixel that is inside a shape, from 0 to 1.

    `distance`: from the center of the pixel to the edge of the shape, negative inside.
    """
    return min(max(0.5 - distance * scale, 0.0), 1.0)


def _mix(one: _Colour, other: _Colour, share: float) -> _Colour:
    red, green, blue = (a + (b - a) * share for a, b in zip(one, other, strict=True))
    return red, green, blue


def _distance_from_square(x: float, y: float) -> float:
    half = _SIDE / 2
    aside, above = abs(x - half) - half + _ROUND, abs(y - half) - half + _ROUND
    return math.hypot(max(aside, 0.0), max(above, 0.0)) + min(max(aside, above), 0.0) - _ROUND


@lru_cache(maxsize=32)
def _envelope_lines(scale: float) -> tuple[_Line, ...]:
    """Return the lines of the envelope.

    The outline lies on whole pixels, since small icons would look blurred otherwise.
    """
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


def _distance_from_line(point: _Point, line: _Line) -> float:
    start, end, half = line
    along = (end[0] - start[0], end[1] - start[1])
    here = (point[0] - start[0], point[1] - start[1])
    share = (here[0] * along[0] + here[1] * along[1]) / (along[0] ** 2 + along[1] ** 2)
    share = min(max(share, 0.0), 1.0)
    return math.dist(here, (along[0] * share, along[1] * share)) - half


# --- The icon on the screen ---


log = logging.getLogger(__name__)

#: Maximum characters that Windows accepts.
_LONGEST_TITLE = 120
_IMAGE = 64


class PystrayIcon:
    """A tray icon on Windows or macOS, shown by the library pystray. Any error of the constructor means that this
    session has no screen, as over SSH.

    Neither system announces that a menu opens, so the menu shows the state of the last poll.
    """

    def __init__(self, on_click: OnClick, platform: str) -> None:
        import pystray

        self._pystray, self._on_click, self._is_windows = pystray, on_click, platform == "win32"
        self._in_thread = _call_now if self._is_windows else _main_thread()
        self._showing = threading.Lock()
        self._is_stopped = False
        self._look, self._title, self._rows = IconLook.STOPPED, TITLE, tuple[MenuRow, ...]()
        self._icon = pystray.Icon(NAME, _icon_image(self._look), self._title, pystray.Menu())

    def run(self) -> None:
        """Show the icon until `stop` is called."""
        self._icon.run(self._set_up)

    def stop(self) -> None:
        """Make `run` return, also if it has not begun."""
        self._is_stopped = True
        self._icon.stop()

    def show(self, look: IconLook, title: str, rows: Sequence[MenuRow]) -> None:
        """Show this look, title and menu from now on. If they are the current ones, the desktop is not notified."""
        self._in_thread(lambda: self._show(look, f"{TITLE}: {title}"[:_LONGEST_TITLE], tuple(rows)))

    def notify(self, title: str, text: str) -> None:
        """Show a desktop notification. Never raises, even if no program shows it."""
        self._in_thread(lambda: self._notify(title, text))

    def _set_up(self, icon: Any) -> None:
        # Before this, pystray ignores `stop`.
        icon.visible = not self._is_stopped
        if self._is_stopped:
            icon.stop()

    def _show(self, look: IconLook, title: str, rows: tuple[MenuRow, ...]) -> None:
        with self._showing:
            if rows != self._rows:
                default = default_action(rows)
                self._icon.menu = self._pystray.Menu(*(self._item(row, default) for row in rows))
            if title != self._title:
                self._icon.title = title
            if look is not self._look:
                self._icon.icon = _icon_image(look)
            self._look, self._title, self._rows = look, title, rows

    def _notify(self, title: str, text: str) -> None:
        try:
            self._icon.notify(text, title)
        except Exception:  # every backend fails in its own ways
            log.info("notifications_unavailable", exc_info=True)

    def _item(self, row: MenuRow, default: Action | None) -> Any:
        if row.is_separator:
            return self._pystray.Menu.SEPARATOR
        action, checked = row.action, row.checked
        return self._pystray.MenuItem(
            # On Windows, a single & would underline the next letter.
            row.label.replace("&", "&&") if self._is_windows else row.label,
            None if action is None else lambda: self._on_click(action),
            checked=None if checked is None else lambda _: checked,
            default=action is not None and action is default,
            enabled=row.enabled,
        )


def _icon_image(look: IconLook) -> Any:
    from PIL import Image

    return Image.frombytes("RGBA", (_IMAGE, _IMAGE), draw_icon(_IMAGE, look))


def _call_now(change: Callable[[], None]) -> None:
    change()


def _main_thread() -> Callable[[Callable[[], None]], Any]:
    """Return a function that runs its argument in the main thread. On macOS, only that thread may change the icon."""
    call_after: Callable[[Callable[[], None]], Any] = import_module("PyObjCTools.AppHelper").callAfter
    return call_after
