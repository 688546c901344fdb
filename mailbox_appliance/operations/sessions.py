"""Logging in and out, and the sessions that come of it."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import InvalidCredentials, MemberSuspended, NotFound
from mailbox_appliance.model.records import (
    Capability,
    Credential,
    Deleted,
    Input,
    Member,
    OperationResult,
    Session,
    Wire,
)
from mailbox_appliance.operations.attempts import PER_ADDRESS, PER_EMAIL, Attempt, attempted, by_address, by_email
from mailbox_appliance.operations.audit import warnings_for
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import DeviceName, Email, Password, refuse_controls
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.audit import Actor


class LogIn(Input, frozen=True, kw_only=True):
    """A member's email and password."""

    email: Email
    password: Password
    device_name: DeviceName


class LoggedIn(Wire, frozen=True, kw_only=True):
    """A new session. The token is shown this once."""

    token: str
    session: Session
    member: Member


class WhoAmI(Wire, frozen=True, kw_only=True):
    """The member behind a request and what it was made with."""

    member: Member
    credential: Credential


@operation(access=Access.ANYBODY, https=True)
def log_in(appliance: Appliance, caller: Caller, request: LogIn) -> OperationResult[LoggedIn]:
    """Log in with email and password. After 5 failures for one email, or 30 from one address, in 15 minutes: 429."""
    refuse_controls("/deviceName", request.device_name)
    limits = {by_email(request.email): PER_EMAIL, by_address(caller.origin): PER_ADDRESS}
    with attempted(appliance, caller, limits) as attempt:
        logged_in = _try_log_in(appliance, attempt, request)
    return OperationResult(logged_in, warnings_for(appliance.store, appliance.clock, logged_in.member.id))


@operation()
def who_am_i(appliance: Appliance, caller: Caller) -> OperationResult[WhoAmI]:
    """The member behind the credential, and what the credential may do.

    For 7 days `warnings` tell a session what others did to its member: a password reset issued, their role, email,
    keys, sessions or mailboxes changed, a backup restored.
    """
    found = caller.required_credential
    accounts = None if found.account_ids is None else tuple(sorted(found.account_ids))
    listed = Capability if found.kind == "session" else found.capabilities
    capabilities = tuple(capability for capability in listed if capability in caller.capabilities)
    credential = Credential(kind=found.kind, id=found.id, capabilities=capabilities, account_ids=accounts)
    warnings = warnings_for(appliance.store, appliance.clock, found.member.id) if found.kind == "session" else ()
    return OperationResult(WhoAmI(member=found.member, credential=credential), warnings)


@operation(access=Access.SESSION)
def list_sessions(appliance: Appliance, caller: Caller) -> tuple[Session, ...]:
    """Your sessions, the last used first."""
    return appliance.store.credentials.list_sessions(caller.member.id, caller.required_credential.id)


@operation(access=Access.SESSION)
def revoke_session(appliance: Appliance, caller: Caller, session_id: str) -> Deleted:
    """End one of your sessions. Ending the one you use is logging out."""
    _end_session(appliance, caller, session_id)
    return Deleted(id=session_id)


@operation(access=Access.SESSION)
def log_out(appliance: Appliance, caller: Caller) -> None:
    """End the session that this request was made with."""
    _end_session(appliance, caller, caller.required_credential.id)


def begin_session(
    appliance: Appliance,
    member_id: str,
    device_name: str,
    client_address: str | None,
    *,
    by: str | None = None,
    rehashed: str | None = None,
    logged_in_at: str | None = None,
) -> LoggedIn:
    """A new session, and the log-in that it means. Inside a transaction.

    `by`: the act that it came of, for the audit log. `rehashed`: the password's new hash.
    `logged_in_at`: when the log-in was that it came of, if not now. A session too many ends the one longest unused.
    """
    store, token = appliance.store, new_token("mbxs")
    store.members.mark_logged_in(member_id, rehashed=rehashed)
    session = store.credentials.add_session(member_id, hash_token(token), device_name, logged_in_at=logged_in_at)
    whose = Actor("session", session.id, member_id, client_address)
    if by is not None:
        store.audit.record(whose, by, ("member", member_id))
    store.audit.record(whose, "session.create", ("session", session.id))
    for ended in store.credentials.remove_surplus_sessions(member_id, session.id):
        store.audit.record(whose, "session.revoke", ("session", ended))
    return LoggedIn(token=token, session=session, member=store.members.get(member_id))


def end_sessions(appliance: Appliance, actor: Actor, member_id: str, keep: str | None = None) -> None:
    """End all sessions of a member, or all but one: each is a row of the audit log. Inside a transaction."""
    about = None if actor.member_id == member_id else member_id
    for ended in appliance.store.credentials.remove_sessions(member_id, keep):
        appliance.store.audit.record(actor, "session.revoke", ("session", ended), about=about)


def require_password(appliance: Appliance, member_id: str, hashed: str) -> None:
    """Raises InvalidCredentials where the password is another one since it was looked at. Inside a transaction."""
    try:
        is_same = appliance.store.members.get_password_hash(member_id) == hashed
    except NotFound as error:
        raise InvalidCredentials from error
    if not is_same:
        raise InvalidCredentials


def _try_log_in(appliance: Appliance, attempt: Attempt, request: LogIn) -> LoggedIn:
    store = appliance.store
    member_id, hashed = _known(appliance, attempt, request)
    rehashed = passwords.hash_password(request.password) if passwords.needs_rehash(hashed) else None
    with store.database.transaction(durable=True):
        require_password(appliance, member_id, hashed)
        if store.members.get(member_id).status == "suspended":
            raise MemberSuspended
        store.login_attempts.clear(by_email(request.email))
        address = attempt.caller.origin.client_address
        return begin_session(appliance, member_id, request.device_name, address, rehashed=rehashed)


def _known(appliance: Appliance, attempt: Attempt, request: LogIn) -> tuple[str, str]:
    """The member's id and the hash that the password fits. Raises InvalidCredentials, MemberSuspended."""
    members = appliance.store.members
    found = members.find_with_password(request.email)
    member, hashed = found if found is not None else (None, None)
    # An unknown email takes as long as a known one, and gets the same answer.
    hides_legacy = members.has_legacy_passwords()
    is_right = passwords.verify_password(request.password, hashed, hides_legacy=hides_legacy)
    target = None if member is None else ("member", member.id)
    if not is_right or member is None or hashed is None:
        attempt.record_failure("session.create", target)
        raise InvalidCredentials
    if member.status == "suspended":
        attempt.record_failure("session.create", target, "denied")
        raise MemberSuspended
    return member.id, hashed


def _end_session(appliance: Appliance, caller: Caller, session_id: str) -> None:
    with appliance.store.database.transaction(durable=True):
        appliance.store.credentials.remove_session(caller.member.id, session_id)
        appliance.store.audit.record(caller.actor, "session.revoke", ("session", session_id))
