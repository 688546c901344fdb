"""The backups of a data directory: made of the open store, listed, read again, and thinned."""

import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import apsw
import msgspec

from mailbox_appliance.clock import Clock, from_timestamp
from mailbox_appliance.errors import (
    BackupNotMade,
    BackupUnusable,
    BackupWrongPassphrase,
    KeyUnusable,
    ReplacedUnopened,
    StoreAtWork,
)
from mailbox_appliance.model.records import Backup, BackupReason, BackupSummary, Progress
from mailbox_appliance.store import own_certificate, retention, room
from mailbox_appliance.store.backup_content import summary_of
from mailbox_appliance.store.backup_files import (
    FOLDER,
    backups_of,
    bundle,
    hidden_name,
    is_full,
    no_room,
    remove_unfinished,
    telling_failures,
)
from mailbox_appliance.store.backup_listing import (
    NOTHING_KNOWN,
    Listing,
    Places,
    Stray,
    find_backup,
    list_backups,
    look,
    newest_first,
    strays,
)
from mailbox_appliance.store.container import Source, open_container
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import DATABASE, KEY
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key_slots import Slot, require_passphrase, wrap_file
from mailbox_appliance.store.keyfile import StoreKey, read_file, render
from mailbox_appliance.store.manifest import SectionName
from mailbox_appliance.store.online_copy import COPYING, OnlineCopier, look_over
from mailbox_appliance.store.opening import log_of

__all__ = ["Backups", "bundle", "find_backup", "list_backups", "remove_unfinished", "strays", "verify_file"]
log = logging.getLogger(__name__)

_CONFIG: SectionName = "config.toml"


class Backups:
    """Those of an open store."""

    def __init__(self, folder: Path, database: Database, key: StoreKey, key_file: Path, clock: Clock) -> None:
        self._folder, self._key, self._key_file, self._clock = folder, key, key_file, clock
        self._copier = OnlineCopier(folder / DATABASE, key, database)
        self._making = threading.Lock()
        self._stopping = threading.Event()
        self._bad: set[tuple[str, int, int]] = set()
        #: Of what was made, listed or found: a file that is overwritten does not tell its id any more.
        self._places: Places = NOTHING_KNOWN

    def create(self, reason: BackupReason, passphrase: str | None = None, progress: Progress | None = None) -> Backup:
        """Make a backup of the store as it is now, while it is in use, and read it back.

        With a passphrase it opens nowhere without it. Raises Invalid for one that is too short, StoreAtWork while
        another one is made, NotEnoughRoom, BackupNotMade; then nothing is left of it.
        """
        if passphrase is not None:
            require_passphrase(passphrase)
        if not self._making.acquire(blocking=False):
            raise StoreAtWork(what="A backup")
        try:
            return self._create(reason, passphrase, self._stop_when_closing(progress))
        finally:
            self._making.release()

    def list(self) -> tuple[Backup, ...]:
        """Those that are there, the newest first. One that was found bad since it was made is not `verified`."""
        return newest_first(
            msgspec.structs.replace(backup, verified=_state(file) not in self._bad)
            for file, backup in self._scan().backups
        )

    def list_unlisted(self) -> tuple[Stray, ...]:
        """The files among them that are not listed."""
        return self._scan().unlisted

    def find(self, backup_id: str) -> Path:
        """The file of a backup, also where it was overwritten since it was seen here. Raises NotFound."""
        file = find_backup(self._folder, backup_id, self._places)
        self._remember_places({backup_id: file})
        return file

    def verify(self, backup_id: str, passphrase: str | None = None, progress: Progress | None = None) -> BackupSummary:
        """Read all of a backup and check the database in it. Raises NotFound, BackupUnusable, NotEnoughRoom."""
        file = self.find(backup_id)
        state = _state(file)
        try:
            summary = verify_file(file, passphrase, self._key, self._stop_when_closing(progress), file.parent)
        except BackupWrongPassphrase:
            raise
        except (BackupUnusable, ReplacedUnopened):
            self._bad.add(state)
            raise
        self._bad.discard(state)
        return summary

    def prune(self, now: datetime, daily: int, weekly: int) -> tuple[Backup, ...]:
        """Remove the daily backups beyond the newest of so many days and weeks; answers which.

        One that was found bad stays to be looked at, and takes nobody's place.
        """
        daily_ones = (one for one in self.list() if one.reason == "daily" and one.verified)
        made = {from_timestamp(one.created_at): one for one in daily_ones}
        gone = [made[moment] for moment in retention.superfluous(made, now, days=daily, weeks=weekly)]
        for backup in gone:
            (self._folder / FOLDER / backup.file_name).unlink(missing_ok=True)
            log.info("an old daily backup was removed", extra={"backup": backup.id, "made": backup.created_at})
        return tuple(gone)

    def stop(self, within: float = 5.0) -> None:
        """Have whatever is under way end soon, and wait for it so many seconds. Nothing is made afterwards."""
        self._stopping.set()
        if self._making.acquire(timeout=within):
            self._making.release()

    def close(self) -> None:
        """Let go of the database's file, after its last connection was closed."""
        self._copier.close()

    def _scan(self) -> Listing:
        found = look(self._folder, self._places)
        self._remember_places({backup.id: file for file, backup in found.backups})
        return found

    def _remember_places(self, places: Places) -> None:
        """Where these lie; what is not there any more is forgotten."""
        kept = {each: file for each, file in self._places.items() if os.path.lexists(file)}
        self._places = {**kept, **places}

    def _create(self, reason: BackupReason, passphrase: str | None, progress: Progress) -> Backup:
        progress(COPYING, 0, 1)
        backups = backups_of(self._folder)
        key, slots = self._key_and_slots()
        with telling_failures(backups):
            room.require_room(backups, room.needed_for_backup(self._folder / DATABASE))
        copy, began = hidden_name(backups), time.perf_counter()
        try:
            with telling_failures(backups):
                self._copier.copy(copy, progress)
                copied = time.perf_counter()
                audit = look_over(copy, self._key, progress)
                looked = time.perf_counter()
                sources = _sources(self._folder, copy, key, slots)
            with (
                bundle(
                    self._folder,
                    reason,
                    sources,
                    key,
                    slots,
                    format_5.NUMBER,
                    self._clock,
                    progress,
                    passphrase=passphrase,
                    audit=audit,
                ) as made,
                telling_failures(backups),
            ):
                file = made.publish()
        finally:
            for left in (copy, log_of(copy), copy.with_name(copy.name + "-shm")):
                left.unlink(missing_ok=True)
        self._remember_places({made.manifest.id: file})
        backup = made.manifest.to_backup(file.name, verified=True)
        seconds = {"copy": copied - began, "check": looked - copied, **made.seconds}
        times = {f"{step}_ms": round(took * 1000) for step, took in seconds.items()}
        log.info("a backup was made", extra={"backup": backup.id, "reason": reason, "size": backup.size_bytes, **times})
        return backup

    def _key_and_slots(self) -> tuple[StoreKey, tuple[Slot, ...]]:
        """The store's key as its file has it now, and the slots it lies in."""
        try:
            there = read_file(self._key_file)
        except (KeyUnusable, OSError) as error:
            raise BackupNotMade(reason=f"the key file {self._key_file} cannot be read.") from error
        if there is None:
            return self._key, (wrap_file(self._key.master),)
        key = there.find_key(self._key.master)
        if key is None:
            raise BackupNotMade(reason=f"the key in {self._key_file} is not the one that the store was opened with.")
        return replace(key, cipher=self._key.cipher), there.slots

    def _stop_when_closing(self, progress: Progress | None) -> Progress:
        """What is told of the progress; it ends the work once the store is to be closed."""

        def tell(what: str, done: int, total: int) -> None:
            if self._stopping.is_set():
                raise BackupNotMade(reason="the appliance is being stopped.")
            if progress is not None:
                progress(what, done, total)

        return tell


def verify_file(
    file: Path,
    passphrase: str | None = None,
    key: StoreKey | None = None,
    progress: Progress | None = None,
    scratch: Path | None = None,
) -> BackupSummary:
    """Read all of a backup, wherever it lies, and check the database in it.

    `key` is that of the store that it may be of. It is unpacked into `scratch`, encrypted as it is, else beside the
    file where one can write there. Raises BackupUnusable, NotEnoughRoom.
    """
    container = open_container(file, passphrase=passphrase, key=key)
    with _scratch(file, scratch) as folder:
        try:
            return summary_of(container, folder, progress)
        except (OSError, apsw.FullError) as error:
            if is_full(error):
                raise no_room(folder) from error
            raise BackupUnusable(reason=f"{file.name} cannot be unpacked in {folder} ({error}).") from error


@contextmanager
def _scratch(file: Path, scratch: Path | None) -> Iterator[Path]:
    if scratch is not None or os.access(file.parent, os.W_OK):
        yield scratch or file.parent
        return
    folder = Path(tempfile.mkdtemp(prefix="mailbox-appliance-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _sources(folder: Path, copy: Path, key: StoreKey, slots: tuple[Slot, ...]) -> list[Source]:
    """The sections: the copy, a key file that knows how the copy begins, and what lies beside."""
    with copy.open("rb") as handle:
        salt = handle.read(16).hex()
    config = {_CONFIG: (folder / _CONFIG).read_bytes()} if (folder / _CONFIG).is_file() else {}
    beside = [Source(name, content) for name, content in (config | own_certificate.contents(folder)).items()]
    return [Source(DATABASE, copy), Source(KEY, render(key.with_salt(salt), slots)), *beside]


def _state(file: Path) -> tuple[str, int, int]:
    try:
        there = file.stat()
    except OSError:  # it has gone meanwhile
        return file.name, 0, -1
    return file.name, there.st_mtime_ns, there.st_size
