"""Restoring a backup: verified and unpacked while serving; then the service starts again on what was restored."""

from pathlib import Path

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, StoreUnusable
from mailbox_appliance.model.records import BackupSummary, Input, OperationResult, Progress
from mailbox_appliance.operations import configuration
from mailbox_appliance.operations.backups import BackupId, Passphrase
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.store.restore.restore import PreparedRestore, prepare_restore
from mailbox_appliance.store.restore.unpack import PresentKey


class Restoration(Input, frozen=True, kw_only=True):
    """What is to be restored. `dryRun`: only look whether it could be, and what is in it."""

    backup_id: BackupId
    passphrase: Passphrase | None = None
    dry_run: bool = False


@operation(access=Access.SESSION, role="admin", https=True, tag="restoring")
def restore(appliance: Appliance, caller: Caller, request: Restoration) -> OperationResult[BackupSummary]:
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
    with appliance.exclusive_work("A restore") as progress:
        if request.dry_run:
            return OperationResult(appliance.store.backups.verify(request.backup_id, request.passphrase, progress))
        if appliance.start_restore is None:
            raise Conflict(reason="Nobody serves this appliance, so nobody can start it again.")
        prepared = _prepared(appliance, caller, file, request, progress)
        appliance.start_restore(prepared, caller.actor)
        appliance.exclusive_job.never_release()  # until this appliance is no more
    return OperationResult(prepared.summary, status=202)


def _prepared(
    appliance: Appliance, caller: Caller, file: Path, request: Restoration, progress: Progress
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
            check_config=configuration.require_usable,
            progress=progress,
        )
    except Exception as error:
        with store.database.transaction(durable=True):
            store.audit.record(caller.actor, "backup.restore", ("backup", request.backup_id), "failure")
        if isinstance(error, StoreUnusable):  # the disk, the key file, or the store in the backup
            raise Conflict(reason=f"The backup was not restored. {error.message}") from error
        raise
