"""The encrypted SQLite file under peewee and APSW: connections, transactions, and what a failure means.

Every thread has its own connection. Writers of this process take turns under one lock and begin IMMEDIATE: a
transaction that reads first and writes later is refused at once by SQLite when another one wrote in between.
"""

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import peewee
from playhouse.apsw_ext import APSWDatabase

CACHE_KIB = 4096
BUSY_SECONDS = 5

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]


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
        self._opened.add(conn)
        conn.pragma("cipher", self._cipher)
        conn.pragma("key", "raw:" + self._key.hex())  # `raw:`, since a plain hexkey is a passphrase to be stretched
        super()._add_conn_hooks(conn)


class Database:
    """An open store file. Raises peewee.DatabaseError on first use where the key does not fit or a page is damaged."""

    def __init__(self, file: Path, cipher: str, key: bytes) -> None:
        self._opened: weakref.WeakSet[Any] = weakref.WeakSet()
        self._peewee = _EncryptedDatabase(file, cipher, key, self._opened)
        self._writing = threading.RLock()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """All rows of a query."""
        return list(self._connection().execute(sql, parameters))

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row of a query, or None."""
        cursor = self._connection().execute(sql, parameters)
        first: Row | None = next(cursor, None)
        cursor.close()
        return first

    def value(self, sql: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def run(self, query: Any) -> Any:
        """Carry out a peewee query: rows as dicts for a select, the number of rows for an update or a delete."""
        self._connection()
        return query.execute(self._peewee)

    def change(self, sql: str, parameters: Parameters = ()) -> int:
        """Carry out one statement that writes, inside a transaction; the number of rows it touched."""
        connection = self._connection()
        connection.execute(sql, parameters)
        return int(connection.changes())

    def change_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Carry out one statement for each row of parameters, inside a transaction."""
        self._connection().executemany(sql, rows)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """All or nothing. A `durable` one is on the disk when this returns, also if the power fails right after.

        Others are on the disk a little later, and are never half there. Nesting joins the outer transaction.
        """
        with self._writing:
            connection = self._connection()
            if connection.in_transaction:
                yield
                return
            if durable:
                connection.execute("PRAGMA synchronous=FULL")
            try:
                with self._peewee.atomic("IMMEDIATE"):
                    yield
            finally:
                if durable:
                    connection.execute("PRAGMA synchronous=NORMAL")

    def close(self) -> None:
        """Close every thread's connection; the last one folds the write-ahead log into the file."""
        for connection in list(self._opened):
            connection.close()

    def _connection(self) -> Any:
        if self._peewee.is_closed():
            self._peewee.connect(reuse_if_open=True)
        return self._peewee.connection()


#: What SQLite says where a page cannot be trusted, or the key does not fit (peewee wraps the latter while connecting).
UNREADABLE = (apsw.NotADBError, apsw.CorruptError, peewee.DatabaseError)
UNIQUE_BROKEN = (apsw.ConstraintError, peewee.IntegrityError)
