"""The cache of parts: complete parts are readable, parts being read stay, the least recently used are evicted first."""

import sys
import threading
from collections.abc import Iterator

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.store.attachment_cache import CHUNK
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox, execute

LIMIT = 100


def number_of(store: Store, message_id: str) -> int:
    return int(store.database.value("SELECT number FROM messages WHERE id = ?", (message_id,)))


@pytest.fixture
def number(store: Store, mailbox: Mailbox) -> int:
    return number_of(store, mailbox.add(1))


def keep(store: Store, number: int, part: str, *chunks: bytes, limit: int = LIMIT) -> None:
    store.part_cache.put(number, part, chunks, limit=limit).close()


def read(store: Store, number: int, part: str) -> bytes | None:
    reading = store.part_cache.open(number, part)
    return None if reading is None else b"".join(reading)


def test_what_is_kept_is_read(store: Store, number: int) -> None:
    assert read(store, number, "2") is None
    keep(store, number, "2", b"a", b"", b"bc")
    keep(store, number, "", b"whole")
    keep(store, number, "3")
    assert [read(store, number, part) for part in ("2", "", "3", "4")] == [b"abc", b"whole", b"", None]
    keep(store, number, "2", b"again")
    assert read(store, number, "2") == b"again"


def test_large_parts_lie_in_chunks(store: Store, number: int) -> None:
    content = bytes(range(256)) * (CHUNK // 100)
    keep(store, number, "2", *(content[at : at + 70_000] for at in range(0, len(content), 70_000)), limit=0)
    reading = store.part_cache.open(number, "2")
    assert reading is not None
    assert reading.size == len(content)
    chunks = list(reading)
    assert (b"".join(chunks), max(map(len, chunks))) == (content, CHUNK)


def test_nothing_is_kept_of_what_broke_off(store: Store, number: int) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"x" * (CHUNK + 1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        store.part_cache.put(number, "2", breaks(), limit=LIMIT)
    assert read(store, number, "2") is None
    assert store.database.value("SELECT count(*) FROM cached_chunks") == 0


def test_what_a_killed_process_left_is_cleared(store: Store, number: int) -> None:
    with store.database.transaction():
        store.database.change("INSERT INTO cached_parts VALUES (77, ?, '9', -1, 0)", (number,))
        store.database.change("INSERT INTO cached_chunks VALUES (77, 0, x'00')")
    assert read(store, number, "9") is None
    keep(store, number, "2", b"a")
    assert store.database.rows("SELECT part FROM cached_parts") == [("2",)]


def test_the_least_used_go_first(store: Store, number: int, clock: FakeClock) -> None:
    for part in "123":
        clock.advance(120)
        keep(store, number, part, b"x" * 40)
    assert [read(store, number, part) is None for part in "123"] == [True, False, False]
    clock.advance(120)
    read(store, number, "2")
    clock.advance(120)
    keep(store, number, "4", b"x" * 40)
    assert [read(store, number, part) is None for part in "234"] == [False, True, False]


def test_one_beyond_the_bound_stays_until_the_next(store: Store, number: int) -> None:
    reading = store.part_cache.put(number, "1", [b"x" * (3 * LIMIT)], limit=LIMIT)
    assert (reading.size, b"".join(reading)) == (3 * LIMIT, b"x" * (3 * LIMIT))
    keep(store, number, "2", b"y")
    assert [read(store, number, part) is None for part in "12"] == [True, False]


def test_what_is_read_stays_while_it_is_read(store: Store, number: int) -> None:
    keep(store, number, "1", b"x" * (CHUNK + 5))
    reading = store.part_cache.open(number, "1")
    assert reading is not None
    first = next(reading)
    keep(store, number, "2", b"y" * LIMIT)
    assert len(first + next(reading)) == CHUNK + 5
    reading.close()
    reading.close()
    assert list(reading) == []
    keep(store, number, "3", b"z" * LIMIT)
    assert [read(store, number, part) is None for part in "123"] == [True, True, False]


def test_a_message_that_goes_takes_its_parts_along(store: Store, mailbox: Mailbox, number: int) -> None:
    keep(store, number, "1", b"x" * (CHUNK + 5))
    reading = store.part_cache.open(number, "1")
    assert reading is not None
    next(reading)
    execute(store, "DELETE FROM messages WHERE number = ?", (number,))
    with pytest.raises(NotFound):
        next(reading)
    with pytest.raises(NotFound):
        keep(store, number, "2", b"a")
    assert store.database.value("SELECT count(*) FROM cached_chunks") == 0


def test_who_reads_what_is_gone_gets_nothing_else(store: Store, mailbox: Mailbox, number: int) -> None:
    other = number_of(store, mailbox.add(2))
    keep(store, number, "1", b"x" * (2 * CHUNK))
    reading = store.part_cache.open(number, "1")
    assert reading is not None
    next(reading)
    execute(store, "DELETE FROM messages WHERE number = ?", (number,))
    keep(store, other, "1", b"y" * (2 * CHUNK))
    with pytest.raises(NotFound):
        next(reading)


def test_a_message_that_goes_while_a_part_of_it_comes_in(store: Store, number: int) -> None:
    def interrupted() -> Iterator[bytes]:
        yield b"x" * CHUNK
        execute(store, "DELETE FROM messages WHERE number = ?", (number,))
        yield b"y" * CHUNK

    with pytest.raises(NotFound):
        store.part_cache.put(number, "1", interrupted(), limit=LIMIT)


def test_many_at_once(store: Store, number: int) -> None:
    failures: list[BaseException] = []

    def work(part: str) -> None:
        try:
            for _ in range(20):
                keep(store, number, part, part.encode() * 30)
                assert read(store, number, part) in (None, part.encode() * 30)
        except BaseException as failure:  # noqa: BLE001 - told to the test
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(str(each),)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert store.database.value("SELECT sum(size) FROM cached_parts") <= LIMIT


def test_what_was_just_kept_is_there_for_who_kept_it(store: Store, number: int) -> None:
    """Other parts stored at the same moment may need its space."""
    failures: list[BaseException] = []

    def work(part: str) -> None:
        try:
            for _ in range(100):
                reading = store.part_cache.put(number, part, [part.encode() * LIMIT], limit=1)
                assert b"".join(reading) == part.encode() * LIMIT
        except BaseException as failure:  # noqa: BLE001 - told to the test
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(str(each),)) for each in range(8)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns between any two steps
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    assert not failures
