"""Backups: create, list, verify, download, restore. Their contents are encrypted: see `store/backup/container.py`."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp, to_millis
from mailbox_appliance.errors import BackupNotSealed, Conflict, NotFound, StoreUnusable
from mailbox_appliance.events import BackupFinished
from mailbox_appliance.model.backups import Backup, BackupSummary, Progress
from mailbox_appliance.model.base import Input, Page
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.messages import Download
from mailbox_appliance.operations import settings
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.operation import Access, Caller, Cursor, Limit, operation
from mailbox_appliance.store.backup.backups import UnlistedFile
from mailbox_appliance.store.backup.container import read_manifest
from mailbox_appliance.store.restore.restore import PreparedRestore, prepare_restore
from mailbox_appliance.store.restore.unpack import PresentKey

_BACKUP_LIST = "backups"
_READ_SIZE = 128 * 1024
_MEDIA_TYPE = "application/octet-stream"
#: Shown with a backup that needs no passphrase.
UNSEALED_WARNING = (
    "Whoever has this file can open it: the store's key lies in it in plain. Keep it as safe as the store itself, or "
    "make one with a passphrase."
)

_STRAY_TEXTS = {
    "unusable": "{one.name} in the folder of backups is none, or not whole: `backup verify FILE` says why.",
    "copy": "{one.name} in the folder of backups is a copy of {one.copy_of}, which is listed.",
    "name": "{one.name} in the folder of backups has a name that is no UTF-8, here written with \\x: give it another.",
}

NewPassphrase = Annotated[
    str,
    Meta(
        min_length=12,
        max_length=1024,
        description="The backup opens with this alone, nowhere without it. 12 characters at least; keep it elsewhere.",
    ),
]
Passphrase = Annotated[str, Meta(max_length=1024, description="That of the backup, where it has one.")]
BackupId = Annotated[str, Meta(min_length=1, max_length=200)]


class CreateBackupRequest(Input, frozen=True, kw_only=True):
    """How a backup is to be made."""

    passphrase: NewPassphrase | None = None


class VerifyBackupRequest(Input, frozen=True, kw_only=True):
    """What opens a backup."""

    passphrase: Passphrase | None = None


_DEFAULT_BACKUP, _WITHOUT_AID = CreateBackupRequest(), VerifyBackupRequest()


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def list_backups(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001 - rights were checked
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> OperationResult[Page[Backup]]:
    """The backups that lie in the data directory, newest first.

    `verified`: it was found good when it was made, and not bad since. `warnings` name files among them that are not
    listed: no backups or not whole, copies of one that is, or with a name that is no UTF-8.
    """
    kept = appliance.store.backups
    return OperationResult(backup_page(kept.list(), limit, cursor), stray_warnings(kept.list_unlisted()))


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def create_backup(
    appliance: Appliance, caller: Caller, request: CreateBackupRequest = _DEFAULT_BACKUP
) -> OperationResult[Backup]:
    """Make a backup of everything, while serving; the answer comes when it is made, read back and found good.

    Without a passphrase it opens with the store's own key, which travels inside as the store keeps it. Where that is in
    plain, a warning says so, and such a backup cannot be downloaded. One long thing is done at a time: 409 else.
    """
    store = appliance.store
    with appliance.exclusive_work("backup") as progress:
        made = store.backups.create("manual", request.passphrase, progress)
    with store.database.transaction(durable=True):
        store.audit.record(caller.actor, "backup.create", ("backup", made.id))
    appliance.events.publish(BackupFinished(made.id))
    return OperationResult(made, backup_warnings(made))


@operation(access=Access.SESSION, role="admin", https=True)
def download_backup(appliance: Appliance, caller: Caller, backup_id: BackupId) -> Download:
    """The file of a backup, to be kept elsewhere.

    One that whoever has it could open is not given out (409): make one with a passphrase for that. Of one whose file is
    damaged at its beginning, or is none any more, it is said what is wrong with it, as `verify` does.
    """
    store = appliance.store
    backup, file = _find_backup(appliance, backup_id)
    if not backup.passphrase_protected:
        raise BackupNotSealed
    try:
        reading = FileChunks(file.open("rb"))
    except FileNotFoundError as error:
        raise NotFound(what="backup") from error
    with store.database.transaction(durable=True):
        store.audit.record(caller.actor, "backup.download", ("backup", backup.id))
    return Download(_MEDIA_TYPE, backup.file_name, reading.size, reading)


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def verify_backup(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001 - rights were checked
    backup_id: BackupId,
    request: VerifyBackupRequest = _WITHOUT_AID,
) -> BackupSummary:
    """Read all of a backup, check the database in it, and tell what it holds; nothing is restored.

    What is wrong with it is one of `backup_wrong_passphrase` (also for a missing one), `backup_truncated`,
    `backup_altered`, `backup_newer_format` and `not_a_backup`. One long thing is done at a time: 409 else.
    """
    with appliance.exclusive_work("backup_verification") as progress:
        return appliance.store.backups.verify(backup_id, request.passphrase, progress)


def backup_page(backups: tuple[Backup, ...], limit: int, cursor: str | None) -> Page[Backup]:
    """A page of these backups, newest first."""
    before = decode_cursor(cursor, _BACKUP_LIST)
    found = sorted(((_sort_key(one), one) for one in backups), key=lambda each: each[0], reverse=True)
    following = [each for each in found if before is None or each[0] < before]
    more = following[limit - 1][0] if len(following) > limit else None
    return Page(items=tuple(one for _, one in following[:limit]), next_cursor=encode_cursor(more, _BACKUP_LIST))


def stray_warnings(strays: tuple[UnlistedFile, ...]) -> tuple[str, ...]:
    """Warnings about files in `backups/` that are not listed."""
    return tuple(_STRAY_TEXTS[one.why].format(one=one) for one in strays)


def backup_warnings(backup: Backup) -> tuple[str, ...]:
    """Warnings about a backup."""
    return () if backup.passphrase_protected else (UNSEALED_WARNING,)


def _sort_key(backup: Backup) -> int:
    """The order of a backup in the list: its time in milliseconds, then something that never changes."""
    try:
        made = to_millis(from_timestamp(backup.created_at))
    except ValueError:  # the manifest has not been verified yet
        made = 0
    return made << 16 | zlib.crc32(backup.id.encode()) & 0xFFFF


def _find_backup(appliance: Appliance, backup_id: str) -> tuple[Backup, Path]:
    """A backup and its file. Raises NotFound, and for a damaged backup an error that says what is damaged."""
    file = appliance.store.backups.find(backup_id)
    found = next((one for one in appliance.store.backups.list() if one.id == backup_id), None)
    if found is None:
        read_manifest(file)
        raise NotFound(what="backup")
    return found, file


class FileChunks(Iterator[bytes]):
    """The pieces of a file as it is when opened; renaming or deleting it later changes nothing. Close it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.size = file, os.fstat(file.fileno()).st_size

    def __next__(self) -> bytes:
        piece = b"" if self._file.closed else self._file.read(_READ_SIZE)
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# --- Restore: verified and unpacked while serving; then the service starts again on what was restored ---


class RestoreBackupRequest(Input, frozen=True, kw_only=True):
    """What is to be restored. `dryRun`: only look whether it could be, and what is in it."""

    backup_id: BackupId
    passphrase: Passphrase | None = None
    dry_run: bool = False


@operation(access=Access.SESSION, role="admin", https=True)
def restore(appliance: Appliance, caller: Caller, request: RestoreBackupRequest) -> OperationResult[BackupSummary]:
    """Put a backup in the place of what is there. What is replaced is kept as a backup of its own (`pre-restore`).

    The backup is verified and unpacked first; with `dryRun` that is all, and the answer is 200. Else it is 202 with the
    same summary: the service starts again on the restored store, within seconds, and answers 503 with `Retry-After`
    meanwhile. Nothing is sent again and nothing revoked lives again: sends, idempotency keys, revocations and password
    changes since the backup are carried over, and sessions are those of now. What the backup holds as being sent, or as
    due by now, and nobody knows to be over becomes `uncertain`.

    400: what is wrong with the backup, as where one is verified. 409: something else that takes long is under way,
    there is not enough room, or the configuration in the backup cannot be used.
    """
    file = appliance.store.backups.find(request.backup_id)
    with appliance.exclusive_work("restore") as progress:
        if request.dry_run:
            return OperationResult(appliance.store.backups.verify(request.backup_id, request.passphrase, progress))
        if appliance.start_restore is None:
            raise Conflict(reason="Nobody serves this appliance, so nobody can start it again.")
        prepared = _prepare_restore(appliance, caller, file, request, progress)
        appliance.start_restore(prepared, caller.actor)
        appliance.exclusive_job.never_release()  # until this appliance has stopped
    return OperationResult(prepared.summary, status=202)


def _prepare_restore(
    appliance: Appliance, caller: Caller, file: Path, request: RestoreBackupRequest, progress: Progress
) -> PreparedRestore:
    store = appliance.store
    try:
        return prepare_restore(
            store.folder,
            file,
            store.key_file,
            PresentKey(store.key, store.key_file),
            appliance.clock,
            passphrase=request.passphrase,
            check_config=settings.require_usable_config,
            progress=progress,
        )
    except Exception as error:
        with store.database.transaction(durable=True):
            store.audit.record(caller.actor, "backup.restore", ("backup", request.backup_id), "failure")
        if isinstance(error, StoreUnusable):  # the disk, the key file, or the store in the backup
            raise Conflict(reason=f"The backup was not restored. {error.message}") from error
        raise
