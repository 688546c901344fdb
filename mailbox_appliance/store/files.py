"""Files of a data directory: crash-safe writing, free disk space, and the location of the HTTPS certificate.

It imports no database module: commands that only read the certificate's fingerprint use the standard library alone.
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

#: Names in a data directory, and in a backup of it.
DATABASE_FILE: Final = "mailbox.db"
KEY_FILE: Final = "encryption.key"
#: The file in which the appliance that serves a data directory records how to reach it.
RUN_FILE: Final = "run.json"


def write_private(file: Path, content: bytes) -> None:
    """Replace the content of a file atomically, with mode 0600. The content is on the disk when this returns."""
    temporary = half_written_path(file)
    handle = open_private(temporary)
    try:
        with os.fdopen(handle, "wb") as stream:  # Not os.write, which may write only a part on a disk that fills up.
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        replace_file(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def open_private(file: Path) -> int:
    """Create an empty file with mode 0600, replacing an existing one, and return its descriptor. Raises OSError."""
    file.unlink(missing_ok=True)  # A crash may have left it, with any mode.
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)


def half_written_path(file: Path) -> Path:
    """Return the path of the temporary file to which `write_private` writes before it replaces `file`."""
    return file.with_name(f".{file.name}.new")


def remove_half_written(folder: Path) -> None:
    """Remove the temporary files that `write_private` left in a folder when the process was killed."""
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def copy_private(source: Path, target: Path) -> None:
    """Copy a small file atomically to `target`, with mode 0600. The copy is on the disk when this returns."""
    write_private(target, source.read_bytes())


def unfinished_path(database: Path) -> Path:
    """Return the path at which a new database is created before it is renamed to `database`."""
    return database.with_name(database.name + ".new")


def remove_database(file: Path) -> None:
    """Remove an incomplete database file, with the files that SQLite created for it. Missing files are ignored."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


# --- Disk space: how much is free, and how much a copy or a backup needs ---
#
# A backup is first a copy of the database and then a file made from that copy, so it needs the space for both for a
# moment. A job that replaces the database needs the space for the old and the new one at once.


MIB = 1 << 20
#: Reserve beyond the known sizes, for logs, journals and directory entries.
_SPARE_ROOM = 16 * MIB
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def database_size(database: Path) -> int:
    """Return the size of a database file and its write-ahead log, in bytes."""
    real = Path(os.path.realpath(database))
    files = (real.with_name(real.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def room_for_copy(database: Path) -> int:
    """Return the free space that a second copy of a database on the same disk needs, in bytes, with a reserve."""
    return database_size(database) + _SPARE_ROOM


def room_for_backup(database: Path) -> int:
    """Return the free space that making a backup of a database needs, in bytes, with a reserve.

    It is twice the size of the database: a backup is made from a temporary copy.
    """
    return 2 * database_size(database) + _SPARE_ROOM


def require_room(folder: Path, needed: int) -> None:
    """Raise NotEnoughRoom if less than `needed` bytes are free on the disk of a folder."""
    free = free_bytes(folder)
    if free < needed:
        raise NotEnoughRoom(needed=format_size(needed), folder=folder, free=format_size(free))


def low_room_warning(database: Path, low_mib: int) -> str | None:
    """Return a warning if the disk of the store is almost full or the next backup does not fit; otherwise None.

    `low_mib`: the disk counts as almost full below this many MiB of free space; 0 turns this check off.
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
    """Format a number of bytes for people: `1.5 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"


# --- The appliance's own HTTPS certificate in the data directory; `tls/files.py` replaces it ---

T = TypeVar("T")
CERTIFICATE_FOLDER = "tls"
NEXT_CERTIFICATE_FOLDER = ".next"
CERTIFICATE_FILE = "cert.pem"
CERTIFICATE_KEY_FILE = "key.pem"
#: Names in a data directory, and in a backup of it.
CERTIFICATE_FILES: "tuple[SectionName, SectionName]" = ("tls/cert.pem", "tls/key.pem")
#: Attempts to read files that change while they are read.
_READ_TRIES = 5


def certificate_paths(tls: Path) -> tuple[Path, Path]:
    """Return the paths of the HTTPS certificate and its key in the folder `tls`, whether or not the files exist.

    A file of the next certificate takes precedence over the current one. If it exists in its subfolder, its path is
    returned.
    """
    certificate, key = (
        tls / NEXT_CERTIFICATE_FOLDER / name if os.path.lexists(tls / NEXT_CERTIFICATE_FOLDER / name) else tls / name
        for name in (CERTIFICATE_FILE, CERTIFICATE_KEY_FILE)
    )
    return certificate, key


def certificate_state(tls: Path) -> tuple[object, ...]:
    """Return a value that changes if the HTTPS certificate, its key or the target of a link changes."""
    return tuple(_path_state(path) for path in certificate_paths(tls))


def read_unchanged(tls: Path, look: Callable[[Path, Path], T], unless: type[Exception]) -> T:
    """Return the result of `look`, a function that reads the HTTPS certificate and its key while they may be replaced.

    `look` gets the paths of both files, which are in the folder `tls`. If the files changed during the call, it is
    called again, a few times at most. `unless`: the exception that `look` may raise because of such a change; it is
    raised to the caller only if the files did not change, or at the last attempt.
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
    """Whether a data directory has both an HTTPS certificate and its key, even if they cannot be read."""
    return all(os.path.lexists(path) for path in certificate_paths(folder / CERTIFICATE_FOLDER))


def read_certificate(folder: Path) -> "dict[SectionName, bytes]":
    """Return the content of the HTTPS certificate and its key in a data directory, by file name, such as
    `tls/cert.pem`.

    A file that does not exist is missing in the result. Raises OSError.
    """

    def read(*paths: Path) -> "dict[SectionName, bytes]":
        return {name: path.read_bytes() for name, path in zip(CERTIFICATE_FILES, paths, strict=True) if path.is_file()}

    return read_unchanged(folder / CERTIFICATE_FOLDER, read, OSError)


def discard_next_certificate(folder: Path) -> None:
    """Remove the certificate that was prepared as the next one in a data directory. Raises OSError.

    Call it before the current certificate is replaced: the prepared one would take precedence.
    """
    if os.path.lexists(begun := folder / CERTIFICATE_FOLDER / NEXT_CERTIFICATE_FOLDER):
        shutil.rmtree(begun)
        sync_folder(folder / CERTIFICATE_FOLDER)


def _path_state(path: Path) -> tuple[object, ...]:
    try:
        seen = path.stat()
    except OSError as error:
        return path, error.errno
    return path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
