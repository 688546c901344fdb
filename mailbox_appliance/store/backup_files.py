"""The folder `backups/`: what lies in it, and how a file comes to be there whole or not at all.

backups/20260131T020000Z-daily.mbxbackup        a backup, found good when it was made
backups/.making-...                             being made, or what a crash left of it; removed by the next start
"""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import BackupNotMade, NotEnoughRoom
from mailbox_appliance.model.records import BackupReason, Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.container import Facts, Source, open_container, write_container
from mailbox_appliance.store.key_slots import Slot
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.manifest import AuditEnd, Manifest
from mailbox_appliance.system.files import replace_file, sync_folder

FOLDER, SUFFIX, HIDDEN = "backups", ".mbxbackup", ".making-"
#: Left free beside what a backup takes.
SPARE = 16 * room.MIB
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Bundle:
    """A backup that is written and was read back; nobody sees it before `keep`."""

    def __init__(
        self, hidden: Path, folder: Path, named_for: datetime, manifest: Manifest, seconds: dict[str, float]
    ) -> None:
        self.manifest = manifest
        #: What the steps took: encrypt, verify.
        self.seconds = seconds
        self._hidden, self._folder, self._named_for = hidden, folder, named_for

    def publish(self) -> Path:
        """Give it its name; from now on, and after a power cut, it is there."""
        target = _free_name(self._folder, self._named_for, self.manifest.reason)
        replace_file(self._hidden, target)
        sync_folder(self._folder)
        return target


@contextmanager
def bundle(
    folder: Path,
    reason: BackupReason,
    sources: Sequence[Source],
    key: StoreKey,
    slots: Sequence[Slot],
    format: int,  # noqa: A002 - as in the manifest
    clock: Clock,
    progress: Progress | None = None,
    *,
    passphrase: str | None = None,
    audit: AuditEnd | None = None,
) -> Iterator[Bundle]:
    """A backup of these files of a data directory, written and read back; where it is not kept, nothing is left of it.

    Raises NotEnoughRoom and BackupNotMade.
    """
    backups, now = backups_of(folder), clock.now()
    with telling_failures(backups):
        room.require_room(backups, sum(_size(source) for source in sources) + SPARE)
    hidden = hidden_name(backups)
    try:
        with telling_failures(backups):
            facts = Facts(reason, to_timestamp(now), format, audit)
            began = time.perf_counter()
            manifest = write_container(hidden, facts, sources, key, slots, passphrase=passphrase, progress=progress)
            written = time.perf_counter()
            open_container(hidden, passphrase=passphrase, key=key).check(progress)
            seconds = {"encrypt": written - began, "verify": time.perf_counter() - written}
        yield Bundle(hidden, backups, now, manifest, seconds)
    finally:
        hidden.unlink(missing_ok=True)


def backups_of(folder: Path) -> Path:
    """The folder for the backups of a data directory, made where there is none. Raises BackupNotMade."""
    backups = folder / FOLDER
    with telling_failures(backups):
        if not backups.is_dir():
            backups.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder)  # else a power cut may take all of them with it
    return backups


@contextmanager
def telling_failures(backups: Path) -> Iterator[None]:
    """What the disk or SQLite refuses is told as NotEnoughRoom or BackupNotMade."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise no_room(backups) from error
        raise BackupNotMade(reason=f"{error.filename or backups}: {error.strerror}.") from error
    except apsw.Error as error:
        if is_full(error):
            raise no_room(backups) from error
        raise BackupNotMade(reason=f"the database cannot be copied ({error}).") from error


def is_full(error: Exception) -> bool:
    """Whether what failed is that the disk is full."""
    return isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in _FULL)


def no_room(folder: Path) -> NotEnoughRoom:
    """What is to be told then."""
    return NotEnoughRoom(needed="more", folder=folder, free=f"only {room.written(room.free_bytes(folder))}")


def remove_unfinished(folder: Path) -> None:
    """Throw away what was being made when we were stopped. Under the directory's lock.

    Where that is refused, it stays: it is not why a store should not be opened.
    """
    for left in (folder / FOLDER).glob(f"{HIDDEN}*"):
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def hidden_name(backups: Path) -> Path:
    """A new name for what nobody is to take for a backup."""
    return backups / f"{HIDDEN}{secrets.token_hex(8)}"


def _free_name(folder: Path, moment: datetime, reason: BackupReason) -> Path:
    """The name of a backup of that moment; a second later where there is one of it already."""
    while True:
        file = folder / f"{moment:%Y%m%dT%H%M%SZ}-{reason}{SUFFIX}"
        if not os.path.lexists(file):
            return file
        moment += timedelta(seconds=1)


def _size(source: Source) -> int:
    return len(source.content) if isinstance(source.content, bytes) else source.content.stat().st_size
