"""A streamed response: written as the client reads, without occupying a worker, and always released; over sockets."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from mailbox_appliance.web.server.connection import STREAM_BODY
from mailbox_appliance.web.server.server import HttpServer
from tests.web.wire import GET, Wire, eventually, is_served, listening

pytestmark = pytest.mark.usefixtures("scheme")

PIECE = b"0123456789abcdef" * 4096
KEEP = b"GET /kept HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Streams:
    """An application that streams many pieces at /kept and /last; it counts those that were produced and released."""

    def __init__(self, pieces: int, fails_after: int | None = None, *, size: bool = True) -> None:
        self.pieces, self.fails_after, self.size = pieces, fails_after, size
        self.made = self.closed = 0
        self.threads: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/a":
            start_response("200 OK", [("Content-Length", "2")])
            return [b"ok"]
        length = [("Content-Length", str(self.pieces * len(PIECE)))] if self.size else []
        start_response("200 OK", length)
        environ[STREAM_BODY](self)
        return ()

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.pieces):
            if number == self.fails_after:
                raise ConnectionError
            self.made += 1
            self.threads.add(threading.current_thread().name)
            yield PIECE

    def close(self) -> None:
        self.closed += 1


def paused(listeners: HttpServer) -> int:
    """Return how many connections wait for their clients to read."""
    channels = [channel for server in listeners.servers for channel in server.active_channels.values()]
    return sum(channel.paused for channel in channels)


@pytest.mark.parametrize("pieces", [0, 1, 3, 500])
def test_all_of_it_arrives_and_the_connection_goes_on(pieces: int) -> None:
    streams = Streams(pieces)
    with listening(streams) as listeners, Wire(listeners.addresses[0]) as wire:
        for _ in range(2):
            answer = wire.send(KEEP).answer()
            assert (answer.status, answer.body == PIECE * pieces) == (200, True)
        assert wire.send(GET).answer().body == b"ok"
        assert eventually(lambda: streams.closed == 2)


def test_requests_sent_ahead_are_answered_in_turn() -> None:
    streams = Streams(100)
    with listening(streams) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(KEEP + GET + LAST)
        assert [len(wire.answer().body) for _ in range(3)] == [100 * len(PIECE), 2, 100 * len(PIECE)]
        assert wire.ended()
        assert eventually(lambda: streams.closed == 2)


def test_a_slow_reader_holds_no_worker_and_little_memory() -> None:
    streams = Streams(400)
    with listening(streams, workers=2) as listeners:
        slow = [Wire(listeners.addresses[0]).send(KEEP) for _ in range(6)]
        try:
            assert eventually(lambda: paused(listeners) == 6)
            assert is_served(listeners.addresses[0])
            assert listeners.memory.taken == 0
            assert streams.made < 6 * 200  # as much as the sockets hold, not the 400 pieces of each
            for wire in slow:
                assert len(wire.answer().body) == 400 * len(PIECE)
        finally:
            for wire in slow:
                wire.socket.close()
        assert eventually(lambda: streams.closed == 6)


def test_a_client_that_hangs_up_is_noticed() -> None:
    streams = Streams(1000)
    with listening(streams) as listeners:
        with Wire(listeners.addresses[0]) as wire:
            wire.send(KEEP)
            assert eventually(lambda: paused(listeners) == 1)
        assert eventually(lambda: streams.closed == 1)
        assert streams.made < 1000


def test_a_client_that_reads_nothing_is_given_up() -> None:
    streams = Streams(1000)
    with listening(streams, request_timeout=0.4) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(KEEP)
        assert eventually(lambda: streams.closed == 1)
        with pytest.raises(EOFError):
            wire.answer()


@pytest.mark.parametrize("after", [0, 1, 200])
@pytest.mark.parametrize("size", [True, False])
def test_what_breaks_off_is_never_taken_for_whole(after: int, size: bool) -> None:
    streams = Streams(300, after, size=size)
    with listening(streams) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(KEEP)
        received = b""
        while not wire.ended():
            received, wire.rest = (received + wire.rest)[-4096:], b""
        assert not received.endswith(b"0\r\n\r\n")
        assert eventually(lambda: streams.closed == 1)


def test_without_a_known_size_it_is_chunked() -> None:
    streams = Streams(100, size=False)
    with listening(streams) as listeners, Wire(listeners.addresses[0]) as wire:
        assert wire.send(KEEP).answer().headers["transfer-encoding"] == "chunked"
        received = 0
        while not wire.ended():
            received, tail, wire.rest = received + len(wire.rest), wire.rest[-5:], b""
        assert tail == b"0\r\n\r\n"
        assert received > 100 * len(PIECE)


def test_stopping_waits_for_who_reads() -> None:
    streams = Streams(300)
    with listening(streams) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(KEEP)
        assert eventually(lambda: paused(listeners) == 1)
        stopping = threading.Thread(target=listeners.stop, args=(10,))
        stopping.start()
        assert len(wire.answer().body) == 300 * len(PIECE)
        stopping.join(10)
        assert not stopping.is_alive()
