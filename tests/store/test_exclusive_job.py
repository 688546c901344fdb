"""One long job at a time, and its progress."""

import pytest

from mailbox_appliance.errors import Problem, StoreAtWork
from mailbox_appliance.store.exclusive_job import ExclusiveJob, JobProgress


def test_it_tells_how_far_it_is_while_it_lasts() -> None:
    work = ExclusiveJob()
    seen = [work.current]
    with work.run("backup") as progress:
        seen.append(work.current)
        progress("copying", 3, 10)
        seen.append(work.current)
    seen.append(work.current)
    assert seen == [None, JobProgress("backup"), JobProgress("backup", "copying", 3, 10), None]


def test_a_second_one_is_refused_and_the_first_goes_on() -> None:
    work = ExclusiveJob()
    with work.run("store_check"):
        with pytest.raises(StoreAtWork, match=r"^A check of the store is already running"), work.run("backup"):
            pass
        assert work.current == JobProgress("store_check")


def test_what_fails_gives_the_place_back() -> None:
    work = ExclusiveJob()
    with pytest.raises(Problem), work.run("backup"):
        raise Problem
    with work.run("store_check"):
        assert work.current == JobProgress("store_check")
