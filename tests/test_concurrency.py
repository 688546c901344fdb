"""Few requests hold a worker while they wait: which wait for hashing, which are refused at once, and which give way."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import pytest

from mailbox_appliance.concurrency import WorkerLimits
from tests.servers.mailboxes import wait_until

WAITS = 20.0


class LogIns:
    """Sign-ins that arrive one after another, each in a thread of its own."""

    def __init__(self, places: WorkerLimits) -> None:
        self.places, self._pool = places, ThreadPoolExecutor(16)
        self.held = ExitStack()
        #: The callers that got a slot, by their numbers, in order.
        self.order: list[int] = []
        self._come = 0

    def hash(self, count: int, *, is_local: bool = False) -> list[AbstractContextManager[bool]]:
        """Return this many that are being hashed."""
        made: list[AbstractContextManager[bool]] = [
            self.places.slot_for_hashing(is_local=is_local) for _ in range(count)
        ]
        assert all(each.__enter__() for each in made)
        for each in made:
            self.held.push(each)
        return made

    def come(self, *, is_local: bool = False, until: threading.Event | None = None) -> "Future[bool]":
        """Start one more that waits; return whether it got a slot, which it frees at once, or at `until`."""
        before = self._queued(is_local)
        future = self._pool.submit(self._try, self._come, is_local, until)
        self._come += 1
        wait_until(
            lambda: future.done() or self._queued(is_local) > before, lambda: "it neither waits nor is refused", 10
        )
        return future

    def close(self) -> None:
        self.held.close()
        self._pool.shutdown()

    def _try(self, number: int, is_local: bool, until: threading.Event | None) -> bool:
        with self.places.slot_for_hashing(is_local=is_local) as has_place:
            if has_place:
                self.order.append(number)
            if until is not None:
                until.wait(WAITS)
            return has_place

    def _queued(self, is_local: bool) -> int:
        return self.places._queued_local if is_local else len(self.places._queue)


@pytest.fixture
def log_ins() -> Iterator[LogIns]:
    made = LogIns(WorkerLimits(8, 4, WAITS))
    yield made
    made.close()


def test_who_comes_from_elsewhere_waits_for_a_place(log_ins: LogIns) -> None:
    log_ins.hash(2)
    waiting = [log_ins.come() for _ in range(4)]
    assert not any(one.done() for one in waiting)
    log_ins.held.close()
    assert [one.result(10) for one in waiting] == [True] * 4
    with log_ins.places.slot_for_hashing(is_local=False) as has_place:
        assert has_place, "nothing is left behind"


def test_a_crowd_is_refused_at_once(log_ins: LogIns) -> None:
    log_ins.hash(2)
    waiting = [log_ins.come() for _ in range(4)]
    assert [log_ins.come().result(10) for _ in range(3)] == [False] * 3
    assert not any(one.done() for one in waiting), "they were there before"
    with log_ins.places.slot_for_hashing(is_local=True) as has_place:
        assert has_place, "one place is left for this computer"
    log_ins.held.close()
    assert [one.result(10) for one in waiting] == [True] * 4


def test_nobody_overtakes(log_ins: LogIns) -> None:
    first, _ = log_ins.hash(2)
    waiting = [log_ins.come() for _ in range(3)]
    first.__exit__(None, None, None)
    assert [one.result(10) for one in waiting] == [True] * 3
    assert log_ins.order == [0, 1, 2]


def test_whose_patience_ends_has_no_place() -> None:
    places = WorkerLimits(8, 4, 0.05)
    with (
        places.slot_for_hashing(is_local=False),
        places.slot_for_hashing(is_local=False),
        places.slot_for_hashing(is_local=False) as has_place,
    ):
        assert has_place is False
    with places.slot_for_hashing(is_local=False) as has_place:
        assert has_place


def test_a_local_log_in_gives_back_its_own_place_only(log_ins: LogIns) -> None:
    """Otherwise the one slot that is reserved for this computer would be freed for others."""
    with log_ins.places.slot_for_hashing(is_local=True):
        pass
    log_ins.hash(2)
    third = log_ins.come()
    assert not third.done()
    log_ins.held.close()
    assert third.result(10) is True


def test_who_gets_a_place_tells_the_next_one_of_another(log_ins: LogIns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slots become free together, and the first in the queue checks last: the second has checked before its
    turn.
    """
    log_ins.hash(2)
    held_now, changed = threading.Event(), log_ins.places._changed
    waiting = [log_ins.come(until=held_now) for _ in range(2)]
    with changed:
        with monkeypatch.context() as unheard:
            unheard.setattr(changed, "notify_all", lambda: None)
            log_ins.held.close()
        changed.notify()  # the one that has waited longest
    wait_until(lambda: sorted(log_ins.order) == [0, 1], lambda: "the second sleeps on", 10)
    held_now.set()
    assert [one.result(10) for one in waiting] == [True] * 2


def test_four_wait_at_most_whatever_else_is_free() -> None:
    log_ins = LogIns(WorkerLimits(32, 20, WAITS))
    log_ins.hash(10)
    waiting = [log_ins.come() for _ in range(6)]
    assert [one.result(10) for one in waiting[4:]] == [False] * 2
    assert not any(one.done() for one in waiting[:4])
    log_ins.close()
    assert [one.result(10) for one in waiting[:4]] == [True] * 4


def test_nobody_waits_for_longer_than_a_second() -> None:
    assert WorkerLimits(8, 4).patience == 1.0


def test_who_waits_for_servers_comes_first(log_ins: LogIns) -> None:
    """So at most 4 of 8 workers wait, and 3 hash."""
    log_ins.hash(2)
    waiting = [log_ins.come() for _ in range(4)]
    with ExitStack() as asking:
        for left in (3, 2, 1, 0):
            assert asking.enter_context(log_ins.places.slot_for_io())
            assert waiting[left].result(10) is False, "who came last gives way"
            assert not any(one.done() for one in waiting[:left])
        assert not asking.enter_context(log_ins.places.slot_for_io()), "four is the most"
        assert log_ins.places.waiting == 4
        assert log_ins.come().result(10) is False
    assert log_ins.places.waiting == 0
    again = log_ins.come()
    assert not again.done()
    log_ins.held.close()
    assert again.result(10) is True


def test_log_ins_of_this_computer_wait_and_leave_less_room(log_ins: LogIns) -> None:
    log_ins.hash(3, is_local=True)
    here = [log_ins.come(is_local=True) for _ in range(3)]
    elsewhere = log_ins.come()
    assert log_ins.come().result(10) is False
    assert not elsewhere.done()
    here += [log_ins.come(is_local=True) for _ in range(2)]
    assert elsewhere.result(10) is False
    log_ins.held.close()
    assert [one.result(10) for one in here] == [True] * 5


@pytest.mark.parametrize(("workers", "waiting"), [(2, 1), (2, 63), (3, 1), (8, 7), (64, 63)])
def test_with_few_workers_one_hashes(workers: int, waiting: int) -> None:
    places = WorkerLimits(workers, waiting, 0)
    for is_local in (True, False):
        with places.slot_for_hashing(is_local=is_local) as first, places.slot_for_hashing(is_local=False) as second:
            assert (first, second) == (True, False)
