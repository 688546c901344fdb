"""Restoring where nothing is serving: in the place of the store that is there, or into an empty directory.

Answers are the API's envelopes: what the backup holds, and as warnings what becomes of sends and rights.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import (
    Conflict,
    KeychainLocked,
    KeyDamaged,
    KeyMissing,
    KeyUnusable,
    KeyWrong,
    PassphraseNeeded,
    PassphraseWrong,
    Problem,
    StoreDamaged,
)
from mailbox_appliance.model.records import Progress
from mailbox_appliance.on_files import outcome
from mailbox_appliance.on_files.opening import enveloped, told_of
from mailbox_appliance.operations import configuration
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.files import DATABASE_FILE, failures_as_unusable
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import StoreKey, find_key_file, load_passphrase, read_key
from mailbox_appliance.store.open_file import DirectoryLock, detect_plain_format, open_database, wal_path
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.restore.merge import MergeResult
from mailbox_appliance.store.restore.restore import (
    PreparedRestore,
    RestoreResult,
    UnpackResult,
    complete_restore,
    merge_into_prepared,
    prepare_restore,
    preview_unpack,
    undo_restore,
    unpack_into_folder,
)
from mailbox_appliance.store.restore.unpack import PresentKey
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.upgrade import UpgradeResult
from mailbox_appliance.system import ownership

_ACTOR = Actor("local")
#: What no patience puts right: then nothing of the present store is known. Anything else is to be put right first.
_LOST = (StoreDamaged, KeyMissing, KeyDamaged, KeyWrong)
_OLDER = (
    "The store that is there has format {}: it is upgraded first, and what happened since the backup is carried over."
)
_ELSEWHERE = (
    "If it lies elsewhere, which MAILBOX_APPLIANCE_KEY_FILE says, or is a credential that systemd gives the service,"
    " the store is good, and only this command does not see its key."
)
_GIVEN_UP = (
    "Nothing was changed: the store that is there is not given up. Put its key back, or name it in"
    " MAILBOX_APPLIANCE_KEY_FILE; with --yes it is given up all the same."
)
_RAW = (
    "This is a store of an older release, as it was: what was scheduled then and has been sent since would be sent"
    " again by it. Cancel that first."
)


@dataclass(frozen=True)
class _Present:
    """The store that is there: what opens it, or why nothing does; or that it is to be upgraded first."""

    key: PresentKey | None
    why: str = ""
    older: int | None = None
    upgraded: UpgradeResult | None = None
    is_key_missing: bool = False


def restore(
    data_dir: Path,
    backup: str | Path,
    passphrase: str | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    give_up: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """Put a backup, an id or a file, in the place of the store of a data directory; `dry_run`: only tell what would be.

    `give_up` is asked whether a store may be replaced of which only the key is missing; None: it may.
    Raises NotFound, BackupUnusable, Conflict, StoreUnusable; then the store is as it was.
    """
    key_file = find_key_file(data_dir, os.environ)
    file = _file(data_dir, backup)
    with _owned(data_dir) as lock:
        look = _look_at if dry_run else _opened
        present = look(data_dir, lock, key_file, passphrase, progress)
        prepared = prepare_restore(
            data_dir,
            file,
            key_file,
            present.key,
            SystemClock(),
            passphrase=passphrase,
            check_config=configuration.require_usable,
            progress=progress,
        )
        if dry_run:
            try:
                carried = merge_into_prepared(prepared, SystemClock(), _ACTOR, leave_present=True)
            finally:
                swap.discard(data_dir)
            return enveloped(prepared.summary, (*_told(carried, present), *prepared.warnings))
        if present.is_key_missing and give_up is not None and not give_up(present.why):
            swap.discard(data_dir)
            raise Conflict(reason=_GIVEN_UP)
        restored = complete_restore(prepared, SystemClock(), _ACTOR, progress)
        _see_that_it_opens(prepared, restored.kept, lock, passphrase)
        told = (*_told(restored.carried, present), *prepared.warnings, *_kept(restored))
        return enveloped(prepared.summary, told)


def unpack(
    data_dir: Path,
    backup: str | Path,
    target: Path,
    passphrase: str | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Unpack a backup into a directory that is empty or not there: a store of its own, or, where it is one of an older
    release or was replaced by a restore, byte for byte what it was. `dry_run`: only tell what would be.

    Raises as `restore`.
    """
    file, key = _file(data_dir, backup), _key_of(data_dir)
    if dry_run:
        unpacked = preview_unpack(file, target, SystemClock(), passphrase=passphrase, key=key, progress=progress)
    else:
        unpacked = unpack_into_folder(file, target, SystemClock(), passphrase=passphrase, key=key, progress=progress)
    if unpacked.carried is not None:
        return enveloped(unpacked.summary, _told(unpacked.carried, _Present(None, "No store is beside it.")))
    is_older = unpacked.manifest.format < format_5.NUMBER
    warnings = tuple(filter(None, (unpacked.why, _RAW if is_older and not unpacked.why else "")))
    return enveloped(unpacked.summary or _not_looked_at(unpacked), warnings)


@contextmanager
def _owned(data_dir: Path) -> Iterator[DirectoryLock]:
    """The directory, locked; one that was not there stays only where something comes into it."""
    is_new = not data_dir.exists()
    with failures_as_unusable(data_dir):
        ownership.make_folder(data_dir)
        lock = DirectoryLock(data_dir)
        try:
            yield lock
        except BaseException:
            if is_new and os.listdir(data_dir) == ["lock"]:  # noqa: PTH208 - the names are enough
                (data_dir / "lock").unlink()
                data_dir.rmdir()
            raise
        finally:
            lock.release()


def _file(data_dir: Path, backup: str | Path) -> Path:
    """Where a backup lies. Raises NotFound."""
    return backup if isinstance(backup, Path) else backups.find_backup(data_dir, backup)


def _not_looked_at(unpacked: UnpackResult) -> dict[str, Any]:
    """What is said of files that nothing opens."""
    told = unpacked.manifest
    return {"ok": False, "createdAt": told.created_at, "format": told.format, "version": told.version}


def _key_of(data_dir: Path) -> StoreKey | None:
    """The key of the store that is there, which opens its backups; None where it cannot be had."""
    with suppress(KeyUnusable, OSError):
        return read_key(find_key_file(data_dir, os.environ), load_passphrase(os.environ))
    return None


def _opened(
    data_dir: Path, lock: DirectoryLock, key_file: Path, passphrase: str | None, progress: Progress | None
) -> _Present:
    """Open the store that is there as it always is, upgraded where it is older, and close it."""
    swap.finish(data_dir, key_file)
    if not os.path.lexists(data_dir / DATABASE_FILE):
        return _Present(None, "No store is there.")

    def opened(given: str | None) -> _Present:
        store = Store.open_locked(data_dir, lock, SystemClock(), key_file, passphrase=given, progress=progress)
        store.close_files()
        return _Present(PresentKey(store.key, key_file), upgraded=store.upgraded)

    return _tried(opened, passphrase)


def _look_at(
    data_dir: Path,
    lock: DirectoryLock,  # noqa: ARG001 - that it is held is enough
    key_file: Path,
    passphrase: str | None,
    progress: Progress | None,  # noqa: ARG001
) -> _Present:
    """The same for a dry run: nothing of it is changed."""
    file = data_dir / DATABASE_FILE
    if not os.path.lexists(file):
        return _Present(None, "No store is there.")

    def looked(given: str | None) -> _Present:
        if (number := detect_plain_format(file)) is not None:
            return _Present(None, older=number)
        has_log = wal_path(file).exists()
        database, key = open_database(file, key_file, given)
        database.close_without_checkpoint() if has_log else database.close()
        return _Present(PresentKey(key, key_file))

    return _tried(looked, passphrase)


def _tried(opening: Any, passphrase: str | None) -> _Present:
    """What comes of opening the present store: by its own passphrase, else by that of the backup, which may be it."""
    own = load_passphrase(os.environ)
    try:
        try:
            found: _Present = opening(own)
        except (PassphraseNeeded, PassphraseWrong):
            if passphrase is None or passphrase == own:
                raise
            found = opening(passphrase)
    except KeyMissing as error:
        return _Present(
            None, f"The store that is there does not open: {_reason(error)} {_ELSEWHERE}", is_key_missing=True
        )
    except _LOST as error:
        return _Present(None, f"The store that is there does not open: {_reason(error)}")
    return found


def _reason(error: Problem) -> str:
    """What is wrong, without what is said of a command that changes nothing then."""
    sentences = re.split(r"(?<=\.) ", error.message)
    return " ".join(one for one in sentences if "nothing was changed" not in one.lower())


def _see_that_it_opens(
    prepared: PreparedRestore, kept: Path | None, lock: DirectoryLock, passphrase: str | None
) -> None:
    """Move the restored store into its place and open it; where it does not, what was there comes back."""
    folder, clock = prepared.folder, SystemClock()

    def opened(given: str | None) -> None:
        Store.open_locked(folder, lock, clock, prepared.key_file, passphrase=given).close_files()

    try:
        own = load_passphrase(os.environ)
        try:
            opened(own)
        except (PassphraseNeeded, PassphraseWrong):
            if passphrase is not None and passphrase != own:
                opened(passphrase)
    except (PassphraseNeeded, PassphraseWrong, KeychainLocked):
        return  # it opens with what somebody has, on the computer where it is needed
    except Exception:
        if kept is not None:
            undo_restore(prepared, kept)
            swap.finish(folder, prepared.key_file)
        raise


def _told(carried: MergeResult, present: _Present) -> tuple[str, ...]:
    """What becomes of sends and rights, a sentence each."""
    if present.older is not None:
        return (_OLDER.format(present.older),)
    return (*told_of(present.upgraded), *outcome.told(carried, present.why))


def _kept(restored: RestoreResult) -> Iterator[str]:
    if restored.kept is not None:
        yield f"What was replaced is kept as backups/{restored.kept.name}."
    if restored.kept_key is not None:
        yield f"The key file that was there, which holds another key or is damaged, is kept as {restored.kept_key}."
