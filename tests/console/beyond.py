"""What the API says of itself and does not do yet, as a proxy before the appliance: discovery, and providers' sign-in.

Everything else goes through as it is. The page of the provider is on a port of its own, so it is another site.
"""

import http.client
import json
import secrets
import threading
from copy import copy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.console.house import House

API = "/api/v1"
_EXPIRES = "2099-01-01T00:00:00.000Z"
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Provider</title>
<link rel="icon" href="data:,"></head><body><main><h1>A provider</h1>
<p><a href="{allow}">Allow</a> <a href="{refuse}">Refuse</a></p></main></body></html>"""


class Beyond:
    """The house with those endpoints. `candidates`: what discovery answers."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.candidates: list[dict[str, Any]] = []
        #: What was asked of these endpoints: the path below the API's root, and the body.
        self.asked: list[tuple[str, Any]] = []
        self._states: dict[str, str] = {}
        self._front, self._provider = _Server(self, _Front), _Server(self, _Provider)

    @property
    def url(self) -> str:
        """Where the console is to be opened."""
        return f"http://127.0.0.1:{self._front.server_port}"

    @property
    def as_house(self) -> House:
        """The house, to be reached through this."""
        there = copy(self.house)
        there.running = copy(self.house.running)
        there.running.url = self.url
        return there

    def stop(self) -> None:
        """End both servers."""
        self._front.stop()
        self._provider.stop()

    def answer(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any] | None:
        """What these endpoints answer; None where the appliance is to answer itself."""
        known: tuple[int, Any]
        match path.strip("/").split("/"):
            case ["accounts", "discover"]:
                known = 200, {"data": {"candidates": self.candidates}}
            case ["accounts", "oauth", provider]:
                known = 200, {"data": self._begin(provider, headers["Authorization"])}
            case ["accounts", "oauth", provider, "finish"]:
                known = self._finish(provider, body, headers)
            case _:
                return None
        self.asked.append((path, body))
        return known

    def _begin(self, provider: str, session: str) -> dict[str, str]:
        state = secrets.token_hex(8)
        self._states[state] = provider + session
        url = f"http://127.0.0.1:{self._provider.server_port}/authorize?{urlencode({'state': state})}"
        return {"authorizationUrl": url, "state": state, "expiresAt": _EXPIRES}

    def _finish(self, provider: str, body: dict[str, str], headers: dict[str, str]) -> tuple[int, Any]:
        given = {name: value[0] for name, value in parse_qs(urlsplit(body.get("redirectUrl", "")).query).items()} | body
        known = self._states.pop(given.get("state", ""), None)
        if known != provider + headers["Authorization"] or given.get("code") != "good":
            message = "This sign-in was not begun here, or is over. Begin anew."
            return 400, {"error": {"code": "invalid_request", "message": message, "requestId": "req_1"}}
        user = self.house.server.fresh_user()
        account = {"email": user, **self.house.servers(user)}
        status, answer = self.pass_on("POST", f"{API}/accounts", json.dumps(account).encode(), headers)[:2]
        return status, json.loads(answer)

    def callback(self, query: str) -> str:
        """Where GET /oauth/callback leads: to the console's page, with what the provider gave."""
        return f"/#/oauth-callback?{query}"

    def pass_on(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, list[tuple[str, str]]]:
        """What the appliance answers."""
        place = urlsplit(self.house.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            sent = {
                name: value for name, value in headers.items() if name.lower() not in ("connection", "content-length")
            }
            connection.request(method, path, body or None, sent)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheaders()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, beyond: Beyond, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.beyond = beyond
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def send(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        pass


class _Front(_Handler):
    def _do(self) -> None:
        beyond = self.server.beyond
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        if place.path == f"{API}/oauth/callback":
            return self.send(303, b"", [("Location", beyond.callback(place.query))])
        headers = dict(self.headers.items())
        known = None
        if self.command == "POST" and place.path.startswith(API):
            known = beyond.answer(place.path.removeprefix(API), json.loads(body or b"null"), headers)
        if known is not None:
            return self.send(known[0], json.dumps(known[1]).encode(), [("Content-Type", "application/json")])
        return self.send(*beyond.pass_on(self.command, self.path, body, headers))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815 - as the base calls them


class _Provider(_Handler):
    def do_GET(self) -> None:
        state = parse_qs(urlsplit(self.path).query)["state"][0]
        back = f"{self.server.beyond.url}{API}/oauth/callback"
        allow = f"{back}?{urlencode({'state': state, 'code': 'good'})}"
        refuse = f"{back}?{urlencode({'state': state, 'error': 'access_denied'})}"
        page = _PAGE.format(allow=allow.replace("&", "&amp;"), refuse=refuse.replace("&", "&amp;"))
        self.send(200, page.encode(), [("Content-Type", "text/html; charset=utf-8")])
