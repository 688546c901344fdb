"""Targets of webhooks that misbehave in every way that one thought of, and what each of them got."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from standardwebhooks import Webhook

from tests.servers.listener import HungUp, Listener

_MEGABYTES = 64 << 20
_TOLERANCE = 60.0  # seconds; the library allows five minutes
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def answers(*pieces: bytes) -> Callable[[Any], None]:
    """One that sends these pieces and closes the connection."""

    def behave(connection: Any) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return behave


def hangs_after(*pieces: bytes) -> Callable[[Any], None]:
    """One that sends these pieces, and nothing more until the other side has gone."""

    def behave(connection: Any) -> None:
        answers(*pieces)(connection)
        while connection.recv(1024):
            pass

    return behave


def _answers_late(connection: Any) -> None:
    time.sleep(3)
    connection.sendall(_OK)


def _drips(connection: Any) -> None:
    for byte in _OK:
        connection.sendall(bytes([byte]))
        time.sleep(1)


def _floods(head: bytes) -> Callable[[Any], None]:
    def behave(connection: Any) -> None:
        connection.sendall(head)
        sent, piece = 0, b"x" * 65536
        try:
            while sent < _MEGABYTES:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            return
        raise AssertionError("all of a flood was read")

    return behave


def _drops_after(connection: Any) -> None:
    connection.sendall(_OK)
    time.sleep(0.05)
    raise HungUp(reset=True)


def _drops(_: Any) -> None:
    raise HungUp(reset=True)


_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Those whose answer counts: its head is whole and its status 2xx.
ACCEPTING: Mapping[str, Callable[[Any], None]] = {
    "late": _answers_late,
    "hangs in the body": hangs_after(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
    "promises more": answers(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n{"),
    "promises less": answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"x" * 5000),
    "promises a negative length": answers(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "promises no number": answers(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}"),
    "chunks badly": answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n"),
    "chunks below nothing": answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n"),
    "floods the body": _floods(b"HTTP/1.1 200 OK\r\n\r\n"),
    "drops after its answer": _drops_after,
    "has no body": answers(b"HTTP/1.1 204 No Content\r\n\r\n"),
}
REFUSING: Mapping[str, Callable[[Any], None]] = {
    "fails": answers(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\nXYZZY!"),
    "is busy": answers(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"),
    "redirects": answers(b"HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"),
    "hangs": hangs_after(),
    "hangs in the head": hangs_after(b"HTTP/1.1 200 OK\r\nConte"),
    "drips": _drips,
    "drops before its answer": _drops,
    "closes before its answer": answers(),
    "closes in the head": answers(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "closes in the status": answers(b"HTTP/1.1 200"),
    "floods the head": _floods(b"HTTP/1.1 200 OK\r\nX-Long: "),
    "continues": answers(_CONTINUE * 10000),
    "speaks otherwise": answers(b"SSH-2.0-XYZZY!\r\n"),
}


@dataclass(frozen=True)
class Got:
    """A request. `at`: seconds since 1970, when all of it was there."""

    at: float
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def verified(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    def is_signed(self, secret: str) -> bool:
        """Whether the library of the standard verifies it with this secret, at the time that the request names."""
        moment = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        signature = Webhook(secret).sign(self.headers["webhook-id"], moment, self.body.decode())
        if abs(moment.timestamp() - self.at) < _TOLERANCE:
            Webhook(secret).verify(self.body, dict(self.headers))
        return signature in self.headers["webhook-signature"].split(" ")


class Target:
    """A target that behaves in one way until `calm`, and then answers 200; see ACCEPTING and REFUSING."""

    def __init__(
        self, name: str = "", behave: Callable[[Any], None] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self.name, self.behave = name, behave
        self.scheme = "http" if context is None else "https"
        self.got: list[Got] = []
        self.failures: list[AssertionError] = []
        self.targets: set[str] = set()
        self._lock = threading.Lock()
        self._listener = Listener(self._serve, "target", context)

    def __enter__(self) -> Self:
        self._listener.start()
        self.url = f"{self.scheme}://127.0.0.1:{self._listener.port}/hook"
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.stop()

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return self._listener.connected

    def calm(self) -> None:
        """Answer 200 from now on, also where a request hangs."""
        self.behave = None
        self._listener.cut_all()

    def _serve(self, connection: Any) -> None:
        with suppress(ConnectionError, ssl.SSLError), connection.makefile("rb") as stream:
            line = stream.readline().decode()
            headers = dict(_fields(stream))
            body = stream.read(int(headers.get("content-length", 0)))
            if len(body) == int(headers.get("content-length", -1)):
                with self._lock:
                    self.got.append(Got(time.time(), headers, body))
                    self.targets.add(line.split(" ")[1])
                behave = self.behave or answers(_OK)
                try:
                    behave(connection)
                except AssertionError as failure:
                    self.failures.append(failure)


def _fields(stream: Any) -> Iterator[tuple[str, str]]:
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        yield name.lower(), value.strip()
