"""Stores of older formats."""

from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import StoreOlder
from mailbox_appliance.records import Progress
from mailbox_appliance.store.opening import format_of

#: The formats that can be upgraded.
OLDER = (3, 4)


def upgrade(folder: Path, key_file: Path, clock: Clock, progress: Progress | None = None) -> None:  # noqa: ARG001
    """Bring a store of format 3 or 4 to this one's."""
    file = folder / "mailbox.db"
    raise StoreOlder(file=file, format=format_of(file))
