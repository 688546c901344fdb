"""Readers that wait for events without occupying a thread: one thread gives them all events.

After each commit the thread looks for new rows in the journal, and reads them once for all readers that see the same.
A reader whose client is slow gets them later, from where it stopped. When the rights of any credential change, each
reader is checked before it gets anything after that.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from mailbox_appliance.errors import NotFound, ReadersBusy
from mailbox_appliance.feed.events import to_events, visible_changes
from mailbox_appliance.model.changes import Event, EventType
from mailbox_appliance.store.changes import ChangeFilter, ChangesLost
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

#: Readers that may wait at once, in total and of one member. Requests that come at the same moment may exceed it by one
#: for each worker.
MOST_READERS, MOST_OF_MEMBER = 1000, 600
_EVENTS_AT_ONCE = 100
_MOST_IN_A_TURN = 20_000  # rows of the journal that are read for readers who see few of them
_TICK = 1.0  # seconds between two looks at the deadlines of readers
_RIGHTS_EVERY = 15.0  # seconds after which rights are checked in any case: sessions end by time as well
_MOST_PAUSE = 0.1  # seconds
_RETRY_AFTER = 5


@dataclass(frozen=True, eq=False)
class Subscription:
    """The events that a credential asked for.

    - found: The credential.
    - is_private: Whether nobody else can read the connection.
    - types, account_ids: Only these types of events and mailboxes; empty and None: all.
    - after: Number of the last change that the reader knows.
    - is_reset: Whether changes before that number are lost to the reader.
    - seen: What it saw when its rights were checked last.
    - seen_at: Number of the last change before that was found out.
    """

    store: Store
    found: FoundCredential
    is_private: bool
    types: frozenset[EventType]
    account_ids: frozenset[str] | None
    after: int
    is_reset: bool
    seen: ChangeFilter
    seen_at: int

    def starting_at(self, after: int) -> "Subscription":
        """Return the same for a reader that knows the changes up to this number."""
        return replace(self, after=after)

    @property
    def rights(self) -> tuple[object, ...]:
        """The input of `check`: readers with the same input share one check."""
        return self.found.kind, self.found.id, self.is_private, self.types, self.account_ids

    def check(self) -> "Rights | None":
        """Return what the credential sees now. None if it has ended, or must not see these mailboxes any more."""
        found = self.store.credentials.find_live(self.found.kind, self.found.id)
        if found is None or found.member.status != "active":
            return None
        try:
            seen = visible_changes(
                self.store, found, is_private=self.is_private, types=self.types, account_ids=self.account_ids
            )
        except NotFound:
            return None
        return found, seen

    def having(self, rights: "Rights | None") -> "Subscription | None":
        """Return the same with these rights. None if there are none, or if less is seen with them than before."""
        if rights is None or not rights[1].includes(self.seen):
            return None
        return replace(self, found=rights[0], seen=rights[1])


#: A credential as it is now, and what it sees.
Rights = tuple[FoundCredential, ChangeFilter]


@dataclass(frozen=True)
class EventWait:
    """A request for a page of at most `limit` events that is empty now. `seconds`: how long it may wait for one."""

    subscription: Subscription
    seconds: int
    limit: int


@dataclass(frozen=True)
class EventStream:
    """A request for all events from now on."""

    subscription: Subscription


@dataclass(frozen=True)
class EventBatch:
    """The next events for all readers that see the same, and have read as far.

    - events: The events in order, which may be none.
    - after: Number of the last change that was read for them.
    - made: What readers make of the events, for the others: by a key of their own.
    """

    events: Sequence[Event]
    after: int
    made: dict[object, bytes] = field(default_factory=dict)


class Reader(Protocol):
    """Somebody who waits for events. Its functions are called by one thread, and must not block.

    `subscription`: what it asked for, with the rights of the last check.
    """

    subscription: Subscription

    @property
    def after(self) -> int:
        """Number of the last change that it got or skipped."""

    def is_ready(self) -> bool:
        """Whether it takes events now; False while its client has not read the earlier ones."""

    def tell(self, batch: EventBatch) -> bool:
        """Give it the next events. Returns whether it waits for more; if not, it is ended."""

    def tick(self, now: float) -> bool:
        """Do what is due. `now`: the monotonic time. Returns whether it still waits; if not, it is ended."""

    def end(self) -> None:
        """End it: it waits no more, the appliance stops, or it must not see anything any more."""


class WaitingReaders:
    """All readers that wait, and the thread that gives them events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._readers: set[Reader] = set()
        self._of_members = Counter[str]()
        self._unchecked: list[Reader] = []  # rights may have changed since they asked
        #: Whether `stop` was called; nobody can wait any more.
        self.is_stopped = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return how many readers wait."""
        return len(self._readers)

    def start(self) -> None:
        """Start the thread."""
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
        """Let a reader wait. It gets all changes after its own number, and is ended at once after `stop`."""
        subscription = reader.subscription
        with self._lock:
            is_stopped = self.is_stopped or self._thread is None
            is_first = not self._readers
            if not is_stopped:
                self._readers.add(reader)
                self._unchecked.append(reader)  # until it is known that nothing has changed since its rights were read
                self._store.database.commit_events.add(self._woken)
                self._of_members[subscription.found.member.id] += 1
        if is_stopped:
            reader.end()
            return
        # A change that is committed from now on wakes the thread.
        end = self._store.changes.end()
        if end <= subscription.seen_at:
            with self._lock:
                self._unchecked = [one for one in self._unchecked if one is not reader]
        if is_first or end > min(subscription.seen_at, reader.after):
            self._woken.set()

    def check_room(self, subscription: Subscription) -> None:
        """Raise ReadersBusy if too many readers wait, in total or of this member."""
        is_full = len(self._readers) >= MOST_READERS
        if is_full or self._of_members[subscription.found.member.id] >= MOST_OF_MEMBER:
            raise ReadersBusy(retry_after=_RETRY_AFTER)

    def _run(self) -> None:
        told, checked = self._store.changes.end(), time.monotonic()
        while not self.is_stopped:
            self._woken.wait(_TICK if self._readers else None)
            self._woken.clear()
            try:
                now = time.monotonic()
                end = self._store.changes.end()
                is_due = now - checked >= _RIGHTS_EVERY or (end > told and self._may_have_changed_rights(told))
                checked = now if is_due else checked
                with self._lock:
                    new, self._unchecked = tuple(self._unchecked), []
                self._check_rights(self.list() if is_due else (*new, *self._over()))
                self._tell_all(end)
                self._tick_all(now)
                told = end
                self._leave_time(time.monotonic() - now)
            except Exception:
                if not self.is_stopped:
                    log.exception("event_readers_failed")
                    time.sleep(_TICK)
        for reader in self.list():
            reader.end()

    def _leave_time(self, spent: float) -> None:
        """Let other threads run for as long as this one has worked. Changes that come faster are sent together."""
        if spent > 0.001:
            time.sleep(min(spent, _MOST_PAUSE))

    def list(self) -> tuple[Reader, ...]:
        """Return all readers that wait."""
        with self._lock:
            return tuple(self._readers)

    def _may_have_changed_rights(self, after: int) -> bool:
        changes = self._store.changes
        return changes.has_changed_rights(after) or changes.floor() > after

    def _over(self) -> tuple[Reader, ...]:
        """Return the readers whose session seems to have ended by time: nothing is written then."""
        return tuple(one for one in self.list() if self._store.credentials.is_over(one.subscription.found))

    def _remove(self, reader: Reader) -> None:
        member = reader.subscription.found.member.id
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)
                if not self._readers:
                    self._store.database.commit_events.discard(self._woken)
                self._of_members[member] -= 1
                if not self._of_members[member]:
                    del self._of_members[member]

    def _check_rights(self, readers: Iterable[Reader]) -> None:
        checked: dict[tuple[object, ...], Rights | None] = {}
        for reader in readers:
            rights = reader.subscription.rights
            if rights not in checked:
                checked[rights] = reader.subscription.check()
            now = reader.subscription.having(checked[rights])
            if now is None:
                self._end((reader,))
            else:
                reader.subscription = now

    def _tell_all(self, end: int) -> None:
        """Readers that see the same, and have read as far, share what is read for them.

        If rights change while events are read, readers do not get these: they may show later changes.
        """
        groups: dict[tuple[int, ChangeFilter], list[Reader]] = {}
        floor = self._store.changes.floor()
        over: list[Reader] = []
        for reader in self.list():
            if reader.after < floor:  # it has missed events that are deleted: it learns that when it connects again
                over.append(reader)
            elif reader.after < end and reader.is_ready():
                groups.setdefault((reader.after, reader.subscription.seen), []).append(reader)
        events: dict[int, Event] = {}
        # Those who lag behind come last, and get a part in each turn.
        for (after, wanted), readers in sorted(groups.items(), key=lambda group: -group[0][0]):
            try:
                batch = self._read_batch(after, wanted, min(end, after + _MOST_IN_A_TURN), events)
            except ChangesLost:
                over += readers
                continue
            except Exception:  # others get their events all the same
                log.exception("event_readers_failed")
                over += readers
                continue
            if batch.events and self._may_have_changed_rights(end):
                self._woken.set()
                break
            over += [reader for reader in readers if not reader.tell(batch)]
            if batch.after < end:
                self._woken.set()
        self._end(over)  # after all got their events: it makes work for other threads

    def _read_batch(self, after: int, wanted: ChangeFilter, end: int, events: dict[int, Event]) -> EventBatch:
        """Return the next events of a group of readers. `events`: those that were made already, by their numbers."""
        changes, read = self._store.changes.read(after, wanted, _EVENTS_AT_ONCE, end)
        new = [change for change in changes if change.position not in events]
        events |= zip((change.position for change in new), to_events(self._store, new), strict=True)
        return EventBatch([events[change.position] for change in changes], read)

    def _tick_all(self, now: float) -> None:
        self._end([reader for reader in self.list() if not reader.tick(now)])

    def _end(self, readers: Iterable[Reader]) -> None:
        for reader in readers:
            self._remove(reader)
            reader.end()
