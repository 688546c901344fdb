"""The store: a data directory opened, locked and ready, with one part for each kind of thing in it.

DIR/lock            owned by one process        DIR/mailbox.db      the encrypted database, with -wal and -shm
DIR/encryption.key  the key in its slots        DIR/mailbox.db.new  a store being made; never opened, thrown away
DIR/.next           files that replace others together (store/swap)         DIR/backups         see store/container
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mailbox_appliance.clock import Clock, SystemClock, to_timestamp
from mailbox_appliance.errors import StoreDamaged
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store import accepted, key_place, room, swap
from mailbox_appliance.store.accounts import Accounts
from mailbox_appliance.store.api_keys import ApiKeys
from mailbox_appliance.store.attempts import Attempts
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.backup_files import remove_unfinished
from mailbox_appliance.store.backups import Backups
from mailbox_appliance.store.credentials import Credentials
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.deliveries import Deliveries
from mailbox_appliance.store.delivery_lists import DeliveryLists
from mailbox_appliance.store.delivery_timelines import DeliveryTimelines
from mailbox_appliance.store.due import Due
from mailbox_appliance.store.failing import failures_as_unusable as failures_as_unusable
from mailbox_appliance.store.files import DATABASE, KEY, remove_database, remove_half_written, unfinished
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.history import History
from mailbox_appliance.store.invitations import Invitations
from mailbox_appliance.store.keyfile import StoreKey, drop_half_written, keep_key, new_key, write_key
from mailbox_appliance.store.legacy_keys import LegacyKeys
from mailbox_appliance.store.lock import DirectoryLock
from mailbox_appliance.store.members import Members
from mailbox_appliance.store.messages import Messages
from mailbox_appliance.store.mirror import Mirror
from mailbox_appliance.store.oauth_apps import OAuthApps
from mailbox_appliance.store.oauth_logins import OAuthLogins
from mailbox_appliance.store.opening import format_of, key_in, log_of, look_with, open_database
from mailbox_appliance.store.part_cache import PartCache
from mailbox_appliance.store.schema import put_back_triggers
from mailbox_appliance.store.sender_addresses import SenderAddresses
from mailbox_appliance.store.sent_copies import SentCopies
from mailbox_appliance.store.stored_settings import StoredSettings
from mailbox_appliance.store.upgrade import OLDER, Upgraded, upgrade
from mailbox_appliance.store.upkeep import Upkeep
from mailbox_appliance.system import ownership
from mailbox_appliance.system.files import replace_file, sync_folder
from mailbox_appliance.version import __version__


class Store:
    """An open store. Close it, and its lock ends with it."""

    def __init__(
        self, folder: Path, lock: DirectoryLock, database: Database, key: StoreKey, clock: Clock, key_file: Path
    ) -> None:
        self.folder = folder
        self.database = database
        self.key, self.key_file = key, key_file
        self.lock = lock
        #: Where opening it brought it to this format: what that did.
        self.upgraded: Upgraded | None = None
        self.audit = Audit(database, key.derive("audit"), clock)
        self.members = Members(database, clock)
        self.one_time_tokens = Invitations(database, clock)
        self.credentials = Credentials(database, clock)
        self.login_attempts = Attempts(database, clock)
        self.api_keys = ApiKeys(database, clock)
        self.oauth_apps = OAuthApps(database, clock)
        self.stored_settings = StoredSettings(database)
        self.accounts = Accounts(database, clock)
        self.oauth_logins = OAuthLogins(database, clock)
        self.sender_addresses = SenderAddresses(database)
        self.folders = Folders(database)
        self.messages = Messages(database)
        self.mailbox_writer = Mirror(database, self.folders)
        self.part_cache = PartCache(database, clock)
        self.delivery_lists = DeliveryLists(database, clock)
        self.deliveries = Deliveries(database, self.delivery_lists, self.mailbox_writer, clock)
        self.sent_copies = SentCopies(database, clock)
        self.schedule = Due(database)
        self.delivery_timelines = DeliveryTimelines(database)
        self.history = History(database)
        self.legacy_keys = LegacyKeys(database, clock)
        self.cleaner = Upkeep(database, clock, self.part_cache)
        self.backups = Backups(folder, database, key, key_file, clock)

    @classmethod
    def open(
        cls,
        folder: Path,
        clock: Clock | None = None,
        key_file: Path | None = None,
        *,
        passphrase: str | None = None,
        progress: Progress | None = None,
    ) -> "Store":
        """Open the store in a data directory, or make a new one where there is none; an older format is upgraded.

        The key may be kept elsewhere, and be locked by a passphrase. `progress` is told of an upgrade. Raises a
        StoreUnusable that says what is wrong, NotEnoughRoom; then nothing on the disk was changed but `lock`.
        """
        clock, key_file = clock or SystemClock(), key_file or folder / KEY
        with failures_as_unusable(folder):
            ownership.make_folder(folder)
            lock = DirectoryLock(folder)
            try:
                return cls.open_locked(folder, lock, clock, key_file, passphrase=passphrase, progress=progress)
            except BaseException:
                lock.release()
                raise

    @classmethod
    def open_locked(
        cls,
        folder: Path,
        lock: DirectoryLock,
        clock: Clock,
        key_file: Path,
        *,
        passphrase: str | None = None,
        progress: Progress | None = None,
    ) -> "Store":
        """The same under a lock that is held already, and stays so whatever comes of it; the store takes it over."""
        file, upgraded = folder / DATABASE, None
        ownership.close_to_other_writers(folder)
        swap.finish(folder, key_file)
        _drop_unfinished(file)
        remove_unfinished(folder)
        # A link that leads nowhere, say to a disk that is not there now, is no reason to begin anew.
        if not os.path.lexists(file):
            _create(file, key_file, clock, passphrase)
        elif format_of(file) in OLDER:
            upgraded = upgrade(folder, key_file, clock, progress, passphrase=passphrase)
        database, key = open_database(file, key_file, passphrase)
        _keep_key(file, key_file, key)
        drop_half_written(key_file)
        put_back_triggers(database)
        ownership.restrict_modes(folder, key_file)
        key_place.note_place(folder, key_file, os.environ)
        store = cls(folder, lock, database, key, clock, key_file)
        store.upgraded = upgraded
        accepted.settle(folder, database, store.audit)
        return store

    @property
    def size_bytes(self) -> int:
        """How much the database and its log take on the disk."""
        return room.bytes_on_disk(self.folder / DATABASE)

    @property
    def free_bytes(self) -> int:
        """How much room is left on that disk."""
        return room.free_bytes(self.folder)

    def close(self) -> None:
        """Fold the log into the file, close it, and let others have the directory."""
        try:
            self.close_files()
        finally:
            self.lock.release()

    def close_files(self, within: float = 2.0) -> bool:
        """The same, but the directory stays ours: `lock` is for who opens it next, by `open_locked`.

        False where a thread was still using a file after so many seconds.
        """
        self.cleaner.stop()
        self.backups.stop(within)
        is_closed = self.database.close(within)
        self.backups.close()
        return is_closed


def _drop_unfinished(file: Path) -> None:
    """Throw away a store that was being made when we were stopped."""
    remove_database(unfinished(file))
    remove_half_written(file.parent)


def _keep_key(file: Path, key_file: Path, key: StoreKey) -> None:
    """Give a key file that holds nothing but the key the form that tells damage from a wrong key.

    One that lies where we may not write stays as it is: it opens the store as well.
    """
    if key.is_bare:
        with file.open("rb") as handle:
            salt = handle.read(16).hex()
        with suppress(OSError):
            write_key(key_file, replace(new_key(), master=key.master, cipher=key.cipher, salt=salt))


def _create(file: Path, key_file: Path, clock: Clock, passphrase: str | None) -> None:
    """Make a new store: complete under another name, then renamed. An old key is kept, never replaced."""
    if log_of(file).exists():
        # A new file under this name would have the old one's log written into it.
        raise StoreDamaged(file=file, reason="it is gone, and only its log is left")
    key = key_in(key_file, file, passphrase) if os.path.lexists(key_file) else new_key()
    key = replace(new_key(), master=key.master) if key.is_bare else key
    file.parent.chmod(0o700)
    if not key_file.exists():
        write_key(key_file, key)
    made = unfinished(file)
    made.touch(mode=0o600)  # SQLite gives -wal and -shm the mode of the file they belong to
    _fill(Database(made, key.cipher, key.derive("database")), key, clock)
    look_with(made, key)
    with made.open("r+b") as handle:  # Windows syncs nothing that is open for reading alone
        os.fsync(handle.fileno())
        salt = handle.read(16).hex()
    # The key file learns how the store begins first: a crash in between leaves a key without a store, which is fine.
    keep_key(key_file, key.with_salt(salt))
    replace_file(made, file)
    sync_folder(file.parent)


def _fill(database: Database, key: StoreKey, clock: Clock) -> None:
    with database.transaction(durable=True):
        for statement in format_5.SCHEMA.split(";\n"):
            if statement.strip():
                database.change(statement)
        for name, value in (("created_at", to_timestamp(clock.now())), ("release", __version__)):
            database.change("INSERT INTO meta VALUES (?, ?)", (name, value))
        Audit(database, key.derive("audit"), clock).start_log()
        database.change(f"PRAGMA application_id = {format_5.APPLICATION_ID}")
        database.change(f"PRAGMA user_version = {format_5.NUMBER}")
    database.close()
