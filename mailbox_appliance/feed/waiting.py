"""Readers that wait for events without occupying a thread: one thread tells them all.

After each commit the thread looks for new rows in the journal, and reads them once for all readers that see the same.
A reader whose client is slow is told later, from where it stopped. When the rights of any credential change, each
reader is checked before it is told of anything after that.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mailbox_appliance.errors import NotFound, TooBusy
from mailbox_appliance.feed.events import to_events, visible_changes
from mailbox_appliance.model.changes import Event, EventType
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

#: Readers that may wait at once.
MOST_READERS = 1000
_EVENTS_AT_ONCE = 100
_TICK = 1.0  # seconds between two looks at the deadlines of readers
_RIGHTS_EVERY = 15.0  # seconds after which rights are checked in any case: sessions end by time as well
_RETRY_AFTER = 5


@dataclass(frozen=True, eq=False)
class Subscription:
    """What a credential asked to be told of.

    - found: The credential.
    - is_private: Whether nobody else can read the connection.
    - types, account_ids: Only these types of events and mailboxes; empty and None: all.
    - after: Number of the last change that the reader knows.
    - is_reset: Whether changes before that number are lost to the reader.
    - seen: What it saw when it asked.
    """

    store: Store
    found: FoundCredential
    is_private: bool
    types: frozenset[EventType]
    account_ids: frozenset[str] | None
    after: int
    is_reset: bool
    seen: ChangeFilter

    def starting_at(self, after: int) -> "Subscription":
        """Return the same for a reader that knows the changes up to this number."""
        return replace(self, after=after)

    def check(self) -> ChangeFilter | None:
        """Return what the credential sees now. None if it has ended, or must not see these mailboxes any more."""
        found = self.store.credentials.find_live(self.found.kind, self.found.id)
        if found is None or found.member.status != "active":
            return None
        try:
            return visible_changes(
                self.store, found, is_private=self.is_private, types=self.types, account_ids=self.account_ids
            )
        except NotFound:
            return None


@dataclass(frozen=True)
class EventWait:
    """A request for a page of events that is empty now. `seconds`: how long it may wait for one."""

    subscription: Subscription
    seconds: int


@dataclass(frozen=True)
class EventStream:
    """A request for all events from now on."""

    subscription: Subscription


class Reader(Protocol):
    """Somebody who waits for events. Its functions are called by one thread, and must not block."""

    subscription: Subscription

    @property
    def after(self) -> int:
        """Number of the last change that it was told of."""

    def is_ready(self) -> bool:
        """Whether it takes events now; False while its client has not read the earlier ones."""

    def tell(self, events: Sequence[Event], after: int) -> bool:
        """Give it the next events, which may be none, up to the number `after`. Returns whether it waits for more."""

    def tick(self, now: float) -> bool:
        """Do what is due. `now`: the monotonic time. Returns whether it still waits."""

    def end(self) -> None:
        """End it: the appliance stops, or it must not see anything any more."""


class WaitingReaders:
    """All readers that wait, and the thread that tells them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._readers: dict[Reader, ChangeFilter] = {}
        self._unchecked: list[Reader] = []  # rights may have changed since they asked
        #: Whether `stop` was called; nobody can wait any more.
        self.is_stopped = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return how many readers wait."""
        return len(self._readers)

    def start(self) -> None:
        """Start the thread."""
        self._store.database.commit_listeners.append(self._look)
        self._thread = threading.Thread(target=self._run, name="event-readers", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """End all readers, and the thread within `timeout` seconds. Later readers end at once."""
        with self._lock:
            self.is_stopped = True
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def add(self, reader: Reader) -> None:
        """Let a reader wait. It is told of all changes after its own number, and ended at once after `stop`.

        Raises TooBusy if too many wait.
        """
        with self._lock:
            if len(self._readers) >= MOST_READERS:
                raise TooBusy(retry_after=_RETRY_AFTER)
            is_stopped = self.is_stopped or self._thread is None
            if not is_stopped:
                self._readers[reader] = reader.subscription.seen
                self._unchecked.append(reader)
        if is_stopped:
            reader.end()
        self._woken.set()

    def _look(self) -> None:
        if self._readers:
            self._woken.set()

    def _run(self) -> None:
        told, checked = self._store.changes.end(), time.monotonic()
        while not self.is_stopped:
            self._woken.wait(_TICK if self._readers else None)
            self._woken.clear()
            try:
                end, now = self._store.changes.end(), time.monotonic()
                if end > told and self._store.changes.has_changed_rights(told):
                    checked = 0.0
                is_due = now - checked >= _RIGHTS_EVERY
                checked = now if is_due else checked
                with self._lock:
                    new, self._unchecked = self._unchecked, []
                self._check_rights(self._all() if is_due else new)
                self._tell_all(end)
                self._tick_all(now)
                told = end
            except Exception:
                if not self.is_stopped:
                    log.exception("event_readers_failed")
                    time.sleep(_TICK)
        for reader in self._all():
            reader.end()

    def _all(self) -> dict[Reader, ChangeFilter]:
        with self._lock:
            return dict(self._readers)

    def _remove(self, reader: Reader) -> None:
        with self._lock:
            self._readers.pop(reader, None)

    def _check_rights(self, readers: Iterable[Reader]) -> None:
        for reader in readers:
            found = reader.subscription.check()
            if found is None:
                self._remove(reader)
                reader.end()
            else:
                with self._lock:
                    self._readers[reader] = found

    def _tell_all(self, end: int) -> None:
        """Readers that see the same, and have read as far, share what is read for them."""
        groups: dict[tuple[int, ChangeFilter], list[Reader]] = {}
        for reader, wanted in self._all().items():
            if reader.after < end and reader.is_ready():
                groups.setdefault((reader.after, wanted), []).append(reader)
        events: dict[int, Event] = {}
        for (after, wanted), readers in groups.items():
            changes, read = self._store.changes.read(after, wanted, _EVENTS_AT_ONCE)
            new = [change for change in changes if change.position not in events]
            events |= zip((change.position for change in new), to_events(self._store, new), strict=True)
            told = [events[change.position] for change in changes]
            for reader in readers:
                if not reader.tell(told, read):
                    self._remove(reader)
            if read < end:
                self._woken.set()

    def _tick_all(self, now: float) -> None:
        for reader in self._all():
            if not reader.tick(now):
                self._remove(reader)
