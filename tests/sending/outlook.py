"""An Outlook mailbox that sends by Microsoft Graph: its provider, Graph and SMTP as test doubles, in an appliance."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailbox_appliance.clock import Clock
from mailbox_appliance.model.accounts import OAuthLogin, SendsVia
from mailbox_appliance.remote.providers import OUTLOOK
from tests.servers.desk import Desk, a_message
from tests.servers.graph import GraphServer
from tests.servers.graph_script import Says
from tests.servers.oauth_provider import OAuthServer
from tests.servers.running import Answer
from tests.servers.scripted_smtp import ScriptedSmtp

ADA = "ada@example.test"
SMTP_IS_OFF = "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant."


class TokenSmtp(ScriptedSmtp):
    """An SMTP server with XOAUTH2 that accepts any token."""

    mechanisms = ("XOAUTH2",)

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        return ADA, ""


def graph_server(provider: OAuthServer, certificates: Path) -> GraphServer:
    """Return a Graph double that accepts the provider's tokens for Graph."""

    def user_of(token: str) -> str | None:
        return provider.user_of(token, "Mail.Send", "Mail.Send.Shared")

    return GraphServer(certificates, user_of)


@dataclass
class Outlook:
    """The appliance, and all servers that its mailbox talks to."""

    desk: Desk
    provider: OAuthServer
    graph: GraphServer
    smtp: ScriptedSmtp
    account: str = ""

    def connect(self, via: SendsVia = "graph", email: str = ADA) -> str:
        """Return a mailbox as it is after a sign-in."""
        store = self.desk.appliance.store
        owner = str(store.database.value("SELECT id FROM members"))
        scopes = {*OUTLOOK.mail_scopes, *OUTLOOK.graph_scopes, *(OUTLOOK.shared_scopes if email != ADA else ())}
        refresh_token = self.provider.sign_up(scopes=frozenset(scopes))
        login = OAuthLogin("outlook", email, self.provider.person, refresh_token, via)
        with store.database.transaction():
            self.account = store.oauth_logins.add(owner, None, login)
        return self.account

    def send(self, body: Any = None, key: str | None = None) -> Answer:
        return self.desk.send(self.account, body or a_message(), key)

    def begin_anew(self) -> None:
        """Reset the servers; uncertain operations stay uncertain."""
        self.graph.forget()
        self.graph.before = lambda _: None
        self.graph.uploads.least = 3_000_000
        self.graph.at("look", Says(503))
        self.provider.in_order()
        self.desk.appliance.logins.forget_tokens(self.account)

    def age_tokens(self) -> None:
        """Let a minute pass, since a token that was issued a moment ago is not renewed."""
        now = self.desk.appliance.clock.monotonic
        self.desk.appliance.clock.monotonic = lambda: now() + 60  # type: ignore[method-assign]

    def look(self, operation: str) -> str:
        """Search for the message of a due operation; return the status. Stop the timer before, so that it does not
        search too.
        """
        self.desk.appliance.reconciler.work(self.account, threading.Event())
        return str(self.desk.delivery(self.account, operation).data["status"])

    @property
    def sends_via(self) -> str:
        login = self.desk.appliance.store.oauth_logins.find(self.account)
        assert login is not None
        return login.sends_via

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.desk.account(self.account)
        return found


@contextmanager
def outlook(folder: Path, clock: Clock | None = None, **given: Any) -> Iterator[Outlook]:
    """Yield a new appliance with such a mailbox. Nothing answers by IMAP."""
    provider = OAuthServer(folder / "certificates", "outlook")
    smtp = TokenSmtp().start()
    with provider, graph_server(provider, folder / "certificates") as graph:
        table = folder / "providers.toml"
        table.write_text(provider.row(smtp=smtp.port, smtp_tls="none", api_url=graph.url) + graph.row)
        settings = {
            "sending__answer_within": 20,
            "sending__dot_timeout": 5,
            "sending__keep_connection": 0,
            "remote__timeout": 5,
            "remote__providers_file": str(table),
            "remote__ca_file": str(provider.ca_file),
        }
        desk = Desk(folder / "data", clock, **{**settings, **given})
        try:
            with desk.appliance.store.database.transaction(durable=True):
                desk.appliance.store.oauth_apps.put(provider.app)
            yield Outlook(desk, provider, graph, smtp)
        finally:
            graph.release()
            desk.close()
            smtp.stop()
