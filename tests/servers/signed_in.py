"""An appliance whose mailboxes are connected by a provider's sign-in: real Dovecot and Postfix, which ask that provider
for every access token whose it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.settings import Value
from tests.servers.desk import Desk
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_provider import OAuthServer
from tests.servers.scripted_smtp import ScriptedSmtp


class SignedIn:
    """The desk, its clock, the provider, and one mailbox."""

    def __init__(
        self,
        folder: Path,
        server: MailServer,
        provider: OAuthProvider = "google",
        smtp: ScriptedSmtp | None = None,
        **given: Value,
    ) -> None:
        """`smtp`: takes its mail, in the place of Postfix. `given`: settings, as of a `Desk`."""
        self.server, self.user, self.clock = server, server.fresh_user(), FakeClock()
        self.oauth = OAuthServer(server.folder / "tls", provider).start()
        self.oauth.person = self.user
        server.tokens.ask = self.oauth.user_of
        #: What is laid over the table of providers.
        self.file = folder / "providers.toml"
        place = (server.submission_port, "starttls") if smtp is None else (smtp.port, "none")
        self.file.write_text(self.oauth.row(imap=server.imaps_port, smtp=place[0], smtp_tls=place[1]))
        self.desk = Desk(
            folder / "data",
            self.clock,
            is_new=True,
            sending__answer_within=20,
            remote__providers_file=str(self.file),
            remote__ca_file=str(server.ca_file),
            **given,
        )
        app = {"clientId": self.oauth.app.client_id, "clientSecret": self.oauth.app.client_secret}
        assert self.desk.ask("PUT", f"/admin/oauth-apps/{provider}", app).status == 200
        self.account = str(self.sign_in()["id"])
        self.wait_for("ready")

    def close(self) -> None:
        """Stop, but for the mail server."""
        self.desk.close()
        self.oauth.stop()
        self.server.tokens.ask = lambda _: None

    def sign_in(self, person: str | None = None, **asked: str) -> Any:
        """Go through the provider's pages; the mailbox that comes of it."""
        way = f"/accounts/oauth/{self.oauth.provider}"
        begun = self.desk.ask("POST", way, asked)
        assert begun.status == 200, begun
        back = self.oauth.consent(begun.data["authorizationUrl"], person)
        done = self.desk.ask("POST", f"{way}/finish", {"redirectUrl": back})
        assert done.status == 201, done
        return done.data

    @property
    def now(self) -> Any:
        """The mailbox as it is."""
        return self.desk.account(self.account)

    @property
    def renewals(self) -> int:
        """How often a token for mail was renewed; those for other resources have a life of their own."""
        asked = [each for each in list(self.oauth.asked) if each.grant == "refresh_token"]
        return sum("graph.microsoft" not in each.values.get("scope", "") for each in asked)

    def wait_for(self, status: str) -> Any:
        """The mailbox, once it has this status."""
        wait_until(lambda: self.now["status"] == status, lambda: str(self.now), 10)
        return self.now

    def reconnect(self, status: str) -> Any:
        """End the mailbox's connections; how it is once it has tried again and has this status."""
        before = self.server.tokens.count + self.oauth.count()
        self.server.doveadm("kick", self.user)
        self.nudge_until(lambda: self.server.tokens.count + self.oauth.count() > before)
        return self.wait_for(status)

    def nudge_until(self, condition: Callable[[], bool]) -> None:
        """Have the mailbox looked at, and what is due, again and again, until this is so."""

        def is_so() -> bool:
            self.desk.appliance.sync.wake(self.account, None)
            self.desk.appliance.scheduler.wake()
            return condition()

        wait_until(is_so, lambda: str(self.now), 10)
