"""Opening the encrypted database: the lock of its directory, its format, and whether its key fits.

Before a database is opened, it is inspected read-only and as an immutable file. So SQLite neither creates nor replays
nor checkpoints a write-ahead log. After a crash, that log may have a complete copy of a page that is damaged in the
file. Then only actually opening the database shows whether it is damaged.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import apsw
import peewee

from mailbox_appliance.errors import (
    KeyElsewhere,
    KeyMissing,
    KeyUnusable,
    KeyWrong,
    StoreDamaged,
    StoreForeign,
    StoreInUse,
    StoreNewer,
    StoreOlder,
    StoreUnusable,
)
from mailbox_appliance.store.database import UNREADABLE_ERRORS, Database, set_cipher_key
from mailbox_appliance.store.files import RUN_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key import CIPHERS, StoreKey, read_key, read_key_file, read_key_note, read_salt
from mailbox_appliance.store.schema import TABLE_NAMES, find_missing_table
from mailbox_appliance.system import files, ownership
from mailbox_appliance.system.files import (
    BINARY,
    NO_FOLLOW,
    NO_WAIT,
    unlock_file,
)

#: A file up to this size is checked completely before it is opened; that takes about a tenth of a second.
CHECKED_UP_TO = 64 << 20
_PLAIN_HEADER = b"SQLite format 3\0"
_PLAIN_FORMATS = (3, 4)  # the formats of unencrypted stores
# SQLite's page size and its three fixed payload fractions stay readable; other files do not have these bytes there.
_PAGE_SIZE, _PAYLOAD_FRACTIONS = b"\x10\x00", b"\x40\x20\x20"


def detect_plain_format(file: Path) -> int | None:
    """Return 3 or 4, the format of an unencrypted store of an older release; None for any other file."""
    header = files.read_regular(file, 100)
    if not header.startswith(_PLAIN_HEADER) or int.from_bytes(header[68:72], "big") != format_5.APPLICATION_ID:
        return None
    number = int.from_bytes(header[60:64], "big")
    return number if number in _PLAIN_FORMATS else None


def detect_format(file: Path, key_file: Path) -> int:
    """Return the format of a store from the beginning of its file, without unlocking the key: 3, 4 or 5.

    Raises StoreForeign if the file is not a store, StoreNewer for a format of a newer release, StoreDamaged, and
    StoreUnusable for a number that no release wrote.
    """
    number = detect_plain_format(file)
    if number is None:
        _require_encrypted(file, key_file)
    return number or format_5.NUMBER


def require_plain_format(file: Path, number: int) -> None:
    """Raise an error unless `number` is a format that releases wrote to unencrypted files: 3 or 4.

    Raises StoreNewer for a format of a newer release, and StoreUnusable for any other number. `file`: the store, for
    the message.
    """
    if number > format_5.NUMBER:
        raise StoreNewer(file=file, format=number, known=format_5.NUMBER)
    if number not in _PLAIN_FORMATS:
        raise StoreUnusable(
            reason=f"{file} is unencrypted and has format {number}, which no release wrote. Nothing was changed."
        )


def require_complete(file: Path) -> None:
    """Raise StoreDamaged if an unencrypted database file is truncated, which SQLite itself does not notice.

    Whole pages may be missing while a write-ahead log exists, since they may be in it; a page may never be incomplete.
    """
    with file.open("rb") as handle:
        header, size = handle.read(100), os.fstat(handle.fileno()).st_size
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if not header.startswith(_PLAIN_HEADER) or not page:
        return
    # The count of pages is valid if the two change counters agree (sqlite.org/fileformat2.html 1.3.7).
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    if size % page or (size < pages * page and not has_wal(file)):
        raise StoreDamaged(file=file, reason="it is truncated: its last page is incomplete or missing")


def check_openable(file: Path, key_file: Path, passphrase: str | None = None) -> None:
    """Raise the error of `open_database` as far as reading finds it. Changes nothing."""
    _require_encrypted(file, key_file)
    _find_cipher(file, key_file, load_store_key(key_file, file, passphrase))


def open_database(file: Path, key_file: Path, passphrase: str | None = None) -> tuple[Database, StoreKey]:
    """Open a store of the present format, and return the database and its unlocked key.

    Raises a subclass of StoreUnusable that names the reason; nothing on the disk was changed then.
    """
    _require_encrypted(file, key_file)
    key, had_log = _find_cipher(file, key_file, load_store_key(key_file, file, passphrase)), has_wal(file)
    database = Database(file, key.cipher, key.derive("database"))
    try:
        # A log may be newer than the pages inspected before.
        _check_format(file, int(database.value("PRAGMA application_id")), int(database.value("PRAGMA user_version")))
        _check_tables(file, (row[0] for row in database.rows(TABLE_NAMES)))
        if had_log:
            _check_with_wal(file, database)
    except UNREADABLE_ERRORS as error:
        database.close_without_checkpoint()
        if isinstance(error, peewee.OperationalError):  # The disk is full or not writable.
            raise
        raise StoreDamaged(file=file, reason="its first pages cannot be read") from error
    except BaseException:
        database.close_without_checkpoint()
        raise
    return database, key


def _check_with_wal(file: Path, database: Database) -> None:
    """SQLite applies any log with the right name, and would checkpoint it into the database when closing."""
    if file.stat().st_size + wal_path(file).stat().st_size > CHECKED_UP_TO:
        return
    reason = f"a page of it or of its log {wal_path(file).name} cannot be read"
    try:
        if database.value("PRAGMA quick_check(1)") != "ok":
            raise StoreDamaged(file=file, reason=reason)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreDamaged(file=file, reason=reason) from error


def _require_encrypted(file: Path, key_file: Path) -> None:
    header = files.read_regular(file, 100)
    if not header:
        raise StoreDamaged(file=file, reason="it is empty")
    if header.startswith(_PLAIN_HEADER):
        number, application = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
        if application != format_5.APPLICATION_ID:
            raise StoreForeign(file=file)
        require_plain_format(file, number)
        raise StoreOlder(file=file, format=number)
    if header[16:18] != _PAGE_SIZE or header[21:24] != _PAYLOAD_FRACTIONS:
        if _has_known_salt(header, key_file):
            raise StoreDamaged(file=file, reason="its first page cannot be read")
        raise StoreForeign(file=file)


def _has_known_salt(header: bytes, key_file: Path) -> bool:
    try:
        known = read_key_file(key_file)
    except (KeyUnusable, OSError):
        return False
    return known is not None and known.salt == header[:16].hex()


def load_store_key(key_file: Path, file: Path, passphrase: str | None = None) -> StoreKey:
    """Return the unlocked key from a key file. `file`: the store's database, for messages.

    Raises KeyMissing, KeyElsewhere if a note names another place for the key, and other subclasses of KeyUnusable.
    """
    try:
        return read_key(key_file, passphrase)
    except FileNotFoundError as error:
        if (place := read_key_note(file.parent)) is not None:
            raise KeyElsewhere(store=file, place=place, file=key_file) from error
        raise KeyMissing(store=file, file=key_file) from error
    except OSError as error:
        raise KeyUnusable(reason=f"{key_file} cannot be read ({error.strerror}).") from error


def _find_cipher(file: Path, key_file: Path, key: StoreKey) -> StoreKey:
    """All ciphers are tried if the key file names none. Raises KeyWrong or StoreDamaged if none opens it."""
    ciphers = CIPHERS if key.is_bare else (key.cipher,)
    for cipher in ciphers:
        tried = replace(key, cipher=cipher)
        try:
            check_opens_with(file, tried)
        except apsw.NotADBError:
            continue
        except apsw.CorruptError as error:
            raise StoreDamaged(file=file, reason="one of its pages cannot be read") from error
        return tried
    if read_salt(file) != key.salt:
        raise KeyWrong(file=key_file, store=file)
    if not has_wal(file):
        raise StoreDamaged(file=file, reason="its first page cannot be read")
    return key


def check_opens_with(file: Path, key: StoreKey) -> None:
    """Raise an error unless a database is a store of the present format that this key opens. Reads only.

    Raises a subclass of StoreUnusable for a wrong format or a missing table. Raises apsw.NotADBError if the key is
    wrong or the first page damaged, and apsw.CorruptError if another page is damaged. Large files are not checked page
    by page.
    """
    with open_immutable(file, key) as connection:
        try:
            _check_format(file, connection.pragma("application_id"), connection.pragma("user_version"))
        except apsw.CorruptError:
            # An interrupted checkpoint leaves a first page that counts pages which are only in the log.
            if not has_wal(file):
                raise
        if has_wal(file):  # Only file and log together are complete.
            return
        if file.stat().st_size <= CHECKED_UP_TO and connection.pragma("quick_check", 1) != "ok":
            raise apsw.CorruptError("quick_check")
        _check_tables(file, (str(row[0]) for row in connection.execute(TABLE_NAMES)))


@contextmanager
def open_immutable(file: Path, key: StoreKey) -> Iterator[apsw.Connection]:
    """Yield a read-only connection to a database, without its log; no file is created or changed."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(f"{file.absolute().as_uri()}?immutable=1", flags=flags)) as connection:
        set_cipher_key(connection, key.cipher, key.derive("database"))
        yield connection


def has_wal(file: Path) -> bool:
    """Whether a database has a write-ahead log that is not empty."""
    log = wal_path(file)
    return log.exists() and log.stat().st_size > 0


def wal_path(file: Path) -> Path:
    """Return the path of a database's write-ahead log. SQLite puts that of a link next to the link's target."""
    real = Path(os.path.realpath(file))
    return real.with_name(real.name + "-wal")


def _check_tables(file: Path, there: Iterable[str]) -> None:
    if gone := find_missing_table(there):
        raise StoreDamaged(file=file, reason=f"its table {gone} is missing")


def _check_format(file: Path, application: int, number: int) -> None:
    problem: StoreUnusable | None = None
    if application != format_5.APPLICATION_ID:
        problem = StoreForeign(file=file)
    elif number > format_5.NUMBER:
        problem = StoreNewer(file=file, format=number, known=format_5.NUMBER)
    elif number < format_5.NUMBER:
        problem = StoreOlder(file=file, format=number)
    if problem is not None:
        raise problem


# --- The lock of a data directory: advisory, on the file `lock`, which holds the owner's pid ---


class DirectoryLock:
    """Exclusive lock of a data directory against other processes, held from construction to `release`.

    Raises StoreInUse with the other process's pid if it is held. Raises StoreUnusable if the lock file cannot be
    opened, or if the directory or a file in it belongs to another user. On an error nothing on the disk was changed.
    """

    def __init__(self, folder: Path) -> None:
        ownership.require_own(folder)
        # O_CLOEXEC is Python's default: a child process does not inherit the lock.
        try:
            self._file = _open_lock_file(folder / "lock")
        except OSError as error:
            raise StoreUnusable(reason=f"{folder / 'lock'} cannot be opened ({error.strerror}).") from error
        if not files.acquire_lock(self._file):
            os.close(self._file)
            pid = files.find_lock_holder(folder / "lock")
            raise StoreInUse(holder=f" (pid {pid})" if pid else "", folder=folder)
        with suppress(OSError):  # Left by an owner that was killed: nobody may take the address in it for ours.
            (folder / RUN_FILE).unlink(missing_ok=True)
        files.write_lock_holder(self._file)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        file, self._file = self._file, -1  # The number may belong to another file by then.
        if file >= 0:
            with suppress(OSError):  # The pid in it means nothing once the lock is released.
                os.ftruncate(file, 0)
                unlock_file(file)
            os.close(file)


def _open_lock_file(file: Path) -> int:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | NO_WAIT | NO_FOLLOW | BINARY, 0o600)
    try:
        ownership.require_own_handle(handle, file)
    except BaseException:
        os.close(handle)
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Not a regular file", str(file))
    return handle
