"""The listeners, over real sockets: framing, bounds, deadlines, who gets a connection, and how they stop."""

import logging
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest

from mailbox_appliance.web.server import AddressInUse, Bounds, CannotListen, Listeners, Server
from tests.web.wire import Wire, echo, eventually, listening

SMALL = Bounds(max_body=50_000, max_discarded=200_000, max_header=2_000, upload_rate=100, linger_seconds=0.5)
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

MALFORMED = {
    "no request": b"nonsense\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "another version": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "TLS to the plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secret\r\n\r\n",
    "method in lower case": b"get / HTTP/1.1\r\nHost: x\r\n\r\n",
    "address with a space": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "address with an open bracket": b"GET http://[secret/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: secret\r\n\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost: x\r\nsecret\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost: x\r\nName : secret\r\n\r\n",
    "header with NUL": b"GET / HTTP/1.1\r\nHost: x\r\nName: sec\x00ret\r\n\r\n",
    "header with bare CR": b"GET / HTTP/1.1\r\nHost: x\r\nName: a\rsecret: b\r\n\r\n",
    "first header folded": b"GET / HTTP/1.1\r\n secret\r\nHost: x\r\n\r\n",
    "bare newlines": b"GET / HTTP/1.1\nHost: x\n\n",
    "length in words": POST + b"Content-Length: secret\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "chunked and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size in words": CHUNKED + b"secret\r\n",
    "negative chunk size": CHUNKED + b"-1\r\n",
    "chunk longer than said": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "chunk extension with control characters": CHUNKED + b"1;a=\x01\r\nb\r\n",
    "chunk line without end": CHUNKED + b"1" * 5_000,
    "trailer without end": CHUNKED + b"0\r\n" + b"Name: secret\r\n" * 1_000,
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_refused_in_our_error_shape(sent: bytes) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        error = answer.json["error"]
        assert (answer.version, answer.status, answer.headers["connection"]) == ("HTTP/1.1", 400, "close")
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert error["code"] == "invalid_request"
        assert set(error) == {"code", "message", "requestId"}
        assert answer.headers["x-request-id"] == error["requestId"]
        assert re.fullmatch(r"req_[0-9a-z]{26}", error["requestId"])
        assert "secret" not in error["message"]
        assert wire.ended()


@pytest.mark.parametrize(("digits", "status"), [(1_000, 413), (5_000, 400)])
def test_a_length_of_thousands_of_digits_is_refused(digits: int, status: int) -> None:
    with listening(workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        assert wire.send(POST + b"Content-Length: " + b"1" * digits + b"\r\n\r\n").answer().status == status
        assert wire.ended()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nName: " + b"a" * 3_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET /" + b"a" * 3_000, 431, "headers_too_large"),
        (POST + b"Content-Length: 200001\r\n\r\n", 413, "body_too_large"),
        (POST + b"Content-Length: 200001\r\nExpect: 100-continue\r\n\r\n", 413, "body_too_large"),
        (CHUNKED + b"40000\r\n" + b"a" * 0x40000, 413, "body_too_large"),
    ],
    ids=["long header", "long address", "declared", "declared with Expect", "grown"],
)
def test_what_is_too_large_is_refused(sent: bytes, status: int, code: str) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert wire.ended()


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
        for _ in range(40):  # a byte now and then wins no time
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
        listeners = stack.enter_context(listening(request_timeout=0.4, bounds=Bounds(idle_timeout=0.1)))
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


def test_a_client_that_only_sends_is_closed() -> None:
    with ExitStack() as stack:
        bounds = Bounds(idle_timeout=0.2, local_patience=60)
        address = stack.enter_context(listening(request_timeout=0.2, per_local_peer=1, bounds=bounds)).addresses[0]
        _fill(stack.enter_context(Wire(address)))
        assert eventually(lambda: _is_served(address))


def _fill(wire: Wire) -> None:
    """Send requests and read no answer, until the server takes no more."""
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


def test_fifty_pipelined_requests_are_answered_in_order() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(b"\r\n".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        assert [wire.answer().json["environ"]["PATH_INFO"] for _ in range(50)] == [f"/{n}" for n in range(50)]


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (POST + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (CHUNKED + b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", b"abcde"),
        (CHUNKED + b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n", b"a" * 5_000),
        (CHUNKED + b"8000\r\n" + b"a" * 0x8000 + b"\r\n" + b"2\r\nbc\r\n0\r\n\r\n", b"a" * 0x8000 + b"bc"),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", b""),
        (b"\r\n\r\n" + GET, b""),
        (b"GET http://elsewhere/a HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "one-byte chunks", "large chunks", "Expect without body", "empty lines", "absolute form"],
)
@pytest.mark.parametrize("size", [1 << 20, 101], ids=["at once", "in pieces"])
def test_requests_that_are_read(sent: bytes, body: bytes, size: int) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        for at in range(0, len(sent), size):
            wire.send(sent[at : at + size])
        seen = wire.answer().json
        assert (seen["size"], seen["body"]) == (len(body), body[:100].decode())
        assert seen["environ"]["PATH_INFO"] == "/a"
        assert int(seen["environ"].get("CONTENT_LENGTH", 0)) == len(body)
        assert wire.send(GET).answer().status == 200


def test_expect_is_answered_before_the_body_is_sent() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        assert wire.send(POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n").answer().status == 100
        assert wire.send(b"abc").answer().json["body"] == "abc"


@pytest.mark.parametrize(
    ("sent", "size", "stays_open"),
    [
        (POST + b"Content-Length: 50000\r\n\r\n" + b"a" * 50_000, None, True),
        (POST + b"Content-Length: 50001\r\n\r\n" + b"a" * 50_001, 50_001, True),
        (POST + b"Content-Length: 200000\r\n\r\n" + b"a" * 200_000, 200_000, True),
        (CHUNKED + b"c350\r\n" + b"a" * 50_000 + b"\r\n0\r\n\r\n", None, True),
        (CHUNKED + b"c351\r\n" + b"a" * 50_001 + b"\r\n0\r\n\r\n", 50_001, True),
        (CHUNKED + (b"7000\r\n" + b"a" * 0x7000 + b"\r\n") * 4 + b"0\r\n\r\n", 0x7000 * 4, True),
        (POST + b"Content-Length: 50001\r\nExpect: 100-continue\r\n\r\n", 50_001, False),
    ],
    ids=[
        "at the bound",
        "over",
        "far over",
        "chunked at the bound",
        "chunked over",
        "chunked far over",
        "only announced",
    ],
)
def test_a_body_over_the_bound_is_not_kept_and_the_application_is_told(
    sent: bytes, size: int | None, stays_open: bool
) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        assert answer.json["environ"].get("mailbox.body_discarded") == size
        assert answer.json["size"] == (50_000 if size is None else 0)
        if stays_open:
            assert wire.send(GET).answer().status == 200
        else:
            assert answer.headers["connection"] == "close"
            assert wire.ended()


@pytest.mark.parametrize(("size", "discarded"), [(38 << 20, None), ((38 << 20) + 1, (38 << 20) + 1)])
def test_the_bound_is_38_mebibytes(size: int, discarded: int | None) -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(POST + b"Content-Length: %d\r\n\r\n" % size)
        wire.send(bytes(size))
        answer = wire.answer()
        assert answer.json["environ"].get("mailbox.body_discarded") == discarded
        assert answer.json["size"] == (0 if discarded else size)


def test_what_the_client_says_about_forwarding_reaches_the_application() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(b"GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: p\r\n\r\n")
        environ = wire.answer().json["environ"]
        assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == ("127.0.0.1", "http")
        assert (environ["HTTP_X_FORWARDED_FOR"], environ["HTTP_VIA"]) == ("1.2.3.4", "p")
        assert environ["HTTP_FORWARDED"] == "for=1.2.3.4"


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


class Gate:
    """An application whose requests to /wait stay in flight until the gate is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/wait":
            self.inside.release()
            assert self.open.wait(10)
        return echo(environ, start_response)

    def occupy(self, wire: Wire) -> None:
        wire.send(GET.replace(b"/a", b"/wait"))
        assert self.inside.acquire(timeout=10)


def test_a_peer_whose_connections_are_all_busy_gets_no_more() -> None:
    gate = Gate()
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(gate, workers=4, per_local_peer=3))
        address = listeners.addresses[0]
        busy = [stack.enter_context(Wire(address)) for _ in range(3)]
        for wire in busy:
            gate.occupy(wire)
        assert stack.enter_context(Wire(address)).ended()
        assert stack.enter_context(Wire(address, source="127.0.0.2")).send(GET).answer().status == 200
        gate.open.set()
        assert [wire.answer().status for wire in busy] == [200] * 3
        busy[0].socket.close()
        assert eventually(lambda: _is_served(address))


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", POST + b"Content-Length: 5\r\n\r\na"], ids=["idle", "header", "body"]
)
@pytest.mark.parametrize(
    "numbers", [{"per_local_peer": 3}, {"bounds": Bounds(connections=3)}], ids=["peer", "listener"]
)
def test_at_the_limit_the_connection_that_waits_longest_makes_room(begun: bytes, numbers: dict[str, Any]) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(listening(**numbers)).addresses[0]
        first, second, third = [stack.enter_context(Wire(address)).send(begun) for _ in range(3)]
        time.sleep(0.15)  # longer than the patience with a local peer
        assert stack.enter_context(Wire(address)).send(GET).answer().status == 200
        assert first.ended()
        assert stack.enter_context(Wire(address)).send(GET).answer().status == 200
        assert second.ended()
        del third


def test_new_connections_do_not_push_out_those_that_only_just_came() -> None:
    bounds = Bounds(local_patience=60)
    with ExitStack() as stack:
        address = stack.enter_context(listening(per_local_peer=2, bounds=bounds)).addresses[0]
        first, second = stack.enter_context(Wire(address)), stack.enter_context(Wire(address))
        assert stack.enter_context(Wire(address)).ended()
        assert [wire.send(GET).answer().status for wire in (first, second)] == [200, 200]


@pytest.mark.parametrize(
    ("host", "same", "other"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::1"),
        ("fe80::1%eth0", "fe80::2%eth0", "2001:db8::1"),
        ("::1", "::1", "192.0.2.1"),
    ],
)
def test_peers_are_ipv4_addresses_and_ipv6_networks(host: str, same: str, other: str) -> None:
    assert Server.peer_of(host) == Server.peer_of(same)
    assert Server.peer_of(host) != Server.peer_of(other)


@pytest.mark.parametrize("per_local_peer", [256, 1_000], ids=["the default", "room for all"])
def test_six_hundred_slow_clients_hold_up_nobody(per_local_peer: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_000, hard), hard))
    try:
        with ExitStack() as stack:
            address = stack.enter_context(listening(per_local_peer=per_local_peer)).addresses[0]
            for begun in [b"GET / HTTP/1.1\r\nHo"] * 300 + [POST + b"Content-Length: 100\r\n\r\na"] * 300:
                wire = stack.enter_context(Wire(address))
                try:
                    wire.send(begun)
                except ConnectionError:
                    assert per_local_peer == 256
            time.sleep(0.15)  # longer than the patience with a local peer
            for _ in range(20):
                with Wire(address) as wire:
                    begun_at = time.monotonic()
                    assert wire.send(GET).answer().status == 200
                    assert time.monotonic() - begun_at < 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_when_files_run_out_a_connection_that_waits_makes_room() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        address = stack.enter_context(listening(request_timeout=0.4)).addresses[0]
        idle = [stack.enter_context(Wire(address)) for _ in range(3)]
        assert [wire.send(GET).answer().status for wire in idle] == [200] * 3
        late = stack.enter_context(socket.socket())
        late.settimeout(10)
        # Numbers below the limit that are free would still be given out: fill the gaps, then draw the line.
        fillers = [stack.enter_context(open(os.devnull)) for _ in range(20)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(file.fileno() for file in fillers) + 1, hard))
        try:
            late.connect(address)
            late.sendall(GET)
            assert late.recv(100).startswith(b"HTTP/1.1 200")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert idle[0].ended()


def test_stopping_answers_what_is_in_flight_and_ends_all_threads() -> None:
    gate = Gate()
    before = set(threading.enumerate())
    listeners = Listeners(gate, [("127.0.0.1", 0), ("::1", 0)], workers=2)
    listeners.start()
    address = listeners.addresses[0]
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert names == {"web-worker-0", "web-worker-1", *(f"web-{host}-{port}" for host, port in listeners.addresses)}
    with Wire(address) as wire, Wire(address) as idle, Wire(address) as half, Wire(listeners.addresses[1]) as other:
        gate.occupy(wire)
        half.send(b"GET / HT")
        stopped: list[bool] = []
        stopping = threading.Thread(target=lambda: stopped.append(listeners.stop(10)))
        stopping.start()
        assert all(closed.ended() for closed in (idle, half, other))
        assert eventually(lambda: not _accepts(address))
        gate.open.set()
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert wire.ended()
        stopping.join(10)
    assert stopped == [True]
    assert set(threading.enumerate()) <= before
    assert listeners.stop(1)


def test_stopping_says_so_when_something_had_to_be_cut_off() -> None:
    gate = Gate()
    listeners = Listeners(gate, [("127.0.0.1", 0)], workers=1)
    listeners.start()
    with Wire(listeners.addresses[0]) as wire:
        gate.occupy(wire)
        assert not listeners.stop(0.2)
        assert wire.ended()
    gate.open.set()
    assert eventually(lambda: not any(thread.name == "web-worker-0" for thread in threading.enumerate()))


def test_stopping_before_starting_frees_the_port() -> None:
    listeners = Listeners(echo, [("127.0.0.1", 0)])
    address = listeners.addresses[0]
    assert _accepts(address)
    assert listeners.stop()
    assert not _accepts(address)


def _accepts(address: tuple[str, int]) -> bool:
    try:
        Wire(address).socket.close()
    except ConnectionError:
        return False
    return True


def _is_served(address: tuple[str, int]) -> bool:
    with Wire(address) as wire:
        try:
            return wire.send(GET).answer().status == 200
        except (ConnectionError, EOFError):
            return False


def test_port_0_is_the_same_free_port_for_both_loopback_addresses() -> None:
    with listening(hosts=("127.0.0.1", "::1")) as listeners:
        (first, port), (second, same) = listeners.addresses
        assert (first, second, port) == ("127.0.0.1", "::1", same)
        assert port > 0
        for address in listeners.addresses:
            with Wire(address) as wire:
                assert wire.send(GET).answer().json["environ"]["REMOTE_ADDR"] == address[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_named_with_what_to_do(host: str) -> None:
    with listening(hosts=[host]) as listeners:
        port = listeners.addresses[0][1]
        where = f"[::1]:{port}" if host == "::1" else f"127.0.0.1:{port}"
        with pytest.raises(AddressInUse, match=re.escape(f"{where} is already in use.") + ".*--port"):
            Listeners(echo, [("127.0.0.1", port), ("::1", port)])


@pytest.mark.parametrize("host", ["192.0.2.1", "no such name", "2001:db8::1"])
def test_an_address_that_is_not_ours_is_named_with_what_to_do(host: str) -> None:
    with pytest.raises(CannotListen, match=r"not possible to listen on .*--host") as caught:
        Listeners(echo, [(host, 0)])
    assert not isinstance(caught.value, AddressInUse)
