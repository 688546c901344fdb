"""Room on the disk: how much is free, whether it is enough for what is to be done, and what is said where it is not.

A backup is at first a copy of the database and then a file made of that copy, so it takes both for a moment. Whatever
replaces the database has the old and the new one there at once.
"""

import os
from pathlib import Path

from mailbox_appliance.errors import NotEnoughRoom
from mailbox_appliance.system.files import free_bytes as free_bytes

MIB = 1 << 20
#: Beside what is known to be written: logs, journals, entries of folders.
_SPARE = 16 * MIB
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def bytes_on_disk(database: Path) -> int:
    """How much a database and its log take."""
    real = Path(os.path.realpath(database))
    files = (real.with_name(real.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def needed_for_copy(database: Path) -> int:
    """How much room it takes to make a copy of a database beside it."""
    return bytes_on_disk(database) + _SPARE


def needed_for_backup(database: Path) -> int:
    """How much room it takes to make a backup: the copy, and the file that is made of it."""
    return 2 * bytes_on_disk(database) + _SPARE


def require_room(folder: Path, needed: int) -> None:
    """Raise NotEnoughRoom where less than `needed` bytes are free on the disk of a folder."""
    free = free_bytes(folder)
    if free < needed:
        raise NotEnoughRoom(needed=written(needed), folder=folder, free=written(free))


def warning(database: Path, low_mib: int) -> str | None:
    """What is to be said of the room that is left, as a sentence: it is below `low_mib` MiB (0: never), or the next
    backup does not fit. None: there is nothing to be said.
    """
    free = free_bytes(database.parent)
    needed = needed_for_backup(database)
    has_no_backup = f"the next backup takes {written(needed)} and will not fit" if free < needed else ""
    if free < low_mib * MIB:
        tail = f", and {has_no_backup}" if has_no_backup else ""
        return f"The disk of the store is almost full: {written(free)} are left{tail}. Make room on it."
    return (
        f"The disk of the store has {written(free)} left: {has_no_backup}. Make room on it." if has_no_backup else None
    )


def written(size: int) -> str:
    """A number of bytes for a person: `1.5 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
