"""What a mail server asks about an access token (RFC 7662), answered from a list of tokens, or by whoever gave them."""

import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import dumps
from urllib.parse import parse_qs


class Introspection:
    """The server, for plain HTTP on the loopback interface."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        #: Whose a token is, where it is none of the list; None: nobody's.
        self.ask: Callable[[str], str | None] = lambda _: None
        #: How often it was asked.
        self.count = 0
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> "Introspection":
        """Listen on a free port."""
        house = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = self.rfile.read(int(self.headers["Content-Length"])).decode()
                answer = house._answer(parse_qs(said)["token"][0])
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing: tokens are asked about."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="introspection", daemon=True).start()
        return self

    def stop(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def give(self, user: str, length: int = 40) -> str:
        """A token of so many characters that is good for this user."""
        token = secrets.token_hex(length // 2)
        self._users[token] = user
        return token

    def revoke(self, token: str) -> None:
        """It is good for nobody any more."""
        self._users.pop(token, None)

    def _answer(self, token: str) -> bytes:
        self.count += 1
        user = self._users.get(token) or self.ask(token)
        return dumps({"active": False} if user is None else {"active": True, "username": user}).encode()
