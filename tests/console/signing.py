"""An appliance with Google, Microsoft, servers that accept their tokens, and a DNS server that knows one domain."""

from pathlib import Path

from playwright.sync_api import Page, expect

from mailbox_appliance.model.accounts import OAuthProvider
from tests.console.house import House
from tests.console.walker import Walker
from tests.servers.dovecot import MailServer
from tests.servers.names import Names, NameServer
from tests.servers.oauth_provider import OAuthServer

PROVIDERS: tuple[OAuthProvider, ...] = ("google", "outlook")
TITLES = {"google": "Google", "outlook": "Microsoft"}
#: The DNS records of domains: one with servers, one at Google, one that is unknown.
ZONES = {
    "cow.example": ("_imap._tcp SRV 0 1 143 imap.cow.example.", "_submission._tcp SRV 0 1 587 smtp.cow.example."),
    "office.example": ("@ MX 1 aspmx.l.google.com.",),
    "nowhere.example": (),
}


class Signing:
    """All servers of a provider's sign-in; `house` is the appliance."""

    def __init__(self, folder: Path, server: MailServer) -> None:
        self.providers = {name: OAuthServer(server.folder / "tls", name).start() for name in PROVIDERS}
        server.tokens.ask = self.user_of
        #: Access of persons to mailboxes other than their own.
        self.shared: dict[str, str] = {}
        names = Names()
        for domain, zone in ZONES.items():
            names.add_zone(domain, zone)
        self.dns = NameServer(names)
        self.dns.__enter__()
        file = folder / "providers.toml"
        imap, smtp = server.imaps_port, server.submission_port
        rows = (one.row(imap=imap, smtp=smtp, smtp_tls="starttls") for one in self.providers.values())
        file.write_text("".join(rows))
        settings = {
            "PROVIDERS_FILE": str(file),
            "CA_FILE": str(server.ca_file),
            "RESOLVER": f"127.0.0.1:{self.dns.port}",
            "AUTOCONFIG_DIRECTORY": "",
        }
        given = {f"MAILBOX_APPLIANCE_REMOTE_{name}": value for name, value in settings.items()}
        self.house = House(folder / "data", server, environment=given)
        for name in PROVIDERS:
            self.set_app(name)

    def stop(self) -> None:
        """Stop everything except the mail server."""
        self.house.stop()
        self.house.server.tokens.ask = lambda _: None
        self.dns.__exit__()
        for provider in self.providers.values():
            provider.stop()

    def set_app(self, name: OAuthProvider) -> None:
        """Set up the OAuth app that a provider knows."""
        app = self.providers[name].app
        body = {"clientId": app.client_id, "clientSecret": app.client_secret}
        assert self.house.ask(self.house.ada, "PUT", f"/admin/oauth-apps/{name}", body).status == 200

    def user_of(self, token: str) -> str | None:
        """Return the mailbox that a token opens."""
        holders = (provider.user_of(token) for provider in self.providers.values())
        person = next((holder for holder in holders if holder is not None), None)
        return self.shared.get(person, person) if person else None

    def open_provider(self, visitor: Walker, page: Page, button: str) -> Page:
        """Press a button that opens a tab; return the tab once it shows the provider's page."""
        with visitor.context.expect_page() as opened:
            page.get_by_role("button", name=button).click()
        expect(opened.value.get_by_role("heading", name="Sign in")).to_be_visible()
        return opened.value

    @staticmethod
    def agree(tab: Page, person: str) -> None:
        """Sign in at the provider as a person, and agree."""
        tab.get_by_role("textbox", name="Email").fill(person)
        tab.get_by_role("button", name="Allow").click()
