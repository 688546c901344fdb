"""Owns the sync threads: one worker for each mailbox, from when it is added until it is removed or all is stopped."""

import logging
import threading
import time

from mailbox_appliance.clock import Clock
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.worker import Worker

log = logging.getLogger(__name__)

# Seconds for all workers together: to come to an end by themselves, and then with their connections cut.
STOP_TIMEOUT, CUT_TIMEOUT = 1.0, 8.0


class Supervisor:
    """Starts and stops workers, and passes on what they should look at. May be called from any thread."""

    def __init__(self, store: Store, settings: Settings, events: Events, clock: Clock) -> None:
        self._store, self._settings, self._events, self._clock = store, settings, events, clock
        self._lock = threading.Lock()
        self._workers: dict[str, Worker] = {}
        self._stopped = False
        events.subscribe(FolderTouched, lambda event: self.wake(event.account_id, event.path))

    def start(self) -> None:
        """Begin to mirror every mailbox in the store."""
        for account_id in self._store.accounts.list_ids():
            self.add(account_id)

    def add(self, account_id: str) -> None:
        """Begin to mirror a mailbox; one that is mirrored already goes on as it is."""
        with self._lock:
            if self._stopped or account_id in self._workers:
                return
            worker = Worker(account_id, self._store, self._settings, self._events, self._clock)
            self._workers[account_id] = worker
            worker.start()

    def remove(self, account_id: str) -> None:
        """Stop mirroring a mailbox, and wait for its thread, though not for ever."""
        with self._lock:
            worker = self._workers.pop(account_id, None)
        if worker is not None:
            _stop([worker])

    def wake(self, account_id: str, path: str | None) -> None:
        """Have a folder looked at now; None: the whole mailbox, also when it is waiting after a fault."""
        with self._lock:
            worker = self._workers.get(account_id)
        if worker is not None:
            worker.wake(path)

    def progress(self, account_id: str) -> str | None:
        """What the sync of a mailbox is busy with, for a person; None when there is nothing to tell."""
        with self._lock:
            worker = self._workers.get(account_id)
        return None if worker is None else worker.progress

    def stop(self) -> None:
        """Stop all workers; none can be added afterwards."""
        with self._lock:
            self._stopped = True
            workers = list(self._workers.values())
            self._workers.clear()
        _stop(workers)


def _stop(workers: list[Worker]) -> None:
    for worker in workers:
        worker.stop()
    left = _still_running(workers, STOP_TIMEOUT)
    for worker in left:
        worker.interrupt()
    for worker in _still_running(left, CUT_TIMEOUT):
        log.warning("a sync thread did not end in time", extra={"accountId": worker.account_id})


def _still_running(workers: list[Worker], within: float) -> list[Worker]:
    deadline = time.monotonic() + within
    return [worker for worker in workers if not worker.has_ended(max(0.0, deadline - time.monotonic()))]
