"""Google and Microsoft, the providers with OAuth sign-in: their URLs, scopes and mail servers.

    Google ...... developers.google.com/identity/protocols/oauth2/native-app,
                  developers.google.com/workspace/gmail/imap/xoauth2-protocol
    Microsoft ... learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow, .../v2-oauth2-device-code,
                  learn.microsoft.com/exchange/client-developer/legacy-protocols/how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth

The operator can override this table with a file (the setting remote.providers_file), for example for the national
clouds of Microsoft. Hosts in that file may be in a private network; all others must be public.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.accounts import OAuthProvider, Security
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.settings import BadSetting, Settings

#: The purpose of an access token: mail means IMAP and SMTP. A Microsoft token is valid for one of the two.
Resource = Literal["mail", "graph"]
#: The tenant of an application that names none: accounts of any organization, and personal ones.
ANY_TENANT = "common"
_TENANT = "{tenant}"


@dataclass(frozen=True)
class MailServer:
    """Host, port and security of a provider's mail server."""

    host: str
    port: int
    security: Security


@dataclass(frozen=True)
class KnownProvider:
    """A provider with OAuth sign-in. In its URLs, `{tenant}` stands for the tenant of the application.

    - mail_scopes: the scopes for IMAP and SMTP.
    - graph_scopes, shared_scopes: the scopes for Microsoft Graph, for a person's own and for a shared mailbox.
    - api_url: the URL of Gmail's API, or of Graph.
    - loopback_host: the name of this computer that the provider accepts in redirect URLs.
    - upload_hosts: hosts (or host:port) to which Graph may ask to upload files.
    - named_by_operator: the hosts that come from the operator's file.
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
        """Whether the host of a URL comes from the operator's file, so that it may have a private address."""
        return urlsplit(url).hostname in self.named_by_operator

    def takes_uploads_at(self, url: str) -> bool:
        """Whether files may be uploaded to a URL that Graph returned: HTTPS, and one of `upload_hosts`."""
        try:
            parts = urlsplit(url)
            place = f"{parts.hostname}:{443 if parts.port is None else parts.port}"
        except ValueError:  # no port, no host
            return False
        is_known = place in {host if ":" in host else f"{host}:443" for host in self.upload_hosts}
        return parts.scheme == "https" and "@" not in parts.netloc and is_known

    def scopes(self, resource: Resource, *, is_shared: bool = False) -> tuple[str, ...]:
        """Return the scopes to request in a sign-in, for mail or for Graph. `is_shared`: for a shared mailbox."""
        if resource == "mail" or not self.graph_scopes:
            return self.mail_scopes
        return self.shared_scopes if is_shared else self.graph_scopes

    def refresh_scopes(self, resource: Resource, *, is_shared: bool = False) -> tuple[str, ...]:
        """Return the scopes to request when an access token is renewed. `is_shared`: for a shared mailbox.

        - Google: none, which renews all granted scopes. Google has only one resource.
        - Microsoft: the scopes of the sign-in without the optional ones. A request for more than was granted is
          refused, and older releases of the appliance may have requested less at the sign-in.
        """
        if not self.graph_scopes:
            return ()
        wanted = self.scopes(resource, is_shared=is_shared)
        return tuple(scope for scope in wanted if "://" in scope or scope == "offline_access")

    def gives_mail(self, granted: Collection[str]) -> bool:
        """Whether the granted scopes suffice for access to mail. At Google, people can refuse single scopes."""
        paths = {_scope_path(scope) for scope in granted}
        return all(_scope_path(scope) in paths for scope in self.mail_scopes if "://" in scope)


def _scope_path(scope: str) -> str:
    """Return a scope without its host, to compare scopes.

    Microsoft has two hosts for the same scope (outlook.office.com, outlook.office365.com).
    """
    parts = urlsplit(scope.lower())
    return parts.path.strip("/") or parts.netloc


def url_for_tenant(url: str, tenant: str | None) -> str:
    """Return a URL with `{tenant}` replaced by the application's tenant, or by `common` if it has none."""
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
    # Entra allows any port for this name only (.../entra/identity-platform/reply-url, "Localhost exceptions").
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


# --- The operator's file over this table (the setting remote.providers_file), in TOML ---
#
#     [outlook]
#     authorization_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/authorize"
#     token_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/token"
#     api_url = "https://graph.microsoft.us"
#     mail_scopes = ["offline_access", "https://outlook.office365.us/IMAP.AccessAsUser.All"]
#     imap = {host = "outlook.office365.us", port = 993, security = "tls"}
#
# and the scopes of Graph, for one's own and for shared mailboxes. What it leaves out stays as it is. Addresses are
# https://. `upload_hosts`, each a host or host:port, are added to those of the table.


_LARGEST_FILE = 1 << 16
_Scopes = tuple[Annotated[str, Meta(min_length=1, pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")], ...]  # RFC 6749 3.3
_Url = Annotated[str, Meta(pattern=r"^https://[^\s\"<>\\^`{}/@]+(/[^\s\"<>\\^`]*)?$")]

_Host = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[1-9][0-9]{0,4})?$")]


class _ServerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    security: Security


class _ProviderRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    authorization_url: _Url | UnsetType = UNSET
    token_url: _Url | UnsetType = UNSET
    device_url: _Url | UnsetType = UNSET
    userinfo_url: _Url | UnsetType = UNSET
    api_url: _Url | UnsetType = UNSET
    imap: _ServerRow | UnsetType = UNSET
    smtp: _ServerRow | UnsetType = UNSET
    mail_scopes: _Scopes | UnsetType = UNSET
    graph_scopes: _Scopes | UnsetType = UNSET
    shared_scopes: _Scopes | UnsetType = UNSET
    upload_hosts: tuple[_Host, ...] | UnsetType = UNSET


class _ProvidersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    google: _ProviderRow = _ProviderRow()
    outlook: _ProviderRow = _ProviderRow()


def get_provider(settings: Settings, provider: OAuthProvider) -> KnownProvider:
    """Return a provider with the changes from the operator's file. Raises RemoteFault if that is not valid now."""
    try:
        return load_providers(settings.text("remote.providers_file"))[provider]
    except BadSetting as error:
        raise RemoteFault("oauth", "unreachable", str(error)) from error


def load_providers(file: str) -> Mapping[OAuthProvider, KnownProvider]:
    """Return all providers, with the changes from the operator's file. `file`: its path; empty for none.

    Raises BadSetting, with the path, if the file is invalid.
    """
    if not file:
        return BUILT_IN
    try:
        return _load_file(file, Path(file).stat().st_mtime_ns)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, invalid UTF-8 or TOML
        what = "cannot be read" if isinstance(error, OSError) else f"does not fit: {_describe_error(error)}"
        raise BadSetting(f"{Path(file).absolute()}, the file of the setting remote.providers_file, {what}") from error


def _describe_error(error: Exception) -> str:
    """Return the text of a validation error, with words in place of the regular expression of URLs."""
    return re.sub(r"`str` matching regex '\^https://.*'(?= - |$)", "an address that begins with https://", str(error))


@lru_cache(maxsize=4)
def _load_file(file: str, changed: int) -> Mapping[OAuthProvider, KnownProvider]:  # noqa: ARG001 - part of the key
    with Path(file).open("rb") as opened:
        text = opened.read(_LARGEST_FILE).decode()
    said = convert(tomllib.loads(text), _ProvidersFile)  # its ValidationError is a ValueError
    return {
        "google": _merge_provider(BUILT_IN["google"], said.google),
        "outlook": _merge_provider(BUILT_IN["outlook"], said.outlook),
    }


def _merge_provider(before: KnownProvider, said: _ProviderRow) -> KnownProvider:
    given: dict[str, Any] = {
        name: MailServer(value.host, value.port, value.security) if isinstance(value, _ServerRow) else value
        for name in said.__struct_fields__
        if (value := getattr(said, name)) is not UNSET
    }
    uploads = given.pop("upload_hosts", ())
    hosts = {urlsplit(url).hostname for name, url in given.items() if name.endswith("_url")}
    hosts |= {host.partition(":")[0] for host in uploads}
    return replace(
        before,
        **given,
        upload_hosts=(*before.upload_hosts, *uploads),
        named_by_operator=frozenset(filter(None, hosts)),
    )
