"""One worker answers quick requests, others join for late ones, and requests for bodies never take all workers."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mailbox_appliance.web.server.workers import LATE, TaskQueue, WorkerPool


@dataclass
class Task:
    path: str
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    is_canceled: bool = False
    worker: str = ""
    hold: object = None

    @property
    def requests(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(path=self.path, hold=self.hold)]

    def service(self) -> None:
        self.worker = threading.current_thread().name
        self.began.set()
        assert self.gate.wait(20)

    def cancel(self) -> None:
        self.is_canceled = True


def body() -> Task:
    return Task("/api/v1/accounts/a/messages/m/body")


def other() -> Task:
    return Task("/healthz")


def asking() -> Task:
    return Task("/api/v1/events")


def answered() -> Task:
    """A request for events that has waited."""
    return Task("/api/v1/events", hold="released")


@pytest.mark.parametrize(
    ("arrived", "taken"),
    [
        ("oooo", "0123"),
        ("bbbo", "013"),
        ("obbbo", "0124"),
        ("bobob", "0123"),
        ("bbbb", "01"),
    ],
)
def test_what_a_worker_takes(arrived: str, taken: str) -> None:
    queue = TaskQueue(2)
    tasks = [body() if one == "b" else other() for one in arrived]
    for task in tasks:
        queue.append(task)
    found = []
    while queue:
        one = queue.popleft()
        found.append(tasks.index(getattr(one, "_task", one)))
    assert "".join(map(str, found)) == taken
    assert len(queue) == len(arrived) - len(taken)


@pytest.mark.parametrize(
    ("arrived", "taken"),
    [
        ("eeo", "201"),
        ("eaeo", "3102"),
        ("aaoooooooo", "2340567189"),
        ("eeeb", "3012"),
    ],
    ids=["others first", "then answers", "but for one in four", "bodies too"],
)
def test_requests_for_events_let_others_go_first(arrived: str, taken: str) -> None:
    queue = TaskQueue(2)
    kinds = {"e": asking, "a": answered, "b": body, "o": other}
    tasks = [kinds[one]() for one in arrived]
    for task in tasks:
        queue.append(task)
    assert len(queue) == len(arrived)
    found = []
    while queue:
        one = queue.popleft()
        found.append(tasks.index(getattr(one, "_task", one)))
    assert "".join(map(str, found)) == taken


def test_requests_for_events_are_dropped_with_the_others_in_their_order() -> None:
    queue, tasks = TaskQueue(2), [asking(), other(), answered(), body()]
    for task in tasks:
        queue.append(task)
    assert queue.clear() == tasks
    assert not queue


@pytest.fixture
def workers() -> Iterator[WorkerPool]:
    """Four workers, of which two read bodies, and a thread that looks for late requests, as a listener's loop does."""
    pool, ended = WorkerPool(2), threading.Event()

    def look() -> None:
        while not ended.wait(LATE):
            pool.check_lateness()

    loop = threading.Thread(target=look)
    loop.start()
    pool.start(4)
    yield pool
    ended.set()
    loop.join()
    assert pool.stop(20)


def test_others_are_answered_while_bodies_are_read(workers: WorkerPool) -> None:
    bodies = [body() for _ in range(6)]
    for one in bodies:
        workers.add_task(one)
    assert all(one.began.wait(20) for one in bodies[:2])
    quick = [other() for _ in range(2)]
    for one in quick:
        workers.add_task(one)
    assert all(one.began.wait(20) for one in quick)
    assert not any(one.began.is_set() for one in bodies[2:])
    for one in (*quick, *bodies[:2]):
        one.gate.set()
    assert all(one.began.wait(20) for one in bodies[2:4])
    for one in bodies:
        one.gate.set()
    assert all(one.began.wait(20) for one in bodies)


def test_one_worker_answers_quick_requests_one_after_another() -> None:
    workers, tasks = WorkerPool(2), [other() for _ in range(20)]
    for one in tasks:
        one.gate.set()
        workers.add_task(one)
    assert workers.waiting_count == 20
    workers.start(4)
    assert all(one.began.wait(20) for one in tasks)
    for one in (other() for _ in range(5)):
        until(lambda: workers.busy_count == 0)
        one.gate.set()
        workers.add_task(one)
        assert one.began.wait(20)
        tasks.append(one)
    assert workers.stop(20)
    # The last worker to become idle is woken first.
    assert len({one.worker for one in tasks[20:]}) == 1


def test_a_late_request_does_not_delay_others(workers: WorkerPool) -> None:
    late = [other() for _ in range(3)]
    for one in late:
        workers.add_task(one)
    assert all(one.began.wait(20) for one in late)
    assert len({one.worker for one in late}) == 3
    quick = [other() for _ in range(5)]
    for one in quick:
        one.gate.set()
        workers.add_task(one)
    assert all(one.began.wait(20) for one in quick)
    until(lambda: workers.busy_count == 3)
    for one in late:
        one.gate.set()


def test_requests_that_arrive_together_are_checked_before_the_first_starts() -> None:
    workers, tasks = WorkerPool(2), [other() for _ in range(2)]
    workers.start(2)
    until(lambda: len(workers._idle) == 2)
    with workers._lock:  # the called worker cannot start
        workers._called = 1
        workers._queue.append(tasks[0])
    assert workers.check_lateness() == LATE
    workers._called = 0
    workers.add_task(tasks[1])
    assert tasks[0].began.wait(20)
    time.sleep(2 * LATE)
    workers.check_lateness()
    assert tasks[1].began.wait(20)
    for one in tasks:
        one.gate.set()
    assert workers.stop(20)


def test_nothing_is_checked_while_no_request_waits() -> None:
    workers = WorkerPool(2)
    workers.start(1)
    running, waiting = other(), other()
    assert workers.check_lateness() is None
    workers.add_task(running)
    assert running.began.wait(20)
    assert workers.check_lateness() is None
    workers.add_task(waiting)
    assert (workers.check_lateness() or 0.0) <= LATE
    time.sleep(2 * LATE)
    assert workers.check_lateness() is None  # no worker is left that could take it
    running.gate.set()
    waiting.gate.set()
    assert waiting.began.wait(20)
    assert workers.stop(20)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, at most 20 seconds."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_waits_at_the_end_is_canceled() -> None:
    workers = WorkerPool(1)
    workers.start(2)
    bodies = [body() for _ in range(3)]
    for one in bodies:
        workers.add_task(one)
    assert bodies[0].began.wait(20)
    ending = threading.Thread(target=workers.stop, args=(0.2,))
    ending.start()
    ending.join()
    assert [one.is_canceled for one in bodies[1:]] == [True, True]
    bodies[0].gate.set()
