"""The order of the queue: limits for each mailbox and server, at a cost that does not grow with the queue."""

import time
from dataclasses import dataclass

import pytest

from mailbox_appliance.sending import worker
from mailbox_appliance.sending.worker import Line, Queue


@dataclass(frozen=True)
class One:
    """An item that waits."""

    line: Line
    number: int = 0


def now_waiting(account_id: str, number: int = 0, server: str = "a:25") -> One:
    return One(Line(server, account_id, is_scheduled=False), number)


def scheduled(account_id: str, number: int = 0, server: str = "a:25") -> One:
    return One(Line(server, account_id, is_scheduled=True), number)


@pytest.fixture
def waiting() -> Queue[One]:
    return Queue()


def fill(waiting: Queue[One], *ones: One) -> None:
    for one in ones:
        waiting.add(one)


def take_all(waiting: Queue[One], now: float = 0) -> list[One]:
    """Return all that may start together."""
    taken = []
    while (one := waiting.take(now)) is not None:
        taken.append(one)
    return taken


def test_what_somebody_waits_for_goes_first(waiting: Queue[One]) -> None:
    fill(waiting, scheduled("s"), scheduled("t"), now_waiting("a"), now_waiting("s"))
    assert take_all(waiting) == [now_waiting("a"), now_waiting("s"), scheduled("s"), scheduled("t")]


def test_mailboxes_take_turns_and_each_keeps_its_order(waiting: Queue[One]) -> None:
    fill(waiting, *[now_waiting("a", number) for number in range(3)], now_waiting("b"))
    assert take_all(waiting) == [now_waiting("a", 0), now_waiting("b"), now_waiting("a", 1)]
    waiting.leave(now_waiting("a", 0))
    assert take_all(waiting) == [now_waiting("a", 2)]


def many(make: object, count: int, *, mailboxes: int, servers: int = 1) -> list[One]:
    """Return this many items, of mailboxes and servers in turn."""
    assert callable(make)
    return [make(f"m{n % mailboxes}", n, f"s{n % mailboxes % servers}:25") for n in range(count)]


@pytest.mark.parametrize(
    ("ones", "bound"),
    [
        (many(now_waiting, 9, mailboxes=1), worker.MOST_PER_ACCOUNT),
        (many(now_waiting, 50, mailboxes=50), worker.MOST_PER_SERVER),
        (many(scheduled, 9, mailboxes=1), worker.MOST_SCHEDULED_PER_ACCOUNT),
        (many(scheduled, 50, mailboxes=50), worker.MOST_SCHEDULED_PER_SERVER),
        (many(scheduled, 50, mailboxes=50, servers=50), worker.MOST_SCHEDULED),
    ],
    ids=["of a mailbox", "of a server", "scheduled of a mailbox", "scheduled of a server", "scheduled"],
)
def test_bounds(waiting: Queue[One], ones: list[One], bound: int) -> None:
    fill(waiting, *ones)
    assert waiting.count_ready(0, 1000) == bound
    assert len(take_all(waiting)) == bound
    assert (waiting.take(0), waiting.count_ready(0, 1000), waiting.is_busy) == (None, 0, True)
    waiting.leave(ones[0])
    assert (waiting.count_ready(0, 1000), len(take_all(waiting))) == (1, 1)


def test_the_bounds_leave_room_for_others() -> None:
    assert worker.MOST_SCHEDULED_PER_ACCOUNT < worker.MOST_PER_ACCOUNT < worker.MOST_PER_SERVER < worker.MOST_THREADS
    assert worker.MOST_SCHEDULED_PER_SERVER < worker.MOST_SCHEDULED


def test_what_somebody_waits_for_starts_while_servers_stall_on_scheduled_ones(waiting: Queue[One]) -> None:
    fill(waiting, *many(scheduled, 96, mailboxes=96, servers=6))
    assert len(take_all(waiting)) < worker.MOST_THREADS
    fill(waiting, now_waiting("x", server="s0:25"), now_waiting("y", server="free:25"))
    assert take_all(waiting) == [now_waiting("x", server="s0:25"), now_waiting("y", server="free:25")]


def test_both_kinds_share_the_places_of_a_mailbox(waiting: Queue[One]) -> None:
    fill(waiting, scheduled("a"), now_waiting("a", 1), now_waiting("a", 2))
    assert take_all(waiting) == [now_waiting("a", 1), now_waiting("a", 2)]
    waiting.leave(now_waiting("a", 1))
    assert take_all(waiting) == [scheduled("a")]


def test_one_that_is_full_holds_up_no_other(waiting: Queue[One]) -> None:
    fill(waiting, *many(now_waiting, 50, mailboxes=50), now_waiting("free", server="b:25"))
    assert now_waiting("free", server="b:25") in take_all(waiting)


def test_what_was_put_off_comes_back_first(waiting: Queue[One]) -> None:
    fill(waiting, now_waiting("a", 0), now_waiting("a", 1))
    first = waiting.take(0)
    assert first == now_waiting("a", 0)
    waiting.put_off(first, until=5)
    waiting.leave(first)
    fill(waiting, now_waiting("a", 2))
    assert (waiting.next_at(), waiting.count_ready(4.9, 1000)) == (5, 2)
    assert waiting.take(4.9) == now_waiting("a", 1)
    assert (waiting.take(5), waiting.next_at()) == (now_waiting("a", 0), None)


def test_ready_ones_are_counted_up_to_what_is_asked(waiting: Queue[One]) -> None:
    fill(waiting, *many(now_waiting, 30, mailboxes=15))
    assert [waiting.count_ready(0, most) for most in (0, 1, 3, 16, 17)] == [0, 1, 3, 16, 16]


def test_nothing_is_left_of_those_that_have_gone(waiting: Queue[One]) -> None:
    for number in range(100):
        fill(waiting, now_waiting(f"a{number}", server=f"s{number}"))
        [one] = take_all(waiting)
        waiting.leave(one)
    assert (waiting.is_busy, waiting._taken, waiting._lines) == (False, {}, {False: {}, True: {}})


@pytest.mark.parametrize("mailboxes", [1, 20, 1000])
def test_a_look_costs_no_more_where_more_waits(waiting: Queue[One], mailboxes: int) -> None:
    fill(waiting, *many(scheduled, 20_000, mailboxes=mailboxes, servers=min(20, mailboxes)))
    taken = take_all(waiting)
    began = time.thread_time()
    for number in range(1000):
        fill(waiting, now_waiting("x", number))
        assert waiting.count_ready(0, 3) == 1
        assert waiting.take(0) == now_waiting("x", number)
        waiting.leave(now_waiting("x", number))
        waiting.leave(taken.pop(0))
        assert waiting.count_ready(0, 3) == 1
        taken += take_all(waiting)
    assert time.thread_time() - began < 2  # 0.1 s; if each waiting item were checked, it would take minutes
