"""What an interface beside REST is to the matrix: ways to ask for operations, each standing for one REST call.

To add an interface: a class with these four things, and its name in `DOORS` of `test_matrix.py`.
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
    """An open interface. Its answers need not be verdicts of REST, but must follow from them."""

    def __init__(self, appliance: Appliance, folder: Path) -> None: ...

    def ask(self, way: Any, who: Credential, origin: Origin, aim: Aim) -> object:
        """What somebody is told who asks in this way; nothing is done."""

    def told(self, verdict: Verdict) -> object:
        """What the interface answers if REST gives this verdict."""

    def close(self) -> None:
        """Close it."""

    @staticmethod
    def ways() -> Sequence[Way]:
        """The table of the interface, written by hand."""

    @staticmethod
    def without_row() -> Iterable[str]:
        """What the interface offers without a row in the table, or a reason for having none."""
