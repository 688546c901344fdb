"""One long thing at a time, and how far it is."""

import pytest

from mailbox_appliance.errors import Problem, StoreAtWork
from mailbox_appliance.store.long_work import LongWork, Underway


def test_it_tells_how_far_it_is_while_it_lasts() -> None:
    work = LongWork()
    seen = [work.now]
    with work.doing("A backup") as progress:
        seen.append(work.now)
        progress("copying", 3, 10)
        seen.append(work.now)
    seen.append(work.now)
    assert seen == [None, Underway("A backup"), Underway("A backup", "copying", 3, 10), None]


def test_a_second_one_is_refused_and_the_first_goes_on() -> None:
    work = LongWork()
    with work.doing("A check"):
        with pytest.raises(StoreAtWork, match=r"^A check is under way"), work.doing("A backup"):
            pass
        assert work.now == Underway("A check")


def test_what_fails_gives_the_place_back() -> None:
    work = LongWork()
    with pytest.raises(Problem), work.doing("A backup"):
        raise Problem
    with work.doing("A check"):
        assert work.now == Underway("A check")
