"""The icon as the rest of the tray knows it, whichever desktop shows it: pystray's, or ours over D-Bus."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from mailbox_appliance.tray.rows import Action, Row

#: Called for each click, in a thread that may take its time.
OnClick = Callable[[Action], None]
#: Called before the menu opens, where the host tells of it.
OnOpen = Callable[[], None]


class Look(Enum):
    """How the icon looks."""

    WELL = "well"
    #: Somebody should see to something.
    ATTENTION = "attention"
    #: The appliance does not run.
    STOPPED = "stopped"


class NoTray(Exception):
    """There is nothing that would show an icon here; the text says why, as a sentence."""


class Icon(Protocol):
    """An icon with a menu. `run` owns the thread it is called in (the main one, on macOS); the others are for any."""

    def run(self) -> None:
        """Show it until `stop`, or until what shows icons here goes away for good."""

    def stop(self) -> None:
        """Let `run` return."""

    def show(self, look: Look, title: str, rows: Sequence[Row]) -> None:
        """What is seen from now on; `title` is what pointing at it tells."""

    def notify(self, title: str, text: str) -> None:
        """Tell something for a moment. Nothing is raised where nobody shows it."""
