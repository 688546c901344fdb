"""Members, sessions, API keys, what each may do, and what the audit log says of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance.model.base import Count, Timestamp, Wire


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
