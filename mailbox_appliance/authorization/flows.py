"""Sign-ins at a provider that somebody has begun and not finished: kept in memory, for ten minutes, good once.

    start .... makes the secrets: by `state` the sign-in is found again, by the verifier of PKCE it is shown to be ours
    finish ... the session that began it brings back what the provider said: a code, an error, or for a device nothing

Who may, where the browser is led back to, and what is kept of it is not looked at here (`operations/oauth_flows`).
"""

import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from mailbox_appliance.authorization.consent import Asked, Granted, Refused, declined, login_of, refused
from mailbox_appliance.authorization.logins import Logins
from mailbox_appliance.clock import Clock
from mailbox_appliance.model.records import OAuthLogin, OAuthProvider
from mailbox_appliance.remote import oauth
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.oauth import Asking
from mailbox_appliance.remote.oauth_answers import DevicePrompt, Issued
from mailbox_appliance.remote.providers import Resource

__all__ = ["AppMissing", "Asked", "Begun", "Device", "Flows", "Granted", "NotAgreedYet", "NothingBrought", "Refused"]
__all__ += ["StateUnknown", "TooManyFlows"]

#: Seconds for which a sign-in may be finished.
LASTS = 600.0
#: Sign-ins under way: of one session and of one member, where the oldest one gives way, and in all.
MOST_OF_A_SESSION, MOST_OF_A_MEMBER, MOST = 5, 20, 500
_SLOWER = 5  # RFC 8628 3.5


class StateUnknown(Exception):
    """No such sign-in is under way, or it was begun by another session, or for another provider."""


class NotAgreedYet(Exception):
    """Nobody has typed the code and agreed yet. The sign-in goes on."""


class NothingBrought(Exception):
    """Neither a code nor an error came back, which a browser always brings. The sign-in goes on."""


class TooManyFlows(Exception):
    """Too many sign-ins are under way."""


class AppMissing(Exception):
    """Nobody has configured an application of the provider. `title`: its name."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.title = title


@dataclass(frozen=True)
class Device:
    """What a person types, and where; `interval`: the seconds between two tries to finish."""

    user_code: str
    verification_uri: str
    interval: int


@dataclass(frozen=True)
class Begun:
    """A sign-in that has begun. `authorization_url`: what is opened in a browser."""

    authorization_url: str = field(repr=False)
    state: str = field(repr=False)
    expires_at: datetime
    device: Device | None = None


@dataclass
class _Flow:
    request: Asked
    verifier: str = field(repr=False)
    until: float
    device_code: str | None = field(default=None, repr=False)
    interval: int = 0
    #: Of a device: it is Graph that is agreed to, mail was before.
    is_for_graph: bool = False
    #: When the provider may be asked again.
    next_at: float = 0.0
    #: Held by the one who asks it.
    provider_lock: threading.Lock = field(default_factory=threading.Lock)


class Flows:
    """The sign-ins under way. May be used from any thread."""

    def __init__(self, logins: Logins, clock: Clock) -> None:
        self._logins, self._clock = logins, clock
        self._lock = threading.Lock()
        self._flows: dict[str, _Flow] = {}

    def loopback_host(self, provider: OAuthProvider) -> Literal["127.0.0.1", "localhost"]:
        """What a provider takes as the name of this computer in a redirect address. Raises RemoteFault."""
        return self._logins.apps.get_provider(provider).loopback_host

    def start(self, asked: Asked, *, device: bool = False) -> Begun:
        """Begin a sign-in. Raises AppMissing, TooManyFlows; with `device` the provider is asked: RemoteFault."""
        asking = self._get_client(asked.provider)
        state, verifier = secrets.token_urlsafe(32), oauth.new_verifier()
        flow = _Flow(asked, verifier, self._clock.monotonic() + LASTS)
        if device:
            flow.is_for_graph = self._lacks_graph(asked)
            prompt = oauth.device(asking, self._device_scopes(asking, flow))
            self._note_device_prompt(flow, prompt)
            url, shown = prompt.verification_uri, Device(prompt.user_code, prompt.verification_uri, prompt.interval)
        else:
            url, shown = self._authorization_url(asking, asked, state, verifier), None
        self._add(state, flow)
        left = timedelta(seconds=flow.until - self._clock.monotonic())
        return Begun(url, state, self._clock.now() + left, shown)

    def find_request(self, provider: OAuthProvider, session_id: str, state: str) -> Asked | None:
        """What a sign-in was begun for, if this session has it under way."""
        with self._lock:
            flow = self._find(provider, session_id, state)
        return None if flow is None else flow.request

    def finish(
        self, provider: OAuthProvider, session_id: str, *, state: str, code: str | None, error: str | None = None
    ) -> Granted:
        """What came of a sign-in: nothing more comes of it then, but where the provider could not be asked.

        Raises StateUnknown; NotAgreedYet, for a device; NothingBrought, for a browser; Refused; RemoteFault.
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
            raise declined(error or "")
        return self._finish_by_code(state, flow, code)

    def _get_client(self, provider: OAuthProvider) -> Asking:
        if self._logins.apps.find(provider) is None:
            raise AppMissing(self._logins.apps.get_provider(provider).title)
        return self._logins.apps.get_client(provider)

    def _note_device_prompt(self, flow: _Flow, prompt: DevicePrompt) -> None:
        now = self._clock.monotonic()
        flow.device_code, flow.interval, flow.next_at = prompt.device_code, prompt.interval, now
        flow.until = min(flow.until, now + prompt.lifetime)

    def _authorization_url(self, asking: Asking, asked: Asked, state: str, verifier: str) -> str:
        known, login = asking.provider, self._login(asked)
        # Consent for both is asked for at once; a code brings a token for the first.
        both = [*known.scopes("mail"), *known.scopes("graph", is_shared=self._is_shared(asked))]
        return oauth.authorization_url(
            asking,
            dict.fromkeys(both),
            redirect_uri=asked.redirect_uri,
            state=state,
            verifier=verifier,
            # Whoever signs in for a shared mailbox has another name than that.
            hint=asked.email if login is None else login.username,
        )

    def _device_scopes(self, asking: Asking, flow: _Flow) -> Iterable[str]:
        """What a code is asked for: it is for one resource, so mail comes first.

        Where Graph is needed besides, the next code is for that ("incremental consent"), and its refresh token is good
        for both, as Microsoft's are not bound to a resource (.../entra/identity-platform/refresh-tokens).
        """
        known = asking.provider
        if not flow.is_for_graph:
            return known.scopes("mail")
        who = [scope for scope in known.scopes("mail") if "://" not in scope]
        return dict.fromkeys([*who, *known.scopes("graph", is_shared=self._is_shared(flow.request))])

    def _lacks_graph(self, asked: Asked) -> bool:
        """Whether a mailbox that is connected gives its mail, and nobody has agreed to Graph. Its provider is asked."""
        account_id = asked.account_id
        if account_id is None:
            return False
        return self._is_granted(account_id, "mail") is True and self._is_granted(account_id, "graph") is False

    def _is_granted(self, account_id: str, resource: Resource) -> bool | None:
        """Whether there is access; None where that is not known."""
        try:
            self._logins.use_token(account_id, resource, str)
        except RemoteFault as fault:
            return False if fault.name == "consent_required" else None
        return True

    def _login(self, asked: Asked) -> OAuthLogin | None:
        return None if asked.account_id is None else self._logins.get_login(asked.account_id)

    def _is_shared(self, asked: Asked) -> bool:
        login = self._login(asked)
        return login is not None and login.is_shared

    def _add(self, state: str, flow: _Flow) -> None:
        now = self._clock.monotonic()
        with self._lock:
            self._flows = {key: each for key, each in self._flows.items() if each.until > now}
            self._make_room(MOST_OF_A_SESSION, lambda each: each.session_id == flow.request.session_id)
            self._make_room(MOST_OF_A_MEMBER, lambda each: each.member_id == flow.request.member_id)
            if len(self._flows) >= MOST:
                raise TooManyFlows
            self._flows[state] = flow

    def _make_room(self, most: int, is_theirs: Callable[[Asked], bool]) -> None:
        """Have the oldest ones of somebody give way. The lock is held."""
        theirs = [state for state, each in self._flows.items() if is_theirs(each.request)]
        for oldest in theirs[: max(0, len(theirs) - most + 1)]:
            del self._flows[oldest]

    def _find(self, provider: OAuthProvider, session_id: str, state: str) -> _Flow | None:
        flow = self._flows.get(state)
        if flow is None or flow.until <= self._clock.monotonic():
            return None
        is_own = (flow.request.provider, flow.request.session_id) == (provider, session_id)
        return flow if is_own else None

    def _finish_by_code(self, state: str, flow: _Flow, code: str) -> Granted:
        asking = self._get_client(flow.request.provider)
        try:
            issued = oauth.exchange(asking, code, redirect_uri=flow.request.redirect_uri, verifier=flow.verifier)
        except RemoteFault as fault:
            if (found := refused(fault)) is not None:
                raise found from fault
            # It may be brought once more: where the provider has seen it all the same, it says that it is over.
            self._add(state, flow)
            raise
        return self._to_result(asking, flow, issued)

    def _finish_by_device(self, state: str, flow: _Flow, device_code: str) -> Granted:
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
            if (found := refused(fault)) is not None:
                self._forget(state)
                raise found from fault
            raise
        finally:
            flow.provider_lock.release()
        return self._to_result(self._get_client(flow.request.provider), flow, issued)

    def _poll_device(self, flow: _Flow, device_code: str) -> Issued:
        answer = oauth.agreed(self._get_client(flow.request.provider), device_code)
        if not isinstance(answer, str):
            return answer
        flow.interval += _SLOWER if answer == "too soon" else 0
        flow.next_at = self._clock.monotonic() + flow.interval
        raise NotAgreedYet

    def _request_mail_tokens(self, provider: OAuthProvider, issued: Issued) -> Issued:
        """The tokens for mail, by those that came for Graph. Raises RemoteFault."""
        if issued.refresh_token is None:
            return issued
        asking = self._get_client(provider).without_secret()
        mail = oauth.renew(asking, issued.refresh_token, asking.provider.refresh_scopes("mail"))
        return replace(mail, refresh_token=mail.refresh_token or issued.refresh_token, claims=issued.claims)

    def _forget(self, state: str) -> None:
        with self._lock:
            self._flows.pop(state, None)

    def _to_result(self, asking: Asking, flow: _Flow, issued: Issued) -> Granted:
        asked = flow.request
        login = login_of(asking, asked, issued, may_be_shared=asked.account_id is None or self._is_shared(asked))
        login = replace(login, by_device=flow.device_code is not None)
        return Granted(asked, login, self._logins.connection(login, issued.access_token), issued)
