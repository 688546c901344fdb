"""TLS on one connection: parameters, refusals, and the transfer of bytes; over real sockets."""

import logging
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mailbox_appliance.tls.files import CertificateFiles, server_context
from mailbox_appliance.web.server.connection import TlsConnection
from mailbox_appliance.web.server.memory import ServerBounds
from mailbox_appliance.web.server.server import HttpServer
from tests.servers.certificates import any_certificate
from tests.web.wire import (
    GET,
    LARGE,
    OVER_TLS,
    PATIENCE,
    POST,
    Gate,
    Wire,
    certificate,
    eventually,
    hashing,
    is_served,
    listening,
)

LAST = GET.replace(b"Host", b"Connection: close\r\nHost")
OLD = ("-cipher", "DEFAULT@SECLEVEL=0")


@pytest.fixture
def listeners() -> Iterator[HttpServer]:
    with listening(context=certificate()) as opened:
        yield opened


def s_client(listeners: HttpServer, *options: str, typed: Iterable[str] = ()) -> str:
    """Return the output of `openssl s_client` with these lines as input; it ends with its input."""
    host, port = listeners.addresses[0]
    command = ("openssl", "s_client", "-connect", f"{host}:{port}", "-crlf", *options)
    told = subprocess.run(
        command, input="\n".join([*typed, ""]), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return told.stdout + told.stderr


def client_hello() -> bytes:
    """Return the first bytes of a handshake."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        any_certificate().wrap_bio(to_client, to_server).do_handshake()
    return to_server.read()


# Parameters.


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-tls1_3",), ("New, TLSv1.3, Cipher is TLS_", "Compression: NONE")),
        (("-tls1_2",), ("New, TLSv1.2, Cipher is ECDHE-ECDSA-AES256-GCM-SHA384", "Compression: NONE")),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"), ("Cipher is ECDHE-ECDSA-CHACHA20-POLY1305",)),
        (("-comp", "-tls1_2"), ("Compression: NONE",)),
        (("-alpn", "h2,http/1.1"), ("ALPN protocol: http/1.1",)),
        (("-alpn", "h2"), ("No ALPN negotiated", "TLSv1.3")),
    ],
)
def test_what_is_offered(listeners: HttpServer, options: tuple[str, ...], told: tuple[str, ...]) -> None:
    seen = s_client(listeners, *options)
    assert all(text in seen for text in told), seen


@pytest.mark.parametrize(
    "options",
    [
        ("-tls1_1", *OLD),
        ("-tls1", *OLD),
        ("-tls1_2", "-cipher", "AES256-GCM-SHA384:AES128-SHA@SECLEVEL=0"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384@SECLEVEL=0"),
        ("-tls1_2", "-cipher", "aNULL@SECLEVEL=0"),
    ],
    ids=["TLS 1.1", "TLS 1.0", "no forward secrecy", "CBC", "anonymous"],
)
def test_what_is_refused(listeners: HttpServer, options: tuple[str, ...]) -> None:
    seen = s_client(listeners, *options)
    assert "no peer certificate available" in seen
    assert "Cipher is (NONE)" in seen
    assert eventually(lambda: listeners.stats().handshakes_failed == 1)
    assert is_served(listeners.addresses[0])


def test_a_client_cannot_renegotiate(listeners: HttpServer) -> None:
    with Wire(listeners.addresses[0]) as other:
        told = s_client(listeners, "-tls1_2", typed=["R"])
        assert "RENEGOTIATING" in told
        assert "no renegotiation" in told.lower()
        assert other.send(GET).answer().status == 200


def test_keys_may_be_updated_in_between(listeners: HttpServer) -> None:
    host, port = listeners.addresses[0]
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3", "-crlf"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        try:
            assert client.stdin is not None
            _read_until(client, b"Verify return code")
            for _ in range(3):
                # s_client looks only at the first letter of each read; K requests new keys from the server too.
                for typed, told in ((b"K\n", b"KEYUPDATE"), (b"k\n", b"KEYUPDATE"), (GET, b"200 OK")):
                    client.stdin.write(typed.replace(b"\r", b""))
                    client.stdin.flush()
                    _read_until(client, told)
        finally:
            client.kill()


def _read_until(client: subprocess.Popen[bytes], mark: bytes) -> None:
    assert client.stdout is not None
    while mark not in (line := client.stdout.readline()):
        assert line, "s_client ended"


# Handshakes that fail.


@pytest.mark.parametrize(
    "sent",
    [GET, b"\x00" * 100, os.urandom(100), b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02" + bytes(50)],
    ids=["plain HTTP", "zeros", "garbage", "no ClientHello", "SSL 2"],
)
def test_what_is_no_handshake_is_closed_at_once(
    listeners: HttpServer, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(listeners.addresses[0], 5) as client:
        client.sendall(sent)
        assert ends(client)
    assert eventually(lambda: listeners.stats().handshakes_failed == 1)
    assert listeners.stats().connections_https == 0
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


def ends(client: socket.socket) -> bool:
    """Whether a connection ends before its timeout, whatever it receives before."""
    with suppress(ConnectionError):
        _read_on(client)
    return True


@pytest.mark.parametrize("part", [0, 1, 100, None], ids=["nothing", "a byte", "half a ClientHello", "all of it"])
def test_a_handshake_that_is_not_done_in_time_is_closed(part: int | None) -> None:
    with listening(context=certificate(), bounds=ServerBounds(handshake_timeout=0.4)) as listeners:
        assert listeners.servers[0].adj.cleanup_interval == 0.1  # the delay that is allowed
        with socket.create_connection(listeners.addresses[0], 5) as client:
            begun = time.monotonic()
            client.sendall(client_hello()[:part])
            assert ends(client)
            assert time.monotonic() - begun < 2
        assert eventually(lambda: listeners.stats().handshakes_failed == 1)


def test_bytes_now_and_then_win_no_time_for_a_handshake() -> None:
    bounds = ServerBounds(handshake_timeout=0.2)
    with listening(context=certificate(), bounds=bounds) as listeners, Wire(listeners.addresses[0], plain=True) as wire:
        begun = time.monotonic()
        wire.socket.settimeout(0.02)
        for byte in client_hello():
            try:
                if wire.send(bytes([byte])).ended():
                    break
            except TimeoutError:
                pass
        assert time.monotonic() - begun < 3


@pytest.mark.parametrize("part", [100, None])
def test_a_client_that_resets_in_the_middle_of_a_handshake_is_forgotten(
    listeners: HttpServer, part: int | None
) -> None:
    client = socket.create_connection(listeners.addresses[0], 5)
    client.sendall(client_hello()[:part])
    assert eventually(lambda: listeners.stats().connections_https == 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert eventually(lambda: listeners.stats().handshakes_failed == 1)
    assert is_served(listeners.addresses[0])


class Counting(TlsConnection):
    """Counts how often the loop asks for its events."""

    asked = 0

    def readable(self) -> bool:
        Counting.asked += 1
        return super().readable()


def test_a_handshake_that_must_write_first_waits_for_the_socket_and_not_in_circles(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    files.ensure(("localhost",), datetime.now(UTC))
    files.certificate.write_bytes(files.certificate.read_bytes() * 100)  # a chain that is larger than the buffers
    with listening(context=server_context(files)) as listeners:
        (server,) = listeners.servers
        server.channel_class = Counting
        server.adj.socket_options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, 2048))
        client = Bio(listeners.addresses[0], receive=2048)
        client.socket.sendall(client_hello())
        assert eventually(lambda: [channel.wants_write for channel in server.active_channels.values()] == [True])
        client.socket.sendall(b"\x16")  # is not read before
        Counting.asked = 0
        time.sleep(0.2)
        assert Counting.asked < 20
        client.socket.close()
        assert eventually(lambda: listeners.stats().handshakes_failed == 1)
        slow = Bio(listeners.addresses[0], receive=2048)
        slow.handshake()
        slow.tls.write(GET)
        slow.flush()
        assert slow.read_until(b"PATH_INFO").startswith(b"HTTP/1.1 200 OK")
        slow.socket.close()


def test_a_slow_handshake_is_no_idle_time(listeners: HttpServer) -> None:
    client = Bio(listeners.addresses[0])
    rest = client.begin(100)
    assert eventually(lambda: listeners.stats().connections_https == 1)
    (channel,) = listeners.servers[0].active_channels.values()
    now = time.monotonic()
    client.socket.sendall(rest)
    client.handshake()
    assert eventually(lambda: not channel.handshaking)
    assert channel.rested > now
    client.socket.close()


def test_a_stalled_handshake_is_cheap() -> None:
    with listening(context=certificate()) as listeners:
        hello, clients = client_hello(), []
        try:
            before = _resident()
            for number in range(300):
                source = (f"127.0.0.{2 + number % 3}", 0)
                clients.append(socket.create_connection(listeners.addresses[0], 5, source))
                clients[-1].sendall(hello)
            for client in clients:
                assert client.recv(1)
            assert (_resident() - before) / len(clients) < 128 * 1024
        finally:
            for client in clients:
                client.close()


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Requests and responses.


def test_an_application_sees_https_and_the_real_client(listeners: HttpServer) -> None:
    with Wire(listeners.addresses[0], source="127.0.0.5") as wire:
        for _ in range(3):
            environ = wire.send(GET).answer().json["environ"]
            seen = [environ[key] for key in ("wsgi.url_scheme", "REMOTE_ADDR", "SERVER_PORT")]
            assert seen == ["https", "127.0.0.5", str(listeners.addresses[0][1])]


def test_the_largest_record_is_taken_whole(listeners: HttpServer) -> None:
    """No part of it stays in OpenSSL's buffer, from which nothing would read it."""
    head = POST + b"Content-Length: 16000\r\nName: "
    request = head + b"a" * (16384 - len(head) - 4 - 16000) + b"\r\n\r\n" + b"b" * 16000
    assert len(request) == 16384
    with Wire(listeners.addresses[0]) as wire:
        for _ in range(3):
            assert wire.send(request).answer().json["size"] == 16000


def test_requests_in_one_record_are_answered_in_order(listeners: HttpServer) -> None:
    requests = [GET.replace(b"/a", b"/%d" % number) for number in range(50)]
    body = POST + b"Content-Length: 12000\r\n\r\n" + b"a" * 12_000
    with Wire(listeners.addresses[0]) as wire:
        wire.send(b"".join(requests))
        assert [wire.answer().json["environ"]["PATH_INFO"] for _ in requests] == [f"/{n}" for n in range(50)]
        assert wire.send(body + GET).answer().json["size"] == 12_000
        assert wire.answer().status == 200


def test_a_request_may_come_in_records_of_one_byte(listeners: HttpServer) -> None:
    request = POST + b"Content-Length: 300\r\n\r\n" + b"a" * 300 + GET
    with Wire(listeners.addresses[0]) as wire:
        for byte in request:
            wire.send(bytes([byte]))
        assert wire.answer().json["size"] == 300
        assert wire.answer().status == 200


def test_records_that_come_in_pieces_are_put_together(listeners: HttpServer) -> None:
    client = Bio(listeners.addresses[0])
    client.handshake(piece=7)
    client.tls.write(GET)
    client.flush(piece=1)
    assert client.read_until(b"PATH_INFO").startswith(b"HTTP/1.1 200 OK")
    client.socket.close()


# The end of a connection.


@pytest.mark.parametrize(
    ("sent", "status"), [(LAST, 200), (b"nonsense\r\n\r\n", 400), (b"", None)], ids=["last", "refused", "idle"]
)
def test_the_end_is_said(sent: bytes, status: int | None) -> None:
    bounds = ServerBounds(idle_timeout=0.2)
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(context=certificate(), bounds=bounds, request_timeout=0.4))
        wire = stack.enter_context(Wire(listeners.addresses[0])).send(sent)
        assert status is None or wire.answer().status == status
        assert wire.socket.recv(1) == b""  # without close_notify this is an error


def test_the_end_is_said_behind_a_large_answer_that_is_read_late() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(hashing, context=certificate()))
        listeners.servers[0].adj.socket_options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, 2048))
        wire = stack.enter_context(Wire(listeners.addresses[0])).send(LAST.replace(b"/a", b"/large"))
        time.sleep(0.2)
        assert wire.answer().body == LARGE
        assert wire.socket.recv(1) == b""


def test_an_answer_that_is_cut_off_does_not_look_complete() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(hashing, context=certificate(), request_timeout=0.3))
        wire = stack.enter_context(Wire(listeners.addresses[0])).send(LAST.replace(b"/a", b"/large"))
        assert eventually(lambda: listeners.stats().connections_https == 0)
        with pytest.raises((ssl.SSLEOFError, ConnectionError)):
            _read_on(wire.socket)


def test_an_answer_that_was_never_begun_does_not_look_complete() -> None:
    gate = Gate()
    listeners = HttpServer(gate, [("127.0.0.1", 0)], workers=1, context=certificate())
    OVER_TLS.update(listeners.addresses)
    listeners.start()
    try:
        with Wire(listeners.addresses[0]) as wire:
            gate.occupy(wire)
            assert not listeners.stop(0.2)
            with pytest.raises(ssl.SSLEOFError):
                wire.socket.recv(1)
    finally:
        OVER_TLS.difference_update(listeners.addresses)
        gate.open.set()


def test_nothing_is_sent_in_plain_behind_the_goodbye() -> None:
    gate = Gate()
    with listening(gate, context=certificate()) as listeners:
        client = Bio(listeners.addresses[0])
        client.handshake()
        client.tls.write(GET.replace(b"/a", b"/wait"))
        client.flush()
        assert gate.inside.acquire(timeout=PATIENCE)
        (channel,) = listeners.servers[0].active_channels.values()
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.flush()
        assert eventually(lambda: channel.has_unread())
        assert channel._say_goodbye()
        gate.open.set()
        seen = b""
        while data := client.socket.recv(65536):
            seen += data
        assert b"HTTP/1.1" not in seen
        client.socket.close()


def test_the_goodbye_waits_until_the_socket_takes_it() -> None:
    gate = Gate()
    with listening(gate, context=certificate()) as listeners, Wire(listeners.addresses[0]) as wire:
        gate.occupy(wire)
        (channel,) = listeners.servers[0].active_channels.values()
        assert channel.sendbuf_len <= 65536
        fill(channel.socket)
        assert not channel._say_goodbye()
        reading = threading.Thread(target=lambda: socket.socket.recv(wire.socket, 1 << 24, socket.MSG_WAITALL))
        reading.start()
        assert eventually(lambda: channel._say_goodbye())
        gate.open.set()
        assert eventually(lambda: listeners.stats().connections_https == 0)
        reading.join(PATIENCE)


def fill(sending: socket.socket) -> None:
    """Send until the socket accepts nothing more."""
    with suppress(BlockingIOError):
        while True:
            socket.socket.send(sending, b"x" * 65536)


def _read_on(client: socket.socket) -> None:
    while client.recv(1 << 20):
        pass


@pytest.mark.parametrize("says_so", [True, False], ids=["close_notify and FIN", "FIN"])
def test_a_client_that_sends_no_more_gets_its_answer(listeners: HttpServer, says_so: bool) -> None:
    client = Bio(listeners.addresses[0])
    client.handshake()
    client.tls.write(GET)
    if says_so:
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
    client.flush()
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read_until(b"PATH_INFO").startswith(b"HTTP/1.1 200 OK")
    client.socket.close()


class Bio:
    """A TLS client whose bytes go to the wire as the test requires."""

    def __init__(self, address: tuple[str, int], receive: int | None = None) -> None:
        """`receive`: the size of the socket's buffer."""
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.connect(address)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = any_certificate().wrap_bio(self._in, self._out)

    def flush(self, piece: int = 1 << 16) -> None:
        """Send pending data, in pieces of this many bytes."""
        data = self._out.read()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), piece):
            self.socket.sendall(data[start : start + piece])

    def begin(self, size: int) -> bytes:
        """Send this many bytes of a handshake; return the rest of them."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        hello = self._out.read()
        self.socket.sendall(hello[:size])
        return hello[size:]

    def handshake(self, piece: int = 1 << 16) -> None:
        """Do the handshake."""
        while True:
            try:
                self.tls.do_handshake()
                self.flush(piece)
                return
            except ssl.SSLWantReadError:
                self.flush(piece)
                self._in.write(self.socket.recv(65536))

    def read_until(self, mark: bytes) -> bytes:
        """Return the received data, up to this mark."""
        read = b""
        while mark not in read:
            try:
                read += self.tls.read(65536)
            except ssl.SSLWantReadError:
                data = self.socket.recv(65536)
                assert data, "the connection ended"
                self._in.write(data)
        return read
