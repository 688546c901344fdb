"""Opens every connection to a mailbox's servers: by a password, or by an access token that is valid now.

    endpoint ............... how a server is reached, without asking anybody; what connections are compared by
    open_imap, open_smtp ... open a connection with a login that is valid now
    use_token .............. the same for requests over HTTPS

A token that is about to end is renewed before it is used, once, however many need it (`oauth.tokens`). One that a
server refuses all the same is renewed once more, as clocks differ and providers revoke tokens; only if the new one is
refused too, the login is refused. All of it may ask the provider: no transaction may be open.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import Connection, Endpoint, OAuthLogin, SenderAddress
from mailbox_appliance.oauth.environment import EnvironmentApps
from mailbox_appliance.oauth.tokens import AccessTokens, Apps
from mailbox_appliance.remote import providers, send_as
from mailbox_appliance.remote.errors import RemoteFault, hide_cause
from mailbox_appliance.remote.graph import Graph
from mailbox_appliance.remote.oauth import IssuedTokens
from mailbox_appliance.remote.providers import Resource
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

T = TypeVar("T")
MailProtocol = Literal["imap", "smtp"]


class Logins:
    """Opens connections. May be used from any thread."""

    def __init__(
        self, store: Store, settings: Settings, clock: Clock | None = None, given: EnvironmentApps | None = None
    ) -> None:
        """`given`: the applications that the environment gives."""
        self._store, self._settings = store, settings
        #: The applications that providers are asked by.
        self.apps = Apps(store, settings, given or {})
        self._tokens = AccessTokens(store, self.apps, clock or SystemClock())

    def endpoint(self, account_id: str, server: MailProtocol) -> Endpoint:
        """How a server of a mailbox is reached; without a token. Raises NotFound."""
        login = self._store.oauth_logins.find(account_id)
        if login is not None:
            return self._endpoint(login, server, None)
        connection = self._store.accounts.get_connection(account_id)
        return connection.imap if server == "imap" else connection.smtp

    def get_login(self, account_id: str) -> OAuthLogin:
        """How a mailbox of Google or Outlook is logged in to. Raises NotFound, also for one that has passwords."""
        login = self._store.oauth_logins.find(account_id)
        if login is None:
            raise NotFound(what="mailbox")
        return login

    def open_imap(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """What `opening` makes of an endpoint whose login is valid now. Raises NotFound, and RemoteFault."""
        return self._open(account_id, "imap", opening)

    def open_smtp(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """As `open_imap`, for the server that accepts mail."""
        return self._open(account_id, "smtp", opening)

    def use_token(self, account_id: str, resource: Resource, use: Callable[[str], T]) -> T:
        """What `use` makes of an access token that is valid now. Raises NotFound, and RemoteFault.

        `use` is called once more, with another token, if a server refused this one and names no other cause.
        """
        text = self._tokens.get(account_id, resource)
        try:
            return use(text)
        except RemoteFault as fault:
            if not _is_token_fault(fault) or not self._tokens.refuse(account_id, resource, text):
                raise
        return use(self._tokens.get(account_id, resource))

    def refuse_token(self, account_id: str, resource: Resource, text: str) -> None:
        """A server has refused a token where nothing is to be asked twice: the next `token` gives another one."""
        self._tokens.refuse(account_id, resource, text)

    def get_graph(self, account_id: str) -> Graph:
        """Where the mail of a mailbox of Outlook is asked for over HTTPS; with `token` for `graph`. Raises NotFound."""
        login = self.get_login(account_id)
        known = providers.get_provider(self._settings, login.provider)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return Graph(known, login.email if login.is_shared else None, ca_file=ca_file, timeout=timeout)

    def fetch_sender_addresses(self, account_id: str) -> tuple[SenderAddress, ...] | None:
        """What the provider says that a mailbox may send as; None of a shared one, of which it says nothing.

        Raises NotFound, and RemoteFault.
        """
        login = self.get_login(account_id)
        if login.is_shared:
            return None
        known = providers.get_provider(self._settings, login.provider)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        resource = send_as.TOKEN_RESOURCES[login.provider]
        ask = partial(send_as.fetch_sender_addresses, known, ca_file=ca_file, timeout=timeout)
        return self.use_token(account_id, resource, ask)

    def connection(self, login: OAuthLogin, access_token: str) -> Connection:
        """How the servers of a mailbox that is not kept yet are reached, and logged in to now."""
        endpoints = [self._endpoint(login, server, access_token) for server in ("imap", "smtp")]
        return Connection(login.email, *endpoints)

    def keep_tokens(self, account_id: str, issued: IssuedTokens) -> None:
        """Keep the token for mail that came with a sign-in, after the login that came with it is stored."""
        self._tokens.keep(account_id, "mail", issued)

    def forget_tokens(self, account_id: str) -> None:
        """Know no token of a mailbox any more: its provider is asked the next time, unless it said to wait."""
        self._tokens.forget(account_id)

    def remove_account(self, account_id: str) -> None:
        """Know nothing of a mailbox that is gone."""
        self._tokens.remove(account_id)

    def _open(self, account_id: str, server: MailProtocol, opening: Callable[[Endpoint], T]) -> T:
        login = self._store.oauth_logins.find(account_id)
        if login is None:
            return self._open_by_password(account_id, self.endpoint(account_id, server), opening)
        endpoint = self._endpoint(login, server, None)
        return self.use_token(account_id, "mail", lambda text: opening(replace(endpoint, token=text)))

    def _open_by_password(self, account_id: str, endpoint: Endpoint, opening: Callable[[Endpoint], T]) -> T:
        try:
            return opening(endpoint)
        except RemoteFault as fault:
            # A member's host name may lead to another address than it did when the mailbox was connected.
            if fault.is_unproven and not self._is_of_administrator(account_id):
                raise hide_cause(fault) from fault
            raise

    def _is_of_administrator(self, account_id: str) -> bool:
        owner_id = self._store.accounts.get(account_id).owner_member_id
        return self._store.members.get(owner_id).role == "admin"

    def _endpoint(self, login: OAuthLogin, server: MailProtocol, token: str | None) -> Endpoint:
        known = providers.get_provider(self._settings, login.provider)
        place = known.imap if server == "imap" else known.smtp
        return Endpoint(place.host, place.port, place.security, login.email, "", token)


def _is_token_fault(fault: RemoteFault) -> bool:
    return fault.kind == "login_refused" and fault.name in (None, "token_refused")
