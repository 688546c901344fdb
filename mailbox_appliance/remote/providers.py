"""The providers whose mailboxes are connected by their sign-in: where each is asked, for what, and its mail servers.

Google ...... developers.google.com/identity/protocols/oauth2/native-app,
              developers.google.com/workspace/gmail/imap/xoauth2-protocol
Microsoft ... learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow, .../v2-oauth2-device-code,
              learn.microsoft.com/exchange/client-developer/legacy-protocols/how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth

The operator can lay a file over this table (the setting remote.providers_file), for the national clouds of Microsoft
say. It is the operator's word: a host in it may lie in a network of one's own. All others lie in the internet.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlsplit

from mailbox_appliance.model.records import OAuthProvider, Security

#: What an access token is for: mail is IMAP and SMTP. A token of Microsoft's is good for one of the two.
Resource = Literal["mail", "graph"]
#: Where an application that names no tenant signs people in: accounts of any organisation, and personal ones.
ANY_TENANT = "common"
_TENANT = "{tenant}"


@dataclass(frozen=True)
class MailServer:
    """How a provider's mail server is reached."""

    host: str
    port: int
    security: Security


@dataclass(frozen=True)
class KnownProvider:
    """A provider. In addresses `{tenant}` stands for the tenant of the application that asks.

    `mail_scopes`, `graph_scopes`, `shared_scopes`: what is asked for; the last in the place of the second where the
    mailbox is another one's. `api_url`: of Gmail's API, or of Graph. `loopback_host`: what a redirect to this computer
    names it by. `upload_hosts`: where Graph may have files uploaded to, each a host, or host:port.
    `named_by_operator`: hosts of the operator's file.
    """

    provider: OAuthProvider
    title: str
    authorization_url: str
    token_url: str
    device_url: str | None
    userinfo_url: str | None
    api_url: str
    imap: MailServer
    smtp: MailServer
    mail_scopes: tuple[str, ...]
    graph_scopes: tuple[str, ...]
    shared_scopes: tuple[str, ...]
    loopback_host: Literal["127.0.0.1", "localhost"]
    upload_hosts: tuple[str, ...] = ()
    named_by_operator: frozenset[str] = frozenset()

    def is_named_by_operator(self, url: str) -> bool:
        """Whether the host of an address is in the operator's file, and may lie anywhere but where we never connect."""
        return urlsplit(url).hostname in self.named_by_operator

    def takes_uploads_at(self, url: str) -> bool:
        """Whether an address that an answer names for an upload is at a known host, over HTTPS."""
        try:
            parts = urlsplit(url)
            place = f"{parts.hostname}:{443 if parts.port is None else parts.port}"
        except ValueError:  # no port, no host
            return False
        is_known = place in {host if ":" in host else f"{host}:443" for host in self.upload_hosts}
        return parts.scheme == "https" and "@" not in parts.netloc and is_known

    def scopes(self, resource: Resource, *, is_shared: bool = False) -> tuple[str, ...]:
        """What a token is asked for."""
        if resource == "mail" or not self.graph_scopes:
            return self.mail_scopes
        return self.shared_scopes if is_shared else self.graph_scopes

    def refresh_scopes(self, resource: Resource, *, is_shared: bool = False) -> tuple[str, ...]:
        """What another token is asked for; none for all that was granted, where there is one resource only.

        More than was granted is refused, and an older release of ours may have asked for less than we do.
        """
        if not self.graph_scopes:
            return ()
        wanted = self.scopes(resource, is_shared=is_shared)
        return tuple(scope for scope in wanted if "://" in scope or scope == "offline_access")

    def gives_mail(self, granted: Collection[str]) -> bool:
        """Whether scopes that were granted are all that mail needs: at Google people may leave some out."""
        paths = {_path(scope) for scope in granted}
        return all(_path(scope) in paths for scope in self.mail_scopes if "://" in scope)


def _path(scope: str) -> str:
    """Microsoft has two hosts for the same scope (outlook.office.com, outlook.office365.com)."""
    parts = urlsplit(scope.lower())
    return parts.path.strip("/") or parts.netloc


def at(url: str, tenant: str | None) -> str:
    """An address, for the application's tenant."""
    return url.replace(_TENANT, quote(tenant or ANY_TENANT, safe=""))


GOOGLE = KnownProvider(
    provider="google",
    title="Google",
    authorization_url="https://accounts.google.com/o/oauth2/v2/auth",
    token_url="https://oauth2.googleapis.com/token",  # noqa: S106 - an address
    # Google's device flow gives no access to mail (.../oauth2/limited-input-device, "Allowed scopes").
    device_url=None,
    userinfo_url="https://openidconnect.googleapis.com/v1/userinfo",
    api_url="https://gmail.googleapis.com",
    imap=MailServer("imap.gmail.com", 993, "tls"),
    smtp=MailServer("smtp.gmail.com", 465, "tls"),
    mail_scopes=("openid", "email", "https://mail.google.com/"),
    graph_scopes=(),
    shared_scopes=(),
    loopback_host="127.0.0.1",
)
_MICROSOFT = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0"
_IMAP, _SMTP = "https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send"
_GRAPH = "https://graph.microsoft.com"
OUTLOOK = KnownProvider(
    provider="outlook",
    title="Microsoft",
    authorization_url=f"{_MICROSOFT}/authorize",
    token_url=f"{_MICROSOFT}/token",
    device_url=f"{_MICROSOFT}/devicecode",
    userinfo_url=None,
    api_url=_GRAPH,
    imap=MailServer("outlook.office365.com", 993, "tls"),
    smtp=MailServer("smtp.office365.com", 587, "starttls"),
    mail_scopes=("openid", "profile", "email", "offline_access", _IMAP, _SMTP),
    graph_scopes=("offline_access", f"{_GRAPH}/Mail.ReadWrite", f"{_GRAPH}/Mail.Send", f"{_GRAPH}/User.Read"),
    shared_scopes=(
        "offline_access",
        f"{_GRAPH}/Mail.ReadWrite.Shared",
        f"{_GRAPH}/Mail.Send.Shared",
        f"{_GRAPH}/User.Read",
    ),
    # Entra lets the port differ for this name alone (.../entra/identity-platform/reply-url, "Localhost exceptions").
    loopback_host="localhost",
    # learn.microsoft.com/graph/outlook-large-attachments names the first; seen in practice: the second. Then those of
    # the national clouds (.../microsoft-365/enterprise/microsoft-365-u-s-government-gcc-high-endpoints, ...-dod-...,
    # urls-and-ip-address-ranges-21vianet).
    upload_hosts=(
        "outlook.office.com",
        "outlook.office365.com",
        "outlook.office365.us",
        "outlook-dod.office365.us",
        "webmail.apps.mil",
        "partner.outlook.cn",
    ),
)
BUILT_IN: Mapping[OAuthProvider, KnownProvider] = {"google": GOOGLE, "outlook": OUTLOOK}
