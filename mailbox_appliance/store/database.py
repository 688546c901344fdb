"""The encrypted SQLite file under peewee and APSW: connections, transactions, and what a failure means.

Every thread has its own connection. Writers of this process take turns under one lock and begin IMMEDIATE: a
transaction that reads first and writes later is refused at once by SQLite when another one wrote in between.
"""

import errno
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import peewee
from playhouse.apsw_ext import APSWDatabase

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store.files import format_size
from mailbox_appliance.system.files import free_bytes as free_bytes

log = logging.getLogger(__name__)
# At level debug peewee writes out every statement with its values: addresses, hashes, passwords of mailboxes.
logging.getLogger("peewee").setLevel(logging.WARNING)

CACHE_KIB = 4096
BUSY_SECONDS = 5
_MAX_CACHED_ROWS = 256
# Characters or bytes of a parameter whose statement is not cached: a cached statement keeps what was bound to it until
# it is used again, for each thread's connection.
_LARGE = 1 << 16
_CLOSED = "it has been closed."

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]


def set_cipher_key(connection: Any, cipher: str, key: bytes) -> None:
    """Tell a new connection what its file is encrypted with, before anything else is said on it."""
    connection.pragma("cipher", cipher)
    connection.pragma("key", "raw:" + key.hex())  # `raw:`, since a plain hexkey is a passphrase to be stretched


#: Connections that are being closed, for good.
_closing: "weakref.WeakSet[Any]" = weakref.WeakSet()
#: Held while a connection is added to those that are open, and while these are listed: a set must not grow meanwhile.
_opened_lock = threading.Lock()


class _Cursor(apsw.Cursor):
    """A cursor that is dropped and not closed.

    In APSW 3.54 `Cursor.close` takes a reference to the cursor and never gives it back, so each closed cursor stayed in
    memory: 5 MB for 10,000 requests. peewee closes every cursor that it has read to its end.
    """

    __slots__ = ()

    def close(self, force: bool = False) -> None:
        """Do nothing, unless its connection is being closed: the statement ends with the last reference."""
        with suppress(apsw.CursorClosedError, apsw.ConnectionClosedError):
            if self.connection in _closing:
                super().close(force)


class _EncryptedDatabase(APSWDatabase):
    """peewee's APSW database that gives the key before anything else is said on a connection."""

    def __init__(self, file: Path, cipher: str, key: bytes, opened: "weakref.WeakSet[Any]") -> None:
        self._cipher, self._key, self._opened = cipher, key, opened
        pragmas = [
            ("journal_mode", "wal"),
            ("synchronous", "normal"),
            ("foreign_keys", 1),
            ("cache_size", -CACHE_KIB),
            ("temp_store", "memory"),
        ]
        super().__init__(str(file), pragmas=pragmas, timeout=BUSY_SECONDS)

    def _add_conn_hooks(self, conn: Any) -> None:
        with _opened_lock:
            self._opened.add(conn)
        conn.cursor_factory = _Cursor
        # peewee closes a connection whose file cannot be read; the log must not be folded into such a file.
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        set_cipher_key(conn, self._cipher, self._key)
        super()._add_conn_hooks(conn)
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


class Database:
    """An open store file. Raises peewee.DatabaseError on first use where the key does not fit or a page is damaged."""

    def __init__(self, file: Path, cipher: str, key: bytes) -> None:
        self._opened: weakref.WeakSet[Any] = weakref.WeakSet()
        self._peewee = _EncryptedDatabase(file, cipher, key, self._opened)
        self._writing = threading.RLock()
        self._connecting = threading.Lock()  # who makes a connection, and who closes them all
        self._is_durable = False
        self._full: weakref.WeakSet[Any] = weakref.WeakSet()  # connections whose commits wait for the disk now
        self._is_closed = False
        self._kept: dict[tuple[object, ...], Row] = {}

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""
        return list(self._connection().execute(sql, parameters))

    def iterate(self, sql: str, parameters: Parameters = ()) -> Iterator[Row]:
        """The rows of a query that may have very many, one after the other."""
        yield from self._connection().execute(sql, parameters)

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row of a query, or None."""
        # To drop the cursor ends its statement.
        first: Row | None = next(self._connection().execute(sql, parameters), None)
        return first

    def cached_row(self, sql: str, parameters: Sequence[object]) -> Row | None:
        """As `row`, for what every request asks: the row found is kept until anything is committed.

        Only this process writes, since it holds the lock of the data directory; so what is kept is what is there.
        """
        if self._connection().in_transaction:
            return self.row(sql, parameters)
        kept, key = self._kept, (sql, *parameters)
        found = kept.get(key)
        if found is None:
            found = self.row(sql, parameters)
            # With a commit in between, this goes into a dict that nobody will look at again.
            if found is not None and len(kept) < _MAX_CACHED_ROWS:
                kept[key] = found
        return found

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def tokenize(self, text: str) -> list[str]:
        """The words of a text as the full-text index has them: without case and diacritics."""
        tokenizer = self._connection().fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
        found: list[str] = tokenizer(
            text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
        )
        return found

    def run(self, query: Any) -> Any:
        """Carry out a peewee query: rows as dicts for a select, the number of rows for an update or a delete."""
        self._connection()
        return query.execute(self._peewee)

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        """Carry out one statement that writes, inside a transaction; the number of rows it touched."""
        connection = self._connection()
        given = parameters.values() if isinstance(parameters, Mapping) else parameters
        connection.execute(sql, parameters, can_cache=not _has_large(given))
        return int(connection.changes())

    def change_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Carry out one statement for each row of parameters, inside a transaction."""
        self._connection().executemany(sql, rows, can_cache=not any(map(_has_large, rows)))

    @contextmanager
    def progress_handler(self, every: int, look: Callable[[], None]) -> Iterator[None]:
        """Have `look` called after every so many steps of SQLite's on this thread's connection, and what it raises
        raised there: a statement that takes long can tell how far it is, and let others have a turn.
        """

        def has_to_end() -> bool:
            look()
            return False

        connection = self._connection()
        connection.set_progress_handler(has_to_end, every)
        try:
            yield
        finally:
            connection.set_progress_handler(None)

    def release_memory(self) -> None:
        """Give back what this thread's connection keeps of pages: something large went through it."""
        self._connection().execute("PRAGMA shrink_memory")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """All or nothing. A `durable` one is on the disk when this returns, also if the power fails right after.

        Others are on the disk a little later, and are never half there. Nesting joins the outer transaction, which must
        be durable already for one that is.
        """
        with self._writing:
            connection = self._connection()
            if connection.in_transaction:
                if durable and not self._is_durable:
                    raise RuntimeError("a durable transaction cannot be part of one that is not")
                yield
                return
            try:
                with self._durably(connection, durable), self._peewee.atomic("IMMEDIATE"):
                    yield
            finally:
                self._kept = {}

    @contextmanager
    def block_writers(self) -> Iterator[None]:
        """Nobody of this process begins to write, or commits, meanwhile: for moments."""
        with self._writing:
            yield

    @contextmanager
    def _durably(self, connection: Any, durable: bool) -> Iterator[None]:
        self._is_durable = durable
        # Said only where it changes: a thread that sends commits durably over and over.
        if durable and connection not in self._full:
            connection.execute("PRAGMA synchronous=FULL")
            self._full.add(connection)
        elif not durable and connection in self._full:
            connection.execute("PRAGMA synchronous=NORMAL")
            self._full.discard(connection)
        try:
            yield
        finally:
            self._is_durable = False

    def close(self, within: float = 2.0) -> bool:
        """Close every thread's connection; the last one folds the write-ahead log into the file.

        Who is writing may finish, who is reading is interrupted; nothing can be asked afterwards. False where a
        connection was still in use after so many seconds.
        """
        deadline = time.monotonic() + within
        has_turn = self._writing.acquire(timeout=within)
        # Whoever is just connecting is waited for, and closed with the others; nobody connects after that.
        is_alone = self._connecting.acquire(timeout=max(0.0, deadline - time.monotonic()))
        self._is_closed = True
        if is_alone:
            self._connecting.release()
        try:
            # Each is closed, whatever became of those before it.
            return not [one for one in self._list_opened() if not _close(one, deadline)] and is_alone
        finally:
            if has_turn:
                self._writing.release()

    def close_without_checkpoint(self) -> None:
        """Close without folding the log into the file: what is there stays as it is."""
        with self._connecting:  # nobody opens another one meanwhile
            self._is_closed = True
        self.disable_checkpoints()
        self.close()

    def _list_opened(self) -> list[Any]:
        with _opened_lock:
            return list(self._opened)

    def disable_checkpoints(self) -> None:
        """Let no connection that is open now fold a log into a file, its own or an attached one's."""
        for connection in self._list_opened():
            with suppress(apsw.ConnectionClosedError):  # one that failed while it was made
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _connection(self) -> Any:
        if self._is_closed:
            raise StoreUnusable(reason=_CLOSED)
        if self._peewee.is_closed():
            with self._connecting:
                if self._is_closed:
                    raise StoreUnusable(reason=_CLOSED)
                self._peewee.connect(reuse_if_open=True)
        return self._peewee.connection()


def _has_large(parameters: Iterable[object]) -> bool:
    return any(isinstance(each, bytes | str) and len(each) > _LARGE for each in parameters)


def _close(connection: Any, deadline: float) -> bool:
    _closing.add(connection)
    while True:
        try:
            connection.close()
            return True
        except apsw.ThreadingViolationError:  # its thread is in the middle of something
            if time.monotonic() > deadline:
                log.warning("database_connection_in_use")
                return False
            connection.interrupt()
            time.sleep(0.01)


#: What SQLite says where a page cannot be trusted, or the key does not fit (peewee wraps the latter while connecting).
UNREADABLE_ERRORS = (apsw.NotADBError, apsw.CorruptError, peewee.DatabaseError)
#: Anything that SQLite could not do.
DATABASE_ERRORS = (apsw.Error, peewee.DatabaseError)
UNIQUE_VIOLATIONS = (apsw.ConstraintError, peewee.IntegrityError)


# --- Errors of the disk and of SQLite, as an operator reads them ---
#
# Where nothing at all is free SQLite does not say that the disk is full: the index of its log cannot be made, which
# is a "disk I/O error". So the disk is asked.


#: For whoever asked for something meanwhile: they may not be able to log in and see the status.
DISK_FULL_MESSAGE = "The disk of the appliance is full. Ask its operator to free some space, then repeat the request."
_DISK_FULL_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
# The index of a log is made of 32 KiB at once, and a page is to go into the log.
_LEAST_FREE = 64 * 1024


@contextmanager
def failures_as_unusable(folder: Path, *, then: str = "") -> Iterator[None]:
    """What the disk or SQLite could not do is a StoreUnusable that says so; `then`: a sentence on what became of it."""
    try:
        yield
    except (OSError, *DATABASE_ERRORS) as error:
        raise to_unusable(error, folder, then=then) from error
    except UnicodeEncodeError as error:
        name = str(folder).encode("utf-8", "backslashreplace").decode()
        if name == str(folder):
            raise
        raise StoreUnusable(
            reason=f"its name, {name}, is not valid UTF-8, which SQLite requires. Rename it."
        ) from error


def to_unusable(error: Exception, folder: Path, *, then: str = "") -> StoreUnusable:
    """What is to be told of an error of the disk or of SQLite."""
    if is_disk_full(error, folder):
        reason = (
            f"the disk that holds {folder} is full{_free_room_note(folder)}. Free some space, then repeat the command."
        )
    elif isinstance(error, OSError):
        reason = f"{error.filename or folder}: {(error.strerror or str(error)).removesuffix('.')}."
    else:
        reason = f"its database in {folder} cannot be read or written ({error})."
    return StoreUnusable(reason=f"{reason} {then}".strip())


def is_disk_full(error: Exception, folder: Path) -> bool:
    """Whether what failed is that the disk of a folder is full."""
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL_NUMBERS
    chain = (error, error.__cause__, error.__context__)  # peewee wraps what fails while connecting
    if any(isinstance(one, apsw.FullError) for one in chain):
        return True
    with suppress(OSError):
        is_of_disk = any(isinstance(one, apsw.IOError | apsw.CantOpenError) for one in chain)
        return is_of_disk and isinstance(error, DATABASE_ERRORS) and free_bytes(folder) < _LEAST_FREE
    return False


def _free_room_note(folder: Path) -> str:
    with suppress(OSError):
        return f" ({format_size(free_bytes(folder))} free)"
    return ""
