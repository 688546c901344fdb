"""Timestamps: text order is time order, and reading them back loses nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mailbox_appliance.clock import (
    Backoff,
    Clock,
    SystemClock,
    from_millis,
    from_timestamp,
    millis_to_timestamp,
    retry_delay,
    to_millis,
    to_timestamp,
)
from tests.servers.fake_clock import FakeClock

TOKYO = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00.000Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 7999, tzinfo=UTC), "2026-01-31T12:00:00.007Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 999999, tzinfo=UTC), "2026-01-31T12:00:00.999Z"),
        (datetime(2026, 1, 1, 3, tzinfo=TOKYO), "2025-12-31T18:00:00.000Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 1000, tzinfo=UTC), "1969-12-31T23:59:59.001Z"),
        (datetime(987, 6, 5, tzinfo=UTC), "0987-06-05T00:00:00.000Z"),
    ],
)
def test_to_timestamp(moment: datetime, text: str) -> None:
    assert to_timestamp(moment) == text


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00.007Z", datetime(2026, 1, 31, 12, 0, 0, 7000, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+09:00", datetime(2026, 1, 31, 3, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456-01:30", datetime(2026, 1, 31, 13, 30, 0, 123456, tzinfo=UTC)),
    ],
)
def test_from_timestamp(text: str, moment: datetime) -> None:
    assert (from_timestamp(text), from_timestamp(text).tzinfo) == (moment, UTC)


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "0001-01-01T00:00:00+09:00"]
)
def test_no_moment(text: str) -> None:
    with pytest.raises(ValueError):
        from_timestamp(text)


@pytest.mark.parametrize(
    "millis", [0, 1, 999, 1_769_860_800_007, -1, -86_400_001, -62_135_596_800_000, 253_402_300_799_999]
)
def test_millis_there_and_back(millis: int) -> None:
    assert to_millis(from_millis(millis)) == millis
    assert to_millis(from_timestamp(to_timestamp(from_millis(millis)))) == millis
    assert millis_to_timestamp(millis) == to_timestamp(from_millis(millis))


def test_millis_are_cut_and_not_rounded() -> None:
    assert to_millis(datetime(1970, 1, 1, 0, 0, 1, 999_999, tzinfo=UTC)) == 1999


def test_the_clock_of_this_computer() -> None:
    clock: Clock = SystemClock()
    before, now = datetime.now(UTC), clock.now()
    assert (now.tzinfo, before <= now <= datetime.now(UTC)) == (UTC, True)
    assert clock.monotonic() <= clock.monotonic()


def test_a_clock_in_the_hand(clock: FakeClock) -> None:
    held: Clock = clock
    wall, passed = held.now(), held.monotonic()
    clock.advance(1.5)
    assert (held.now() - wall, held.monotonic() - passed) == (timedelta(seconds=1.5), 1.5)
    clock.set_wall(datetime(2020, 1, 1, 9, tzinfo=TOKYO))
    assert (held.now(), held.monotonic() - passed) == (datetime(2020, 1, 1, tzinfo=UTC), 1.5)


def test_each_further_failure_of_a_key_pauses_it_for_longer() -> None:
    waits = Backoff[str](60, 600, factor=4)
    assert ([retry_delay(n, 60, 600, factor=4) for n in range(5)], waits.list_paused()) == ([60, 60, 240, 600, 600], [])
    waits.fail("a")
    assert (waits.is_paused("a"), waits.is_paused("b"), waits.list_paused()) == (True, False, ["a"])
    waits.end_pauses()
    assert ("a" in waits, waits.is_paused("a")) == (True, False)
    assert (waits.succeed("a"), waits.succeed("a"), "a" in waits) == (True, False, False)


def test_random_variation_stays_within_its_fraction() -> None:
    waits = {retry_delay(1, 10, 60, jitter=0.2) for _ in range(50)}
    assert len(waits) > 1
    assert all(8 <= wait <= 12 for wait in waits)
