"""Operations that send and forward messages. Each idempotency key submits at most one message, over any interface."""

import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager
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
from mailbox_appliance.store.store import Store

#: Seconds that a response waits until the sent draft is removed.
_DRAFT_REMOVAL_SECONDS = 5.0


@operation(needs=(Capability.MAIL_DRAFTS, Capability.MAIL_SEND), body_limit=MAIL_LIMIT)
def preview(
    appliance: Appliance, caller: Caller, account: Account, message: SendDraftRequest | SendEmailRequest
) -> OperationResult[SendPreview]:
    """Preview a send.

    Shows the sender, recipients, subject and files that `send` would use for the same request. Nothing is stored or
    sent. Requests that `send` would reject are rejected in the same way. `warnings` name what else would prevent a
    send: a missing `mail.send`, an exhausted sending limit, a mailbox that needs a new sign-in.

    For a `draftId` or `replyToMessageId`, callers without `mail.read` also see sender, recipients, subject and files,
    never the text.
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
    """Send a message.

    Sends now, or at `sendAt`. Each idempotency key sends at most one message, permanently: keys do not expire.
    Repeating the same request with the same key sends nothing and returns the existing delivery with its current
    status.

    Check `status` in the response:

    - `succeeded`: the mail server accepted the message. `failed`: nobody received it.
    - `sending`: the outcome was not known within about 25 seconds; delivery continues, so poll the delivery. Under load
      this is returned at once.
    - `uncertain`: the message may have been delivered, because the server did not confirm it. It is never resent; the
      appliance searches the mailbox for it for 24 hours. Exactly-once delivery is impossible over SMTP.
    - `queued`, with status 202 and a `scheduleId`: the message is scheduled. Its content is fixed now; permissions are
      checked again when it is due.

    With `draftId` the saved draft is sent. It is removed after success only, and the response waits up to 5 seconds for
    that. Until then, no other send, update or deletion can use the draft (409 `conflict`); bulk actions can, without
    effect on what is sent.

    Uploads that attachments name are deleted when the message is accepted; repeating the request still works.

    Errors:

    - 503 and 429 `provider_rate_limited`: nobody received the message. Repeat the same request with the same key.
    - 409 `conflict`: the draft is in use, or another request with this draft or key is being processed.
    - 409 `idempotency_conflict`: the key was used for a different request.

    `warnings` name recipients that a reply to all leaves out, and report if the message has no text. A key that was
    used with a release without deliveries returns the response of that release until it expires after 24 hours, with
    `Idempotency-Replayed: true`.
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
    """Forward a message.

    The original is quoted with its headers below your comment. Idempotency keys and statuses work as for a send. After
    success the original is marked as forwarded (`$Forwarded`). The forward starts no reply chain; its subject usually
    joins it to the original's conversation.

    Attachments count toward the same limits as for a send. If they are too large, set `includeAttachments` to false.
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
    """Return the delivery of an idempotency key; if there is none yet, enter `preparation`, accept and wait."""
    store, credential = appliance.store, caller.required_credential
    earlier = store.legacy_keys.find(credential.id, key, request_hash)
    if earlier is not None:
        return OperationResult(earlier.data, earlier.warnings, is_replayed=True, status=earlier.status)
    with _durable_errors(store):
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
        store.database.wait_until_durable()
        return OperationResult(accepted.delivery, accepted.warnings)
    return _wait_for_outcome(appliance, caller, accepted, row)


@contextmanager
def _durable_errors(store: Store) -> Iterator[None]:
    """Context manager: if an error of the block names another delivery, that one is on the disk first."""
    try:
        yield
    except Problem:
        store.database.wait_until_durable()
        raise


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
        upload_ids=prepared.upload_ids,
    )


def _publish_accepted(appliance: Appliance, delivery: Delivery) -> None:
    appliance.events.publish(DeliveryPhaseEntered(delivery.operation_id, Phase.ACCEPTED))
    if delivery.kind == "scheduled":
        appliance.events.publish(DeliveryScheduled(delivery.operation_id, delivery.account_id))


def _wait_for_outcome(
    appliance: Appliance, caller: Caller, accepted: AcceptedDelivery, row: ParsedMessage | None
) -> OperationResult[Delivery | LegacySendResult]:
    """Wait for the outcome of an accepted delivery and return it. If it takes too long, or no worker may wait, return
    the current status.

    If sending fails before the delivery's ID was returned to any client, the delivery is deleted, its key is free
    again, and the error is raised. A delivery whose ID was returned stays, and ends as `failed`.
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
    raise ticket.problem or Unavailable(reason="nobody received the message; try again.", retry_after=5)


def _wait_for_draft_removal(appliance: Appliance, operation_id: str, seconds: float) -> None:
    """A client that gets `succeeded` shall not find the draft. What takes longer continues in the background."""
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
    if Capability.MAIL_SEND not in caller.capabilities:
        text = "{needed} is missing: this credential can preview this message but not send it."
        yield own_text(text, needed=Capability.MAIL_SEND)
    if account.status == "reauth_required":
        why = f" {account.error.message}" if account.error else ""
        yield f"This mailbox needs a new sign-in before you can send.{why}"  # no mark: `why` was stored by sync
    if prepared.message.envelope.smtputf8:
        yield own_text("An address has non-ASCII letters: the send fails if the mail server does not support SMTPUTF8.")
    try:
        lists = appliance.store.delivery_lists
        lists.require_quotas(account.id, caller.required_credential.id, sending_quotas(appliance.settings))
    except QuotaReached as reached:
        yield OwnText(reached.message)  # of numbers and names of settings
