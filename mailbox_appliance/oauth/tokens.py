"""Access tokens, kept in memory only, and the applications that they are requested with.

    young ....... returned as it is
    ending ...... less than 5 minutes left: renewed; whoever comes meanwhile, and everybody while the provider cannot be
                  reached, goes on with the present one
    over ........ renewed; whoever comes meanwhile waits for the same answer
    refused ..... by the server it was for: renewed once, unless it was issued a moment ago

The refresh token in the store is replaced, on the disk, before the access token that came with it is used, and only by
the one that it brought: a crash in between leaves the old one, which providers that issue new ones accept for a while
longer. A provider that failed to answer is not asked again at once: all who need the token get the same fault.
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

# --- Applications: the operator's, else the one that is saved ---


class Apps:
    """Says who asks a provider. May be used from any thread."""

    def __init__(self, store: Store, settings: Settings, given: EnvironmentApps) -> None:
        self._store, self._settings, self._given = store, settings, given

    def find(self, provider: OAuthProvider) -> OAuthApp | None:
        """The application in force for a provider, with its secret; None where nobody configured one."""
        given = self._given.get(provider)
        return self._store.oauth_apps.find(provider) if given is None else given.app

    def get_provider(self, provider: OAuthProvider) -> KnownProvider:
        """Where a provider is asked, as the operator has it. Raises RemoteFault."""
        return providers.get_provider(self._settings, provider)

    def get_client(self, provider: OAuthProvider) -> OAuthClient:
        """What a provider is asked with now. Raises RemoteFault where there is no application."""
        app = self.find(provider)
        known = self.get_provider(provider)
        if app is None:
            raise app_missing_fault(known.title)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return OAuthClient(known, app, ca_file, timeout)


def app_missing_fault(title: str) -> RemoteFault:
    """There is no application any more that a mailbox was connected by."""
    reason = (
        f"No OAuth application for {title} is configured. Ask an administrator to set the one that was used before."
    )
    fault = RemoteFault("oauth", "refused", reason)
    fault.name = "oauth_app_refused"
    return fault


# --- Tokens ---


log = logging.getLogger(__name__)

#: Seconds before its end when a token is renewed; of one that lasts less than twice as long, half its life.
RENEW_EARLY = 300.0
#: Seconds within which a refused token counts as one that another will not mend.
JUST_GIVEN = 30.0
#: Seconds for which a provider is not asked again: one that did not answer, that wants to be asked less often (where it
#: does not say how long), that said no. Signing in anew ends each.
RETRY_DELAY, RETRY_DELAY_THROTTLED, RETRY_DELAY_REFUSED = 5.0, 60.0, 60.0
#: The least of it while the present token is good: nobody shall wait for a provider again and again without need.
RETRY_DELAY_WHILE_GOOD = 30.0
_NO_GRAPH = (
    "Access to Microsoft Graph was not granted for this mailbox. The appliance needs it to send if SMTP is off,"
    " and to read the sender addresses. Sign in again, in a browser or with a code, and agree to it."
)
# Somebody signs in anew just when a token is renewed: then what was asked with the old refresh token counts no more.
_MOST_TRIES = 3


@dataclass(frozen=True)
class _Token:
    """By two clocks: one may be set, the other may stand still while the computer sleeps."""

    text: str = field(repr=False)
    lifetime: float
    monotonic: float
    wall: float

    def seconds_left(self, clock: Clock) -> float:
        """The seconds that it is still good for."""
        return self.lifetime - self.age(clock)

    def age(self, clock: Clock) -> float:
        return max(clock.monotonic() - self.monotonic, clock.now().timestamp() - self.wall)

    def is_ending(self, clock: Clock) -> bool:
        return self.seconds_left(clock) <= min(RENEW_EARLY, self.lifetime / 2)


@dataclass
class _TokenSlot:
    """A mailbox and what its tokens are for. `lock` is held for moments; nobody waits for a provider with it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    token: _Token | None = None
    renewal: "Future[str] | None" = None
    #: The last bad answer, for which refresh token, and until when it counts.
    fault: RemoteFault | None = None
    failed_refresh_token: str = field(default="", repr=False)
    until: float = 0.0


class AccessTokens:
    """Gives access tokens. May be used from any thread."""

    def __init__(self, store: Store, apps: Apps, clock: Clock) -> None:
        self._store, self._apps, self._clock = store, apps, clock
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, Resource], _TokenSlot] = {}
        #: Refresh tokens are good for one request at a time, where providers replace them: one lock a mailbox.
        self._renewing: dict[str, threading.Lock] = {}

    def get(self, account_id: str, resource: Resource) -> str:
        """A token that is good now. Raises NotFound, and RemoteFault; `login_refused`: somebody must sign in again."""
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
        """A server refuses a token; whether another one, which `get` gives from now on, may be worth trying."""
        need = self._slot(account_id, resource)
        with need.lock:
            token = need.token
            if token is not None and token.text == text:
                if token.age(self._clock) < JUST_GIVEN:
                    return False
                need.token = None
        return True

    def keep(self, account_id: str, resource: Resource, issued: IssuedTokens) -> None:
        """Keep a token that came with a sign-in. What was known of the mailbox before is forgotten."""
        self._clear(account_id, is_new=True)
        need = self._slot(account_id, resource)
        with need.lock:
            need.token = self._to_token(issued)

    def forget(self, account_id: str) -> None:
        """Know no token of a mailbox any more: it is to be tried now.

        A request that is under way is waited for by whoever comes next, and a provider that wants us to wait is obeyed.
        """
        self._clear(account_id, is_new=False)

    def remove(self, account_id: str) -> None:
        """Know nothing of a mailbox any more: it is gone."""
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
                login = self._login(account_id)
                if (token := need.token) is not None and not token.is_ending(self._clock):
                    return token.text  # it came with a sign-in meanwhile
                is_resting = need.failed_refresh_token == login.refresh_token and self._must_wait(need)
                text = (
                    self._present_token(need) if is_resting else self._request_token(need, account_id, login, resource)
                )
                if text is not None:
                    return text
        raise RemoteFault("oauth", "disconnected", "A new sign-in to this mailbox is in progress. Try again.")

    def _request_token(self, need: _TokenSlot, account_id: str, login: OAuthLogin, resource: Resource) -> str | None:
        """A token that the provider gives for a login; None where it is to be asked anew.

        Another login has taken its place meanwhile, or somebody wants it tried.
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
            if not self._replace(account_id, after, after):  # somebody has signed in since: theirs counts
                return None
            need.token, need.fault = self._to_token(issued), None
        return issued.access_token

    def _login(self, account_id: str) -> OAuthLogin:
        login = self._store.oauth_logins.find(account_id)
        if login is None:  # one with passwords has taken the place of none: ids are never given twice
            raise NotFound(what="mailbox")
        return login

    def _replace(self, account_id: str, before: str, after: str) -> bool:
        return self._store.oauth_logins.replace_token(account_id, before, after)

    def _note_login_refused(self, account_id: str, refresh_token: str, fault: RemoteFault) -> bool:
        """Note that somebody must sign in again, whoever met it first; connections that are open may last a while.

        False where somebody has.
        """
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
                need.token = None  # nobody goes on with what was taken back
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
        """The present token, as long as it lasts; None where it is to be tried now. Raises the last fault."""
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
        # Each who waited raises one of their own: they go different ways.
        raise fault.copy() from fault
