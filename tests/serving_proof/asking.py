"""Clients of the proof: each has one request under way, sent or read as slowly as it likes, and notes what came."""

import http.client
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.servers.certificates import any_certificate

_PIECES = 16


@dataclass(frozen=True)
class Request:
    """What is asked. `sends` and `reads`: for how many seconds its body goes out, and the answer is read."""

    kind: str
    method: str
    path: str  # below /api/v1
    body: bytes | None = field(default=None, repr=False)
    fields: Mapping[str, str] = field(default_factory=dict)
    sends: float = 0.0
    reads: float = 0.0

    @classmethod
    def of(cls, kind: str, method: str, path: str, body: object = None, **more: Any) -> "Request":
        return cls(kind, method, path, None if body is None else json.dumps(body).encode(), **more)


@dataclass
class Told:
    """What became of it. Times are seconds of the monotonic clock."""

    request: Request
    connected: float | None = None
    sent: float | None = None  # when its last byte was out
    status: int | None = None
    content: bytes = field(default=b"", repr=False)
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the answer's header
    answered: float | None = None  # when the last byte of the answer was here
    trouble: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether an answer came, to its end."""
        return self.answered is not None

    @property
    def data(self) -> Any:
        """The `data` of the envelope."""
        return json.loads(self.content)["data"]

    def __str__(self) -> str:
        took = "" if self.sent is None or self.answered is None else f" after {self.answered - self.sent:.2f} s"
        return f"{self.request.kind} {self.request.method} {self.request.path}: {self.status}{took} {self.trouble}"


def connection_to(url: str, timeout: float = 60) -> http.client.HTTPConnection:
    """A connection that is not open yet."""
    place = urlsplit(url)
    if place.scheme == "https":
        return http.client.HTTPSConnection(place.netloc, timeout=timeout, context=any_certificate())
    return http.client.HTTPConnection(place.netloc, timeout=timeout)


def ask(url: str, token: str, told: Told, hurry: threading.Event | None = None) -> Told:
    """Ask, and note in `told` what happens, also that the connection ends. With `hurry` nobody is slow any more."""
    hurry = hurry or threading.Event()
    connection = connection_to(url)
    try:
        connection.connect()
        told.connected = time.monotonic()
        _send(connection, token, told.request, hurry)
        told.sent = time.monotonic()
        response = connection.getresponse()
        told.status, told.fields = response.status, dict(response.headers)
        told.content = _read(response, told.request.reads, hurry)
        told.answered = time.monotonic()
    except (OSError, http.client.HTTPException) as error:
        told.trouble = f"{type(error).__name__}: {error}"
        _look_for_answer(connection, told)
    finally:
        connection.close()
    return told


def _look_for_answer(connection: http.client.HTTPConnection, told: Told) -> None:
    """Where the request could not be sent to its end, the answer may be there all the same (RFC 9112 9.6)."""
    if told.sent is None and told.connected is not None:
        try:
            response = connection.response_class(connection.sock, method=told.request.method)
            response.begin()
            told.status, told.content = response.status, response.read()
            told.answered = time.monotonic()
        except (OSError, http.client.HTTPException, AttributeError):
            pass


def _send(connection: http.client.HTTPConnection, token: str, request: Request, hurry: threading.Event) -> None:
    body = request.body or b""
    connection.putrequest(request.method, "/api/v1" + request.path)
    fields = {"Authorization": f"Bearer {token}", **request.fields}
    if request.body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    for name, value in fields.items():
        connection.putheader(name, value)
    connection.endheaders()
    size = max(1, -(-len(body) // (_PIECES if request.sends else 1)))
    for start in range(0, len(body), size):
        connection.send(body[start : start + size])
        hurry.wait(request.sends / _PIECES)


def _read(response: http.client.HTTPResponse, seconds: float, hurry: threading.Event) -> bytes:
    """All of it; IncompleteRead where the connection ends before."""
    if not seconds:
        return response.read()
    length = int(response.headers["Content-Length"])
    received, size = bytearray(), max(1, -(-length // _PIECES))
    while len(received) < length:
        hurry.wait(seconds / _PIECES)
        part = response.read(min(size, length - len(received)))
        if not part:
            raise http.client.IncompleteRead(bytes(received), length - len(received))
        received += part
    return bytes(received)
