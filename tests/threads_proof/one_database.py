"""apsw under `store/database.py`: writers, readers, threads that come and go, copies, interrupts, `close` amid all."""

import gc
import random
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import peewee

from mailbox_appliance.errors import BackupNotMade, StoreUnusable
from mailbox_appliance.store.backup.files import OnlineCopier
from mailbox_appliance.store.database import DATABASE_ERRORS, Database
from mailbox_appliance.store.key import CIPHERS, StoreKey
from tests.threads_proof.together import run_together

_LARGEST = 6 << 20
_SECONDS = 1.0  # of a round, until everything is closed
_ENDED = (
    StoreUnusable,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
    apsw.InterruptError,
    peewee.InterfaceError,
    peewee.OperationalError,
)
_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) STRICT",
    "INSERT INTO meta VALUES ('created_at', 'now')",
    "CREATE TABLE t (a INTEGER PRIMARY KEY, size INTEGER, text TEXT, content BLOB) STRICT",
    "CREATE VIRTUAL TABLE words USING fts5(text)",
)


class _Enough(Exception):
    """Breaks a statement off from within SQLite."""


def stress(chance: random.Random) -> None:
    """One round: a database that is used for a second, closed amid that, and found whole."""
    with tempfile.TemporaryDirectory(prefix="threads-") as name:
        folder = Path(name)
        key = StoreKey(chance.randbytes(32), "store", chance.choice(sorted(CIPHERS)))
        database = Database(folder / "some.db", key.cipher, key.derive("database"))
        with database.transaction():
            for statement in _SCHEMA:
                database.change(statement)
        written: list[int] = []
        _use(database, folder, key, chance, written)
        again = Database(folder / "some.db", key.cipher, key.derive("database"))
        assert again.value("PRAGMA integrity_check") == "ok"
        assert again.value("SELECT count(*) FROM t") >= len(written), "a commit is gone"
        assert not again.rows("SELECT a FROM t WHERE size <> length(content)")
        again.close()


def _use(database: Database, folder: Path, key: StoreKey, chance: random.Random, written: list[int]) -> None:
    ending = threading.Event()
    copier = OnlineCopier(folder / "some.db", key, database)

    def until_closed(act: Callable[[random.Random], None]) -> Callable[[], None]:
        own = random.Random(chance.random())

        def run() -> None:
            while not ending.is_set():
                try:
                    act(own)
                except _ENDED:
                    if ending.is_set():
                        return
                except (apsw.BusyError, _Enough, BackupNotMade):
                    pass
                except apsw.SQLError as error:
                    # An interrupt while the full-text index is opened is reported like this.
                    if "vtable constructor" not in str(error):
                        raise

        return run

    acts: list[Callable[[random.Random], None]] = [partial(_write, database, written) for _ in range(3)]
    acts += [partial(_read, database) for _ in range(4)]
    acts += [partial(_come_and_go, database, folder, key) for _ in range(2)]
    acts += [partial(_copy, copier, folder), partial(_interrupt, database)]

    def close() -> None:
        time.sleep(_SECONDS * chance.uniform(0.3, 1))
        try:
            assert database.close(60), "mail_connection_in_use"
        finally:
            ending.set()

    try:
        run_together(*map(until_closed, acts), close)
    finally:
        copier.close()


def _write(database: Database, written: list[int], chance: random.Random) -> None:
    size = int(_LARGEST ** chance.random())
    with database.transaction(durable=chance.random() < 0.2):
        text = "word " * (size // 10)
        parameters = (size, text, chance.randbytes(size))
        database.change("INSERT INTO t (size, text, content) VALUES (?, ?, ?)", parameters)
        database.change("INSERT INTO words (text) VALUES (?)", (text[:2000],))
        if chance.random() < 0.3:
            database.change("UPDATE t SET content = ?, size = 1 WHERE a = (SELECT min(a) FROM t)", (b"x",))
    written.append(size)


def _read(database: Database, chance: random.Random) -> None:
    for count, (size, content) in enumerate(database.iterate("SELECT size, content FROM t ORDER BY random() LIMIT 5")):
        assert size == len(content)
        if count > chance.randrange(5):
            return  # the cursor is dropped in the middle
    database.rows("SELECT rowid FROM words WHERE words MATCH 'word' LIMIT 5")
    database.cached_row("SELECT value FROM meta WHERE name = ?", ("created_at",))
    if chance.random() < 0.2:
        with database.progress_handler(1000, _break_off):
            database.rows("SELECT count(*) FROM t, t, t, words")


def _break_off() -> None:
    raise _Enough


def _come_and_go(database: Database, folder: Path, key: StoreKey, chance: random.Random) -> None:
    """A thread that ends without closing, and connections that nobody closes: the garbage collector does."""

    left: list[Any] = [Database(folder / "some.db", key.cipher, key.derive("database"))]
    left[0].itself = left[0]  # a cycle, so that whichever thread collects garbage finalizes its connections

    def use(one: Database) -> None:
        with suppress(*DATABASE_ERRORS, *_ENDED, _Enough):
            _read(one, chance)
            next(one.iterate("SELECT content FROM t"), None)

    threads = [threading.Thread(target=use, args=(one,)) for one in (database, *left, *left)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left.clear()
    if chance.random() < 0.5:
        gc.collect()


def _copy(copier: OnlineCopier, folder: Path, chance: random.Random) -> None:
    target = folder / f"copy-{chance.random()}"
    try:
        copier.copy(target)
    finally:
        target.unlink(missing_ok=True)


def _interrupt(database: Database, chance: random.Random) -> None:
    """Interrupt whatever the other threads are at, as `close` does with readers."""
    for connection in list(database._opened):
        with suppress(apsw.ConnectionClosedError):
            connection.interrupt()
    time.sleep(chance.uniform(0, 0.05))
