"""Bodies and responses in memory stay within one limit for all connections; over real sockets."""

import json
import os
import socket
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.web.server.memory import MemoryBudget, MemoryReservation, OutputBuffer, RequestBody, ServerBounds
from mailbox_appliance.web.server.server import HttpServer
from tests.web.wire import CHUNKED, GET, POST, Gate, Wire, eventually, listening

over_both = pytest.mark.usefixtures("scheme")

SMALL = ServerBounds(max_body=50_000, max_discarded=200_000, free_memory=10_000, ahead=2_000, memory=60_000)
MEBIBYTE = 1 << 20
LARGE = 30 * MEBIBYTE


def post(size: int, sent: int | None = None, path: bytes = b"/a") -> bytes:
    head = POST.replace(b"/a", path) + b"Content-Length: %d\r\n\r\n" % size
    return head + b"a" * (size if sent is None else sent)


def chunked(*sizes: int, ends: bool = True) -> bytes:
    chunks = b"".join(b"%x\r\n" % size + b"a" * size + b"\r\n" for size in sizes)
    return CHUNKED + chunks + (b"0\r\n\r\n" if ends else b"")


@contextmanager
def held(listeners: HttpServer, size: int, taken: int) -> Iterator[Wire]:
    """Yield a client that has announced a body of this size and sends no more of it."""
    with Wire(listeners.addresses[-1]) as holder:
        holder.send(post(size, sent=size - 1))
        assert eventually(lambda: listeners.memory.taken == taken)
        yield holder


def test_a_part_is_given_only_where_there_is_so_much_left() -> None:
    memory = MemoryBudget(100)
    first, second = MemoryReservation(memory), MemoryReservation(memory)
    asked = [(first, 60, True, 60), (second, 50, False, 60), (second, 40, True, 100), (first, 60, True, 100)]
    asked += [(first, 61, False, 100), (first, 20, True, 60), (second, 80, True, 100), (second, 0, True, 20)]
    for part, size, given, taken in asked:
        assert (part.resize(size), memory.taken) == (given, taken)


def test_output_is_sent_in_order_whatever_the_pieces() -> None:
    output, sent = OutputBuffer(), b""
    for piece in (b"head", b"body", b"x" * 40_000, b"y" * 40_000, b"tail"):
        output.append(piece)
    assert len(output) == 80_012
    while data := bytes(output.get(7_001)):
        sent += data[: len(data) - len(data) // 3]
        output.skip(len(data) - len(data) // 3, True)
        assert len(output) == 80_012 - len(sent)
    assert sent == b"headbody" + b"x" * 40_000 + b"y" * 40_000 + b"tail"


def test_a_body_is_read_without_a_copy() -> None:
    body = RequestBody()
    for _ in range(100):
        body.append(b"a" * 1_000)
    assert body.getfile().read(100_000) is body.getfile().read()
    assert len(body) == 100_000


@pytest.mark.parametrize(
    ("sent", "size", "postponed", "discarded"),
    [
        pytest.param(post(10_000), 10_000, None, None, id="small"),
        pytest.param(post(20_000), 20_000, None, None, id="all that is left"),
        pytest.param(post(20_001), 0, 20_001, None, id="more than is left"),
        pytest.param(post(50_000), 0, 50_000, None, id="at the bound"),
        pytest.param(post(50_001), 0, None, 50_001, id="over the bound"),
        pytest.param(chunked(10_000), 10_000, None, None, id="small chunked"),
        pytest.param(chunked(10_000, 1), 10_001, None, None, id="large chunked"),
        pytest.param(chunked(10_000, 10_001), 0, 20_001, None, id="more chunked than is left"),
        pytest.param(chunked(20_000, 20_000), 0, 40_000, None, id="chunked in the middle"),
        pytest.param(chunked(20_000, 20_000, 10_001), 0, None, 50_001, id="chunked over the bound"),
    ],
)
def test_a_large_body_without_memory_is_thrown_away_and_the_application_is_told(
    sent: bytes, size: int, postponed: int | None, discarded: int | None
) -> None:
    with listening(hosts=("127.0.0.1", "::1"), bounds=SMALL) as listeners, held(listeners, 40_000, 40_000) as holder:
        with Wire(listeners.addresses[0]) as wire:
            for _ in range(2):  # on the same connection
                seen = wire.send(sent).answer().json
                told = [seen["environ"].get(f"mailbox.body_{key}") for key in ("postponed", "discarded")]
                assert (seen["size"], told) == (size, [postponed, discarded])
                assert eventually(lambda: listeners.memory.taken == 40_000)
        assert holder.send(b"a").answer().json["size"] == 40_000
        assert eventually(lambda: listeners.memory.taken == 0)


@pytest.mark.parametrize("sent", [0, 15_000], ids=["nothing", "little"])
def test_who_announces_large_bodies_and_does_not_send_them_keeps_nobody_out(sent: int) -> None:
    with listening(bounds=SMALL) as listeners, ExitStack() as stack:
        idle = [stack.enter_context(Wire(listeners.addresses[0])).send(post(45_000, sent=0)) for _ in range(20)]
        # the reservation is a step ahead of the data sent: here that is all that was announced
        idle[0].send(b"a" * sent)
        assert eventually(lambda: listeners.memory.taken == (45_000 if sent else 0))
        with Wire(listeners.addresses[0]) as wire:
            for _ in range(3):
                assert wire.send(post(15_000)).answer().json["size"] == 15_000


def test_a_body_that_outgrows_the_memory_is_thrown_away_from_there_on() -> None:
    with listening(bounds=SMALL) as listeners, Wire(listeners.addresses[0]) as first:
        first.send(post(30_000, sent=11_000))
        assert eventually(lambda: listeners.memory.taken == 30_000)
        first.send(b"a" * 18_999)
        with Wire(listeners.addresses[0]) as second:
            second.send(post(30_000, sent=29_999))  # now all of it is reserved
            assert eventually(lambda: listeners.memory.taken == 60_000)
            with Wire(listeners.addresses[0]) as third:
                third.send(chunked(9_000, ends=False))
                third.send(b"1f40\r\n" + b"a" * 8_000 + b"\r\n0\r\n\r\n")
                assert third.answer().json["environ"]["mailbox.body_postponed"] == 17_000
        assert first.send(b"a").answer().json["size"] == 30_000
        assert eventually(lambda: listeners.memory.taken == 0)


def test_a_body_without_memory_is_not_asked_for() -> None:
    with listening(bounds=SMALL) as listeners, held(listeners, 40_000, 40_000), Wire(listeners.addresses[0]) as wire:
        answer = wire.send(POST + b"Content-Length: 30000\r\nExpect: 100-continue\r\n\r\n").answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert answer.json["environ"]["mailbox.body_postponed"] == 30_000
        assert wire.ended()


def test_a_chunked_body_takes_the_most_it_may_become_and_keeps_what_it_is() -> None:
    gate = Gate()
    with listening(gate, bounds=SMALL) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(chunked(20_000, ends=False).replace(b"/a", b"/wait"))
        assert eventually(lambda: listeners.memory.taken == 50_000)
        wire.send(b"0\r\n\r\n")
        assert gate.inside.acquire(timeout=10)
        assert listeners.memory.taken == 20_000
        gate.open.set()
        assert wire.answer().json["size"] == 20_000
        assert eventually(lambda: listeners.memory.taken == 0)


def test_a_chunked_body_that_is_thrown_away_takes_nothing() -> None:
    with listening(bounds=SMALL) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(chunked(20_000, ends=False))
        assert eventually(lambda: listeners.memory.taken == 50_000)
        wire.send(b"%x\r\n" % 30_001 + b"a" * 30_001)
        assert eventually(lambda: listeners.memory.taken == 0)
        assert wire.send(b"\r\n0\r\n\r\n").answer().json["environ"]["mailbox.body_discarded"] == 50_001


def reset(wire: Wire) -> None:
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()


def close(wire: Wire) -> None:
    wire.socket.close()


def wait(_: Wire) -> None:
    """Send nothing more, so that the deadline passes."""


def send(data: bytes) -> Callable[[Wire], None]:
    def then(wire: Wire) -> None:
        wire.send(data)

    return then


@over_both
@pytest.mark.parametrize(
    ("begun", "then", "status"),
    [
        pytest.param(post(20_000, sent=19_999), send(b"a"), 200, id="answered"),
        pytest.param(post(20_000, sent=19_999), close, None, id="client leaves"),
        pytest.param(post(20_000, sent=19_999), reset, None, id="client resets"),
        pytest.param(post(20_000, sent=19_999), wait, 408, id="too slow"),
        pytest.param(post(20_000, sent=19_999, path=b"/fault"), send(b"a"), 500, id="fault of the application"),
        pytest.param(
            post(20_000, sent=19_999).replace(b"Host", b"Connection: close\r\nHost"),
            send(b"a"),
            200,
            id="last of its connection",
        ),
        pytest.param(b"nonsense\r\n\r\n" + post(20_000, sent=0), wait, 400, id="behind a refused request"),
        pytest.param(
            GET.replace(b"Host", b"Connection: close\r\nHost") + post(20_000, sent=0),
            wait,
            200,
            id="behind the last request",
        ),
        pytest.param(chunked(20_000, ends=False), send(b"0\r\n\r\n"), 200, id="chunked answered"),
        pytest.param(chunked(20_000, ends=False), send(b"nonsense\r\n"), 400, id="chunked malformed"),
        pytest.param(
            chunked(20_000, ends=False),
            send(b"f000\r\n" + b"a" * 0xF000 + b"\r\n0\r\n\r\n"),
            200,
            id="chunked over the bound",
        ),
        pytest.param(chunked(20_000, ends=False), send(b"40000\r\n" + b"a" * 0x40000), 413, id="chunked far over"),
        pytest.param(chunked(20_000, ends=False), close, None, id="chunked, client leaves"),
        pytest.param(chunked(20_000, ends=False), wait, 408, id="chunked too slow"),
    ],
)
def test_the_memory_of_a_body_is_given_back(begun: bytes, then: Callable[[Wire], None], status: int | None) -> None:
    gate = Gate()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/fault":
            raise OSError("a fault")
        return gate(environ, start_response)

    # With such an upload rate, sent data does not extend the deadline.
    bounds = ServerBounds(**{**vars(SMALL), "upload_rate": 1 << 30, "linger_seconds": 0.2})
    with listening(app, bounds=bounds, request_timeout=0.4) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(begun)
        if not begun.startswith((b"nonsense", b"GET")):
            assert eventually(lambda: listeners.memory.taken > 0)
        then(wire)
        if status is not None:
            assert wire.answer().status == status
        assert eventually(lambda: listeners.memory.taken == 0)


def test_the_memory_of_a_body_is_given_back_when_its_client_leaves_while_it_is_answered() -> None:
    gate = Gate()
    with listening(gate, bounds=SMALL, workers=1) as listeners:
        with Wire(listeners.addresses[0]) as wire, Wire(listeners.addresses[0]) as behind:
            wire.send(post(20_000, path=b"/wait"))
            assert gate.inside.acquire(timeout=10)
            behind.send(post(20_000))
            assert eventually(lambda: listeners.memory.taken == 40_000)
        gate.open.set()
        assert eventually(lambda: listeners.memory.taken == 0)


def test_stopping_gives_all_memory_back() -> None:
    with listening(bounds=SMALL) as listeners, held(listeners, 20_000, 20_000):
        assert listeners.stop(10)
        assert listeners.memory.taken == 0


# Responses.


class Answers:
    """An application whose responses have the size in their path, from one piece of memory."""

    def __init__(self) -> None:
        self.data, self.asked = b"a" * LARGE, 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.asked += 1
        answer = self.data[: int(environ["PATH_INFO"][1:])]
        start_response("200 OK", [("Content-Length", str(len(answer)))])
        return [answer]


def ask(size: int) -> bytes:
    return GET.replace(b"/a", b"/%d" % size)


TIGHT = ServerBounds(memory=LARGE + MEBIBYTE)


def unread(listeners: HttpServer, wire: Wire) -> None:
    """Request a large response and leave most of it unread."""
    wire.send(ask(LARGE))
    assert eventually(lambda: LARGE // 4 < listeners.memory.taken < LARGE)


@over_both
def test_a_large_answer_without_memory_is_put_off() -> None:
    with listening(Answers(), bounds=TIGHT, hosts=("127.0.0.1", "::1")) as listeners:
        with Wire(listeners.addresses[-1]) as slow, Wire(listeners.addresses[0]) as wire:
            unread(listeners, slow)
            before = listeners.memory.taken
            answer = wire.send(ask(LARGE)).answer()
            assert (answer.status, answer.json["error"]["code"]) == (503, "provider_unavailable")
            assert answer.headers["retry-after"] == "5"
            assert answer.headers["x-request-id"] == answer.json["error"]["requestId"]
            assert listeners.memory.taken <= before
            assert wire.send(ask(MEBIBYTE // 2)).answer().body == b"a" * (MEBIBYTE // 2)
            assert len(slow.answer().body) == LARGE
            assert eventually(lambda: listeners.memory.taken == 0)
            assert len(wire.send(ask(LARGE)).answer().body) == LARGE
        assert eventually(lambda: listeners.memory.taken == 0)


@over_both
@pytest.mark.parametrize("then", [close, reset, wait], ids=["client leaves", "client resets", "client does not read"])
def test_the_memory_of_an_answer_is_given_back(then: Callable[[Wire], None]) -> None:
    with listening(Answers(), request_timeout=0.4) as listeners, Wire(listeners.addresses[0]) as wire:
        unread(listeners, wire)
        then(wire)
        assert eventually(lambda: listeners.memory.taken == 0)


@over_both
def test_requests_behind_an_unread_answer_wait_and_hold_no_worker() -> None:
    app, count, size = Answers(), 100, MEBIBYTE
    with listening(app, workers=1) as listeners, Wire(listeners.addresses[0]) as slow:
        slow.send(ask(size) * count)
        with Wire(listeners.addresses[0]) as wire:
            assert eventually(lambda: app.asked > 1)
            assert wire.send(ask(10)).answer().body == b"a" * 10
        assert app.asked < count
        assert listeners.memory.taken <= MEBIBYTE
        assert [len(slow.answer().body) for _ in range(count)] == [size] * count


@over_both
def test_requests_that_wait_are_forgotten_with_their_connection() -> None:
    app, count = Answers(), 100
    with listening(app, workers=1, request_timeout=0.4) as listeners, Wire(listeners.addresses[0]) as slow:
        slow.send(ask(MEBIBYTE) * count)
        assert eventually(lambda: app.asked > 1)
        assert eventually(lambda: listeners.memory.taken == 0)
        with Wire(listeners.addresses[0]) as wire:
            assert wire.send(ask(10)).answer().status == 200
        assert app.asked < count


# The place of the body.


def files() -> set[str]:
    """Return the regular files that this process has open."""
    opened = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("/") and not target.startswith("/dev/"):
            opened.add(target)
    return opened


@over_both
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_only_large_bodies_are_put_into_files_and_these_have_no_name() -> None:
    before, answers = files(), Answers()
    during: set[str] = set()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        during.update(files())
        if environ["REQUEST_METHOD"] == "POST":
            size = len(environ["wsgi.input"].read())
            start_response("200 OK", [])
            return [json.dumps(size).encode()]
        return answers(environ, start_response)

    with listening(app) as listeners, Wire(listeners.addresses[0]) as wire, Wire(listeners.addresses[0]) as slow:
        wire.send(post(LARGE)).answer()
        wire.send(chunked(LARGE)).answer()
        unread(listeners, slow)
        during |= files()
    assert during - before
    assert all(name.endswith(" (deleted)") for name in during - before)
    assert eventually(lambda: not files() - before)


@over_both
def test_an_unread_answer_is_held_once() -> None:
    with listening(Answers()) as listeners, Wire(listeners.addresses[0]) as wire:
        tracemalloc.start()
        try:
            unread(listeners, wire)
            assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
        finally:
            tracemalloc.stop()


@over_both
def test_a_large_body_is_not_held() -> None:
    sent = post(LARGE)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        size = sum(map(len, environ["wsgi.input"].content.pieces()))
        start_response("200 OK", [])
        return [json.dumps(size).encode()]

    with listening(app) as listeners, Wire(listeners.addresses[0]) as wire:
        tracemalloc.start()
        try:
            assert wire.send(sent).answer().json == LARGE
            assert tracemalloc.get_traced_memory()[1] < 4 * MEBIBYTE
        finally:
            tracemalloc.stop()
