"""Mailboxes: their servers and log-ins, folder roles and states."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.base import Timestamp, Wire

OAuthProvider = Literal["google", "outlook"]


@dataclass(frozen=True)
class OAuthApp:
    """An application registered with a provider, by which members connect its mailboxes. The secret never shows."""

    provider: OAuthProvider
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    public_client: bool = False


class GoogleAppSettings(Wire, frozen=True, kw_only=True):
    """The Google application in force, without its secret. Nothing is built in: the client id is empty then."""

    client_id: str
    client_secret_configured: bool
    source: Literal["built-in", "stored", "environment", "environment-file"]
    mutable: bool


class OutlookAppSettings(Wire, frozen=True, kw_only=True):
    """The Outlook application in force, without its secret; null where there is none."""

    client_id: str | None
    tenant_id: str | None
    client_secret_configured: bool
    source: Literal["stored", "environment", "environment-file"] | None
    mutable: bool


class OAuthSettings(Wire, frozen=True, kw_only=True):
    """The OAuth applications in force."""

    google: GoogleAppSettings
    outlook: OutlookAppSettings


Provider = Literal["imap", "google", "outlook"]
AccountStatus = Literal["connecting", "syncing", "ready", "reauth_required", "error"]
Security = Literal["tls", "starttls", "none"]
FolderRole = Literal["inbox", "sent", "drafts", "trash", "spam", "archive", "starred", "all"]
RoleSource = Literal["user", "extension", "name"]


@dataclass(frozen=True)
class Endpoint:
    """How one mail server is reached and logged in to. Password and token are secrets: they never show in a repr.

    `token`: an OAuth access token (RFC 6750), which is used in place of the password where there is one. It lasts an
    hour or so, and two endpoints that differ in it alone are the same.
    """

    host: str
    port: int
    security: Security
    username: str
    password: str = field(repr=False)
    token: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Connection:
    """Everything needed to reach a mailbox."""

    email: str
    imap: Endpoint
    smtp: Endpoint


#: How a mailbox of Outlook sends: by SMTP, or by Microsoft Graph where its tenant has SMTP AUTH off.
SendsVia = Literal["smtp", "graph"]


@dataclass(frozen=True)
class OAuthLogin:
    """How a mailbox is logged in to whose provider was asked for access: by tokens, which the refresh token brings.

    `email`: of the mailbox, which IMAP and SMTP know it by. `username`: of whoever signed in, which is another one's
    where the mailbox is shared. `by_device`: the sign-in was by a code that one types elsewhere.
    """

    provider: OAuthProvider
    email: str
    username: str
    refresh_token: str = field(repr=False)
    sends_via: SendsVia = "smtp"
    by_device: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether it is not the mailbox of whoever signed in."""
        return self.username.lower() != self.email.lower()


class AccountError(Wire, frozen=True, kw_only=True):
    """Why a mailbox is not in order: a code to switch on, and a sentence for a person.

    `fault`: the name of what is wrong where that is known, such as `app_password_required`.
    """

    code: str
    message: str
    fault: str | UnsetType = UNSET


class SenderAddress(Wire, frozen=True, kw_only=True):
    """An address that a mailbox may send as, as its provider tells."""

    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]
    name: str | UnsetType = UNSET
    is_default: bool = False


class FolderRoles(Wire, frozen=True, kw_only=True):
    """The folder paths that play a role, whoever decided so."""

    sent: str | None = None
    drafts: str | None = None
    trash: str | None = None
    archive: str | None = None
    spam: str | None = None


class AccountCapabilities(Wire, frozen=True, kw_only=True):
    """What the server of a mailbox can do."""

    labels: bool = False
    move: bool = False
    idle: bool = False
    condstore: bool = False
    qresync: bool = False
    uidplus: bool = False


class Account(Wire, frozen=True, kw_only=True):
    """A connected mailbox, without its secrets."""

    id: str
    email: str
    display_name: str | None
    provider: Provider
    owner_member_id: str
    shared_with_all: bool
    granted_member_ids: tuple[str, ...]
    status: AccountStatus
    error: AccountError | None
    folders: FolderRoles
    capabilities: AccountCapabilities
    created_at: Timestamp
    last_sync_at: Timestamp | None
