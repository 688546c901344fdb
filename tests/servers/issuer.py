"""Whoever issues licences: signs tokens, and says over HTTP whether they are good."""

import base64
import json
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.servers.listener import Answered, Asked, HttpListener

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
        self._listener = HttpListener(self._answer, "issuer")
        #: Where it is asked.
        self.url = f"http://127.0.0.1:{self._listener.port}/licences/verify?v=1"

    def __enter__(self) -> "Issuer":
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def says(self, *, valid: bool) -> None:
        """What it answers from now on."""
        self.answer = (200, json.dumps({"valid": valid}).encode())

    def stop(self) -> None:
        self._listener.stop()

    def _answer(self, asked: Asked) -> Answered:
        self.asked.append({"target": asked.target, "type": asked.headers["content-type"], **json.loads(asked.body)})
        self.before()
        return *self.answer, self.headers
