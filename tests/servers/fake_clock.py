"""A clock whose hands a test moves."""

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Stands still until it is told otherwise. Fits `mailbox_appliance.clock.Clock`; may be read by any thread."""

    def __init__(self, wall: datetime = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._passed = 1000.0

    def now(self) -> datetime:
        """The wall-clock time, aware, in UTC."""
        with self._lock:
            return self._wall

    def monotonic(self) -> float:
        with self._lock:
            return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass, on the wall and for `monotonic`."""
        assert seconds >= 0, "time passes in one direction; set_wall turns the wall clock back"
        with self._lock:
            self._wall += timedelta(seconds=seconds)
            self._passed += seconds

    def set_wall(self, moment: datetime) -> None:
        """Make the wall clock jump, as a corrected system clock does; no time passes."""
        with self._lock:
            self._wall = moment.astimezone(UTC)
