"""Whoever issues licences: signs tokens, and says over HTTP whether they are good."""

import base64
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC_KEY = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()
PUBLIC_PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
HEADER: dict[str, Any] = {"alg": "EdDSA"}
PAYLOAD: dict[str, Any] = {
    "plan": "team",
    "maxMembers": 2,
    "maxAccounts": 1,
    "expiresAt": "2026-03-01T00:00:00Z",
    "issuedTo": "Example Ltd",
}


def part(value: object) -> str:
    """A part of a token: JSON, or bytes as they are, in base64url."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def sign(payload: object = PAYLOAD, header: object = HEADER, key: Ed25519PrivateKey = KEY) -> str:
    """A token of this issuer."""
    text = f"{part(header)}.{part(payload)}"
    return f"{text}.{part(key.sign(text.encode()))}"


class Issuer:
    """An HTTP server on loopback. `answer` is its status and body; `before` is done before each answer."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: tuple[int, bytes] = (200, b'{"valid": true}')
        self.before: Callable[[], object] = lambda: None
        self.headers: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="issuer", daemon=True)

    def __enter__(self) -> "Issuer":
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self._server.server_port}/licences/verify?v=1"

    def says(self, *, valid: bool) -> None:
        """What it answers from now on."""
        self.answer = (200, json.dumps({"valid": valid}).encode())

    def stop(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            issuer.asked.append({"target": self.path, "type": self.headers["Content-Type"], **json.loads(content)})
            issuer.before()
            status, body = issuer.answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **issuer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler
