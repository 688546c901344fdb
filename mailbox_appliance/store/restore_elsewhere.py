"""Unpacking a backup into an empty directory: as a store of its own, or byte for byte as the files were."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import Conflict, ReplacedUnopened
from mailbox_appliance.model.records import BackupSummary, Progress
from mailbox_appliance.store import room, swap
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.backup_content import summary_of
from mailbox_appliance.store.carry_over import Carried
from mailbox_appliance.store.container import Container, open_container
from mailbox_appliance.store.files import KEY
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.manifest import Manifest
from mailbox_appliance.store.restore import complete, prepare_from, telling, try_out
from mailbox_appliance.store.unpacking import unpack_raw
from mailbox_appliance.system import ownership


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
    clock: Clock,
    *,
    passphrase: str | None = None,
    key: StoreKey | None = None,
    progress: Progress | None = None,
) -> Elsewhere:
    """Tell what `unpack_to` would make of a backup, from trying it: where it would be, in a folder that is there
    meanwhile only. Raises as that does.
    """
    container = open_container(file, passphrase=passphrase, key=key)
    with _tried_at(target) as folder:
        if container.manifest.format < format_5.NUMBER:
            return _looked_as_it_was(container, folder, progress)
        try:
            prepared = prepare_from(container, folder, folder / KEY, None, clock, None, progress)
        except ReplacedUnopened:
            return _looked_as_it_was(container, folder, progress)
        with telling(target):
            carried = try_out(prepared, clock, Actor("local"))
    return Elsewhere(container.manifest, prepared.summary, carried)


def _unpack_as_it_was(container: Container, target: Path, progress: Progress | None) -> Elsewhere:
    with telling(target):
        room.require_room(target, container.manifest.content_size)
        making = swap.begin(target)
        found = _looked_as_it_was(container, making, progress)
        unpack_raw(container, making, progress)
        swap.decide(target)
        swap.finish(target, target / KEY)
    return found


def _looked_as_it_was(container: Container, folder: Path, progress: Progress | None) -> Elsewhere:
    """What is in files that stay as they were; it is looked at in a folder on the same disk."""
    with telling(folder):
        room.require_room(folder, container.manifest.content_size)
        try:
            return Elsewhere(container.manifest, summary_of(container, folder, progress))
        except ReplacedUnopened as problem:
            return Elsewhere(container.manifest, None, why=problem.message)


@contextmanager
def _tried_at(target: Path) -> Iterator[Path]:
    """A folder on the disk of an empty directory, or of one to be made; it goes in the end. Raises as `_made`."""
    with telling(target):
        _require_empty(target)
        there = next(each for each in (target, *target.parents) if os.path.lexists(each))
        try:
            folder = Path(tempfile.mkdtemp(prefix=".mailbox-appliance-", dir=there))
        except OSError as error:  # of the directory that was named, not of a name that nobody has heard of
            raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        yield folder
    finally:
        with telling(target):
            shutil.rmtree(folder)


def _made(target: Path) -> bool:
    """Make a directory where there is none, which is answered. Raises Conflict where there is something in it."""
    with telling(target):
        _require_empty(target)
        is_new = not target.exists()
        ownership.make_folder(target)
        ownership.restrict_modes(target, target / KEY)
        return is_new


def _require_empty(target: Path) -> None:
    """Raise Conflict for what is there and is not an empty directory, StoreUnusable for another user's directory."""
    ownership.require_own(target)
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
