"""Time: the clock, timestamps (RFC 3339 in UTC with milliseconds and `Z`), and retry delays."""

import random
import time
from collections.abc import Hashable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Clock(Protocol):
    """The interface of a source of time. Tests pass one that they can set."""

    def now(self) -> datetime:
        """Return the current time in UTC, as an aware datetime. It jumps if someone sets the computer's clock."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back, to measure durations."""
        ...


class SystemClock:
    """The clock of this computer."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def to_timestamp(moment: datetime) -> str:
    """Return the time as `2026-01-31T12:00:00.000Z` (RFC 3339), cut to milliseconds. Sorting these texts sorts by
    time.
    """
    # strftime is not used: its %Y has no leading zeros on every system, and mail has dates in any year.
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"


def from_timestamp(text: str) -> datetime:
    """Return the time of an RFC 3339 date-time, as an aware datetime in UTC.

    Raises ValueError if the text is not a date-time or has no offset from UTC.
    """
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 5.6: t and z may be lower case
    if moment.tzinfo is None:
        raise ValueError("a date-time needs an offset or Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a date-time must be between the years 1 and 9999 in UTC") from error


def to_millis(moment: datetime) -> int:
    """Return a time as milliseconds since 1970-01-01T00:00Z."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def from_millis(millis: int) -> datetime:
    """Return the time that is `millis` milliseconds after 1970-01-01T00:00Z, as an aware datetime in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def millis_to_timestamp(millis: int) -> str:
    """Return `to_timestamp(from_millis(millis))`, in a quarter of the time: lists have many dates of few days."""
    day, of_day = divmod(millis, 86_400_000)
    minutes, of_minute = divmod(of_day, 60_000)
    return f"{_day(day)}T{minutes // 60:02}:{minutes % 60:02}:{of_minute // 1000:02}.{of_minute % 1000:03}Z"


@lru_cache(512)
def _day(number: int) -> str:
    """`number`: days since 1970-01-01."""
    return (date(1970, 1, 1) + timedelta(number)).isoformat()


# --- How long to wait before trying again ---


def retry_delay(attempts: int, first: float, longest: float, *, factor: float = 2.0, jitter: float = 0.0) -> float:
    """Return the seconds to wait after this many failed attempts: `first` after one attempt, growing up to `longest`.

    The result varies at random by up to the fraction `jitter`, so that many mailboxes do not connect at the same
    moment.
    """
    wait = min(longest, first * factor ** min(max(0, attempts - 1), 64))
    return float(wait * (1 + random.uniform(-jitter, jitter)))  # noqa: S311 - not for secrets


class Backoff(Generic[K]):
    """Pauses after failures, by key: `first` seconds, growing with each further failure up to `longest`. Kept in memory
    only.
    """

    def __init__(self, first: float, longest: float, *, factor: float = 2.0) -> None:
        self._first, self._longest, self._factor = first, longest, factor
        self._failed: dict[K, tuple[int, float]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether the last attempt failed."""
        return key in self._failed

    def fail(self, key: K) -> None:
        """Record a failure, and pause."""
        failures = self._failed.get(key, (0, 0.0))[0] + 1
        wait = retry_delay(failures, self._first, self._longest, factor=self._factor)
        self._failed[key] = (failures, time.monotonic() + wait)

    def succeed(self, key: K) -> bool:
        """Forget the failures of a key. Returns whether there were any."""
        return self._failed.pop(key, None) is not None

    def is_paused(self, key: K) -> bool:
        """Whether the pause after the last failure is not over yet."""
        return time.monotonic() < self._failed.get(key, (0, 0.0))[1]

    def list_paused(self) -> list[K]:
        """Return the keys whose pauses are not over yet."""
        return [key for key in self._failed if self.is_paused(key)]

    def end_pauses(self) -> None:
        """End all pauses. The failures still count for the next ones."""
        self._failed = {key: (failures, 0.0) for key, (failures, _) in self._failed.items()}
