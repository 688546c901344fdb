"""The nouns. What crosses a floor is one of these: frozen, without a database row or a protocol object inside.

Those derived from `Wire` are written out to clients as they stand: camelCase, optional fields left out while UNSET.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.content import Content

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0)]
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A value as clients see it."""


class Input(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A body as clients send it."""


class Deleted(Wire, frozen=True, kw_only=True):
    """What was deleted."""

    id: str
    deleted: bool = True


# --- who ---------------------------------------------------------------------------------------------------------


class Capability(StrEnum):
    """What a credential may be allowed to do."""

    MAIL_READ = "mail.read"
    MAIL_DRAFTS = "mail.drafts"
    MAIL_ORGANIZE = "mail.organize"
    MAIL_TRASH = "mail.trash"
    MAIL_DELETE = "mail.delete"
    MAIL_SEND = "mail.send"
    ADMIN_ACCOUNTS = "admin.accounts"
    ADMIN_MEMBERS = "admin.members"
    ADMIN_API_KEYS = "admin.api_keys"
    ADMIN_LICENSE = "admin.license"
    ADMIN_AUDIT = "admin.audit"


MAIL_CAPABILITIES = frozenset(c for c in Capability if c.startswith("mail."))
ADMIN_CAPABILITIES = frozenset(c for c in Capability if c.startswith("admin."))

Role = Literal["admin", "member"]
MemberStatus = Literal["active", "suspended"]


class PendingInvitation(Wire, frozen=True, kw_only=True):
    """That a member has been invited and has not enrolled yet."""

    expires_at: Timestamp


class Member(Wire, frozen=True, kw_only=True):
    """A person who may log in."""

    id: str
    name: str
    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]
    role: Role
    status: MemberStatus
    created_at: Timestamp
    updated_at: Timestamp
    last_login_at: Timestamp | None
    invitation: PendingInvitation | None


class Session(Wire, frozen=True, kw_only=True):
    """A log-in of a member on one device. It dies after 30 days without use, and 90 days after the login."""

    id: str
    device_name: str
    created_at: Timestamp
    last_used_at: Timestamp
    expires_at: Timestamp
    current: bool


class Credential(Wire, frozen=True, kw_only=True):
    """What a request was made with, and what it may do."""

    kind: Literal["session", "api_key"]
    id: str
    capabilities: tuple[Capability, ...]
    account_ids: tuple[str, ...] | None


class IssuedInvitation(Wire, frozen=True, kw_only=True):
    """A token that lets a member enroll, or set a new password: shown this once. The link has it in its fragment."""

    token: str
    url: str
    expires_at: Timestamp


PermissionProfile = Literal["read-only", "read-write", "full", "custom"]
NamedProfile = Literal["read-only", "read-write", "full"]
PROFILES: Mapping[NamedProfile, tuple[Capability, ...]] = {
    "read-only": (Capability.MAIL_READ,),
    "read-write": (Capability.MAIL_READ, Capability.MAIL_DRAFTS, Capability.MAIL_ORGANIZE, Capability.MAIL_TRASH),
    "full": tuple(capability for capability in Capability if capability in MAIL_CAPABILITIES),
}


class ApiKey(Wire, frozen=True, kw_only=True):
    """An API key, without its token."""

    id: str
    name: str
    created_at: Timestamp
    last_used_at: Timestamp | None
    member_id: str
    permission_profile: PermissionProfile
    capabilities: tuple[Capability, ...]
    supplemental_capabilities: tuple[Capability, ...]
    account_ids: tuple[str, ...] | None


@dataclass(frozen=True)
class KeyPermissions:
    """What a key stores: every capability, the supplemental ones among them, and its mailboxes (None: all)."""

    profile: PermissionProfile
    capabilities: tuple[Capability, ...]
    supplemental: tuple[Capability, ...] = ()
    account_ids: tuple[str, ...] | None = None


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


class License(Wire, frozen=True, kw_only=True):
    """How the appliance is licensed. A limit that is null is none; without a licence there are none at all."""

    plan: str
    status: Literal["none", "valid", "expired", "unverified"]
    issued_to: str | None
    expires_at: Timestamp | None
    max_members: Count | None
    max_accounts: Count | None


class AuditActor(Wire, frozen=True, kw_only=True):
    """Who did it: by which credential, of which member; `local`: the operator; `system`: nobody known."""

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None
    member_id: str | None


class AuditTarget(Wire, frozen=True, kw_only=True):
    """What it was done to."""

    kind: str
    id: str


class AuditEvent(Wire, frozen=True, kw_only=True):
    """One row of the audit log."""

    id: str
    at: Timestamp
    actor: AuditActor
    action: str
    target: AuditTarget | None
    outcome: Literal["success", "failure", "denied"]
    client_address: str | None


# --- mailboxes -----------------------------------------------------------------------------------------------------

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


class MappedFolders(Wire, frozen=True, kw_only=True):
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
    folders: MappedFolders
    capabilities: AccountCapabilities
    created_at: Timestamp
    last_sync_at: Timestamp | None


# --- mail ----------------------------------------------------------------------------------------------------------


class Address(Wire, frozen=True, kw_only=True):
    """A mail address with an optional display name (RFC 5322 3.4)."""

    email: str
    name: str | UnsetType = UNSET


class FolderRef(Wire, frozen=True, kw_only=True):
    """The folder of a message."""

    id: str
    name: str
    role: FolderRole | UnsetType = UNSET
    role_source: RoleSource | UnsetType = UNSET
    unread_count: Count | UnsetType = UNSET


class Folder(Wire, frozen=True, kw_only=True):
    """A folder of a mailbox."""

    id: str
    name: str
    role: FolderRole | UnsetType = UNSET
    role_source: RoleSource | UnsetType = UNSET
    unread_count: Count
    total_count: Count
    path: str


class Body(Wire, frozen=True, kw_only=True):
    """The readable parts of a message."""

    text: str | UnsetType = UNSET
    html: str | UnsetType = UNSET


class Attachment(Wire, frozen=True, kw_only=True):
    """An attachment as it is listed; its bytes are fetched apart."""

    id: str
    filename: str
    mime_type: str
    size_bytes: Count
    content_id: str | UnsetType = UNSET
    disposition: Literal["inline", "attachment"] | UnsetType = UNSET


class Flags(Wire, frozen=True, kw_only=True):
    """What has been marked on a message."""

    read: bool
    starred: bool
    draft: bool


class SearchMatched(Wire, frozen=True, kw_only=True, tag_field="status", tag="matched"):
    """The requested text was found in the body."""

    excerpt: str


class SearchNoMatch(Wire, frozen=True, kw_only=True, tag_field="status", tag="no_literal_match"):
    """The message matches, but not by these very words in its body."""


class SearchScanLimit(Wire, frozen=True, kw_only=True, tag_field="status", tag="scan_limit"):
    """A bound was hit before the whole body was looked through."""


class SearchUnavailable(Wire, frozen=True, kw_only=True, tag_field="status", tag="unavailable"):
    """The body is not there yet."""


SearchContext = SearchMatched | SearchNoMatch | SearchScanLimit | SearchUnavailable


class Message(Wire, frozen=True, kw_only=True):
    """A message, as the specification's Draft record: the same shape for drafts and for every other message."""

    id: str
    thread_id: str
    account_id: str
    draft_id: str | UnsetType = UNSET
    folder: FolderRef | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    from_: Address | UnsetType = msgspec.field(name="from", default=UNSET)
    to: tuple[Address, ...]
    cc: tuple[Address, ...] | UnsetType = UNSET
    bcc: tuple[Address, ...] | UnsetType = UNSET
    reply_to: tuple[Address, ...] | UnsetType = UNSET
    subject: str
    date: Timestamp
    snippet: str | UnsetType = UNSET
    search_context: SearchContext | UnsetType = UNSET
    body: Body | UnsetType = UNSET
    attachments: tuple[Attachment, ...] | UnsetType = UNSET
    flags: Flags
    headers: dict[str, str] | UnsetType = UNSET


class Page(Wire, Generic[T], frozen=True, kw_only=True):
    """Part of a list that can grow, and the cursor of what follows."""

    items: tuple[T, ...]
    next_cursor: str | None


class Label(Wire, frozen=True, kw_only=True):
    """A label of a mailbox; on an IMAP server a keyword (RFC 9051 2.3.2), whose id is its name."""

    id: str
    name: str


BodyFormat = Literal["text", "html", "markdown"]


class BodyPart(Wire, frozen=True, kw_only=True):
    """Part of a body in one form: characters `offset` up to `nextOffset`, which is null at the end."""

    format: BodyFormat
    content: str
    offset: Count
    next_offset: Count | None
    total_chars: Count


@dataclass(frozen=True)
class StoredBody:
    """The readable parts of a message as they are stored; `is_there`: they have been fetched, if there are any."""

    text: str | None
    html: str | None
    is_there: bool


@dataclass(frozen=True)
class Download:
    """A file as an answer, to be read piece by piece and then closed. `size`: None where it is not known beforehand.

    Type and name are as a sender wrote them: whoever passes them on makes them safe.
    """

    media_type: str
    filename: str
    size: int | None
    chunks: Iterator[bytes] = field(repr=False)


class DownloadLink(Wire, frozen=True, kw_only=True):
    """An address by which whoever has it downloads one attachment, until it expires. It is shown this once.

    Type and name are as the sender wrote them.
    """

    url: str
    expires_at: str
    filename: str
    mime_type: str
    size_bytes: int


class FailedAction(Wire, frozen=True, kw_only=True):
    """A message to which nothing was done, and why."""

    message_id: str
    code: str


class ActionResult(Wire, frozen=True, kw_only=True):
    """What became of each message of a bulk action."""

    action: str
    succeeded_ids: tuple[str, ...]
    failed: tuple[FailedAction, ...]
    uncertain_ids: tuple[str, ...]


class Thread(Wire, frozen=True, kw_only=True):
    """A conversation: its messages, oldest first."""

    id: str
    subject: str
    messages: Page[Message]


# --- searching -----------------------------------------------------------------------------------------------------

SearchedField = Literal["any", "from", "to", "subject"]


@dataclass(frozen=True)
class SearchTerm:
    """Words to be found in a field, one after the other; with `is_prefix` the last may be the beginning of a word."""

    words: str
    field: SearchedField = "any"
    is_prefix: bool = False


@dataclass(frozen=True)
class MessageFilter:
    """Which messages of a list are meant: all of these must hold. Times are milliseconds; `after` includes them.

    `is_impossible`: what was asked excludes itself, or cannot stand in any message.
    """

    terms: tuple[SearchTerm, ...] = ()
    text: str | None = None
    unread: bool | None = None
    starred: bool | None = None
    has_attachment: bool | None = None
    labels: tuple[str, ...] = ()
    after: int | None = None
    before: int | None = None
    is_impossible: bool = False


# --- sending -------------------------------------------------------------------------------------------------------

DeliveryKind = Literal["send", "forward", "scheduled"]
DeliveryStatus = Literal["queued", "sending", "succeeded", "failed", "uncertain"]


class DeliveryResult(Wire, frozen=True, kw_only=True):
    """The sent message, after success."""

    id: str
    thread_id: str
    warnings: tuple[str, ...] | UnsetType = UNSET


class DeliveryError(Wire, frozen=True, kw_only=True):
    """Why a delivery failed."""

    code: str


class Delivery(Wire, frozen=True, kw_only=True):
    """A delivery operation: what became of one accepted request to send."""

    operation_id: str
    account_id: str
    kind: DeliveryKind
    status: DeliveryStatus
    result: DeliveryResult | UnsetType = UNSET
    error: DeliveryError | UnsetType = UNSET
    schedule_id: str | UnsetType = UNSET


class DeliveryEntry(Delivery, frozen=True, kw_only=True):
    """A delivery operation as a person looks at it. `subject`: null where it is not known any more.

    `recipients`: everybody it went to, hidden ones too, for who sent it; else those that stand in To. `isOwn`: you sent
    it. `updatedAt`: its last step.
    """

    created_at: Timestamp
    updated_at: Timestamp
    send_at: Timestamp | None
    subject: str | None
    recipients: tuple[str, ...]
    is_own: bool


DeliveryStepName = Literal[
    "accepted", "connecting", "envelope", "data", "dot", "replied", "uncertain", "succeeded", "failed"
]
SentCopy = Literal["none", "pending", "filed"]


class DeliveryStep(Wire, frozen=True, kw_only=True):
    """A step of a delivery, noted before it was made. `attempt`: 1 for the first one, 0 before it.

    `connecting` to the server; `envelope`: who it is from and to; `data`: the message; `dot`: its end, after which it
    may have been taken; `replied`: what the server said to that.
    """

    at: Timestamp
    attempt: Count
    step: DeliveryStepName


class DeliveryTimeline(DeliveryEntry, frozen=True, kw_only=True):
    """The same with each step it went. `messageIdHeader`: the Message-ID, to look for it elsewhere.

    `looks`: how often evidence of an uncertain one was looked for; `nextLookAt`: when it is again. `sentCopy`: of ours,
    in Sent; `none` also where there is none to file yet. `replyCode`, `replyEnhanced`: what the SMTP server answered.
    """

    message_id_header: str
    attempts: Count
    next_attempt_at: Timestamp | None
    sent_copy: SentCopy
    looks: Count
    next_look_at: Timestamp | None
    reply_code: int | None
    reply_enhanced: str | None
    steps: tuple[DeliveryStep, ...]


@dataclass(frozen=True)
class Envelope:
    """Who a message goes to (RFC 5321 2.3.1). Domains are A-labels; `smtputf8`: some local part is not ASCII."""

    sender: str
    recipients: tuple[str, ...]
    smtputf8: bool = False


@dataclass(frozen=True)
class OperationResult(Generic[T]):
    """What an operation answers when there is more to say than the value itself."""

    data: T
    warnings: tuple[str, ...] = ()
    #: The answer of a release before this one, given again (`Idempotency-Replayed: true`), with its status.
    is_replayed: bool = False
    status: int | None = None


class ScheduledSend(Wire, frozen=True, kw_only=True):
    """A send that waits for its time, is being sent, or may have been."""

    id: str
    account_id: str
    operation_id: str
    send_at: Timestamp
    status: DeliveryStatus
    to: tuple[Address, ...]
    subject: str
    created_at: Timestamp


class PreviewedAttachment(Wire, frozen=True, kw_only=True):
    """A file that would go out."""

    filename: str
    mime_type: str
    size_bytes: Count


class SendPreview(Wire, frozen=True, kw_only=True):
    """What would go out, and to whom. Characters are counted as they are read, not as they travel."""

    account_id: str
    from_: str = msgspec.field(name="from")
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    subject: str
    attachments: tuple[PreviewedAttachment, ...]
    body_text_chars: Count
    body_html_chars: Count


class LegacySend(Wire, frozen=True, kw_only=True):
    """What a send answered before there were delivery operations: the sent message."""

    id: str
    thread_id: str
    warnings: tuple[str, ...] | UnsetType = UNSET


@dataclass(frozen=True)
class LegacyResponse:
    """An answer of an earlier release, as it was given: its status, and what stood in the envelope."""

    status: int
    data: LegacySend
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutgoingAttachment:
    """A file to send, decoded."""

    filename: str
    mime_type: str
    content: bytes | Content = field(repr=False)
    content_id: str | None = None
    inline: bool = False


@dataclass(frozen=True)
class OutgoingMessage:
    """A message to be composed; every address list is already resolved."""

    sender: Address
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    subject: str = ""
    text: str | None = None
    html: str | None = None
    attachments: tuple[OutgoingAttachment, ...] = ()
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComposedMessage:
    """A message ready to go: the wire bytes (CRLF, 7-bit, without Bcc), and the Bcc header field for our copy.

    The bytes of large files are read from where they are: the message must be stored before these go. `row`: what a
    reader of our copy is shown; None where it must be parsed for that.
    """

    wire: Content = field(repr=False)
    bcc_header: bytes
    envelope: Envelope
    message_id: str
    row: "ParsedMessage | None" = field(default=None, repr=False, compare=False)


# --- incoming ------------------------------------------------------------------------------------------------------


class ParsedAttachment(msgspec.Struct, frozen=True, array_like=True):
    """A part that is no body text. `part` is its number as in IMAP (RFC 9051 6.4.5): `2`, `1.3`."""

    part: str
    filename: str
    mime_type: str
    size_bytes: int
    content_id: str | None
    disposition: Literal["inline", "attachment"] | None


class ParsedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message read from its bytes. Parsing never fails: what could not be read is told in `warnings`.

    `searched` is the body for the full-text index, where that has been made already (`mail.searched`).
    """

    message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    subject: str
    sender: Address | None
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    date: datetime | None
    headers: dict[str, str]
    text: str | None
    html: str | None
    snippet: str
    attachments: tuple[ParsedAttachment, ...]
    warnings: tuple[str, ...]
    searched: str | None = None


@dataclass(frozen=True)
class ListedFolder:
    """A folder as LIST tells it (RFC 9051 7.3.1). The path is decoded; attributes are lower case, with backslash.

    `label`: on a server with labels (X-GM-EXT-1) most folders only show the messages that have one: its name, such as
    `\\Inbox` or `Work/2024`. Its messages lie in a folder without a label: the one of all mail, spam, or trash.
    """

    path: str
    delimiter: str | None
    attributes: frozenset[str]
    label: str | None = None


@dataclass(frozen=True)
class FolderState:
    """What SELECT or STATUS tells of a folder (RFC 9051 7.2.4, RFC 7162)."""

    uidvalidity: int
    uidnext: int
    exists: int
    highestmodseq: int | None = None


@dataclass(frozen=True)
class MirroredFolder:
    """A folder as the store has it. `label`: as of a `ListedFolder`; no message lies in one that has it."""

    number: int
    id: str
    account_id: str
    path: str
    delimiter: str | None
    role: FolderRole | None
    role_source: RoleSource | None
    state: FolderState | None
    label: str | None = None


@dataclass(frozen=True)
class FolderChanges:
    """What happened in a folder since a position: `changed` has the flags of every new or changed message.

    `vanished`: UIDs told to be gone. `present`: where not None, all UIDs that are there; what else was known is gone.
    """

    state: FolderState
    changed: Mapping[int, frozenset[str]]
    vanished: frozenset[int] = frozenset()
    present: frozenset[int] | None = None


@dataclass(frozen=True)
class ListedPart:
    """A part as BODYSTRUCTURE tells it (RFC 9051 7.5.2); `octets` is its size as it travels, encoded."""

    number: str
    mime_type: str
    parameters: Mapping[str, str]
    encoding: str
    octets: int
    content_id: str | None = None
    disposition: str | None = None
    disposition_parameters: Mapping[str, str] = field(default_factory=dict)
    children: "tuple[ListedPart, ...]" = ()


@dataclass(frozen=True)
class MessageIdentity:
    """A message as it is recognised in another folder, or after UIDVALIDITY changed: what stays the same of it.

    `message_id` is canonical (`mail.threads.canonical_message_id`). `provider_id`, where the provider gives one,
    decides alone; it tells the thread as well then.
    """

    uid: int
    flags: frozenset[str]
    message_id: str | None
    size: int
    internal_date: datetime
    provider_id: str | None = None
    provider_thread_id: str | None = None


@dataclass(frozen=True)
class LocatedMessage:
    """Where a mirrored message lies, and what it must still be before anything is done to it at the server."""

    id: str
    number: int
    folder: MirroredFolder
    uid: int | None
    message_id: str | None
    size: int
    internal_date: datetime
    flags: frozenset[str]
    body: int
    #: Not found any more where it was, or moved by us to a place where sync has not seen it yet.
    gone: bool = False
    provider_id: str | None = None


@dataclass(frozen=True)
class FetchedMessage:
    """A message as FETCH gives it: the flags of RFC 9051 2.3.2 as written, the INTERNALDATE, the source.

    The source is whole, or just the header fields that a list shows, as asked for. On a server with labels they are
    among the flags; `provider_id` and `provider_thread_id` (X-GM-MSGID, X-GM-THRID) never change.
    """

    uid: int
    flags: frozenset[str]
    internal_date: datetime
    size: int
    source: bytes = field(repr=False)
    provider_id: str | None = None
    provider_thread_id: str | None = None


@dataclass(frozen=True)
class FlagChange:
    """New flags of a message that is already known."""

    uid: int
    flags: frozenset[str]


# --- the journal of sending -------------------------------------------------------------------------------------------


class Phase(StrEnum):
    """How far a delivery has come. Each is committed before the act it names is begun."""

    ACCEPTED = "accepted"
    CONNECTING = "connecting"
    ENVELOPE = "envelope"
    DATA = "data"
    DOT = "dot"
    REPLIED = "replied"


@dataclass(frozen=True)
class NewDelivery:
    """A request to send, ready to be accepted: everything about it is fixed.

    With `send_at` it is scheduled. `draft_id`: the saved draft that is sent, in this `draft_version`. `parent_id`: the
    message that is answered or forwarded, which is marked so after success. `to` and `subject`: how a scheduled one is
    listed. `warnings`: what a client is told with it, whatever becomes of it.
    """

    account_id: str
    credential_id: str
    member_id: str
    idempotency_key: str
    request_hash: str
    kind: DeliveryKind
    message: ComposedMessage
    thread_id: str | None
    send_at: datetime | None = None
    draft_id: str | None = None
    parent_id: str | None = None
    to: tuple[Address, ...] = ()
    subject: str = ""
    quotas: "tuple[Quota, ...]" = ()
    draft_version: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quota:
    """How many messages a credential, or everybody together for a mailbox, may hand in within a time."""

    of: Literal["credential", "account"]
    most: int
    window: timedelta


@dataclass(frozen=True)
class AcceptedDelivery:
    """What accepting a request came to: a new operation, or the one that this key made before."""

    delivery: Delivery
    warnings: tuple[str, ...]
    is_new: bool
    is_shown: bool


@dataclass(frozen=True)
class OpenDelivery:
    """An operation that is being sent, or waits for its time, without its message."""

    operation_id: str
    account_id: str
    phase: Phase
    is_shown: bool
    kind: DeliveryKind = "send"


@dataclass(frozen=True)
class UncertainDelivery:
    """An operation whose message may have been taken: what to look for, who it went to, and how often was looked."""

    operation_id: str
    account_id: str
    message_id: str
    recipients: tuple[str, ...]
    since: datetime
    looks: int
    provider_draft_id: str | None = None


@dataclass(frozen=True)
class FoundCopy:
    """Where a message was found by its Message-ID, and its size and date there.

    `uid`: None where the mirror knows the folder by another UIDVALIDITY yet. `seen`: all that was told of it.
    """

    folder: MirroredFolder
    uid: int | None
    size: int | None = None
    internal_date: datetime | None = None
    seen: MessageIdentity | None = None


PostSendTaskKind = Literal["remove_draft", "flag_parent", "keep_draft"]


@dataclass(frozen=True)
class PostSendTask:
    """What is left to be done at the mailbox's server once an operation is over.

    `message_id`: the message to flag, or the saved draft that was sent or is to be kept, in this `draft_version`; None
    where none was.
    """

    operation_id: str
    account_id: str
    kind: PostSendTaskKind
    message_id: str | None
    draft_version: str | None
    flag: str | None
    attempts: int


@dataclass(frozen=True)
class DeliveryWork:
    """What the worker needs to hand an operation over, or to file the copy of one that was."""

    operation_id: str
    account_id: str
    kind: DeliveryKind
    status: DeliveryStatus
    phase: Phase
    is_shown: bool
    wire: Content = field(repr=False)
    bcc_header: bytes = field(repr=False)
    envelope: Envelope
    message_id: str
    result_id: str
    result_thread_id: str
    created_at: datetime
    copy_attempts: int
    attempts: int
    send_at: datetime | None
    last_cause: str | None
    credential_id: str
    member_id: str
    draft_id: str | None
    parent_id: str | None
    updated_at: datetime
    #: The id of the message at the provider that is sent by its id (Microsoft Graph); None before it was made.
    provider_draft_id: str | None = None
    #: What a reader of our copy is shown, from its composer; None where only the bytes are left.
    row: ParsedMessage | None = field(default=None, repr=False, compare=False)

    @property
    def message_date(self) -> datetime:
        """What its Date field says: when it is to be sent, else when it was accepted."""
        return self.send_at or self.created_at


# --- the store's life -------------------------------------------------------------------------------------------------

#: Told while long work goes on: what is being done, how much of it, out of how much.
Progress = Callable[[str, int, int], None]

BackupReason = Literal["manual", "daily", "migration", "pre-restore"]


class Backup(Wire, frozen=True, kw_only=True):
    """A backup in `backups/`. `format`: of the store in it; `version`: the release that made it; `verified`: it was
    read back and checked after it was written. `passphraseProtected`: whoever has the file alone cannot open it.
    """

    id: str
    file_name: str
    created_at: Timestamp
    reason: BackupReason
    format: int
    version: str
    size_bytes: int
    passphrase_protected: bool
    verified: bool


class BackupSummary(Wire, frozen=True, kw_only=True):
    """What a backup holds, after all of it was read and checked: how many members, mailboxes and messages."""

    ok: bool
    created_at: Timestamp
    format: int
    version: str
    members: int
    accounts: int
    messages: int


class StoreFault(Wire, frozen=True, kw_only=True):
    """Something in a store that is not as it should be; `code` names its kind."""

    code: str
    message: str


class StoreCheck(Wire, frozen=True, kw_only=True):
    """What looking through a store found. `checked`: what was looked at; `full`: all there is to look at."""

    ok: bool
    full: bool
    format: int
    checked: tuple[str, ...]
    problems: tuple[StoreFault, ...]
