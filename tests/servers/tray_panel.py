"""A desktop with a real tray: XFCE's panel and window manager on a screen in memory, to be looked at and clicked."""

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image
from Xlib import X
from Xlib.display import Display
from Xlib.error import BadDrawable, BadWindow
from Xlib.ext import xtest

from tests.servers.mailboxes import wait_until
from tests.servers.session_bus import SessionBus
from tests.servers.tray_watcher import WATCHER

NEEDED = ("/usr/bin/Xvfb", "/usr/bin/xfwm4", "/usr/bin/xfce4-panel", "/usr/bin/dbus-daemon")
PATIENCE = 20.0
WIDTH, HEIGHT, PANEL = 800, 600, 32

_PANEL = f"""<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array">
    <value type="int" value="1"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=6;x=0;y=0"/>
      <property name="length" type="uint" value="100"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="size" type="uint" value="{PANEL}"/>
      <property name="plugin-ids" type="array">
        <value type="int" value="1"/><value type="int" value="2"/>
      </property>
    </property>
  </property>
  <property name="plugins" type="empty">
    <property name="plugin-1" type="string" value="separator">
      <property name="expand" type="bool" value="true"/>
      <property name="style" type="uint" value="0"/>
    </property>
    <property name="plugin-2" type="string" value="systray">
      <property name="square-icons" type="bool" value="true"/>
    </property>
  </property>
</channel>
"""

Colour = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Box:
    """A part of the screen."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def middle(self) -> tuple[int, int]:
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


class Panel:
    """The desktop. `environment` leads a program to its screen and its bus; its files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.bus = SessionBus(folder)
        channels = folder / "config/xfce4/xfconf/xfce-perchannel-xml"
        channels.mkdir(parents=True)
        (channels / "xfce4-panel.xml").write_text(_PANEL)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "desktop.log").open("wb")

    @property
    def environment(self) -> dict[str, str]:
        """What a program of this desktop is started with."""
        return self.bus.environment

    def start(self) -> "Panel":
        """Start it, and wait until its tray is there."""
        self.bus.start(display := self._screen())
        self._display = Display(display)
        self._start("xfwm4", "--compositor=off")
        self._start_panel()
        return self

    def restart(self) -> None:
        """End the panel alone, as where it crashes, and start it anew."""
        self._panel.kill()
        self._panel.wait(10)
        wait_until(lambda: not self._has_tray(), lambda: "the panel's tray is still there", PATIENCE)
        self._start_panel()

    def stop(self) -> None:
        if hasattr(self, "_display"):
            self._display.close()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)
        self.bus.stop()
        self._log.close()

    # --- seen ---

    def picture(self) -> Image.Image:
        """What is on the screen."""
        taken = self._display.screen().root.get_image(0, 0, WIDTH, HEIGHT, X.ZPixmap, 0xFFFFFFFF)
        return Image.frombytes("RGB", (WIDTH, HEIGHT), taken.data, "raw", "BGRX")

    def find(self, colour: Colour) -> Box | None:
        """Where this very colour is in the panel, if it is."""
        panel = self.picture().crop((0, 0, WIDTH, PANEL))
        same = [
            (at % WIDTH, at // WIDTH)
            for at, seen in enumerate(zip(*[iter(panel.tobytes())] * 3, strict=True))
            if seen == colour
        ]
        if len(same) < 20:
            return None
        across, down = [x for x, _ in same], [y for _, y in same]
        return Box(min(across), min(down), max(across), max(down))

    def wait_for(self, colour: Colour) -> Box:
        """Wait until this colour is in the panel, as an icon is."""
        return _found(lambda: self.find(colour), f"nothing in the panel has the colour {colour}")

    def wait_until_gone(self, colour: Colour) -> None:
        """Wait until this colour is not in the panel any more."""
        wait_until(lambda: self.find(colour) is None, lambda: f"the panel still has the colour {colour}", PATIENCE)

    def menus(self) -> list[Box]:
        """The menus that are open: windows that no window manager has put anywhere."""
        windows = self._display.screen().root.query_tree().children
        return [box for window in windows if (box := _menu(window)) is not None]

    def lines(self) -> list[Box]:
        """The lines of text in the menu that is open; none where none is."""
        picture = self.picture()
        return [line for menu in self.menus() for line in _lines(picture, menu)]

    def wait_for_lines(self, count: int) -> list[Box]:
        """Wait until a menu is open that has so many lines of text."""

        def look() -> list[Box] | None:
            lines = self.lines()
            return lines if len(lines) == count else None

        return _found(look, f"no menu with {count} lines of text is open")

    def wait_until_closed(self) -> None:
        """Wait until no menu is open."""
        wait_until(lambda: not self.menus(), lambda: f"open: {self.menus()}", PATIENCE)

    # --- done ---

    def click(self, place: tuple[int, int], button: int = 1) -> None:
        """Press a button of the mouse there."""
        self.point(place)
        for kind in (X.ButtonPress, X.ButtonRelease):
            xtest.fake_input(self._display, kind, button)
        self._display.sync()

    def point(self, place: tuple[int, int]) -> None:
        xtest.fake_input(self._display, X.MotionNotify, x=place[0], y=place[1])
        self._display.sync()

    # --- parts ---

    def _screen(self) -> str:
        reads, writes = os.pipe()
        size = f"{WIDTH}x{HEIGHT}x24"
        arguments = ("Xvfb", "-displayfd", str(writes), "-screen", "0", size, "-nolisten", "tcp", "-noreset")
        self._start(*arguments, passed=(writes,))
        os.close(writes)
        with open(reads) as told:
            return f":{told.readline().strip()}"

    def _start_panel(self) -> None:
        self._panel = self._start("xfce4-panel", "--disable-wm-check")
        wait_until(self._has_tray, lambda: "the panel shows no tray", PATIENCE)

    def _start(self, *command: str, passed: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(command, env=self.environment, stdout=self._log, stderr=self._log, pass_fds=passed)
        self._processes.append(process)
        return process

    def _has_tray(self) -> bool:
        from mailbox_appliance.tray.linux.dbus import SessionBus as Connection

        connection = Connection(self.bus.address)
        try:
            return connection.has_owner(WATCHER)
        finally:
            connection.close()


def _found(look: Callable[[], T | None], complaint: str) -> T:
    found: list[T] = []

    def is_there() -> bool:
        if (seen := look()) is not None:
            found.append(seen)
        return bool(found)

    wait_until(is_there, lambda: complaint, PATIENCE)
    return found[-1]


def _menu(window: Any) -> Box | None:
    try:
        told, place = window.get_attributes(), window.get_geometry()
    except (BadWindow, BadDrawable):  # it has been closed meanwhile
        return None
    if told.map_state != X.IsViewable or not told.override_redirect or place.width < 60 or place.height < 40:
        return None
    return Box(place.x, place.y, place.x + place.width - 1, place.y + place.height - 1)


def _lines(picture: Image.Image, menu: Box) -> list[Box]:
    """The lines of text in a menu: where pixels differ from the ground, with ground above and below."""
    inside = picture.crop((menu.left + 4, menu.top + 2, menu.right - 3, menu.bottom - 1)).convert("L")
    width, height = inside.size
    rows = [inside.crop((0, y, width, y + 1)).tobytes() for y in range(height)]
    is_text = [max(row) - min(row) > 40 for row in rows]
    found, begun = [], None
    for y, text in enumerate([*is_text, False]):
        if text and begun is None:
            begun = y
        elif not text and begun is not None:
            if y - begun >= 5:  # a line between groups is thinner
                found.append(Box(menu.left + 4, menu.top + 2 + begun, menu.right - 4, menu.top + 1 + y))
            begun = None
    return found
