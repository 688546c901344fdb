"""How requests to an OAuth provider come in over HTTPS, and which answer is whose."""

import ssl
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.tolerant import TolerantHandler

if TYPE_CHECKING:
    from tests.servers.oauth_provider import OAuthServer

_KINDS = {
    ("GET", "/authorize"): "authorize",
    ("POST", "/authorize"): "choice",
    ("POST", "/token"): "token",
    ("POST", "/devicecode"): "devicecode",
    ("GET", "/device"): "device",
    ("POST", "/device"): "typed",
    ("GET", "/userinfo"): "userinfo",
    ("POST", "/introspect"): "introspect",
    ("GET", "/introspect"): "introspect",
}


def handler(server: "OAuthServer", context: ssl.SSLContext) -> type[BaseHTTPRequestHandler]:
    """What a connection is served by."""
    from tests.servers.oauth_provider import Asked

    class Handler(TolerantHandler):
        timeout = 30

        def setup(self) -> None:
            # In the connection's own thread: a client that is slow at it holds up nobody.
            self.request.settimeout(self.timeout)
            self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def do_GET(self) -> None:  # noqa: N802 - the name that http.server asks for
            self._serve("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:  # noqa: N802 - as do_GET
            self._serve("POST", self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _serve(self, method: str, text: str) -> None:
            kind = _KINDS.get((method, urlsplit(self.path).path), "nothing")
            values: dict[str, Any] = {name: " ".join(given) for name, given in parse_qs(text).items()}
            if bearer := self.headers.get("Authorization", ""):
                values["authorization"] = bearer
            asked = Asked(kind, values)
            server.asked.append(asked)
            server.before(asked)
            answer = server.instead.get(kind) or server.answers.to(asked)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def finish(self) -> None:
            super().finish()
            self.request.close()

    return Handler
