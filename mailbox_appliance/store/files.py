"""Files of a data directory: crash-safe writing, free disk space, and errors of the disk and of SQLite."""

import os
from pathlib import Path
from typing import Final

from mailbox_appliance.errors import NotEnoughRoom
from mailbox_appliance.system.files import BINARY, replace_file, sync_folder
from mailbox_appliance.system.files import free_bytes as free_bytes

#: In a data directory, and in a backup of it.
DATABASE_FILE: Final = "mailbox.db"
KEY_FILE: Final = "encryption.key"
#: Where the appliance that serves a data directory says how it is reached.
RUN_FILE: Final = "run.json"


def write_private(file: Path, content: bytes) -> None:
    """Replace a file by new content, readable by its owner only, on the disk when this returns."""
    temporary = half_written_path(file)
    handle = open_private(temporary)
    try:
        with os.fdopen(handle, "wb") as stream:  # not os.write: on a disk that fills up it may write only a part
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        replace_file(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def open_private(file: Path) -> int:
    """Open a file to write it anew, with mode 0600 from its first moment. Returns a handle; raises OSError."""
    file.unlink(missing_ok=True)  # a crash may have left it, with whatever mode
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)


def half_written_path(file: Path) -> Path:
    """Where new content of a file lies until it is complete."""
    return file.with_name(f".{file.name}.new")


def remove_half_written(folder: Path) -> None:
    """Remove what `write_private` was writing in a folder when the process was killed."""
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def copy_private(source: Path, target: Path) -> None:
    """Replace a small file by a copy of another one, as `write_private` does."""
    write_private(target, source.read_bytes())


def unfinished_path(database: Path) -> Path:
    """Where the file lies that is to become this database, while it is being made."""
    return database.with_name(database.name + ".new")


def remove_database(file: Path) -> None:
    """Remove a database that was being made, and what SQLite made beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


# --- Disk space: how much is free, and how much a copy or a backup takes ---
#
# A backup is at first a copy of the database and then a file made of that copy, so it takes both for a moment.
# Whatever replaces the database has the old and the new one there at once.


MIB = 1 << 20
#: Beside what is known to be written: logs, journals, entries of folders.
_SPARE_ROOM = 16 * MIB
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def database_size(database: Path) -> int:
    """How much a database and its log take."""
    real = Path(os.path.realpath(database))
    files = (real.with_name(real.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def room_for_copy(database: Path) -> int:
    """How much room it takes to make a copy of a database beside it."""
    return database_size(database) + _SPARE_ROOM


def room_for_backup(database: Path) -> int:
    """How much room it takes to make a backup: the copy, and the file that is made of it."""
    return 2 * database_size(database) + _SPARE_ROOM


def require_room(folder: Path, needed: int) -> None:
    """Raise NotEnoughRoom where less than `needed` bytes are free on the disk of a folder."""
    free = free_bytes(folder)
    if free < needed:
        raise NotEnoughRoom(needed=format_size(needed), folder=folder, free=format_size(free))


def low_room_warning(database: Path, low_mib: int) -> str | None:
    """What is to be said of the room that is left, as a sentence: it is below `low_mib` MiB (0: never), or the next
    backup does not fit. None: there is nothing to be said.
    """
    free = free_bytes(database.parent)
    needed = room_for_backup(database)
    has_no_backup = f"the next backup takes {format_size(needed)} and will not fit" if free < needed else ""
    if free < low_mib * MIB:
        tail = f", and {has_no_backup}" if has_no_backup else ""
        return f"The disk of the store is almost full: {format_size(free)} are left{tail}. Make room on it."
    return (
        f"The disk of the store has {format_size(free)} left: {has_no_backup}. Make room on it."
        if has_no_backup
        else None
    )


def format_size(size: int) -> str:
    """A number of bytes for a person: `1.5 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
