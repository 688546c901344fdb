"""What a system starts for a user who logs in, as the tray knows it, whichever system keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LoginItem:
    """What stands there: a command, and whether it is started; a settings app can switch it off and leave it there."""

    command: tuple[str, ...]
    is_on: bool


class LoginItems(Protocol):
    """Where a system keeps ours, one for each user. What the system refuses is an OSError."""

    @property
    def location(self) -> str:
        """Where it lies, as a person would look for it."""

    def find(self) -> LoginItem | None:
        """Ours, if it is there and the system could read it."""

    def write(self, command: Sequence[str]) -> None:
        """Have this started from the next log-in on, whatever stood there and however it was switched off."""

    def remove(self) -> None:
        """Have nothing started; nothing there is as good."""
