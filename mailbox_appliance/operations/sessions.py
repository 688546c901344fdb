"""Operations to sign in and out, to list and revoke sessions, and to change one's own name and password. Also the
limits of failed sign-ins.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Literal

from msgspec import UNSET, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import InvalidCredentials, LogInsBusy, MemberSuspended, NotFound, Throttled, WrongPassword
from mailbox_appliance.events import SignInRejected
from mailbox_appliance.model.base import Deletion, Input, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability, Credential, Member, Session
from mailbox_appliance.operations.audit import security_warnings
from mailbox_appliance.operations.message_input import (
    DeviceName,
    Email,
    Name,
    Password,
    refuse_control_characters,
    refuse_weak_password,
)
from mailbox_appliance.operations.operation import Access, Caller, Origin, operation, recheck_caller
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.members import email_key

# --- Attempts to sign in: how often they may fail, and how many are checked at once ---
#
# limits (two reads, 429)  ->  a slot (429)  ->  its turn  ->  a reserved failure  ->  hashing  ->  the outcome
#
# A rejected attempt writes nothing. A failure is in the store, with its audit entry, before the response is sent.


MAX_FAILURES_PER_EMAIL = 5
MAX_FAILURES_PER_ADDRESS = 30
#: For the current password, given by those who have a session already.
MAX_FAILURES_PER_MEMBER = 5
MAX_FAILURES_OF_SET_UP = 30

# Attempts in one bucket are checked one after another: each outcome is known before the next one counts. Only
# attempts with a slot wait here, so few workers ever do.
_ATTEMPT_LOCKS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True)
class LoginAttempt:
    """A sign-in attempt in progress, and the counters of failed attempts that apply to it."""

    appliance: Appliance
    caller: Caller
    limits: Mapping[str, int]

    def record_failure(
        self,
        action: str,
        target: tuple[str, str] | None = None,
        outcome: Literal["failure", "denied"] = "failure",
    ) -> None:
        """Count the failure and record it in the audit log. Call this before the response is sent.

        `action`: the audit action. `target`: kind and ID of the member, if known.
        """
        store = self.appliance.store
        with store.database.transaction():
            store.login_attempts.record_failure(self.limits.keys())
            store.audit.record(self.caller.actor, action, target, outcome)
        self.appliance.events.publish(SignInRejected("suspended" if outcome == "denied" else "wrong"))


@contextmanager
def begin_attempt(appliance: Appliance, caller: Caller, limits: Mapping[str, int]) -> Iterator[LoginAttempt]:
    """Context manager: yield a sign-in attempt, and keep similar attempts waiting until the block ends.

    `limits`: the maximum number of failures for each counter, such as `email:ada@example.org`. A failure counts in all
    of these counters. Attempts with the same first counter wait for each other. Raises Throttled if a counter has
    reached its limit.
    """
    attempts = appliance.store.login_attempts
    turn = _ATTEMPT_LOCKS[hash(next(iter(limits))) % len(_ATTEMPT_LOCKS)]
    with ExitStack() as held:
        try:
            attempts.require_room(limits)
            held.enter_context(appliance.hashing_slot(is_local=caller.origin.is_local))
            held.enter_context(turn)
            held.enter_context(attempts.reserve(limits))
        except Throttled as refusal:
            appliance.events.publish(SignInRejected("busy" if isinstance(refusal, LogInsBusy) else "throttled"))
            raise
        yield LoginAttempt(appliance, caller, limits)


def email_bucket(email: str) -> str:
    """Return the name of the counter of failed attempts with this email address; spellings that are equivalent share
    it.
    """
    return f"email:{email_key(email)}"


def address_bucket(origin: Origin) -> str:
    """Return the name of the counter of failed attempts from a client's address.

    All requests from this computer share one. IPv6 addresses share one for each /64 network, since that is one
    subscriber.
    """
    if origin.is_local or origin.client_address is None:
        return "address:local"
    address = ip_address(origin.client_address.split("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"address:{IPv6Address(int(address) >> 64 << 64)}/64"
    return f"address:{getattr(address, 'ipv4_mapped', None) or address}"


# --- Signing in and out, and sessions ---


class SignInRequest(Input, frozen=True, kw_only=True):
    """A member's email and password.

    - email: The member's email address.
    - password: The member's password.
    """

    email: Email
    password: Password
    device_name: DeviceName


class IssuedSession(Wire, frozen=True, kw_only=True):
    """A new session. The token is shown only once.

    - token: Session token, to send as `Authorization: Bearer TOKEN`.
    - session: The session.
    - member: The member who signed in.
    """

    token: str
    session: Session
    member: Member


class CurrentMember(Wire, frozen=True, kw_only=True):
    """The member behind a request, and its credential.

    - member: The member.
    - credential: The session or API key of the request.
    """

    member: Member
    credential: Credential


@operation(access=Access.ANYBODY, https=True)
def log_in(appliance: Appliance, caller: Caller, request: SignInRequest) -> OperationResult[IssuedSession]:
    """Sign in with email and password.

    Returns a session token, which is shown only once. After 5 failures for one email or 30 from one address within 15
    minutes, attempts get 429 `too_many_attempts`.
    """
    refuse_control_characters("/deviceName", request.device_name)
    limits = {
        email_bucket(request.email): MAX_FAILURES_PER_EMAIL,
        address_bucket(caller.origin): MAX_FAILURES_PER_ADDRESS,
    }
    with begin_attempt(appliance, caller, limits) as attempt:
        logged_in = _try_log_in(appliance, attempt, request)
    return OperationResult(logged_in, security_warnings(appliance.store, appliance.clock, logged_in.member.id))


_CAPABILITIES = tuple(Capability)  # since iterating over the class is slow


@operation()
def who_am_i(appliance: Appliance, caller: Caller) -> OperationResult[CurrentMember]:
    """Get the current member.

    Returns the member that the credential belongs to, and what the credential can do. For 7 days, `warnings` report to
    a session what others did to its member: a password reset issued; their role, email, keys, sessions or mailboxes
    changed; a backup restored.
    """
    found = caller.required_credential
    accounts = None if found.account_ids is None else tuple(sorted(found.account_ids))
    listed = _CAPABILITIES if found.kind == "session" else found.capabilities
    capabilities = tuple(capability for capability in listed if capability in caller.capabilities)
    credential = Credential(kind=found.kind, id=found.id, capabilities=capabilities, account_ids=accounts)
    warnings = security_warnings(appliance.store, appliance.clock, found.member.id) if found.kind == "session" else ()
    return OperationResult(CurrentMember(member=found.member, credential=credential), warnings)


@operation(access=Access.SESSION)
def list_sessions(appliance: Appliance, caller: Caller) -> tuple[Session, ...]:
    """List your sessions.

    The most recently used session comes first.
    """
    return appliance.store.credentials.list_sessions(caller.member.id, caller.required_credential.id)


@operation(access=Access.SESSION)
def revoke_session(appliance: Appliance, caller: Caller, session_id: str) -> Deletion:
    """Revoke one of your sessions.

    Revoking the current session signs you out.
    """
    _end_session(appliance, caller, session_id)
    return Deletion(id=session_id)


@operation(access=Access.SESSION)
def log_out(appliance: Appliance, caller: Caller) -> None:
    """Sign out.

    Ends the session whose token the request carries.
    """
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
) -> IssuedSession:
    """Begin a session and record the sign-in in the audit log. Call inside a transaction.

    - by: The audit action that led to it, such as `member.enroll`; None for a normal sign-in.
    - rehashed: A new hash of the password to store, if the old one is outdated.
    - logged_in_at: When the member gave the password, if not now.

    If a member has too many sessions, the one that was unused for longest is revoked.
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
    return IssuedSession(token=token, session=session, member=store.members.get(member_id))


def end_sessions(appliance: Appliance, actor: Actor, member_id: str, keep: str | None = None) -> None:
    """Revoke all sessions of a member, with an audit entry for each. Call inside a transaction.

    `keep`: ID of a session that stays valid.
    """
    about = None if actor.member_id == member_id else member_id
    for ended in appliance.store.credentials.remove_sessions(member_id, keep):
        appliance.store.audit.record(actor, "session.revoke", ("session", ended), about=about)


def require_unchanged_password(appliance: Appliance, member_id: str, hashed: str) -> None:
    """Raise InvalidCredentials if the member's password changed since it was checked. Call inside a transaction.

    `hashed`: the hash that was checked.
    """
    try:
        is_same = appliance.store.members.get_password_hash(member_id) == hashed
    except NotFound as error:
        raise InvalidCredentials from error
    if not is_same:
        raise InvalidCredentials


def _try_log_in(appliance: Appliance, attempt: LoginAttempt, request: SignInRequest) -> IssuedSession:
    store = appliance.store
    member_id, hashed = _check_login(appliance, attempt, request)
    rehashed = passwords.hash_password(request.password) if passwords.needs_rehash(hashed) else None
    with store.database.transaction(durable=True):
        require_unchanged_password(appliance, member_id, hashed)
        if store.members.get(member_id).status == "suspended":
            raise MemberSuspended
        store.login_attempts.clear(email_bucket(request.email))
        address = attempt.caller.origin.client_address
        return begin_session(appliance, member_id, request.device_name, address, rehashed=rehashed)


def _check_login(appliance: Appliance, attempt: LoginAttempt, request: SignInRequest) -> tuple[str, str]:
    """Return ID and password hash. Raises InvalidCredentials or MemberSuspended, after counting the failure."""
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


# --- The caller's own name and password ---


class UpdateProfileRequest(Input, frozen=True, kw_only=True):
    """Changes to your profile. Omitted fields stay unchanged.

    - name: New name.
    """

    name: Name | UnsetType = UNSET


class ChangePasswordRequest(Input, frozen=True, kw_only=True):
    """The current and the new password.

    - current_password: Your current password.
    - new_password: The new password, 12 to 1024 characters; not your name or email.
    """

    current_password: Password
    new_password: Password


@operation(access=Access.SESSION)
def update_me(appliance: Appliance, caller: Caller, request: UpdateProfileRequest) -> Member:
    """Update your profile.

    Changes your name. Omitted fields stay unchanged.
    """
    store, me = appliance.store, caller.member.id
    if isinstance(request.name, UnsetType):
        return store.members.get(me)
    refuse_control_characters("/name", request.name)
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        if store.members.get(me).name == request.name:
            return store.members.get(me)
        store.audit.record(caller.actor, "member.update", ("member", me))
        return store.members.update(me, name=request.name)


@operation(access=Access.SESSION, https=True)
def change_password(appliance: Appliance, caller: Caller, request: ChangePasswordRequest) -> None:
    """Change your password.

    Ends your other sessions and invalidates open password resets. After 5 wrong current passwords within 15 minutes,
    attempts get 429 `too_many_attempts`.
    """
    me = caller.member
    refuse_weak_password("/newPassword", request.new_password, name=me.name, email=me.email)
    with begin_attempt(appliance, caller, {_member_bucket(me): MAX_FAILURES_PER_MEMBER}) as attempt:
        hashed = _require_current_password(appliance, attempt, me, request.current_password)
        made = passwords.hash_password(request.new_password)
        _replace_password(appliance, caller, hashed, made)


def _require_current_password(appliance: Appliance, attempt: LoginAttempt, me: Member, password: str) -> str:
    """Return the stored hash. Raises WrongPassword, after counting the failure."""
    hashed = appliance.store.members.get_password_hash(me.id)
    if not passwords.verify_password(password, hashed, hides_legacy=False) or hashed is None:
        attempt.record_failure("password.change", ("member", me.id))
        raise WrongPassword
    return hashed


def _replace_password(appliance: Appliance, caller: Caller, before: str, after: str) -> None:
    store, me = appliance.store, caller.member.id
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        require_unchanged_password(appliance, me, before)
        store.members.set_password(me, after)
        # A reset that somebody else requested would reopen the account.
        store.one_time_tokens.revoke_all(me)
        store.login_attempts.clear(_member_bucket(caller.member))
        store.audit.record(caller.actor, "password.change", ("member", me))
        end_sessions(appliance, caller.actor, me, caller.required_credential.id)


def _member_bucket(member: Member) -> str:
    return f"password:{member.id}"
