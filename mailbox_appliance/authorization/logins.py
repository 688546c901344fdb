"""What every connection to a mailbox's servers is opened with: a password, or an access token that is good now.

    endpoint ..... how a server is reached, without asking anybody; what connections are compared by
    imap, smtp ... open a connection with a login that is good now
    token ........ an access token for what is asked over HTTPS

A token that is about to end is renewed before it is used, once, however many need it (`tokens`). One that a server
refuses all the same is renewed once more, as clocks differ and providers take back what they gave; only what is refused
then is a refused login. All of it may ask the provider: no transaction may be open.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from mailbox_appliance.records import Endpoint
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

T = TypeVar("T")
Server = Literal["imap", "smtp"]
#: What an access token is for: mail is IMAP and SMTP; a provider's tokens are good for one of them.
Resource = Literal["mail", "graph"]


class Logins:
    """Opens connections. May be used from any thread."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def endpoint(self, account_id: str, server: Server) -> Endpoint:
        """How a server of a mailbox is reached; without a token. Raises NotFound."""
        connection = self._store.accounts.connection(account_id)
        return connection.imap if server == "imap" else connection.smtp

    def imap(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """What `opening` makes of an endpoint whose login is good now. Raises NotFound, and RemoteFault."""
        return opening(self.endpoint(account_id, "imap"))

    def smtp(self, account_id: str, opening: Callable[[Endpoint], T]) -> T:
        """As `imap`, for the server that takes mail."""
        return opening(self.endpoint(account_id, "smtp"))
