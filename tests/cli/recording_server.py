"""A real HTTP server that records its requests and returns prepared responses."""

import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from tests.servers.listener import Listener


@dataclass(frozen=True)
class Asked:
    """One recorded request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Canned:
    """One prepared response: a JSON value or raw bytes. `drop` closes the connection without one."""

    status: int = 200
    value: Any = None
    raw: bytes | None = None
    drop: bool = False
    #: Responds before the body has been read, and closes the connection.
    early: bool = False
    #: Waits until the server stops.
    silent: bool = False
    #: Waits until this request has arrived, such as `GET /admin/store`.
    after: str = ""
    #: Header fields in addition to the length.
    fields: tuple[tuple[str, str], ...] = ()


@dataclass
class RecordingServer:
    """Answers each (method, target) with its next prepared response, repeating the last one; others with 404."""

    context: ssl.SSLContext | None = None
    answers: dict[tuple[str, str], list[Canned]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, target: str, *canned: Canned) -> None:
        """Prepare responses for a target below /api/v1."""
        self.answers[method, "/api/v1" + target] = list(canned)

    def data(self, method: str, target: str, data: Any, status: int = 200) -> None:
        """Prepare a response that is an envelope with this data."""
        self.answer(method, target, Canned(status, {"data": data}))

    def next_answer(self, method: str, target: str) -> Canned:
        """Return the response that is due now."""
        waiting = self.answers.get((method, target))
        if not waiting:
            return Canned(404, {"error": {"code": "not_found", "message": "nothing here", "requestId": "req_test"}})
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def wait_for(self, line: str, seconds: float = 20) -> None:
        """Wait until a request with this method and target below /api/v1 was answered twice, or the server stops."""
        method, target = line.split(" ")
        until = time.monotonic() + seconds
        awaited = (method, "/api/v1" + target)
        while not self.stopping.is_set() and sum((each.method, each.target) == awaited for each in self.asked) < 2:
            assert time.monotonic() < until, f"nobody asks {line}"
            self.stopping.wait(0.01)

    def __enter__(self) -> "RecordingServer":
        handler = _handler(self)
        self._server: Listener = Listener(
            lambda connection: handler(connection, ("127.0.0.1", 0), self._server), "recording server", self.context
        )
        self._server.start()
        return self

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self._server.port}"

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stopping.set()
        self._server.stop()


def _handler(server: RecordingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            canned = server.next_answer(self.command, self.path)
            length = 0 if canned.early else int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            server.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
            self.close_connection = True
            if canned.after:
                server.wait_for(canned.after)
            if canned.silent:
                server.stopping.wait(20)
            elif not canned.drop and not (canned.after and server.stopping.is_set()):
                self._write(canned)

        def _write(self, canned: Canned) -> None:
            payload = canned.raw if canned.raw is not None else json.dumps(canned.value).encode()
            self.send_response(canned.status)
            for name, value in canned.fields or (("Content-Type", "application/octet-stream"),):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _serve  # noqa: N815 - names that http.server calls

    return Handler
