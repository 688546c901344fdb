"""Operations that issue or accept single-use tokens: first setup, invitations, password resets, and console links."""

import hmac
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import Conflict, InvalidToken, MemberSuspended
from mailbox_appliance.model.base import Input, Wire
from mailbox_appliance.model.members import Member
from mailbox_appliance.operations.message_input import (
    DeviceName,
    Email,
    Name,
    Password,
    refuse_control_characters,
    refuse_weak_password,
)
from mailbox_appliance.operations.operation import Access, Caller, operation, recheck_caller
from mailbox_appliance.operations.sessions import (
    MAX_FAILURES_OF_SET_UP,
    MAX_FAILURES_PER_ADDRESS,
    IssuedSession,
    LoginAttempt,
    address_bucket,
    begin_attempt,
    begin_session,
    email_bucket,
    end_sessions,
)
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.credentials import TokenKind

# --- Invitations and password resets: looking a token up, and redeeming it ---


# Longer than any token, so that a wrong one is reported as an invalid token.
Token = Annotated[str, Meta(min_length=1, max_length=4096)]


@dataclass(frozen=True)
class TokenUse:
    """A purpose of single-use tokens, such as an invitation.

    - kind: The kind of token in the store.
    - action: The audit action of its use.
    - what: Its name in error messages.
    """

    kind: TokenKind
    action: str
    what: str


def find_token_member(appliance: Appliance, attempt: LoginAttempt, use: TokenUse, token: str) -> Member:
    """Return the member that a single-use token belongs to, without using up the token.

    Raises InvalidToken for a wrong token, and MemberSuspended for a valid token of a suspended member. Both count as
    failed attempts.
    """
    member_id = appliance.store.one_time_tokens.find(use.kind, hash_token(token))
    if member_id is None:
        attempt.record_failure(use.action)
        raise InvalidToken(what=use.what)
    member = appliance.store.members.get(member_id)
    if member.status == "suspended":
        attempt.record_failure(use.action, ("member", member_id), "denied")
        raise MemberSuspended
    return member


def redeem_token(appliance: Appliance, use: TokenUse, token: str) -> Member:
    """Use up a single-use token and return its member. Call inside a transaction.

    Raises InvalidToken or MemberSuspended if the token or the member changed since `find_token_member`.
    """
    member_id = appliance.store.one_time_tokens.redeem(use.kind, hash_token(token))
    if member_id is None:
        raise InvalidToken(what=use.what)
    member = appliance.store.members.get(member_id)
    if member.status == "suspended":
        raise MemberSuspended
    return member


_INVITATION = TokenUse("invitation", "member.enroll", "invitation")
_RESET = TokenUse("password_reset", "password_reset.redeem", "password reset")


class RedeemTokenRequest(Input, frozen=True, kw_only=True):
    """A single-use token, and the password to set.

    - token: Token of the invitation or password reset.
    - password: The new password, 12 to 1024 characters; not your name or email.
    """

    token: Token
    password: Password
    device_name: DeviceName


@operation(access=Access.ANYBODY, https=True)
def enroll(appliance: Appliance, caller: Caller, request: RedeemTokenRequest) -> IssuedSession:
    """Accept an invitation.

    Sets the password and signs in. The invitation's token is single-use; a password that is rejected does not use it
    up.
    """
    return _redeem_password_token(appliance, caller, request, _INVITATION)


@operation(access=Access.ANYBODY, https=True)
def reset_password(appliance: Appliance, caller: Caller, request: RedeemTokenRequest) -> IssuedSession:
    """Complete a password reset.

    Sets a new password with the token of a password reset, and signs in. All other sessions of the member end.
    """
    return _redeem_password_token(appliance, caller, request, _RESET)


def _redeem_password_token(
    appliance: Appliance, caller: Caller, request: RedeemTokenRequest, use: TokenUse
) -> IssuedSession:
    refuse_control_characters("/deviceName", request.device_name)
    # Checked before the token: the refusal of a password does not reveal whether a token is valid.
    refuse_weak_password("/password", request.password)
    with begin_attempt(appliance, caller, {address_bucket(caller.origin): MAX_FAILURES_PER_ADDRESS}) as attempt:
        member = find_token_member(appliance, attempt, use, request.token)
        refuse_weak_password("/password", request.password, name=member.name, email=member.email)
        hashed = passwords.hash_password(request.password)
        return _set_password_and_log_in(appliance, caller, request, use, hashed)


def _set_password_and_log_in(
    appliance: Appliance, caller: Caller, request: RedeemTokenRequest, use: TokenUse, hashed: str
) -> IssuedSession:
    """Use up the token, revoke the member's other tokens, and end their sessions."""
    store, address = appliance.store, caller.origin.client_address
    with store.database.transaction(durable=True):
        member = redeem_token(appliance, use, request.token)
        store.one_time_tokens.revoke_all(member.id)
        store.members.set_password(member.id, hashed)
        store.login_attempts.clear(email_bucket(member.email))
        answer = begin_session(appliance, member.id, request.device_name, address, by=use.action)
        end_sessions(appliance, Actor("session", answer.session.id, member.id, address), member.id, answer.session.id)
    return answer


# --- First setup: the first administrator, once ---


class CreateFirstAdminRequest(Input, frozen=True, kw_only=True):
    """The first administrator.

    - setup_code: The setup code that `serve` prints.
    - name: Name, shown to other members.
    - email: Email address to sign in with.
    - password: Password, 12 to 1024 characters; not the name or email.
    """

    setup_code: Annotated[str, Meta(min_length=1, max_length=200)]
    name: Name
    email: Email
    password: Password
    device_name: DeviceName


@operation(access=Access.LOCAL)
def set_up(appliance: Appliance, caller: Caller, request: CreateFirstAdminRequest) -> IssuedSession:
    """Create the first administrator.

    Works once, on the appliance's own computer, with the setup code that `serve` prints. Starts a session.
    """
    if appliance.store.members.has_any():
        raise _already_set_up()
    file = appliance.folder / SETUP_CODE
    code = file.read_text("ascii").strip() if file.exists() else ""
    if not code or not hmac.compare_digest(request.setup_code.encode(), code.encode()):
        # 96 bits cannot be guessed. The limit bounds what guesses write; the right code always works.
        with begin_attempt(appliance, caller, {"set-up": MAX_FAILURES_OF_SET_UP}) as attempt:
            attempt.record_failure("setup")
        raise InvalidToken(what="setup code")
    answer = add_first_admin(appliance, request, caller.actor)
    file.unlink(missing_ok=True)
    return answer


def add_first_admin(appliance: Appliance, request: CreateFirstAdminRequest, actor: Actor) -> IssuedSession:
    """Create the first administrator and a session. Raises Conflict if a member exists.

    The setup code is not checked here. The API checks it before this call. An operator at the command line needs no
    code, because they have access to the store's files.
    """
    refuse_control_characters("/name", request.name)
    refuse_control_characters("/deviceName", request.device_name)
    refuse_weak_password("/password", request.password, name=request.name, email=request.email)
    hashed = passwords.hash_password(request.password)
    store = appliance.store
    with store.database.transaction(durable=True):
        if store.members.has_any():  # checked again inside the transaction: of two simultaneous requests one is first
            raise _already_set_up()
        member = store.members.add(name=request.name, email=request.email, role="admin", password_hash=hashed)
        store.audit.record(actor, "setup", ("member", member.id))
        return begin_session(appliance, member.id, request.device_name, actor.client_address)


def _already_set_up() -> Conflict:
    return Conflict(reason="This appliance is already set up. Sign in instead.")


# --- Links from a signed-in program, such as the tray, into the console in a browser ---
#
# A link ends with the session that created it. The session that it starts ends 90 days after the password was typed.


_CONSOLE_LINK_LIFETIME = timedelta(seconds=60)
_CONSOLE_DEVICE_NAME = "Console"
_CONSOLE_LINK = TokenUse("console_link", "console_link.redeem", "console link")


class ConsoleLink(Wire, frozen=True, kw_only=True):
    """A link that opens the console, signed in as you. It is shown only once.

    - url: Address to open in a browser. Single-use.
    - expires_at: When the link expires.
    """

    url: str
    expires_at: str


class RedeemConsoleLinkRequest(Input, frozen=True, kw_only=True):
    """The token of a console link.

    - token: The token from the link's fragment.
    """

    token: Token


@operation(access=Access.SESSION, https=True)
def create_console_link(appliance: Appliance, caller: Caller) -> ConsoleLink:
    """Create a console sign-in link.

    Opens the console in a browser, signed in as you. Single-use; expires after 60 seconds, or with your session.
    """
    store, token = appliance.store, new_token("mbxc")
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        member_id, session_id = caller.member.id, caller.required_credential.id
        expires_at = store.one_time_tokens.issue(
            "console_link", member_id, hash_token(token), _CONSOLE_LINK_LIFETIME, session_id=session_id
        )
        store.audit.record(caller.actor, "console_link.create", ("member", member_id))
    # Browsers do not send the part after `#` to servers (RFC 3986 3.5), so no log contains it.
    base = appliance.url_for(is_local=caller.origin.is_local)
    return ConsoleLink(url=f"{base}/#console={token}", expires_at=expires_at)


@operation(access=Access.ANYBODY, https=True)
def redeem_console_link(appliance: Appliance, caller: Caller, request: RedeemConsoleLinkRequest) -> IssuedSession:
    """Sign in with a console link.

    Exchanges the token of a console link for a session. It expires at the latest 90 days after the sign-in of the
    session that created the link.
    """
    with begin_attempt(appliance, caller, {address_bucket(caller.origin): MAX_FAILURES_PER_ADDRESS}) as attempt:
        find_token_member(appliance, attempt, _CONSOLE_LINK, request.token)
        with appliance.store.database.transaction(durable=True):
            member = redeem_token(appliance, _CONSOLE_LINK, request.token)
            return begin_session(
                appliance,
                member.id,
                _CONSOLE_DEVICE_NAME,
                caller.origin.client_address,
                by=_CONSOLE_LINK.action,
                logged_in_at=_get_login_time(appliance, request.token),
            )


def _get_login_time(appliance: Appliance, token: str) -> str:
    session_id = appliance.store.one_time_tokens.find_session_id(hash_token(token))
    found = None if session_id is None else appliance.store.credentials.find_login_time(session_id)
    if found is None:
        raise InvalidToken(what=_CONSOLE_LINK.what)
    return found
