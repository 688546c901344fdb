"""Where the certificate of HTTPS and its key lie, for who keeps them in a backup or brings them back from one.

`certificates/files` replaces them, and says how: what lies in `tls/.next` counts, and is moved into place from there.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mailbox_appliance.system.files import sync_folder

if TYPE_CHECKING:
    from mailbox_appliance.store.manifest import SectionName

T = TypeVar("T")

FOLDER, NEXT = "tls", ".next"
CERTIFICATE, KEY = "cert.pem", "key.pem"
#: As they are named in a data directory, and in a backup of it.
NAMES: "tuple[SectionName, SectionName]" = ("tls/cert.pem", "tls/key.pem")
#: Files that change while they are looked at are looked at again, so often.
_TRIES = 5


def places(tls: Path) -> tuple[Path, Path]:
    """Where the certificate and the key lie now that count, each whether it is there or not."""
    certificate, key = (
        tls / NEXT / name if os.path.lexists(tls / NEXT / name) else tls / name for name in (CERTIFICATE, KEY)
    )
    return certificate, key


def state(tls: Path) -> tuple[object, ...]:
    """Something that is another whenever one of the files, or what a link leads to, is another."""
    return tuple(_state(path) for path in places(tls))


def steadily(tls: Path, look: Callable[[Path, Path], T], unless: type[Exception]) -> T:
    """What `look` finds in the two files, with no change between the one and the other.

    Raises what it raises. `unless`: the files changed meanwhile; then it looks again.
    """
    tries_left = _TRIES
    while True:
        before, tries_left = state(tls), tries_left - 1
        try:
            found = look(*places(tls))
        except unless:
            if not tries_left or state(tls) == before:
                raise
        else:
            if not tries_left or state(tls) == before:
                return found


def is_whole(folder: Path) -> bool:
    """Whether a data directory has both, readable or not."""
    return all(os.path.lexists(path) for path in places(folder / FOLDER))


def contents(folder: Path) -> "dict[SectionName, bytes]":
    """The content of those that a data directory has. Raises OSError."""

    def read(*paths: Path) -> "dict[SectionName, bytes]":
        return {name: path.read_bytes() for name, path in zip(NAMES, paths, strict=True) if path.is_file()}

    return steadily(folder / FOLDER, read, OSError)


def forget_begun(folder: Path) -> None:
    """Throw away what was begun to take their place, before others do: it would count. Raises OSError."""
    if os.path.lexists(begun := folder / FOLDER / NEXT):
        shutil.rmtree(begun)
        sync_folder(folder / FOLDER)


def _state(path: Path) -> tuple[object, ...]:
    try:
        seen = path.stat()
    except OSError as error:
        return path, error.errno
    return path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
