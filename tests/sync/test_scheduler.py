"""Tasks take turns: one thread each at a time, nobody is forgotten, nobody waits for those with silent servers."""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mailbox_appliance.sync import scheduler
from mailbox_appliance.sync.scheduler import After, Next, Pool, Rest, Task
from tests.servers.mailboxes import wait_until


class Turns:
    """A task that does what the test says, and complains about two turns at once."""

    def __init__(self, turn: Callable[["Turns"], Next], *, is_slow: bool = False, server: str = "") -> None:
        self.is_slow, self.server, self.count = is_slow, server, 0
        self._turn, self._mine = turn, threading.Lock()
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)

    def turn(self) -> Next:
        assert self._mine.acquire(blocking=False)
        try:
            self.count += 1
            return self._turn(self)
        finally:
            self._mine.release()

    def has_heard(self) -> bool:
        assert self._mine.acquire(blocking=False)
        try:
            heard = self.ours.recv(4096)
            return not heard or heard.strip(b"quiet") != b""
        finally:
            self._mine.release()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.count >= count, lambda: f"{self.count} turns, not {count}", 10)


class Rig:
    """A pool and its tasks."""

    def __init__(self, size: int) -> None:
        self.pool = Pool(size)
        self.pool.start()
        self.tasks: list[Turns] = []

    def submit(self, task: Task, is_heard: bool = False) -> None:
        self.pool.submit(task, is_heard=is_heard)

    def task(self, turn: Callable[[Turns], Next], *, is_slow: bool = False, server: str = "") -> Turns:
        """A task that has been submitted."""
        self.tasks.append(Turns(turn, is_slow=is_slow, server=server))
        self.submit(self.tasks[-1])
        return self.tasks[-1]

    def stop(self) -> None:
        self.pool.stop(5)
        for task in self.tasks:
            task.ours.close()
            task.theirs.close()
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sync-")]


@contextmanager
def rig_of(size: int) -> Iterator[Rig]:
    rig = Rig(size)
    try:
        yield rig
    finally:
        rig.stop()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with rig_of(2) as rig:
        yield rig


def test_a_rest_ends_by_its_time_by_its_socket_and_by_being_woken(rig: Rig) -> None:
    task = rig.task(lambda task: Rest(0.01) if task.count == 1 else Rest(None, task.ours))
    task.wait_for(2)
    task.theirs.send(b"news")
    task.wait_for(3)
    task.theirs.send(b"quiet")
    rig.submit(task)
    task.wait_for(4)
    task.theirs.close()  # the end of a connection is work too
    task.wait_for(5)


def test_what_is_no_news_disturbs_nobody(rig: Rig) -> None:
    task = rig.task(lambda task: Rest(None, task.ours))
    task.wait_for(1)
    for _ in range(20):
        task.theirs.send(b"quiet")
        time.sleep(0.002)
    assert task.count == 1
    rig.submit(task)
    task.wait_for(2)


def test_a_rest_wakes_the_watcher_only_if_it_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "EpollSelector", object, raising=False)
    woken: list[bool] = []
    monkeypatch.setattr(scheduler.Watcher, "_wake", lambda _: woken.append(True))
    watcher, tasks = scheduler.Watcher(), [Turns(lambda _: After.ENDED) for _ in range(4)]
    watcher.open()
    for task, seconds in zip(tasks, (30.0, 60.0, None, 0.01), strict=True):
        watcher.watch(task, Rest(seconds, task.ours))
    assert len(woken) == 2
    tasks[2].theirs.send(b"news")
    assert list(watcher.wait()) == [(tasks[2], True)]
    assert list(watcher.wait()) == [(tasks[3], False)]
    watcher.watch(tasks[2], Rest(50.0, tasks[2].ours))
    assert len(woken) == 2
    watcher.close()
    for task in tasks:
        task.ours.close()
        task.theirs.close()


def test_a_task_that_is_wanted_in_its_turn_gets_another(rig: Rig) -> None:
    began, go_on = threading.Event(), threading.Event()

    def turn(_: Turns) -> Next:
        began.set()
        go_on.wait(10)
        return Rest(None)

    task = rig.task(turn)
    assert began.wait(10)
    for _ in range(3):
        rig.submit(task)
    go_on.set()
    task.wait_for(2)
    rig.pool.stop(5)
    assert task.count == 2


def test_one_with_much_to_do_lets_others_have_their_turns() -> None:
    def work(_: Turns) -> Next:
        time.sleep(0.005)
        return After.AGAIN

    with rig_of(1) as rig:
        long = rig.task(work)
        for task in [rig.task(lambda _: After.ENDED) for _ in range(20)]:
            task.wait_for(1)
        before = long.count
        assert before <= 21
        long.wait_for(before + 1)


def test_slow_ones_leave_room_for_others() -> None:
    go_on = threading.Event()

    def wait(_: Turns) -> Next:
        go_on.wait(10)
        return After.ENDED

    with rig_of(4) as rig:
        slow = [rig.task(wait, is_slow=True) for _ in range(6)]
        rig.task(lambda _: After.ENDED).wait_for(1)
        assert sum(task.count for task in slow) == 2
        go_on.set()
        for task in slow:
            task.wait_for(1)


def test_servers_that_fall_silent_leave_room_for_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LATE", 0.05)
    go_on = threading.Event()

    def stall(_: Turns) -> Next:
        go_on.wait(10)
        return Rest(None)

    with rig_of(3) as rig:
        silent = [rig.task(stall, server="silent") for _ in range(9)]
        answering = [rig.task(lambda task: Rest(None, task.ours)) for _ in range(5)]
        alike = rig.task(lambda task: Rest(None, task.ours), server="silent")
        for task in answering:
            task.wait_for(1)
        for number in range(2, 5):
            for task in answering:
                task.theirs.send(b"news")
            for task in answering:
                task.wait_for(number)
        assert sum(task.count for task in (*silent, alike)) == 3
        rig.pool.submit(alike, is_heard=True)  # its server does answer
        alike.wait_for(1)
        go_on.set()
        for task in silent:
            task.wait_for(1)


def test_who_was_late_is_slow_until_a_turn_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LATE", 0.05)
    go_on = threading.Event()

    def stall(task: Turns) -> Next:
        go_on.wait(10 if task.count > 1 else 0.1)
        return Rest(None)

    with rig_of(4) as rig:
        silent = [rig.task(stall) for _ in range(6)]
        for task in silent:
            task.wait_for(1)
        time.sleep(0.15)
        for task in silent:
            rig.submit(task)
        rig.task(lambda _: After.ENDED).wait_for(1)
        assert sum(task.count for task in silent) == 8
        go_on.set()
        for task in silent:
            task.wait_for(2)
            rig.submit(task)
        for task in silent:
            task.wait_for(3)


def test_what_takes_long_to_hear_holds_up_nobody_who_submits(rig: Rig) -> None:
    began, go_on = threading.Event(), threading.Event()

    class Flooded(Turns):
        def has_heard(self) -> bool:
            began.set()
            go_on.wait(10)
            return super().has_heard()

    task = Flooded(lambda task: Rest(None, task.ours))
    rig.tasks.append(task)
    rig.submit(task)
    task.wait_for(1)
    wait_until(lambda: not rig.pool._running, lambda: "at rest", 10)
    task.theirs.send(b"quiet")
    assert began.wait(10)
    rig.submit(task)  # it is wanted while it is being asked
    rig.task(lambda _: After.ENDED).wait_for(1)
    assert task.count == 1
    go_on.set()
    task.wait_for(2)
    task.theirs.send(b"news")
    task.wait_for(3)


def test_a_turn_that_fails_ends_no_thread(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Turns) -> Next:
        raise ValueError

    for _ in range(4):
        rig.task(fail)
    rig.task(lambda _: After.ENDED).wait_for(1)
    assert "sync_turn_failed" in caplog.text


def test_tasks_that_are_woken_from_everywhere_never_have_two_turns_at_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [rig.task(lambda task: Rest(0.001 * (task.count % 3), task.ours)) for _ in range(30)]

    def wake() -> None:
        for _ in range(20):
            for task in tasks:
                rig.submit(task)

    threads = [threading.Thread(target=wake) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in tasks:
        task.wait_for(5)
    assert not caplog.records
