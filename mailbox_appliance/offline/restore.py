"""Restores a backup while no appliance is running: over the current store, or into an empty directory.

The output describes the contents of the backup and, as warnings, what happens to sends and permissions.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import (
    Conflict,
    KeychainLocked,
    KeyDamaged,
    KeyMissing,
    KeyWrong,
    PassphraseNeeded,
    PassphraseWrong,
    StoreDamaged,
)
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.offline.store import find_own_key, to_envelope, upgrade_warnings
from mailbox_appliance.operations import settings
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import find_key_file, load_passphrase
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
    undo_restore,
    unpack_into_folder,
)
from mailbox_appliance.store.restore.unpack import PresentKey
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.upgrade import UpgradeResult
from mailbox_appliance.system import ownership

# --- What happens to sends and permissions: one sentence each ---


_NOT_KNOWN = (
    "{why} So changes since the backup are unknown: API keys that were revoked, passwords that were changed and members"
    " who were removed since then are as they were in the backup. Review them. All sessions have ended."
)
_FORKED = (
    "The current store is not a later state of the backup: it is earlier, the two have diverged, or a restore is"
    " undone. Sends of both are kept, and API keys that were revoked in either stay revoked. Everything else is as it"
    " was in the backup: review the members, their passwords and the API keys. All sessions have ended."
)
_MAY_BE_OUT = ("may have been delivered and is uncertain now", "may have been delivered and are uncertain now")
_IN_TIME = ("waits for its time", "wait for their time")
_HELD = tuple(f"{is_on} on hold until you run `mailbox-appliance scheduled release`" for is_on in ("is", "are"))
_ENDS = (
    "fails with account_removed because its mailbox is not in the backup",
    "fail with account_removed because their mailboxes are not in the backup",
)
_GIVEN_BACK = tuple(
    f"{fails} with permission_revoked and {is_kept}: in the backup, the member who scheduled it has no permission for"
    " the mailbox"
    for fails, is_kept in (("fails", "is kept as a draft"), ("fail", "are kept as drafts"))
)
_OTHER_LOG = (
    "The audit log of the current store does not continue that of the backup. Its entries since then are no longer in"
    " the audit log, but only in the backup of the previous store."
)


def restore_sentences(carried: MergeResult, why: str) -> Iterator[str]:
    """Yield sentences that tell the user which sends and permissions a restore changes.

    `carried`: the data that the restore takes over from the current store. `why`: the reason if that store could not be
    used; may be empty.
    """
    sends, rights = carried.sends, carried.rights
    if carried.relation == "forked":
        yield _FORKED
    elif not carried.is_known:
        yield _NOT_KNOWN.format(why=why or f"The current store cannot be used for this: {carried.why}.")
    yield from _count_sentence(sends.uncertain, "send", *_MAY_BE_OUT)
    yield from _count_sentence(sends.waiting, "scheduled send", *(_HELD if sends.are_held else _IN_TIME))
    yield from _count_sentence(sends.ended, "scheduled send", *_ENDS)
    yield from _count_sentence(sends.given_back, "scheduled send", *_GIVEN_BACK)
    yield from _count_sentence(rights.revoked, "API key", *_singular_and_plural("of the backup {} revoked"))
    yield from _count_sentence(rights.suspended, "member", *_singular_and_plural("of the backup {} suspended"))
    if not carried.has_log:
        yield _OTHER_LOG


def _singular_and_plural(what: str) -> tuple[str, str]:
    return what.format("is"), what.format("are")


def _count_sentence(count: int, noun: str, one: str, many: str) -> Iterator[str]:
    if count:
        yield f"1 {noun} {one}." if count == 1 else f"{count:,} {noun}s {many}."


# --- The restore ---


_ACTOR = Actor("local")
#: Causes that do not go away by waiting: the current store stays unknown. Others must be resolved first.
_LOST = (StoreDamaged, KeyMissing, KeyDamaged, KeyWrong)
_OLDER = "The current store has format {}. It is upgraded first; then what happened since the backup is carried over."
_KEY_MAY_BE_ELSEWHERE = (
    "If the key is a file elsewhere (MAILBOX_APPLIANCE_KEY_FILE) or a systemd credential of the service, the store is"
    " intact and only this command cannot see its key."
)
_GIVEN_UP = (
    "Nothing was changed: the current store is not discarded. Put its key back or name it in"
    " MAILBOX_APPLIANCE_KEY_FILE. To discard the store, repeat the command with --yes."
)
_RAW = (
    "This store of an older release is unpacked unchanged. It would resend scheduled messages that were sent since the"
    " backup: cancel them first."
)


@dataclass(frozen=True)
class _PresentStore:
    """The current store before a restore; `why` it cannot be opened; the `older` format it must be upgraded from."""

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
    """Replace the store of a data directory by a backup. `backup`: its ID or file. `dry_run`: only report what would
    happen.

    `passphrase`: of the backup, if it has one. `give_up`: called to ask whether to discard a store whose key is
    missing; without it, the store is discarded. Raises NotFound, BackupUnusable, Conflict, StoreUnusable; then the
    store is unchanged.
    """
    key_file = find_key_file(data_dir, os.environ)
    file = _find_file(data_dir, backup)
    with _lock_directory(data_dir) as lock:
        look = _inspect_present if dry_run else _open_present
        present = look(data_dir, lock, key_file, passphrase, progress)
        prepared = prepare_restore(
            data_dir,
            file,
            key_file,
            present.key,
            SystemClock(),
            passphrase=passphrase,
            check_config=settings.require_usable_config,
            progress=progress,
        )
        if dry_run:
            try:
                carried = merge_into_prepared(prepared, SystemClock(), _ACTOR, leave_present=True)
            finally:
                swap.discard(data_dir)
            return to_envelope(prepared.summary, (*_restore_warnings(carried, present), *prepared.warnings))
        if present.is_key_missing and give_up is not None and not give_up(present.why):
            swap.discard(data_dir)
            raise Conflict(reason=_GIVEN_UP)
        restored = complete_restore(prepared, SystemClock(), _ACTOR, progress)
        _verify_restored_opens(prepared, restored.kept, lock, passphrase)
        told = (*_restore_warnings(restored.carried, present), *prepared.warnings, *_kept_warnings(restored))
        return to_envelope(prepared.summary, told)


def unpack(
    data_dir: Path,
    backup: str | Path,
    target: Path,
    passphrase: str | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Unpack a backup into the directory `target`, which is empty or does not exist. `backup`: its ID or file.

    The result is a separate store. Two kinds of backups are unpacked byte for byte: those of an older store format, and
    those that a restore made of the store that it replaced, if that store cannot be opened. `dry_run`: only report what
    would happen. Raises the same errors as `restore`.
    """
    file, key = _find_file(data_dir, backup), find_own_key(data_dir)
    clock = SystemClock()
    unpacked = unpack_into_folder(
        file, target, clock, passphrase=passphrase, key=key, progress=progress, dry_run=dry_run
    )
    if unpacked.carried is not None:
        return to_envelope(
            unpacked.summary, _restore_warnings(unpacked.carried, _PresentStore(None, "There is no store to compare."))
        )
    is_older = unpacked.manifest.format < format_5.NUMBER
    warnings = tuple(filter(None, (unpacked.why, _RAW if is_older and not unpacked.why else "")))
    return to_envelope(unpacked.summary or _unread_summary(unpacked), warnings)


@contextmanager
def _lock_directory(data_dir: Path) -> Iterator[DirectoryLock]:
    """Lock the directory, and create it if necessary; if the block fails, remove it again."""
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


def _find_file(data_dir: Path, backup: str | Path) -> Path:
    return backup if isinstance(backup, Path) else backups.find_backup(data_dir, backup)


def _unread_summary(unpacked: UnpackResult) -> dict[str, Any]:
    """The summary of a backup whose database this release cannot open."""
    told = unpacked.manifest
    return {"ok": False, "createdAt": told.created_at, "format": told.format, "version": told.version}


def _open_present(
    data_dir: Path, lock: DirectoryLock, key_file: Path, passphrase: str | None, progress: Progress | None
) -> _PresentStore:
    """Open and close the current store. An older format is upgraded."""
    swap.finish(data_dir, key_file)
    if not os.path.lexists(data_dir / DATABASE_FILE):
        return _PresentStore(None, "There is no current store.")

    def opened(given: str | None) -> _PresentStore:
        store = Store.open_locked(data_dir, lock, SystemClock(), key_file, passphrase=given, progress=progress)
        store.close_files()
        return _PresentStore(PresentKey(store.key, key_file), upgraded=store.upgraded)

    return _try_passphrases(opened, passphrase)


def _inspect_present(
    data_dir: Path,
    lock: DirectoryLock,  # noqa: ARG001 - that it is held is enough
    key_file: Path,
    passphrase: str | None,
    progress: Progress | None,  # noqa: ARG001
) -> _PresentStore:
    """The same for a dry run, which does not change the store."""
    file = data_dir / DATABASE_FILE
    if not os.path.lexists(file):
        return _PresentStore(None, "There is no current store.")

    def looked(given: str | None) -> _PresentStore:
        if (number := detect_plain_format(file)) is not None:
            return _PresentStore(None, older=number)
        has_log = wal_path(file).exists()
        database, key = open_database(file, key_file, given)
        database.close_without_checkpoint() if has_log else database.close()
        return _PresentStore(PresentKey(key, key_file))

    return _try_passphrases(looked, passphrase)


def _try_passphrases(opening: Any, passphrase: str | None) -> _PresentStore:
    """Call `opening` with the passphrase in the environment, and if the store refuses that, with that of the backup."""
    own = load_passphrase(os.environ)
    try:
        try:
            found: _PresentStore = opening(own)
        except (PassphraseNeeded, PassphraseWrong):
            if passphrase is None or passphrase == own:
                raise
            found = opening(passphrase)
    except KeyMissing as error:
        return _PresentStore(
            None,
            f"The current store cannot be opened: {error.explanation} {_KEY_MAY_BE_ELSEWHERE}",
            is_key_missing=True,
        )
    except _LOST as error:
        return _PresentStore(None, f"The current store cannot be opened: {error.explanation}")
    return found


def _verify_restored_opens(
    prepared: PreparedRestore, kept: Path | None, lock: DirectoryLock, passphrase: str | None
) -> None:
    """Put the restored store in place and open it. If it is unusable, put the previous one (`kept`) back."""
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
        return  # the passphrase or keychain is available on the computer that needs it
    except Exception:
        if kept is not None:
            undo_restore(prepared, kept)
            swap.finish(folder, prepared.key_file)
        raise


def _restore_warnings(carried: MergeResult, present: _PresentStore) -> tuple[str, ...]:
    if present.older is not None:
        return (_OLDER.format(present.older),)
    return (*upgrade_warnings(present.upgraded), *restore_sentences(carried, present.why))


def _kept_warnings(restored: RestoreResult) -> Iterator[str]:
    if restored.kept is not None:
        yield f"The previous store is kept as backups/{restored.kept.name}."
    if restored.kept_key is not None:
        yield f"The previous key file, which holds another key or is damaged, is kept as {restored.kept_key}."
