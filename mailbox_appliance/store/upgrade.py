"""Stores of formats 3 and 4 become one of format 5: the new file is made beside the old one, and one rename decides.

    1  the raw files go into a migration backup, before anything opens them; nobody sees it yet
    2  the old store is looked through (store/older): every page, value and secret
    3  mailbox.db.new is filled in one transaction, compared with the old one, checked, and put on the disk
    4  the old log is folded in and removed: beside the new file it would be written into that
    5  the backup gets its name, the new file its own; then the key file its new form

Whenever it stops before the rename, the old store is as it was, or has its log folded in; the next start begins anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import StoreInUse, StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import room
from mailbox_appliance.store.backup_files import FOLDER, bundle
from mailbox_appliance.store.container import Source
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.files import DATABASE, KEY, remove_database, unfinished
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey, keep_key, new_key, slots_in
from mailbox_appliance.store.long_work import tell_nobody
from mailbox_appliance.store.manifest import SECTION_NAMES
from mailbox_appliance.store.older import Older, attached, require_released, seen
from mailbox_appliance.store.opening import format_of, key_in, log_of, look_with, require_uncut
from mailbox_appliance.store.rebuilding import build, compare, telling_damage
from mailbox_appliance.system.files import replace_file, sync_file, sync_folder

#: The formats that can be upgraded.
OLDER = (3, 4)
_CACHE_KIB = 32 * 1024


@dataclass(frozen=True)
class Upgraded:
    """What was done to a store: the format that it had, the file name of the backup that it lies in, and what is to be
    told of its content, a sentence each.
    """

    format: int
    backup: str
    warnings: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in sentences, for who did not ask for an upgrade."""
        done = f"The store was upgraded from format {self.format} to {format_5.NUMBER}; the old one lies in"
        return (f"{done} {FOLDER}/{self.backup}.", *self.warnings)


def upgrade(
    folder: Path, key_file: Path, clock: Clock, progress: Progress | None = None, *, passphrase: str | None = None
) -> Upgraded:
    """Bring the store of a data directory to this format. Under the directory's lock.

    Raises a StoreUnusable that says what is wrong, NotEnoughRoom and BackupNotMade; then the old store is complete.
    """
    tell = progress or tell_nobody
    file = (folder / DATABASE).resolve()  # a link stays one, and the new file lies where the old one is
    remove_database(unfinished(file))
    key = _key(key_file, file, passphrase)
    require_released(file)
    require_uncut(file)
    room.require_room(file.parent, room.needed_for_backup(file))
    number, sources, before = format_of(file) or 0, _sources(folder, file, key_file), seen(file)
    with (
        _no_empty_folder(folder / FOLDER),
        bundle(folder, "migration", sources, key, slots_in(key_file, key.master), number, clock, progress) as backup,
    ):
        made = unfinished(file)
        try:
            warnings = _make(made, file, key, key_file, clock, before, tell)
            kept = backup.publish()
            _replace(file, made, kept)
        finally:
            remove_database(made)
    _finish(file, key_file, key)
    return Upgraded(number, kept.name, warnings)


@contextmanager
def _no_empty_folder(backups: Path) -> Iterator[None]:
    """Where nothing comes of it, no folder is left that was not there."""
    was_there = backups.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):
                backups.rmdir()
        raise


def _key(key_file: Path, file: Path, passphrase: str | None) -> StoreKey:
    key = key_in(key_file, file, passphrase)
    return replace(new_key(), master=key.master) if key.is_bare else key


def _sources(folder: Path, file: Path, key_file: Path) -> list[Source]:
    """Everything that makes up the old directory, as it lies there."""
    elsewhere = {DATABASE: file, f"{DATABASE}-wal": log_of(file), KEY: key_file}
    places = [(name, elsewhere.get(name, folder / name)) for name in SECTION_NAMES]
    return [Source(name, path) for name, path in places if path.exists()]


def _make(
    made: Path, file: Path, key: StoreKey, key_file: Path, clock: Clock, before: object, tell: Progress
) -> tuple[str, ...]:
    """The new store, complete and on the disk; the old one's log folded in and removed. Answers what is to be told."""
    made.touch(mode=0o600)
    with _opened(made, file, key) as (database, older):
        if seen(file) != before:
            raise StoreInUse(holder="", folder=file.parent)
        older.require_sound(tell)
        secrets = older.load_secrets(key.master, key_file)
        with telling_damage(file):
            built = build(database, older.number, key, secrets, clock, tell)
    with _opened(made, file, key) as (database, older):
        with telling_damage(file):
            compare(database, older.number, secrets, built.since, tell)
        if database.value("PRAGMA main.quick_check(1)") != "ok":
            raise StoreUnusable(reason=f"{made} is not as it was written. Is the disk in order?")
        _fold(database, file)
    look_with(made, key)
    sync_file(made)
    return built.warnings


@contextmanager
def _opened(made: Path, file: Path, key: StoreKey) -> Iterator[tuple[Database, Older]]:
    """The new store with the old one attached. No journal: what is not finished is thrown away."""
    database = Database(made, key.cipher, key.derive("database"))
    with attached(database, file) as older:
        for pragma in ("journal_mode = off", "synchronous = off", f"cache_size = -{_CACHE_KIB}"):
            database.rows(f"PRAGMA main.{pragma}")
        yield database, older


def _fold(database: Database, file: Path) -> None:
    """Have all of the old store in its file, so that its log can go."""
    ((is_busy, *_),) = database.rows("PRAGMA old.wal_checkpoint(TRUNCATE)")
    if is_busy:
        raise StoreInUse(holder="", folder=file.parent)


def _replace(file: Path, made: Path, kept: Path) -> None:
    """The new file takes the place of the old one. Where that fails, the backup is of no use to anybody."""
    try:
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        sync_folder(file.parent)
        replace_file(made, file)
    except BaseException:
        with suppress(OSError):
            kept.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def _finish(file: Path, key_file: Path, key: StoreKey) -> None:
    """The key file learns of the new store. One that lies where we may not write opens it as it is."""
    with file.open("rb") as handle:
        salt = handle.read(16).hex()
    with suppress(OSError):  # the next start tries it again
        keep_key(key_file, key.with_salt(salt))
