"""Whether a scheduled send may go when its turn has come: the world may have changed since it was accepted."""

from datetime import timedelta

from mailbox_appliance import permissions
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.records import DeliveryWork
from mailbox_appliance.store.store import Store

#: How long a scheduled message is tried, from the time at which it was to go.
TRIED_FOR = timedelta(hours=24)


def obstacle(store: Store, clock: Clock, work: DeliveryWork) -> str | None:
    """The code with which it fails, or None where it may go."""
    try:
        email = store.accounts.connection(work.account_id).email
    except NotFound:
        return "account_removed"
    if not permissions.may_send_now(store, work.account_id, work.credential_id, work.member_id):
        return "permission_revoked"
    if not same_mailbox(work.envelope.sender, email):
        return "sender_rejected"
    return code_when_too_late(work.last_cause) if is_too_late(work, clock) else None


def is_too_late(work: DeliveryWork, clock: Clock) -> bool:
    """Whether a scheduled message has been tried, or was missed, for so long that it is not to go any more."""
    return work.send_at is not None and clock.now() - work.send_at >= TRIED_FOR


def code_when_too_late(last_cause: str | None) -> str:
    """What a scheduled message failed of in the end."""
    return "authentication_failed" if last_cause == "login" else "expired"
