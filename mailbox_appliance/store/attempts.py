"""How often logging in failed, by bucket: an email, an address. Failures are in the store, what is under way in memory.

Nobody is told how an attempt ended before its failure is in the store; so a restart forgets nothing that anybody knows.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from mailbox_appliance.clock import Clock, to_millis
from mailbox_appliance.errors import Throttled
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import ATTEMPTS

#: How long a failure counts.
WINDOW = timedelta(minutes=15)
_WINDOW = WINDOW // timedelta(milliseconds=1)
# Failures that count no more are swept out now and then, not with each attempt.
_SWEPT_EVERY = 60_000
# Rows from before the clock was set back lie in the future: they do not lock anybody out for longer.
_IN_WINDOW = "FROM attempts WHERE bucket = ? AND at > ? AND at <= ?"
# Where others are under way that may fail, nobody can say how long it takes: their outcome is known in a moment.
_A_MOMENT = 1


class Attempts:
    """Counts failures and holds them against limits."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._swept_at = 0

    def require_room(self, limits: Mapping[str, int]) -> None:
        """Raises Throttled, with the seconds until every bucket has room again, where one has none. Only reads."""
        if wait := max(self._seconds_to_wait(bucket, limit) for bucket, limit in limits.items()):
            raise Throttled(retry_after=wait)

    @contextmanager
    def reserve(self, limits: Mapping[str, int]) -> Iterator[None]:
        """An attempt whose outcome is not known yet; it has room in each bucket for its failure. Raises Throttled.

        So no burst passes a limit, and nothing has to be written before an outcome is known.
        """
        with self._lock:
            self.require_room(limits)
            if any(self._count_failures(bucket) + self._under_way[bucket] >= limit for bucket, limit in limits.items()):
                raise Throttled(retry_after=_A_MOMENT)
            self._under_way.update(limits.keys())
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= Counter(limits.keys())

    def record_failure(self, buckets: Collection[str]) -> None:
        """Count a failure of this moment in each bucket. Inside a transaction."""
        now = to_millis(self._clock.now())
        if abs(now - self._swept_at) >= _SWEPT_EVERY:
            self._swept_at = now
            self._database.run(ATTEMPTS.delete().where(ATTEMPTS.at <= now - _WINDOW))
        self._database.change_many("INSERT INTO attempts VALUES (?, ?)", [(bucket, now) for bucket in buckets])

    def clear(self, bucket: str) -> None:
        """Forget the failures of a bucket. Inside a transaction."""
        self._database.run(ATTEMPTS.delete().where(ATTEMPTS.bucket == bucket))

    def _seconds_to_wait(self, bucket: str, limit: int) -> int:
        now = to_millis(self._clock.now())
        oldest = self._database.value(
            f"SELECT at {_IN_WINDOW} ORDER BY at DESC LIMIT 1 OFFSET ?", (*_span(bucket, now), limit - 1)
        )
        return 0 if oldest is None else max(1, -(-(oldest + _WINDOW - now) // 1000))

    def _count_failures(self, bucket: str) -> int:
        now = to_millis(self._clock.now())
        return int(self._database.value(f"SELECT count(*) {_IN_WINDOW}", _span(bucket, now)))


def _span(bucket: str, now: int) -> tuple[str, int, int]:
    return bucket, now - _WINDOW, now
