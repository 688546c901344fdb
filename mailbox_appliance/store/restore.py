"""Restoring a backup: unpacked and checked beside the store, brought up to date with it, and put in its place at once.

    prepare    while the store is in use        .next.making/  the store of the backup, of this format, found good
    complete   its files are closed             backups/...-pre-restore  what is replaced, as it lies there
                                                carry_over     what was sent and revoked since; `backup.restore` audited
                                                one rename     decides (store/swap)
    put_back   where the new one does not open  the same way back, from the pre-restore backup

Whatever fails before the rename leaves the store as it was. The key file of a present store that opens stays in force,
and so does the certificate that is there: clients have pinned it, and the one before was perhaps given up for a reason.
"""

import errno
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import KeychainLocked, NotEnoughRoom, PassphraseNeeded, StoreUnusable
from mailbox_appliance.model.records import BackupSummary, Progress
from mailbox_appliance.store import own_certificate, room, swap
from mailbox_appliance.store.audit import Actor, Audit
from mailbox_appliance.store.backup_files import bundle
from mailbox_appliance.store.carry_over import Carried, carry_nothing, carry_over
from mailbox_appliance.store.container import Container, Source, open_container
from mailbox_appliance.store.database import FAILED, Database
from mailbox_appliance.store.files import DATABASE, KEY
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key_slots import Slot
from mailbox_appliance.store.keyfile import StoreKey, read_key
from mailbox_appliance.store.kinship import Made
from mailbox_appliance.store.manifest import SECTION_NAMES, SectionName
from mailbox_appliance.store.opening import format_of, log_of, look_with
from mailbox_appliance.store.replaced_key import keep_beside
from mailbox_appliance.store.unpacking import CheckConfig, PresentKey, may_write, unpack, unpack_raw

log = logging.getLogger(__name__)

_BESIDE: tuple[SectionName, ...] = ("config.toml", *own_certificate.NAMES)
#: How often the content of a backup lies on the disk while it is unpacked: once, and once more encrypted anew or
#: upgraded; an upgrade makes a backup of its own besides.
_TWICE, _UPGRADED = 2, 4


@dataclass(frozen=True)
class Prepared:
    """A backup that is unpacked and found good. `key` opens what was unpacked; `slots` are how it lies in its file."""

    folder: Path
    making: Path
    key_file: Path
    backup_id: str
    summary: BackupSummary
    key: StoreKey
    slots: tuple[Slot, ...]
    #: The present store opens, with `key`.
    present_opens: bool
    origin: Made | None = None
    #: What upgrading the store in the backup told.
    warnings: tuple[str, ...] = ()
    #: The certificate that is there stays; that of the backup is left out.
    keeps_certificate: bool = False


@dataclass(frozen=True)
class Restored:
    """What became of it: what was carried over, and the backup of what was replaced, if there was anything."""

    carried: Carried
    kept: Path | None
    #: Where the key file lies that was in the place of the restored one, if it held another key.
    kept_key: Path | None = None


def prepare(
    folder: Path,
    file: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    *,
    passphrase: str | None = None,
    check_config: CheckConfig | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Unpack and check a backup beside the store of a data directory, which may be in use. Under the directory's lock.

    `present`: the store that is there, where it opens. What is unpacked stays there for `complete`, or for
    `swap.discard`. Raises BackupUnusable, NotEnoughRoom, StoreUnusable, what `check_config` raises; then nothing is
    left of it.
    """
    container = open_container(file, passphrase=passphrase, key=None if present is None else present.key)
    return prepare_from(container, folder, key_file, present, clock, check_config, progress)


def prepare_from(
    container: Container,
    folder: Path,
    key_file: Path,
    present: PresentKey | None,
    clock: Clock,
    check_config: CheckConfig | None,
    progress: Progress | None,
) -> Prepared:
    """The same of a backup that is open already."""
    with telling(folder):
        room.require_room(folder, _needed(container, folder, present))
        making = swap.begin(folder)
        try:
            made = unpack(container, making, key_file, present, clock, progress)
            keeps_certificate = _keep_certificate(folder, making)
            if check_config is not None and (making / "config.toml").exists():
                check_config(making / "config.toml")
        except BaseException:
            swap.discard(folder)
            raise
    of, is_known = container.manifest, present is not None
    when = Made(of.created_at, of.reason, of.format)
    keys = made.key, made.slots
    return Prepared(
        folder, making, key_file, of.id, made.summary, *keys, is_known, when, made.warnings, keeps_certificate
    )


def complete(prepared: Prepared, clock: Clock, actor: Actor, progress: Progress | None = None) -> Restored:
    """Let what was prepared take the place of what is there; `Store.open_locked` moves it there. Its files are closed.

    Raises NotEnoughRoom, BackupNotMade, StoreUnusable; then the store that was there is still the one.
    """
    kept_key = None
    try:
        with telling(prepared.folder):
            kept = _keep_present(prepared, clock, progress)
            carried = try_out(prepared, clock, actor)
            if not prepared.present_opens:
                _see_that_it_opens(prepared)
                kept_key = keep_beside(prepared.key_file, prepared.key, clock.now())
            _keep_certificate(prepared.folder, prepared.making)  # one may have been made meanwhile
            swap.decide(prepared.folder, prepared.key_file)
    except BaseException:
        swap.discard(prepared.folder)
        if kept_key is not None and not swap.is_decided(prepared.folder):
            kept_key.unlink()
        raise
    return Restored(carried, kept, kept_key)


def try_out(prepared: Prepared, clock: Clock, actor: Actor, *, leave_present: bool = False) -> Carried:
    """Carry over into what was prepared, and nothing more; `leave_present`: not even the present store's log is
    folded into it, as everybody else would do who closes it."""
    database = Database(prepared.making / DATABASE, prepared.key.cipher, prepared.key.derive("database"))
    try:
        carried = _carried(database, prepared, clock, leave_present=leave_present)
        audit = Audit(database, prepared.key.derive("audit"), clock)
        with database.transaction(durable=True):
            audit.record(actor, "backup.restore", ("backup", prepared.backup_id))
    finally:
        is_closed = database.close()
    if not leave_present and (not is_closed or log_of(prepared.making / DATABASE).exists()):
        raise StoreUnusable(reason="the restored database could not be closed.")
    return carried


def _see_that_it_opens(prepared: Prepared) -> None:
    """With the very key file that it gets, as far as that is told without a passphrase. Raises StoreUnusable."""
    made = prepared.making / KEY
    try:
        key = read_key(made if made.exists() else prepared.key_file)
    except (PassphraseNeeded, KeychainLocked):
        return  # somebody has what opens it
    look_with(prepared.making / DATABASE, replace(key, cipher=prepared.key.cipher))


def _carried(database: Database, prepared: Prepared, clock: Clock, *, leave_present: bool) -> Carried:
    if not prepared.present_opens:
        return carry_nothing(database, clock.now())
    present = prepared.folder / DATABASE
    leave_log = leave_present and log_of(present).exists()
    try:
        return carry_over(database, present, prepared.key, clock.now(), made=prepared.origin, leave_log=leave_log)
    except (apsw.CorruptError, apsw.NotADBError):  # damage may well be why it is restored
        log.exception("the store that is replaced is damaged, so nothing is carried over from it")
        return carry_nothing(database, clock.now(), "a page of it cannot be read")


def put_back(prepared: Prepared, kept: Path) -> None:
    """Let what a restore replaced be the store again, as it lay there: `kept` is its backup. As `complete`."""
    folder, container = prepared.folder, open_container(kept, key=prepared.key)
    with telling(folder):
        making = swap.begin(folder)
        try:
            unpack_raw(container, making, None)
            if not may_write(prepared.key_file):
                (making / KEY).unlink(missing_ok=True)
            replaced = ("config.toml",) if prepared.keeps_certificate else _BESIDE
            if prepared.keeps_certificate:
                shutil.rmtree(making / own_certificate.FOLDER, ignore_errors=True)
            absent = [name for name in replaced if container.manifest.find_section(name) is None]
            swap.decide(folder, prepared.key_file, absent)
        except BaseException:
            swap.discard(folder)
            raise


def _keep_certificate(folder: Path, making: Path) -> bool:
    """Leave out what was unpacked of a certificate where there is one; answers whether there is."""
    if not own_certificate.is_whole(folder):
        return False
    shutil.rmtree(making / own_certificate.FOLDER, ignore_errors=True)
    return True


def _needed(container: Container, folder: Path, present: PresentKey | None) -> int:
    content = container.manifest.content_size
    if container.manifest.format < format_5.NUMBER:
        content *= _UPGRADED
    elif present is not None and present.key.master != container.key.master:
        content *= _TWICE
    # What is replaced is kept as a backup.
    return content + room.needed_for_copy(folder / DATABASE)


def _keep_present(prepared: Prepared, clock: Clock, progress: Progress | None) -> Path | None:
    """Keep the files that are to be replaced, as they lie there; answers where, or None where there is no store."""
    folder = prepared.folder
    places = {name: swap.target_of(folder, name, prepared.key_file) for name in SECTION_NAMES}
    certificate = own_certificate.contents(folder)
    files = {name: place for name, place in places.items() if place.is_file() and name not in own_certificate.NAMES}
    sources = [Source(name, content) for name, content in (files | certificate).items()]
    if not places[DATABASE].is_file():
        return None
    number = format_of(folder / DATABASE) or format_5.NUMBER
    with bundle(folder, "pre-restore", sources, prepared.key, prepared.slots, number, clock, progress) as made:
        return made.publish()


@contextmanager
def telling(folder: Path) -> Iterator[None]:
    """What the disk or SQLite refuses is told as NotEnoughRoom or StoreUnusable."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(folder) from error
        raise StoreUnusable(reason=f"{error.filename or folder}: {error.strerror}.") from error
    except apsw.FullError as error:
        raise _full(folder) from error
    except FAILED as error:
        raise StoreUnusable(reason=f"the database of the backup cannot be restored ({error}).") from error


def _full(folder: Path) -> NotEnoughRoom:
    free = room.written(room.free_bytes(folder))
    return NotEnoughRoom(needed="more", folder=folder, free=f"only {free}")
