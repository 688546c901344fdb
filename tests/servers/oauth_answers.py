"""What an OAuth provider answers: what it keeps of codes, grants and tokens, and who it takes for whom."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode, urlsplit

from mailbox_appliance.remote.providers import BUILT_IN
from tests.servers import oauth_pages

if TYPE_CHECKING:
    from tests.servers.oauth_provider import Asked, OAuthServer

#: Is in whatever the provider says in words.
WORDS = "the provider's very own words"
_JSON = {"Content-Type": "application/json"}
_HTML = {"Content-Type": "text/html; charset=utf-8"}
#: Refusals of Microsoft (learn.microsoft.com/entra/identity-platform/reference-error-codes).
_AADSTS = {
    "unknown": 70000,
    "revoked": 50173,
    "expired": 700082,
    "code": 54005,
    "client": 7000215,
    "consent": 65001,
    "declined": 65004,
    "resources": 28000,
    "no_scope": 28003,
    "public": 700025,
}


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Grant:
    """What somebody agreed to. `state`: whether it is good still."""

    person: str
    scopes: frozenset[str]
    state: Literal["good", "revoked", "expired"] = "good"
    #: It came by a device's code: Microsoft refuses a secret beside that, and beside its refresh tokens.
    is_public: bool = False


@dataclass
class _Code:
    grant: Grant
    redirect_uri: str
    challenge: str
    is_used: bool = False


@dataclass
class _Device:
    scopes: frozenset[str]
    grant: Grant | None = None
    is_refused: bool = False
    asked_at: float = 0.0


@dataclass
class _Access:
    grant: Grant
    scopes: frozenset[str]
    until: float


class Answers:
    def __init__(self, server: "OAuthServer") -> None:
        self._server, self._lock = server, threading.RLock()
        self._codes: dict[str, _Code] = {}
        self._devices: dict[str, _Device] = {}
        self._typed: dict[str, str] = {}
        self._refresh: dict[str, Grant] = {}
        #: What each has ever agreed to: Microsoft's refresh tokens are good for all of it.
        self._agreed: dict[str, frozenset[str]] = {}
        self._over: set[str] = set()
        self._access: dict[str, _Access] = {}
        #: Seconds that a device has to let pass between two questions.
        self.interval = 1

    def agree(self, person: str, scopes: frozenset[str] | None = None) -> str:
        """A new grant; its refresh token."""
        with self._lock:
            return self._new_refresh(Grant(person, self._all() if scopes is None else scopes))

    def end(self, person: str, how: Literal["revoked", "expired"]) -> None:
        """End all grants of somebody."""
        with self._lock:
            if how == "revoked":
                self._agreed.pop(person, None)
            for grant in self._grants(person):
                grant.state = how
            self.spoil(person)

    def spoil(self, person: str) -> None:
        """End all access tokens of somebody."""
        with self._lock:
            for access in self._access.values():
                if access.grant.person == person:
                    access.until = 0

    def holder(self, token: str, scopes: Iterable[str] = ()) -> Grant | None:
        """Whose access token it is, if it is good, for one of these scopes."""
        with self._lock:
            found = self._access.get(token)
            if found is None or time.monotonic() >= found.until:
                return None
            wanted = tuple(scopes)
            has_one = not wanted or any(scope.endswith(wanted) for scope in found.scopes)
            return found.grant if has_one else None

    def to(self, asked: "Asked") -> Answer:
        """The answer to a request."""
        acts: dict[str, Callable[[Mapping[str, str]], Answer]] = {
            "authorize": self._authorize,
            "choice": self._choice,
            "token": self._token,
            "devicecode": self._devicecode,
            "device": lambda values: _html(oauth_pages.device(values.get("user_code", ""), self._server.person)),
            "typed": self._typed_code,
            "userinfo": self._userinfo,
        }
        with self._lock:
            return acts[asked.what](asked.values) if asked.what in acts else Answer(404)

    # --- pages ---

    def _authorize(self, query: Mapping[str, str]) -> Answer:
        fault = self._fault_of(query)
        if fault is not None:
            return Answer(400, oauth_pages.said(f"{fault}: {WORDS}"), _HTML)
        person = query.get("login_hint") or self._server.person
        return _html(oauth_pages.consent(query, person, query["scope"].split()))

    def _fault_of(self, query: Mapping[str, str]) -> str | None:
        place = urlsplit(query.get("redirect_uri", ""))
        name = BUILT_IN[self._server.provider].loopback_host
        checks = {
            "client_id": query.get("client_id") == self._server.app.client_id,
            "redirect_uri": place.scheme == "https" or (place.scheme == "http" and place.hostname == name),
            "response_type": query.get("response_type") == "code",
            "state": len(query.get("state", "")) >= 32,
            "code_challenge": len(query.get("code_challenge", "")) == 43,
            "code_challenge_method": query.get("code_challenge_method") == "S256",
            "scope": bool(query.get("scope")),
        }
        return next((what for what, fits in checks.items() if not fits), None)

    def _choice(self, form: Mapping[str, str]) -> Answer:
        back = form["redirect_uri"]
        if form["choice"] != "allow":
            error = {"error": "access_denied", "error_description": WORDS, "state": form["state"]}
            return Answer(302, b"", {"Location": f"{back}?{urlencode(error)}"})
        granted = frozenset(form.get("granted", "").split()) - self._server.withheld
        code = secrets.token_urlsafe(24)
        self._codes[code] = _Code(Grant(form["person"], granted), back, form["code_challenge"])
        return Answer(302, b"", {"Location": f"{back}?{urlencode({'code': code, 'state': form['state']})}"})

    def _typed_code(self, form: Mapping[str, str]) -> Answer:
        device = self._devices.get(self._typed.get(form["user_code"].strip().upper(), ""))
        if device is None:
            return Answer(400, oauth_pages.said(f"That code is not known. {WORDS}"), _HTML)
        if form["choice"] == "allow":
            device.grant = Grant(form["person"], device.scopes - self._server.withheld, is_public=True)
        else:
            device.is_refused = True
        return _html(oauth_pages.said("You may go back to your device."))

    # --- what applications ask ---

    def _token(self, form: Mapping[str, str]) -> Answer:
        grant = form.get("grant_type", "").rpartition(":")[2]
        is_public = self._is_public(grant, form)
        if is_public and "client_secret" in form:
            return self._refusal(401, "invalid_client", "public")
        if not self._is_client(form, None if is_public else self._server.app.client_secret):
            return self._refusal(401, "invalid_client", "client")
        acts = {"authorization_code": self._of_code, "refresh_token": self._of_refresh, "device_code": self._of_device}
        return acts[grant](form) if grant in acts else self._refusal(400, "unsupported_grant_type", "unknown")

    def _is_public(self, grant: str, form: Mapping[str, str]) -> bool:
        known = self._refresh.get(form.get("refresh_token", ""))
        return grant == "device_code" or (known is not None and known.is_public)

    def _is_client(self, form: Mapping[str, str], secret: str | None) -> bool:
        return (form.get("client_id"), form.get("client_secret")) == (self._server.app.client_id, secret)

    def _of_code(self, form: Mapping[str, str]) -> Answer:
        code = self._codes.get(form.get("code", ""))
        verifier = form.get("code_verifier", "")
        if (
            code is None
            or code.is_used
            or code.redirect_uri != form.get("redirect_uri")
            or not 43 <= len(verifier) <= 128
        ):
            return self._refusal(400, "invalid_grant", "code")
        code.is_used = True
        if code.challenge != _part(hashlib.sha256(verifier.encode()).digest()):
            return self._refusal(400, "invalid_grant", "code")
        granted = code.grant.scopes
        if self._server.provider == "outlook":
            wanted = frozenset(form.get("scope", "").split())
            if (refusal := self._of_two_resources(granted, wanted)) is not None:
                return refusal
            granted = granted & wanted or granted
        return self._tokens(code.grant, self._for_one_resource(granted), self._new_refresh(code.grant))

    def _of_two_resources(self, granted: frozenset[str], wanted: frozenset[str]) -> Answer | None:
        """Microsoft: of a code that spans several resources one is named when it is redeemed."""
        if len(_resources(wanted)) > 1:
            return self._refusal(400, "invalid_request", "resources")
        if not wanted and len(_resources(granted)) > 1:
            return self._refusal(400, "invalid_request", "no_scope")
        return None

    def _of_refresh(self, form: Mapping[str, str]) -> Answer:
        token = form.get("refresh_token", "")
        grant = self._refresh.get(token)
        if grant is None:
            return self._refusal(400, "invalid_grant", "unknown")
        if token in self._over:
            grant.state = "revoked"
        if grant.state != "good":
            return self._refusal(400, "invalid_grant", grant.state)
        wanted = frozenset(form.get("scope", "").split()) or grant.scopes
        if self._server.provider == "outlook" and len(_resources(wanted)) > 1:
            return self._refusal(400, "invalid_request", "resources")
        if not wanted <= self._may(grant):
            return self._refusal(400, "invalid_grant", "consent", {"suberror": "consent_required"})
        return self._tokens(grant, self._for_one_resource(wanted), self._rotated(token, grant))

    def _of_device(self, form: Mapping[str, str]) -> Answer:
        device = self._devices.get(form.get("device_code", ""))
        if device is None:
            return self._refusal(400, "invalid_grant", "unknown")
        is_early, device.asked_at = time.monotonic() - device.asked_at < self.interval / 2, time.monotonic()
        if device.is_refused:
            return self._refusal(400, "authorization_declined", "declined")
        if is_early:
            return self._refusal(400, "slow_down", "unknown")
        if device.grant is None:
            return self._refusal(400, "authorization_pending", "unknown")
        del self._devices[form["device_code"]]
        if (refusal := self._of_two_resources(device.scopes, frozenset())) is not None:  # it takes no scope here
            return refusal
        return self._tokens(device.grant, self._for_one_resource(device.scopes), self._new_refresh(device.grant))

    def _devicecode(self, form: Mapping[str, str]) -> Answer:
        if form.get("client_id") != self._server.app.client_id:
            return self._refusal(401, "invalid_client", "client")
        code, user_code = secrets.token_urlsafe(32), secrets.token_hex(4).upper()
        self._devices[code], self._typed[user_code] = _Device(frozenset(form["scope"].split())), code
        said = {"device_code": code, "user_code": user_code, "verification_uri": f"{self._server.url}/device"}
        return _json(200, {**said, "expires_in": 900, "interval": self.interval, "message": WORDS})

    def _userinfo(self, values: Mapping[str, str]) -> Answer:
        grant = self.holder(values.get("authorization", "").removeprefix("Bearer "))
        if grant is None:
            return _json(401, {"error": "invalid_token", "error_description": WORDS})
        return _json(200, {"sub": "1", "email": grant.person, "email_verified": True})

    # --- what it keeps ---

    def _all(self) -> frozenset[str]:
        known = BUILT_IN[self._server.provider]
        return frozenset(known.mail_scopes) | frozenset(known.graph_scopes)

    def _grants(self, person: str) -> list[Grant]:
        return [grant for grant in self._refresh.values() if grant.person == person]

    def _may(self, grant: Grant) -> frozenset[str]:
        """What a refresh token is good for: at Microsoft also for what was agreed to in other sign-ins."""
        more = self._agreed.get(grant.person, frozenset()) if self._server.provider == "outlook" else frozenset()
        return grant.scopes | more

    def _new_refresh(self, grant: Grant) -> str:
        self._agreed[grant.person] = self._agreed.get(grant.person, frozenset()) | grant.scopes
        token = f"refresh-{secrets.token_urlsafe(24)}"
        self._refresh[token] = grant
        return token

    def _rotated(self, token: str, grant: Grant) -> str | None:
        if self._server.rotation == "never":
            return None
        if self._server.rotation == "strict":
            self._over.add(token)
        return self._new_refresh(grant)

    def _for_one_resource(self, scopes: frozenset[str]) -> frozenset[str]:
        """Microsoft: a token is for the resource of one scope; without a wish, of the first in the table."""
        if self._server.provider == "google":
            return scopes
        mail = frozenset(scope for scope in scopes if "outlook.office" in scope)
        return mail or frozenset(scope for scope in scopes if "://" in scope)

    def _tokens(self, grant: Grant, scopes: frozenset[str], refresh_token: str | None) -> Answer:
        token = f"access-{secrets.token_hex(64)}"
        token += "x" * (self._server.length - len(token)) if self._server.length > len(token) else ""
        self._access[token] = _Access(grant, scopes, time.monotonic() + self._server.lasts)
        said: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self._server.lasts}
        said |= {"scope": " ".join(sorted(scopes)), "id_token": self._id_token(grant)}
        return _json(200, said | ({} if refresh_token is None else {"refresh_token": refresh_token}))

    def _id_token(self, grant: Grant) -> str:
        facts: dict[str, object] = {"aud": self._server.app.client_id, "iss": self._server.url, "sub": "1"}
        facts |= {"email": grant.person, "preferred_username": grant.person} | self._server.claims
        kept = {name: value for name, value in facts.items() if value is not None}
        return ".".join(_part(json.dumps(each).encode()) for each in ({"alg": "none"}, kept)) + ".none"

    def _refusal(self, status: int, error: str, why: str, more: Mapping[str, Any] | None = None) -> Answer:
        if self._server.provider == "google":
            return _json(status, {"error": error, "error_description": f"Token has been expired or revoked. {WORDS}"})
        number = _AADSTS[why]
        said = {"error": error, "error_description": f"AADSTS{number}: {WORDS}", "error_codes": [number]}
        return _json(status, {**said, "trace_id": "0", "correlation_id": "0", **(more or {})})


def _resources(scopes: Iterable[str]) -> set[str]:
    return {urlsplit(scope).netloc for scope in scopes if "://" in scope}


def _html(page: bytes) -> Answer:
    return Answer(200, page, _HTML)


def _json(status: int, value: Mapping[str, Any]) -> Answer:
    return Answer(status, json.dumps(value).encode(), {**_JSON, "Cache-Control": "no-store"})


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
