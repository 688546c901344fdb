"""What the tray shows, independent of the desktop: the icon, its looks, and the rows of the menu."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Action(Enum):
    """The effect of a click."""

    OPEN_CONSOLE = "open-console"
    SET_UP = "set-up"
    COPY_SETUP_CODE = "copy-setup-code"
    LOG_IN = "log-in"
    #: Ask the keychain again.
    UNLOCK = "unlock"
    SHOW_MAILBOXES = "show-mailboxes"
    SHOW_UNCERTAIN = "show-uncertain"
    BACK_UP = "back-up"
    RESTORE = "restore"
    SWITCH_HTTPS = "switch-https"
    COPY_FINGERPRINT = "copy-fingerprint"
    SWITCH_START_AT_LOGIN = "switch-start-at-login"
    OPEN_LOGS = "open-logs"
    START = "start"
    #: No click: the service that was started here has crashed.
    RESTART = "restart"
    STOP = "stop"
    QUIT = "quit"


@dataclass(frozen=True)
class MenuRow:
    """One row of the menu. Without an action it only informs; with rows below it opens a submenu."""

    label: str
    action: Action | None = None
    enabled: bool = True
    #: None: no check box.
    checked: bool | None = None
    rows: tuple["MenuRow", ...] = field(default=())
    is_separator: bool = False


SEPARATOR = MenuRow("", is_separator=True)


# --- The icon, whichever desktop shows it: pystray's, or ours over D-Bus ---


#: Called for each click, in a thread that may take its time.
OnClick = Callable[[Action], None]
#: Called before the menu opens, if the desktop announces that.
OnOpen = Callable[[], None]


class IconLook(Enum):
    """How the icon looks."""

    WELL = "well"
    #: Something needs attention.
    ATTENTION = "attention"
    #: The appliance does not run.
    STOPPED = "stopped"


class NoTrayHost(Exception):
    """Nothing here would show an icon; the text says why, as a sentence."""


class Icon(Protocol):
    """An icon with a menu. `run` blocks its thread (on macOS, the main one); any thread may call the others."""

    def run(self) -> None:
        """Show it until `stop`, or until what shows icons is gone."""

    def stop(self) -> None:
        """Let `run` return."""

    def show(self, look: IconLook, title: str, rows: Sequence[MenuRow]) -> None:
        """Show this from now on; `title` is the tooltip."""

    def notify(self, title: str, text: str) -> None:
        """Show a notice. Raises nothing if nobody shows it."""
