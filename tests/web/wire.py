"""A client that sends exactly what a test wants to send, and the listeners for it."""

import hashlib
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mailbox_appliance.tls.files import CertificateFiles, server_context
from mailbox_appliance.web.server.server import HttpServer
from tests.servers.certificates import any_certificate

PATIENCE = 10.0

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\n"
#: 25 MiB.
LARGE = os.urandom(1 << 20) * 25
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """A response from the wire; header names are in lower case."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection to a listener."""

    def __init__(self, address: tuple[str, int], source: str | None = None, *, plain: bool = False) -> None:
        """Connect; with TLS to a listener that `listening` opened over TLS. If the handshake fails, it has `ended`."""
        self.rest = b""
        self.socket = socket.create_connection(address, PATIENCE, (source, 0) if source else None)
        if address in OVER_TLS and not plain:
            self._speak(any_certificate())

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _speak(self, tls: ssl.SSLContext) -> None:
        plain = self.socket
        try:
            self.socket = tls.wrap_socket(plain, suppress_ragged_eofs=False)
        except (ConnectionError, ssl.SSLError):
            self.socket = plain
            self.socket.close()
        except BaseException:
            plain.close()
            raise

    def send(self, data: bytes) -> "Wire":
        self.socket.sendall(data)
        return self

    def answer(self) -> Answer:
        """Return the next response; raises EOFError if the connection ends before it is complete."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(version, int(status), headers, self._take(int(headers.get("content-length", "0"))))

    def ended(self) -> bool:
        """Whether the server closed the connection without another byte; waits for one or the other."""
        if self.socket.fileno() < 0:
            return True
        try:
            self.rest += self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return True
        return not self.rest

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            self._more()
        head, _, self.rest = self.rest.partition(mark)
        return head

    def _take(self, size: int) -> bytes:
        body, self.rest = bytearray(self.rest[:size]), self.rest[size:]
        while len(body) < size:
            body += self._receive(size - len(body))
        return bytes(body)

    def _more(self) -> None:
        self.rest += self._receive(65536)

    def _receive(self, most: int) -> bytes:
        try:
            data = self.socket.recv(min(most, 1 << 20))
        except (ConnectionError, ssl.SSLError) as error:
            raise EOFError("the connection was reset, or ended without a goodbye") from error
        if not data:
            raise EOFError("the connection was closed")
        return data


def echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the request as an application sees it."""
    body = environ["wsgi.input"].read()
    seen = {
        key: value for key, value in environ.items() if isinstance(value, str | int | None) and key != "wsgi.errors"
    }
    answer = json.dumps({"size": len(body), "body": body[:100].decode("latin-1"), "environ": seen}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


def hashing(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the hash of the request body; /large with LARGE."""
    is_large = environ["PATH_INFO"] == "/large"
    body = LARGE if is_large else hashlib.sha256(environ["wsgi.input"].read()).hexdigest().encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@cache
def certificate(name: str = "first") -> ssl.SSLContext:
    """Return a context with a certificate for a listener; another name is another certificate."""
    with TemporaryDirectory() as folder:
        files = CertificateFiles(Path(folder))
        files.ensure(("localhost", f"{name}.localhost"), datetime.now(UTC))
        return server_context(files)


#: Whether `listening` uses TLS now.
OVER_TLS: set[tuple[str, int]] = set()


class Usual:
    """The scheme that `listening` uses by default; the fixture `scheme` runs a test over both."""

    scheme = "http"


@contextmanager
def listening(app: Any = echo, hosts: Iterable[str] = ("127.0.0.1",), **numbers: Any) -> Iterator[HttpServer]:
    """Yield listeners that serve; afterwards they must stop at once and leave no thread."""
    before = set(threading.enumerate())
    numbers.setdefault("context", certificate() if Usual.scheme == "https" else None)
    listeners = HttpServer(app, [(host, 0) for host in hosts], **numbers)
    addresses = set(listeners.addresses) if numbers["context"] else set()
    OVER_TLS.update(addresses)
    listeners.start()
    try:
        yield listeners
    finally:
        OVER_TLS.difference_update(addresses)
        stopped = listeners.stop(PATIENCE)
    assert stopped
    assert set(threading.enumerate()) <= before


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether the condition becomes true before a timeout."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Gate:
    """An application whose requests to /wait stay in progress until the gate is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/wait":
            self.inside.release()
            assert self.open.wait(10)
        return echo(environ, start_response)

    def occupy(self, wire: Wire) -> None:
        """Send a request over this connection and wait until the application has it."""
        wire.send(GET.replace(b"/a", b"/wait"))
        assert self.inside.acquire(timeout=10)


def is_served(address: tuple[str, int]) -> bool:
    """Whether a new connection gets a response."""
    try:
        with Wire(address) as wire:
            return is_answered(wire)
    except OSError:
        return False


def is_answered(wire: Wire) -> bool:
    """Whether a request over this connection gets a response."""
    try:
        return wire.send(GET).answer().status == 200
    except (OSError, EOFError):
        return False
