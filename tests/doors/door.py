"""What a door beside REST is to the matrix: ways to ask for operations, each standing for one REST call.

To add a door: a class with these four things, and its name in `DOORS` of `test_matrix.py`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from mailbox_appliance.appliance import Appliance
from tests.doors.people import Aim, Credential, Origin
from tests.doors.verdicts import Verdict


class Way(Protocol):
    """A command or a tool: its name, the REST call that it stands for, and the bulk action where it is one."""

    @property
    def name(self) -> str: ...

    @property
    def call(self) -> str: ...

    @property
    def action(self) -> str | None: ...


class Door(Protocol):
    """A door that is open. What it tells need not be a verdict of REST, but must follow from one."""

    def __init__(self, appliance: Appliance, folder: Path) -> None: ...

    def ask(self, way: Any, who: Credential, origin: Origin, aim: Aim) -> object:
        """What somebody is told who asks in this way; nothing is done."""

    def told(self, verdict: Verdict) -> object:
        """What the door tells where REST gives this verdict."""

    def close(self) -> None:
        """Close it."""

    @staticmethod
    def ways() -> Sequence[Way]:
        """The table of the door, written by hand."""

    @staticmethod
    def without_row() -> Iterable[str]:
        """What the door offers and has no row for, nor a reason for having none."""
