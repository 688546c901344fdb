"""What members change about themselves: their name and their password."""

from msgspec import UNSET, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import WrongPassword
from mailbox_appliance.model.records import Input, Member
from mailbox_appliance.operations.attempts import PER_MEMBER, Attempt, attempted
from mailbox_appliance.operations.caller import Caller, require_still
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.sessions import end_sessions, require_password
from mailbox_appliance.operations.texts import Name, Password, refuse_controls, refuse_weak
from mailbox_appliance.security import passwords


class ProfileChange(Input, frozen=True, kw_only=True):
    """What is to be changed; what is left out stays."""

    name: Name | UnsetType = UNSET


class PasswordChange(Input, frozen=True, kw_only=True):
    """The password of now, and the one of later."""

    current_password: Password
    new_password: Password


@operation(access=Access.SESSION, tag="profile")
def update_me(appliance: Appliance, caller: Caller, request: ProfileChange) -> Member:
    """Change your name."""
    store, me = appliance.store, caller.member.id
    if isinstance(request.name, UnsetType):
        return store.members.get(me)
    refuse_controls("/name", request.name)
    with store.database.transaction(durable=True):
        require_still(store, caller)
        if store.members.get(me).name == request.name:
            return store.members.get(me)
        store.audit.record(caller.actor, "member.update", ("member", me))
        return store.members.update(me, name=request.name)


@operation(access=Access.SESSION, https=True, tag="profile")
def change_password(appliance: Appliance, caller: Caller, request: PasswordChange) -> None:
    """Change your password. Your other sessions end. After 5 wrong current passwords in 15 minutes: 429."""
    me = caller.member
    refuse_weak("/newPassword", request.new_password, name=me.name, email=me.email)
    with attempted(appliance, caller, {_bucket(me): PER_MEMBER}) as attempt:
        hashed = _require_current(appliance, attempt, me, request.current_password)
        made = passwords.hash_password(request.new_password)
        _replace(appliance, caller, hashed, made)


def _require_current(appliance: Appliance, attempt: Attempt, me: Member, password: str) -> str:
    """The hash that the current password fits. Raises WrongPassword."""
    hashed = appliance.store.members.get_password_hash(me.id)
    if not passwords.verify_password(password, hashed, hides_legacy=False) or hashed is None:
        attempt.record_failure("password.change", ("member", me.id))
        raise WrongPassword
    return hashed


def _replace(appliance: Appliance, caller: Caller, before: str, after: str) -> None:
    store, me = appliance.store, caller.member.id
    with store.database.transaction(durable=True):
        require_still(store, caller)
        require_password(appliance, me, before)
        store.members.set_password(me, after)
        # A reset that somebody else asked for would open again what was closed here.
        store.one_time_tokens.revoke_all(me)
        store.login_attempts.clear(_bucket(caller.member))
        store.audit.record(caller.actor, "password.change", ("member", me))
        end_sessions(appliance, caller.actor, me, caller.required_credential.id)


def _bucket(member: Member) -> str:
    return f"password:{member.id}"
