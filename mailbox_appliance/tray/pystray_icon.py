"""The icon by pystray, whichever of its backends shows it: Windows' and macOS' own, AppIndicator's, or ours (`sni`)."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from mailbox_appliance.tray import pystray_base
from mailbox_appliance.tray.host import Look, OnClick, OnOpen
from mailbox_appliance.tray.icon import pixels
from mailbox_appliance.tray.rows import Action, Row

log = logging.getLogger(__name__)

NAME, TITLE = "mailbox-appliance", "Mailbox Appliance"
#: Characters; Windows takes no more.
_LONGEST_TITLE = 120
#: Clicks that are seen to at the same time; somebody who clicks on and on is not to start threads without end.
_CLICKS = 8
#: What a click on the icon itself does: the first of these that is there and can be clicked.
_DEFAULTS = (Action.OPEN_CONSOLE, Action.SET_UP)
_IMAGE = 64

#: Makes pystray's icon, from its name, image, title and menu.
Make = Callable[[str, Any, str, Any], Any]


def image(look: Look) -> Any:
    """The icon as most backends want it."""
    from PIL import Image

    return Image.frombytes("RGBA", (_IMAGE, _IMAGE), pixels(_IMAGE, look))


class PystrayIcon:
    """An icon of pystray's that shows rows of ours.

    `make` makes it, `picture` its image; `escaped` writes a label as the backend wants it, and `in_thread` calls a
    function in the thread in which what is seen may be changed.
    """

    def __init__(
        self,
        make: Make,
        picture: Callable[[Look], Any],
        on_click: OnClick,
        *,
        escaped: Callable[[str], str] = str,
        in_thread: Callable[[Callable[[], None]], Any] = lambda change: change(),
    ) -> None:
        self._picture, self._on_click = picture, on_click
        self._escaped, self._in_thread = escaped, in_thread
        self._free = threading.BoundedSemaphore(_CLICKS)
        self._showing = threading.Lock()
        self._is_stopped = False
        self._look, self._title, self._rows = Look.STOPPED, TITLE, tuple[Row, ...]()
        self._pystray = pystray_base.base()
        self._icon = make(NAME, picture(self._look), self._title, self._pystray.Menu())

    def run(self) -> None:
        """Show it until `stop`, or until what shows icons goes away for good."""
        self._icon.run(self._set_up)

    def stop(self) -> None:
        """Let `run` return, also where it has yet to begin."""
        self._is_stopped = True
        self._icon.stop()

    def show(self, look: Look, title: str, rows: Sequence[Row]) -> None:
        """What is seen from now on; where nothing is new, nothing is told to the desktop."""
        self._in_thread(lambda: self._show(look, f"{TITLE}: {title}"[:_LONGEST_TITLE], tuple(rows)))

    def notify(self, title: str, text: str) -> None:
        """Tell something for a moment. Nothing is raised where nobody shows it."""
        self._in_thread(lambda: self._notify(title, text))

    def _set_up(self, icon: Any) -> None:
        # Only from here on is what pystray has of a `stop` heard.
        icon.visible = not self._is_stopped
        if self._is_stopped:
            icon.stop()

    def _show(self, look: Look, title: str, rows: tuple[Row, ...]) -> None:
        with self._showing:
            if rows != self._rows:
                self._icon.menu = self._menu(rows)
            if title != self._title:
                self._icon.title = title
            if look is not self._look:
                self._icon.icon = self._picture(look)
            self._look, self._title, self._rows = look, title, rows

    def _notify(self, title: str, text: str) -> None:
        try:
            self._icon.notify(text, title)
        except Exception:  # every backend has its own ways not to be able to
            log.info("nobody shows notifications here", exc_info=True)

    def _menu(self, rows: tuple[Row, ...]) -> Any:
        can_be = {row.action for row in rows if row.enabled}
        default = next((action for action in _DEFAULTS if action in can_be), None)
        return self._pystray.Menu(*(self._item(row, default) for row in rows))

    def _item(self, row: Row, default: Action | None) -> Any:
        if row.is_separator:
            return self._pystray.Menu.SEPARATOR
        action, checked = row.action, row.checked
        item = self._pystray.MenuItem(
            self._escaped(row.label),
            self._menu(row.rows) if row.rows else lambda: self._on_click_of(action),
            checked=None if checked is None else lambda _: checked,
            default=action is not None and action is default,
            enabled=row.enabled and bool(row.action or row.rows),
        )
        # Which row it is, whatever its label says: our backend keeps its number by that.
        item.key = action.value if action else "told"
        return item

    def _on_click_of(self, action: Action | None) -> None:
        if action is None:
            return
        if self._free.acquire(blocking=False):
            threading.Thread(target=self._click, args=(action,), name=f"tray {action.value}", daemon=True).start()
        else:
            log.warning("too many clicks at once; this one is not heard", extra={"action": action.value})

    def _click(self, action: Action) -> None:
        try:
            self._on_click(action)
        except Exception:
            log.exception("a click could not be seen to", extra={"action": action.value})
        finally:
            self._free.release()


class Opening:
    """Calls `on_open` in a thread, one at a time: a desktop waits for no answer, and tells more than once."""

    def __init__(self, on_open: OnOpen) -> None:
        self._on_open = on_open
        self._busy = threading.Lock()

    def __call__(self) -> None:
        """The menu is about to open."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._open, name="tray opened", daemon=True).start()

    def _open(self) -> None:
        try:
            self._on_open()
        except Exception:
            log.exception("what is new could not be found out")
        finally:
            self._busy.release()
