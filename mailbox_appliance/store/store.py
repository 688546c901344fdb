"""The store: a data directory opened, locked and ready, with one part for each kind of thing in it.

DIR/lock            owned by one process        DIR/mailbox.db      the encrypted database, with -wal and -shm
DIR/encryption.key  the key in its slots        DIR/mailbox.db.new  a store being made; never opened, thrown away
"""

import logging
import os
from pathlib import Path

from mailbox_appliance.clock import Clock, SystemClock, to_timestamp
from mailbox_appliance.errors import (
    KeyMissing,
    KeyWrong,
    StoreDamaged,
    StoreForeign,
    StoreNewer,
    StoreOlder,
    StoreUnusable,
)
from mailbox_appliance.store.accounts import Accounts
from mailbox_appliance.store.audit import Audit
from mailbox_appliance.store.credentials import Credentials
from mailbox_appliance.store.database import UNREADABLE, Database
from mailbox_appliance.store.deliveries import Deliveries
from mailbox_appliance.store.files import sync_folder
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.keyfile import StoreKey, new_key, read_key, write_key
from mailbox_appliance.store.lock import DirectoryLock
from mailbox_appliance.store.members import Members
from mailbox_appliance.store.messages import Messages
from mailbox_appliance.version import __version__

log = logging.getLogger(__name__)

DATABASE, KEY = "mailbox.db", "encryption.key"
_PLAIN_HEADER = b"SQLite format 3\0"


class Store:
    """An open store. Close it, and its lock ends with it."""

    def __init__(self, folder: Path, lock: DirectoryLock, database: Database, key: StoreKey, clock: Clock) -> None:
        self.folder = folder
        self.database = database
        self.key = key
        self._lock = lock
        self.audit = Audit(database, key.derive("audit"), clock)
        self.members = Members(database, clock)
        self.credentials = Credentials(database, clock)
        self.accounts = Accounts(database, clock)
        self.folders = Folders(database)
        self.messages = Messages(database)
        self.deliveries = Deliveries(database, self.messages, clock)

    @classmethod
    def open(cls, folder: Path, clock: Clock | None = None) -> "Store":
        """Open the store in a data directory, or make a new one where there is none.

        Raises a StoreUnusable that says what is wrong; then nothing on the disk was changed but `lock`.
        """
        clock = clock or SystemClock()
        _own_folder(folder)
        lock = DirectoryLock(folder)
        try:
            file = folder / DATABASE
            if not file.exists():
                _create(folder, clock)
            key = _key_for(file, folder / KEY)
            return cls(folder, lock, _open(file, key, folder / KEY), key, clock)
        except BaseException:
            lock.release()
            raise

    @property
    def size_bytes(self) -> int:
        """How much the database and its log take on the disk."""
        files = (self.folder / (DATABASE + suffix) for suffix in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    @property
    def free_bytes(self) -> int:
        """How much room is left on that disk."""
        room = os.statvfs(self.folder)
        return room.f_bavail * room.f_frsize

    def close(self) -> None:
        """Fold the log into the file, close it, and let others have the directory."""
        self.database.close()
        self._lock.release()


def _own_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StoreUnusable(reason=f"{folder} cannot be made or made private ({error.strerror}).") from error


def _create(folder: Path, clock: Clock) -> None:
    """Make a new store: complete under another name, then renamed. An old key is kept, never replaced."""
    key = read_key(folder / KEY) if (folder / KEY).exists() else new_key()
    if not (folder / KEY).exists():
        write_key(folder / KEY, key)
    made = folder / (DATABASE + ".new")
    made.unlink(missing_ok=True)
    made.touch(mode=0o600)  # SQLite gives -wal and -shm the mode of the file they belong to
    database = Database(made, key.cipher, key.derive("database"))
    with database.transaction(durable=True):
        for statement in format_5.SCHEMA.split(";\n"):
            if statement.strip():
                database.change(statement)
        for name, value in (("created_at", to_timestamp(clock.now())), ("release", __version__)):
            database.change("INSERT INTO meta VALUES (?, ?)", (name, value))
        database.change(f"PRAGMA application_id = {format_5.APPLICATION_ID}")
        database.change(f"PRAGMA user_version = {format_5.NUMBER}")
    database.close()
    with made.open("rb") as handle:
        os.fsync(handle.fileno())
        salt = handle.read(16).hex()
    # The key file learns how the store begins first: a crash in between leaves a key without a store, which is fine.
    write_key(folder / KEY, key.with_salt(salt))
    made.rename(folder / DATABASE)
    sync_folder(folder)


def _key_for(file: Path, key_file: Path) -> StoreKey:
    """The key of an encrypted store; tells first whether the file is one."""
    with file.open("rb") as handle:
        header = handle.read(24)
    if header.startswith(_PLAIN_HEADER):
        raise _plain(file)
    # SQLite's page size and its three fixed payload fractions stay readable: nobody else's file has them there.
    if len(header) < 24 or header[21:24] != b"\x40\x20\x20" or header[16:18] != b"\x10\x00":
        raise StoreDamaged(file=file, reason="it is empty") if not header else StoreForeign(file=file)
    try:
        return read_key(key_file)
    except FileNotFoundError as error:
        raise KeyMissing(store=file, file=key_file) from error
    except OSError as error:
        raise StoreUnusable(reason=f"the key file {key_file} cannot be read ({error.strerror}).") from error


def _plain(file: Path) -> StoreUnusable:
    with file.open("rb") as handle:
        header = handle.read(100)
    number, application = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
    if application == format_5.APPLICATION_ID and number in (3, 4):
        return StoreOlder(file=file, format=number)
    return StoreForeign(file=file)


def _open(file: Path, key: StoreKey, key_file: Path) -> Database:
    database = Database(file, key.cipher, key.derive("database"))
    try:
        # A first read: only now the key and the first page are really tried.
        number = int(database.value("PRAGMA user_version"))
        application = int(database.value("PRAGMA application_id"))
        database.value("SELECT count(*) FROM sqlite_schema")
    except UNREADABLE as error:
        database.close()
        with file.open("rb") as handle:
            same = key.salt is not None and handle.read(16).hex() == key.salt
        if same:
            raise StoreDamaged(file=file, reason="its first page does not fit its key") from error
        raise KeyWrong(file=key_file, store=file) from error
    if application != format_5.APPLICATION_ID or number > format_5.NUMBER:
        database.close()
        raise StoreNewer(file=file, format=number, known=format_5.NUMBER)
    return database
