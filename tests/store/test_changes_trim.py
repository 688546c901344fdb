"""The journal of changes: how it is kept within its limits, and what is read of it."""

from contextlib import suppress

import pytest

from mailbox_appliance.store.changes import KINDS, ChangeFilter
from mailbox_appliance.store.store import Store

WANTED = ChangeFilter(frozenset(KINDS), frozenset(), "mem_nobody")
_OLD, _NEW = 1_000, 2_000
_CACHE_MISSES = 8  # SQLITE_DBSTATUS_CACHE_MISS


def write(store: Store, count: int, at: int = _NEW) -> None:
    kind = KINDS.index("backup.failed") + 1
    with store.database.transaction():
        for _ in range(count):
            store.database.change("INSERT INTO changes (at, kind, subject) VALUES (?, ?, 'x')", (at, kind))


def rest(store: Store, before: int, most: int) -> tuple[int, int]:
    """Trim the journal; return how many transactions that took, and the position of the first row that is left."""
    times = 0
    while store.changes.delete_some(before, most):
        times += 1
    return times, int(store.database.value("SELECT coalesce(min(position), 0) FROM changes"))


@pytest.fixture
def start(store: Store) -> int:
    """The number of the last change in a new store, whose journal is then empty."""
    end = store.changes.end()
    rest(store, 1 << 60, 0)
    return end


def test_the_oldest_changes_beyond_the_count_are_deleted_some_at_a_time(store: Store, start: int) -> None:
    write(store, 12_000)
    assert rest(store, 0, 1_000) == (3, start + 11_001)
    assert store.changes.floor() == start + 11_000
    assert rest(store, 0, 1_000) == (0, start + 11_001)
    write(store, 10)
    assert rest(store, 0, 1_000) == (1, start + 11_011)


def test_changes_before_a_time_are_deleted(store: Store, start: int) -> None:
    write(store, 6_000, _OLD)
    write(store, 10)
    assert rest(store, _NEW, 1_000_000) == (2, start + 6_001)
    assert store.changes.floor() == start + 6_000


def test_an_empty_journal_keeps_its_end_and_its_floor(store: Store, start: int) -> None:
    write(store, 3)
    assert rest(store, 1 << 60, 1_000) == (1, 0)
    assert store.changes.end() == store.changes.floor() == start + 3
    assert not store.changes.delete_some(1 << 60, 0)


def test_whoever_was_behind_the_floor_must_start_anew(store: Store, start: int) -> None:
    write(store, 20)
    behind, at_it = (store.changes.to_position(start + number) for number in (9, 10))
    rest(store, 0, 10)
    assert store.changes.from_position(behind) is None
    assert store.changes.from_position(at_it) == start + 10
    changes, end = store.changes.read(start + 10, WANTED, 100)
    assert [change.position for change in changes] == list(range(start + 11, start + 21))
    assert end == start + 20


def test_rows_that_are_rolled_back_leave_no_gap(store: Store, start: int) -> None:
    write(store, 5)
    with suppress(ZeroDivisionError), store.database.transaction():
        store.database.change("INSERT INTO changes (kind, subject) VALUES (1, 'x')")
        raise ZeroDivisionError
    write(store, 5)
    assert store.database.value("SELECT max(position) - min(position) + 1 FROM changes") == 10


@pytest.mark.parametrize("limits", [(0, 1_000_000), (0, 1_000)], ids=["nothing to delete", "much to delete"])
@pytest.mark.usefixtures("start")
def test_a_look_at_a_long_journal_reads_little_of_it(store: Store, limits: tuple[int, int]) -> None:
    write(store, 30_000)
    store.database.rows("PRAGMA cache_size = 10")
    connection = store.database._connection()
    before = connection.status(_CACHE_MISSES)[0]
    store.changes.delete_some(*limits)
    assert connection.status(_CACHE_MISSES)[0] - before < 60  # all of it has more than a hundred pages
