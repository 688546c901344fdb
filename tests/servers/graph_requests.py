"""How requests to Microsoft Graph's double come in over HTTPS."""

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol

from tests.servers.graph_answers import Answered
from tests.servers.graph_script import HungUp
from tests.servers.tolerant import TolerantHandler


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


class Asking(Protocol):
    """Who is asked."""

    @property
    def is_open(self) -> bool: ...

    def connected(self, more: int) -> None: ...

    def answer(self, asked: Asked) -> Answered: ...


def handler(server: Asking, certificates: Path) -> type[BaseHTTPRequestHandler]:
    """What a connection is served by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    class Handler(TolerantHandler):
        timeout = 60

        def __init__(self, *given: Any) -> None:
            server.connected(1)
            try:
                super().__init__(*given)
            except OSError:  # whoever came has gone, or is not let in
                pass
            finally:
                self.request.close()
                server.connected(-1)

        def setup(self) -> None:
            if not server.is_open:
                raise ConnectionAbortedError
            self.request.settimeout(self.timeout)
            self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def _serve(self) -> None:
            length = self.headers["Content-Length"]
            assert length is not None or self.command == "GET"
            fields = {name.lower(): value for name, value in self.headers.items()}
            if self.path.startswith("/v1.0/") and "/messages" in self.path:
                assert fields["prefer"] == 'IdType="ImmutableId"', "without it, ids change"
            try:
                status, body, headers = server.answer(
                    Asked(self.command, self.path, fields, self.rfile.read(int(length or 0)))
                )
            except HungUp as ended:
                if ended.reset:
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.request.close()
                return
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that the library calls

    return Handler
