"""Failures are counted by bucket, for fifteen minutes, and no burst passes a limit."""

from contextlib import ExitStack
from datetime import timedelta

import pytest

from mailbox_appliance.errors import Throttled
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock


def wait(store: Store, **limits: int) -> int:
    """The seconds until an attempt has room; 0: now."""
    try:
        store.login_attempts.require_room(limits)
    except Throttled as problem:
        return problem.retry_after or -1
    return 0


def fail(store: Store, **limits: int) -> int:
    """As `wait`; where there is room it is used up."""
    if not (seconds := wait(store, **limits)):
        with store.login_attempts.reserve(limits), store.database.transaction():
            store.login_attempts.record_failure(limits)
    return seconds


def test_attempts_have_a_limit_in_every_bucket(store: Store, clock: FakeClock) -> None:
    for _ in range(3):
        assert fail(store, email=3, address=5) == 0
        clock.advance(60)
    assert fail(store, email=3, address=5) == 12 * 60
    # What was refused was counted nowhere.
    assert [fail(store, address=5) for _ in range(3)] == [0, 0, 12 * 60]


def test_attempts_are_forgotten_after_the_window(store: Store, clock: FakeClock) -> None:
    assert [fail(store, email=1), fail(store, email=1)] == [0, 900]
    clock.advance(899.5)
    assert fail(store, email=1) == 1
    clock.advance(0.5)
    assert fail(store, email=1) == 0
    assert store.database.value("SELECT count(*) FROM attempts") == 1


def test_a_bucket_is_cleared(store: Store) -> None:
    for _ in range(2):
        assert fail(store, email=2, address=3) == 0
    with store.database.transaction():
        store.login_attempts.clear("email")
    assert [fail(store, email=2, address=3), fail(store, email=2, address=3) > 0] == [0, True]


def test_attempts_under_way_leave_room_for_their_failures(store: Store) -> None:
    limits = {"email": 5, "address": 3}
    assert fail(store, address=3) == 0
    with ExitStack() as under_way:
        for _ in range(2):
            under_way.enter_context(store.login_attempts.reserve(limits))
        with pytest.raises(Throttled) as refused, store.login_attempts.reserve(limits):
            pass
        # Both may still turn out well: it is not fifteen minutes that one has to wait.
        assert refused.value.retry_after == 1
        with store.login_attempts.reserve({"email": 5}):
            pass
    with store.login_attempts.reserve(limits):
        pass
    assert store.database.value("SELECT count(*) FROM attempts") == 1


def test_looking_and_what_turns_out_well_write_nothing(store: Store) -> None:
    before = store.database.value("SELECT total_changes()")
    assert wait(store, email=1) == 0
    with store.login_attempts.reserve({"email": 1}):
        pass
    assert store.database.value("SELECT total_changes()") == before


def test_a_clock_that_is_set_back_locks_nobody_out(store: Store, clock: FakeClock) -> None:
    for _ in range(2):
        fail(store, email=2)
    clock.set_wall(clock.now() - timedelta(days=1))
    assert [fail(store, email=2) for _ in range(3)] == [0, 0, 900]


def test_attempts_survive_a_restart(store: Store, clock: FakeClock) -> None:
    fail(store, email=1)
    store.close()
    again = Store.open(store.folder, clock)
    assert fail(again, email=1) == 900
    again.close()
