"""Access to the encrypted SQLite file through peewee and APSW: connections, transactions, and readable errors.

Every thread has its own connection. Only one thread of this process writes at a time: a lock and BEGIN IMMEDIATE see to
that. Otherwise SQLite would refuse a transaction that reads first and writes later, if another one wrote in between.
"""

import errno
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw
import peewee
from playhouse.apsw_ext import APSWDatabase

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store.files import format_size
from mailbox_appliance.system.files import BINARY
from mailbox_appliance.system.files import free_bytes as free_bytes

log = logging.getLogger(__name__)
# At level debug peewee logs every statement with its values: addresses, hashes, passwords of mailboxes.
logging.getLogger("peewee").setLevel(logging.WARNING)

CACHE_KIB = 4096
BUSY_SECONDS = 5
_MAX_CACHED_ROWS = 256
# Size of a parameter, in characters or bytes, above which its statement is not cached: a cached statement keeps its
# parameters until its next use, for each thread's connection.
_LARGE = 1 << 16
_CLOSED = "it has been closed."

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]


def set_cipher_key(connection: Any, cipher: str, key: bytes) -> None:
    """Set the cipher and key of a new connection, before any other statement."""
    connection.pragma("cipher", cipher)
    connection.pragma("key", "raw:" + key.hex())  # `raw:`, since a plain hexkey would be stretched as a passphrase.


#: connections that are being closed permanently
_closing: "weakref.WeakSet[Any]" = weakref.WeakSet()
#: Held while a connection is added to the open ones, and while these are listed: a set must not change during
#: iteration.
_opened_lock = threading.Lock()


class _Cursor(apsw.Cursor):
    """Cursor whose `close` does nothing, as a workaround for a memory leak.

    In APSW 3.54 `Cursor.close` takes a reference to the cursor and never releases it, and peewee closes every cursor
    that it has read to its end. So each closed cursor stayed in memory: 5 MB for 10,000 requests.
    """

    __slots__ = ()

    def close(self, force: bool = False) -> None:
        """Do nothing, unless the connection is being closed. Garbage collection of the cursor ends the statement."""
        with suppress(apsw.CursorClosedError, apsw.ConnectionClosedError):
            if self.connection in _closing:
                super().close(force)


class _EncryptedDatabase(APSWDatabase):
    """peewee's APSW database that sets the encryption key on each new connection, before any other statement."""

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
        # peewee closes a connection whose file cannot be read; the log must not be checkpointed into such a file.
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        set_cipher_key(conn, self._cipher, self._key)
        super()._add_conn_hooks(conn)
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


class _LogSync:
    """Writes the log to the disk. Threads that wait at the same time share one sync.

    The handle is not SQLite's. SQLite locks the database and the index of the log, but never the log itself, so closing
    the handle drops no lock (decision 024). It stays open, since Linux reports a failed write only to those who had the
    file open then.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._handle: int | None = None
        self._log = ""
        self._noted = self._synced = 0  # durable commits: made, and on the disk
        self._begun = self._ended = self._all_synced = 0  # all commits: about to be visible, made, and on the disk
        self._is_syncing = False
        self._failure: OSError | None = None

    def begin_commit(self, log: str) -> None:
        """Count a commit that others may see from now on. `log`: the path of the write-ahead log. Call it while
        writing.
        """
        self._log, self._begun = log, self._begun + 1

    def end_commit(self, *, durable: bool) -> None:
        """Note that the commit was made, or has failed. `durable`: it must get to the disk. Call it while writing."""
        self._ended, self._noted = self._begun, self._noted + durable

    def wait(self) -> None:
        """Wait until all durable commits so far are on the disk. Raises apsw.IOError if a sync failed, also an earlier
        one: the system may have dropped what it could not write, so no later sync can be trusted.
        """
        mine = self._noted
        self._sync_unless(lambda: self._synced >= mine)

    def wait_for_all(self) -> None:
        """Wait until all commits that can be seen now are on the disk, durable or not. Raises as `wait`."""
        mine = self._begun
        self._sync_unless(lambda: self._all_synced >= mine)

    def _sync_unless(self, is_synced: Callable[[], bool]) -> None:
        if is_synced():
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._is_syncing or is_synced())
            if is_synced():
                return
            self._is_syncing, until = True, (self._noted, self._ended)
        synced = self._synced, self._all_synced
        try:
            self._sync()
            synced = until
        finally:
            with self._changed:
                self._is_syncing, (self._synced, self._all_synced) = False, synced
                self._changed.notify_all()

    def close(self, deadline: float) -> None:
        """Write what was noted to the disk, and close the handle. No commit may be noted any more.

        `deadline`: the monotonic time at which a sync that hangs is no longer waited for.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_syncing, max(0.0, deadline - time.monotonic())):
                return
            if self._synced < self._noted:
                with suppress(apsw.IOError):  # those who wait get the error
                    self._sync()
                    self._synced = self._noted
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None

    def _sync(self) -> None:
        if self._failure is None:
            try:
                handle = self._open()
            except OSError as error:  # such as too many open files: nothing is lost, and the next sync may succeed
                raise apsw.IOError(f"the log of the store cannot be opened: {error}") from error
            try:
                os.fsync(handle)
                return
            except OSError as error:
                log.error("store_sync_failed", extra={"errno": error.errno})
                self._failure = error
        raise apsw.IOError(f"the log of the store cannot be synced: {self._failure}") from self._failure

    def _open(self) -> int:
        """SQLite makes a new log after its last connection was closed."""
        if self._handle is not None:
            if os.path.samestat(os.fstat(self._handle), Path(self._log).stat()):
                return self._handle
            os.close(self._handle)
            self._handle = None
        self._handle = os.open(self._log, os.O_RDWR | BINARY)
        return self._handle


class Database:
    """An open store file. Its first query raises peewee.DatabaseError if the key does not fit or a page is damaged."""

    def __init__(self, file: Path, cipher: str, key: bytes) -> None:
        self._opened: weakref.WeakSet[Any] = weakref.WeakSet()
        self._peewee = _EncryptedDatabase(file, cipher, key, self._opened)
        self._writing = threading.RLock()
        self._connecting = threading.Lock()  # held by a thread that opens a connection or closes them all
        self._is_durable = False
        self._sync = _LogSync()
        self._is_closed = False
        self._kept: dict[tuple[object, ...], Row] = {}
        #: Called after each commit, in the thread that committed. They must be quick, and must not raise.
        self.commit_listeners: list[Callable[[], object]] = []

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a query."""
        return list(self._connection().execute(sql, parameters))

    def iterate(self, sql: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Yield the rows of a query one at a time, for results too large for memory."""
        yield from self._connection().execute(sql, parameters)

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row of a query, or None."""
        # Dropping the cursor ends its statement.
        first: Row | None = next(self._connection().execute(sql, parameters), None)
        return first

    def cached_row(self, sql: str, parameters: Sequence[object]) -> Row | None:
        """Return the first row of a query, or None. The row is cached until the next commit.

        Use it for queries that every request makes. The cache is never outdated: no other process writes, since this
        one holds the lock of the data directory.
        """
        if self._connection().in_transaction:
            return self.row(sql, parameters)
        kept, key = self._kept, (sql, *parameters)
        found = kept.get(key)
        if found is None:
            found = self.row(sql, parameters)
            # If a commit intervenes, this goes into a dict that is not used again.
            if found is not None and len(kept) < _MAX_CACHED_ROWS:
                kept[key] = found
        return found

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """Return the first column of the first row of a query, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text as the full-text index stores them: in lower case and without diacritics."""
        tokenizer = self._connection().fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
        found: list[str] = tokenizer(
            text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
        )
        return found

    def run(self, query: Any) -> Any:
        """Execute a peewee query. Returns dicts for a select, the number of changed rows for an update or a delete."""
        self._connection()
        return query.execute(self._peewee)

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        """Execute one statement that writes, and return the number of rows it changed. Call it inside a transaction."""
        connection = self._connection()
        given = parameters.values() if isinstance(parameters, Mapping) else parameters
        connection.execute(sql, parameters, can_cache=not _has_large(given))
        return int(connection.changes())

    def change_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Execute one statement once for each sequence of parameters in `rows`. Call it inside a transaction."""
        connection = self._connection()
        # Apart, since a statement that is not cached is prepared again for each row.
        for is_large, some in groupby(rows, _has_large):
            connection.executemany(sql, some, can_cache=not is_large)

    @contextmanager
    def progress_handler(self, every: int, look: Callable[[], None]) -> Iterator[None]:
        """Context manager: until the block ends, call `look` regularly during long statements of this thread.

        `every`: number of SQLite's virtual machine steps between two calls. `look` can report progress or let other
        threads run. If it raises an exception, the statement ends and the caller gets the exception.
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
        """Free the page cache of this thread's connection, for example after reading or writing a large value."""
        self._connection().execute("PRAGMA shrink_memory")

    @contextmanager
    def transaction(self, *, durable: bool = False, awaited: bool = True) -> Iterator[None]:
        """Context manager: a transaction. All statements of the block are committed, or none of them if it raises.

        `durable`: wait until the commit is on the disk, so that it survives a power failure. Other commits may be lost
        in a power failure, but are never half written. A nested transaction becomes part of the outer one; if the inner
        one is durable, the outer one must be as well.

        Threads that wait share one sync, outside of the lock for writing. So other threads can read a durable commit
        before it is on the disk: call `wait_until_durable` after reading what a response will promise to a client.
        `awaited`: False leaves the wait to `wait_until_durable`, or to the next durable commit of any thread.
        """
        with self._taking_turn(durable) as is_outermost:
            yield
        if durable and awaited and is_outermost:
            self._sync.wait()

    def wait_until_durable(self, *, all_commits: bool = False) -> None:
        """Wait until all commits of durable transactions, by any thread, are on the disk. Call it in no transaction.

        `all_commits`: wait for the commits of other transactions as well, as far as they can be seen now.
        """
        if all_commits:
            self._sync.wait_for_all()
        else:
            self._sync.wait()

    @contextmanager
    def _taking_turn(self, durable: bool) -> Iterator[bool]:
        """Context manager: a transaction. Yield whether it is the outermost one."""
        with self._writing:
            connection = self._connection()
            if connection.in_transaction:
                if durable and not self._is_durable:
                    raise RuntimeError("a durable transaction cannot be part of one that is not")
                yield False
                return
            self._is_durable, before, has_changed = durable, connection.total_changes(), False
            try:
                with self._peewee.atomic("IMMEDIATE"):
                    yield True
                    if has_changed := connection.total_changes() != before:
                        self._sync.begin_commit(connection.filename_wal)
            finally:
                self._sync.end_commit(durable=durable and has_changed)
                self._is_durable = False
                self._kept = {}
                for listener in self.commit_listeners:
                    listener()

    @contextmanager
    def block_writers(self) -> Iterator[None]:
        """Context manager: keep all other threads from writing until the block ends. Keep the block short."""
        with self._writing:
            yield

    def close(self, within: float = 2.0) -> bool:
        """Close the connections of all threads, and checkpoint the write-ahead log into the file.

        Running writes may finish, running reads are interrupted, and later queries raise StoreUnusable. Returns False
        if a connection was still in use after `within` seconds.
        """
        deadline = time.monotonic() + within
        has_turn = self._writing.acquire(timeout=within)
        # A thread that is connecting is waited for, and its connection is closed with the others; none can connect
        # after that.
        is_alone = self._connecting.acquire(timeout=max(0.0, deadline - time.monotonic()))
        self._is_closed = True
        if is_alone:
            self._connecting.release()
        try:
            self._sync.close(deadline)
            # Each is closed, even if an earlier one failed to close.
            return not [one for one in self._list_opened() if not _close(one, deadline)] and is_alone
        finally:
            if has_turn:
                self._writing.release()

    def close_without_checkpoint(self) -> None:
        """Close the connections of all threads, but leave the database file and its write-ahead log as they are."""
        with self._connecting:  # No thread can open another one in the meantime.
            self._is_closed = True
        self.disable_checkpoints()
        self.close()

    def _list_opened(self) -> list[Any]:
        with _opened_lock:
            return list(self._opened)

    def disable_checkpoints(self) -> None:
        """Keep all open connections from checkpointing a write-ahead log when they close.

        This applies to the store's own log, and to those of attached databases.
        """
        for connection in self._list_opened():
            with suppress(apsw.ConnectionClosedError):  # a connection that failed while it was opened
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
        except apsw.ThreadingViolationError:  # Its thread is executing a statement.
            if time.monotonic() > deadline:
                log.warning("database_connection_in_use")
                return False
            connection.interrupt()
            time.sleep(0.01)


#: The errors of SQLite for a page that cannot be trusted or a key that does not fit (peewee wraps the latter while
#: connecting).
UNREADABLE_ERRORS = (apsw.NotADBError, apsw.CorruptError, peewee.DatabaseError)
#: All errors of SQLite.
DATABASE_ERRORS = (apsw.Error, peewee.DatabaseError)
UNIQUE_VIOLATIONS = (apsw.ConstraintError, peewee.IntegrityError)


# --- Errors of the disk and of SQLite, as an operator reads them ---
#
# If no space at all is free, SQLite does not report a full disk: it cannot create the index of its log, which it
# reports as a "disk I/O error". So the free space is checked.


#: For the member whose request failed: they may be unable to sign in and see the status.
DISK_FULL_MESSAGE = "The disk of the appliance is full. Ask its operator to free some space, then repeat the request."
_DISK_FULL_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
# SQLite creates the index of a log with 32 KiB at once, and one page must fit into the log.
_LEAST_FREE = 64 * 1024


@contextmanager
def failures_as_unusable(folder: Path, *, then: str = "") -> Iterator[None]:
    """Context manager: raise StoreUnusable instead of an error of the disk or of SQLite in the block.

    `folder`: the data directory, for the message. `then`: a sentence that ends the message, such as "Nothing was
    changed."
    """
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
    """Return a StoreUnusable that describes an error of the disk or of SQLite.

    `folder`: the data directory, for the message. `then`: a sentence that ends the message.
    """
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
    """Whether an error of the disk or of SQLite means that the disk of this folder is full."""
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL_NUMBERS
    chain = (error, error.__cause__, error.__context__)  # peewee wraps errors while connecting.
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
