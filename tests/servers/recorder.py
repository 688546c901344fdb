"""A listener that stands for the whole Internet, and remembers whoever came by.

A browser is told to take hosts for this one (`--host-resolver-rules`), so that a connection to any of them ends here.
"""

import socket
from dataclasses import dataclass

from tests.servers.listener import Listener

#: What a browser really looks up in place of a name that it should not have.
HOSTILE = "hostile.localhost"
_PICTURE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: image/gif\r\nContent-Length: 35\r\nAccess-Control-Allow-Origin: *\r\n"
    b"Connection: close\r\n\r\n"
    + bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
)


@dataclass(frozen=True)
class Visit:
    """One connection, and the first bytes that came over it: a request, the hello of TLS, or nothing."""

    said: bytes

    def names(self, host: str) -> bool:
        """Whether it was about this host (the Host field, or the name in the hello)."""
        return host.encode() in self.said


def _document(page: bytes) -> bytes:
    fields = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close"
    return f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + page


class Recorder(Listener):
    """Takes connections at a port of its own; answers each request with a picture, for `.html` with `page`."""

    def __init__(self, page: str = "") -> None:
        super().__init__(self._hear, "recorder")
        self._page = page.encode()
        self._visits: list[Visit] = []
        self.start()

    @property
    def visits(self) -> tuple[Visit, ...]:
        """Everybody who came, in the order in which their first bytes did."""
        return tuple(self._visits)

    def rules(self) -> str:
        """What Chromium is told of names under `example` (RFC 2606); there are no others, but this computer's own.

        They are found here, by names that its log of the network has where it looks any of them up.
        """
        return (
            "MAP looked-up.control.example looked-up.localhost,"
            f"MAP *.control.example control.localhost:{self.port}, MAP *.example {HOSTILE}:{self.port},"
            f"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"
        )

    def _hear(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            said = connection.recv(16_384)
        except OSError:  # connected without a word: a visit all the same
            said = b""
        self._visits.append(Visit(said))
        if b"HTTP/1." in said:
            connection.sendall(_document(self._page) if b".html " in said[:200] else _PICTURE)
