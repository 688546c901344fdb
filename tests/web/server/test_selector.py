"""The turns of a loop: which connections are asked for their events, and which may read or write; over real sockets."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mailbox_appliance.errors import TooBusy
from mailbox_appliance.web.server.selector import SocketSelector
from mailbox_appliance.web.server.server import HttpListener, HttpServer
from tests.web.wire import GET, Wire, echo, eventually, listening


class Party:
    """One end of a connection in the loop; counts how often it was asked, and its events."""

    accepting, connected, is_with_worker = False, True, False

    def __init__(self, turns: SocketSelector) -> None:
        self.turns, self.asked, self.reads, self.writes = turns, 0, 0, 0
        self.near, self.far = socket.socketpair()
        self.descriptor, self.heir = self.near.fileno(), self
        self.wants_read, self.wants_write = True, False
        turns[self.near.fileno()] = self

    def readable(self) -> bool:
        self.asked += 1
        return self.wants_read

    def writable(self) -> bool:
        return self.wants_write

    def handle_read_event(self) -> None:
        self.reads += len(self.near.recv(100))

    def handle_write_event(self) -> None:
        self.writes += 1
        self.wants_write = False

    def leave(self) -> None:
        if self.turns.get(self.near.fileno()) is self:
            del self.turns[self.near.fileno()]
        self.near.close()
        self.far.close()


@pytest.fixture
def turns() -> Iterator[SocketSelector]:
    opened = SocketSelector()
    yield opened
    for party in list(opened.values()):
        party.leave()
    opened.close()


def test_who_stands_idle_is_asked_once(turns: SocketSelector) -> None:
    idle, busy = [Party(turns) for _ in range(20)], Party(turns)
    for number in range(1, 11):
        busy.far.send(b"a")
        turns.poll(1)
        assert busy.reads == number
    assert {party.asked for party in idle} == {1}
    turns.poll_all = True
    turns.poll(0)
    assert {party.asked for party in idle} == {2}


def test_who_is_with_a_worker_is_asked_in_every_turn(turns: SocketSelector) -> None:
    party = Party(turns)
    party.is_with_worker, party.wants_read = True, False
    party.far.send(b"a")
    turns.poll(0)
    assert party.reads == 0
    party.is_with_worker, party.wants_read, party.wants_write = False, True, True
    turns.poll(1)
    assert (party.reads, party.writes) == (1, 1)
    turns.poll(0)
    assert party.writes == 1
    asked = party.asked
    turns.poll(0)
    assert party.asked == asked


def test_who_is_through_while_it_is_asked_is_asked_again(turns: SocketSelector) -> None:
    class Through(Party):
        is_with_worker = True

        def readable(self) -> bool:
            wanted = super().readable()
            self.is_with_worker, self.wants_read = False, True
            return wanted

    party = Through(turns)
    party.wants_read = False
    party.far.send(b"a")
    turns.poll(0)
    turns.poll(1)
    assert party.reads == 1


def test_one_that_cannot_be_asked_is_told_and_the_others_are_asked(turns: SocketSelector) -> None:
    failed = []

    class Broken(Party):
        def readable(self) -> bool:
            raise OSError("no room in the system's tables")

        def handle_error(self) -> None:
            failed.append(self)
            self.leave()

    parties = [kind(turns) for kind in (Party, Broken, Party, Broken, Party)]
    for party in parties:
        party.far.send(b"a")
    turns.poll(1)
    assert failed == parties[1::2]
    assert [party.reads for party in parties] == [1, 0, 1, 0, 1]


def test_one_that_leaves_while_it_reads_is_not_told_to_write_either(turns: SocketSelector) -> None:
    class Leaving(Party):
        def handle_read_event(self) -> None:
            self.leave()
            self.heir = Party(turns)
            assert self.heir.near.fileno() == self.descriptor

    party = Leaving(turns)
    party.wants_write = True
    party.far.send(b"a")
    turns.poll(1)
    assert (party.writes, party.heir.writes) == (0, 0)


def test_whoever_gets_the_descriptor_of_one_that_left_is_not_taken_for_it(turns: SocketSelector) -> None:
    first = Party(turns)
    turns.poll(0)
    descriptor = first.near.fileno()
    first.leave()
    second = Party(turns)
    assert second.near.fileno() == descriptor
    second.far.send(b"a")
    turns.poll(1)
    assert (first.reads, second.reads) == (0, 1)


def test_one_that_leaves_in_a_turn_is_told_nothing_more_in_it(turns: SocketSelector) -> None:
    parties = [Party(turns) for _ in range(5)]

    class Last(Party):
        def handle_read_event(self) -> None:
            for party in parties:
                party.leave()

    last = Last(turns)
    for party in (*parties, last):
        party.wants_write = True
        party.far.send(b"a")
    turns.poll(1)
    turns.poll(0)
    assert list(turns) == [last.near.fileno()]


@contextmanager
def rarely() -> Iterator[HttpListener]:
    """Yield a listener that checks deadlines once a minute."""
    listeners = HttpServer(echo, [("127.0.0.1", 0)], request_timeout=0.05)
    (server,) = listeners.servers
    server.adj.cleanup_interval = 60
    listeners.start()
    try:
        assert eventually(lambda: server.next_channel_cleanup > 0)
        yield server
    finally:
        assert listeners.stop(10)


@pytest.mark.parametrize("by", ["its deadline", "the end"])
def test_who_is_refused_is_let_go_without_another_event(by: str) -> None:
    with rarely() as server, Wire(server.address) as wire:
        wire.send(GET[:-2])
        assert eventually(lambda: any(channel.request for channel in server.active_channels.values()))
        time.sleep(0.1)
        if by == "the end":
            server.refuse_unfinished(TooBusy(retry_after=1))
        else:
            server.next_channel_cleanup = 0
            server.pull_trigger()
        assert wire.answer().status == {"the end": 503, "its deadline": 408}[by]
        assert wire.ended()


@pytest.mark.usefixtures("scheme")
def test_no_answer_waits_for_the_next_look_at_deadlines() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(workers=4))
        wires = [stack.enter_context(Wire(listeners.addresses[0])) for _ in range(8)]
        took = []
        for _ in range(40):
            begun = time.monotonic()
            for wire in wires:
                wire.send(GET * 2)
            assert {wire.answer().status for wire in wires for _ in range(2)} == {200}
            took.append(time.monotonic() - begun)
        assert sorted(took)[30] < 0.5  # a lost wake-up costs up to a second
