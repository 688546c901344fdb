"""An appliance at rest, two providers, and real servers that take their tokens: what sign-ins are tested with."""

from pathlib import Path
from typing import Any

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.settings import Value
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import add_member
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.oauth_provider import OAuthServer
from tests.servers.scripted_smtp import ScriptedSmtp


class SignIns:
    """The appliance with `ada`, who is an administrator, and `bob`; Google sends by Postfix, Outlook by a script."""

    def __init__(self, folder: Path, server: MailServer) -> None:
        self.server, self.clock, self.folder = server, FakeClock(), folder
        self.providers = {name: OAuthServer(server.folder / "tls", name).start() for name in NAMES}
        self.smtp = TokenSmtp().start()
        server.tokens.ask = self.user_of
        self.file = folder / "providers.toml"
        google, outlook = self.providers["google"], self.providers["outlook"]
        postfix = google.row(imap=server.imaps_port, smtp=server.submission_port, smtp_tls="starttls")
        scripted = outlook.row(imap=server.imaps_port, smtp=self.smtp.port, smtp_tls="none")
        self.file.write_text(postfix + scripted)
        self.appliance = self.made("data")
        self.ada = CheckedClient(self.appliance).set_up()
        add_member(self.appliance, "bob")
        self.bob = self.ada.log_in("bob@example.org")
        #: Who is let into whose mailbox, beside into their own.
        self.shared: dict[str, str] = {}
        for name in NAMES:
            self.set_app(name)

    def made(self, name: str, **given: Value) -> Appliance:
        """Another appliance with these providers."""
        flags: dict[str, Value] = {"remote.providers_file": str(self.file), "remote.ca_file": str(self.server.ca_file)}
        flags |= {key.replace("__", "."): value for key, value in given.items()}
        return Appliance(self.folder / name, settings.load(None, {}, flags), self.clock)

    def set_app(self, provider: OAuthProvider) -> None:
        """Save the application that the provider knows."""
        app = self.providers[provider].app
        body = {"clientId": app.client_id, "clientSecret": app.client_secret}
        assert self.ada.ask("PUT", f"/admin/oauth-apps/{provider}", body).status == 200

    def close(self) -> None:
        """Stop, but for the mail server."""
        self.appliance.stop()
        self.server.tokens.ask = lambda _: None
        self.smtp.stop()
        for provider in self.providers.values():
            provider.stop()

    def user_of(self, token: str) -> str | None:
        """Whose mailbox a token opens."""
        holders = (provider.user_of(token) for provider in self.providers.values())
        person = next((holder for holder in holders if holder is not None), None)
        return self.shared.get(person, person) if person else None

    def forget(self) -> None:
        """Everything is in order again."""
        self.shared.clear()
        self.smtp.forget()
        for provider in self.providers.values():
            provider.in_order()
            provider.withheld, provider.claims = frozenset(), {}

    # --- what people do ---

    def begin(self, who: CheckedClient, provider: OAuthProvider = "google", **asked: Any) -> Any:
        """A sign-in that has begun."""
        return who.ask("POST", f"/accounts/oauth/{provider}", asked).data

    def finish(self, who: CheckedClient, provider: OAuthProvider, **brought: str) -> Answer:
        """What is answered to what it brought."""
        return who.ask("POST", f"/accounts/oauth/{provider}/finish", brought)

    def connect(self, who: CheckedClient, provider: OAuthProvider, person: str, **asked: Any) -> Answer:
        """All of it, as `person` at the provider."""
        begun = self.begin(who, provider, **asked)
        back = self.providers[provider].consent(begun["authorizationUrl"], person)
        return self.finish(who, provider, redirectUrl=back)


NAMES: tuple[OAuthProvider, ...] = ("google", "outlook")


class TokenSmtp(ScriptedSmtp):
    """Takes any token, of whomever."""

    mechanisms = ("PLAIN", "XOAUTH2")

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        """Who is logged in, and no refusal."""
        return self.user, ""
