"""Scheduled sends: those that wait for their time, and how one is taken back."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.events import DeliverySettled
from mailbox_appliance.model.records import Account, Capability, Deleted, OperationResult, Page, ScheduledSend
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import Cursor, Limit, operation
from mailbox_appliance.operations.pages import decode_cursor, encode_cursor

_LIST = "scheduled"
_LATER = (
    "The mail server could not be asked yet whether the message lies among the drafts. This is tried again by itself;"
    " where it does not, it is put there."
)


@operation(needs=Capability.MAIL_READ, tag="scheduled")
def list_scheduled(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[ScheduledSend]:
    """The scheduled sends of a mailbox that are not over, whoever scheduled them, the soonest first."""
    after = decode_cursor(cursor, account.id, _LIST)
    items, more = appliance.store.delivery_lists.list_scheduled(account.id, after=after, limit=limit)
    return Page(items=items, next_cursor=encode_cursor(more, account.id, _LIST))


@operation(needs=Capability.MAIL_SEND, tag="scheduled")
def cancel_scheduled(
    appliance: Appliance, caller: Caller, account: Account, schedule_id: str
) -> OperationResult[Deleted]:
    """Take a scheduled send back: its operation ends as `failed` with `canceled`, its message is kept as a draft.

    409: it is being sent, or was, or failed otherwise. One that is canceled already is answered alike. `warnings` tell
    where the mail server could not be asked now; the draft follows then.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        operation_id, is_new = store.deliveries.cancel(account.id, schedule_id)
        if is_new:
            store.audit.record(caller.actor, "schedule.cancel", ("schedule", schedule_id))
    with appliance.io_slot() as has_place:
        if has_place:
            appliance.post_send_tasks.run_now(operation_id)
    if is_new:
        appliance.events.publish(DeliverySettled(operation_id, account.id, "failed"))
    is_left = bool(store.schedule.list_chores(operation_id))
    return OperationResult(Deleted(id=schedule_id), (_LATER,) if is_left else ())
