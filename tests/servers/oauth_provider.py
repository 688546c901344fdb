"""An OAuth provider on a socket: HTTPS, a consent page, codes with PKCE, refresh tokens, the device flow.

It plays Google or Microsoft, as their documents have it:

    Google ...... developers.google.com/identity/protocols/oauth2/native-app: refreshing gives no new refresh token,
                  people may untick what they are asked for, an ID token with the email
    Microsoft ... learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow: every refresh gives another
                  refresh token, the one before stays good; a token is for one resource; refusals are AADSTS numbers
    both ........ RFC 6749, 7636 (S256 only), 8628

Tests script it: who signs in, what is refused, when nobody answers. Whatever it says in words has `WORDS` in it, so
that a test can see that nobody quotes it.
"""

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from mailbox_appliance.model.accounts import OAuthApp, OAuthProvider
from tests.servers.certificates import server_context
from tests.servers.listener import Answered, HttpListener
from tests.servers.listener import Asked as HttpRequest
from tests.servers.oauth_answers import WORDS, Answer, Answers, Grant

__all__ = ["WORDS", "Asked", "OAuthServer"]

Rotation = Literal["never", "lenient", "strict"]
_CA_LOCK = threading.Lock()
_KINDS = {
    ("GET", "/authorize"): "authorize",
    ("POST", "/authorize"): "choice",
    ("POST", "/token"): "token",
    ("POST", "/devicecode"): "devicecode",
    ("GET", "/device"): "device",
    ("POST", "/device"): "typed",
    ("GET", "/userinfo"): "userinfo",
}


@dataclass(frozen=True)
class Asked:
    """A request that came: what for (`token`, `authorize`, ...), and what it said."""

    what: str
    values: Mapping[str, str] = field(repr=False)

    @property
    def grant(self) -> str:
        """Of a request for tokens, what it brought: `authorization_code`, `refresh_token`, or a device's code."""
        return self.values.get("grant_type", "").rpartition(":")[2]


class OAuthServer:
    """A provider. May be told what to do at any time, from any thread.

    `certificates`: a folder of `make_certificates`, which may be that of other servers.
    """

    def __init__(self, certificates: Path, provider: OAuthProvider = "google") -> None:
        self.provider = provider
        self.app = OAuthApp(provider, f"{provider}-client", "a client's secret")
        #: Who signs in where nobody says otherwise.
        self.person = "ada@example.test"
        #: Seconds for which access tokens last, and how long they are.
        self.lasts, self.length = 3600, 40
        #: What becomes of refresh tokens when they are used: they stay; another one comes and both are good; the old
        #: one ends, and using it again ends the whole grant (RFC 9700 4.14.2).
        self.rotation: Rotation = "never" if provider == "google" else "lenient"
        #: What the ID token says besides, or instead; None leaves something out.
        self.claims: dict[str, object] = {}
        #: Scopes that are never granted, whatever people tick.
        self.withheld: frozenset[str] = frozenset()
        #: Called before a request is answered, with what it is; it may wait, or raise ConnectionError to hang up.
        self.before: Callable[[Asked], object] = lambda _: None
        #: The answer to all requests of a kind, in the place of the right one.
        self.instead: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.answers = Answers(self)
        with _CA_LOCK:
            context = server_context(certificates)
        self.ca_file = certificates / "ca.pem"
        self._server = HttpListener(self._answer, f"{provider} double", context)
        self.url = self._server.url

    def __enter__(self) -> "OAuthServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "OAuthServer":
        self._server.start()
        return self

    def stop(self) -> None:
        self._server.stop()

    def row(
        self, *, imap: int = 1, smtp: int = 1, api_url: str = "", imap_tls: str = "tls", smtp_tls: str = "tls"
    ) -> str:
        """Its table of a file for `remote.providers_file`. `imap`, `smtp`: ports of servers on `localhost`."""
        lines = [
            f"[{self.provider}]",
            f'authorization_url = "{self.url}/authorize"',
            f'token_url = "{self.url}/token"',
            f'device_url = "{self.url}/devicecode"'
            if self.provider == "outlook"
            else f'userinfo_url = "{self.url}/userinfo"',
            f'api_url = "{api_url or self.url}"',  # never the real one
            f'imap = {{host = "localhost", port = {imap}, security = "{imap_tls}"}}',
            f'smtp = {{host = "localhost", port = {smtp}, security = "{smtp_tls}"}}',
        ]
        return "\n".join([*lines, ""])

    # --- what people and administrators do ---

    def sign_up(self, scopes: frozenset[str] | None = None) -> str:
        """Have somebody agree, without any page; the refresh token that comes of it. `scopes`: None for all."""
        return self.answers.agree(self.person, scopes)

    def consent(self, url: str, person: str | None = None, *, refuse: bool = False, without: str = "") -> str:
        """Go through the consent page as a browser does; where that leads back to. `without`: an unticked box."""
        page = self._browse("GET", url)
        if page.status != 200:
            raise AssertionError(f"the provider shows an error: {page.status} {page.body!r}")
        asked = dict(parse_qsl(urlsplit(url).query))
        ticked = [("granted", scope) for scope in asked["scope"].split() if not without or without not in scope]
        form = [*(pair for pair in asked.items() if pair[0] != "scope"), *ticked]
        choice = [
            ("person", person or asked.get("login_hint") or self.person),
            ("choice", "refuse" if refuse else "allow"),
        ]
        return self._browse("POST", f"{self.url}/authorize", [*form, *choice]).headers["Location"]

    def type_code(self, user_code: str, person: str | None = None, *, refuse: bool = False) -> None:
        """Type the code of a device and agree, or not."""
        choice = "refuse" if refuse else "allow"
        form = [("user_code", user_code), ("person", person or self.person), ("choice", choice)]
        assert self._browse("POST", f"{self.url}/device", form).status == 200

    def revoke(self, person: str | None = None) -> None:
        """Take back all access of somebody, refresh tokens and access tokens."""
        self.answers.end(person or self.person, "revoked")

    def expire(self, person: str | None = None) -> None:
        """Let the refresh tokens of somebody end, and their access tokens."""
        self.answers.end(person or self.person, "expired")

    def spoil_access(self) -> None:
        """Let the access tokens of somebody end before their time; refresh tokens stay."""
        self.answers.spoil(self.person)

    # --- what becomes of requests ---

    def out_of_order(self, status: int = 503, *, retry_after: int | None = None) -> None:
        """Answer every request for tokens with this status until `in_order`."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.instead["token"] = Answer(status, f"<html>{WORDS}</html>".encode(), headers)

    def in_order(self) -> None:
        """Answer as is right again."""
        self.instead.clear()
        self.before = lambda _: None

    def slow(self, seconds: float) -> None:
        """Take so long for each answer."""
        self.before = lambda _: time.sleep(seconds)

    def hang_up(self) -> None:
        """End every connection without an answer."""

        def end(_: Asked) -> None:
            raise ConnectionAbortedError

        self.before = end

    def count(self, what: str = "token", grant: str = "") -> int:
        """How many requests of a kind came; of those for tokens, of a grant."""
        return sum(1 for each in list(self.asked) if each.what == what and (not grant or each.grant == grant))

    # --- what other servers ask ---

    def user_of(self, access_token: str, *scopes: str) -> str | None:
        """Whose access token this is, where it is good now; with `scopes`, for one that ends as one of them does."""
        found: Grant | None = self.answers.holder(access_token, scopes)
        return None if found is None else found.person

    def _answer(self, request: HttpRequest) -> Answered:
        place = urlsplit(request.target)
        kind = _KINDS.get((request.method, place.path), "nothing")
        text = request.body.decode() if request.method == "POST" else place.query
        values = {name: " ".join(given) for name, given in parse_qs(text).items()}
        if bearer := request.headers.get("authorization", ""):
            values["authorization"] = bearer
        asked = Asked(kind, values)
        self.asked.append(asked)
        self.before(asked)
        answer = self.instead.get(kind) or self.answers.to(asked)
        return answer.status, answer.body, answer.headers

    def _browse(self, method: str, url: str, form: list[tuple[str, str]] | None = None) -> Answer:
        place = urlsplit(url)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = HTTPSConnection(place.hostname or "", place.port, context=context, timeout=10)
        try:
            body = None if form is None else urlencode(form)
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
            connection.request(method, f"{place.path}?{place.query}", body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.getheaders()))
        finally:
            connection.close()
