"""Which of the daily backups are kept: the newest of each of some days, and of each of some weeks (ISO 8601, UTC).

Days and weeks are those that there is a backup of, so that a machine that was off for a month keeps as many as another.

A backup from the future is kept and counts for nothing: the clock was wrong then, or is wrong now.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from datetime import UTC, datetime, timedelta

#: A clock may be corrected by a little at any time.
_AHEAD = timedelta(minutes=5)


def superfluous(made: Collection[datetime], now: datetime, *, days: int, weeks: int) -> set[datetime]:
    """The moments whose backups may go.

    One from the future is kept and takes nobody's place: the clock was wrong then, or is now.
    """
    past = sorted((moment for moment in made if not is_ahead(moment, now)), reverse=True)
    kept = {*_newest_of_each(past, days, _day), *_newest_of_each(past, weeks, _week)}
    return set(past) - kept


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether it lies in the future, so that one of the two was told by a wrong clock."""
    return moment > now + _AHEAD


def _newest_of_each(moments: Iterable[datetime], count: int, period: Callable[[datetime], Hashable]) -> list[datetime]:
    """Of moments from the newest on, the first in each of so many periods."""
    newest: dict[Hashable, datetime] = {}
    for moment in moments:
        newest.setdefault(period(moment), moment)
    return list(newest.values())[:count]


def _day(moment: datetime) -> Hashable:
    return moment.astimezone(UTC).date()


def _week(moment: datetime) -> Hashable:
    return moment.astimezone(UTC).isocalendar()[:2]
