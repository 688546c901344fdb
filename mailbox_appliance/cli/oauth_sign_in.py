"""Sign-in at Google or Microsoft from a terminal.

    browser   it opens on this computer and comes back to a port of ours, where nobody else listens
    paste     it is opened anywhere; the address where it ended is pasted here
    code      a code is typed on any device (Microsoft)

`begin_sign_in` and `finish_sign_in` are the two halves for whoever cannot wait in between, such as a script.

Nothing secret is shown: the addresses and the code are good for this sign-in alone, and only together with our session.
"""

import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

from mailbox_appliance.cli.command_table import Call, fill_path
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.client.errors import NETWORK, Failure

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient

BEGIN_SIGN_IN = Call("POST", "/accounts/oauth/{provider}")
FINISH_SIGN_IN = Call("POST", "/accounts/oauth/{provider}/finish")
SignInWay = Literal["browser", "paste", "code"]
PROVIDER_NAMES = {"google": "Google", "outlook": "Microsoft"}
#: A sign-in is good for 10 minutes; it is the appliance that says when it is over.
_LONGEST = 660.0
#: Seconds that the servers of a mailbox may take to be tried.
_PATIENCE = 180.0
_LEAST_INTERVAL = 1


def sign_in(invocation: Invocation, provider: str, way: SignInWay, body: Mapping[str, Any]) -> Any:
    """The answer of the appliance once a mailbox is connected. Raises Failure."""
    client = invocation.client()
    if way == "code":
        return _by_code(invocation, client, provider, body)
    if way == "browser" and _has_browser(invocation):
        return _by_browser(invocation, client, provider, body)
    begun = _call_begin(client, provider, body)
    return _by_paste(invocation, client, provider, begun)


def begin_sign_in(invocation: Invocation, provider: str, body: Mapping[str, Any]) -> Any:
    """The answer of the appliance to a sign-in that begins: the address to open, and its state."""
    return _call_provider(invocation.client(), BEGIN_SIGN_IN, provider, body)


def finish_sign_in(invocation: Invocation, provider: str) -> Any:
    """The answer of the appliance to what the input brings: the address of where a browser ended, or a state alone."""
    terminal = invocation.terminal
    if terminal.stdin.isatty():
        terminal.write_error("Address of the page where the sign-in ended, or the state of one by a code:")
    brought = terminal.secret_line("address")
    return _call_finish(
        invocation, invocation.client(), provider, {"redirectUrl" if "?" in brought else "state": brought}
    )


def _call_provider(
    client: "ApiClient", call: Call, provider: str, body: Mapping[str, Any], timeout: float = 60.0
) -> Any:
    from mailbox_appliance.client.http import ApiRequest

    path = fill_path(call.path, {"provider": provider})
    return client.call(ApiRequest(call.method, path, body=dict(body), timeout=timeout))


def _call_begin(client: "ApiClient", provider: str, body: Mapping[str, Any]) -> Any:
    return _call_provider(client, BEGIN_SIGN_IN, provider, body)["data"]


def _call_finish(invocation: Invocation, client: "ApiClient", provider: str, brought: Mapping[str, str]) -> Any:
    with invocation.terminal.waiting("Trying the mailbox…"):
        return _call_provider(client, FINISH_SIGN_IN, provider, brought, _PATIENCE)


def _by_browser(invocation: Invocation, client: "ApiClient", provider: str, body: Mapping[str, Any]) -> Any:

    with LoopbackListener() as loopback:
        begun = _call_begin(client, provider, {**body, "loopbackPort": loopback.port})
        url = str(begun["authorizationUrl"])
        if not _redirects_to(url, loopback.port):
            return _by_paste(invocation, client, provider, begun)
        loopback.accept_only(str(begun["state"]))
        is_shown = invocation.service("show_in_browser")(url, invocation.terminal.environment)
        said = "has opened" if is_shown else "could not be opened"
        invocation.terminal.write_error(
            f"The page of {PROVIDER_NAMES[provider]} {said} in a browser. Where it has not, open this one on this "
            f"computer; on another one use --paste.\n\n{url}\n"
        )
        with invocation.terminal.waiting("Waiting for the sign-in in the browser…"):
            address = loopback.wait(_LONGEST)
    if address is None:
        raise Failure("sign_in_expired", "Nobody signed in within 10 minutes. Begin anew.", NETWORK)
    return _call_finish(invocation, client, provider, {"redirectUrl": address})


def _redirects_to(url: str, port: int) -> bool:
    """Whether a browser is led to this port afterwards: an appliance with an address of its own leads it there."""
    from urllib.parse import parse_qs, urlsplit

    found = parse_qs(urlsplit(url).query).get("redirect_uri", [""])[0]
    try:
        return urlsplit(found).hostname in ("127.0.0.1", "localhost") and urlsplit(found).port == port
    except ValueError:
        return False


def _by_paste(invocation: Invocation, client: "ApiClient", provider: str, begun: Mapping[str, Any]) -> Any:
    terminal = invocation.terminal
    terminal.write_error(
        f"Open this page of {PROVIDER_NAMES[provider]} in a browser, and sign in:\n\n{begun['authorizationUrl']}\n\n"
        "It ends at a page of the appliance, or at one that cannot be reached. Copy the whole address of that page."
    )
    address = terminal.line("Address of the page where you ended", "address")
    return _call_finish(invocation, client, provider, {"redirectUrl": address})


def _by_code(invocation: Invocation, client: "ApiClient", provider: str, body: Mapping[str, Any]) -> Any:
    begun = _call_begin(client, provider, {**body, "device": True})
    terminal = invocation.terminal
    terminal.write_error(f"Open {begun['verificationUri']} on any device, and type this code: {begun['userCode']}")
    until = monotonic() + _LONGEST
    with terminal.waiting("Waiting until somebody has agreed…"):
        while monotonic() < until:
            sleep(max(_LEAST_INTERVAL, int(begun.get("interval", 5))))
            try:
                return _call_provider(client, FINISH_SIGN_IN, provider, {"state": begun["state"]}, _PATIENCE)
            except Failure as failure:
                if failure.code not in ("conflict", "provider_rate_limited"):
                    raise
    raise Failure("sign_in_expired", "Nobody agreed within 10 minutes. Begin anew.", NETWORK)


def _has_browser(invocation: Invocation) -> bool:
    """Whether this computer may have one: it has a desktop, or somebody named one."""
    import sys

    environment = invocation.terminal.environment
    shown_by = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    always = sys.platform in ("darwin", "win32") and "SSH_CONNECTION" not in environment
    return always or any(environment.get(name) for name in shown_by)


# --- Where a browser on this computer comes back to after a sign-in that a terminal began (RFC 8252 7.3) ---
#
# It listens on loopback addresses alone, at a port that is free, for one request with the right `state`; everything
# else is told that nothing is here.


_PATH = "/api/v1/oauth/callback"
_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Signed in</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem }</style>
</head><body><main><h1>Go back to the terminal</h1>
<p>It goes on there, and says how this ended. You can close this tab.</p></main></body></html>
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


class LoopbackListener:
    """Listens from entering to leaving. `port`: where."""

    def __init__(self) -> None:
        #: The whole address that the browser came back to; None until then.
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
        """Take the browser that brings this `state`, and none before."""
        self._state = state

    def wait(self, seconds: float) -> str | None:
        """The address that the browser came back to; None where it did not within so long."""
        self._is_back.wait(seconds)
        return self._address

    def accept_redirect(self, target: str, port: int) -> bool:
        """Whether a request is the one that is waited for."""
        place = urlsplit(target)
        if not self._state or place.path != _PATH or parse_qs(place.query).get("state") != [self._state]:
            return False
        if self._address is None:
            self._address = f"http://127.0.0.1:{port}{target}"
        return True

    def finish(self) -> None:
        """The browser has its page: whoever waits may go on, and end this process."""
        self._is_back.set()


class _LoopbackServer(ThreadingHTTPServer):  # browsers open connections in advance, and leave them idle
    daemon_threads = True

    def __init__(self, address: tuple[str, int], loopback: LoopbackListener) -> None:
        super().__init__(address, _RedirectHandler)
        self.loopback = loopback


class _LoopbackServer6(_LoopbackServer):
    address_family = socket.AF_INET6


def _second_server(port: int, loopback: LoopbackListener) -> _LoopbackServer | None:
    try:
        return _LoopbackServer6(("::1", port), loopback)
    except OSError:  # there is no IPv6, or the port is taken there
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
        """Nothing: what a browser brings is a secret."""
