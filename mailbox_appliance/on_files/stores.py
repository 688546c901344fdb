"""The store as a whole where nothing is serving: how it is, whether it is whole, compacted, given a new key.

Answers are the API's envelopes.
"""

import os
from pathlib import Path
from typing import Any

from mailbox_appliance import settings
from mailbox_appliance.errors import KeyUnusable, KeyWrong, StoreForeign, StoreNewer, StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.on_files.opening import enveloped, require_store, told_of
from mailbox_appliance.operations.stores import StoreMigration, overview
from mailbox_appliance.store.backup import backups
from mailbox_appliance.store.files import DATABASE_FILE, failures_as_unusable
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import FileSlot, find_key_file, load_passphrase, read_key_file
from mailbox_appliance.store.maintenance.check import check_closed_store
from mailbox_appliance.store.maintenance.rewrite import compact_closed_store, rekey_closed_store
from mailbox_appliance.store.open_file import check_openable, detect_format, find_lock_holder
from mailbox_appliance.store.upgrade.dry_run import UpgradePreview, preview_upgrade
from mailbox_appliance.store.upgrade.upgrade import UPGRADABLE_FORMATS

_OLDER = "It has the format of an older release: `mailbox-appliance store migrate` upgrades it, as `serve` does."
_OLD_KEY = (
    "Backups that were made before still open with the old key, as do copies of the old files. Make a backup now, and"
    " remove what should not open any more."
)
_BROKEN_LOG = "The audit log was not as it was written, and is not now: see `mailbox-appliance audit verify`."


def status(data_dir: Path) -> dict[str, Any]:
    """How the store is, or why it is none. Nothing is upgraded or changed. Raises StoreUnusable where none is there."""
    require_store(data_dir)
    key_file, pid = find_key_file(data_dir, os.environ), find_lock_holder(data_dir)
    number, problem = _recognised(data_dir, key_file, is_free=pid is None)
    is_older, migration = number in UPGRADABLE_FORMATS, None
    if is_older and pid is None:
        try:
            migration = preview_upgrade(data_dir, key_file, load_passphrase(os.environ))
        except StoreUnusable as error:
            problem = error.message
    answer = overview(
        data_dir,
        key_file,
        settings.load(data_dir / "config.toml"),
        store_format=number,
        backups=backups.list_backups(data_dir),
        pid=pid,
        migration=None if migration is None else _told(migration),
        problem=problem,
    )
    warnings = (*answer.warnings, *((_OLDER,) if is_older else ()), *(migration.warnings if migration else ()))
    return enveloped(answer.data, warnings)


def check(
    data_dir: Path, *, full: bool, passphrase: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Whether the store is whole. Nothing is upgraded or changed. Raises StoreUnusable."""
    require_store(data_dir)
    key_file, passphrase = _key(data_dir, passphrase)
    found = check_closed_store(data_dir, key_file, full=full, passphrase=passphrase, progress=progress)
    return enveloped(found, (_OLDER,) if found.format in UPGRADABLE_FORMATS else ())


def compacted(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Write the database anew without the room that deleted rows left. Raises StoreUnusable, NotEnoughRoom."""
    require_store(data_dir)
    key_file, passphrase = _key(data_dir, passphrase)
    done = compact_closed_store(data_dir, key_file, passphrase=passphrase, progress=progress)
    return enveloped({"bytesBefore": done.bytes_before, "bytesAfter": done.bytes_after}, told_of(done.upgraded))


def rekeyed(data_dir: Path, passphrase: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Give the store a new master key. Raises StoreUnusable, KeyUnusable, NotEnoughRoom."""
    require_store(data_dir)
    key_file, passphrase = _key(data_dir, passphrase)
    done = rekey_closed_store(data_dir, key_file, passphrase=passphrase, progress=progress)
    is_whole = done.audit.broken is None
    warnings = (*told_of(done.upgraded), _OLD_KEY, *(() if is_whole else (_BROKEN_LOG,)))
    return enveloped({"rekeyed": True, "auditRows": done.audit.count, "auditOk": is_whole}, warnings)


def _recognised(data_dir: Path, key_file: Path, *, is_free: bool) -> tuple[int | None, str | None]:
    """The format of what lies there, None where it is no store; and why it would not open, as far as that is seen."""
    file, number = data_dir / DATABASE_FILE, None
    try:
        with failures_as_unusable(data_dir):
            number = detect_format(file, key_file)
            if number == format_5.NUMBER and is_free and _opens_unasked(key_file):
                check_openable(file, key_file, load_passphrase(os.environ))
    except (StoreForeign, StoreNewer, KeyWrong) as error:
        return None, error.message
    except StoreUnusable as error:
        return number, error.message
    return number, None


def _opens_unasked(key_file: Path) -> bool:
    """Whether the key is had without a question to a keychain or somebody. What is wrong with it is told elsewhere."""
    try:
        there = read_key_file(key_file)
    except (KeyUnusable, OSError):
        return False
    return there is None or any(isinstance(slot, FileSlot) for slot in there.slots)


def _told(told: UpgradePreview) -> StoreMigration:
    return StoreMigration(
        from_format=told.format,
        to_format=told.upgrades_to,
        rows=told.rows,
        bytes_needed=told.bytes_needed,
        problems=told.problems,
    )


def _key(data_dir: Path, passphrase: str | None) -> tuple[Path, str | None]:
    return find_key_file(data_dir, os.environ), passphrase or load_passphrase(os.environ)
