"""Backups of a data directory: created from the open store, listed, verified and pruned.

Listing reads only the unencrypted beginning of each file. Age decides how many daily backups are kept (ISO 8601, UTC).
The HTTPS certificate and its key are part of a backup.
"""

import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from mailbox_appliance.clock import Clock, from_timestamp
from mailbox_appliance.errors import (
    BackupNotMade,
    BackupUnusable,
    BackupWrongPassphrase,
    KeyUnusable,
    NotFound,
    ReplacedUnopened,
    StoreAtWork,
)
from mailbox_appliance.model.backups import Backup, BackupReason, BackupSummary, Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.backup.container import (
    Manifest,
    SectionName,
    SectionSource,
    find_backup_id,
    open_container,
    read_manifest,
)
from mailbox_appliance.store.backup.files import (
    BACKUP_SUFFIX,
    BACKUPS_FOLDER,
    COPYING,
    HIDDEN_PREFIX,
    OnlineCopier,
    check_copy,
    failures_as_backup_errors,
    is_disk_full,
    make_backups_folder,
    new_hidden_path,
    not_enough_room,
    stage_backup,
)
from mailbox_appliance.store.backup.verify import summarize_backup
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, read_certificate
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import Slot, StoreKey, read_key_file, render_key_file, require_passphrase, wrap_in_file
from mailbox_appliance.store.open_file import wal_path

log = logging.getLogger(__name__)

# --- Listing ---
#
# Each backup is listed once. Of several copies the listed one is that in its known file, otherwise one with its
# original name, otherwise the first by name; a link only if there is nothing else. All other files are reported as
# unlisted: files that are not complete backups, copies, and names that cannot be shown.


#: The known files of backups, by ID.
KnownPlaces = Mapping[str, Path]
NO_KNOWN_PLACES: KnownPlaces = {}
_BACKUP_NAME = re.compile(rf"(\d{{8}}T\d{{6}}Z)-(.+){re.escape(BACKUP_SUFFIX)}")


@dataclass(frozen=True)
class UnlistedFile:
    """A file in `backups` that is not listed, with its name in printable form: not a complete backup, a copy of another
    one, or a name that is not valid UTF-8.
    """

    name: str
    why: Literal["unusable", "copy", "name"]
    copy_of: str = ""


@dataclass(frozen=True)
class BackupListing:
    """The backups of a data directory by their file names, and the unlisted files beside them."""

    backups: tuple[tuple[Path, Backup], ...]
    unlisted: tuple[UnlistedFile, ...]


def scan_backups(folder: Path, known: KnownPlaces = NO_KNOWN_PLACES) -> BackupListing:
    """Return the content of the folder `backups` of a data directory."""
    found: dict[str, list[tuple[Path, Manifest]]] = {}
    strays: list[UnlistedFile] = []
    for file in _backup_files(folder):
        if not _is_utf_8(file.name):
            strays.append(UnlistedFile(_printable_name(file.name), "name"))
            continue
        try:
            manifest = read_manifest(file)
        except BackupUnusable:
            strays.append(UnlistedFile(_printable_name(file.name), "unusable"))
            continue
        found.setdefault(manifest.id, []).append((file, manifest))
    listed: list[tuple[Path, Backup]] = []
    for backup_id, copies in found.items():
        (file, manifest), *others = sorted(copies, key=partial(_rank_copy, known.get(backup_id)))
        listed.append((file, manifest.to_backup(file.name, verified=True)))
        strays += (UnlistedFile(_printable_name(other.name), "copy", _printable_name(file.name)) for other, _ in others)
    return BackupListing(tuple(listed), tuple(sorted(strays, key=lambda one: one.name)))


def list_backups(folder: Path) -> tuple[Backup, ...]:
    """Return the backups of a data directory, newest first."""
    return sort_newest_first(backup for _, backup in scan_backups(folder).backups)


def list_unlisted(folder: Path) -> tuple[UnlistedFile, ...]:
    """Return the unlisted files there, ordered by name."""
    return scan_backups(folder).unlisted


def find_backup(folder: Path, backup_id: str, known: KnownPlaces = NO_KNOWN_PLACES) -> Path:
    """Return the file of a listed or damaged backup. Its ID is read from the file, or known from an earlier listing.

    Raises NotFound.
    """
    whole = (file for file, backup in scan_backups(folder, known).backups if backup.id == backup_id)
    damaged = (file for file in _backup_files(folder) if _is_utf_8(file.name) and find_backup_id(file) == backup_id)
    found = next(chain(whole, damaged), known.get(backup_id))
    if found is None or not os.path.lexists(found) or _has_other_id(found, backup_id):
        raise NotFound(what="backup")
    return found


def sort_newest_first(found: Iterator[Backup]) -> tuple[Backup, ...]:
    """Return backups in the order in which they are shown."""
    return tuple(sorted(found, key=lambda one: (one.created_at, one.id), reverse=True))


def _rank_copy(known: Path | None, copy: tuple[Path, Manifest]) -> tuple[bool, bool, bool, str]:
    """Return the sort key of a copy; of several copies, the lowest is listed."""
    file, manifest = copy
    return file != known, file.is_symlink(), not _is_original_name(file.name, manifest), file.name


def _is_original_name(name: str, manifest: Manifest) -> bool:
    """Whether a backup may have been created with this name (`stage_backup`), which holds its second or one soon
    after.
    """
    given = _BACKUP_NAME.fullmatch(name)
    made = re.sub(r"[-:]|\.\d+", "", manifest.created_at)
    return given is not None and given[2] == manifest.reason and given[1] >= made


def _has_other_id(file: Path, backup_id: str) -> bool:
    """Whether the file now is a complete backup with another ID."""
    with suppress(BackupUnusable):
        return read_manifest(file).id != backup_id
    return False


def _backup_files(folder: Path) -> list[Path]:
    try:
        found = list((folder / BACKUPS_FOLDER).iterdir())
    except OSError:  # There is none yet, or it is not readable, which making a backup reports.
        return []
    return sorted(
        file for file in found if file.name.endswith(BACKUP_SUFFIX) and not file.name.startswith(HIDDEN_PREFIX)
    )


def _is_utf_8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # Bytes of another encoding, which Python keeps as lone surrogates (PEP 383).
        return False
    return True


def _printable_name(name: str) -> str:
    """Return a file name without characters that are ambiguous or that control a terminal."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


# --- Retention of daily backups: the newest of each of some days, and of each of some weeks (ISO 8601, UTC) ---
#
# Only days and weeks with a backup count, so a machine that was off for a month keeps as many as any other.


#: A clock may be corrected by a little at any time.
_CLOCK_TOLERANCE = timedelta(minutes=5)


def select_superfluous(made: Collection[datetime], now: datetime, *, days: int, weeks: int) -> set[datetime]:
    """Return the moments whose backups may be removed.

    A moment in the future is kept without counting: the clock was wrong then, or is wrong now.
    """
    past = sorted((moment for moment in made if not is_in_future(moment, now)), reverse=True)
    kept = {*_newest_of_each(past, days, _day_of), *_newest_of_each(past, weeks, _week_of)}
    return set(past) - kept


def is_in_future(moment: datetime, now: datetime) -> bool:
    """Whether a moment lies in the future, so that the clock was wrong then or is wrong now."""
    return moment > now + _CLOCK_TOLERANCE


def _newest_of_each(moments: Iterable[datetime], count: int, period: Callable[[datetime], Hashable]) -> list[datetime]:
    """Return the newest moment of each of the latest `count` periods; `moments` are sorted newest first."""
    newest: dict[Hashable, datetime] = {}
    for moment in moments:
        newest.setdefault(period(moment), moment)
    return list(newest.values())[:count]


def _day_of(moment: datetime) -> Hashable:
    return moment.astimezone(UTC).date()


def _week_of(moment: datetime) -> Hashable:
    return moment.astimezone(UTC).isocalendar()[:2]


_CONFIG: SectionName = "config.toml"


class Backups:
    """The backups of an open store."""

    def __init__(self, folder: Path, database: Database, key: StoreKey, key_file: Path, clock: Clock) -> None:
        self._folder, self._key, self._key_file, self._clock = folder, key, key_file, clock
        self._copier = OnlineCopier(folder / DATABASE_FILE, key, database)
        self._making = threading.Lock()
        self._stopping = threading.Event()
        self._bad: set[tuple[str, int, int]] = set()
        #: The files of backups made, listed or found: a file that was overwritten no longer shows its ID.
        self._places: KnownPlaces = NO_KNOWN_PLACES

    def create(self, reason: BackupReason, passphrase: str | None = None, progress: Progress | None = None) -> Backup:
        """Make a backup of the current store, while it is in use, and read it back.

        With a passphrase, the backup cannot be opened without it. Raises Invalid for an invalid passphrase, StoreAtWork
        while another job runs, NotEnoughRoom, BackupNotMade; then no file is left.
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
        """Return the backups, newest first. One that was found damaged since it was made is not `verified`."""
        return sort_newest_first(
            msgspec.structs.replace(backup, verified=_file_state(file) not in self._bad)
            for file, backup in self._scan().backups
        )

    def list_unlisted(self) -> tuple[UnlistedFile, ...]:
        """Return the files in the folder that are not listed."""
        return self._scan().unlisted

    def find(self, backup_id: str) -> Path:
        """Return the file of a backup, even if it was overwritten since it was listed. Raises NotFound."""
        file = find_backup(self._folder, backup_id, self._places)
        self._remember_places({backup_id: file})
        return file

    def verify(self, backup_id: str, passphrase: str | None = None, progress: Progress | None = None) -> BackupSummary:
        """Read a whole backup and check the database in it. Raises NotFound, BackupUnusable, NotEnoughRoom."""
        file = self.find(backup_id)
        state = _file_state(file)
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
        """Remove the daily backups except the newest of so many days and weeks, and return those removed.

        A backup that was found damaged is kept for inspection, without counting.
        """
        daily_ones = (one for one in self.list() if one.reason == "daily" and one.verified)
        made = {from_timestamp(one.created_at): one for one in daily_ones}
        gone = [made[moment] for moment in select_superfluous(made, now, days=daily, weeks=weekly)]
        for backup in gone:
            (self._folder / BACKUPS_FOLDER / backup.file_name).unlink(missing_ok=True)
            log.info("daily_backup_removed", extra={"backup": backup.id, "made": backup.created_at})
        return tuple(gone)

    def stop(self, within: float = 5.0) -> None:
        """Ask a running job to end, and wait for it up to `within` seconds. No backup can be made afterwards."""
        self._stopping.set()
        if self._making.acquire(timeout=within):
            self._making.release()

    def close(self) -> None:
        """Close the database's file, after its last connection was closed."""
        self._copier.close()

    def _scan(self) -> BackupListing:
        found = scan_backups(self._folder, self._places)
        self._remember_places({backup.id: file for file, backup in found.backups})
        return found

    def _remember_places(self, places: KnownPlaces) -> None:
        """Remember the files of these backups, and forget files that are gone."""
        kept = {each: file for each, file in self._places.items() if os.path.lexists(file)}
        self._places = {**kept, **places}

    def _create(self, reason: BackupReason, passphrase: str | None, progress: Progress) -> Backup:
        progress(COPYING, 0, 1)
        backups = make_backups_folder(self._folder)
        key, slots = self._key_and_slots()
        with failures_as_backup_errors(backups):
            files.require_room(backups, files.room_for_backup(self._folder / DATABASE_FILE))
        copy, began = new_hidden_path(backups), time.perf_counter()
        try:
            with failures_as_backup_errors(backups):
                self._copier.copy(copy, progress)
                copied = time.perf_counter()
                audit = check_copy(copy, self._key, progress)
                looked = time.perf_counter()
                sources = _backup_sources(self._folder, copy, key, slots)
            with (
                stage_backup(
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
                failures_as_backup_errors(backups),
            ):
                file = made.publish()
        finally:
            for left in (copy, wal_path(copy), copy.with_name(copy.name + "-shm")):
                left.unlink(missing_ok=True)
        self._remember_places({made.manifest.id: file})
        backup = made.manifest.to_backup(file.name, verified=True)
        seconds = {"copy": copied - began, "check": looked - copied, **made.seconds}
        times = {f"{step}_ms": round(took * 1000) for step, took in seconds.items()}
        log.info("backup_created", extra={"backup": backup.id, "reason": reason, "size": backup.size_bytes, **times})
        return backup

    def _key_and_slots(self) -> tuple[StoreKey, tuple[Slot, ...]]:
        """Return the store's key as its file has it now, and the slots in that file."""
        try:
            there = read_key_file(self._key_file)
        except (KeyUnusable, OSError) as error:
            raise BackupNotMade(reason=f"the key file {self._key_file} cannot be read.") from error
        if there is None:
            return self._key, (wrap_in_file(self._key.master),)
        key = there.find_key(self._key.master)
        if key is None:
            raise BackupNotMade(reason=f"the key file {self._key_file} does not contain the key that opened the store.")
        return replace(key, cipher=self._key.cipher), there.slots

    def _stop_when_closing(self, progress: Progress | None) -> Progress:
        """Return a progress callback that also ends the work once the store is about to close."""

        def tell(what: str, done: int, total: int) -> None:
            if self._stopping.is_set():
                raise BackupNotMade(reason="the appliance is stopping.")
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
    """Read a whole backup, in any folder, and check the database in it.

    `key` is the key of the store that the backup may belong to. The database is unpacked, still encrypted, into
    `scratch`, otherwise beside the file if that folder is writable. Raises BackupUnusable, NotEnoughRoom.
    """
    container = open_container(file, passphrase=passphrase, key=key)
    with _scratch_folder(file, scratch) as folder:
        try:
            return summarize_backup(container, folder, progress)
        except (OSError, apsw.FullError) as error:
            if is_disk_full(error):
                raise not_enough_room(folder) from error
            raise BackupUnusable(reason=f"{file.name} cannot be unpacked in {folder} ({error}).") from error


@contextmanager
def _scratch_folder(file: Path, scratch: Path | None) -> Iterator[Path]:
    if scratch is not None or os.access(file.parent, os.W_OK):
        yield scratch or file.parent
        return
    folder = Path(tempfile.mkdtemp(prefix="mailbox-appliance-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _backup_sources(folder: Path, copy: Path, key: StoreKey, slots: tuple[Slot, ...]) -> list[SectionSource]:
    """Return the sections: the copy, a key file with the salt of the copy, and the files beside the store."""
    with copy.open("rb") as handle:
        salt = handle.read(16).hex()
    config = {_CONFIG: (folder / _CONFIG).read_bytes()} if (folder / _CONFIG).is_file() else {}
    beside = [SectionSource(name, content) for name, content in (config | read_certificate(folder)).items()]
    return [
        SectionSource(DATABASE_FILE, copy),
        SectionSource(KEY_FILE, render_key_file(key.with_salt(salt), slots)),
        *beside,
    ]


def _file_state(file: Path) -> tuple[str, int, int]:
    try:
        there = file.stat()
    except OSError:  # It was removed in the meantime.
        return file.name, 0, -1
    return file.name, there.st_mtime_ns, there.st_size
