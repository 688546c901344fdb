"""A periodic task runs again after any outcome, and never after it was stopped."""

import logging
import threading

import pytest

from mailbox_appliance.jobs.periodic import PeriodicTask


def test_a_look_that_fails_is_logged_and_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    looks, again = [0], threading.Event()

    def look() -> None:
        looks[0] += 1
        if looks[0] == 1:
            raise OSError("a full disk")
        again.set()

    repeating = PeriodicTask("watch", look, 0.001)
    with caplog.at_level(logging.ERROR):
        repeating.start()
        assert again.wait(10)
    repeating.stop(10)
    assert repeating.is_stopping
    assert [record.getMessage() for record in caplog.records] == ["periodic_task_failed"]
    assert not any(thread.name == "watch" for thread in threading.enumerate())


def test_the_first_look_can_be_waited_for() -> None:
    looked = threading.Event()
    repeating = PeriodicTask("watch", looked.set, 3600, at_once=False)
    repeating.start()
    repeating.stop(10)
    assert not looked.is_set()


def test_one_that_never_began_is_stopped() -> None:
    PeriodicTask("watch", lambda: None, 1).stop(0)
    assert not any(thread.name == "watch" for thread in threading.enumerate())
