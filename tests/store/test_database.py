"""Transactions, readers and threads on one encrypted file."""

import errno
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import apsw
import peewee
import psutil
import pytest

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store.database import UNREADABLE_ERRORS, Database, set_cipher_key
from mailbox_appliance.store.key import CIPHERS
from tests.servers.mailboxes import wait_until

KEY = bytes(range(32))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A database with one table."""
    made = Database(tmp_path / "some.db", "aegis", KEY)
    with made.transaction():
        made.change("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT) STRICT")
    return made


def in_thread(action: Callable[[], object]) -> object:
    """Return the result of a function in a thread of its own, which has ended."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result(10)


def test_many_writers_take_turns(database: Database) -> None:
    start = threading.Barrier(8)

    def write(_writer: int) -> None:
        start.wait(10)
        for _ in range(50):
            with database.transaction():
                # Read, then write: SQLite would refuse this if another thread wrote in between.
                known = database.value("SELECT coalesce(max(a), 0) FROM t")
                database.change("INSERT INTO t VALUES (?, 'x')", (known + 1,))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert database.value("SELECT count(*) FROM t") == 400
    assert database.value("SELECT max(a) FROM t") == 400
    database.close()


def test_two_writers_of_two_databases_on_one_file_wait_for_each_other(database: Database, tmp_path: Path) -> None:
    other = Database(tmp_path / "some.db", "aegis", KEY)
    inside = threading.Event()

    def write_slowly() -> None:
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'slow')")
            inside.set()
            # Until the other one asks for its turn it can only be waiting.
            threading.Event().wait(0.05)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(write_slowly)
        assert inside.wait(10)
        with other.transaction():
            # Had it begun before the slow one ended, it would read old data, and could not write after that.
            assert other.value("SELECT b FROM t") == "slow"
            other.change("UPDATE t SET b = 'after'")
        slow.result(10)
    assert database.value("SELECT b FROM t") == "after"
    database.close()
    other.close()


@pytest.mark.parametrize("is_caught_outside", [False, True])
def test_nested_transactions_are_rolled_back_whole(database: Database, is_caught_outside: bool) -> None:
    def fail_inside() -> None:
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'outer')")
            with database.transaction():
                database.change("INSERT INTO t VALUES (2, 'inner')")
                if not is_caught_outside:
                    raise ValueError
            raise ValueError

    with pytest.raises(ValueError):
        fail_inside()
    assert database.rows("SELECT * FROM t") == []
    with database.transaction():
        database.change("INSERT INTO t VALUES (3, 'next')")
    assert database.rows("SELECT a FROM t") == [(3,)]
    database.close()


class Disk:
    """Counts the syncs of the log, and can hold or fail them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.waiting, self.go_on, self.is_broken = 0, threading.Event(), threading.Event(), False
        self.go_on.set()
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, _handle: int) -> None:
        self.count += 1
        self.waiting.set()
        assert self.go_on.wait(10)
        if self.is_broken:
            raise OSError(errno.EIO, "Input/output error")

    def hold(self) -> None:
        self.waiting.clear()
        self.go_on.clear()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def write(database: Database, *, durable: bool = True, awaited: bool = True) -> None:
    with database.transaction(durable=durable, awaited=awaited):
        database.change("INSERT INTO t (b) VALUES ('x')")


def test_only_a_durable_transaction_waits_for_the_disk(database: Database, disk: Disk) -> None:
    write(database, durable=False)
    assert disk.count == 0
    write(database)
    assert disk.count == 1
    with database.transaction(durable=True):
        write(database)
        write(database, durable=False)
        assert disk.count == 1
    assert disk.count == 2
    with database.transaction(durable=True):
        assert database.value("SELECT count(*) FROM t") == 4  # nothing to wait for
    with pytest.raises(ValueError), database.transaction(durable=True):
        raise ValueError
    database.wait_until_durable()
    assert disk.count == 2
    database.close()


def test_a_commit_that_is_not_awaited_is_synced_with_the_next_one(database: Database, disk: Disk) -> None:
    write(database, awaited=False)
    assert disk.count == 0
    write(database)
    database.wait_until_durable()
    assert disk.count == 1
    write(database, awaited=False)
    database.wait_until_durable()
    assert disk.count == 2
    database.close()


def test_who_waits_for_all_commits_waits_for_those_that_need_not_last(database: Database, disk: Disk) -> None:
    write(database, durable=False)
    write(database, durable=False)
    database.wait_until_durable()
    assert disk.count == 0
    database.wait_until_durable(all_commits=True)
    database.wait_until_durable(all_commits=True)
    assert disk.count == 1
    write(database)
    database.wait_until_durable(all_commits=True)
    assert disk.count == 2
    with suppress(ValueError), database.transaction():
        database.change("INSERT INTO t (b) VALUES ('x')")
        raise ValueError
    database.wait_until_durable(all_commits=True)
    assert disk.count == 2
    database.close()


def test_who_waits_together_shares_a_sync(database: Database, disk: Disk) -> None:
    disk.hold()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(write, database)
        assert disk.waiting.wait(10)
        others = [pool.submit(write, database) for _ in range(8)]
        # They commit during the first one's sync, which does not hold the lock, and need one more.
        wait_until(lambda: database.value("SELECT count(*) FROM t") == 9, lambda: "not committed", 10)
        assert not any(each.done() for each in (first, *others))
        disk.go_on.set()
        for each in (first, *others):
            each.result(10)
    assert disk.count == 2
    database.close()


def test_a_read_can_wait_for_what_it_saw(database: Database, disk: Disk) -> None:
    disk.hold()
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write, database)
        assert disk.waiting.wait(10)
        assert database.value("SELECT count(*) FROM t") == 1
        reading = pool.submit(database.wait_until_durable)
        with pytest.raises(TimeoutError):
            reading.result(0.05)
        disk.go_on.set()
        writing.result(10)
        reading.result(10)
    assert disk.count == 1
    database.close()


_BEGIN = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.pragma("cipher", "aegis")
connection.pragma("key", "raw:" + sys.argv[2])
try:
    connection.execute("BEGIN IMMEDIATE")
    print("begun")
except apsw.BusyError:
    print("busy")
"""


def test_a_sync_drops_no_lock(database: Database, tmp_path: Path) -> None:
    """Closing a handle of a file drops the locks of the process on that file; the log must have none."""

    def begin() -> str:
        command = [sys.executable, "-c", _BEGIN, str(tmp_path / "some.db"), KEY.hex()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    write(database, awaited=False)
    with database.transaction():
        in_thread(database.wait_until_durable)
        assert begin() == "busy"
    assert begin() == "begun"
    database.close()


def test_after_a_sync_that_failed_nothing_is_durable_any_more(database: Database, disk: Disk) -> None:
    """The system may have dropped the pages that it could not write; the next sync would succeed all the same."""
    disk.is_broken = True
    with pytest.raises(apsw.IOError, match="Input/output"):
        write(database)
    disk.is_broken = False
    with pytest.raises(apsw.IOError, match="Input/output"):
        write(database)
    with pytest.raises(apsw.IOError, match="Input/output"):
        database.wait_until_durable()
    assert disk.count == 1
    write(database, durable=False)
    database.close()


def test_a_durable_transaction_cannot_hide_in_one_that_is_not(database: Database) -> None:
    def hide() -> None:
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'x')")
            with database.transaction(durable=True):
                pytest.fail("it was begun")

    with pytest.raises(RuntimeError):
        hide()
    assert database.rows("SELECT * FROM t") == []
    database.close()


def test_readers_see_what_is_committed(database: Database) -> None:
    def count() -> object:
        return database.value("SELECT count(*) FROM t")

    with database.transaction():
        database.change("INSERT INTO t VALUES (1, 'x')")
        assert count() == 1
        assert in_thread(count) == 0
    assert in_thread(count) == 1
    database.close()


def test_a_connection_ends_with_its_thread(database: Database, tmp_path: Path) -> None:
    def opened() -> int:
        files = psutil.Process().open_files()
        return len([file for file in files if file.path == str(tmp_path / "some.db")])

    # SQLite keeps the file descriptor of a closed connection for the next one, while others have the file open.
    for _ in range(20):
        assert in_thread(lambda: database.value("SELECT 1")) == 1
    assert opened() == 2
    database.close()
    assert opened() == 0


def test_closing_leaves_one_file(database: Database, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: database.value("SELECT 1"), range(9)))
        # These threads are still running, and have connections of their own.
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'x')")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["some.db", "some.db-shm", "some.db-wal"]
        database.close()
        assert [path.name for path in tmp_path.iterdir()] == ["some.db"]
        with pytest.raises(StoreUnusable):
            pool.submit(database.value, "SELECT 1").result(10)
    database.close()


def test_closing_interrupts_who_reads_and_waits_for_who_writes(database: Database, tmp_path: Path) -> None:
    writing, reading = threading.Event(), threading.Event()
    forever = "WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT count(*) FROM n"

    def write() -> None:
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'x')")
            writing.set()
            reading.wait(10)
            database.change("INSERT INTO t VALUES (2, 'y')")

    def read() -> None:
        database.value("SELECT 1")
        reading.set()
        with pytest.raises((apsw.InterruptError, StoreUnusable)):
            database.value(forever)

    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(write), pool.submit(read)]
        assert writing.wait(10)
        assert reading.wait(10)
        database.close()
        for task in tasks:
            task.result(10)
    again = Database(tmp_path / "some.db", "aegis", KEY)
    assert again.rows("SELECT a FROM t") == [(1,), (2,)]
    again.close()


def test_nobody_connects_any_more_once_it_is_closed(tmp_path: Path) -> None:
    process, before = psutil.Process(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(50):
            file = tmp_path / f"{number}.db"
            database, start = Database(file, "aegis", KEY), threading.Barrier(5)

            def ask(database: Database, start: threading.Barrier) -> None:
                start.wait(10)
                with suppress(StoreUnusable, apsw.Error):
                    database.value("SELECT 1")
                start.wait(10)
                start.wait(10)  # its connection would end with it

            threads = [threading.Thread(target=ask, args=(database, start)) for _ in range(4)]
            for thread in threads:
                thread.start()
            start.wait(10)
            time.sleep(number * 16e-6)  # each time at another moment
            is_closed = database.close(10)
            start.wait(10)
            left = [one.path for one in process.open_files() if one.path == str(file)]
            start.wait(10)
            for thread in threads:
                thread.join(10)
            assert (is_closed, left) == (True, [])
    finally:
        sys.setswitchinterval(before)


def test_abandoning_folds_nothing_in(database: Database, tmp_path: Path) -> None:
    before = (tmp_path / "some.db").read_bytes()
    database.close_without_checkpoint()
    assert (tmp_path / "some.db").read_bytes() == before
    assert (tmp_path / "some.db-wal").stat().st_size > 0


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_damaged_page_is_an_error_and_never_other_rows(tmp_path: Path, cipher: str) -> None:
    file = tmp_path / "some.db"
    database = Database(file, cipher, KEY)
    expected = [(number, f"{number:0200}") for number in range(200)]
    with database.transaction():
        database.change("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT) STRICT")
        database.change_many("INSERT INTO t VALUES (?, ?)", expected)
    database.close()
    whole = file.read_bytes()
    for position in range(16 + 8, len(whole), 1499):
        spoilt = bytearray(whole)
        spoilt[position] ^= 1
        file.write_bytes(spoilt)
        database = Database(file, cipher, KEY)
        with pytest.raises(UNREADABLE_ERRORS):
            database.rows("SELECT * FROM t")
        database.close_without_checkpoint()
    file.write_bytes(whole)
    database = Database(file, cipher, KEY)
    assert database.rows("SELECT * FROM t") == expected
    database.close()


def test_nothing_readable_is_in_the_file_the_log_or_what_is_sorted_aside(database: Database, tmp_path: Path) -> None:
    with database.transaction():
        database.change_many("INSERT INTO t VALUES (?, ?)", [(n, f"readable {n:0300}") for n in range(2000)])
    assert database.rows("PRAGMA temp_store") == [(2,)], "what is sorted aside stays in memory"
    for name in ("some.db", "some.db-wal", "some.db-shm"):
        assert b"readable" not in (tmp_path / name).read_bytes()
    assert b"SQLite format" not in (tmp_path / "some.db").read_bytes()
    database.close()


def test_a_key_as_such_is_no_passphrase(database: Database, tmp_path: Path) -> None:
    database.close()
    connection = apsw.Connection(str(tmp_path / "some.db"))
    set_cipher_key(connection, "aegis", KEY)
    assert connection.pragma("user_version") == 0
    connection.close()
    connection = apsw.Connection(str(tmp_path / "some.db"))
    connection.pragma("cipher", "aegis")
    connection.pragma("hexkey", KEY.hex())
    with pytest.raises(apsw.NotADBError):
        connection.pragma("user_version")
    connection.close()


def test_a_kept_row_is_asked_for_again_after_a_commit(database: Database, tmp_path: Path) -> None:
    def kept() -> object:
        return database.cached_row("SELECT b FROM t WHERE a = ?", (1,))

    def write(text: str) -> None:
        with database.transaction():
            database.change("INSERT OR REPLACE INTO t VALUES (1, ?)", (text,))

    assert kept() is None
    write("first")
    assert kept() == ("first",)
    in_thread(lambda: write("second"))
    assert kept() == ("second",)
    other = Database(tmp_path / "some.db", "aegis", KEY)  # as no other process may
    with other.transaction():
        other.change("UPDATE t SET b = 'behind its back'")
    assert kept() == ("second",)
    with database.transaction():
        database.change("INSERT INTO t VALUES (2, '')")
    assert kept() == ("behind its back",)
    other.close()
    database.close()


def test_what_is_read_inside_a_transaction_is_not_kept(database: Database) -> None:
    def write_in_vain() -> None:
        with database.transaction():
            database.change("INSERT INTO t VALUES (1, 'never')")
            assert database.cached_row("SELECT b FROM t WHERE a = ?", (1,)) == ("never",)
            raise LookupError

    with pytest.raises(LookupError):
        write_in_vain()
    assert database.cached_row("SELECT b FROM t WHERE a = ?", (1,)) is None
    database.close()


def test_many_threads_find_in_a_kept_row_what_they_committed(database: Database) -> None:
    def count(_: int) -> None:
        for _ in range(100):
            with database.transaction():
                database.change("UPDATE t SET b = b + 1")
                written = int(database.value("SELECT b FROM t"))
            # A thread sees at least its own writes: a sign-out is effective from its response on.
            assert int(database.cached_row("SELECT b FROM t WHERE a = ?", (1,))[0]) >= written  # type: ignore[index]

    with database.transaction():
        database.change("INSERT INTO t VALUES (1, '0')")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert database.cached_row("SELECT b FROM t WHERE a = ?", (1,)) == ("400",)
    database.close()


@pytest.mark.parametrize("is_many", [False, True])
def test_no_statement_keeps_a_large_parameter(database: Database, *, is_many: bool) -> None:
    large = "x" * (8 << 20)
    with database.transaction():
        before = apsw.memory_used()
        if is_many:
            database.change_many("INSERT INTO t (b) VALUES (?)", [(large,)])
        else:
            database.change("INSERT INTO t (b) VALUES (:b)", {"b": large})
    database.release_memory()
    assert apsw.memory_used() - before < 1 << 20
    assert database.value("SELECT length(b) FROM t") == len(large)
    database.close()


def test_queries_leave_no_cursor_behind(database: Database) -> None:
    def cursors() -> int:
        return sum(isinstance(one, apsw.Cursor) for one in gc.get_objects())

    with database.transaction():
        database.change_many("INSERT INTO t (b) VALUES (?)", [("x",), ("y",)])
    before = cursors()
    for _ in range(50):
        database.row("SELECT b FROM t")
        database.value("SELECT count(*) FROM t")
        database.rows("SELECT b FROM t")
        next(database.iterate("SELECT b FROM t"))
        with database.transaction():
            database.change("UPDATE t SET b = 'z'")
            assert list(database.run(peewee.Table("t", ("a", "b")).select()))
    assert cursors() - before < 10
    database.close()


def test_a_row_ends_its_statement(database: Database) -> None:
    with database.transaction():
        database.change_many("INSERT INTO t (b) VALUES (?)", [("x",), ("y",)])
    database.row("SELECT b FROM t")
    # A running statement keeps the log from being checkpointed.
    assert database.row("PRAGMA wal_checkpoint(TRUNCATE)") == (0, 0, 0)
    database.close()


def test_a_query_that_is_half_read_does_not_keep_a_database_open(database: Database, tmp_path: Path) -> None:
    with database.transaction():
        database.change_many("INSERT INTO t (b) VALUES (?)", [("x" * 500,) for _ in range(5000)])
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        rows = database.iterate("SELECT b FROM t")
        next(rows)
        begun.set()
        ended.wait(10)

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(10)
    assert database.close()
    assert [one.name for one in tmp_path.iterdir()] == ["some.db"]
    ended.set()
    thread.join()


def test_a_log_that_cannot_be_opened_once_is_synced_the_next_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when too many files are open."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(apsw.IOError, match="Too many"):
            write(database)
    write(database)
    database.close()


def test_a_database_that_closes_writes_what_is_waited_for(database: Database, disk: Disk) -> None:
    disk.hold()
    with ThreadPoolExecutor(2) as beside:
        writing = beside.submit(write, database)
        assert disk.waiting.wait(10)
        closing = beside.submit(database.close)
        disk.go_on.set()
        assert closing.result(10)
        writing.result(10)
