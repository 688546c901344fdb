"""Taking a store out of a backup, in the current format.

format 5 ..... the database, with its write-ahead log merged; re-encrypted if the present store has another key
format 3, 4 .. upgraded to format 5 in a temporary folder
raw .......... the files byte for byte, for an empty directory
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import KeyDamaged, KeyUnusable, ReplacedUnopened, StoreUnusable
from mailbox_appliance.model.backups import BackupSummary, Progress
from mailbox_appliance.store.backup.container import Container, SectionName
from mailbox_appliance.store.backup.verify import is_pre_restore, summarize_backup, summarize_unpacked
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, write_private
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import (
    FileSlot,
    Slot,
    StoreKey,
    is_credential,
    read_key,
    read_key_file,
    read_salt,
    read_slots,
    render_key_file,
)
from mailbox_appliance.store.maintenance.rewrite import reencrypt_database
from mailbox_appliance.store.restore.swap import find_same_slots

_OTHER_FILES: tuple[SectionName, ...] = ("config.toml", "tls/cert.pem", "tls/key.pem")
_SCRATCH = "unpacked"
#: Checks a configuration, and raises an error if it cannot be used.
CheckConfig = Callable[[Path], None]


@dataclass(frozen=True)
class PresentKey:
    """The key of the present store and the path of its key file; a restored store uses the same."""

    key: StoreKey
    file: Path


@dataclass(frozen=True)
class UnpackedStore:
    """An unpacked store of the current format: key, slots, counts of its content, and warnings of its upgrade."""

    key: StoreKey
    slots: tuple[Slot, ...]
    summary: BackupSummary
    warnings: tuple[str, ...]


def unpack_raw(container: Container, target: Path, progress: Progress | None) -> None:
    """Write every file of a backup into a folder, byte for byte."""
    for section in container.manifest.sections:
        _extract_section(container, section.name, target, progress)


def unpack_store(
    container: Container,
    making: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    progress: Progress | None,
) -> UnpackedStore:
    """Write the store of a backup into the folder `making`, upgraded to the current format if needed, with a key file.

    `key_file`: the final path of the key file. `present`: the key of the present store; if given, the restored store is
    encrypted with it and its key file is kept but for the salt. Otherwise the key in the backup is used. Raises
    BackupUnusable, KeyUnusable, StoreUnusable, apsw.Error, OSError.
    """
    scratch = making / _SCRATCH
    scratch.mkdir(mode=0o700)
    unpack_raw(container, scratch, progress)
    summary, warnings = _inspect_and_upgrade(container, scratch, clock, progress)
    key, slots = _find_key(container, scratch)
    key = _place_database(
        scratch / DATABASE_FILE, key, making / DATABASE_FILE, None if present is None else present.key, progress
    )
    if present is not None:
        slots = read_slots(present.file, present.key.master)
    # The slots that open the present store stay as they are.
    elif (there := find_same_slots(key_file, key)) is not None:
        key, slots = replace(key, store_id=there[0]), there[1]
    _write_key_file(making / KEY_FILE, key, slots, key_file, is_known=present is not None)
    _move_other_files(scratch, making)
    shutil.rmtree(scratch)
    return UnpackedStore(key, slots, summary, warnings)


def can_write(file: Path) -> bool:
    """Whether a key file can be rewritten; a systemd credential, for example, cannot."""
    return os.access(file.resolve().parent, os.W_OK) and not is_credential(file, os.environ)


def _extract_section(container: Container, name: SectionName, target: Path, progress: Progress | None) -> None:
    file = target / name
    file.parent.mkdir(mode=0o700, exist_ok=True)
    container.extract(name, file, progress)


def _inspect_and_upgrade(
    container: Container, scratch: Path, clock: Clock, progress: Progress | None
) -> tuple[BackupSummary, tuple[str, ...]]:
    """No write-ahead log is left. Returns the counts of the content and the warnings of the upgrade."""
    if container.manifest.format == format_5.NUMBER:
        return summarize_unpacked(container, scratch / DATABASE_FILE, progress), ()
    summary = summarize_backup(container, scratch, progress)
    try:
        # Loaded only for a backup of an older release.
        from mailbox_appliance.store.upgrade.upgrade import upgrade_store

        upgraded = upgrade_store(scratch, scratch / KEY_FILE, clock, progress)
    except StoreUnusable as error:
        if not is_pre_restore(container):
            raise
        reason = error.message.replace(f"{scratch}/", "").rstrip(".")
        raise ReplacedUnopened(file=container.file.name, what="cannot be upgraded", reason=reason) from error
    return summary, upgraded.warnings


def _find_key(container: Container, scratch: Path) -> tuple[StoreKey, tuple[Slot, ...]]:
    """The slots of the manifest count if the key file is missing, damaged or has another key."""
    if container.manifest.format < format_5.NUMBER:  # It was upgraded with the key in its file.
        key = read_key(scratch / KEY_FILE)
        return key, read_slots(scratch / KEY_FILE, key.master)
    try:
        known = read_key_file(scratch / KEY_FILE)
        is_bare = known is None and read_key(scratch / KEY_FILE).master == container.key.master
    except (KeyDamaged, FileNotFoundError):
        return container.key, container.manifest.slots
    if is_bare:
        return container.key, (FileSlot(container.key.master),)
    if known is None or known.find_key(container.key.master) is None:
        return container.key, container.manifest.slots
    return replace(container.key, store_id=known.store_id, cipher=known.cipher), known.slots


def _place_database(
    file: Path, key: StoreKey, target: Path, wanted: StoreKey | None, progress: Progress | None
) -> StoreKey:
    """Return the key with the salt of the database, which is re-encrypted if `wanted` is another key."""
    if wanted is not None and (wanted.master, wanted.cipher) != (key.master, key.cipher):
        return reencrypt_database(file, key, target, wanted, progress).key
    file.rename(target)
    return (wanted or key).with_salt(read_salt(target))


def _write_key_file(target: Path, key: StoreKey, slots: tuple[Slot, ...], place: Path, *, is_known: bool) -> None:
    """A file that cannot be written stays in use if it contains the key. `is_known`: it does."""
    if can_write(place):
        write_private(target, render_key_file(key, slots))
    elif not is_known and find_same_slots(place, key) is None:
        raise KeyUnusable(reason=f"{place} cannot be written and does not contain the key of the backup.")


def _move_other_files(scratch: Path, making: Path) -> None:
    for name in _OTHER_FILES:
        if (scratch / name).exists():
            (making / name).parent.mkdir(mode=0o700, exist_ok=True)
            (scratch / name).rename(making / name)
