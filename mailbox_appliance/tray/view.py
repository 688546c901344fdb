"""Types for the tray, independent of the desktop: the icon and its looks, menu rows, and their actions."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Protocol


class Action(Enum):
    """The action that a click on a menu row starts."""

    OPEN_CONSOLE = "open-console"
    SET_UP = "set-up"
    COPY_SETUP_CODE = "copy-setup-code"
    LOG_IN = "log-in"
    #: Try the keychain again.
    UNLOCK = "unlock"
    SHOW_MAILBOXES = "show-mailboxes"
    SHOW_UNCERTAIN = "show-uncertain"
    SHOW_APPROVALS = "show-approvals"
    BACK_UP = "back-up"
    RESTORE = "restore"
    SWITCH_HTTPS = "switch-https"
    COPY_FINGERPRINT = "copy-fingerprint"
    SWITCH_START_AT_LOGIN = "switch-start-at-login"
    OPEN_LOGS = "open-logs"
    START = "start"
    #: Not a click: the service that was started here has crashed.
    RESTART = "restart"
    STOP = "stop"
    QUIT = "quit"


@dataclass(frozen=True)
class MenuRow:
    """One row of the menu. Without an action it only shows its label."""

    label: str
    action: Action | None = None
    enabled: bool = True
    #: None: no check box.
    checked: bool | None = None
    is_separator: bool = False


SEPARATOR = MenuRow("", is_separator=True)
#: A click on the icon itself runs the first of these actions that is enabled.
_DEFAULTS = (Action.OPEN_CONSOLE, Action.SET_UP)


def default_action(rows: Sequence[MenuRow]) -> Action | None:
    """Return the action of a click on the icon itself; None if that only opens the menu."""
    enabled = {row.action for row in rows if row.enabled}
    return next((action for action in _DEFAULTS if action in enabled), None)


# --- The icon on any desktop: over D-Bus on Linux, pystray's on Windows and macOS ---


NAME, TITLE = "mailbox-appliance", "Mailbox Appliance"
#: Called for each click. Does not block.
OnClick = Callable[[Action], None]
#: Called before the menu opens, if the desktop announces that. Does not block.
OnOpen = Callable[[], None]


class IconLook(Enum):
    """The look of the icon: normal, with a dot for attention, or gray."""

    WELL = "well"
    #: Something needs attention.
    ATTENTION = "attention"
    #: The appliance is not running.
    STOPPED = "stopped"


#: Sizes of the icon in pixels, up to those for high-resolution screens.
ICON_SIZES = (16, 22, 24, 32, 48, 64)


@cache
def icon_pixels(size: int, look: IconLook) -> bytes:
    """Return the icon as RGBA pixels (not premultiplied): `size` rows of `size` pixels. `size`: one of ICON_SIZES."""
    picture = (files("mailbox_appliance.tray") / "icons" / f"{look.value}-{size}.png").read_bytes()
    # As packaging/icons/draw writes them: one block of data, and a zero before each row.
    begin = picture.index(b"IDAT") + 4
    rows = zlib.decompress(picture[begin : begin + int.from_bytes(picture[begin - 8 : begin - 4])])
    step = 4 * size + 1
    return b"".join(rows[at + 1 : at + step] for at in range(0, len(rows), step))


class NoTrayHost(Exception):
    """This desktop has no program that shows tray icons. The text is a sentence with the reason."""


class Icon(Protocol):
    """A tray icon with a menu, as a protocol that each desktop's icon implements.

    `run` blocks its thread (on macOS, the main one); any thread may call the other methods.
    """

    def run(self) -> None:
        """Show the icon until `stop` is called, or until the desktop shows no icons any more."""

    def stop(self) -> None:
        """Make `run` return."""

    def show(self, look: IconLook, title: str, rows: Sequence[MenuRow]) -> None:
        """Show this look, title (the tooltip) and menu from now on."""

    def notify(self, title: str, text: str) -> None:
        """Show a desktop notification. Never raises, even if no program shows it."""
