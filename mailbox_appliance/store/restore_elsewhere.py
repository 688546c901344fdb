"""Unpacking a backup into an empty directory: as a store of its own, or byte for byte as the files were."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import Conflict, ReplacedUnopened
from mailbox_appliance.records import BackupSummary, Progress
from mailbox_appliance.store import room, swap
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup_content import summary_of
from mailbox_appliance.store.backups import verify_file
from mailbox_appliance.store.carry_over import Carried
from mailbox_appliance.store.container import Container, open_container
from mailbox_appliance.store.files import KEY
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.manifest import Manifest
from mailbox_appliance.store.restore import complete, prepare_from, telling
from mailbox_appliance.store.unpacking import unpack_raw


@dataclass(frozen=True)
class Elsewhere:
    """What was unpacked elsewhere: what it holds, as far as it was looked at; `why` it was not, if so.

    `carried`: it is a store of its own; None: the files byte for byte as they were.
    """

    manifest: Manifest
    summary: BackupSummary | None
    carried: Carried | None = None
    why: str = ""


def unpack_to(
    file: Path,
    target: Path,
    clock: Clock,
    *,
    passphrase: str | None = None,
    key: StoreKey | None = None,
    progress: Progress | None = None,
) -> Elsewhere:
    """Unpack a backup into a directory that is empty or not there.

    A store of an older format comes byte for byte as it was, and so does what a restore replaced where nothing opens
    it. Any other opens there as a store of its own, that knows nothing of what happened since. `key`: of the store that
    it may be of. Raises as `prepare`, Conflict where there is something.
    """
    container = open_container(file, passphrase=passphrase, key=key)
    is_new = _made(target)
    try:
        if container.manifest.format < format_5.NUMBER:
            return _unpack_as_it_was(container, target, progress)
        try:
            prepared = prepare_from(container, target, target / KEY, None, clock, None, progress)
        except ReplacedUnopened:
            return _unpack_as_it_was(container, target, progress)
        restored = complete(prepared, clock, Actor("local"), progress)
        with telling(target):
            swap.finish(target, target / KEY)
    except BaseException:
        _remove_what_was_made(target, is_new=is_new)
        raise
    return Elsewhere(container.manifest, prepared.summary, restored.carried)


def look_before(
    file: Path,
    target: Path,
    *,
    passphrase: str | None = None,
    key: StoreKey | None = None,
    progress: Progress | None = None,
) -> Elsewhere:
    """Read all of a backup, and tell what `unpack_to` would unpack; nothing is made there. Raises as that does."""
    manifest = open_container(file, passphrase=passphrase, key=key).manifest
    with telling(target):
        _require_empty(target)
    try:
        return Elsewhere(manifest, verify_file(file, passphrase, key, progress))
    except ReplacedUnopened as problem:
        return Elsewhere(manifest, None, why=problem.message)


def _unpack_as_it_was(container: Container, target: Path, progress: Progress | None) -> Elsewhere:
    with telling(target):
        room.require_room(target, container.manifest.content_size)
        making = swap.begin(target)
        summary, why = None, ""
        try:
            summary = summary_of(container, making, progress)
        except ReplacedUnopened as problem:
            why = problem.message
        unpack_raw(container, making, progress)
        swap.decide(target)
        swap.finish(target, target / KEY)
    return Elsewhere(container.manifest, summary, why=why)


def _made(target: Path) -> bool:
    """Make a directory where there is none, which is answered. Raises Conflict where there is something in it."""
    with telling(target):
        _require_empty(target)
        is_new = not target.exists()
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        return is_new


def _require_empty(target: Path) -> None:
    """Raise Conflict for what is there, and no empty directory."""
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(reason=f"{target} is not an empty directory. Name one that is, or that is not there yet.")


def _remove_what_was_made(target: Path, *, is_new: bool) -> None:
    """Nothing else lay there."""
    for left in target.iterdir():
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    if is_new:
        with suppress(OSError):
            target.rmdir()
