"""Writing a small file so that a crash leaves the old one or the new one, never half of one."""

import os
from pathlib import Path
from typing import Final

from mailbox_appliance.system.files import BINARY, replace_file, sync_folder

#: In a data directory, and in a backup of it.
DATABASE: Final = "mailbox.db"
KEY: Final = "encryption.key"
#: Where the appliance that serves a data directory says how it is reached.
RUN_FILE: Final = "run.json"


def write_private(file: Path, content: bytes) -> None:
    """Replace a file by new content, readable by its owner only, on the disk when this returns."""
    temporary = half_written(file)
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


def half_written(file: Path) -> Path:
    """Where new content of a file lies until it is complete."""
    return file.with_name(f".{file.name}.new")


def remove_half_written(folder: Path) -> None:
    """Remove what `write_private` was writing in a folder when the process was killed."""
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def copy_private(source: Path, target: Path) -> None:
    """Replace a small file by a copy of another one, as `write_private` does."""
    write_private(target, source.read_bytes())


def unfinished(database: Path) -> Path:
    """Where the file lies that is to become this database, while it is being made."""
    return database.with_name(database.name + ".new")


def remove_database(file: Path) -> None:
    """Remove a database that was being made, and what SQLite made beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
