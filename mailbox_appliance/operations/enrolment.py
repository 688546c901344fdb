"""A first password by invitation, and a new one by a password reset."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.records import Input
from mailbox_appliance.operations.attempts import PER_ADDRESS, attempted, by_address, by_email
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.one_time import Token, Use, look_up, use_up
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.sessions import LoggedIn, begin_session, end_sessions
from mailbox_appliance.operations.texts import DeviceName, Password, refuse_controls, refuse_weak
from mailbox_appliance.security import passwords
from mailbox_appliance.store.audit import Actor

_INVITATION = Use("invitation", "member.enroll", "invitation")
_RESET = Use("password_reset", "password_reset.redeem", "password reset")


class Redemption(Input, frozen=True, kw_only=True):
    """A token that is good once, and the password that one chooses."""

    token: Token
    password: Password
    device_name: DeviceName


@operation(access=Access.ANYBODY, https=True)
def enroll(appliance: Appliance, caller: Caller, request: Redemption) -> LoggedIn:
    """Choose a password with an invitation, and log in. A password that is refused does not use the invitation up."""
    return _redeem(appliance, caller, request, _INVITATION)


@operation(access=Access.ANYBODY, https=True)
def reset_password(appliance: Appliance, caller: Caller, request: Redemption) -> LoggedIn:
    """Choose a new password with a password reset, and log in. All your other sessions end."""
    return _redeem(appliance, caller, request, _RESET)


def _redeem(appliance: Appliance, caller: Caller, request: Redemption, use: Use) -> LoggedIn:
    refuse_controls("/deviceName", request.device_name)
    # Before the token is looked at: nobody learns by a password that is refused whether a token is good.
    refuse_weak("/password", request.password)
    with attempted(appliance, caller, {by_address(caller.origin): PER_ADDRESS}) as attempt:
        member = look_up(appliance, attempt, use, request.token)
        refuse_weak("/password", request.password, name=member.name, email=member.email)
        hashed = passwords.hash_password(request.password)
        return _begin_anew(appliance, caller, request, use, hashed)


def _begin_anew(appliance: Appliance, caller: Caller, request: Redemption, use: Use, hashed: str) -> LoggedIn:
    """The token is used up, every other one withdrawn, the password set: what was before lets nobody in any more."""
    store, address = appliance.store, caller.origin.client_address
    with store.database.transaction(durable=True):
        member = use_up(appliance, use, request.token)
        store.one_time_tokens.revoke_all(member.id)
        store.members.set_password(member.id, hashed)
        store.login_attempts.clear(by_email(member.email))
        answer = begin_session(appliance, member.id, request.device_name, address, by=use.action)
        end_sessions(appliance, Actor("session", answer.session.id, member.id, address), member.id, answer.session.id)
    return answer
