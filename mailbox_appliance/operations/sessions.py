"""Setting up, logging in and out, and the sessions that come of it."""

import hmac
import threading
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Annotated

from msgspec import Meta

from mailbox_appliance import passwords
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import (
    Conflict,
    Invalid,
    InvalidCredentials,
    InvalidToken,
    MemberSuspended,
    Throttled,
)
from mailbox_appliance.operations.caller import Caller, Origin
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import DeviceName, Email, Name, Password, refuse_controls
from mailbox_appliance.records import Capability, Credential, Deleted, Input, Member, Session, Wire
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.tokens import hash_token, new_token

ATTEMPTS_PER_EMAIL = 5
ATTEMPTS_PER_ADDRESS = 30
WINDOW = timedelta(minutes=15)

# Log-ins for one email are tried one after another: each outcome is known before the next is counted.
_TURNS = tuple(threading.Lock() for _ in range(64))


class SetUp(Input, frozen=True, kw_only=True):
    """The first administrator."""

    setup_code: Annotated[str, Meta(min_length=1, max_length=200)]
    name: Name
    email: Email
    password: Password
    device_name: DeviceName


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


@operation(access=Access.LOCAL)
def set_up(appliance: Appliance, caller: Caller, request: SetUp) -> LoggedIn:
    """Make the first administrator. Works once, on the appliance's own computer, with the code that `serve` prints."""
    store = appliance.store
    if store.members.any():
        raise Conflict(reason="This appliance is set up already. Log in instead.")
    file = appliance.folder / SETUP_CODE
    code = file.read_text("ascii").strip() if file.exists() else ""
    if not code or not hmac.compare_digest(request.setup_code.encode(), code.encode()):
        raise InvalidToken(what="set-up code")
    answer = add_first_admin(appliance, request, caller.actor)
    file.unlink(missing_ok=True)
    return answer


def add_first_admin(appliance: Appliance, request: SetUp, actor: Actor) -> LoggedIn:
    """The first administrator with a session; the code has been checked, or the caller owns the files."""
    refuse_controls("/name", request.name)
    refuse_controls("/deviceName", request.device_name)
    _check_password(request.password, name=request.name, email=request.email)
    hashed = passwords.hash_password(request.password)
    store = appliance.store
    with store.database.transaction(durable=True):
        if store.members.any():  # asked again inside the transaction: of two at once one is first
            raise Conflict(reason="This appliance is set up already. Log in instead.")
        member = store.members.add(name=request.name, email=request.email, role="admin", password_hash=hashed)
        store.audit.record(actor, "setup", ("member", member.id))
        store.members.mark_logged_in(member.id)
        return _begin_session(appliance, store.members.get(member.id), request.device_name, actor)


@operation(access=Access.ANYBODY, https=True)
def log_in(appliance: Appliance, caller: Caller, request: LogIn) -> LoggedIn:
    """Log in with email and password. After 5 failures for one email, or 30 from one address, in 15 minutes: 429."""
    refuse_controls("/deviceName", request.device_name)
    with _TURNS[hash(request.email.casefold()) % len(_TURNS)]:
        return _try_log_in(appliance, caller, request)


@operation()
def who_am_i(appliance: Appliance, caller: Caller) -> WhoAmI:  # noqa: ARG001 - every operation has both
    """The member behind the credential, and what the credential may do."""
    found = caller.found
    accounts = None if found.account_ids is None else tuple(sorted(found.account_ids))
    capabilities = tuple(capability for capability in Capability if capability in caller.capabilities)
    credential = Credential(kind=found.kind, id=found.id, capabilities=capabilities, account_ids=accounts)
    return WhoAmI(member=found.member, credential=credential)


@operation(access=Access.SESSION)
def list_sessions(appliance: Appliance, caller: Caller) -> tuple[Session, ...]:
    """Your sessions, the last used first."""
    return appliance.store.credentials.list_sessions(caller.member.id, caller.found.id)


@operation(access=Access.SESSION)
def revoke_session(appliance: Appliance, caller: Caller, session_id: str) -> Deleted:
    """End one of your sessions. Ending the one you use is logging out."""
    _end_session(appliance, caller, session_id)
    return Deleted(id=session_id)


@operation(access=Access.SESSION)
def log_out(appliance: Appliance, caller: Caller) -> None:
    """End the session that this request was made with."""
    _end_session(appliance, caller, caller.found.id)


def address_bucket(origin: Origin) -> str:
    """What attempts from an address are counted under: this computer apart, IPv6 by /64, which one has."""
    if origin.is_local or origin.client_address is None:
        return "address:local"
    address = ip_address(origin.client_address.split("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"address:{IPv6Address(int(address) >> 64 << 64)}/64"
    return f"address:{getattr(address, 'ipv4_mapped', None) or address}"


def _try_log_in(appliance: Appliance, caller: Caller, request: LogIn) -> LoggedIn:
    store = appliance.store
    by_email, by_address = f"email:{request.email.casefold()}", address_bucket(caller.origin)
    limits = {by_email: ATTEMPTS_PER_EMAIL, by_address: ATTEMPTS_PER_ADDRESS}
    if wait := store.credentials.reserve_attempt(limits, WINDOW):
        raise Throttled(retry_after=wait)
    found = store.members.find_with_password(request.email)
    member, hashed = found if found is not None else (None, None)
    # An unknown email takes as long as a known one, and gets the same answer.
    if not passwords.verify_password(request.password, hashed) or member is None or hashed is None:
        store.audit.record(caller.actor, "session.create", None if member is None else ("member", member.id), "failure")
        raise InvalidCredentials
    if member.status == "suspended":
        store.audit.record(caller.actor, "session.create", ("member", member.id), "denied")
        raise MemberSuspended
    rehashed = passwords.hash_password(request.password) if passwords.needs_rehash(hashed) else None
    with store.database.transaction(durable=True):
        store.credentials.clear_attempts(by_email)
        store.credentials.release_attempt(by_address)
        store.members.mark_logged_in(member.id, rehashed=rehashed)
        return _begin_session(appliance, store.members.get(member.id), request.device_name, caller.actor)


def _check_password(password: str, *, name: str, email: str) -> None:
    if reason := passwords.weakness(password, name=name, email=email):
        raise Invalid.at("/password", reason)


def _begin_session(appliance: Appliance, member: Member, device_name: str, actor: Actor) -> LoggedIn:
    token = new_token("mbxs")
    session = appliance.store.credentials.add_session(member.id, hash_token(token), device_name)
    whose = Actor("session", session.id, member.id, actor.client_address)
    appliance.store.audit.record(whose, "session.create", ("session", session.id))
    return LoggedIn(token=token, session=session, member=member)


def _end_session(appliance: Appliance, caller: Caller, session_id: str) -> None:
    with appliance.store.database.transaction(durable=True):
        appliance.store.credentials.remove_session(caller.member.id, session_id)
        appliance.store.audit.record(caller.actor, "session.revoke", ("session", session_id))
