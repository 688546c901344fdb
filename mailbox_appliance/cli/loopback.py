"""The local HTTP listener to which a browser returns after a provider sign-in started in a terminal (RFC 8252 7.3).

It listens only on loopback addresses, at a free port, for one request with the right `state`; other requests get 404.
The module is imported late: its HTTP server takes longer to import than a help page takes to print.
"""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

_PATH = "/api/v1/oauth/callback"
_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Signed in</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem }</style>
</head><body><main><h1>Return to the terminal</h1>
<p>The terminal shows the result of the sign-in. You can close this tab.</p></main></body></html>
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


class LoopbackListener:
    """Receives the browser when it returns from a sign-in.

    Context manager: it listens on loopback, at the free port `port`, until the block ends.
    """

    def __init__(self) -> None:
        #: The full address that the browser returned to; None until then.
        self._address: str | None = None
        self._state = ""
        self._is_back = threading.Event()
        self._servers: list[_LoopbackServer] = []

    def __enter__(self) -> "LoopbackListener":
        first = _LoopbackServer(("127.0.0.1", 0), self)
        self.port = first.server_port
        self._servers.append(first)
        # `localhost` may mean ::1, and browsers try that first.
        if (second := _second_server(self.port, self)) is not None:
            self._servers.append(second)
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), name="loopback", daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def accept_only(self, state: str) -> None:
        """From now on, accept a request with this `state`, which identifies the sign-in.

        Before, no request is accepted.
        """
        self._state = state

    def wait(self, seconds: float) -> str | None:
        """Return the full URL to which the browser returned; None if it did not return within `seconds`."""
        self._is_back.wait(seconds)
        return self._address

    def accept_redirect(self, target: str, port: int) -> bool:
        """Record the URL of a request if it has the expected path and `state`; return whether it has.

        `target`: path and query of the request. `port`: the port that received it.
        """
        place = urlsplit(target)
        if not self._state or place.path != _PATH or parse_qs(place.query).get("state") != [self._state]:
            return False
        if self._address is None:
            self._address = f"http://127.0.0.1:{port}{target}"
        return True

    def finish(self) -> None:
        """Make `wait` return. Called once the browser has received its page."""
        self._is_back.set()


# Threading, because browsers open connections in advance and leave them idle.
class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], loopback: LoopbackListener) -> None:
        super().__init__(address, _RedirectHandler)
        self.loopback = loopback


class _LoopbackServer6(_LoopbackServer):
    address_family = socket.AF_INET6


def _second_server(port: int, loopback: LoopbackListener) -> _LoopbackServer | None:
    try:
        return _LoopbackServer6(("::1", port), loopback)
    except OSError:  # no IPv6, or the port is in use on ::1
        return None


class _RedirectHandler(BaseHTTPRequestHandler):
    server: _LoopbackServer
    timeout = 5

    def do_GET(self) -> None:
        is_back = self.server.loopback.accept_redirect(self.path, self.server.server_port)
        try:
            self._answer(is_back)
        finally:
            if is_back:
                self.server.loopback.finish()

    def _answer(self, is_back: bool) -> None:
        page = _PAGE if is_back else b""
        self.send_response_only(200 if is_back else 404)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(page))),
            ("Content-Security-Policy", _POLICY),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Log nothing, since the requested URL contains a secret."""
