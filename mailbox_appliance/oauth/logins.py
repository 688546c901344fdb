"""Opens every connection to a mailbox's servers: with a password, or with a valid access token.

    endpoint ............... the address of a server, without any request; connections are compared by it
    open_imap, open_smtp ... open a connection with a valid login
    use_token .............. the same for requests over HTTPS

A token that is about to expire is renewed before use, once for all that need it (`oauth.tokens`). A token that a server
still refuses is renewed once more, as clocks differ and providers revoke tokens; only if the new one is refused too,
the login counts as refused. All of it may ask the provider, so no transaction may be open.
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
        """`given`: the applications from the environment."""
        self._store, self._settings = store, settings
        #: The applications that authenticate requests to providers.
        self.apps = Apps(store, settings, given or {})
        self._tokens = AccessTokens(store, self.apps, clock or SystemClock())

    def endpoint(self, account_id: str, server: MailProtocol) -> Endpoint:
        """Return the address and login of a mailbox's server, without a token. Raises NotFound."""
        login = self._store.oauth_logins.find(account_id)
        if login is not None:
            return self._endpoint(login, server, None)
        connection = self._store.accounts.get_connection(account_id)
        return connection.imap if server == "imap" else connection.smtp

    def get_login(self, account_id: str) -> OAuthLogin:
        """Return the OAuth login of a mailbox. Raises NotFound, also for a mailbox with passwords."""
        login = self._store.oauth_logins.find(account_id)
        if login is None:
            raise NotFound(what="mailbox")
        return login

    def open_imap(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """Return what `opening` returns for an endpoint with a valid login. Raises NotFound and RemoteFault."""
        return self._open(account_id, "imap", opening)

    def open_smtp(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """Do the same as `open_imap` for the SMTP server."""
        return self._open(account_id, "smtp", opening)

    def use_token(self, account_id: str, resource: Resource, use: Callable[[str], T]) -> T:
        """Return what `use` returns for a valid access token. Raises NotFound and RemoteFault.

        `use` is called once more, with another token, if a server refused this one and named no other cause.
        """
        text = self._tokens.get(account_id, resource)
        try:
            return use(text)
        except RemoteFault as fault:
            if not _is_token_fault(fault) or not self._tokens.refuse(account_id, resource, text):
                raise
        return use(self._tokens.get(account_id, resource))

    def refuse_token(self, account_id: str, resource: Resource, text: str) -> None:
        """Record that a server refused a token, for requests that must not be repeated: the next one gets another
        token.
        """
        self._tokens.refuse(account_id, resource, text)

    def get_graph(self, account_id: str) -> Graph:
        """Return the Graph client of an Outlook mailbox; it needs a token for `graph`. Raises NotFound."""
        login = self.get_login(account_id)
        known = providers.get_provider(self._settings, login.provider)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return Graph(known, login.email if login.is_shared else None, ca_file=ca_file, timeout=timeout)

    def fetch_sender_addresses(self, account_id: str) -> tuple[SenderAddress, ...] | None:
        """Return the addresses that the provider lets a mailbox send from; None for a shared one, which has no such
        list.

        Raises NotFound and RemoteFault.
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
        """Return the servers of a mailbox that is not stored yet, with this access token."""
        endpoints = [self._endpoint(login, server, access_token) for server in ("imap", "smtp")]
        return Connection(login.email, *endpoints)

    def keep_tokens(self, account_id: str, issued: IssuedTokens) -> None:
        """Keep the token for mail from a sign-in, after its login is stored."""
        self._tokens.keep(account_id, "mail", issued)

    def forget_tokens(self, account_id: str) -> None:
        """Forget the tokens of a mailbox, so that its provider is asked next time, unless the provider asked to
        wait.
        """
        self._tokens.forget(account_id)

    def remove_account(self, account_id: str) -> None:
        """Forget everything about a removed mailbox."""
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
            # A member's host name may resolve to another address than when the mailbox was connected.
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
