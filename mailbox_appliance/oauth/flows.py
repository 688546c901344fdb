"""Provider sign-ins in progress (OAuth 2.0). They are kept in memory only, expire after ten minutes and work once.

start .... begins a sign-in and creates its secrets: `state`, which identifies it, and the PKCE verifier, which proves
           that this appliance began it
finish ... ends a sign-in with the code or the error that the browser returned, or with neither for a sign-in with a
           device code; only the session that started it may call this
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from mailbox_appliance.clock import Clock
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.accounts import Connection, OAuthLogin, OAuthProvider
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote import errors, oauth
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.oauth import DevicePrompt, IssuedTokens, OAuthClient
from mailbox_appliance.remote.providers import Resource

# --- The result of a sign-in: the mailbox, and whether the granted access is enough for mail ---
#
# The ID token names the person who signed in; it came over TLS from the provider itself (OpenID Connect Core 3.1.3.7,
# 6). Without one the provider is asked. At Microsoft the mailbox may be another one that is shared with that person:
# the first login at its servers decides.


_GOOGLE_MAIL = ("gmail.com", "googlemail.com")
_NO_MAIL = {
    "google": "Google was not allowed to grant access to the mail. Sign in again and select `Read, compose, send, and"
    " permanently delete all your email from Gmail`.",
    "outlook": "Microsoft was not allowed to grant access to the mail. Sign in again and agree to reading and sending"
    " mail. If Microsoft does not ask, an administrator of the organization must allow IMAP and SMTP for the"
    " application.",
}
_NOT_LASTING = (
    "The provider granted access for only an hour, without a refresh token. Sign in again and agree to lasting access."
)
_SIGN_IN_EXPIRED = "This sign-in took too long, or its code was already used. Start the sign-in again."
_NO_ADDRESS = (
    "The provider did not report who signed in, or that account has no email address. Sign in with another account."
)


class SignInRefused(Exception):
    """The provider or the person refused the access. `reason`: a sentence to show to the person. `name`: the code of
    the error, such as `consent_required`, or None.
    """

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(name or "refused")
        self.reason, self.name = reason, name


@dataclass(frozen=True)
class SignInRequest:
    """The purpose of a sign-in, and who started it.

    - email: the mailbox that the person should sign in to, if known.
    - account_id: a connected mailbox whose access is renewed; None to connect a new one.
    """

    provider: OAuthProvider
    member_id: str
    session_id: str
    redirect_uri: str
    email: str | None = None
    display_name: str | None = None
    account_id: str | None = None


@dataclass(frozen=True)
class SignInResult:
    """The result of a finished sign-in.

    - login: the OAuth login to store for the mailbox.
    - connection: the mailbox's servers with the access token, which is valid for about an hour.
    - issued: the tokens.
    """

    request: SignInRequest
    login: OAuthLogin
    connection: Connection = field(repr=False)
    issued: IssuedTokens = field(repr=False)


def to_login(asking: OAuthClient, asked: SignInRequest, issued: IssuedTokens, *, may_be_shared: bool) -> OAuthLogin:
    """Return the OAuth login to store for the mailbox to which the tokens give access.

    - asking: the client for requests to the provider.
    - asked: the request with which the sign-in started.
    - issued: the tokens from the provider.
    - may_be_shared: whether the expected mailbox may be one that is shared with the person who signed in (Microsoft
      only).

    Raises SignInRefused if the tokens do not give access to mail, do not last, or belong to another mailbox. Raises
    RemoteFault if the provider fails.
    """
    provider = asking.provider.provider
    if issued.scopes is not None and not asking.provider.gives_mail(issued.scopes):
        raise SignInRefused(_NO_MAIL[provider], "consent_required")
    if issued.refresh_token is None:
        raise SignInRefused(_NOT_LASTING, "consent_required")
    own, *others = _signed_in_addresses(asking, issued)
    if asked.email is None:
        return OAuthLogin(provider, own, own, issued.refresh_token)
    for name in (own, *others):
        if _comparable_address(asked.email) == _comparable_address(name):
            return OAuthLogin(provider, name, name, issued.refresh_token)
    if provider == "google" or not may_be_shared:
        raise SignInRefused(f"You signed in as {own} instead of {asked.email}. Sign in again as {asked.email}.")
    return OAuthLogin(provider, asked.email, own, issued.refresh_token)


def refusal_of_fault(fault: RemoteFault) -> SignInRefused | None:
    """Return a SignInRefused if the fault means that the provider refused the sign-in, so that a retry is useless.

    Returns None for other faults, such as a provider that cannot be reached.
    """
    # the provider's error for an expired or used code: invalid_grant
    if fault.name in ("access_revoked", "access_expired"):
        return SignInRefused(_SIGN_IN_EXPIRED, "code_refused")
    if fault.kind == "login_refused" or (fault.kind == "refused" and fault.name != "server_down"):
        return SignInRefused(fault.reason, fault.name)
    return None


def refusal_of_error(error: str) -> Exception:
    """Return the exception to raise for an error that the browser brought back: SignInRefused, or RemoteFault if the
    provider failed. `error`: its code (RFC 6749 4.1.2.1).

    This text is never shown, because anyone could have written it.
    """
    fault = errors.fault_of_reply("oauth", error)
    if fault is None:
        return SignInRefused(
            "The provider ended the sign-in without granting access. Start the sign-in again and agree to the access."
        )
    return refusal_of_fault(fault) or fault


def _signed_in_addresses(asking: OAuthClient, issued: IssuedTokens) -> tuple[str, ...]:
    """Return the mail address, then a different sign-in name. Raises SignInRefused, RemoteFault."""
    facts = issued.claims
    if facts and not _is_for_client(facts, asking.app.client_id):
        facts = {}
    if not _addresses(facts):
        facts = oauth.fetch_userinfo(asking, issued.access_token)
    found = _addresses(facts)
    if not found:
        raise SignInRefused(_NO_ADDRESS)
    return found


def _is_for_client(claims: Mapping[str, Any], client_id: str) -> bool:
    """Whether an ID token was issued for this application (OpenID Connect Core 3.1.3.7, 3)."""
    audience = claims.get("aud")
    return audience == client_id or (isinstance(audience, list) and client_id in audience)


def _addresses(facts: Mapping[str, Any]) -> tuple[str, ...]:
    given = [facts.get("email"), facts.get("preferred_username")]
    return tuple(dict.fromkeys(text for text in given if isinstance(text, str) and _is_address(text)))


def _is_address(text: str) -> bool:
    try:
        return bool(to_envelope_address(text))
    except ValueError:
        return False


def _comparable_address(email: str) -> str:
    """Equal mailboxes have equal texts; at Gmail, dots do not matter (support.google.com/mail/answer/7436150)."""
    local, _, domain = email.casefold().rpartition("@")
    return f"{local.replace('.', '')}@{_GOOGLE_MAIL[0]}" if domain in _GOOGLE_MAIL else f"{local}@{domain}"


# --- Sign-ins in progress ---


#: Seconds within which a sign-in must be finished.
LIFETIME = 600.0
#: Limits of sign-ins in progress: for one session and for one member, where the oldest is dropped, and in total.
MOST_OF_A_SESSION, MOST_OF_A_MEMBER, MOST_FLOWS = 5, 20, 500
_SLOW_DOWN_SECONDS = 5  # RFC 8628 3.5


class StateUnknown(Exception):
    """No sign-in with this `state` is in progress, or it belongs to another session or provider."""


class NotAgreedYet(Exception):
    """The person has not typed the device code and agreed yet. The sign-in stays in progress."""


class NothingBrought(Exception):
    """`finish` got neither a code nor an error, although a browser always returns one of them. The sign-in stays in
    progress.
    """


class TooManyFlows(Exception):
    """Too many sign-ins of all members together are in progress."""


class AppMissing(Exception):
    """No OAuth application is configured for the provider. `title`: the provider's name for people."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.title = title


@dataclass(frozen=True)
class SignInStarted:
    """A started sign-in. `authorization_url`: the page that the person opens. `state`: identifies the sign-in for
    `finish`.

    `device`: the code to type there; None for a sign-in in the browser.
    """

    authorization_url: str = field(repr=False)
    state: str = field(repr=False)
    expires_at: datetime
    device: DevicePrompt | None = None


@dataclass
class _Flow:
    request: SignInRequest
    verifier: str = field(repr=False)
    until: float
    device_code: str | None = field(default=None, repr=False)
    interval: int = 0
    #: For a device: access to Graph is requested now, since access to mail was granted before.
    is_for_graph: bool = False
    #: The time from which the provider may be asked again.
    next_at: float = 0.0
    #: Held by the thread that asks the provider.
    provider_lock: threading.Lock = field(default_factory=threading.Lock)


class Flows:
    """Starts and finishes sign-ins, and keeps those in progress. May be used from any thread."""

    def __init__(self, logins: Logins, clock: Clock) -> None:
        self._logins, self._clock = logins, clock
        self._lock = threading.Lock()
        self._flows: dict[str, _Flow] = {}

    def loopback_host(self, provider: OAuthProvider) -> Literal["127.0.0.1", "localhost"]:
        """Return the name of this computer that the provider accepts in redirect URLs. Raises RemoteFault."""
        return self._logins.apps.get_provider(provider).loopback_host

    def start(self, asked: SignInRequest, *, device: bool = False) -> SignInStarted:
        """Start a sign-in. `device`: whether to request a code from the provider that the person types on another
        device.

        Raises AppMissing, TooManyFlows, and RemoteFault.
        """
        asking = self._get_client(asked.provider)
        state, verifier = secrets.token_urlsafe(32), oauth.new_verifier()
        flow = _Flow(asked, verifier, self._clock.monotonic() + LIFETIME)
        shown: DevicePrompt | None = None
        if device:
            flow.is_for_graph = self._lacks_graph(asked)
            shown = oauth.request_device_code(asking, self._device_scopes(asking, flow))
            self._note_device_prompt(flow, shown)
            url = shown.verification_uri
        else:
            url = self._authorization_url(asking, asked, state, verifier)
        self._add(state, flow)
        left = timedelta(seconds=flow.until - self._clock.monotonic())
        return SignInStarted(url, state, self._clock.now() + left, shown)

    def finish(
        self, provider: OAuthProvider, session_id: str, *, state: str, code: str | None, error: str | None = None
    ) -> SignInResult:
        """Finish a sign-in and return its result. `code`, `error`: what the browser returned; both None with a device
        code.

        Raises

        - StateUnknown if no such sign-in of this session is in progress,
        - NotAgreedYet if the person has not typed the device code and agreed yet,
        - NothingBrought if a sign-in in the browser has neither code nor error,
        - SignInRefused if the provider or the person refused,
        - RemoteFault for other failures.

        After NotAgreedYet or NothingBrought, or if the provider could not be reached, it can be called again.
        """
        with self._lock:
            flow = self._find(provider, session_id, state)
            if flow is None:
                raise StateUnknown
            if flow.device_code is None:
                if code is None and error is None:
                    raise NothingBrought
                del self._flows[state]
        if flow.device_code is not None:
            return self._finish_by_device(state, flow, flow.device_code)
        if error is not None or code is None:
            raise refusal_of_error(error or "")
        return self._finish_by_code(state, flow, code)

    def _get_client(self, provider: OAuthProvider) -> OAuthClient:
        if self._logins.apps.find(provider) is None:
            raise AppMissing(self._logins.apps.get_provider(provider).title)
        return self._logins.apps.get_client(provider)

    def _note_device_prompt(self, flow: _Flow, prompt: DevicePrompt) -> None:
        now = self._clock.monotonic()
        flow.device_code, flow.interval, flow.next_at = prompt.device_code, prompt.interval, now
        flow.until = min(flow.until, now + prompt.lifetime)

    def _authorization_url(self, asking: OAuthClient, asked: SignInRequest, state: str, verifier: str) -> str:
        known, login = asking.provider, self._login(asked)
        # Consent for both is requested at once; the code returns a token for the first.
        both = [*known.scopes("mail"), *known.scopes("graph", is_shared=self._is_shared(asked))]
        return oauth.authorization_url(
            asking,
            dict.fromkeys(both),
            redirect_uri=asked.redirect_uri,
            state=state,
            verifier=verifier,
            # A person who signs in for a shared mailbox has another name than the mailbox.
            hint=asked.email if login is None else login.username,
        )

    def _device_scopes(self, asking: OAuthClient, flow: _Flow) -> Iterable[str]:
        """Return the scopes to request with a device code. They are for mail, or for Microsoft Graph if this sign-in is
        for Graph.

        A device code is for one resource only, so access to both takes two sign-ins ("incremental consent"). The
        refresh token of the second sign-in works for mail too, because Microsoft does not bind refresh tokens to a
        resource (learn.microsoft.com/entra/identity-platform/refresh-tokens).
        """
        known = asking.provider
        if not flow.is_for_graph:
            return known.scopes("mail")
        who = [scope for scope in known.scopes("mail") if "://" not in scope]
        return dict.fromkeys([*who, *known.scopes("graph", is_shared=self._is_shared(flow.request))])

    def _lacks_graph(self, asked: SignInRequest) -> bool:
        account_id = asked.account_id
        if account_id is None:
            return False
        return self._is_granted(account_id, "mail") is True and self._is_granted(account_id, "graph") is False

    def _is_granted(self, account_id: str, resource: Resource) -> bool | None:
        """Whether a mailbox has access to this resource; None if the provider could not be asked."""
        try:
            self._logins.use_token(account_id, resource, str)
        except RemoteFault as fault:
            return False if fault.name == "consent_required" else None
        return True

    def _login(self, asked: SignInRequest) -> OAuthLogin | None:
        return None if asked.account_id is None else self._logins.get_login(asked.account_id)

    def _is_shared(self, asked: SignInRequest) -> bool:
        login = self._login(asked)
        return login is not None and login.is_shared

    def _add(self, state: str, flow: _Flow) -> None:
        now = self._clock.monotonic()
        with self._lock:
            self._flows = {key: each for key, each in self._flows.items() if each.until > now}
            self._make_room(MOST_OF_A_SESSION, lambda each: each.session_id == flow.request.session_id)
            self._make_room(MOST_OF_A_MEMBER, lambda each: each.member_id == flow.request.member_id)
            if len(self._flows) >= MOST_FLOWS:
                raise TooManyFlows
            self._flows[state] = flow

    def _make_room(self, most: int, is_theirs: Callable[[SignInRequest], bool]) -> None:
        """Drop the oldest of these sign-ins, so that one more makes at most `most`. The caller holds the lock."""
        theirs = [state for state, each in self._flows.items() if is_theirs(each.request)]
        for oldest in theirs[: max(0, len(theirs) - most + 1)]:
            del self._flows[oldest]

    def _find(self, provider: OAuthProvider, session_id: str, state: str) -> _Flow | None:
        flow = self._flows.get(state)
        if flow is None or flow.until <= self._clock.monotonic():
            return None
        is_own = (flow.request.provider, flow.request.session_id) == (provider, session_id)
        return flow if is_own else None

    def _finish_by_code(self, state: str, flow: _Flow, code: str) -> SignInResult:
        asking = self._get_client(flow.request.provider)
        try:
            issued = oauth.exchange_code(asking, code, redirect_uri=flow.request.redirect_uri, verifier=flow.verifier)
        except RemoteFault as fault:
            if (found := refusal_of_fault(fault)) is not None:
                raise found from fault
            # A retry is allowed: if the provider has seen the code, it then rejects it as used.
            self._add(state, flow)
            raise
        return self._to_result(asking, flow, issued)

    def _finish_by_device(self, state: str, flow: _Flow, device_code: str) -> SignInResult:
        if not flow.provider_lock.acquire(blocking=False):
            raise NotAgreedYet
        try:
            if self._clock.monotonic() < flow.next_at:
                raise NotAgreedYet
            issued = self._poll_device(flow, device_code)
            self._forget(state)
            if flow.is_for_graph:
                issued = self._request_mail_tokens(flow.request.provider, issued)
        except RemoteFault as fault:
            if (found := refusal_of_fault(fault)) is not None:
                self._forget(state)
                raise found from fault
            raise
        finally:
            flow.provider_lock.release()
        return self._to_result(self._get_client(flow.request.provider), flow, issued)

    def _poll_device(self, flow: _Flow, device_code: str) -> IssuedTokens:
        answer = oauth.poll_device_code(self._get_client(flow.request.provider), device_code)
        if not isinstance(answer, str):
            return answer
        flow.interval += _SLOW_DOWN_SECONDS if answer == "too soon" else 0
        flow.next_at = self._clock.monotonic() + flow.interval
        raise NotAgreedYet

    def _request_mail_tokens(self, provider: OAuthProvider, issued: IssuedTokens) -> IssuedTokens:
        if issued.refresh_token is None:
            return issued
        asking = self._get_client(provider).without_secret()
        mail = oauth.refresh_access(asking, issued.refresh_token, asking.provider.refresh_scopes("mail"))
        return replace(mail, refresh_token=mail.refresh_token or issued.refresh_token, claims=issued.claims)

    def _forget(self, state: str) -> None:
        with self._lock:
            self._flows.pop(state, None)

    def _to_result(self, asking: OAuthClient, flow: _Flow, issued: IssuedTokens) -> SignInResult:
        asked = flow.request
        login = to_login(asking, asked, issued, may_be_shared=asked.account_id is None or self._is_shared(asked))
        login = replace(login, by_device=flow.device_code is not None)
        return SignInResult(asked, login, self._logins.connection(login, issued.access_token), issued)
