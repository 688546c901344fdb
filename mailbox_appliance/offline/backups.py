"""Creates, lists and verifies backups while no appliance is running."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mailbox_appliance.errors import KeyUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.offline.store import open_existing_store, require_backups, to_envelope, upgrade_warnings
from mailbox_appliance.operations.backups import CreateBackupRequest, backup_page, backup_warnings, stray_warnings
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.key import StoreKey, find_key_file, load_passphrase, read_key


def create(
    data_dir: Path, passphrase: str | None, *, of_store: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Create a backup. `passphrase`: protects the backup, if given. `of_store`: the passphrase that unlocks the store's
    key, if it has one.

    Raises StoreUnusable, Conflict, Invalid.
    """
    request: CreateBackupRequest = convert_body({"passphrase": passphrase}, CreateBackupRequest)
    with open_existing_store(data_dir, of_store, progress) as store:
        made = store.backups.create("manual", request.passphrase, progress)
        with store.database.transaction(durable=True):
            store.audit.record(Actor("local"), "backup.create", ("backup", made.id))
    return to_envelope(made, (*upgrade_warnings(store.upgraded), *backup_warnings(made)))


def list_backups(data_dir: Path, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return a page of the backups of a data directory, newest first. No backup is opened. `limit`: backups per page.

    Raises StoreUnusable if there is neither a store nor a backup folder.
    """
    require_backups(data_dir)
    return to_envelope(
        backup_page(backups.list_backups(data_dir), limit, cursor), stray_warnings(backups.list_unlisted(data_dir))
    )


def verify(data_dir: Path, backup_id: str, passphrase: str | None, progress: Progress | None = None) -> dict[str, Any]:
    """Read and check a backup of a data directory. The store is not opened. `passphrase`: of the backup, if it has one.

    Raises NotFound, BackupUnusable.
    """
    require_backups(data_dir)
    file = backups.find_backup(data_dir, backup_id)
    return to_envelope(backups.verify_file(file, passphrase, _find_key(data_dir, passphrase), progress))


def verify_file(file: Path, passphrase: str | None, progress: Progress | None = None) -> dict[str, Any]:
    """Read and check a backup file in any folder. `passphrase`: of the backup, if it has one. Raises BackupUnusable."""
    return to_envelope(backups.verify_file(file, passphrase, None, progress))


def _find_key(data_dir: Path, passphrase: str | None) -> StoreKey | None:
    """Return the key of the store, with which its backups can be opened; None if it is missing or cannot be unlocked.

    A backup that has a passphrase can be opened without the key.
    """
    with suppress(KeyUnusable, OSError):
        return read_key(find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ))
    return None
