"""Where other members are logged in, as administrators see and end it."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.records import Capability, Deleted, Session
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.members import is_there, may_touch, touched
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.sessions import end_sessions


@operation(needs=Capability.ADMIN_MEMBERS, https=True, permits=is_there, tag="member_sessions")
def list_sessions_of(appliance: Appliance, caller: Caller, member_id: str) -> tuple[Session, ...]:
    """The sessions of a member, the last used first."""
    return appliance.store.credentials.list_sessions(member_id, caller.required_credential.id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, permits=is_there, tag="member_sessions")
def get_session_of(appliance: Appliance, caller: Caller, member_id: str, session_id: str) -> Session:
    """One session of a member."""
    return appliance.store.credentials.get_session(member_id, session_id, caller.required_credential.id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, permits=may_touch, tag="member_sessions")
def revoke_sessions_of(appliance: Appliance, caller: Caller, member_id: str) -> Deleted:
    """End every session of a member, at once. `id` is the member's."""
    with appliance.store.database.transaction(durable=True):
        touched(appliance, caller, member_id)
        end_sessions(appliance, caller.actor, member_id)
    return Deleted(id=member_id)


@operation(needs=Capability.ADMIN_MEMBERS, https=True, permits=may_touch, tag="member_sessions")
def revoke_session_of(appliance: Appliance, caller: Caller, member_id: str, session_id: str) -> Deleted:
    """End a session of a member, at once."""
    store = appliance.store
    with store.database.transaction(durable=True):
        touched(appliance, caller, member_id)
        store.credentials.remove_session(member_id, session_id)
        store.audit.record(caller.actor, "session.revoke", ("session", session_id), about=member_id)
    return Deleted(id=session_id)
