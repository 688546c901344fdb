"""Every mailbox as administrators see it: its settings, and never its mail."""

from collections.abc import Mapping

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict
from mailbox_appliance.model.records import Account, Capability
from mailbox_appliance.operations.accounts import NewAccount, connect
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.named import named
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.texts import Id


class NewAccountOfMember(NewAccount, frozen=True, kw_only=True):
    """A mailbox reached by IMAP and SMTP, and the member who is to own it."""

    owner_member_id: Id


def _require_unlimited(_appliance: Appliance, caller: Caller, _values: Mapping[str, str]) -> None:
    permissions.require_unlimited(caller.required_credential)


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, tag="admin_accounts")
def list_every_account(appliance: Appliance, caller: Caller) -> tuple[Account, ...]:
    """Every mailbox, whoever owns it, the oldest first; an API key with `accountIds` sees these alone.

    It shows their settings; their mail is for those who reach them.
    """
    scope = caller.required_credential.account_ids
    return tuple(each for each in appliance.store.accounts.list_all() if scope is None or each.id in scope)


@operation(
    needs=Capability.ADMIN_ACCOUNTS, https=True, permits=_require_unlimited, asks_servers=True, tag="admin_accounts"
)
def add_account_of_member(appliance: Appliance, caller: Caller, request: NewAccountOfMember) -> Account:
    """Connect a mailbox for a member, who owns it from then on. Both logins are tried before anything is saved.

    Not with an API key that has `accountIds`: what it makes would lie beyond them.
    """
    owner = named(appliance.store, request.owner_member_id, "/ownerMemberId")
    if owner.status != "active":
        raise Conflict(reason="This member is suspended. Make the member active first.")
    return connect(appliance, caller, owner.id, request, Capability.ADMIN_ACCOUNTS)
