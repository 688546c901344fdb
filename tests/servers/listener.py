"""What doubles that listen on sockets have in common: a thread for each connection, requests by HTTP, and scripts."""

import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Generic, Self, TypeVar

S = TypeVar("S", bound=str)
A = TypeVar("A")
#: Status, body and header fields.
Answered = tuple[int, bytes, Mapping[str, str]]


class HungUp(Exception):
    """The connection is ended without an answer: with a reset, or politely."""

    def __init__(self, reset: bool) -> None:
        super().__init__()
        self.reset = reset


class Listener(socketserver.TCPServer):
    """Listens on a free port of loopback; `serve` has each connection to itself, after the handshake of `context`."""

    host = "127.0.0.1"
    request_queue_size = 256

    def __init__(
        self, serve: Callable[[Any], object], name: str = "double", context: ssl.SSLContext | None = None
    ) -> None:
        self._serve, self._name, self._context = serve, name, context
        #: Whether new connections are served; else they are closed.
        self.is_open = True
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        super().__init__((self.host, 0), socketserver.BaseRequestHandler)
        self.port = int(self.server_address[1])
        self._acceptor = threading.Thread(target=self.serve_forever, args=(0.02,), name=name, daemon=True)

    def start(self) -> Self:
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """End every connection, and listen no more."""
        if self._acceptor.is_alive():
            self.shutdown()
            self._acceptor.join()
        self.server_close()
        self.cut_all()
        for thread in self._threads():
            thread.join(10)
            assert not thread.is_alive(), "a connection does not end"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def connected(self) -> int:
        """How many connections are open."""
        return len(self._threads())

    def cut_all(self) -> None:
        with self._lock:
            for connection in self._connections.values():
                shut(connection)

    def verify_request(self, *_: object) -> bool:
        return self.is_open

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self._run, args=(request,), name=f"{self._name}-client", daemon=True)
        with self._lock:
            self._connections[thread] = request.dup()
        thread.start()

    def _run(self, request: socket.socket) -> None:
        own = self._connections[threading.current_thread()]
        try:
            with request:
                if self._context is None:
                    self._serve(request)
                else:
                    request.settimeout(60)
                    with self._context.wrap_socket(request, server_side=True) as secured:
                        self._serve(secured)
        except HungUp as ended:
            if ended.reset:  # Closing with a linger time of 0 sends RST instead of FIN.
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:  # whoever came has gone
            pass
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread()).close()

    def _threads(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._connections)


def shut(connection: socket.socket) -> None:
    """End both directions of a connection, if it is open."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


# --- HTTP ---


@dataclass(frozen=True)
class Asked:
    """A request. The names of its header fields are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


class HttpListener(Listener):
    """Answers requests, over TLS with a context. `answer` may raise OSError or HungUp, to end the connection."""

    def __init__(
        self, answer: Callable[[Asked], Answered], name: str = "double", context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(lambda connection: _Handler(connection, (self.host, 0), self), name, context)
        self.answer = answer
        self.url = f"{'http' if context is None else 'https'}://localhost:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    server: HttpListener
    timeout = 60

    def _answer(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        fields = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, fields, self.rfile.read(length))
        status, body, headers = self.server.answer(asked)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that the library calls

    def log_message(self, *_: object) -> None: ...


# --- what a double does at which step ---


class Script(Generic[S, A]):
    """What happens at each step, and who has come there. An action at a step is used again, a list of them is not."""

    def __init__(self, steps: Iterable[S]) -> None:
        self._steps = tuple(steps)
        self._changed = threading.Condition()
        self._stopping = False
        self._script: dict[S, list[A] | A] = {}
        self._reached, self._released, self._held = (dict.fromkeys(self._steps, 0) for _ in range(3))

    def at(self, step: S, action: A | list[A]) -> None:
        """From now on do this at that step."""
        assert step in self._steps, f"no such step: {step}"
        with self._changed:
            self._script[step] = list(action) if isinstance(action, list) else action

    def forget(self) -> None:
        """From now on do as usual, let everybody go, and count from nothing; nothing is kept."""
        self.release()
        with self._changed:
            self._script.clear()
            self._reached = dict.fromkeys(self._steps, 0)

    def release(self, *steps: S) -> None:
        """Let those go on who are held now, at these steps or everywhere; later ones are held again."""
        with self._changed:
            for step in steps or self._steps:
                self._released[step] += 1
            self._changed.notify_all()

    def held(self, step: S) -> int:
        """How many clients are held at that step now."""
        with self._changed:
            return self._held[step]

    def count(self, step: S) -> int:
        """How often a client has come to that step."""
        with self._changed:
            return self._reached[step]

    def reached(self, step: S, count: int = 1, timeout: float = 10) -> None:
        """Return once clients have come to that step `count` times since the start; AssertionError if they do not."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._reached[step] >= count, timeout)
            assert came, f"{step} was reached {self._reached[step]} times, not {count}, within {timeout} s"

    # --- what a connection asks ---

    def enter(self, step: S) -> A | None:
        """Note that a client has come to a step, and say what to do there."""
        with self._changed:
            self._reached[step] += 1
            self._changed.notify_all()
            action = self._script.get(step)
            return (action.pop(0) if action else None) if isinstance(action, list) else action

    def hold(self, step: S) -> None:
        """Return when the step is released, or the server stops."""
        with self._changed:
            before = self._released[step]
            self._held[step] += 1
            self._changed.wait_for(lambda: self._stopping or self._released[step] > before)
            self._held[step] -= 1

    def let_all_go(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
