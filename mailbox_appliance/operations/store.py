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

Slots = Annotated[tuple[str, ...], Meta(description="What opens the store: `file`, `keyring`, `passphrase`.")]


class StoreKeyStatus(Wire, frozen=True, kw_only=True):
    """Where the key lies and what opens it. `problem`: why it will not open the store at the next start."""

    file: str
    slots: Slots
    problem: str | None


class LastBackup(Wire, frozen=True, kw_only=True):
    """The newest backup that lies in the data directory."""

    id: str
    at: Timestamp
    reason: BackupReason


class StoreMigration(Wire, frozen=True, kw_only=True):
    """What upgrading a store of an older format would need, and what stands in its way."""

    from_format: int
    to_format: int
    rows: dict[str, Count]
    bytes_needed: Count
    problems: tuple[str, ...]


class StoreOverview(Wire, frozen=True, kw_only=True):
    """How a store is. `format`: null where the file is none; `problem`: why it would not open; `pid`: of the process
    that has it open; `migration`: where its format is an older one; `progress`: while something long is done with it.
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
    """How thoroughly a store is to be checked."""

    full: Annotated[bool, Meta(description="Also indexes, counts, the search index and the audit log.")] = False


_QUICK_CHECK = CheckStoreRequest()


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def get_store(appliance: Appliance, caller: Caller) -> OperationResult[StoreOverview]:  # noqa: ARG001 - rights were checked
    """How the store is: its format, its size, the room on its disk, what opens it, and its newest backup."""
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
    """Look whether the store is whole, while serving; nothing is changed. What is found is in `problems`.

    A quick check reads every page and row; a full one takes some times as long, and the audit log with it. One long
    thing is done at a time: 409 else.
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
    """The status of the store in a data directory, with warnings about its disk space. The store is not opened."""
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
