"""Requests for bodies never take all workers."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mailbox_appliance.web.server.server import WorkerPool
from mailbox_appliance.web.server.task_queue import TaskQueue


@dataclass
class Task:
    path: str
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    is_canceled: bool = False

    @property
    def requests(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(path=self.path)]

    def service(self) -> None:
        self.began.set()
        assert self.gate.wait(20)

    def cancel(self) -> None:
        self.is_canceled = True


def body() -> Task:
    return Task("/api/v1/accounts/a/messages/m/body")


def other() -> Task:
    return Task("/healthz")


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
    queue = TaskQueue(2, threading.Condition())
    tasks = [body() if one == "b" else other() for one in arrived]
    for task in tasks:
        queue.append(task)
    found = []
    while queue:
        one = queue.popleft()
        found.append(tasks.index(getattr(one, "_task", one)))
    assert "".join(map(str, found)) == taken
    assert len(queue) == len(arrived) - len(taken)


def test_others_are_answered_while_bodies_are_read() -> None:
    workers = WorkerPool(2)
    workers.set_thread_count(4)
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
    assert workers.stop(20)


def test_what_waits_at_the_end_is_canceled() -> None:
    workers = WorkerPool(1)
    workers.set_thread_count(2)
    bodies = [body() for _ in range(3)]
    for one in bodies:
        workers.add_task(one)
    assert bodies[0].began.wait(20)
    ending = threading.Thread(target=workers.stop, args=(0.2,))
    ending.start()
    ending.join()
    assert [one.is_canceled for one in bodies[1:]] == [True, True]
    bodies[0].gate.set()
