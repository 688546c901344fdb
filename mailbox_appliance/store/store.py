"""The store: a data directory opened, locked and ready, with one part for each kind of data in it.

DIR/lock            owned by one process        DIR/mailbox.db      the encrypted database, with -wal and -shm
DIR/encryption.key  the key file                DIR/mailbox.db.new  a store being created; never opened, removed later
DIR/.next           files that are replaced together: restore/swap.py       DIR/backups         backup/container.py
"""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import peewee

from mailbox_appliance.clock import Clock, SystemClock, to_timestamp
from mailbox_appliance.errors import StoreDamaged, StoreUnusable
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.store import files
from mailbox_appliance.store import key as store_key
from mailbox_appliance.store.accounts import Accounts, OAuthApps, OAuthLogins, SenderAddresses
from mailbox_appliance.store.approvals import Approvals, SendingPolicies
from mailbox_appliance.store.attachment_cache import PartCache
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.backup.backups import Backups
from mailbox_appliance.store.backup.files import remove_unfinished_backups
from mailbox_appliance.store.changes import Changes
from mailbox_appliance.store.credentials import ApiKeys, Credentials, LoginAttempts, OneTimeTokens
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.database import failures_as_unusable as failures_as_unusable
from mailbox_appliance.store.deliveries import Deliveries
from mailbox_appliance.store.delivery_queries import (
    DeliveryLists,
    DeliveryTimelines,
    LegacyIdempotencyKeys,
    TrafficHistory,
)
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE, remove_database, remove_half_written, unfinished_path
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import (
    StoreKey,
    new_key,
    read_salt,
    remove_half_written_key,
    write_key,
    write_key_if_allowed,
)
from mailbox_appliance.store.mailbox_writer import MailboxWriter
from mailbox_appliance.store.maintenance.cleanup import StoreCleaner
from mailbox_appliance.store.members import Members
from mailbox_appliance.store.messages import Messages
from mailbox_appliance.store.open_file import (
    DirectoryLock,
    check_opens_with,
    detect_plain_format,
    has_wal,
    load_store_key,
    open_database,
    wal_path,
)
from mailbox_appliance.store.restore import pending, swap
from mailbox_appliance.store.schedule import DeliverySchedule, SentCopies
from mailbox_appliance.store.schema import restore_triggers
from mailbox_appliance.store.undo import UndoTokens
from mailbox_appliance.store.uploads import Uploads
from mailbox_appliance.store.webhooks import Webhooks
from mailbox_appliance.system import ownership
from mailbox_appliance.system.files import replace_file, sync_file, sync_folder
from mailbox_appliance.version import __version__

SETTINGS = peewee.Table("settings")

if TYPE_CHECKING:
    from mailbox_appliance.store.upgrade.upgrade import UpgradeResult


class Store:
    """An open store: database, key, lock of the directory, and an object for each kind of data. Close it after use."""

    def __init__(
        self, folder: Path, lock: DirectoryLock, database: Database, key: StoreKey, clock: Clock, key_file: Path
    ) -> None:
        self.folder = folder
        self.database = database
        self.key, self.key_file = key, key_file
        self.lock = lock
        #: The result of the upgrade to this format, if opening needed one.
        self.upgraded: UpgradeResult | None = None
        self.audit = Audit(database, key.derive("audit"), clock)
        self.members = Members(database, clock)
        self.one_time_tokens = OneTimeTokens(database, clock)
        self.credentials = Credentials(database, clock)
        self.login_attempts = LoginAttempts(database, clock)
        self.api_keys = ApiKeys(database, clock)
        self.oauth_apps = OAuthApps(database, clock)
        self.stored_settings = StoredSettings(database)
        self.accounts = Accounts(database, clock)
        self.oauth_logins = OAuthLogins(database, clock)
        self.sender_addresses = SenderAddresses(database)
        self.folders = Folders(database)
        self.messages = Messages(database)
        self.mailbox_writer = MailboxWriter(database, self.folders)
        self.part_cache = PartCache(database, clock)
        self.delivery_lists = DeliveryLists(database, clock)
        self.deliveries = Deliveries(database, self.delivery_lists, self.mailbox_writer, clock)
        self.sent_copies = SentCopies(database, clock)
        self.schedule = DeliverySchedule(database)
        self.sending_policies = SendingPolicies(database)
        self.approvals = Approvals(database, clock)
        self.delivery_timelines = DeliveryTimelines(database)
        self.history = TrafficHistory(database)
        self.legacy_keys = LegacyIdempotencyKeys(database, clock)
        self.changes = Changes(database)
        self.webhooks = Webhooks(database, clock)
        self.undo = UndoTokens(database, clock)
        self.uploads = Uploads(database, clock)
        self.cleaner = StoreCleaner(database, clock, self.part_cache, self.changes, self.uploads)
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
        """Open the store in a data directory. A missing store is created, and one of an older format is upgraded.

        `key_file`: the default is `encryption.key` in the directory. `passphrase`: unlocks the key, if it is protected
        by one. `progress`: reports the progress of an upgrade. Raises NotEnoughRoom, or a subclass of StoreUnusable
        that names the reason; then nothing on the disk was changed except `lock`.
        """
        clock, key_file = clock or SystemClock(), key_file or folder / KEY_FILE
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
        """Open the store in a data directory whose lock the caller holds. Otherwise it works like `open`.

        `Store.close` releases the lock. If this raises, the caller still holds it.
        """
        file, upgraded = folder / DATABASE_FILE, None
        ownership.close_to_other_writers(folder)
        swap.finish(folder, key_file)
        remove_database(unfinished_path(file))
        remove_half_written(folder)
        remove_unfinished_backups(folder)
        # A broken link, as to a disk that is not mounted now, does not justify a new store.
        if not os.path.lexists(file):
            _create_store(file, key_file, clock, passphrase)
        elif detect_plain_format(file) is not None:
            # Loaded only for an old store: it is large, and needed once.
            from mailbox_appliance.store.upgrade.upgrade import upgrade_store

            upgraded = upgrade_store(folder, key_file, clock, progress, passphrase=passphrase)
        database, key = open_database(file, key_file, passphrase)
        _rewrite_bare_key_file(file, key_file, key)
        remove_half_written_key(key_file)
        restore_triggers(database)
        ownership.restrict_modes(folder, key_file)
        store_key.write_key_note(folder, key_file, os.environ)
        store = cls(folder, lock, database, key, clock, key_file)
        store.upgraded = upgraded
        store.uploads.delete_interrupted()
        pending.record_failed_restore(folder, database, store.audit)
        return store

    @property
    def size_bytes(self) -> int:
        """The size of the database and its write-ahead log on the disk, in bytes."""
        return files.database_size(self.folder / DATABASE_FILE)

    @property
    def free_bytes(self) -> int:
        """The free space on the disk of the data directory, in bytes."""
        return files.free_bytes(self.folder)

    def close(self) -> None:
        """Close all files, and release the lock. The write-ahead log is checkpointed into the database."""
        try:
            self.close_files()
        finally:
            self.lock.release()

    def close_files(self, within: float = 2.0) -> bool:
        """Close all files, but keep the lock of the directory. To open the store again, pass `lock` to `open_locked`.

        Returns False if a thread was still using a file after `within` seconds.
        """
        self.cleaner.stop()
        self.backups.stop(within)
        is_closed = self.database.close(within)
        self.backups.close()
        return is_closed


def _rewrite_bare_key_file(file: Path, key_file: Path, key: StoreKey) -> None:
    """The present format shows damage. A file that cannot be written opens the store as well."""
    if key.is_bare:
        made = replace(new_key(), master=key.master, cipher=key.cipher, salt=read_salt(file))
        with suppress(OSError):
            write_key(key_file, made)


def _create_store(file: Path, key_file: Path, clock: Clock, passphrase: str | None) -> None:
    """An existing key file is used, not replaced."""
    if wal_path(file).exists():
        # SQLite would replay the old log into a new file of this name.
        raise StoreDamaged(file=file, reason="it is missing, and only its log is left")
    key = load_store_key(key_file, file, passphrase) if os.path.lexists(key_file) else new_key()
    key = replace(new_key(), master=key.master) if key.is_bare else key
    file.parent.chmod(0o700)
    if not key_file.exists():
        write_key(key_file, key)
    made = unfinished_path(file)
    made.touch(mode=0o600)  # SQLite gives -wal and -shm the mode of their database file.
    _write_schema(Database(made, key.cipher, key.derive("database")), key, clock)
    if has_wal(made):  # Closing could not write the log into the file, as on a full disk.
        raise StoreUnusable(reason=f"its new database could not be completed in {file.parent}. Check free disk space.")
    check_opens_with(made, key)
    sync_file(made)
    # The key file records the beginning of the store first: a crash in between leaves a key without a store, which is
    # harmless.
    write_key_if_allowed(key_file, key.with_salt(read_salt(made)))
    replace_file(made, file)
    sync_folder(file.parent)


def _write_schema(database: Database, key: StoreKey, clock: Clock) -> None:
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


class StoredSettings:
    """Values stored in the database by name, as JSON, such as settings that were changed in the running appliance.

    Values with unknown names are kept, since another release may know them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_all(self) -> dict[str, object]:
        """Return all stored values by name."""
        return {name: json.loads(text) for name, text in self._database.rows("SELECT name, value FROM settings")}

    def find(self, name: str) -> object:
        """Return the value stored under this name, or None."""
        text = self._database.value("SELECT value FROM settings WHERE name = ?", (name,))
        return None if text is None else json.loads(text)

    def put(self, name: str, value: object) -> None:
        """Store a value, replacing the previous one. Call it inside a transaction."""
        self._database.change(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, json.dumps(value)),
        )

    def remove(self, name: str) -> None:
        """Delete a value. Call it inside a transaction."""
        self._database.run(SETTINGS.delete().where(SETTINGS.c.name == name))
