"""Backups of a data directory: created from the open store, listed, verified, and removed when too old.

Listing reads only the unencrypted beginning of each file. Daily backups are removed by age: the newest of each of the
last days and ISO 8601 weeks (UTC) are kept. The HTTPS certificate and its key are part of a backup.
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
from mailbox_appliance.store.key import (
    FileSlot,
    Slot,
    StoreKey,
    read_key_file,
    read_salt,
    render_key_file,
    require_passphrase,
)
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
    """A file in the folder `backups` that is not listed as a backup, with its name in printable form.

    `why`: "unusable" for a file that is not a complete backup, "copy" for another copy of a listed backup, "name" for a
    name that is not valid UTF-8. `copy_of`: the name of the listed copy, or empty.
    """

    name: str
    why: Literal["unusable", "copy", "name"]
    copy_of: str = ""


@dataclass(frozen=True)
class BackupListing:
    """The content of a folder `backups`: each backup with its file, unordered, and other files, ordered by name."""

    backups: tuple[tuple[Path, Backup], ...]
    unlisted: tuple[UnlistedFile, ...]


def scan_backups(folder: Path, known: KnownPlaces = NO_KNOWN_PLACES) -> BackupListing:
    """Return the content of the folder `backups` of a data directory; empty lists if there is none.

    If several files are copies of the same backup, only one is listed. `known`: backup ID -> file, from an earlier
    listing. The file listed then is preferred to its copies.
    """
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
    """Return the files in the folder `backups` of a data directory that are not listed as backups, ordered by name."""
    return scan_backups(folder).unlisted


def find_backup(folder: Path, backup_id: str, known: KnownPlaces = NO_KNOWN_PLACES) -> Path:
    """Return the file of the backup with this ID, even if the file is damaged. Raises NotFound.

    The ID is read from the file. `known`: files of backups by ID, from an earlier listing, for a file that is too
    damaged to show its ID.
    """
    whole = (file for file, backup in scan_backups(folder, known).backups if backup.id == backup_id)
    damaged = (file for file in _backup_files(folder) if _is_utf_8(file.name) and find_backup_id(file) == backup_id)
    found = next(chain(whole, damaged), known.get(backup_id))
    if found is None or not os.path.lexists(found) or _has_other_id(found, backup_id):
        raise NotFound(what="backup")
    return found


def sort_newest_first(found: Iterator[Backup]) -> tuple[Backup, ...]:
    """Return the backups sorted by time, newest first."""
    return tuple(sorted(found, key=lambda one: (one.created_at, one.id), reverse=True))


def _rank_copy(known: Path | None, copy: tuple[Path, Manifest]) -> tuple[bool, bool, bool, str]:
    """Return a sort key: of the copies of a backup, the file with the lowest key is listed."""
    file, manifest = copy
    return file != known, file.is_symlink(), not _is_original_name(file.name, manifest), file.name


def _is_original_name(name: str, manifest: Manifest) -> bool:
    """Whether this name can be the original one: `stage_backup` names a file by its reason and its time, or later."""
    given = _BACKUP_NAME.fullmatch(name)
    made = re.sub(r"[-:]|\.\d+", "", manifest.created_at)
    return given is not None and given[2] == manifest.reason and given[1] >= made


def _has_other_id(file: Path, backup_id: str) -> bool:
    """False for a damaged or missing file."""
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
    """Return a file name in which characters that are ambiguous or that control a terminal are escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


# --- Retention of daily backups: the newest of each of some days, and of each of some weeks (ISO 8601, UTC) ---
#
# Only days and weeks with a backup count, so a machine that was off for a month keeps as many as any other.


#: A clock may be corrected by a little at any time.
_CLOCK_TOLERANCE = timedelta(minutes=5)


def select_superfluous(made: Collection[datetime], now: datetime, *, days: int, weeks: int) -> set[datetime]:
    """Select the backups that may be removed, and return the times at which they were made.

    `made`: the times of all backups. The newest backup is kept of each of the latest `days` days that have one, and of
    each of the latest `weeks` weeks that have one. Times in the future are kept and not counted: the clock was wrong
    then, or is wrong now.
    """
    past = sorted((moment for moment in made if not is_in_future(moment, now)), reverse=True)
    kept = {*_newest_of_each(past, days, _day_of), *_newest_of_each(past, weeks, _week_of)}
    return set(past) - kept


def is_in_future(moment: datetime, now: datetime) -> bool:
    """Whether a moment is more than 5 minutes after `now`. If so, the clock was wrong then or is wrong now."""
    return moment > now + _CLOCK_TOLERANCE


def _newest_of_each(moments: Iterable[datetime], count: int, period: Callable[[datetime], Hashable]) -> list[datetime]:
    """`moments` are sorted newest first. `period`: returns the day or week of a moment."""
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
    """Creates, lists, verifies and removes the backups of an open store."""

    def __init__(self, folder: Path, database: Database, key: StoreKey, key_file: Path, clock: Clock) -> None:
        self._folder, self._key, self._key_file, self._clock = folder, key, key_file, clock
        self._copier = OnlineCopier(folder / DATABASE_FILE, key, database)
        self._making = threading.Lock()
        self._stopping = threading.Event()
        self._bad: set[tuple[str, int, int]] = set()
        #: The files of backups made, listed or found: a file that was overwritten no longer shows its ID.
        self._places: KnownPlaces = NO_KNOWN_PLACES

    def create(self, reason: BackupReason, passphrase: str | None = None, progress: Progress | None = None) -> Backup:
        """Make a backup of the store while it is in use, and verify it by reading it back.

        `passphrase`: if given, the backup can be opened only with it. On an error, no file is left. Raises Invalid for
        an invalid passphrase, StoreAtWork while another backup is being made, NotEnoughRoom, BackupNotMade.
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
        """Return the backups, newest first. `verified` is false for a backup that `verify` found damaged."""
        return sort_newest_first(
            msgspec.structs.replace(backup, verified=_file_state(file) not in self._bad)
            for file, backup in self._scan().backups
        )

    def list_unlisted(self) -> tuple[UnlistedFile, ...]:
        """Return the files in the folder `backups` that are not listed as backups, ordered by name."""
        return self._scan().unlisted

    def find(self, backup_id: str) -> Path:
        """Return the file of the backup with this ID, even if it was damaged after it was listed. Raises NotFound."""
        file = find_backup(self._folder, backup_id, self._places)
        self._remember_places({backup_id: file})
        return file

    def verify(self, backup_id: str, passphrase: str | None = None, progress: Progress | None = None) -> BackupSummary:
        """Read a whole backup, check the database in it, and return a count of its content.

        Raises NotFound, BackupUnusable for a damaged backup or a wrong passphrase, NotEnoughRoom.
        """
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
        """Remove old daily backups, and return those removed.

        Kept are the newest backup of each of the last `daily` days and `weekly` weeks. A backup that was found damaged
        is kept for inspection and not counted.
        """
        daily_ones = (one for one in self.list() if one.reason == "daily" and one.verified)
        made = {from_timestamp(one.created_at): one for one in daily_ones}
        gone = [made[moment] for moment in select_superfluous(made, now, days=daily, weeks=weekly)]
        for backup in gone:
            (self._folder / BACKUPS_FOLDER / backup.file_name).unlink(missing_ok=True)
            log.info("daily_backup_removed", extra={"backup": backup.id, "made": backup.created_at})
        return tuple(gone)

    def stop(self, within: float = 5.0) -> None:
        """End all backups and verifications from now on; wait up to `within` seconds for a running backup."""
        self._stopping.set()
        if self._making.acquire(timeout=within):
            self._making.release()

    def close(self) -> None:
        """Close the database file that backups are copied from, after SQLite's last connection was closed."""
        self._copier.close()

    def _scan(self) -> BackupListing:
        found = scan_backups(self._folder, self._places)
        self._remember_places({backup.id: file for file, backup in found.backups})
        return found

    def _remember_places(self, places: KnownPlaces) -> None:
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
        try:
            there = read_key_file(self._key_file)
        except (KeyUnusable, OSError) as error:
            raise BackupNotMade(reason=f"the key file {self._key_file} cannot be read.") from error
        if there is None:
            return self._key, (FileSlot(self._key.master),)
        key = there.find_key(self._key.master)
        if key is None:
            raise BackupNotMade(reason=f"the key file {self._key_file} does not contain the key that opened the store.")
        return replace(key, cipher=self._key.cipher), there.slots

    def _stop_when_closing(self, progress: Progress | None) -> Progress:
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
    """Read a whole backup file, in any folder, check the database in it, and return a count of its content.

    `key`: the key of a store; it is tried before the keys in the backup. `scratch`: the folder for the unpacked, still
    encrypted database; the default is the folder of the file, or a temporary one if that is not writable. Raises
    BackupUnusable, NotEnoughRoom.
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
    config = {_CONFIG: (folder / _CONFIG).read_bytes()} if (folder / _CONFIG).is_file() else {}
    beside = [SectionSource(name, content) for name, content in (config | read_certificate(folder)).items()]
    return [
        SectionSource(DATABASE_FILE, copy),
        SectionSource(KEY_FILE, render_key_file(key.with_salt(read_salt(copy)), slots)),
        *beside,
    ]


def _file_state(file: Path) -> tuple[str, int, int]:
    try:
        there = file.stat()
    except OSError:  # It was removed in the meantime.
        return file.name, 0, -1
    return file.name, there.st_mtime_ns, there.st_size
