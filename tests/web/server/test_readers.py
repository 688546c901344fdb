"""Requests that wait, and responses that are kept open: what they occupy, how many there may be, and how they end."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from mailbox_appliance.errors import ReadersBusy
from mailbox_appliance.web.server.connection import HOLD_REQUEST, KEEP_OPEN, HeldRequest
from mailbox_appliance.web.server.framing import ResponseSink
from mailbox_appliance.web.server.memory import ServerBounds
from mailbox_appliance.web.server.selector import PeerLimits
from mailbox_appliance.web.server.server import HttpListener, HttpServer
from tests.web.wire import GET, PATIENCE, Wire, certificate, echo, eventually, is_answered, is_served, listening

POLL, STREAM = b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /events/stream HTTP/1.1\r\nHost: x\r\n\r\n"
_REMOTE = "127.0.0.2"


class Distant(PeerLimits):
    """Takes one local address for that of a remote client."""

    def is_shared_peer(self, host: str) -> bool:
        return host != _REMOTE and super().is_shared_peer(host)


class Hub:
    """An application that sets requests to /events aside, keeps /events/stream open, and echoes the others."""

    def __init__(self) -> None:
        self.held: list[HeldRequest] = []
        self.sinks: list[ResponseSink] = []
        self.recorded = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/events" and HOLD_REQUEST in environ:
            environ[HOLD_REQUEST](self.held.append)
            return ()
        if path == "/events/stream":
            environ[KEEP_OPEN](self.sinks.append)
            start_response("200 OK", [("Content-Type", "text/event-stream")])
            return ()
        return echo(environ, start_response)

    def answer(self, held: HeldRequest, body: bytes = b"told") -> None:
        """Answer a request that waits."""
        held.answer("200 OK", [("Content-Length", str(len(body)))], body, self._record)
        held.release()

    def wait_for(self, count: int) -> None:
        """Wait until so many requests or responses wait, in all."""
        assert eventually(lambda: len(self.held) + len(self.sinks) == count)

    def _record(self) -> None:
        self.recorded += 1


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def read(wire: Wire, size: int) -> bytes:
    while len(wire.rest) < size:
        wire._more()
    found, wire.rest = wire.rest[:size], wire.rest[size:]
    return found


def head(wire: Wire) -> bytes:
    return wire._until(b"\r\n\r\n")


@contextmanager
def waiting(**numbers: Any) -> Iterator[tuple[Hub, HttpServer, HttpListener]]:
    """Yield a server with one listener and one worker. Whoever waits at the end is released."""
    hub = Hub()
    with listening(hub, **{"workers": 1} | numbers) as listeners:
        yield hub, listeners, listeners.servers[0]
        for held in hub.held:
            held.release()
        for sink in hub.sinks:
            sink.end()


@pytest.mark.usefixtures("scheme")
def test_a_request_that_waits_occupies_no_worker_and_is_answered_by_another_thread() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL)
        hub.wait_for(1)
        assert is_served(listeners.addresses[0])
        hub.answer(hub.held[0])
        answer = wire.answer()
        assert (answer.status, answer.body) == (200, b"told")
        assert eventually(lambda: hub.recorded == 1)
        assert is_answered(wire)  # the connection is kept


@pytest.mark.usefixtures("scheme")
def test_a_request_that_is_released_without_an_answer_runs_again_and_does_not_wait() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL)
        hub.wait_for(1)
        hub.held[0].release()
        assert wire.answer().json["environ"]["PATH_INFO"] == "/events"
        assert len(hub.held) == 1


@pytest.mark.usefixtures("scheme")
def test_requests_that_follow_are_answered_in_order() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL + GET + POLL + GET)
        hub.wait_for(1)
        hub.answer(hub.held[0], b"first")
        assert wire.answer().body == b"first"
        assert wire.answer().json["environ"]["PATH_INFO"] == "/a"
        hub.wait_for(2)
        hub.answer(hub.held[1], b"second")
        assert wire.answer().body == b"second"
        assert wire.answer().json["environ"]["PATH_INFO"] == "/a"


@pytest.mark.usefixtures("scheme")
def test_a_request_that_arrives_meanwhile_in_pieces_is_answered_afterwards() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL)
        hub.wait_for(1)
        wire.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
        wire.send(b"ab")
        hub.answer(hub.held[0])
        assert wire.answer().body == b"told"
        wire.send(b"cd")
        assert wire.answer().json["body"] == "abcd"


@pytest.mark.usefixtures("scheme")
@pytest.mark.parametrize("request_sent", [POLL, STREAM], ids=["request", "stream"])
def test_a_client_that_disconnects_is_noticed_at_once(request_sent: bytes) -> None:
    with waiting() as (hub, listeners, server):
        with Wire(listeners.addresses[0]) as wire:
            wire.send(request_sent)
            hub.wait_for(1)
        one = hub.held[0] if hub.held else hub.sinks[0]
        assert eventually(lambda: not one.is_open)
        assert eventually(lambda: not server.active_channels and not server._readers)
        assert eventually(lambda: listeners.stats().busy_workers == 0)
        for held in hub.held:
            hub.answer(held)  # too late, which does no harm
        assert is_served(listeners.addresses[0])


@pytest.mark.parametrize(("method", "body"), [(b"GET", b"told"), (b"HEAD", b"")])
def test_versions_and_methods(method: bytes, body: bytes) -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(method + b" /events HTTP/1.0\r\n\r\n")
        hub.wait_for(1)
        hub.answer(hub.held[0], body)
        answer = wire.answer()
        assert (answer.version, answer.headers["connection"], answer.body) == ("HTTP/1.0", "close", body)
        assert wire.ended()


@pytest.mark.usefixtures("scheme")
def test_a_stream_is_written_by_another_thread_in_chunks_until_it_is_ended() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(STREAM)
        hub.wait_for(1)
        [sink] = hub.sinks
        assert b"Transfer-Encoding: chunked" in head(wire)
        for word in (b"one", b"two"):
            assert sink.write(word)
            assert read(wire, len(chunk(word))) == chunk(word)
        sink.end()
        assert read(wire, 5) == b"0\r\n\r\n"
        assert wire.ended()


def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(b"GET /events/stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        hub.wait_for(1)
        assert b"Transfer-Encoding" not in head(wire)
        assert hub.sinks[0].write(b"one")
        assert read(wire, 3) == b"one"
        hub.sinks[0].end()
        assert wire.ended()


@pytest.mark.usefixtures("scheme")
def test_a_stream_that_is_not_read_takes_little_memory_and_ends() -> None:
    with waiting(request_timeout=0.4) as (hub, listeners, server), Wire(listeners.addresses[0]) as wire:
        wire.send(STREAM)
        hub.wait_for(1)
        [sink] = hub.sinks
        [channel] = server.active_channels.values()

        def is_ended() -> bool:
            # The buffers of the system can grow and take more, so it gets more.
            while sink.is_ready() and sink.write(bytes(16_384)):
                assert channel.total_outbufs_len < 128 * 1024
            return not sink.is_open

        assert eventually(is_ended)
        assert not sink.write(b"more")


def test_those_who_wait_take_no_place_of_other_connections() -> None:
    with ExitStack() as stack:
        hub, listeners, server = stack.enter_context(waiting(per_local_peer=2, bounds=ServerBounds(connections=3)))
        for number in range(20):
            stack.enter_context(Wire(listeners.addresses[0])).send(POLL if number % 2 else STREAM)
            hub.wait_for(number + 1)
        assert server._readers.total() == 20
        assert all(is_served(listeners.addresses[0]) for _ in range(5))


def test_five_hundred_that_come_at_once_are_all_accepted() -> None:
    with ExitStack() as stack:
        hub, listeners, _ = stack.enter_context(waiting())
        wires = [stack.enter_context(Wire(listeners.addresses[0])).send(POLL) for _ in range(500)]
        hub.wait_for(500)
        assert is_served(listeners.addresses[0])
        for held in hub.held:
            hub.answer(held)
        assert {wire.answer().status for wire in wires} == {200}
        for wire in wires:  # all of them again, from connections that are open already
            wire.send(POLL)
        hub.wait_for(1000)
        assert is_served(listeners.addresses[0])


def test_a_connection_that_goes_on_with_other_requests_is_no_reader_any_more() -> None:
    with waiting() as (hub, listeners, server), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL)
        hub.wait_for(1)
        hub.answer(hub.held[0])
        assert wire.answer().status == 200
        assert server._readers.total() == 1  # it will ask again
        assert is_answered(wire)
        assert eventually(lambda: not server._readers)


@pytest.mark.parametrize(
    ("bounds", "sources"),
    [
        (ServerBounds(readers=3), ("127.0.0.1", _REMOTE)),
        (ServerBounds(readers_per_peer=3), (_REMOTE,)),
    ],
    ids=["all", "a remote client"],
)
def test_beyond_the_limit_a_reader_is_refused_and_others_are_not(
    bounds: ServerBounds, sources: tuple[str, ...]
) -> None:
    refused: list[int | None] = []

    class Refusing(Hub):
        def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            try:
                return super().__call__(environ, start_response)
            except ReadersBusy as busy:
                refused.append(busy.retry_after)
                start_response("429 Too Many Requests", [("Content-Length", "0")])
                return (b"",)

    hub = Refusing()
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(hub, workers=1, bounds=bounds, hosts=("127.0.0.1",)))
        (server,) = listeners.servers
        server.peer_limits = Distant()
        address = listeners.addresses[0]
        for number in range(3):
            stack.enter_context(Wire(address, source=sources[-1])).send(POLL if number else STREAM)
            hub.wait_for(number + 1)
        for sent in (POLL, STREAM):
            for source in sources:
                assert stack.enter_context(Wire(address, source=source)).send(sent).answer().status == 429
        assert set(refused) == {5}
        assert is_served(address)
        hub.answer(hub.held[0])  # it has its place for its next request
        assert eventually(lambda: hub.recorded == 1)
        assert server._readers.total() == 3
        hub.held[1].release()
        hub.sinks[0].end()


@pytest.mark.usefixtures("scheme")
def test_at_the_end_of_the_server_those_who_wait_are_released() -> None:
    with ExitStack() as stack:
        hub, listeners, server = stack.enter_context(waiting())
        wires = [stack.enter_context(Wire(listeners.addresses[0])).send(POLL) for _ in range(5)]
        stream = stack.enter_context(Wire(listeners.addresses[0])).send(STREAM)
        hub.wait_for(6)
        stopping = threading.Thread(target=listeners.stop)
        stopping.start()
        assert eventually(lambda: not (hub.held[0].is_open or hub.sinks[0].is_open))
        for held in hub.held:
            held.release()
        hub.sinks[0].end()
        assert {(answer.status, answer.headers["connection"]) for answer in (w.answer() for w in wires)} == {
            (200, "close")
        }
        head(stream)
        assert read(stream, 5) == b"0\r\n\r\n"
        stopping.join(PATIENCE)
        assert not server.active_channels


def test_streams_go_on_when_the_certificate_changes() -> None:
    with waiting(context=certificate()) as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(STREAM)
        hub.wait_for(1)
        head(wire)
        for group in listeners._groups:
            group.use_certificate(certificate("second"))
        assert hub.sinks[0].write(b"one")
        assert read(wire, 8) == chunk(b"one")
        assert is_served(listeners.addresses[0])


def test_a_client_that_stops_sending_is_gone() -> None:
    with waiting() as (hub, listeners, _), Wire(listeners.addresses[0]) as wire:
        wire.send(POLL)
        hub.wait_for(1)
        wire.socket.shutdown(socket.SHUT_WR)
        assert eventually(lambda: not hub.held[0].is_open)
