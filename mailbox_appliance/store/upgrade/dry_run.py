"""Previews the upgrade of a store of format 3 or 4, and finds obstacles to it. Nothing on the disk is changed.

The preview runs the upgrade in memory, without data that may be too large for that: the audit log, the messages, and
the responses stored for idempotency keys. An upgrade that the preview accepts can still fail because of these.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.errors import KeyUnusable, StoreDamaged, StoreInUse, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.store import files
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.exclusive_job import ignore_progress
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.open_file import check_openable, detect_format, has_wal, load_store_key
from mailbox_appliance.store.upgrade.old_store import OldStore, attach_old_store, require_not_in_use
from mailbox_appliance.store.upgrade.upgrade import failures_as_damage, rehearse_build
from mailbox_appliance.system.files import find_lock_holder


@dataclass(frozen=True)
class UpgradePreview:
    """Result of a preview.

    - format, upgrades_to: the present format of the store, and the one after the upgrade.
    - rows: the number of rows by table; empty if the store already has the current format.
    - bytes_needed, bytes_free: disk space.
    - problems: sentences, each about an obstacle to the upgrade.
    - warnings: sentences about content that will change.
    """

    format: int
    upgrades_to: int
    rows: dict[str, int]
    bytes_needed: int
    bytes_free: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class _EmptyDatabase(Database):
    """An empty database in memory, to which the old store is attached for the preview."""

    def __init__(self) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        self._memory = apsw.Connection(":memory:", flags=flags)
        self._memory.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._memory.pragma("foreign_keys", 1)

    def _connection(self) -> apsw.Connection:
        return self._memory

    def disable_checkpoints(self) -> None:
        """Do nothing: this connection never writes a write-ahead log back into a database file."""

    def close_without_checkpoint(self) -> None:
        self._memory.close()


def preview_upgrade(
    folder: Path, key_file: Path, passphrase: str | None = None, progress: Progress | None = None
) -> UpgradePreview:
    """Check the store of a data directory as its upgrade would, and return what that would find.

    A damaged store or a wrong key is a problem in the result. Raises StoreInUse, or another StoreUnusable if the store
    cannot be read at all.
    """
    if (pid := find_lock_holder(folder / "lock")) is not None:
        raise StoreInUse(holder=f" (pid {pid})", folder=folder)
    file = (folder / DATABASE_FILE).resolve()
    number, needed, free = detect_format(file, key_file), files.room_for_backup(file), files.free_bytes(file.parent)
    if number == format_5.NUMBER:
        check_openable(file, key_file, passphrase)
        return UpgradePreview(number, number, {}, 0, free, ())
    rows: dict[str, int] = {}
    warnings: list[str] = []
    problems = list(_find_problems(file, key_file, passphrase, progress or ignore_progress, rows, warnings))
    if free < needed:
        problems.append(
            f"The upgrade needs {files.format_size(needed)} of disk space, but only {files.format_size(free)} are free."
        )
    if not os.access(file.parent, os.W_OK) or not os.access(folder, os.W_OK):
        problems.append(f"{folder} is not writable.")
    return UpgradePreview(number, format_5.NUMBER, rows, needed, free, tuple(problems), tuple(warnings))


def _find_problems(
    file: Path, key_file: Path, passphrase: str | None, tell: Progress, rows: dict[str, int], warnings: list[str]
) -> Iterator[str]:
    """Yield a sentence for each problem; add to `rows` (by table) and to `warnings`."""
    master: bytes | None = None
    try:
        master = load_store_key(key_file, file, passphrase).master
    except KeyUnusable as problem:
        yield problem.message
    try:
        with _attach_for_reading(file) as older:
            older.require_sound(tell)
            rows.update(older.count_rows())
            if master is not None:
                secrets = older.load_secrets(master, key_file)
                with failures_as_damage(file):
                    warnings += rehearse_build(older.database, older.number, secrets, SystemClock())
    except (StoreDamaged, KeyUnusable) as problem:
        yield problem.message
    except apsw.Error as error:
        raise StoreUnusable(reason=f"{file} cannot be read ({error}).") from error


@contextmanager
def _attach_for_reading(file: Path) -> Iterator[OldStore]:
    with suppress(PermissionError):  # A file that is not writable cannot be locked either.
        require_not_in_use(file)
    # Without a log no lock is needed: for an immutable file, SQLite creates no file beside it.
    place = None if has_wal(file) else f"{file.as_uri()}?immutable=1"
    with attach_old_store(_EmptyDatabase(), file, place) as older:
        yield older
