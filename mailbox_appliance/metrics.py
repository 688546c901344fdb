"""Counters for the page `/metrics`. The appliance does not use them for anything else."""

import threading
from collections import defaultdict

from mailbox_appliance.events import BackupFailed, BackupFinished, DeliverySettled, Events

#: The outcomes of a delivery operation that are counted; one that is queued again has none yet.
COUNTED_OUTCOMES = frozenset({"succeeded", "failed", "uncertain", "withdrawn"})

Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counters of events, with labels. They start at 0 when the appliance starts. May be used from any thread.

    Labels never contain an address, a name or other input.
    """

    def __init__(self, events: Events) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[tuple[str, Labels], int] = defaultdict(int)
        events.subscribe(DeliverySettled, self._count_delivery)
        events.subscribe(BackupFinished, lambda _: self.increment("backups", result="made"))
        events.subscribe(BackupFailed, lambda _: self.increment("backups", result="failed"))

    def increment(self, name: str, **labels: str) -> None:
        """Add one to the counter with these labels."""
        key = name, tuple(labels.items())
        with self._lock:
            self._counts[key] += 1

    def values(self, name: str) -> dict[Labels, int]:
        """Return the counts of the counter `name` by their labels. Combinations that were never counted are missing."""
        with self._lock:
            return {labels: count for (known, labels), count in self._counts.items() if known == name}

    def _count_delivery(self, event: DeliverySettled) -> None:
        if event.status in COUNTED_OUTCOMES:
            self.increment("deliveries_settled", outcome=event.status)
