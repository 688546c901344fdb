"""The tray icon on Windows and macOS, shown by the library pystray."""

import logging
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from mailbox_appliance.tray.view import NAME, TITLE, Action, IconLook, MenuRow, OnClick, default_action, icon_pixels

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

    return Image.frombytes("RGBA", (_IMAGE, _IMAGE), icon_pixels(_IMAGE, look))


def _call_now(change: Callable[[], None]) -> None:
    change()


def _main_thread() -> Callable[[Callable[[], None]], Any]:
    """Return a function that runs its argument in the main thread. On macOS, only that thread may change the icon."""
    call_after: Callable[[Callable[[], None]], Any] = import_module("PyObjCTools.AppHelper").callAfter
    return call_after
