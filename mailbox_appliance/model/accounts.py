"""Mailboxes: their servers and sign-ins, folder roles and states."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.base import Timestamp, Wire

OAuthProvider = Literal["google", "outlook"]


@dataclass(frozen=True)
class OAuthApp:
    """An application registered with Google or Microsoft, to connect mailboxes. Its repr hides the secret."""

    provider: OAuthProvider
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    public_client: bool = False


class GoogleAppSettings(Wire, frozen=True, kw_only=True):
    """The Google application in use, without its secret.

    - client_id: Client ID; empty if no application is configured.
    - client_secret_configured: Whether a client secret is configured.
    - source: Where the configuration comes from; `built-in` means that there is none.
    - mutable: Whether it can be changed through the API; false if it is set in the environment.
    """

    client_id: str
    client_secret_configured: bool
    source: Literal["built-in", "stored", "environment", "environment-file"]
    mutable: bool


class OutlookAppSettings(Wire, frozen=True, kw_only=True):
    """The Outlook application in use, without its secret.

    - client_id: Client ID; null if no application is configured.
    - tenant_id: Microsoft Entra tenant; null for any tenant.
    - client_secret_configured: Whether a client secret is configured.
    - source: Where the configuration comes from; null if no application is configured.
    - mutable: Whether it can be changed through the API; false if it is set in the environment.
    """

    client_id: str | None
    tenant_id: str | None
    client_secret_configured: bool
    source: Literal["stored", "environment", "environment-file"] | None
    mutable: bool


class OAuthSettings(Wire, frozen=True, kw_only=True):
    """The OAuth applications in use.

    - google: The Google application.
    - outlook: The Microsoft application.
    """

    google: GoogleAppSettings
    outlook: OutlookAppSettings


Provider = Literal["imap", "google", "outlook"]
AccountStatus = Literal["connecting", "syncing", "ready", "reauth_required", "error"]
Security = Literal["tls", "starttls", "none"]
FolderRole = Literal["inbox", "sent", "drafts", "trash", "spam", "archive", "starred", "all"]
RoleSource = Literal["user", "extension", "name"]


@dataclass(frozen=True)
class Endpoint:
    """Address and credentials of one mail server. Its repr hides password and token.

    `token`: an OAuth access token (RFC 6750), used instead of the password if there is one. It is valid for about an
    hour, so endpoints that differ only in the token count as equal.
    """

    host: str
    port: int
    security: Security
    username: str
    password: str = field(repr=False)
    token: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Connection:
    """The addresses and credentials of both servers of a mailbox."""

    email: str
    imap: Endpoint
    smtp: Endpoint


#: An Outlook mailbox sends by SMTP, or by Microsoft Graph if its tenant has SMTP AUTH switched off.
SendsVia = Literal["smtp", "graph"]


@dataclass(frozen=True)
class OAuthLogin:
    """The credentials of a mailbox that was connected through OAuth.

    - email: Address of the mailbox, by which IMAP and SMTP know it.
    - username: Address of the person who signed in, which differs for a shared mailbox.
    - by_device: Whether the sign-in was a device flow, in which the person enters a code on any device.

    The refresh token is exchanged for access tokens.
    """

    provider: OAuthProvider
    email: str
    username: str
    refresh_token: str = field(repr=False)
    sends_via: SendsVia = "smtp"
    by_device: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether the mailbox has another address than the person who signed in."""
        return self.username.lower() != self.email.lower()


class AccountError(Wire, frozen=True, kw_only=True):
    """The reason why a mailbox does not work.

    - code: Error code for programs.
    - message: Explanation for people, with a fix.
    - fault: Name of the exact cause if it is known, such as `app_password_required`.
    """

    code: str
    message: str
    fault: str | UnsetType = UNSET


class SenderAddress(Wire, frozen=True, kw_only=True):
    """An address that a mailbox can send as.

    - email: Email address.
    - name: Sender name that the provider reports for this address.
    - is_default: Whether this address is used if a message gives no `from`.
    """

    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]
    name: str | UnsetType = UNSET
    is_default: bool = False


class FolderRoles(Wire, frozen=True, kw_only=True):
    """The paths of the folders with a role; null if no folder has the role.

    - sent: Folder for sent messages.
    - drafts: Folder for drafts.
    - trash: Folder for deleted messages.
    - archive: Folder for archived messages.
    - spam: Folder for spam.
    """

    sent: str | None = None
    drafts: str | None = None
    trash: str | None = None
    archive: str | None = None
    spam: str | None = None


class AccountCapabilities(Wire, frozen=True, kw_only=True):
    """The features that the mail server of a mailbox supports.

    - labels: Labels, stored as IMAP keywords or Gmail labels.
    - move: Moving messages in one step (RFC 6851).
    - idle: Push notification of changes (RFC 2177).
    - condstore: Efficient detection of changed flags (RFC 7162).
    - qresync: Efficient resynchronization (RFC 7162).
    - uidplus: Safe deletion of single messages (RFC 4315).
    """

    labels: bool = False
    move: bool = False
    idle: bool = False
    condstore: bool = False
    qresync: bool = False
    uidplus: bool = False


class Account(Wire, frozen=True, kw_only=True):
    """A connected mailbox, without its passwords and tokens.

    - id: Mailbox ID, such as `acc_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - email: Email address of the mailbox.
    - display_name: Display name, used as the sender's name; null if none is set.
    - provider: `google` and `outlook` for mailboxes connected through OAuth, `imap` for all others.
    - owner_member_id: ID of the member who owns the mailbox.
    - shared_with_all: Whether all members, including future ones, have access.
    - granted_member_ids: IDs of the members with access, apart from the owner.
    - status: `connecting`, `syncing` (catching up after connecting), `ready`, `reauth_required` (sign in again) or
      `error` (see `error`).
    - error: Why the mailbox does not work; null if it does.
    - folders: The folders with a role.
    - capabilities: What the mail server supports.
    - created_at: When the mailbox was connected.
    - last_sync_at: When the mailbox was last fully synced; null before the first sync is complete.
    """

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
