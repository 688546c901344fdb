"""Operations on backups: create, list, verify, download, restore. Their contents are encrypted: see
`store/backup/container.py`.
"""

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
    "Anyone who has this file can open it: it contains the unencrypted store key. Keep it as safe as the store itself,"
    " or create a backup with a passphrase."
)

_STRAY_TEXTS = {
    "unusable": "{one.name} in the backup folder is damaged or not a backup: run `backup verify FILE`.",
    "copy": "{one.name} in the backup folder is a copy of {one.copy_of}, which is listed.",
    "name": "{one.name} in the backup folder has a name that is not UTF-8 (shown with \\x): rename it.",
}

NewPassphrase = Annotated[
    str,
    Meta(
        min_length=12,
        max_length=1024,
    ),
]
Passphrase = Annotated[str, Meta(max_length=1024)]
BackupId = Annotated[str, Meta(min_length=1, max_length=200)]


class CreateBackupRequest(Input, frozen=True, kw_only=True):
    """Options for a new backup.

    - passphrase: Passphrase to protect the backup with, 12 to 1024 characters. The backup opens only with it; keep it
      elsewhere.
    """

    passphrase: NewPassphrase | None = None


class VerifyBackupRequest(Input, frozen=True, kw_only=True):
    """The passphrase that opens the backup.

    - passphrase: Passphrase of the backup, if it has one.
    """

    passphrase: Passphrase | None = None


_DEFAULT_BACKUP, _WITHOUT_AID = CreateBackupRequest(), VerifyBackupRequest()


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def list_backups(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001 - rights were checked
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> OperationResult[Page[Backup]]:
    """List backups.

    Returns the backups in the data directory, newest first. `verified`: it was verified when it was created, and no
    damage was found since. `warnings` name files in the folder that are not listed: damaged files, copies of a listed
    backup, and files whose name is not UTF-8.
    """
    kept = appliance.store.backups
    return OperationResult(backup_page(kept.list(), limit, cursor), stray_warnings(kept.list_unlisted()))


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def create_backup(
    appliance: Appliance, caller: Caller, request: CreateBackupRequest = _DEFAULT_BACKUP
) -> OperationResult[Backup]:
    """Create a backup.

    Backs up everything while the appliance runs. The response comes when the backup is complete and verified.

    Without a passphrase, the backup opens with the store's own key. It contains that key with the same protection as
    the key file. If a passphrase does not protect the key, there is a warning, and the backup cannot be downloaded.
    Only one maintenance task runs at a time (409).
    """
    store = appliance.store
    with appliance.exclusive_work("backup") as progress:
        made = store.backups.create("manual", request.passphrase, progress)
    with store.database.transaction(durable=True):
        store.audit.record(caller.actor, "backup.create", ("backup", made.id))
        store.changes.record("backup.finished", made.id)
    appliance.events.publish(BackupFinished(made.id))
    return OperationResult(made, () if made.passphrase_protected else (UNSEALED_WARNING,))


@operation(access=Access.SESSION, role="admin", https=True)
def download_backup(appliance: Appliance, caller: Caller, backup_id: BackupId) -> Download:
    """Download a backup.

    A backup that is not protected by a passphrase cannot be downloaded (409): create one with a passphrase. If the file
    is damaged at its beginning or is not a backup, the error is the same as for `verify`.
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
    """Verify a backup.

    Reads the whole backup, checks the database in it, and reports what it contains. Nothing is restored. Only one
    maintenance task runs at a time (409).

    Errors: `backup_wrong_passphrase` (also if it is missing), `backup_truncated`, `backup_altered`,
        `backup_newer_format` and `not_a_backup`.
    """
    with appliance.exclusive_work("backup_verification") as progress:
        return appliance.store.backups.verify(backup_id, request.passphrase, progress)


def backup_page(backups: tuple[Backup, ...], limit: int, cursor: str | None) -> Page[Backup]:
    """Return one page of a list of backups. `backups`: all of them, newest first. Raises Invalid for an invalid
    cursor.
    """
    before = decode_cursor(cursor, _BACKUP_LIST)
    found = sorted(((_sort_key(one), one) for one in backups), key=lambda each: each[0], reverse=True)
    following = [each for each in found if before is None or each[0] < before]
    more = following[limit - 1][0] if len(following) > limit else None
    return Page(items=tuple(one for _, one in following[:limit]), next_cursor=encode_cursor(more, _BACKUP_LIST))


def stray_warnings(strays: tuple[UnlistedFile, ...]) -> tuple[str, ...]:
    """Return one warning for each file in the folder `backups` that the list of backups leaves out."""
    return tuple(_STRAY_TEXTS[one.why].format(one=one) for one in strays)


def _sort_key(backup: Backup) -> int:
    """Milliseconds since 1970, then a checksum of the ID for equal times."""
    try:
        made = to_millis(from_timestamp(backup.created_at))
    except ValueError:  # the manifest has not been verified yet
        made = 0
    return made << 16 | zlib.crc32(backup.id.encode()) & 0xFFFF


def _find_backup(appliance: Appliance, backup_id: str) -> tuple[Backup, Path]:
    """Raises NotFound, or an error that describes the damage at the beginning of the file."""
    file = appliance.store.backups.find(backup_id)
    found = next((one for one in appliance.store.backups.list() if one.id == backup_id), None)
    if found is None:
        read_manifest(file)
        raise NotFound(what="backup")
    return found, file


class FileChunks(Iterator[bytes]):
    """Yields the bytes of an open file in pieces, and closes the file at its end. The file can be renamed or deleted
    before that.
    """

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
    """The backup to restore.

    - backup_id: ID of the backup.
    - passphrase: Passphrase of the backup, if it has one.
    - dry_run: Only verify that the backup can be restored, and report its contents.
    """

    backup_id: BackupId
    passphrase: Passphrase | None = None
    dry_run: bool = False


@operation(access=Access.SESSION, role="admin", https=True)
def restore(appliance: Appliance, caller: Caller, request: RestoreBackupRequest) -> OperationResult[BackupSummary]:
    """Restore a backup.

    Verifies and unpacks the backup; with `dryRun` that is all (200). Otherwise the response is 202 with the same
    summary, and the appliance restarts on the restored store within seconds. Until then it returns 503 with
    `Retry-After`. The current store is kept as a `pre-restore` backup.

    Mail is not resent, and revoked credentials stay revoked: deliveries, idempotency keys, revocations and password
    changes since the backup are carried over, and the current sessions stay valid. Messages that the backup holds as
    being sent or due by now, and whose outcome is not known, become `uncertain`.

    If the current store is not a later state of the backup, or if the backup undoes a restore, only deliveries,
    idempotency keys and revoked API keys are carried over. Then all sessions end, and scheduled messages are held.

    400: what is wrong with the backup, as for `verify`. 409: another maintenance task is running, disk space is
        insufficient, or the configuration in the backup cannot be used.
    """
    file = appliance.store.backups.find(request.backup_id)
    with appliance.exclusive_work("restore") as progress:
        if request.dry_run:
            return OperationResult(appliance.store.backups.verify(request.backup_id, request.passphrase, progress))
        if appliance.start_restore is None:
            raise Conflict(reason="This appliance does not run as a service, so it cannot restart.")
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
