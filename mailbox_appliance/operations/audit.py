"""Operations that list and verify the audit log. Also the warnings that a member gets about what others did to them."""

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import Clock
from mailbox_appliance.model.base import Page, Wire
from mailbox_appliance.model.members import AuditEvent, Capability
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.operation import Access, Caller, Cursor, Limit, operation
from mailbox_appliance.store.audit import ActByOther
from mailbox_appliance.store.store import Store

About = Annotated[str, Meta(max_length=200, description="Only events that this member caused or is affected by.")]
Action = Annotated[
    str,
    Meta(
        min_length=1, max_length=100, description="Only this action (`session.create`), or all of a kind (`session`)."
    ),
]
Outcome = Annotated[Literal["success", "failure", "denied"], Meta(description="Only events with this outcome.")]
_AUDIT_LIST, _OWN_AUDIT_LIST = "audit", "own audit"
#: How long a member is warned of what others did to them.
WARN_FOR = timedelta(days=7)
_WARNING_TEXTS = {
    "password_reset.create": "{who} issued a password reset for you",
    "member.update": "{who} changed your name or email",
    "member.promote": "{who} made you an administrator",
    "member.demote": "{who} removed your administrator role",
    "member.suspend": "{who} suspended you",
    "member.activate": "{who} reactivated you after a suspension",
    "session.revoke": "{who} revoked sessions of yours",
    "api_key.create": "{who} created an API key for you",
    "api_key.update": "{who} changed the permissions of an API key of yours",
    "api_key.revoke": "{who} revoked an API key of yours",
    # The maker of a key was shown its token, and may be the one who uses it.
    "api_key.use": "An API key that an administrator created for you acted in your name",
    "account.create": "{who} connected a mailbox for you",
    "account.access": "{who} changed who has access to a mailbox of yours",
    "backup.restore": "{who} restored a backup of the whole appliance",
}


class AuditLogFault(Wire, frozen=True, kw_only=True):
    """The first entry of the audit log that was changed, removed, added or moved.

    - number: Number of the entry, counted from the beginning of the log.
    - id: ID of the entry; null if the entry is missing.
    - reason: What is wrong with it.
    """

    number: int
    id: str | None
    reason: str


class AuditLogVerification(Wire, frozen=True, kw_only=True):
    """The result of verifying the audit log.

    - ok: Whether all entries are as they were written.
    - count: How many entries there should be.
    - first_broken: The first entry that was changed, removed, added or moved; null if there is none.
    """

    ok: bool
    count: int
    first_broken: AuditLogFault | None


@operation(needs=Capability.ADMIN_AUDIT, https=True)
def list_events(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    member_id: About | None = None,
    action: Action | None = None,
    outcome: Outcome | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[AuditEvent]:
    """List audit events.

    Newest first: every sign-in, also failed ones, and every change of access, members, mailboxes and configuration.
    """
    of = (_AUDIT_LIST, member_id, action, outcome)
    before = decode_cursor(cursor, *of)
    items, more = appliance.store.audit.list(before, limit, about=member_id, action=action, outcome=outcome)
    return Page(items=items, next_cursor=encode_cursor(more, *of))


@operation(access=Access.SESSION)
def list_own_events(
    appliance: Appliance, caller: Caller, limit: Limit = 50, cursor: Cursor | None = None
) -> Page[AuditEvent]:
    """List your audit events.

    Newest first: what you did, and what others did to you, your API keys, sessions and mailboxes.
    """
    member = caller.member.id
    items, more = appliance.store.audit.list(decode_cursor(cursor, _OWN_AUDIT_LIST, member), limit, about=member)
    return Page(items=items, next_cursor=encode_cursor(more, _OWN_AUDIT_LIST, member))


@operation(needs=Capability.ADMIN_AUDIT, https=True)
def verify_events(appliance: Appliance, caller: Caller) -> AuditLogVerification:  # noqa: ARG001
    """Verify the audit log.

    Checks whether any row was changed, removed, added or moved, and reports the first one. Each row has an
    authentication code that covers the previous row too (HMAC, with a key derived from the store's key), and the end of
    the log is stored separately. 100,000 rows take about three seconds. Only one verification runs at a time: 429
    `too_many_attempts` with `Retry-After`.
    """
    check = appliance.store.audit.verify()
    broken = check.broken
    fault = None if broken is None else AuditLogFault(number=broken.number, id=broken.id, reason=broken.reason)
    return AuditLogVerification(ok=broken is None, count=check.count, first_broken=fault)


def security_warnings(store: Store, clock: Clock, member_id: str) -> tuple[str, ...]:
    """Return warnings about what others did to a member in the last 7 days: one for each kind of action and each
    day.
    """
    # Rounded to the hour, so that one lookup serves many requests.
    since = (clock.now() - WARN_FOR).isoformat()[:13]
    return tuple(
        _warning_text(deed)
        for deed in store.audit.list_acts_by_others(member_id, since)
        if deed.action in _WARNING_TEXTS
    )


def _warning_text(deed: ActByOther) -> str:
    who = "The operator" if deed.by == "local" else "An administrator"
    what = _WARNING_TEXTS[deed.action].format(who=who)
    return f"{what} on {deed.day} (UTC): see `audit list --mine`, or GET /api/v1/me/audit-events."
