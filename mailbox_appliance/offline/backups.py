"""Backups while no appliance is running: create, list, verify."""

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
    """Create a backup. `of_store`: the passphrase of the store's key. Raises StoreUnusable, Conflict, Invalid."""
    request: CreateBackupRequest = convert_body({"passphrase": passphrase}, CreateBackupRequest)
    with open_existing_store(data_dir, of_store, progress) as store:
        made = store.backups.create("manual", request.passphrase, progress)
        with store.database.transaction(durable=True):
            store.audit.record(Actor("local"), "backup.create", ("backup", made.id))
    return to_envelope(made, (*upgrade_warnings(store.upgraded), *backup_warnings(made)))


def list_backups(data_dir: Path, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """List the backups of a data directory, newest first, without opening them.

    Raises StoreUnusable if there is neither a store nor a backup folder.
    """
    require_backups(data_dir)
    return to_envelope(
        backup_page(backups.list_backups(data_dir), limit, cursor), stray_warnings(backups.list_unlisted(data_dir))
    )


def verify(data_dir: Path, backup_id: str, passphrase: str | None, progress: Progress | None = None) -> dict[str, Any]:
    """Read and check a backup of a data directory without opening its store. Raises NotFound, BackupUnusable."""
    require_backups(data_dir)
    file = backups.find_backup(data_dir, backup_id)
    return to_envelope(backups.verify_file(file, passphrase, _find_key(data_dir, passphrase), progress))


def verify_file(file: Path, passphrase: str | None, progress: Progress | None = None) -> dict[str, Any]:
    """Read and check a backup file anywhere. Raises BackupUnusable."""
    return to_envelope(backups.verify_file(file, passphrase, None, progress))


def _find_key(data_dir: Path, passphrase: str | None) -> StoreKey | None:
    """Return the key of the store, which also opens its backups; None if it is unavailable, since they may open without
    it.
    """
    with suppress(KeyUnusable, OSError):
        return read_key(find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ))
    return None
