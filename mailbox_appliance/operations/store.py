"""The store as a whole: its status and its integrity check. For the operator and for administrators."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, structs

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import KeyUnusable
from mailbox_appliance.model.backups import Backup, BackupReason, StoreCheck
from mailbox_appliance.model.base import Count, Input, Timestamp, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.operations.operation import Access, Caller, operation
from mailbox_appliance.operations.status import StoreProgress, store_progress
from mailbox_appliance.settings import Settings
from mailbox_appliance.store import files
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import read_key_file
from mailbox_appliance.store.maintenance.check import CheckedStore, check_open_store
from mailbox_appliance.system import crashes

Slots = Annotated[
    tuple[str, ...], Meta(description="The key slots, which open the store: `file`, `keyring`, `passphrase`.")
]


class StoreKeyStatus(Wire, frozen=True, kw_only=True):
    """The store's key.

    - file: Path of the key file.
    - problem: Why the key would not open the store at the next start; null if it would.
    """

    file: str
    slots: Slots
    problem: str | None


class LastBackup(Wire, frozen=True, kw_only=True):
    """The newest backup in the data directory.

    - id: Backup ID.
    - at: When it was created.
    - reason: Why it was created.
    """

    id: str
    at: Timestamp
    reason: BackupReason


class StoreMigration(Wire, frozen=True, kw_only=True):
    """The upgrade that a store of an older format needs.

    - from_format: Its present format.
    - to_format: Its format after the upgrade.
    - rows: Number of rows, by table.
    - bytes_needed: Disk space that the upgrade needs, in bytes.
    - problems: What prevents the upgrade.
    """

    from_format: int
    to_format: int
    rows: dict[str, Count]
    bytes_needed: Count
    problems: tuple[str, ...]


class StoreOverview(Wire, frozen=True, kw_only=True):
    """The status of a store.

    - path: Path of the data directory.
    - format: Format of the store; null if it is not a store.
    - problem: Why it cannot be opened; null if it can.
    - size_bytes: Size of the store, in bytes.
    - free_bytes: Free space on its disk, in bytes.
    - low_space: Whether free space is below the warning limit (`store.low_space_mib`).
    - key: The store's key.
    - last_backup: The newest backup; null if there is none.
    - pid: ID of the process that has the store open; null if none has.
    - migration: What an upgrade would involve; null unless the store has an older format.
    - progress: The maintenance task that is running; absent if there is none.
    """

    path: str
    format: int | None
    problem: str | None
    size_bytes: Count
    free_bytes: Count
    low_space: bool
    key: StoreKeyStatus
    last_backup: LastBackup | None
    pid: Count | None
    migration: StoreMigration | None
    progress: StoreProgress | UnsetType = UNSET


class CheckStoreRequest(Input, frozen=True, kw_only=True):
    """Options of an integrity check."""

    full: Annotated[bool, Meta(description="Also check indexes, counts, the search index and the audit log.")] = False


_QUICK_CHECK = CheckStoreRequest()


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def get_store(appliance: Appliance, caller: Caller) -> OperationResult[StoreOverview]:  # noqa: ARG001 - rights were checked
    """Get the store's status.

    Returns the format and size of the store, free disk space, how its key is protected, and the newest backup.
    """
    store = appliance.store
    answer = store_overview(
        store.folder,
        store.key_file,
        appliance.settings,
        store_format=format_5.NUMBER,
        backups=store.backups.list(),
        pid=os.getpid(),
    )
    now = structs.replace(answer.data, progress=store_progress(appliance.exclusive_job))
    crash = crashes.find(store.folder)
    return OperationResult(now, (*answer.warnings, *([crashes.warning(crash)] if crash else [])))


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def check_store(appliance: Appliance, caller: Caller, request: CheckStoreRequest = _QUICK_CHECK) -> StoreCheck:  # noqa: ARG001
    """Check the store's integrity.

    Runs while the appliance serves requests, and changes nothing. `problems` lists what was found. A quick check reads
    every page and row; a full one takes several times as long and includes the audit log. Only one maintenance task
    runs at a time (409).
    """
    store = appliance.store
    with appliance.exclusive_work("store_check") as progress:
        subject = CheckedStore(store.database, store.key, store.key_file, store.audit)
        return check_open_store(subject, full=request.full, progress=progress, serving=True)


def store_overview(
    folder: Path,
    key_file: Path,
    settings: Settings,
    *,
    store_format: int | None,
    backups: Iterable[Backup],
    pid: int | None,
    migration: StoreMigration | None = None,
    problem: str | None = None,
) -> OperationResult[StoreOverview]:
    """Return the status of the store in a data directory, without opening it, and a warning if disk space is low.

    - store_format: Format of the store; None if it is not a store.
    - pid: ID of the process that has the store open; None if there is none.
    - migration: The upgrade that the store needs; None if it needs none.
    - problem: Why the store cannot be opened; None if it can.
    """
    database, low = folder / DATABASE_FILE, settings.number("store.low_space_mib")
    free, warning = files.free_bytes(folder), files.low_room_warning(database, low)
    newest = max(backups, key=lambda backup: backup.created_at, default=None)
    told = StoreOverview(
        path=str(folder),
        format=store_format,
        problem=problem,
        size_bytes=files.database_size(database),
        free_bytes=free,
        low_space=free < low * files.MIB,
        key=_key_status(key_file),
        last_backup=None if newest is None else LastBackup(id=newest.id, at=newest.created_at, reason=newest.reason),
        pid=pid,
        migration=migration,
    )
    return OperationResult(told, () if warning is None else (warning,))


def _key_status(file: Path) -> StoreKeyStatus:
    try:
        there = read_key_file(file)
    except (KeyUnusable, OSError) as error:
        problem = error.message if isinstance(error, KeyUnusable) else f"{file} cannot be read: {error.strerror}."
        return StoreKeyStatus(file=str(file), slots=(), problem=problem)
    slots = tuple(str(slot.__struct_config__.tag) for slot in there.slots) if there else ("file",)
    return StoreKeyStatus(file=str(file), slots=slots, problem=None)
