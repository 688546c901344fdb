"""Who besides its owner reaches a mailbox. The owner decides; an administrator can only take access away.

    the owner, with a session ........ gives and takes
    who holds admin.accounts ......... takes, also from all but some; from elsewhere only by HTTPS (administration)
    whom the mailbox is granted to ... nothing

It holds with the next request of everybody, under every credential, and for what they scheduled when it is due.

Which of these a caller is shows only after the mailbox is reached, so `https_required` comes after 404 here.
"""

from typing import Annotated

from msgspec import Meta

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail, HttpsRequired
from mailbox_appliance.model.records import Account, Capability, Input
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.named import require_named
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.texts import Id

_MOST = 1000


class AccessList(Input, frozen=True, kw_only=True):
    """Who reaches the mailbox besides its owner, whole: who is not named loses access."""

    shared_with_all: Annotated[bool, Meta(description="Every member reaches it, whoever joins later, too.")]
    member_ids: Annotated[
        tuple[Id, ...],
        Meta(max_length=_MOST, description="The members it is granted to. The owner is passed over."),
    ]


def _may_change_access(appliance: Appliance, caller: Caller, account: Account, values: object) -> None:  # noqa: ARG001 - as `Allows`
    """Raises Denied, or HttpsRequired for remote administration."""
    if _acts_as_owner(caller, account):
        return
    if caller.kind == "session" and Capability.ADMIN_ACCOUNTS not in caller.capabilities:
        permissions.require_owner(account, caller.member.id)
    permissions.require_capability(caller.capabilities, (Capability.ADMIN_ACCOUNTS,))
    if not caller.origin.is_private:
        raise HttpsRequired


@operation(anywhere=Capability.ADMIN_ACCOUNTS, allows=_may_change_access, tag="sharing")
def set_access(appliance: Appliance, caller: Caller, account: Account, request: AccessList) -> Account:
    """Say who reaches a mailbox besides its owner. It holds with everybody's next request.

    The owner needs a session. An administrator, or an API key with `admin.accounts`, whose ever it is, can only take
    access away, which the owner is shown in their audit events.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        now = store.accounts.get(account.id)  # another request may have changed it meanwhile
        wanted = frozenset(request.member_ids) - {now.owner_member_id}
        if not _acts_as_owner(caller, now):
            _refuse_more(now, request.shared_with_all, wanted)
        if (request.shared_with_all, wanted) == (now.shared_with_all, frozenset(now.granted_member_ids)):
            return now
        known = {now.owner_member_id, *now.granted_member_ids}
        places = ((f"/memberIds/{place}", each) for place, each in enumerate(request.member_ids) if each not in known)
        require_named(store, places)
        store.accounts.set_access(now.id, shared_with_all=request.shared_with_all, member_ids=wanted)
        about = None if now.owner_member_id == caller.member.id else now.owner_member_id
        store.audit.record(caller.actor, "account.access", ("account", now.id), about=about)
        return store.accounts.get(now.id)


def _acts_as_owner(caller: Caller, account: Account) -> bool:
    return caller.kind == "session" and account.owner_member_id == caller.member.id


def _refuse_more(now: Account, shared_with_all: bool, wanted: frozenset[str]) -> None:
    """Raises Denied where anybody would be given access: none of them is, where all had it and some keep it."""
    if now.shared_with_all and not shared_with_all:
        return
    if shared_with_all is not now.shared_with_all or wanted - set(now.granted_member_ids):
        reason = "only its owner, with a session, gives access to a mailbox; administrators can take it away."
        raise Denied(reason=reason, details=(Detail("owner", now.owner_member_id),))
