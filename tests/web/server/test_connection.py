"""Deadlines, keep-alive and the end of a connection; over real sockets."""

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest

from mailbox_appliance.web.server.memory import ServerBounds
from tests.web.wire import GET, POST, Gate, Wire, eventually, is_served, listening

pytestmark = pytest.mark.usefixtures("scheme")

SMALL = ServerBounds(max_body=50_000, max_discarded=200_000, max_header=2_000, upload_rate=100, linger_seconds=0.5)


def test_a_client_that_goes_on_sending_can_read_the_refusal() -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(POST + b"Content-Length: 3000000\r\n\r\n")
        for _ in range(30):
            wire.send(b"a" * 100_000)
        assert wire.answer().status == 413


@pytest.mark.parametrize(
    ("begun", "dripped"),
    [(b"G", b"E"), (b"GET / HTTP/1.1\r\nName: ", b"a"), (POST + b"Content-Length: 100\r\n\r\n", b"a")],
    ids=["request line", "header", "body"],
)
def test_a_request_that_is_not_complete_in_time_is_refused(begun: bytes, dripped: bytes) -> None:
    with listening(request_timeout=0.2, bounds=SMALL) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(begun)
        wire.socket.settimeout(0.05)
        for _ in range(40):  # a byte from time to time does not extend the deadline
            try:
                answer = wire.send(dripped).answer()
                break
            except TimeoutError:
                pass
        wire.socket.settimeout(5)
        assert (answer.status, answer.json["error"]["code"]) == (408, "request_timeout")
        assert wire.ended()


def test_an_upload_gets_the_time_that_its_size_needs() -> None:
    with listening(request_timeout=0.2, bounds=SMALL) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(POST + b"Content-Length: 1000\r\n\r\n")
        for _ in range(5):
            wire.send(b"a" * 200)  # worth two seconds
            time.sleep(0.1)
        assert wire.answer().json["size"] == 1_000


def test_an_idle_connection_is_closed_without_a_word() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(request_timeout=0.4, bounds=ServerBounds(idle_timeout=0.1)))
        fresh, used = [stack.enter_context(Wire(listeners.addresses[0])) for _ in range(2)]
        assert used.send(GET).answer().status == 200
        assert fresh.ended()
        assert used.ended()


def test_an_answer_that_is_not_read_is_cut() -> None:
    sizes = iter([1 << 20] * 1_000)
    ended = threading.Event()

    def body() -> Iterable[bytes]:
        try:
            for size in sizes:
                yield bytes(size)
        finally:
            ended.set()

    def app(_: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", str(1 << 40))])
        return body()

    with listening(app, request_timeout=0.2, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(GET)
        assert ended.wait(10)
    assert next(sizes, None) is not None


def test_a_client_that_does_not_close_after_a_refusal_is_closed() -> None:
    with ExitStack() as stack:
        bounds = ServerBounds(linger_seconds=0.1, local_patience=60)
        address = stack.enter_context(listening(request_timeout=0.4, per_local_peer=1, bounds=bounds)).addresses[0]
        assert stack.enter_context(Wire(address)).send(b"nonsense\r\n\r\n").answer().status == 400
        assert eventually(lambda: is_served(address))


def test_a_client_that_only_sends_is_closed() -> None:
    with ExitStack() as stack:
        bounds = ServerBounds(idle_timeout=0.2, local_patience=60)
        address = stack.enter_context(listening(request_timeout=0.2, per_local_peer=1, bounds=bounds)).addresses[0]
        _fill(stack.enter_context(Wire(address)))
        assert eventually(lambda: is_served(address))


def _fill(wire: Wire) -> None:
    """Send requests and read no response, until the server accepts no more."""
    wire.socket.settimeout(0.1)
    try:
        while True:
            wire.send(GET * 1_000)
    except (TimeoutError, ConnectionError):
        pass


def test_keep_alive_and_versions() -> None:
    with listening() as listeners:
        address = listeners.addresses[0]
        with Wire(address) as wire:
            for _ in range(3):
                answer = wire.send(GET).answer()
                assert (answer.version, answer.status) == ("HTTP/1.1", 200)
                assert "server" not in answer.headers
                assert "via" not in answer.headers
        with Wire(address) as wire:
            answer = wire.send(b"GET /a HTTP/1.0\r\n\r\n").answer()
            assert (answer.version, answer.status, answer.headers["connection"]) == ("HTTP/1.0", 200, "close")
            assert wire.ended()
        with Wire(address) as wire:
            for _ in range(2):
                answer = wire.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").answer()
                assert answer.headers["connection"] == "Keep-Alive"
        with Wire(address) as wire:
            assert wire.send(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").answer().status == 200
            assert wire.ended()


def test_only_the_loop_closes_a_connection_that_a_worker_finds_broken() -> None:
    gate, closed_by = Gate(), list[str]()
    with listening(gate, workers=1) as listeners:
        (server,) = listeners.servers

        class Noting(server.channel_class):  # type: ignore[name-defined]
            def handle_close(self) -> None:
                closed_by.append(threading.current_thread().name)
                super().handle_close()

        server.channel_class = Noting
        begun = POST + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n"
        with Wire(listeners.addresses[0]) as wire:
            wire.send(GET.replace(b"/a", b"/wait") + begun)  # which the worker that answers the first one requests
            assert gate.inside.acquire(timeout=10)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gate.open.set()
        assert eventually(lambda: not server.active_channels)
    assert closed_by[0].startswith("web-127.0.0.1-")


def test_fifty_pipelined_requests_are_answered_in_order() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(b"\r\n".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        assert [wire.answer().json["environ"]["PATH_INFO"] for _ in range(50)] == [f"/{n}" for n in range(50)]


def test_a_fault_of_the_application_is_an_error_of_ours_and_its_path_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def app(_: Any, __: Any) -> Iterable[bytes]:
        raise OSError("secret text")

    with listening(app) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(b"GET /downloads/secret HTTP/1.1\r\nHost: x\r\n\r\n").answer()
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert answer.json["error"]["requestId"] in [record.__dict__.get("requestId") for record in logged]
    assert "secret" not in " ".join(record.getMessage() for record in caplog.records)
