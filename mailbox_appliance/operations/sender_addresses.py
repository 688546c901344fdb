"""What a mailbox may send as."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.records import Account, Capability, SenderAddress
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation


@operation(needs=Capability.MAIL_READ, tag="sender_addresses")
def list_sender_addresses(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
) -> tuple[SenderAddress, ...]:
    """The addresses that mail of a mailbox may be `from`: its own first, which is used where none is given.

    Others are those that Google or Microsoft tell of it, as they told them last: they are asked when the mailbox is
    connected, and every day.
    """
    return appliance.store.sender_addresses.list_of(account)
