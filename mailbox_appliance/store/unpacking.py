"""Taking a store out of a backup, so that it can take the place of the one that is there.

format 5 ..... database, its log folded in; encrypted anew where the present store has another key
format 3, 4 .. upgraded on the way, in a folder of its own: what is there afterwards is of this format
as it was .... the files byte for byte, for an empty directory
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import KeyDamaged, KeyUnusable, ReplacedUnopened, StoreUnusable
from mailbox_appliance.model.records import BackupSummary, Progress
from mailbox_appliance.store.backup_content import keeps_what_was_replaced, summary_of, summary_of_unpacked
from mailbox_appliance.store.container import Container
from mailbox_appliance.store.files import DATABASE, KEY, write_private
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key_place import is_lent
from mailbox_appliance.store.key_slots import Slot, wrap_file
from mailbox_appliance.store.keyfile import StoreKey, read_file, read_key, render, slots_in
from mailbox_appliance.store.manifest import SectionName
from mailbox_appliance.store.reencrypt import reencrypt
from mailbox_appliance.store.replaced_key import slots_there
from mailbox_appliance.store.upgrade import upgrade

_BESIDE: tuple[SectionName, ...] = ("config.toml", "tls/cert.pem", "tls/key.pem")
_SCRATCH = "unpacked"
#: Looks whether a configuration can be used; raises what says that it cannot.
CheckConfig = Callable[[Path], None]


@dataclass(frozen=True)
class PresentKey:
    """What opens the present store, and stays in force: the key, and the file that it lies in."""

    key: StoreKey
    file: Path


@dataclass(frozen=True)
class Unpacked:
    """A database of this format in a folder, the key that opens it, what it holds, and what its upgrade told."""

    key: StoreKey
    slots: tuple[Slot, ...]
    summary: BackupSummary
    warnings: tuple[str, ...]


def unpack_raw(container: Container, target: Path, progress: Progress | None) -> None:
    """Write every file of a backup into a folder as it was."""
    for section in container.manifest.sections:
        _extract(container, section.name, target, progress)


def unpack(
    container: Container,
    making: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    progress: Progress | None,
) -> Unpacked:
    """Put a store of this format into the folder `making`, with a key file that is to lie at `key_file`.

    With the present store's key it opens with that, and its key file changes nothing but the beginning it knows of the
    database; else with the key in the backup. Raises BackupUnusable, KeyUnusable, StoreUnusable, apsw.Error, OSError.
    """
    scratch = making / _SCRATCH
    scratch.mkdir(mode=0o700)
    unpack_raw(container, scratch, progress)
    summary, warnings = _examined(container, scratch, clock, progress)
    key, slots = _key_of(container, scratch)
    key = _settle(scratch / DATABASE, key, making / DATABASE, None if present is None else present.key, progress)
    if present is not None:
        slots = slots_in(present.file, present.key.master)
    elif (there := slots_there(key_file, key)) is not None:  # what opens the store now stays as it is
        key, slots = replace(key, store_id=there[0]), there[1]
    _write_key_file(making / KEY, key, slots, key_file, is_known=present is not None)
    _take_beside(scratch, making)
    shutil.rmtree(scratch)
    return Unpacked(key, slots, summary, warnings)


def may_write(file: Path) -> bool:
    """Whether a key file can be written anew: one that systemd gives, say, cannot."""
    return os.access(file.resolve().parent, os.W_OK) and not is_lent(file, os.environ)


def _extract(container: Container, name: SectionName, target: Path, progress: Progress | None) -> None:
    file = target / name
    file.parent.mkdir(mode=0o700, exist_ok=True)
    container.extract(name, file, progress)


def _examined(
    container: Container, scratch: Path, clock: Clock, progress: Progress | None
) -> tuple[BackupSummary, tuple[str, ...]]:
    """Look through what was unpacked, and leave a database of this format there, without a log."""
    if container.manifest.format == format_5.NUMBER:
        return summary_of_unpacked(container, scratch / DATABASE, progress), ()
    summary = summary_of(container, scratch, progress)
    try:
        upgraded = upgrade(scratch, scratch / KEY, clock, progress)
    except StoreUnusable as error:
        if not keeps_what_was_replaced(container):
            raise
        reason = error.message.replace(f"{scratch}/", "").rstrip(".")
        raise ReplacedUnopened(file=container.file.name, what="cannot be upgraded", reason=reason) from error
    return summary, upgraded.warnings


def _key_of(container: Container, scratch: Path) -> tuple[StoreKey, tuple[Slot, ...]]:
    """What opens the unpacked database, and how the key lay in its file; where that is missing, damaged or another's,
    as among what was replaced, how it lies in the backup.
    """
    if container.manifest.format < format_5.NUMBER:  # it was upgraded by the key in its file
        key = read_key(scratch / KEY)
        return key, slots_in(scratch / KEY, key.master)
    try:
        known = read_file(scratch / KEY)
        is_bare = known is None and read_key(scratch / KEY).master == container.key.master
    except (KeyDamaged, FileNotFoundError):
        return container.key, container.manifest.slots
    if is_bare:
        return container.key, (wrap_file(container.key.master),)
    if known is None or known.find_key(container.key.master) is None:
        return container.key, container.manifest.slots
    return replace(container.key, store_id=known.store_id, cipher=known.cipher), known.slots


def _settle(file: Path, key: StoreKey, target: Path, wanted: StoreKey | None, progress: Progress | None) -> StoreKey:
    """Bring the database to its place, encrypted with the key that is wanted; answers the key that knows it."""
    if wanted is not None and (wanted.master, wanted.cipher) != (key.master, key.cipher):
        return reencrypt(file, key, target, wanted, progress).key
    file.rename(target)
    with target.open("rb") as handle:
        return (wanted or key).with_salt(handle.read(16).hex())


def _write_key_file(target: Path, key: StoreKey, slots: tuple[Slot, ...], place: Path, *, is_known: bool) -> None:
    """The key file as it is to be. One that cannot be written stays: it holds the key that is wanted, or nothing goes.

    `place` is where it is to lie.
    """
    if may_write(place):
        write_private(target, render(key, slots))
    elif not is_known and slots_there(place, key) is None:
        raise KeyUnusable(reason=f"{place} cannot be written, and does not hold the key of the backup.")


def _take_beside(scratch: Path, making: Path) -> None:
    for name in _BESIDE:
        if (scratch / name).exists():
            (making / name).parent.mkdir(mode=0o700, exist_ok=True)
            (scratch / name).rename(making / name)
