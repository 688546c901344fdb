"""Access tokens for mailboxes, kept in memory only, and the OAuth applications that request them.

Whether a token is renewed depends on its state:

    young ..... it is returned as it is
    ending .... less than 5 minutes are left: one caller renews it. Until that is done, other callers get the current
                one. So do all callers while the provider cannot be reached
    expired ... one caller renews it, and the others wait for the result
    refused ... a mail server refused it: it is renewed once, unless it was issued a moment ago

A provider may issue a new refresh token too. It is stored before the new access token is used, unless a new sign-in has
replaced the old refresh token in the meantime. After a crash before it is stored, the old refresh token is used again.
Providers that replace refresh tokens accept the old one for a while.

If a provider fails, it is not asked again for some seconds, and all callers get the same fault.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import OAuthApp, OAuthLogin, OAuthProvider
from mailbox_appliance.oauth.environment import EnvironmentApps
from mailbox_appliance.remote import oauth, providers
from mailbox_appliance.remote.errors import RemoteFault, account_error_of
from mailbox_appliance.remote.oauth import IssuedTokens, OAuthClient
from mailbox_appliance.remote.providers import KnownProvider, Resource
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

# --- Applications: from the environment, else from the store ---


class Apps:
    """Finds the OAuth application for a provider: from the environment, otherwise from the store. Thread-safe."""

    def __init__(self, store: Store, settings: Settings, given: EnvironmentApps) -> None:
        self._store, self._settings, self._given = store, settings, given

    def find(self, provider: OAuthProvider) -> OAuthApp | None:
        """Return the OAuth application to use for a provider, with its secret; None if none is configured."""
        given = self._given.get(provider)
        return self._store.oauth_apps.find(provider) if given is None else given.app

    def get_provider(self, provider: OAuthProvider) -> KnownProvider:
        """Return the URLs and scopes of a provider, with the operator's changes. Raises RemoteFault if these are
        invalid.
        """
        return providers.get_provider(self._settings, provider)

    def get_client(self, provider: OAuthProvider) -> OAuthClient:
        """Return the client for OAuth requests to a provider. Raises RemoteFault if no application is configured."""
        app = self.find(provider)
        known = self.get_provider(provider)
        if app is None:
            raise app_missing_fault(known.title)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return OAuthClient(known, app, ca_file, timeout)


def app_missing_fault(title: str) -> RemoteFault:
    """Return the fault for a mailbox if no OAuth application is configured for its provider. `title`: the provider's
    name.
    """
    reason = (
        f"No OAuth application for {title} is configured. Ask an administrator to set the one that was used before."
    )
    fault = RemoteFault("oauth", "refused", reason)
    fault.name = "oauth_app_refused"
    return fault


# --- Tokens ---


log = logging.getLogger(__name__)

#: Seconds before its expiry when a token is renewed; half the lifetime of a token that is valid for less than twice
#: that.
RENEW_EARLY = 300.0
#: Seconds for which a token is so new that renewing it after a refusal would not help.
JUST_GIVEN = 30.0
#: Seconds for which a provider is not asked again: after no answer, after rate limiting (unless it names a time), after
#: a refusal. A new sign-in ends each.
RETRY_DELAY, RETRY_DELAY_THROTTLED, RETRY_DELAY_REFUSED = 5.0, 60.0, 60.0
#: The shortest such time while the current token is valid: no caller should wait for a provider repeatedly without
#: need.
RETRY_DELAY_WHILE_GOOD = 30.0
_NO_GRAPH = (
    "Access to Microsoft Graph was not granted for this mailbox. The appliance needs it to send if SMTP is off,"
    " and to read the sender addresses. Sign in again, in a browser or with a code, and agree to it."
)
# A new sign-in can happen during a renewal; then the answer for the old refresh token is discarded.
_MOST_TRIES = 3


@dataclass(frozen=True)
class _Token:
    """An access token. The wall clock can be set, and the monotonic one can stop in sleep: the larger age counts."""

    text: str = field(repr=False)
    lifetime: float
    monotonic: float
    wall: float

    def seconds_left(self, clock: Clock) -> float:
        """Return the seconds until the token expires; negative afterwards."""
        return self.lifetime - self.age(clock)

    def age(self, clock: Clock) -> float:
        return max(clock.monotonic() - self.monotonic, clock.now().timestamp() - self.wall)

    def is_ending(self, clock: Clock) -> bool:
        return self.seconds_left(clock) <= min(RENEW_EARLY, self.lifetime / 2)


@dataclass
class _TokenSlot:
    """The token of a mailbox for one resource. `lock` is never held while a provider is asked."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    token: _Token | None = None
    renewal: "Future[str] | None" = None
    #: The last fault, the refresh token that it is about, and until when it applies.
    fault: RemoteFault | None = None
    failed_refresh_token: str = field(default="", repr=False)
    until: float = 0.0


class AccessTokens:
    """Provides valid access tokens for mailboxes, and renews them. May be used from any thread."""

    def __init__(self, store: Store, apps: Apps, clock: Clock) -> None:
        self._store, self._apps, self._clock = store, apps, clock
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, Resource], _TokenSlot] = {}
        #: One lock per mailbox: if a provider rotates refresh tokens, each is valid for one request.
        self._renewing: dict[str, threading.Lock] = {}

    def get_login(self, account_id: str) -> OAuthLogin:
        """Return the OAuth login of a mailbox. Raises NotFound, also for a mailbox that uses passwords."""
        login = self._store.oauth_logins.find(account_id)
        if login is None:
            raise NotFound(what="mailbox")
        return login

    def get(self, account_id: str, resource: Resource) -> str:
        """Return a valid access token for a mailbox and a resource (`mail` or `graph`). This may ask the provider.

        Raises NotFound and RemoteFault; its kind `login_refused` means that a person must sign in again.
        """
        need = self._slot(account_id, resource)
        with need.lock:
            token, is_first = need.token, need.renewal is None
            if token is not None and (not token.is_ending(self._clock) or (not is_first and self._is_good(token))):
                return token.text
            if need.renewal is None:
                need.renewal = Future()
            under_way = need.renewal
        if is_first:
            self._resolve(need, under_way, lambda: self._renew(need, account_id, resource))
        return _await_token(under_way)

    def refuse(self, account_id: str, resource: Resource, text: str) -> bool:
        """Record that a server refused an access token (`text`). Returns whether `get` can provide another one to try.

        It cannot if the refused token was issued only a moment ago.
        """
        need = self._slot(account_id, resource)
        with need.lock:
            token = need.token
            if token is not None and token.text == text:
                if token.age(self._clock) < JUST_GIVEN:
                    return False
                need.token = None
        return True

    def keep(self, account_id: str, resource: Resource, issued: IssuedTokens) -> None:
        """Store the access token that a sign-in issued. Earlier tokens of the mailbox, and pauses after errors, are
        forgotten.
        """
        self._clear(account_id, is_new=True)
        need = self._slot(account_id, resource)
        with need.lock:
            need.token = self._to_token(issued)

    def forget(self, account_id: str) -> None:
        """Forget the access tokens of a mailbox, so that the next caller requests a new one.

        If a request is in progress, callers still wait for it. If the provider asked to wait before the next request,
        callers still get that fault until the time has passed.
        """
        self._clear(account_id, is_new=False)

    def remove(self, account_id: str) -> None:
        """Forget all access tokens of a mailbox that was removed."""
        with self._lock:
            for key in [key for key in self._slots if key[0] == account_id]:
                del self._slots[key]
            self._renewing.pop(account_id, None)

    def _clear(self, account_id: str, *, is_new: bool) -> None:
        with self._lock:
            needs = [need for (of, _), need in self._slots.items() if of == account_id]
        for need in needs:
            with need.lock:
                need.token = None
                if is_new or need.fault is None or need.fault.kind != "throttled":
                    need.fault = None

    def _slot(self, account_id: str, resource: Resource) -> _TokenSlot:
        with self._lock:
            return self._slots.setdefault((account_id, resource), _TokenSlot())

    def _resolve(self, need: _TokenSlot, under_way: "Future[str]", act: Callable[[], str]) -> None:
        try:
            text = act()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            with need.lock:
                need.renewal = None
            under_way.set_exception(error)
        else:
            with need.lock:
                need.renewal = None
            under_way.set_result(text)

    def _renew(self, need: _TokenSlot, account_id: str, resource: Resource) -> str:
        with self._lock:
            renewing = self._renewing.setdefault(account_id, threading.Lock())
        with renewing:
            for _ in range(_MOST_TRIES):
                login = self.get_login(account_id)
                if (token := need.token) is not None and not token.is_ending(self._clock):
                    return token.text  # a sign-in provided it during the wait
                is_resting = need.failed_refresh_token == login.refresh_token and self._must_wait(need)
                text = (
                    self._present_token(need) if is_resting else self._request_token(need, account_id, login, resource)
                )
                if text is not None:
                    return text
        raise RemoteFault("oauth", "disconnected", "A new sign-in to this mailbox is in progress. Try again.")

    def _request_token(self, need: _TokenSlot, account_id: str, login: OAuthLogin, resource: Resource) -> str | None:
        """Request an access token from the provider, store it in `need`, and return it. `need`: the slot for this
        mailbox and resource. `login`: the stored login whose refresh token is sent.

        If the provider fails, the current token is returned while it is valid; otherwise raises RemoteFault. Returns
        None if the caller must start again: a new login has replaced `login`, or `forget` was called.
        """
        before = login.refresh_token
        try:
            asking = self._apps.get_client(login.provider)
            scopes = asking.provider.refresh_scopes(resource, is_shared=login.is_shared)
            issued = oauth.refresh_access(asking.without_secret() if login.by_device else asking, before, scopes)
        except RemoteFault as fault:
            if resource == "graph" and fault.name == "consent_required":
                fault.reason = _NO_GRAPH
            is_over = fault.kind == "login_refused" and resource == "mail"
            if not (
                self._note_login_refused(account_id, before, fault)
                if is_over
                else self._replace(account_id, before, before)
            ):
                return None
            self._note_fault(need, before, fault)
            return self._present_token(need)
        after = issued.refresh_token or before
        if not self._replace(account_id, before, after):
            return None
        with need.lock:
            if not self._replace(account_id, after, after):  # a new sign-in has replaced it
                return None
            need.token, need.fault = self._to_token(issued), None
        return issued.access_token

    def _replace(self, account_id: str, before: str, after: str) -> bool:
        return self._store.oauth_logins.replace_token(account_id, before, after)

    def _note_login_refused(self, account_id: str, refresh_token: str, fault: RemoteFault) -> bool:
        """Store that a person must sign in again; return False if a new sign-in has replaced `refresh_token`."""
        try:
            is_so = self._store.accounts.note_refused_token(account_id, refresh_token, account_error_of(fault))
        except Exception:
            log.exception("account_status_not_recorded", extra={"accountId": account_id})
            return True
        if is_so:
            log.warning("oauth_access_lost", extra={"accountId": account_id, "fault": fault.name})
        return is_so

    def _note_fault(self, need: _TokenSlot, refresh_token: str, fault: RemoteFault) -> None:
        rests = {"throttled": RETRY_DELAY_THROTTLED, "login_refused": RETRY_DELAY_REFUSED}
        rest = fault.retry_after if fault.retry_after is not None else rests.get(fault.kind, RETRY_DELAY)
        with need.lock:
            if fault.kind == "login_refused":
                need.token = None  # a revoked token must not be used further
            elif need.token is not None and self._is_good(need.token):
                rest = max(rest, RETRY_DELAY_WHILE_GOOD)
            need.fault, need.failed_refresh_token, need.until = (
                fault.copy(),
                refresh_token,
                self._clock.monotonic() + rest,
            )

    def _must_wait(self, need: _TokenSlot) -> bool:
        return need.fault is not None and self._clock.monotonic() < need.until

    def _present_token(self, need: _TokenSlot) -> str | None:
        """Return the current token if it is still valid; otherwise raise the last fault. None if there is neither."""
        with need.lock:
            if need.token is not None and self._is_good(need.token):
                return need.token.text
            if need.fault is None:
                return None
            fault = need.fault.copy()
            if fault.kind == "throttled":
                fault.retry_after = max(0.0, need.until - self._clock.monotonic())
            raise fault

    def _is_good(self, token: _Token) -> bool:
        return token.seconds_left(self._clock) > 1.0

    def _to_token(self, issued: IssuedTokens) -> _Token:
        return _Token(issued.access_token, issued.lifetime, self._clock.monotonic(), self._clock.now().timestamp())


def _await_token(under_way: "Future[str]") -> str:
    try:
        return under_way.result()
    except RemoteFault as fault:
        # Each waiting caller raises a copy of its own, since callers change it.
        raise fault.copy() from fault
