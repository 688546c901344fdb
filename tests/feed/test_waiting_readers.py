"""Readers that wait: who shares what is read, when they are told, and how many there may be."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from mailbox_appliance.errors import ReadersBusy
from mailbox_appliance.feed.events import visible_changes
from mailbox_appliance.feed.waiting import MOST_OF_MEMBER, MOST_READERS, EventBatch, Subscription, WaitingReaders
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store
from mailbox_appliance.web.events import COMMENT_EVERY, StreamReader
from mailbox_appliance.web.server.connection import KEEP_OPEN
from mailbox_appliance.web.server.framing import ResponseSink
from tests.servers.mailboxes import wait_until
from tests.store.mail import add_member, execute
from tests.web.wire import Wire, eventually, listening


class Listener:
    """A reader that keeps what it is told."""

    def __init__(self, subscription: Subscription, most: int = 1000) -> None:
        """`most`: batches after which it waits no more."""
        self.subscription, self.after, self.most = subscription, subscription.after, most
        self.told: list[EventBatch] = []
        self.changed = threading.Condition()
        self.is_slow = self.is_over = False

    def is_ready(self) -> bool:
        return not self.is_slow

    def tell(self, batch: EventBatch) -> bool:
        with self.changed:
            self.after = batch.after
            self.told += [batch] if batch.events else []
            self.changed.notify_all()
            return len(self.told) < self.most

    def tick(self, now: float) -> bool:
        return not self.is_over

    def end(self) -> None:
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def reasons(self, count: int) -> list[str]:
        """The reasons of the failed backups of which it was told; waits for so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self._all()) >= count, 10)
            return self._all()

    def wait_for_end(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.is_over, 10)

    def _all(self) -> list[str]:
        return [event.data.reason for batch in self.told for event in batch.events]


@pytest.fixture
def readers(store: Store) -> Iterator[WaitingReaders]:
    """The thread that tells readers."""
    waiting = WaitingReaders(store)
    waiting.start()
    yield waiting
    waiting.stop()


def session(store: Store, name: str = "Ada") -> FoundCredential:
    """A session of a new administrator."""
    member = add_member(store, name)
    execute(store, "UPDATE members SET role = 'admin' WHERE id = ?", (member,))
    made = store.credentials.add_session(member, f"hash of {name}", "test")
    found = store.credentials.find_live("session", made.id)
    assert found is not None
    return found


def subscribe(store: Store, found: FoundCredential) -> Subscription:
    """What a reader asks that begins now."""
    end = store.changes.end()
    seen = visible_changes(store, found, is_private=True)
    return Subscription(store, found, True, frozenset(), None, end, False, seen, end)


def happen(store: Store, *reasons: str) -> None:
    """Record failed backups, in one transaction."""
    with store.database.transaction():
        for reason in reasons:
            store.changes.record("backup.failed", reason)


def test_readers_that_see_the_same_share_what_is_read(store: Store, readers: WaitingReaders) -> None:
    found = session(store)
    listeners = [Listener(subscribe(store, found)) for _ in range(50)]
    for each in listeners:
        readers.add(each)
    happen(store, "one", "two")
    assert all(each.reasons(2) == ["one", "two"] for each in listeners)
    assert len({id(batch) for each in listeners for batch in each.told}) == 1


def test_a_change_between_the_question_and_the_wait_is_told(store: Store, readers: WaitingReaders) -> None:
    listener = Listener(subscribe(store, session(store)))
    happen(store, "meanwhile")
    readers.add(listener)
    assert listener.reasons(1) == ["meanwhile"]


def test_rights_that_ended_between_the_question_and_the_wait_end_it(store: Store, readers: WaitingReaders) -> None:
    found = session(store)
    listener = Listener(subscribe(store, found))
    execute(store, "DELETE FROM sessions")
    happen(store, "secret")
    readers.add(listener)
    listener.wait_for_end()
    assert listener.told == []
    assert len(readers) == 0


def test_a_slow_reader_holds_up_nobody_and_gets_everything_later(store: Store, readers: WaitingReaders) -> None:
    found = session(store)
    slow, quick = Listener(subscribe(store, found)), Listener(subscribe(store, found))
    slow.is_slow = True
    readers.add(slow)
    readers.add(quick)
    happen(store, "one")
    happen(store, "two")
    assert quick.reasons(2) == ["one", "two"]
    assert slow.told == []
    slow.is_slow = False
    assert slow.reasons(2) == ["one", "two"]


def test_a_reader_that_waits_no_more_is_ended_once_and_leaves_its_place(store: Store, readers: WaitingReaders) -> None:
    listener = Listener(subscribe(store, session(store)), most=1)
    readers.add(listener)
    happen(store, "one")
    listener.wait_for_end()
    happen(store, "two")
    assert listener.reasons(1) == ["one"]
    assert len(readers) == 0


def test_a_storm_is_told_in_order_and_in_few_batches(store: Store, readers: WaitingReaders) -> None:
    listener = Listener(subscribe(store, session(store)))
    readers.add(listener)
    expected = [str(number) for number in range(450)]
    happen(store, *expected)
    assert listener.reasons(450) == expected
    assert len(listener.told) == 5


def test_no_member_takes_all_places_and_there_is_an_end_to_them(store: Store, readers: WaitingReaders) -> None:
    ada, bob = session(store), session(store, "Bob")
    for _ in range(MOST_OF_MEMBER):
        readers.check_room(subscription := subscribe(store, ada))
        readers.add(Listener(subscription))
    with pytest.raises(ReadersBusy) as caught:
        readers.check_room(subscribe(store, ada))
    assert caught.value.retry_after == 5
    for _ in range(MOST_READERS - MOST_OF_MEMBER):
        readers.check_room(subscription := subscribe(store, bob))
        readers.add(Listener(subscription))
    with pytest.raises(ReadersBusy):
        readers.check_room(subscribe(store, bob))
    execute(store, "DELETE FROM sessions")
    assert eventually(lambda: len(readers) == 0)
    readers.check_room(subscribe(store, ada))


def test_when_it_stops_all_are_ended_and_later_ones_at_once(store: Store, readers: WaitingReaders) -> None:
    found = session(store)
    listeners = [Listener(subscribe(store, found)) for _ in range(500)]
    for each in listeners:
        readers.add(each)
    readers.stop()
    assert all(each.is_over for each in listeners)
    late = Listener(subscribe(store, found))
    readers.add(late)
    assert late.is_over


def test_a_comment_is_sent_every_fifteen_seconds_without_an_event(store: Store) -> None:
    subscription = subscribe(store, session(store))
    made: list[ResponseSink] = []

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[KEEP_OPEN](made.append)
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return ()

    with ExitStack() as stack:
        wire = stack.enter_context(Wire(stack.enter_context(listening(app)).addresses[0]))
        wire.send(b"GET /events/stream HTTP/1.0\r\n\r\n")
        wire._until(b"\r\n\r\n")
        wait_until(lambda: bool(made), lambda: "the response was not kept open", 10)
        reader, now = StreamReader(subscription, made[0], "position"), time.monotonic()
        for seconds in (0, COMMENT_EVERY - 1, COMMENT_EVERY + 1, COMMENT_EVERY + 2, 2 * COMMENT_EVERY + 2):
            assert reader.tick(now + seconds)
        reader.end()
        while wire.rest.count(b"\n\n") < 3:
            wire._more()
        assert wire.rest == b": still here\n\n" * 3
        assert wire.socket.recv(100) == b""
