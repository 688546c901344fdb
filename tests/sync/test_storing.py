"""Work is stored in order on another thread, and its result or error comes back."""

import threading
from collections.abc import Iterator

import pytest

from mailbox_appliance.sync.storing import StoringThread


@pytest.fixture
def storing() -> Iterator[StoringThread]:
    made = StoringThread(idle=0.05)
    yield made
    made.close()


def test_tasks_run_in_order_on_one_other_thread(storing: StoringThread) -> None:
    threads: list[str] = []
    order: list[int] = []

    def work(number: int) -> int:
        threads.append(threading.current_thread().name)
        order.append(number)
        return number * 2

    tasks = [storing.submit(lambda number=number: work(number)) for number in range(20)]  # type: ignore[misc]
    assert [task.result() for task in tasks] == [number * 2 for number in range(20)]
    assert (order, set(threads)) == (list(range(20)), {"sync-storing"})


def test_an_error_is_raised_where_the_result_is_awaited(storing: StoringThread) -> None:
    def fail() -> None:
        raise OSError("the disk is full")

    task = storing.submit(fail)
    task.wait()
    assert task.is_done
    with pytest.raises(OSError, match="full"):
        task.result()
    assert storing.submit(lambda: 1).result() == 1


def test_an_idle_thread_ends_and_starts_again(storing: StoringThread) -> None:
    first = storing.submit(threading.current_thread).result()
    first.join(5)
    assert not first.is_alive()
    assert storing.submit(threading.current_thread).result() is not first


def test_closing_finishes_the_queue_and_later_work_is_done_at_once(storing: StoringThread) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)

    first, last = storing.submit(work), storing.submit(lambda: "last")
    assert begun.wait(10)
    go_on.set()
    storing.close()
    assert (first.is_done, last.is_done) == (True, True)
    assert storing.submit(threading.current_thread).result() is threading.current_thread()
