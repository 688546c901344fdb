"""Where HTTPS keeps its own certificate in the data directory, and what of it belongs into a backup.

`tls/files.py` replaces them: what lies in `tls/.next` counts, and is moved into place from there. Imports no database,
since commands read a fingerprint with the standard library alone.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mailbox_appliance.system.files import sync_folder

if TYPE_CHECKING:
    from mailbox_appliance.store.backup.container import SectionName

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
