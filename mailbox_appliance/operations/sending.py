"""Operations that send and forward messages. Each idempotency key submits at most one message, over any interface."""

import re
import time
from collections.abc import Collection, Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import (
    Detail,
    Invalid,
    NotFound,
    PolicyDenied,
    PreviewChanged,
    Problem,
    QuotaReached,
    SyncRequired,
    Unavailable,
)
from mailbox_appliance.events import DeliveryPhaseEntered, DeliveryScheduled
from mailbox_appliance.mail.preview import preview_of
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.model.deliveries import (
    AcceptedDelivery,
    Delivery,
    LegacySendResult,
    NewApproval,
    NewDelivery,
    OperationResult,
    Phase,
)
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import ParsedMessage, SendPreview
from mailbox_appliance.operations.message_input import ForwardEmailRequest, SendDraftRequest, SendEmailRequest
from mailbox_appliance.operations.operation import MAIL_LIMIT, Caller, IdempotencyKey, RequestHash, operation
from mailbox_appliance.operations.prepare import PreparedMessage, prepare_forward, prepare_message, sending_quotas
from mailbox_appliance.policies import Policies, check, find_known, read_policies
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.store.store import Store

_ENTITY_TAG = re.compile(r'(W/)?"([^"]*)"')
#: An entity tag, several, or `*` (RFC 9110 13.1.1); or the digest alone, as in tool arguments.
_IF_MATCH = r'^(?:\*|[0-9a-f]{64}|(?:W/)?"[!#-~]*"(?:[ \t]*,[ \t]*(?:W/)?"[!#-~]*")*)$(?!\n)'
PreviewDigest = Annotated[
    str,
    Meta(
        max_length=1000,
        pattern=_IF_MATCH,
        description="Sends only the message that a preview has shown: `ETag` or `previewDigest` of that preview. If"
        " anything that recipients would see or receive differs, nothing is sent (409 `conflict`). A retry with the"
        " same idempotency key returns the existing delivery, and does not compare.",
        extra={"expected": 'This must be the `ETag` of a preview, such as "5f1d..." in quotation marks.'},
    ),
]
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

    `ETag` (also in `previewDigest`) identifies this message. Send with it in `If-Match` to send exactly what was shown:
    if recipients would see or receive anything else, nothing is sent (409 `conflict`). Date, Message-ID and boundaries
    do not count.

    For a `draftId` or `replyToMessageId`, callers without `mail.read` also see sender, recipients, subject and files,
    never the text.
    """
    return _preview(appliance, caller, account, prepare_message(appliance, caller, account, message))


@operation(needs=(Capability.MAIL_DRAFTS, Capability.MAIL_SEND), body_limit=MAIL_LIMIT)
def preview_forward(
    appliance: Appliance, caller: Caller, account: Account, message_id: str, request: ForwardEmailRequest
) -> OperationResult[SendPreview]:
    """Preview a forward.

    Shows the sender, recipients, subject and files that `forward` would use for the same request. Nothing is stored or
    sent. Requests that `forward` would reject are rejected in the same way. `ETag`, `warnings` and permissions work as
    for the preview of a send.
    """
    return _preview(appliance, caller, account, prepare_forward(appliance, account, message_id, request))


@operation(needs=Capability.MAIL_SEND, body_limit=MAIL_LIMIT, stands_for="POST /api/v1/accounts/{accountId}/send")
def send(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message: SendDraftRequest | SendEmailRequest,
    idempotency_key: IdempotencyKey,
    request_hash: RequestHash,
    preview_digest: PreviewDigest | None = None,
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
    - 409 `conflict`: the draft is in use, or another request with this draft or key is being processed. With
      `header:If-Match` in `details`: the message is not the one that was previewed. Nothing was sent.
    - 409 `idempotency_conflict`: the key was used for a different request.

    `warnings` name recipients that a reply to all leaves out, and report if the message has no text. A key that was
    used with a release without deliveries returns the response of that release until it expires after 24 hours, with
    `Idempotency-Replayed: true`.
    """
    preparation = prepare_message(appliance, caller, account, message, (caller.required_credential.id, idempotency_key))
    preparation = _require_preview(appliance, account, preparation, preview_digest)
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
    preview_digest: PreviewDigest | None = None,
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
    preparation = _require_preview(appliance, account, preparation, preview_digest)
    return _submit(appliance, caller, account, idempotency_key, request_hash, preparation)


def _preview(
    appliance: Appliance, caller: Caller, account: Account, preparation: AbstractContextManager[PreparedMessage]
) -> OperationResult[SendPreview]:
    with preparation as prepared:
        digest = prepared.digest()
        shown = preview_of(account.id, prepared.message, digest)
    warnings = (*prepared.warnings, *_preview_warnings(appliance, caller, account, prepared))
    return OperationResult(shown, warnings, etag=digest)


@contextmanager
def _require_preview(
    appliance: Appliance,
    account: Account,
    preparation: AbstractContextManager[PreparedMessage],
    given: str | None,
) -> Iterator[PreparedMessage]:
    """Context manager: yield the prepared message. Raises PreviewChanged if it is not the one of the preview.

    It is entered only for a new delivery: a retry returns the existing delivery, whatever a preview would show now.
    """
    changed = PreviewChanged(details=(Detail("header:If-Match", "The message is not the previewed one any more."),))
    with ExitStack() as entered:
        try:
            prepared = entered.enter_context(preparation)
        except (Invalid, SyncRequired) as problem:
            # Another program has replaced or deleted the draft: the previewed version does not exist any more.
            is_gone = isinstance(problem, SyncRequired) or isinstance(problem.__cause__, NotFound)
            if given is None or not is_gone:
                raise
            raise changed from problem
        if given is not None and not (_names_digest(given, prepared) and _is_current(appliance, account, prepared)):
            raise changed
        yield prepared


def _is_current(appliance: Appliance, account: Account, prepared: PreparedMessage) -> bool:
    """Whether the saved draft of a message is still on the mail server. Another program may have changed or deleted it
    a moment ago, before the mirror shows that. True for a message without a saved draft.
    """
    if prepared.draft_id is None:
        return True
    try:
        return appliance.drafts.is_on_server(account.id, prepared.draft_id, prepared.draft_version)
    except RemoteFault as fault:
        raise problem_of(fault) from fault


def _names_digest(given: str, prepared: PreparedMessage) -> bool:
    """Whether `If-Match` names this message, by strong comparison (RFC 9110 13.1.1)."""
    if given == "*":
        return True
    named = [given] if '"' not in given else [tag for weak, tag in _ENTITY_TAG.findall(given) if not weak]
    return prepared.digest() in named


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
                    policies = read_policies(store, account.id, credential.id)
                    new = _new_delivery(appliance, caller, account, key, request_hash, prepared, policies)
                    known = find_known(store, policies, account.id, new.message.envelope.recipients)
                    accepted = store.deliveries.accept(new, partial(_find_approval, appliance, new, prepared, known))
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
        # A retry has the status of the first response, also once the message was approved and sent.
        waited = accepted.delivery.kind == "send" and store.approvals.find_of(accepted.delivery.operation_id)
        return OperationResult(accepted.delivery, accepted.warnings, status=202 if waited else None)
    return _wait_for_outcome(appliance, caller, accepted, row)


@contextmanager
def _durable_errors(store: Store) -> Iterator[None]:
    """Context manager: if an error of the block names another delivery, that one is on the disk first."""
    try:
        yield
    except Problem:
        store.database.wait_until_durable()
        raise


def _find_approval(
    appliance: Appliance, new: NewDelivery, prepared: PreparedMessage, known: Collection[str] | None
) -> NewApproval | None:
    """Return the approval that a message needs, by the policies of this moment. Raises PolicyDenied."""
    policies = read_policies(appliance.store, new.account_id, new.credential_id)
    recipients = new.message.envelope.recipients
    reasons, by_owner = check(appliance.store, policies, new.account_id, recipients, prepared.pointers, known)
    lifetime = timedelta(days=appliance.settings.number("approvals.expire_days"))
    return NewApproval(reasons, by_owner, lifetime) if reasons else None


def _new_delivery(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    key: str,
    request_hash: str,
    prepared: PreparedMessage,
    policies: Policies,
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
        quotas=(*sending_quotas(appliance.settings), *policies.quotas()),
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
        policies = read_policies(appliance.store, account.id, caller.required_credential.id)
        quotas = (*sending_quotas(appliance.settings), *policies.quotas())
        lists.require_quotas(account.id, caller.required_credential.id, quotas)
        recipients = prepared.message.envelope.recipients
        reasons, _ = check(appliance.store, policies, account.id, recipients, prepared.pointers)
        if reasons:
            yield own_text("A person must approve this message before it is sent.")
    except PolicyDenied as denied:
        yield denied.message
    except QuotaReached as reached:
        yield OwnText(reached.message)  # of numbers and names of settings
