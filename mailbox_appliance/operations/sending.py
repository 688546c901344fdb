"""Send and forward: all sends of every interface pass here; each idempotency key submits at most one message."""

import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager
from functools import partial

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Problem, QuotaReached, Unavailable
from mailbox_appliance.events import DeliveryPhaseEntered, DeliveryScheduled
from mailbox_appliance.mail.preview import preview_of
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.model.deliveries import (
    AcceptedDelivery,
    Delivery,
    LegacySendResult,
    NewDelivery,
    OperationResult,
    Phase,
)
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import ParsedMessage, SendPreview
from mailbox_appliance.operations.message_input import ForwardEmailRequest, SendDraftRequest, SendEmailRequest
from mailbox_appliance.operations.operation import MAIL_LIMIT, Caller, IdempotencyKey, RequestHash, operation
from mailbox_appliance.operations.prepare import PreparedMessage, prepare_forward, prepare_message, sending_quotas
from mailbox_appliance.remote.errors import RemoteFault

#: Seconds that a response waits until the sent draft is removed.
_DRAFT_REMOVAL_SECONDS = 5.0


@operation(needs=(Capability.MAIL_DRAFTS, Capability.MAIL_SEND), body_limit=MAIL_LIMIT)
def preview(
    appliance: Appliance, caller: Caller, account: Account, message: SendDraftRequest | SendEmailRequest
) -> OperationResult[SendPreview]:
    """What a send of this request would hand over, and to whom. Nothing is stored or sent.

    Sender, recipients, reply fields, attachments and the text that is derived from HTML are made as for a send. What is
    wrong with the request is refused as a send refuses it. `warnings` say what else a send by this credential would
    meet now: a missing `mail.send`, a quota that is used up, a mailbox whose login is refused.

    For a `draftId` or a `replyToMessageId` it shows sender, recipients, subject and files also to who has no
    `mail.read`, since that is what they are about to send or to keep as a draft; never a text.
    """
    with prepare_message(appliance, caller, account, message) as prepared:
        shown = preview_of(account.id, prepared.message)
    return OperationResult(shown, (*prepared.warnings, *_preview_warnings(appliance, caller, account, prepared)))


@operation(needs=Capability.MAIL_SEND, body_limit=MAIL_LIMIT, stands_for="POST /api/v1/accounts/{accountId}/send")
def send(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message: SendDraftRequest | SendEmailRequest,
    idempotency_key: IdempotencyKey,
    request_hash: RequestHash,
) -> OperationResult[Delivery | LegacySendResult]:
    """Send a message from this mailbox now, or with `sendAt` later; at most once for each idempotency key.

    A retry with the same key and the same request sends nothing and answers with the operation that there is, as it is
    now, under the status of the first answer. Keys do not expire. 503, and 429 `provider_rate_limited`: nobody got the
    message and the key is free for the same request. 409 `conflict`: the draft is in use, or another request is
    deciding about it, or under this key, at this moment.

    An answer within some 25 seconds tells the outcome; a longer hand-over answers `sending` and goes on by itself, and
    so does one at once while too many requests wait. `warnings` name whom a reply to all could not go to, and tell of
    a message without a text, which goes where it has a subject or a file.
    `uncertain`: the message may have been delivered; it is never sent again, but looked for, for 24 hours. Delivery
    between two parties cannot be made exactly-once, and this is where it shows.

    With `sendAt` the answer is 202, `queued`, with a `scheduleId`. What is sent is fixed now, byte for byte; rights are
    checked again when it is due. With `draftId` the saved draft is sent, and removed after success only, for which the
    answer waits up to 5 seconds; until then no other send, update or deletion of a draft takes it (409 `conflict`),
    while bulk actions do, which changes nothing of what is sent. Keys that were used before there were delivery
    operations answer as they did then, for 24 hours, with `Idempotency-Replayed: true`.
    """
    preparation = prepare_message(appliance, caller, account, message, (caller.required_credential.id, idempotency_key))
    return _submit(appliance, caller, account, idempotency_key, request_hash, preparation)


@operation(
    needs=Capability.MAIL_SEND,
    body_limit=MAIL_LIMIT,
    stands_for="POST /api/v1/accounts/{accountId}/messages/{messageId}/forward",
)
def forward(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message_id: str,
    request: ForwardEmailRequest,
    idempotency_key: IdempotencyKey,
    request_hash: RequestHash,
) -> OperationResult[Delivery | LegacySendResult]:
    """Forward a message, at most once for each idempotency key, which works as for a send.

    The original is fetched whole and quoted with its header block below the comment. The forward names no parent; its
    subject mostly joins it to the conversation of the original all the same. After success the original is marked as
    forwarded (`$Forwarded`).
    Attachments count against the same limits as those of a send: where they are too large, set `includeAttachments` to
    false.
    """
    preparation = prepare_forward(
        appliance, account, message_id, request, (caller.required_credential.id, idempotency_key)
    )
    return _submit(appliance, caller, account, idempotency_key, request_hash, preparation)


def _submit(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    key: str,
    request_hash: str,
    preparation: AbstractContextManager[PreparedMessage],
) -> OperationResult[Delivery | LegacySendResult]:
    """The delivery of this key: an existing one, whatever happened to drafts and quotas since, or a new one."""
    store, credential = appliance.store, caller.required_credential
    earlier = store.legacy_keys.find(credential.id, key, request_hash)
    if earlier is not None:
        return OperationResult(earlier.data, earlier.warnings, is_replayed=True, status=earlier.status)
    accepted, row = store.deliveries.find_replay(credential.id, key, request_hash), None
    if accepted is None:
        try:
            with preparation as prepared:
                accepted = store.deliveries.accept(
                    _new_delivery(appliance, caller, account, key, request_hash, prepared)
                )
                # Two requests with one key have each composed a message, and only one is sent.
                row = prepared.message.row if accepted.is_new else None
        except Problem:
            # Another request with the same key may have been quicker, and has locked or sent the draft.
            accepted = store.deliveries.find_replay(credential.id, key, request_hash)
            if accepted is None:
                raise
        if accepted.is_new:
            _publish_accepted(appliance, accepted.delivery)
    if accepted.is_shown:
        return OperationResult(accepted.delivery, accepted.warnings)
    return _wait_for_outcome(appliance, caller, accepted, row)


def _new_delivery(
    appliance: Appliance, caller: Caller, account: Account, key: str, request_hash: str, prepared: PreparedMessage
) -> NewDelivery:
    return NewDelivery(
        account_id=account.id,
        credential_id=caller.required_credential.id,
        member_id=caller.member.id,
        idempotency_key=key,
        request_hash=request_hash,
        kind=prepared.kind,
        message=prepared.message,
        thread_id=prepared.thread_id,
        send_at=prepared.send_at,
        draft_id=prepared.draft_id,
        draft_version=prepared.draft_version,
        parent_id=prepared.parent_id,
        to=prepared.to,
        subject=prepared.subject,
        warnings=prepared.warnings,
        quotas=sending_quotas(appliance.settings),
    )


def _publish_accepted(appliance: Appliance, delivery: Delivery) -> None:
    appliance.events.publish(DeliveryPhaseEntered(delivery.operation_id, Phase.ACCEPTED))
    if delivery.kind == "scheduled":
        appliance.events.publish(DeliveryScheduled(delivery.operation_id, delivery.account_id))


def _wait_for_outcome(
    appliance: Appliance, caller: Caller, accepted: AcceptedDelivery, row: ParsedMessage | None
) -> OperationResult[Delivery | LegacySendResult]:
    """The outcome, if it comes in time and a worker is free; else the delivery in its current state.

    Once a retry has been shown it, it is never withdrawn: if it is not sent, it ends as `failed`.
    """
    operation_id, deliveries = accepted.delivery.operation_id, appliance.store.deliveries
    with appliance.io_slot() as has_place:
        # Submitting joins a request that waits already: a second request with the key gets the same answer.
        ticket = appliance.sender.submit(operation_id, accepted.delivery.account_id, row)
        until = time.monotonic() + (appliance.settings.number("sending.answer_within") if has_place else 0)
        ticket.wait(until - time.monotonic())
        _wait_for_draft_removal(appliance, operation_id, until - time.monotonic())
    if ticket.problem is None and deliveries.mark_shown(operation_id):
        return OperationResult(
            *appliance.store.delivery_lists.get(accepted.delivery.account_id, operation_id, caller.member.id)
        )
    # Withdrawn, maybe at this very moment: its key is free again, and the reason is about to be raised.
    ticket.wait(1)
    raise ticket.problem or Unavailable(reason="nobody got the message; try again.", retry_after=5)


def _wait_for_draft_removal(appliance: Appliance, operation_id: str, seconds: float) -> None:
    """Wait until the sent draft is removed, so that a client that reads `succeeded` no longer finds it.

    The answer is the same either way: slow removals continue, and the timer retries failed ones.
    """
    if seconds <= 0 or not appliance.post_send_tasks.is_draft_left(operation_id):
        return
    try:
        call = appliance.calls.start("imap", partial(appliance.post_send_tasks.remove_draft_now, operation_id))
    except (RemoteFault, RuntimeError):  # the appliance stops, or no thread is free
        return
    wait((call,), min(seconds, _DRAFT_REMOVAL_SECONDS))


def _preview_warnings(
    appliance: Appliance, caller: Caller, account: Account, prepared: PreparedMessage
) -> Iterator[str]:
    """What would keep this caller from sending it, beside the message itself."""
    if Capability.MAIL_SEND not in caller.capabilities:
        text = "{needed} is missing: this credential may preview this message and not send it."
        yield own_text(text, needed=Capability.MAIL_SEND)
    if account.status == "reauth_required":
        why = f" {account.error.message}" if account.error else ""
        yield f"This mailbox must be logged in to again before you send.{why}"  # no mark: `why` was stored by sync
    if prepared.message.envelope.smtputf8:
        yield own_text(
            "An address has letters beyond ASCII: a send is refused where the mail server does not offer SMTPUTF8."
        )
    try:
        lists = appliance.store.delivery_lists
        lists.require_quotas(account.id, caller.required_credential.id, sending_quotas(appliance.settings))
    except QuotaReached as reached:
        yield OwnText(reached.message)  # of numbers and names of settings
