"""Open every connection to a mailbox's servers, with its password or a valid access token.

    endpoint ............... host, port and user name of a server, to compare connections; sends no request
    open_imap, open_smtp ... open a connection that is signed in
    use_token .............. calls a function that sends HTTPS requests with an access token

An access token that is about to expire is renewed before use, once for all callers (`oauth.tokens`). If a server
refuses a token, it is renewed once more, because clocks differ and providers revoke tokens. The sign-in fails only if
the new token is refused too. Any of this may send a request to the provider, so callers must not have a transaction
open.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

from mailbox_appliance.clock import Clock, SystemClock
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
    """Opens connections to mailboxes' servers, and gets access tokens for them. May be used from any thread."""

    def __init__(
        self, store: Store, settings: Settings, clock: Clock | None = None, given: EnvironmentApps | None = None
    ) -> None:
        """`given`: the OAuth applications from the environment, which override those in the store."""
        self._store, self._settings = store, settings
        #: The applications that authenticate requests to providers.
        self.apps = Apps(store, settings, given or {})
        self._tokens = AccessTokens(store, self.apps, clock or SystemClock())

    def endpoint(self, account_id: str, server: MailProtocol) -> Endpoint:
        """Return host, port and user name of a mailbox's server. The endpoint includes the password of a mailbox that
        has one, but never an access token. Raises NotFound.
        """
        login = self._store.oauth_logins.find(account_id)
        if login is not None:
            return self._endpoint(login, server, None)
        connection = self._store.accounts.get_connection(account_id)
        return connection.imap if server == "imap" else connection.smtp

    def get_login(self, account_id: str) -> OAuthLogin:
        """Return the OAuth login of a mailbox. Raises NotFound, also for a mailbox that uses passwords."""
        return self._tokens.get_login(account_id)

    def open_imap(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """Call `opening` with the mailbox's IMAP endpoint, including a password or a valid access token. Returns its
        result.

        `opening` is called once more if the server refuses the token. Raises NotFound and RemoteFault.
        """
        return self._open(account_id, "imap", opening)

    def open_smtp(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """Call `opening` with the mailbox's SMTP endpoint, including a password or a valid access token. Returns its
        result.

        `opening` is called once more if the server refuses the token. Raises NotFound and RemoteFault.
        """
        return self._open(account_id, "smtp", opening)

    def use_token(self, account_id: str, resource: Resource, use: Callable[[str], T]) -> T:
        """Call `use` with a valid access token for the resource (`mail` or `graph`). Returns its result.

        `use` is called once more, with another token, if a server refused the first one. Raises NotFound and
        RemoteFault.
        """
        text = self._tokens.get(account_id, resource)
        try:
            return use(text)
        except RemoteFault as fault:
            if not _is_token_fault(fault) or not self._tokens.refuse(account_id, resource, text):
                raise
        return use(self._tokens.get(account_id, resource))

    def refuse_token(self, account_id: str, resource: Resource, text: str) -> None:
        """Record that a server refused an access token (`text`), so that the next caller gets another one.

        Use this for requests that must not be repeated automatically. `use_token` would repeat them.
        """
        self._tokens.refuse(account_id, resource, text)

    def get_graph(self, account_id: str) -> Graph:
        """Return the Microsoft Graph client for an Outlook mailbox. Its methods need an access token for `graph`.

        Raises NotFound and RemoteFault.
        """
        login = self.get_login(account_id)
        known = providers.get_provider(self._settings, login.provider)
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return Graph(known, login.email if login.is_shared else None, ca_file=ca_file, timeout=timeout)

    def fetch_sender_addresses(self, account_id: str) -> tuple[SenderAddress, ...] | None:
        """Return the addresses from which the provider lets a mailbox send; None for a shared mailbox, which has no
        such list.

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
        """Return the connection data of a mailbox that is not stored yet: its IMAP and SMTP servers, both with this
        access token.
        """
        endpoints = [self._endpoint(login, server, access_token) for server in ("imap", "smtp")]
        return Connection(login.email, *endpoints)

    def keep_tokens(self, account_id: str, issued: IssuedTokens) -> None:
        """Keep the access token that a sign-in issued. Call it after the login is stored."""
        self._tokens.keep(account_id, "mail", issued)

    def forget_tokens(self, account_id: str) -> None:
        """Forget the access tokens of a mailbox, so that the next caller requests a new one.

        If the provider asked to wait before the next request, callers get its RemoteFault until that time has passed.
        """
        self._tokens.forget(account_id)

    def remove_account(self, account_id: str) -> None:
        """Forget all access tokens of a mailbox that was removed."""
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
