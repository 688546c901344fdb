"""Replacing several files of a data directory at once: all of them, or none, whenever it stops.

    .next.making/   the new files, being made; thrown away by the next start
    .next/          complete and on the disk: from the rename to this name on they are the store's
                    moved into place one by one, again from the beginning after a crash

Restoring, compacting and changing the key give the database and its key file a new form together.
"""

import os
import shutil
from pathlib import Path

from mailbox_appliance.store.files import copy_private, sync_file, sync_folder

_MAKING, _READY = ".next.making", ".next"
_DATABASE, _KEY = "mailbox.db", "encryption.key"
#: What may be replaced, in this order. The key file is copied, so that it is here until the database has moved too; a
#: log of a database comes after it, since that of the one before is removed first.
_NAMES = (_KEY, "config.toml", "tls/cert.pem", "tls/key.pem", _DATABASE, _DATABASE + "-wal")


def begin(folder: Path) -> Path:
    """A new, empty folder for the files that are to replace those of the same names. Under the directory's lock."""
    discard(folder)
    making = folder / _MAKING
    making.mkdir(mode=0o700)
    return making


def discard(folder: Path) -> None:
    """Throw away what was being made."""
    if os.path.lexists(folder / _MAKING):
        shutil.rmtree(folder / _MAKING)


def decide(folder: Path) -> None:
    """From now on the new files are the store's, whatever happens; `finish` moves them into place.

    Nothing may have the database open any more.
    """
    making = folder / _MAKING
    for path in sorted(making.rglob("*"), reverse=True):
        sync_folder(path) if path.is_dir() else sync_file(path)
    sync_folder(making)
    making.rename(folder / _READY)
    sync_folder(folder)


def is_decided(folder: Path) -> bool:
    """Whether there are new files that wait to be moved into place."""
    return (folder / _READY).is_dir()


def finish(folder: Path, key_file: Path) -> bool:
    """Move into place what was decided, if anything was; and throw away what was not. Under the directory's lock.

    `key_file` is where the key lies, which may be elsewhere. Answers whether there was anything to move.
    """
    discard(folder)
    ready = folder / _READY
    if not ready.is_dir():
        return False
    for name in _NAMES:
        new, target = ready / name, key_file if name == _KEY else folder / name
        if os.path.lexists(new):
            _put(new, target)
    shutil.rmtree(ready)
    sync_folder(folder)
    return True


def _put(new: Path, target: Path) -> None:
    if new.name == _DATABASE:
        # The log of the database that is replaced would be written into the new one.
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    # The key file may be a link, or lie on another disk: it is written where it really is.
    if new.name == _KEY:
        copy_private(new, target.resolve())
        return
    new.rename(target)
    sync_folder(target.parent)
