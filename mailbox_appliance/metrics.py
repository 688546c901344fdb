"""Counters for the page `/metrics`. Nothing else depends on them."""

import threading
from collections import defaultdict

from mailbox_appliance.events import BackupFailed, BackupFinished, DeliverySettled, Events

#: The ends of a delivery operation that are counted; one that waits again has none yet.
COUNTED_OUTCOMES = frozenset({"succeeded", "failed", "uncertain", "withdrawn"})

Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counters that begin at 0 with each appliance. Labels come from us alone: no address, no name, nothing typed in.

    May be used from any thread.
    """

    def __init__(self, events: Events) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[tuple[str, Labels], int] = defaultdict(int)
        events.subscribe(DeliverySettled, self._count_delivery)
        events.subscribe(BackupFinished, lambda _: self.increment("backups", result="made"))
        events.subscribe(BackupFailed, lambda _: self.increment("backups", result="failed"))

    def increment(self, name: str, **labels: str) -> None:
        """One more of these."""
        key = name, tuple(labels.items())
        with self._lock:
            self._counts[key] += 1

    def values(self, name: str) -> dict[Labels, int]:
        """How many there were of these, by their labels; those that never were are left out."""
        with self._lock:
            return {labels: count for (known, labels), count in self._counts.items() if known == name}

    def _count_delivery(self, event: DeliverySettled) -> None:
        if event.status in COUNTED_OUTCOMES:
            self.increment("deliveries_settled", outcome=event.status)
