"""Listeners that end: earlier clients are answered, even those not yet accepted or read; over real sockets."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest

from mailbox_appliance.errors import Unavailable
from mailbox_appliance.web.server.memory import ServerBounds
from mailbox_appliance.web.server.server import HttpServer
from tests.servers.certificates import any_certificate
from tests.web.server.test_tls import Bio, client_hello
from tests.web.wire import GET, PATIENCE, POST, Gate, Usual, Wire, certificate, eventually, listening

QUICK = ServerBounds(first_bytes=0.3, handshake_timeout=1)
PATIENT = ServerBounds(first_bytes=8)  # twenty clients are in this one process
ENDS: dict[str, Callable[[HttpServer], None]] = {
    "stop": lambda listeners: listeners.stop_listening(),
    "close": lambda listeners: listeners.servers[0].retire(PATIENCE),
}


class Stopping(Unavailable):
    """The problem of an appliance that is stopping."""


@pytest.fixture(params=list(ENDS.values()), ids=list(ENDS))
def end(request: pytest.FixtureRequest) -> Callable[[HttpServer], None]:
    """Return a way for a listener to end."""
    found: Callable[[HttpServer], None] = request.param
    return found


@contextmanager
def held(listeners: HttpServer, end: Callable[[HttpServer], None]) -> Iterator[None]:
    """Stop the loops during the context; then the listeners end."""
    goes_on = Event()
    for server in listeners.servers:
        server.pull_trigger(lambda: bool(goes_on.wait(PATIENCE)))  # type: ignore[arg-type]
    ending = threading.Thread(target=end, args=(listeners,))
    try:
        yield
        ending.start()
        assert eventually(lambda: any(server._pending_calls for server in listeners.servers))
    finally:
        goes_on.set()
    ending.join(PATIENCE)
    assert not ending.is_alive()


@pytest.mark.usefixtures("scheme")
def test_who_waits_to_be_accepted_is_answered(end: Callable[[HttpServer], None]) -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(bounds=PATIENT))
        callers = stack.enter_context(ThreadPoolExecutor(20))

        def ask(wire: Wire) -> tuple[int, str]:
            if Usual.scheme == "https":
                wire._speak(any_certificate())
            answer = wire.send(GET).answer()
            return answer.status, answer.headers["connection"]

        with held(listeners, end):
            wires = [stack.enter_context(Wire(listeners.addresses[0], plain=True)) for _ in range(20)]
            asking = [callers.submit(ask, wire) for wire in wires]
        assert [one.result(PATIENCE) for one in asking] == [(200, "close")] * 20


@pytest.mark.usefixtures("scheme")
def test_what_came_on_connections_that_were_kept_is_answered(end: Callable[[HttpServer], None]) -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(bounds=QUICK))
        wires = [stack.enter_context(Wire(listeners.addresses[0])) for _ in range(5)]
        assert [wire.send(GET).answer().status for wire in wires] == [200] * 5
        with held(listeners, end):
            for wire in wires[1:]:
                wire.send(GET)
        assert [wire.answer().status for wire in wires[1:]] == [200] * 4
        assert wires[0].ended()


@pytest.mark.usefixtures("scheme")
def test_what_came_is_answered_where_nothing_is_waited_for() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening())
        wires = [stack.enter_context(Wire(listeners.addresses[0])) for _ in range(3)]
        assert wires[0].send(GET).answer().status == 200
        with held(listeners, lambda listeners: bool(listeners.stop(PATIENCE))):  # type: ignore[arg-type]
            for wire in wires[:2]:
                wire.send(GET)
        assert [wire.answer().status for wire in wires[:2]] == [200, 200]
        assert wires[2].ended()


@pytest.mark.usefixtures("scheme")
def test_who_has_only_just_come_is_waited_for_but_not_for_long(end: Callable[[HttpServer], None]) -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(bounds=QUICK))
        kept, silent, late = [stack.enter_context(Wire(listeners.addresses[0])) for _ in range(3)]
        assert kept.send(GET).answer().status == 200
        end(listeners)
        begun = time.monotonic()
        assert listeners.is_busy()
        assert kept.ended()
        answer = late.send(GET).answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert silent.ended()
        assert time.monotonic() - begun < 5
        assert eventually(lambda: not listeners.is_busy())


def test_a_handshake_that_has_begun_is_waited_for(end: Callable[[HttpServer], None]) -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(context=certificate(), bounds=ServerBounds(first_bytes=0.05)))
        address = listeners.addresses[0]
        client, half = Bio(address), stack.enter_context(Wire(address, plain=True)).send(client_hello()[:100])
        rest = client.begin(100)
        assert eventually(lambda: expected(listeners) == [math.inf, math.inf])
        end(listeners)
        time.sleep(0.2)  # longer than a silent client is waited for
        client.socket.sendall(rest)
        client.handshake()
        client.tls.write(GET)
        client.flush()
        assert client.read_until(b"PATH_INFO").startswith(b"HTTP/1.1 200 OK")
        client.socket.close()
        half.socket.settimeout(0.01)
        with pytest.raises(TimeoutError):
            half.ended()


def expected(listeners: HttpServer) -> list[float]:
    """Return until when each connection is waited for."""
    return [one.expected_until for server in listeners.servers for one in list(server.active_channels.values())]


# Requests that never end.


@pytest.mark.usefixtures("scheme")
@pytest.mark.parametrize("begun", [b"GET / HT", POST + b"Content-Length: 9\r\n\r\n1234"], ids=["header", "body"])
def test_requests_that_come_too_slowly_for_a_stop_are_told_so(begun: bytes) -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as half, Wire(listeners.addresses[0]) as idle:
        assert [wire.send(GET).answer().status for wire in (half, idle)] == [200, 200]
        half.send(begun)
        assert eventually(lambda: any(c.request for s in listeners.servers for c in s.active_channels.values()))
        listeners.stop_listening()
        assert idle.ended()
        listeners.refuse_unfinished(Stopping(retry_after=7))
        answer = half.answer()
        assert (answer.status, answer.json["error"]["code"]) == (503, Stopping.code)
        assert answer.headers["retry-after"] == "7"
        assert listeners.stop(PATIENCE)
        assert half.ended()


@pytest.mark.usefixtures("scheme")
def test_who_is_told_so_is_told_it_once_and_behind_the_answer_that_is_owed() -> None:
    gate = Gate()
    with listening(gate) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(GET.replace(b"/a", b"/wait") + POST + b"Content-Length: 9\r\n\r\n1234")
        assert gate.inside.acquire(timeout=PATIENCE)
        listeners.stop_listening()
        listeners.refuse_unfinished(Stopping(retry_after=7))
        gate.open.set()
        assert wire.answer().status == 200
        assert wire.ended()


def test_what_is_half_received_is_given_up_where_nobody_is_told() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as half:
        half.send(POST + b"Content-Length: 9\r\n\r\n1234")
        assert eventually(lambda: listeners.is_busy())
        begun = time.monotonic()
        assert listeners.stop(PATIENCE)
        assert half.ended()
        assert time.monotonic() - begun < 5
