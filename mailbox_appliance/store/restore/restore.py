"""Restoring a backup, in place of the store or into an empty directory.

    prepare_restore   the store may be in use          unpacks the backup into .next.making/ and verifies it
    complete_restore  the store must be closed         backs up the replaced files (backups/...-pre-restore), merges
                                                       what was sent and revoked since, and commits with one rename
    undo_restore      the restored store fails to open puts the replaced files back, from the pre-restore backup

A failure before the rename leaves the store as it was. If the present store opens, its key file stays in use. The
present certificate stays in use as well: clients have pinned it, and the one in the backup may have been replaced for a
reason.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import Conflict, KeychainLocked, PassphraseNeeded, ReplacedUnopened, StoreUnusable
from mailbox_appliance.model.backups import BackupSummary, Progress
from mailbox_appliance.store import files as store_files
from mailbox_appliance.store.audit import Actor, Audit
from mailbox_appliance.store.backup.container import (
    SECTION_NAMES,
    Container,
    Manifest,
    SectionName,
    SectionSource,
    open_container,
)
from mailbox_appliance.store.backup.files import is_disk_full, not_enough_room, stage_backup
from mailbox_appliance.store.backup.verify import summarize_backup
from mailbox_appliance.store.database import DATABASE_ERRORS, Database
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import Slot, StoreKey, read_key
from mailbox_appliance.store.open_file import check_opens_with, detect_plain_format, wal_path
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.restore.merge import MergeResult, merge_nothing, merge_present
from mailbox_appliance.store.restore.swap import keep_old_key_file
from mailbox_appliance.store.restore.unpack import CheckConfig, PresentKey, can_write, unpack_raw, unpack_store
from mailbox_appliance.system import ownership

log = logging.getLogger(__name__)

_OTHER_FILES: tuple[SectionName, ...] = ("config.toml", *store_files.CERTIFICATE_FILES)
#: The number of copies of the content on the disk during unpacking: one, and one more if it is re-encrypted or
#: upgraded; an upgrade makes a backup of its own in addition.
_TIMES_REENCRYPTED, _TIMES_UPGRADED = 2, 4


@dataclass(frozen=True)
class PreparedRestore:
    """A backup that was unpacked and verified, for `complete_restore`.

    `folder`: the data directory. `making`: the folder with the unpacked files. `key`: opens the unpacked store.
    `slots`: the ways to unlock that key, as in its key file.
    """

    folder: Path
    making: Path
    key_file: Path
    backup_id: str
    summary: BackupSummary
    key: StoreKey
    slots: tuple[Slot, ...]
    #: Whether the present store opens, with `key`.
    present_opens: bool
    #: Whether the backup was made by a restore, of the store that it replaced.
    is_pre_restore: bool = False
    #: Whether the backup has an older format, and was upgraded while it was unpacked.
    is_upgraded: bool = False
    #: Warnings of the upgrade of the store in the backup.
    warnings: tuple[str, ...] = ()
    #: Whether the present certificate stays, and that of the backup is left out.
    keeps_certificate: bool = False


@dataclass(frozen=True)
class RestoreResult:
    """Result of a restore. `carried`: what was merged. `kept`: the backup of the replaced store, if there was one."""

    carried: MergeResult
    kept: Path | None
    #: The path of the replaced key file, if it contained another key.
    kept_key: Path | None = None


def prepare_restore(
    folder: Path,
    file: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    *,
    passphrase: str | None = None,
    check_config: CheckConfig | None = None,
    progress: Progress | None = None,
) -> PreparedRestore:
    """Unpack and check a backup beside the store of a data directory. The store may be in use.

    The caller must hold the lock of the data directory. `present`: the key of the present store, None if that does not
    open. `check_config`: raises an error for a configuration file that must not be restored. The unpacked files remain
    until `complete_restore` or `swap.discard`. Raises BackupUnusable, NotEnoughRoom, StoreUnusable, and the errors of
    `check_config`; then no files are left.
    """
    container = open_container(file, passphrase=passphrase, key=None if present is None else present.key)
    return prepare_from_container(container, folder, key_file, present, clock, check_config, progress)


def prepare_from_container(
    container: Container,
    folder: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    check_config: CheckConfig | None,
    progress: Progress | None,
) -> PreparedRestore:
    """Unpack and check a backup that is already open. Parameters and errors are those of `prepare_restore`."""
    with failures_as_restore_errors(folder):
        store_files.require_room(folder, _room_needed(container, folder, present))
        making = swap.begin(folder)
        try:
            made = unpack_store(container, making, key_file, present, clock, progress)
            keeps_certificate = _leave_out_certificate(folder, making)
            if check_config is not None and (making / "config.toml").exists():
                check_config(making / "config.toml")
        except BaseException:
            swap.discard(folder)
            raise
    of = container.manifest
    return PreparedRestore(
        *(folder, making, key_file, of.id, made.summary, made.key, made.slots),
        present_opens=present is not None,
        is_pre_restore=of.reason == "pre-restore",
        is_upgraded=of.format < format_5.NUMBER,
        warnings=made.warnings,
        keeps_certificate=keeps_certificate,
    )


def complete_restore(
    prepared: PreparedRestore, clock: Clock, actor: Actor, progress: Progress | None = None
) -> RestoreResult:
    """Back up the present files, merge the present store into the restored one, and commit the restore.

    All files of the present store must be closed. The next `Store.open_locked` moves the restored files into place.
    Raises NotEnoughRoom, BackupNotMade, StoreUnusable; then the previous store stays in place.
    """
    kept_key = None
    try:
        with failures_as_restore_errors(prepared.folder):
            kept = _back_up_present(prepared, clock, progress)
            carried = merge_into_prepared(prepared, clock, actor)
            if not prepared.present_opens:
                _require_opens(prepared)
                kept_key = keep_old_key_file(prepared.key_file, prepared.key, clock.now())
            # A certificate may have been created in the meantime.
            _leave_out_certificate(prepared.folder, prepared.making)
            swap.commit(prepared.folder, prepared.key_file)
    except BaseException:
        swap.discard(prepared.folder)
        if kept_key is not None and not swap.is_committed(prepared.folder):
            kept_key.unlink()
        raise
    return RestoreResult(carried, kept, kept_key)


def merge_into_prepared(
    prepared: PreparedRestore, clock: Clock, actor: Actor, *, leave_present: bool = False
) -> MergeResult:
    """Merge the present store into the unpacked one, and record the restore in its audit log. Nothing is put into
    place.

    `leave_present`: leave a write-ahead log of the present store untouched, for a preview.
    """
    database = Database(prepared.making / DATABASE_FILE, prepared.key.cipher, prepared.key.derive("database"))
    try:
        carried = _merge_present(database, prepared, clock, leave_present=leave_present)
        audit = Audit(database, prepared.key.derive("audit"), clock)
        with database.transaction(durable=True):
            audit.record(actor, "backup.restore", ("backup", prepared.backup_id))
    finally:
        is_closed = database.close()
    if not leave_present and (not is_closed or wal_path(prepared.making / DATABASE_FILE).exists()):
        raise StoreUnusable(reason="the restored database could not be closed.")
    return carried


def _require_opens(prepared: PreparedRestore) -> None:
    """A key file that needs a passphrase or a keychain is not checked."""
    made = prepared.making / KEY_FILE
    try:
        key = read_key(made if made.exists() else prepared.key_file)
    except (PassphraseNeeded, KeychainLocked):
        return  # The owner of the passphrase or keychain can open it.
    check_opens_with(prepared.making / DATABASE_FILE, replace(key, cipher=prepared.key.cipher))


def _merge_present(database: Database, prepared: PreparedRestore, clock: Clock, *, leave_present: bool) -> MergeResult:
    if not prepared.present_opens:
        return merge_nothing(database, clock.now())
    present = prepared.folder / DATABASE_FILE
    leave_log = leave_present and wal_path(present).exists()
    try:
        return merge_present(
            *(database, present, prepared.key, clock.now()),
            is_pre_restore=prepared.is_pre_restore,
            is_upgraded=prepared.is_upgraded,
            leave_log=leave_log,
        )
    except (apsw.CorruptError, apsw.NotADBError):  # Damage may be the reason for the restore.
        log.exception("restore_without_merge")
        return merge_nothing(database, clock.now(), "one of its pages cannot be read")


def undo_restore(prepared: PreparedRestore, kept: Path) -> None:
    """Put the store that a restore replaced back as it was, from its pre-restore backup `kept`.

    All files must be closed; the next `Store.open_locked` moves the old files into place. Raises BackupUnusable,
    NotEnoughRoom, StoreUnusable.
    """
    folder, container = prepared.folder, open_container(kept, key=prepared.key)
    with failures_as_restore_errors(folder):
        making = swap.begin(folder)
        try:
            unpack_raw(container, making, None)
            if not can_write(prepared.key_file):
                (making / KEY_FILE).unlink(missing_ok=True)
            replaced = ("config.toml",) if prepared.keeps_certificate else _OTHER_FILES
            if prepared.keeps_certificate:
                shutil.rmtree(making / store_files.CERTIFICATE_FOLDER, ignore_errors=True)
            absent = [name for name in replaced if container.manifest.find_section(name) is None]
            swap.commit(folder, prepared.key_file, absent)
        except BaseException:
            swap.discard(folder)
            raise


def _leave_out_certificate(folder: Path, making: Path) -> bool:
    """Return whether the data directory has a certificate, which then stays."""
    if not store_files.has_certificate(folder):
        return False
    shutil.rmtree(making / store_files.CERTIFICATE_FOLDER, ignore_errors=True)
    return True


def _room_needed(container: Container, folder: Path, present: PresentKey | None) -> int:
    content = container.manifest.content_size
    if container.manifest.format < format_5.NUMBER:
        content *= _TIMES_UPGRADED
    elif present is not None and present.key.master != container.key.master:
        content *= _TIMES_REENCRYPTED
    # The replaced files are kept as a backup.
    return content + store_files.room_for_copy(folder / DATABASE_FILE)


def _back_up_present(prepared: PreparedRestore, clock: Clock, progress: Progress | None) -> Path | None:
    """The files are not checked. Returns None if there is no store."""
    folder = prepared.folder
    places = {name: swap.target_path(folder, name, prepared.key_file) for name in SECTION_NAMES}
    certificate = store_files.read_certificate(folder)
    files = {
        name: place for name, place in places.items() if place.is_file() and name not in store_files.CERTIFICATE_FILES
    }
    sources = [SectionSource(name, content) for name, content in (files | certificate).items()]
    if not places[DATABASE_FILE].is_file():
        return None
    number = detect_plain_format(folder / DATABASE_FILE) or format_5.NUMBER
    with stage_backup(folder, "pre-restore", sources, prepared.key, prepared.slots, number, clock, progress) as made:
        return made.publish()


@contextmanager
def failures_as_restore_errors(folder: Path) -> Iterator[None]:
    """Context manager: raise NotEnoughRoom or StoreUnusable instead of an error of the disk or of SQLite."""
    try:
        yield
    except (OSError, *DATABASE_ERRORS) as error:
        if is_disk_full(error):
            raise not_enough_room(folder) from error
        if isinstance(error, OSError):
            raise StoreUnusable(reason=f"{error.filename or folder}: {error.strerror}.") from error
        raise StoreUnusable(reason=f"the database of the backup cannot be restored ({error}).") from error


# --- Restoring into an empty directory: as a store of its own, or byte for byte ---


@dataclass(frozen=True)
class UnpackResult:
    """Result of unpacking a backup into a directory.

    `summary`: counts of the verified content; None if the database does not open, then `why` has the reason. `carried`:
    what was changed to make a separate store of it; None if the files were unpacked byte for byte.
    """

    manifest: Manifest
    summary: BackupSummary | None
    carried: MergeResult | None = None
    why: str = ""


def unpack_into_folder(
    file: Path,
    target: Path,
    clock: Clock,
    *,
    passphrase: str | None = None,
    key: StoreKey | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> UnpackResult:
    """Unpack a backup into a directory that is empty or does not exist.

    The result is a separate store, which knows nothing of events since the backup: all sessions end, and scheduled
    messages are on hold. Files are unpacked byte for byte instead if the store has an older format, or if the backup
    contains a replaced store that does not open. `key`: the key of a store, tried before the key in the backup.
    `dry_run`: unpack into a temporary folder on the same disk, and remove it. Raises Conflict if the directory is not
    empty, BackupUnusable, NotEnoughRoom, StoreUnusable.
    """
    container = open_container(file, passphrase=passphrase, key=key)
    with (_trial_folder if dry_run else _new_folder)(target) as folder:
        prepared = None
        if container.manifest.format == format_5.NUMBER:
            with suppress(ReplacedUnopened):
                prepared = prepare_from_container(container, folder, folder / KEY_FILE, None, clock, None, progress)
        if prepared is None:
            return _unpack_as_it_was(container, folder, progress, dry_run=dry_run)
        with failures_as_restore_errors(target):
            if dry_run:
                carried = merge_into_prepared(prepared, clock, Actor("local"))
            else:
                carried = complete_restore(prepared, clock, Actor("local"), progress).carried
                swap.finish(folder, folder / KEY_FILE)
    return UnpackResult(container.manifest, prepared.summary, carried)


def _unpack_as_it_was(container: Container, folder: Path, progress: Progress | None, *, dry_run: bool) -> UnpackResult:
    with failures_as_restore_errors(folder):
        store_files.require_room(folder, container.manifest.content_size)
        try:
            found = UnpackResult(container.manifest, summarize_backup(container, folder, progress))
        except ReplacedUnopened as problem:
            found = UnpackResult(container.manifest, None, why=problem.message)
        if not dry_run:
            unpack_raw(container, swap.begin(folder), progress)
            swap.commit(folder)
            swap.finish(folder, folder / KEY_FILE)
    return found


@contextmanager
def _trial_folder(target: Path) -> Iterator[Path]:
    """The folder is on the disk of `target`."""
    with failures_as_restore_errors(target):
        _require_empty(target)
        there = next(each for each in (target, *target.parents) if os.path.lexists(each))
        try:
            folder = Path(tempfile.mkdtemp(prefix=".mailbox-appliance-", dir=there))
        except OSError as error:  # The message names the target directory, not the temporary one.
            raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        yield folder
    finally:
        with failures_as_restore_errors(target):
            shutil.rmtree(folder)


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """If the block raises, what it has left in the directory is removed, and a new directory as well."""
    with failures_as_restore_errors(target):
        _require_empty(target)
        is_new = not target.exists()
        ownership.make_folder(target)
        ownership.restrict_modes(target, target / KEY_FILE)
    try:
        yield target
    except BaseException:
        for left in target.iterdir():
            with suppress(OSError):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        if is_new:
            with suppress(OSError):
                target.rmdir()
        raise


def _require_empty(target: Path) -> None:
    ownership.require_own(target)
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(reason=f"{target} is not an empty directory. Name an empty or a new one.")
