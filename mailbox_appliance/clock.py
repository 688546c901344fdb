"""Time: the clock, timestamps (RFC 3339 in UTC with milliseconds and `Z`), and retry delays."""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. It is passed in, so that a test can set it."""

    def now(self) -> datetime:
        """The wall-clock time, aware, in UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring how long something took."""
        ...


class SystemClock:
    """The clock of this computer."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def to_timestamp(moment: datetime) -> str:
    """A moment as `2026-01-31T12:00:00.000Z` (RFC 3339), cut to milliseconds, so that text order is time order."""
    # Not strftime: its %Y has no leading zeros on every system, and mail comes with any year.
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"


def from_timestamp(text: str) -> datetime:
    """The moment that an RFC 3339 date-time names, aware, in UTC.

    Raises ValueError where the text is no date-time or has no offset.
    """
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 5.6: t and z may be lower case
    if moment.tzinfo is None:
        raise ValueError("a date-time needs an offset or Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a date-time must be between the years 1 and 9999 in UTC") from error


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970-01-01T00:00Z."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def from_millis(millis: int) -> datetime:
    """The moment that lies so many milliseconds after 1970-01-01T00:00Z."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


# --- How long to wait before trying again ---


def backoff_delays(first: float, longest: float, *, factor: float = 2.0, jitter: float = 0.2) -> Iterator[float]:
    """Seconds to wait before each next try: growing from `first` to `longest`, each varied by up to `jitter` of itself.

    The variation keeps many mailboxes of one server from knocking at the same moment.
    """
    wait = first
    while True:
        yield min(wait, longest) * (1 + random.uniform(-jitter, jitter))  # noqa: S311 - not for secrets
        wait = min(wait * factor, longest)


def retry_delay(attempts: int, first: float, longest: float, *, factor: float = 2.0) -> float:
    """Seconds to wait after so many failed tries (1 is the first), without variation: what a stored schedule needs."""
    return float(min(longest, first * factor ** min(max(0, attempts - 1), 64)))
