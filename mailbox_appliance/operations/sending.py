"""Handing messages over: every door's sends pass here, and each idempotency key hands over at most once."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import ServersBusy, Unavailable, Unsupported
from mailbox_appliance.events import DeliveryMarked
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import MAIL_LIMIT, IdempotencyKey, RequestHash, operation
from mailbox_appliance.operations.outgoing import InlineMessage, SavedDraft, check_send_at, composed, resolve
from mailbox_appliance.records import (
    AcceptedDelivery,
    Account,
    Answer,
    Capability,
    Delivery,
    NewDelivery,
    Outgoing,
    Phase,
)

_RETRY_AFTER = 2


@operation(needs=Capability.MAIL_SEND, body_limit=MAIL_LIMIT, stands_for="POST /api/v1/accounts/{accountId}/send")
def send(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message: SavedDraft | InlineMessage,
    idempotency_key: IdempotencyKey,
    request_hash: RequestHash,
) -> Answer[Delivery]:
    """Send a message from this mailbox, at most once for each idempotency key (RFC 5321, RFC 5322).

    A retry with the same key and the same request answers with the operation that there is and sends nothing. An
    answer within some 25 seconds tells the outcome; a longer hand-over answers `sending` and goes on by itself.
    `uncertain` means that the message may have been delivered; it is never retried.
    """
    store, credential = appliance.store, caller.found
    accepted = store.deliveries.find_replay(credential.id, idempotency_key, request_hash)
    if accepted is None:
        outgoing = _outgoing(appliance, account, message)
        new = NewDelivery(
            account_id=account.id,
            credential_id=credential.id,
            member_id=credential.member.id,
            idempotency_key=idempotency_key,
            request_hash=request_hash,
            kind="send",
            message=composed(outgoing, appliance.clock.now()),
            thread_id=_thread(appliance, account, outgoing),
        )
        accepted = store.deliveries.accept(new)
        if accepted.is_new:
            appliance.events.publish(DeliveryMarked(accepted.delivery.operation_id, Phase.ACCEPTED))
    if accepted.is_shown:
        return Answer(accepted.delivery, accepted.warnings)
    return _wait(appliance, caller, accepted)


@operation(needs=Capability.MAIL_READ)
def get_delivery(appliance: Appliance, caller: Caller, account: Account, operation_id: str) -> Answer[Delivery]:
    """What became of a request to send, as it is now."""
    return Answer(*appliance.store.delivery_lists.get(account.id, operation_id, caller.member.id))


def _outgoing(appliance: Appliance, account: Account, message: SavedDraft | InlineMessage) -> Outgoing:
    check_send_at(message.send_at, appliance.clock.now())
    if isinstance(message, SavedDraft):
        raise Unsupported(reason="sending a saved draft is not offered by this release; send its content inline.")
    if message.send_at is not None:
        raise Unsupported(reason="scheduling is not offered by this release; leave out sendAt to send now.")
    return resolve(appliance.store, account, message)


def _thread(appliance: Appliance, account: Account, outgoing: Outgoing) -> str | None:
    named = (canonical_message_id(i) for i in reversed((*outgoing.references, outgoing.in_reply_to or "")))
    return appliance.store.messages.find_thread(account.id, filter(None, named))


def _wait(appliance: Appliance, caller: Caller, accepted: AcceptedDelivery) -> Answer[Delivery]:
    """The outcome, where it comes in time and a worker may wait for it; else the operation as it is on its way."""
    operation_id, deliveries = accepted.delivery.operation_id, appliance.store.deliveries
    with appliance.waiting_place() as has_place:
        if not (has_place or accepted.is_new):
            # Showing it on behalf of a retry would take from the first request the right to withdraw it.
            raise ServersBusy(retry_after=_RETRY_AFTER)
        # Submitting joins the one who waits already: a second request with the key gets the same answer.
        ticket = appliance.sender.submit(operation_id, accepted.delivery.account_id)
        ticket.wait(appliance.settings.number("sending.answer_within") if has_place else 0)
    if ticket.problem is None and deliveries.show(operation_id):
        return Answer(*appliance.store.delivery_lists.get(accepted.delivery.account_id, operation_id, caller.member.id))
    # Withdrawn, maybe in this very moment: its key is free, and why is about to be told.
    ticket.wait(1)
    raise ticket.problem or Unavailable(reason="nobody got the message; try again.", retry_after=5)
