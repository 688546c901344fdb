"""Retention of daily backups, as a table of dates."""

from datetime import UTC, datetime, timedelta

import pytest

from mailbox_appliance.store.backup.backups import select_superfluous

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)  # a Wednesday of week 3


def moments(*written: str) -> set[datetime]:
    return {datetime.fromisoformat(text).replace(tzinfo=UTC) for text in written}


def days(count: int, until: datetime = NOW) -> set[datetime]:
    """Return one moment a day for `count` days."""
    return {until - timedelta(days=back) for back in range(count)}


TABLE: list[tuple[str, set[datetime], int, int, set[datetime]]] = [
    ("nothing", set(), 7, 4, set()),
    ("one", days(1), 7, 4, days(1)),
    ("few", days(7), 7, 4, days(7)),
    (
        "many: the Sundays of the weeks before stay",
        days(40),
        7,
        4,
        days(7) | moments("2026-01-11T12:00", "2026-01-04T12:00", "2025-12-28T12:00"),
    ),
    ("no weeks", days(40), 7, 0, days(7)),
    ("one day", days(40), 1, 0, days(1)),
    (
        "several a day",
        moments("2026-01-14T01:00", "2026-01-14T11:00", "2026-01-13T23:59"),
        1,
        0,
        moments("2026-01-14T11:00"),
    ),
    (
        "midnight is that of UTC",
        moments("2026-01-13T23:59", "2026-01-14T00:00"),
        2,
        0,
        moments("2026-01-13T23:59", "2026-01-14T00:00"),
    ),
    (
        "the first days of 2027 are of week 53 of 2026, those of 2024's last of week 1 of 2025",
        moments("2026-12-31T01:00", "2027-01-01T01:00", "2027-01-03T01:00", "2027-01-04T01:00", "2024-12-30T01:00"),
        1,
        3,
        moments("2027-01-04T01:00", "2027-01-03T01:00", "2024-12-30T01:00"),
    ),
    (
        "off for months: as many days as else",
        days(3) | days(7, NOW - timedelta(days=200)),
        7,
        1,
        days(3) | days(4, NOW - timedelta(days=200)),
    ),
]


@pytest.mark.parametrize(("made", "daily", "weekly", "kept"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_is_kept(made: set[datetime], daily: int, weekly: int, kept: set[datetime]) -> None:
    now = max({NOW, *made})
    assert made - select_superfluous(made, now, days=daily, weeks=weekly) == kept


def test_day_by_day_it_comes_to_the_same() -> None:
    made: set[datetime] = set()
    for day in range(100):
        now = NOW + timedelta(days=day)
        made.add(now)
        made -= select_superfluous(made, now, days=7, weeks=4)
    assert made == {*days(100, now)} - select_superfluous(days(100, now), now, days=7, weeks=4)
    assert len(made) == 9


def test_the_future_is_kept_and_counts_for_nothing() -> None:
    ahead = days(20, NOW + timedelta(days=400))
    assert select_superfluous(ahead, NOW, days=7, weeks=4) == set()
    assert select_superfluous(ahead | days(7), NOW, days=7, weeks=4) == set()
    assert select_superfluous(ahead | days(20), NOW, days=7, weeks=4) == select_superfluous(
        days(20), NOW, days=7, weeks=4
    )
