"""Members, sessions, API keys, what each may do, and their audit log entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance.model.base import Count, Timestamp, Wire


class Capability(StrEnum):
    """A permission of a credential."""

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
    """An invitation that has not been accepted yet.

    - expires_at: When it expires.
    """

    expires_at: Timestamp


class Member(Wire, frozen=True, kw_only=True):
    """A person who can sign in.

    - id: Member ID, such as `mem_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - name: Name, shown to other members.
    - email: Email address to sign in with.
    - role: `admin` for administrators, otherwise `member`.
    - status: `suspended` members cannot sign in.
    - created_at: When the member was created.
    - updated_at: When the member was last changed.
    - last_login_at: When the member last signed in; null if never.
    - invitation: The pending invitation; null if there is none.
    """

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
    """A session of a member on one device. It expires after 30 days without use, and 90 days after the sign-in.

    - id: Session ID, such as `ses_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - device_name: Name of the device, given at sign-in.
    - created_at: When the session started.
    - last_used_at: When it was last used.
    - expires_at: When it expires, unless it is used before.
    - current: Whether this request uses it.
    """

    id: str
    device_name: str
    created_at: Timestamp
    last_used_at: Timestamp
    expires_at: Timestamp
    current: bool


class Credential(Wire, frozen=True, kw_only=True):
    """The credential of a request, and what it can do.

    - kind: Kind of credential.
    - id: ID of the session or API key.
    - capabilities: What it can do now.
    - account_ids: IDs of the mailboxes that it is limited to; null for all that the member has access to.
    """

    kind: Literal["session", "api_key"]
    id: str
    capabilities: tuple[Capability, ...]
    account_ids: tuple[str, ...] | None


class IssuedInvitation(Wire, frozen=True, kw_only=True):
    """A single-use token with which a member sets a password. It is shown only once.

    - token: The token.
    - url: Link to the console, with the token in its fragment; pass it on to the member.
    - expires_at: When it expires.
    """

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
    """An API key, without its token.

    - id: Key ID, such as `key_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - name: Name of the key.
    - created_at: When it was created.
    - last_used_at: When it was last used; null if never.
    - member_id: ID of the member it belongs to.
    - permission_profile: Its profile; `custom` if its capabilities were given one by one.
    - capabilities: All its capabilities. What it can do also depends on its member's permissions.
    - supplemental_capabilities: Administrative capabilities, which are also in `capabilities`.
    - account_ids: IDs of the mailboxes that it is limited to; null for all that its member has access to.
    """

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
    """The permissions of an API key, as stored.

    - profile: The name of its profile, or `custom`.
    - capabilities: All its capabilities.
    - supplemental: The administrative ones among these capabilities.
    - account_ids: IDs of the mailboxes that it is limited to; None for all.
    """

    profile: PermissionProfile
    capabilities: tuple[Capability, ...]
    supplemental: tuple[Capability, ...] = ()
    account_ids: tuple[str, ...] | None = None


class License(Wire, frozen=True, kw_only=True):
    """The license of the appliance.

    - plan: Name of the plan; `community` without a license.
    - status: `none`, `valid`, `expired`, or `unverified` if the issuer has not confirmed it in time.
    - issued_to: The licensee; null without a license.
    - expires_at: When it expires; null if it does not.
    - max_members: Maximum number of members; null for no limit.
    - max_accounts: Maximum number of mailboxes; null for no limit.
    """

    plan: str
    status: Literal["none", "valid", "expired", "unverified"]
    issued_to: str | None
    expires_at: Timestamp | None
    max_members: Count | None
    max_accounts: Count | None


class AuditActor(Wire, frozen=True, kw_only=True):
    """The person or program that performed an audited action.

    - kind: `session`, `api_key`, `local` (the operator on the appliance's computer) or `system` (nobody known).
    - id: ID of the session or API key; null for others.
    - member_id: ID of the member; null if there is none.
    """

    kind: Literal["session", "api_key", "local", "system"]
    id: str | None
    member_id: str | None


class AuditTarget(Wire, frozen=True, kw_only=True):
    """The object that an audited action was applied to.

    - kind: Kind of the target, such as `member`, `account` or `api_key`.
    - id: ID of the target.
    """

    kind: str
    id: str


class AuditEvent(Wire, frozen=True, kw_only=True):
    """An entry of the audit log.

    - id: Event ID, such as `aud_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - at: When it happened.
    - actor: Who did it.
    - action: What was done, such as `session.create`.
    - target: What it was done to; null if there is no target.
    - outcome: Whether it succeeded, failed, or was denied.
    - client_address: IP address of the client; null if it is not known.
    """

    id: str
    at: Timestamp
    actor: AuditActor
    action: str
    target: AuditTarget | None
    outcome: Literal["success", "failure", "denied"]
    client_address: str | None
