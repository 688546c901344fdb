"""Files of a data directory: crash-safe writing, free disk space, and where the certificate of HTTPS lies.

Imports no database: commands read a fingerprint with the standard library alone.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from mailbox_appliance.errors import NotEnoughRoom
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.system.files import BINARY, replace_file, sync_folder
from mailbox_appliance.system.files import free_bytes as free_bytes

if TYPE_CHECKING:
    from mailbox_appliance.store.backup.container import SectionName

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
    left = OwnText(format_size(free))
    no_backup = OwnText(f"the next backup needs {format_size(needed)} and will not fit" if free < needed else "")
    if free < low_mib * MIB:
        tail = OwnText(f", and {no_backup}" if no_backup else "")
        text = "The disk of the store is almost full: {left} free{tail}. Free some space."
        return own_text(text, left=left, tail=tail)
    text = "The disk of the store has {left} free: {no_backup}. Free some space."
    return own_text(text, left=left, no_backup=no_backup) if no_backup else None


def format_size(size: int) -> str:
    """A number of bytes for a person: `1.5 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"


# --- Where HTTPS keeps its own certificate in the data directory; `tls/files.py` replaces it ---

T = TypeVar("T")
CERTIFICATE_FOLDER = "tls"
NEXT_CERTIFICATE_FOLDER = ".next"
CERTIFICATE_FILE = "cert.pem"
CERTIFICATE_KEY_FILE = "key.pem"
#: As they are named in a data directory, and in a backup of it.
CERTIFICATE_FILES: "tuple[SectionName, SectionName]" = ("tls/cert.pem", "tls/key.pem")
#: Files that change while they are looked at are looked at again, so often.
_READ_TRIES = 5


def certificate_paths(tls: Path) -> tuple[Path, Path]:
    """Where the certificate and the key lie now that count, each whether it is there or not."""
    certificate, key = (
        tls / NEXT_CERTIFICATE_FOLDER / name if os.path.lexists(tls / NEXT_CERTIFICATE_FOLDER / name) else tls / name
        for name in (CERTIFICATE_FILE, CERTIFICATE_KEY_FILE)
    )
    return certificate, key


def certificate_state(tls: Path) -> tuple[object, ...]:
    """Something that is another whenever one of the files, or what a link leads to, is another."""
    return tuple(_path_state(path) for path in certificate_paths(tls))


def read_unchanged(tls: Path, look: Callable[[Path, Path], T], unless: type[Exception]) -> T:
    """What `look` finds in the two files, with no change between the one and the other.

    Raises what it raises. `unless`: the files changed meanwhile; then it looks again.
    """
    tries_left = _READ_TRIES
    while True:
        before, tries_left = certificate_state(tls), tries_left - 1
        try:
            found = look(*certificate_paths(tls))
        except unless:
            if not tries_left or certificate_state(tls) == before:
                raise
        else:
            if not tries_left or certificate_state(tls) == before:
                return found


def has_certificate(folder: Path) -> bool:
    """Whether a data directory has both, readable or not."""
    return all(os.path.lexists(path) for path in certificate_paths(folder / CERTIFICATE_FOLDER))


def read_certificate(folder: Path) -> "dict[SectionName, bytes]":
    """The content of those that a data directory has. Raises OSError."""

    def read(*paths: Path) -> "dict[SectionName, bytes]":
        return {name: path.read_bytes() for name, path in zip(CERTIFICATE_FILES, paths, strict=True) if path.is_file()}

    return read_unchanged(folder / CERTIFICATE_FOLDER, read, OSError)


def discard_next_certificate(folder: Path) -> None:
    """Throw away what was begun to take their place, before others do: it would count. Raises OSError."""
    if os.path.lexists(begun := folder / CERTIFICATE_FOLDER / NEXT_CERTIFICATE_FOLDER):
        shutil.rmtree(begun)
        sync_folder(folder / CERTIFICATE_FOLDER)


def _path_state(path: Path) -> tuple[object, ...]:
    try:
        seen = path.stat()
    except OSError as error:
        return path, error.errno
    return path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
