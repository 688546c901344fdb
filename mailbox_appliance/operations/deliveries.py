"""Operations on deliveries: list them, get their status, resolve uncertain ones; and on scheduled messages."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import AllMailHidden, Denied, Detail, NotFound
from mailbox_appliance.events import DeliverySettled
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import Deletion, Input, Page, own_text
from mailbox_appliance.model.deliveries import (
    Delivery,
    DeliveryEntry,
    DeliveryStatus,
    DeliveryTimeline,
    DeliveryWork,
    OperationResult,
    ScheduledSend,
)
from mailbox_appliance.model.members import Capability
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.operation import Access, Caller, Cursor, Limit, operation
from mailbox_appliance.sending.sent_copies import find_sent_folder, make_copy
from mailbox_appliance.store.deliveries import SentCopy

_DELIVERY_LIST, _ALL_DELIVERIES_LIST = "deliveries", "all deliveries"
Status = Annotated[DeliveryStatus, Meta(description="Only deliveries with this status.")]
Mailbox = Annotated[str, Meta(description="Only deliveries of this mailbox.")]


class ResolveDeliveryRequest(Input, frozen=True, kw_only=True):
    """The outcome of an uncertain delivery, as a person found out."""

    outcome: Annotated[
        Literal["succeeded", "failed"],
        Meta(description="`succeeded`: it was delivered. `failed`: nobody received it; send it again with a new key."),
    ]


@operation(needs=Capability.MAIL_READ)
def list_deliveries(
    appliance: Appliance, caller: Caller, account: Account, limit: Limit = 50, cursor: Cursor | None = None
) -> Page[Delivery]:
    """List deliveries of a mailbox.

    Newest first. You see the deliveries that you started, with any session or API key, and every scheduled one.
    """
    before = decode_cursor(cursor, account.id, _DELIVERY_LIST)
    items, more = appliance.store.delivery_lists.list(account.id, caller.member.id, before=before, limit=limit)
    return Page(items=items, next_cursor=encode_cursor(more, account.id, _DELIVERY_LIST))


@operation(needs=Capability.MAIL_READ)
def get_delivery(
    appliance: Appliance, caller: Caller, account: Account, operation_id: str
) -> OperationResult[Delivery]:
    """Get a delivery.

    Returns its current status. Visible to the member who started it, with any session or API key; a scheduled one is
    visible to everybody with access to the mailbox.
    """
    return OperationResult(*appliance.store.delivery_lists.get(account.id, operation_id, caller.member.id))


@operation(needs=Capability.MAIL_READ)
def list_all_deliveries(
    appliance: Appliance,
    caller: Caller,
    account_id: Mailbox | None = None,
    status: Status | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[DeliveryEntry]:
    """List deliveries of all mailboxes.

    Newest first, with subject, recipients and times. You see the deliveries that you started, with any session or API
    key, and every scheduled one.
    """
    reached = [account.id for account in permissions.reachable_accounts(appliance.store, caller.required_credential)]
    if account_id is not None and account_id not in reached:
        raise NotFound(what="mailbox")
    wanted = reached if account_id is None else [account_id]
    before = decode_cursor(cursor, _ALL_DELIVERIES_LIST, account_id, status)
    timelines = appliance.store.delivery_timelines
    items, more = timelines.list(wanted, caller.member.id, status=status, before=before, limit=limit)
    return Page(items=items, next_cursor=encode_cursor(more, _ALL_DELIVERIES_LIST, account_id, status))


@operation(needs=Capability.MAIL_READ)
def get_timeline(
    appliance: Appliance, caller: Caller, account: Account, operation_id: str
) -> OperationResult[DeliveryTimeline]:
    """Get a delivery's timeline.

    Returns each step of a delivery with its time, the automatic checks since then, and whether a copy is in Sent.
    Visible to the same people as the delivery.
    """
    running = appliance.sender.unwritten_steps(operation_id)
    timeline = appliance.store.delivery_timelines.get(account.id, operation_id, caller.member.id, running)
    return OperationResult(*timeline)


def _require_sender_or_owner(appliance: Appliance, caller: Caller, account: Account, values: Mapping[str, str]) -> None:
    """Raises NotFound if the caller cannot see the delivery."""
    lists, operation_id = appliance.store.delivery_lists, values.get("operationId", "")
    sender = lists.get_sender_id(account.id, operation_id)
    if caller.member.id not in (sender, account.owner_member_id):
        lists.get(account.id, operation_id, caller.member.id)
        reason = "only its sender or the owner of the mailbox can resolve it."
        raise Denied(reason=reason, details=(Detail("owner", account.owner_member_id),))


@operation(access=Access.SESSION, check_account=_require_sender_or_owner)
def resolve_delivery(
    appliance: Appliance, caller: Caller, account: Account, operation_id: str, request: ResolveDeliveryRequest
) -> OperationResult[Delivery]:
    """Resolve an uncertain delivery.

    Records whether the message was delivered, once a person has found out. Only its sender or the owner of the mailbox
    can do this. Final, and audited as `delivery.resolve_succeeded` or `delivery.resolve_failed`. After `succeeded`, the
    copy is filed in Sent as after any success.

    409 `conflict`: the delivery is not uncertain.
    """
    store = appliance.store
    copy = (
        _find_sent_copy(appliance, store.deliveries.get_work(operation_id)) if request.outcome == "succeeded" else None
    )
    with store.database.transaction(durable=True):
        store.deliveries.resolve(operation_id, request.outcome, copy)
        store.audit.record(caller.actor, f"delivery.resolve_{request.outcome}", ("delivery", operation_id))
    appliance.events.publish(DeliverySettled(operation_id, account.id, request.outcome))
    sender = store.delivery_lists.get_sender_id(account.id, operation_id)
    return OperationResult(*store.delivery_lists.get(account.id, operation_id, sender))


def _find_sent_copy(appliance: Appliance, work: DeliveryWork) -> SentCopy | None:
    """Return the copy to save in Sent; None if there is no such folder, or no copy needs to be saved."""
    try:
        sent = find_sent_folder(appliance.store, work.account_id)
    except AllMailHidden:  # what is known of the message does not depend on it
        return None
    return make_copy(work, sent) if sent is not None and work.status == "uncertain" and len(work.wire) else None


# --- Scheduled messages: listed, changed in time, canceled ---


_SCHEDULED_LIST = "scheduled"
_DRAFT_LATER_WARNING = own_text(
    "The mail server was not available, so the message may not be among the drafts yet. The appliance tries again, and"
    " saves it there if it is missing."
)


@operation(needs=Capability.MAIL_READ)
def list_scheduled(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[ScheduledSend]:
    """List scheduled messages.

    Returns the scheduled messages of a mailbox that are not finished, from all members, soonest first.
    """
    after = decode_cursor(cursor, account.id, _SCHEDULED_LIST)
    items, more = appliance.store.delivery_lists.list_scheduled(account.id, after=after, limit=limit)
    return Page(items=items, next_cursor=encode_cursor(more, account.id, _SCHEDULED_LIST))


@operation(needs=Capability.MAIL_SEND)
def cancel_scheduled(
    appliance: Appliance, caller: Caller, account: Account, schedule_id: str
) -> OperationResult[Deletion]:
    """Cancel a scheduled message.

    Its delivery ends as `failed` with the code `canceled`, and the message is kept as a draft. Idempotent: canceling
    again returns the same response. If the mail server cannot be reached now, `warnings` say that the draft follows
    later.

    409 `conflict`: the message is being sent, was sent, or failed for another reason.
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
    return OperationResult(Deletion(id=schedule_id), (_DRAFT_LATER_WARNING,) if is_left else ())
