"""Operations on members, for administrators: invite, change, suspend, reset the password, remove; and their sessions.

An API key, whatever its capabilities, can neither change an administrator nor make anybody one
(`permissions.require_may_change_admins`). This is checked before the body is read and again inside the transaction,
because a member may become an administrator in between.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, Detail, Invalid, LetInByKey, NotFound
from mailbox_appliance.model.base import Deletion, Input, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability, IssuedInvitation, Member, MemberStatus, Role, Session
from mailbox_appliance.operations.licence import require_room_for_member
from mailbox_appliance.operations.message_input import Email, Name, refuse_control_characters
from mailbox_appliance.operations.operation import Caller, operation, recheck_caller
from mailbox_appliance.operations.sessions import end_sessions
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.store import Store

#: The action in the audit log when somebody gets this role or status.
_ACTION_OF_CHANGE: Mapping[Role | MemberStatus, str] = {
    "admin": "member.promote",
    "member": "member.demote",
    "suspended": "member.suspend",
    "active": "member.activate",
}
_LAST_ADMIN_WARNING = (
    "No administrator can sign in until {email} opens their link and sets a password. If the link expires ({until}),"
    " administrator access is lost."
)
INVITATION_LIFETIME, RESET_LIFETIME = timedelta(days=7), timedelta(hours=24)


class CreateMemberRequest(Input, frozen=True, kw_only=True):
    """A new member.

    - name: Name, shown to other members.
    - email: Email address to sign in with.
    - role: `admin` for administrators, otherwise `member`.
    """

    name: Name
    email: Email
    role: Role


class UpdateMemberRequest(Input, frozen=True, kw_only=True):
    """Changes to a member. Omitted fields stay unchanged.

    - name: New name.
    - email: New email address to sign in with.
    - role: New role.
    - status: `suspended` locks the member out; `active` reverses it.
    """

    name: Name | UnsetType = UNSET
    email: Email | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    status: MemberStatus | UnsetType = UNSET


class InvitedMember(Wire, frozen=True, kw_only=True):
    """A new member and the invitation.

    - member: The member.
    - invitation: The invitation. It is shown only once.
    """

    member: Member
    invitation: IssuedInvitation


def require_member_exists(appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:  # noqa: ARG001
    """Raise NotFound unless the member named in the path of the request exists."""
    appliance.store.members.get(values.get("memberId", ""))


def require_may_change_member(appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:
    """Raise NotFound if the member named in the path does not exist, and Denied if an API key would change an
    administrator.
    """
    member = appliance.store.members.get(values.get("memberId", ""))
    permissions.require_may_change_admins(caller.required_credential, member.role)


def get_changeable_member(appliance: Appliance, caller: Caller, member_id: str) -> Member:
    """Return the member, after checking again that the caller may change them. Call inside a transaction.

    Raises NotFound, Denied if an API key would change an administrator, and Unauthenticated, MemberSuspended or Denied
    if the caller has lost their own rights.
    """
    recheck_caller(appliance.store, caller, Capability.ADMIN_MEMBERS)
    member = appliance.store.members.get(member_id)
    permissions.require_may_change_admins(caller.required_credential, member.role)
    return member


@operation(needs=Capability.ADMIN_MEMBERS, https=True)
def list_members(appliance: Appliance, caller: Caller) -> tuple[Member, ...]:  # noqa: ARG001
    """List all members.

    The oldest member comes first.
    """
    return appliance.store.members.list()


@operation(needs=Capability.ADMIN_MEMBERS, https=True)
def create_member(appliance: Appliance, caller: Caller, request: CreateMemberRequest) -> InvitedMember:
    """Create and invite a member.

    Returns an invitation, shown only once: single-use, expires after 7 days. The appliance does not send it; pass its
    link on to the member yourself. An API key cannot create an administrator (403).

    409 `email_taken`: another member has this email. 403 `plan_denied`: the license allows no more members.
    """
    permissions.require_may_change_admins(caller.required_credential, request.role)
    refuse_control_characters("/name", request.name)
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_caller(store, caller, Capability.ADMIN_MEMBERS)
        require_room_for_member(appliance)
        member = store.members.add(name=request.name, email=request.email, role=request.role, password_hash=None)
        store.audit.record(caller.actor, "member.create", ("member", member.id))
        invitation = _invite(appliance, caller, member.id)
        return InvitedMember(member=store.members.get(member.id), invitation=invitation)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_member_exists)
def get_member(appliance: Appliance, caller: Caller, member_id: str) -> Member:  # noqa: ARG001
    """Get a member.

    `invitation` shows when a pending invitation expires.
    """
    return appliance.store.members.get(member_id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def update_member(
    appliance: Appliance, caller: Caller, member_id: str, request: UpdateMemberRequest
) -> OperationResult[Member]:
    """Change a member.

    Changes name, email, role or status, effective from the member's next request. Omitted fields stay unchanged.

    - Suspending a member ends their sessions permanently. Their API keys return 403 `member_suspended` until the member
      is active again.
    - When a member becomes an administrator, pending links that were shown to an API key stop working.
    - When an administrator is demoted, the API keys that they created for others are revoked.
    - An API key can neither change an administrator nor create one (403).

    Errors:

    - 409 `email_taken`: another member has this email.
    - 409 `last_admin`: no other active administrator has a password, or a pending link that is valid for at least one
      more hour. If only such a link remains, the change succeeds with a warning.
    - 409 `conflict`: the member's password was set through a link that an API key was shown, so they cannot become an
      administrator.
    """
    if request.name is not UNSET:
        refuse_control_characters("/name", request.name)
    store = appliance.store
    with store.database.transaction(durable=True):
        before = get_changeable_member(appliance, caller, member_id)
        if request.role is not UNSET:
            permissions.require_may_change_admins(caller.required_credential, request.role)
        if (
            request.role == "admin"
            and before.role != "admin"
            and store.one_time_tokens.is_password_known_to_key(member_id)
        ):
            raise LetInByKey
        given = msgspec.structs.asdict(request).items()
        change = {name: value for name, value in given if value not in (UNSET, getattr(before, name))}
        if not change:
            return OperationResult(before)
        store.members.update(member_id, **change)
        for action in _audit_actions(change):
            store.audit.record(caller.actor, action, ("member", member_id))
        if change.get("status") == "suspended":
            end_sessions(appliance, caller.actor, member_id)
        if change.get("role") == "admin":
            # The key's holder got these for a member; now they would let somebody sign in as an administrator.
            store.one_time_tokens.revoke_shown_to_keys(member_id)
        if change.get("role") == "member":
            _revoke_made_for_others(appliance, caller, member_id)
        return OperationResult(store.members.get(member_id), _last_admin_warnings(appliance))


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def delete_member(appliance: Appliance, caller: Caller, member_id: str) -> Deletion:
    """Delete a member.

    Deletes their sessions, their API keys and their access to mailboxes. Messages that they scheduled are not sent, and
    the API keys that they created for others are revoked, because they have seen the tokens.

    409 `conflict`: the member owns mailboxes. 409 `last_admin`: no other active administrator has a password.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        get_changeable_member(appliance, caller, member_id)
        end_sessions(appliance, caller.actor, member_id)
        _revoke_made_for_others(appliance, caller, member_id)
        store.members.remove(member_id)
        store.audit.record(caller.actor, "member.delete", ("member", member_id))
    return Deletion(id=member_id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def invite_member(appliance: Appliance, caller: Caller, member_id: str) -> IssuedInvitation:
    """Invite a member again.

    For a member who has not set a password yet. Single-use, expires after 7 days; an earlier invitation stops working.

    409 `conflict`: the member has already set a password; issue a password reset instead.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        get_changeable_member(appliance, caller, member_id)
        if store.members.get_password_hash(member_id) is not None:
            reason = "This member has already set a password. Issue a password reset instead."
            raise Conflict(reason=reason)
        return _invite(appliance, caller, member_id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def reset_password(appliance: Appliance, caller: Caller, member_id: str) -> IssuedInvitation:
    """Issue a password reset.

    Returns a token with which the member sets a new password: single-use, expires after 24 hours. An earlier reset
    stops working. The current password and sessions stay valid until the token is used. The member sees that it was
    issued.
    """
    store, token = appliance.store, new_token("mbxr")
    with store.database.transaction(durable=True):
        get_changeable_member(appliance, caller, member_id)
        expires_at = store.one_time_tokens.issue(
            "password_reset", member_id, hash_token(token), RESET_LIFETIME, by_key=_by_key(caller)
        )
        store.audit.record(caller.actor, "password_reset.create", ("member", member_id))
    return _to_issued_invitation(appliance, "reset", token, expires_at)


def _revoke_made_for_others(appliance: Appliance, caller: Caller, maker_id: str) -> None:
    """The maker has seen these tokens, and no list would show them the keys any more."""
    store = appliance.store
    for key in store.api_keys.list_made_for_others(maker_id):
        store.api_keys.revoke(key.id)
        store.audit.record(caller.actor, "api_key.revoke", ("api_key", key.id), about=key.member_id)


def _last_admin_warnings(appliance: Appliance) -> tuple[str, ...]:
    awaited = appliance.store.members.find_awaited_admin()
    return () if awaited is None else (_LAST_ADMIN_WARNING.format(email=awaited[0], until=awaited[1]),)


def _audit_actions(change: Mapping[str, Any]) -> tuple[str, ...]:
    """One for the role, one for the status, one for name and email together."""
    acts = [_ACTION_OF_CHANGE[change[name]] for name in ("role", "status") if name in change]
    return (*acts, *(("member.update",) if {"name", "email"} & change.keys() else ()))


def _invite(appliance: Appliance, caller: Caller, member_id: str) -> IssuedInvitation:
    store, token = appliance.store, new_token("mbxi")
    expires_at = store.one_time_tokens.issue(
        "invitation", member_id, hash_token(token), INVITATION_LIFETIME, by_key=_by_key(caller)
    )
    store.audit.record(caller.actor, "invitation.create", ("member", member_id))
    return _to_issued_invitation(appliance, "enroll", token, expires_at)


def _by_key(caller: Caller) -> bool:
    return caller.kind == "api_key"


def _to_issued_invitation(appliance: Appliance, what: str, token: str, expires_at: str) -> IssuedInvitation:
    # The token is in the fragment, which browsers do not send to servers.
    return IssuedInvitation(token=token, url=f"{appliance.public_url}/#{what}={token}", expires_at=expires_at)


# --- Sessions of other members, for administrators ---


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_member_exists)
def list_sessions_of(appliance: Appliance, caller: Caller, member_id: str) -> tuple[Session, ...]:
    """List a member's sessions.

    The most recently used session comes first.
    """
    return appliance.store.credentials.list_sessions(member_id, caller.required_credential.id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_member_exists)
def get_session_of(appliance: Appliance, caller: Caller, member_id: str, session_id: str) -> Session:
    """Get a member's session.

    The session must belong to this member.
    """
    return appliance.store.credentials.get_session(member_id, session_id, caller.required_credential.id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def revoke_sessions_of(appliance: Appliance, caller: Caller, member_id: str) -> Deletion:
    """Revoke all sessions of a member.

    They end immediately. `id` in the response is the member's.
    """
    with appliance.store.database.transaction(durable=True):
        get_changeable_member(appliance, caller, member_id)
        end_sessions(appliance, caller.actor, member_id)
    return Deletion(id=member_id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, check_request=require_may_change_member)
def revoke_session_of(appliance: Appliance, caller: Caller, member_id: str, session_id: str) -> Deletion:
    """Revoke a member's session.

    It ends immediately.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        get_changeable_member(appliance, caller, member_id)
        store.credentials.remove_session(member_id, session_id)
        store.audit.record(caller.actor, "session.revoke", ("session", session_id), about=member_id)
    return Deletion(id=session_id)


# --- Members that a body names by their IDs ---


_UNKNOWN_MEMBER = "No member has this ID."


def get_named_member(store: Store, member_id: str, pointer: str) -> Member:
    """Return the member with this ID. Raises Invalid if there is none; `pointer` is the place of the ID in the
    request.
    """
    try:
        return store.members.get(member_id)
    except NotFound as error:
        raise Invalid.at(pointer, _UNKNOWN_MEMBER) from error


def require_named_members(store: Store, member_ids: Iterable[tuple[str, str]]) -> None:
    """Raise Invalid if any of these members does not exist. `member_ids`: pairs of a JSON pointer and an ID."""
    unknown = tuple(
        Detail(place, _UNKNOWN_MEMBER) for place, member_id in member_ids if not _member_exists(store, member_id)
    )
    if unknown:
        raise Invalid(details=unknown, reason=_UNKNOWN_MEMBER)


def _member_exists(store: Store, member_id: str) -> bool:
    try:
        store.members.get(member_id)
    except NotFound:
        return False
    return True
