"""What lies in a data directory, told before anything in it is changed.

The database is first only looked at: as an immutable file, so that no log is made, replayed or folded in. Where a log
was left by a crash, it may hold a page that the file has only half of; then opening it for good has the last word.
"""

import os
from collections.abc import Iterable
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
    StoreNewer,
    StoreOlder,
    StoreUnusable,
)
from mailbox_appliance.store.database import UNREADABLE, Database, give_key
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.store.key_place import noted_place
from mailbox_appliance.store.keyfile import CIPHERS, StoreKey, read_file, read_key
from mailbox_appliance.store.schema import TABLE_NAMES, missing_table
from mailbox_appliance.system import files

#: A file up to this size is checked as a whole before it is opened; that takes about a tenth of a second.
CHECKED_UP_TO = 64 << 20
_PLAIN_HEADER = b"SQLite format 3\0"
_PLAIN = (3, 4)  # formats
# SQLite's page size and its three fixed payload fractions stay readable: nobody else's file has them there.
_PAGE_SIZE, _FRACTIONS = b"\x10\x00", b"\x40\x20\x20"


def format_of(file: Path) -> int | None:
    """The format of a store that can be told without a key: 3 or 4, whose files are plain; None for any other file."""
    header = files.read_regular(file, 100)
    if not header.startswith(_PLAIN_HEADER) or int.from_bytes(header[68:72], "big") != format_5.APPLICATION_ID:
        return None
    number = int.from_bytes(header[60:64], "big")
    return number if number in _PLAIN else None


def told_format(file: Path, key_file: Path) -> int:
    """The format of a store as far as it is told without the key. Raises StoreForeign, StoreNewer and StoreDamaged."""
    number = format_of(file)
    if number is None:
        _recognise(file, key_file)
    return number or format_5.NUMBER


def require_plain(file: Path, number: int) -> None:
    """Raise a StoreUnusable, of what is our store and plain, for a format that no release has left in such a file."""
    if number > format_5.NUMBER:
        raise StoreNewer(file=file, format=number, known=format_5.NUMBER)
    if number not in _PLAIN:
        raise StoreUnusable(
            reason=f"{file} is plain and says format {number}, which no release has. Nothing was changed."
        )


def require_uncut(file: Path) -> None:
    """Raise StoreDamaged for a plain file that ends before what is in it does: SQLite reads zeros there, and believes
    them. Part of it may be in its log still, but never part of a page.
    """
    with file.open("rb") as handle:
        header, size = handle.read(100), os.fstat(handle.fileno()).st_size
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if not header.startswith(_PLAIN_HEADER) or not page:
        return
    # The count of pages is good where the two counters of changes agree (sqlite.org/fileformat2.html 1.3.7).
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    if size % page or (size < pages * page and not _has_log(file)):
        raise StoreDamaged(file=file, reason="it is cut off: its last page is not complete, or gone")


def look(file: Path, key_file: Path, passphrase: str | None = None) -> None:
    """See whether `open_database` would open a store of this format, as far as that is seen without changing it.

    Raises what that raises.
    """
    _recognise(file, key_file)
    _look(file, key_file, key_in(key_file, file, passphrase))


def open_database(file: Path, key_file: Path, passphrase: str | None = None) -> tuple[Database, StoreKey]:
    """Open a store's file with its key. Raises a StoreUnusable that says what is wrong; nothing was changed then."""
    _recognise(file, key_file)
    key, had_log = _look(file, key_file, key_in(key_file, file, passphrase)), _has_log(file)
    database = Database(file, key.cipher, key.derive("database"))
    try:
        # A log may be newer than what was looked at.
        _check_format(file, int(database.value("PRAGMA application_id")), int(database.value("PRAGMA user_version")))
        _check_tables(file, (row[0] for row in database.rows(TABLE_NAMES)))
        if had_log:
            _check_with_log(file, database)
    except UNREADABLE as error:
        database.close_without_checkpoint()
        if isinstance(error, peewee.OperationalError):  # the disk is full, or may not be written
            raise
        raise StoreDamaged(file=file, reason="its first pages cannot be read") from error
    except BaseException:
        database.close_without_checkpoint()
        raise
    return database, key


def _check_with_log(file: Path, database: Database) -> None:
    """See that the log belongs to the file: SQLite takes any log that lies there, and would fold it in at the end."""
    if file.stat().st_size + log_of(file).stat().st_size > CHECKED_UP_TO:
        return
    reason = f"a page of it, or of the log {log_of(file).name} beside it, cannot be read"
    try:
        if database.value("PRAGMA quick_check(1)") != "ok":
            raise StoreDamaged(file=file, reason=reason)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreDamaged(file=file, reason=reason) from error


def _recognise(file: Path, key_file: Path) -> None:
    header = files.read_regular(file, 100)
    if not header:
        raise StoreDamaged(file=file, reason="it is empty")
    if header.startswith(_PLAIN_HEADER):
        number, application = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
        if application != format_5.APPLICATION_ID:
            raise StoreForeign(file=file)
        require_plain(file, number)
        raise StoreOlder(file=file, format=number)
    if header[16:18] != _PAGE_SIZE or header[21:24] != _FRACTIONS:
        if _is_ours(header, key_file):
            raise StoreDamaged(file=file, reason="its first page cannot be read")
        raise StoreForeign(file=file)


def _is_ours(header: bytes, key_file: Path) -> bool:
    try:
        known = read_file(key_file)
    except (KeyUnusable, OSError):
        return False
    return known is not None and known.salt == header[:16].hex()


def key_in(key_file: Path, file: Path, passphrase: str | None = None) -> StoreKey:
    """The key in the key file of a store. Raises KeyUnusable."""
    try:
        return read_key(key_file, passphrase)
    except FileNotFoundError as error:
        if (place := noted_place(file.parent)) is not None:
            raise KeyElsewhere(store=file, place=place, file=key_file) from error
        raise KeyMissing(store=file, file=key_file) from error
    except OSError as error:
        raise KeyUnusable(reason=f"{key_file} cannot be read ({error.strerror}).") from error


def _look(file: Path, key_file: Path, key: StoreKey) -> StoreKey:
    """The key that opens the file, as it is to be used. A key file of one line does not name the cipher."""
    ciphers = CIPHERS if key.is_bare else (key.cipher,)
    for cipher in ciphers:
        tried = replace(key, cipher=cipher)
        try:
            look_with(file, tried)
        except apsw.NotADBError:
            continue
        except apsw.CorruptError as error:
            raise StoreDamaged(file=file, reason="a page of it cannot be read") from error
        return tried
    with file.open("rb") as handle:
        same = handle.read(16).hex() == key.salt
    if not same:
        raise KeyWrong(file=key_file, store=file)
    if not _has_log(file):
        raise StoreDamaged(file=file, reason="its first page cannot be read")
    return key


def look_with(file: Path, key: StoreKey) -> None:
    """See whether a file is a store of this format that opens with the key, as far as can be seen without changing it.

    Raises a StoreUnusable, apsw.NotADBError for the key or the first page, apsw.CorruptError for another page.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{file.absolute().as_uri()}?immutable=1", flags=flags)
    try:
        give_key(connection, key.cipher, key.derive("database"))
        try:
            _check_format(file, connection.pragma("application_id"), connection.pragma("user_version"))
        except apsw.CorruptError:
            # A checkpoint that was broken off leaves a first page that counts pages which are in the log only.
            if not _has_log(file):
                raise
        if _has_log(file):  # only file and log together are whole
            return
        if file.stat().st_size <= CHECKED_UP_TO and connection.pragma("quick_check", 1) != "ok":
            raise apsw.CorruptError("quick_check")
        _check_tables(file, (str(row[0]) for row in connection.execute(TABLE_NAMES)))
    finally:
        connection.close()


def _has_log(file: Path) -> bool:
    log = log_of(file)
    return log.exists() and log.stat().st_size > 0


def log_of(file: Path) -> Path:
    """The write-ahead log that belongs to a database file: SQLite has it where a link to the file leads."""
    real = Path(os.path.realpath(file))
    return real.with_name(real.name + "-wal")


def _check_tables(file: Path, there: Iterable[str]) -> None:
    if gone := missing_table(there):
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
