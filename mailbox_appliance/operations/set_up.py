"""Setting up: the first administrator, once."""

import hmac
from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import Conflict, InvalidToken
from mailbox_appliance.model.records import Input
from mailbox_appliance.operations.attempts import FOR_SET_UP, attempted
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.sessions import LoggedIn, begin_session
from mailbox_appliance.operations.texts import DeviceName, Email, Name, Password, refuse_controls, refuse_weak
from mailbox_appliance.security import passwords
from mailbox_appliance.store.audit import Actor


class SetUp(Input, frozen=True, kw_only=True):
    """The first administrator."""

    setup_code: Annotated[str, Meta(min_length=1, max_length=200)]
    name: Name
    email: Email
    password: Password
    device_name: DeviceName


@operation(access=Access.LOCAL, tag="set_up")
def set_up(appliance: Appliance, caller: Caller, request: SetUp) -> LoggedIn:
    """Make the first administrator. Works once, on the appliance's own computer, with the code that `serve` prints."""
    if appliance.store.members.has_any():
        raise _done()
    file = appliance.folder / SETUP_CODE
    code = file.read_text("ascii").strip() if file.exists() else ""
    if not code or not hmac.compare_digest(request.setup_code.encode(), code.encode()):
        # With 96 bits nobody finds it; the limit bounds what guesses write, and keeps out nobody who has the code.
        with attempted(appliance, caller, {"set-up": FOR_SET_UP}) as attempt:
            attempt.record_failure("setup")
        raise InvalidToken(what="set-up code")
    answer = add_first_admin(appliance, request, caller.actor)
    file.unlink(missing_ok=True)
    return answer


def add_first_admin(appliance: Appliance, request: SetUp, actor: Actor) -> LoggedIn:
    """The first administrator with a session; the code has been checked, or the caller owns the files."""
    refuse_controls("/name", request.name)
    refuse_controls("/deviceName", request.device_name)
    refuse_weak("/password", request.password, name=request.name, email=request.email)
    hashed = passwords.hash_password(request.password)
    store = appliance.store
    with store.database.transaction(durable=True):
        if store.members.has_any():  # asked again inside the transaction: of two at once one is first
            raise _done()
        member = store.members.add(name=request.name, email=request.email, role="admin", password_hash=hashed)
        store.audit.record(actor, "setup", ("member", member.id))
        return begin_session(appliance, member.id, request.device_name, actor.client_address)


def _done() -> Conflict:
    return Conflict(reason="This appliance is set up already. Log in instead.")
