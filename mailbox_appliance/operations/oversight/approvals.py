"""Operations on approvals: list, read, approve and reject the messages that wait for a person."""

from collections.abc import Collection
from typing import Annotated

from msgspec import UNSET, Meta
from msgspec.structs import replace

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, Denied, Detail, NotFound
from mailbox_appliance.events import DeliveryScheduled, DeliverySettled, LargeWorkEnded
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.parse import attachment_bytes
from mailbox_appliance.model.approvals import Approval, ApprovalStatus, RequestedApproval, StoredApproval
from mailbox_appliance.model.base import Input, Page
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import Download, PreviewedAttachment, StoredBody
from mailbox_appliance.operations.contents import body_in_form
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.operation import Access, Caller, Cursor, Limit, operation, recheck_caller
from mailbox_appliance.policies import check, find_known, read_policies
from mailbox_appliance.store.store import Store

_LIST, _REQUESTED_LIST = "approvals", "requested approvals"
ApprovalId = Annotated[str, Meta(min_length=1, max_length=200)]
Status = Annotated[ApprovalStatus, Meta(description="Only approvals with this status.")]


class ApproveRequest(Input, frozen=True, kw_only=True):
    """The approval of exactly one message.

    - digest: The `digest` of the approval that you have read.
    """

    digest: Annotated[str, Meta(min_length=1, max_length=200)]


class RejectRequest(Input, frozen=True, kw_only=True):
    """A rejection.

    - reason: Why; `warnings` of the delivery show it to the requester.
    """

    reason: Annotated[str, Meta(max_length=1000)] | None = None


_WITHOUT_REASON = RejectRequest()


@operation(access=Access.SESSION)
def list_approvals(
    appliance: Appliance,
    caller: Caller,
    status: Status | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[Approval]:
    """List approvals.

    Newest first, without the texts of the messages. You see those of mailboxes that you own, and those that your own
    API keys asked for.
    """
    before = decode_cursor(cursor, _LIST, status or "")
    found, more = appliance.store.approvals.list(caller.member.id, status=status, before=before, limit=limit)
    items = tuple(each.shown for each in found)
    return Page(items=items, next_cursor=encode_cursor(more, _LIST, status or ""))


@operation(needs=Capability.MAIL_SEND)
def list_requested(
    appliance: Appliance,
    caller: Caller,
    status: Status | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Page[RequestedApproval]:
    """List approvals that you asked for.

    Newest first: what became of the messages of this session or API key that a person must approve. Texts are not
    shown, and nothing can be approved by it.
    """
    store, credential = appliance.store, caller.required_credential
    accounts = [account.id for account in permissions.reachable_accounts(store, credential)]
    before = decode_cursor(cursor, _REQUESTED_LIST, status or "")
    found, more = store.approvals.list_requested(credential.id, accounts, status=status, before=before, limit=limit)
    items = tuple(_to_requested(each.shown) for each in found)
    return Page(items=items, next_cursor=encode_cursor(more, _REQUESTED_LIST, status or ""))


@operation(access=Access.SESSION)
def get_approval(appliance: Appliance, caller: Caller, approval_id: ApprovalId) -> OperationResult[Approval]:
    """Get an approval.

    Shows the message as its recipients will see it. `warnings` report hidden text, and a plain text that differs from
    the HTML. `digest` names exactly these bytes.
    """
    store = appliance.store
    found = store.approvals.get(approval_id, caller.member.id)
    work = store.deliveries.get_work(found.shown.operation_id)
    shown, wire = replace(found.shown, parent_message_id=work.parent_id or UNSET), work.wire
    if not len(wire):
        return OperationResult(shown)
    read = parse_content(wire)
    stored = StoredBody(read.text, read.html, is_there=True)
    _, differs = body_in_form(stored, "text", appliance.html_readers, visible_only=True)
    text, hidden = body_in_form(stored, "markdown", appliance.html_readers, visible_only=True)
    warnings = tuple(dict.fromkeys((*read.warnings, *differs, *hidden)))
    html = UNSET if read.html is None else read.html
    files = tuple(
        PreviewedAttachment(
            id=each.part,
            filename=each.filename,
            mime_type=each.mime_type,
            size_bytes=each.size_bytes,
            content_id=UNSET if each.content_id is None else each.content_id,
        )
        for each in read.attachments
    )
    return OperationResult(replace(shown, body_text=text, body_html=html, attachments=files), warnings)


@operation(access=Access.SESSION)
def get_approval_attachment(
    appliance: Appliance, caller: Caller, approval_id: ApprovalId, attachment_id: str
) -> Download:
    """Download an attachment of an approval.

    Returns the file as recipients get it. Its type and name are untrusted: an agent may have chosen them. It is always
    served as a download.
    """
    wire = _load(appliance.store, appliance.store.approvals.get(approval_id, caller.member.id))
    read = () if wire is None else parse_content(wire).attachments
    wanted = next((each for each in read if each.part == attachment_id), None)
    content = None if wire is None or wanted is None else attachment_bytes(wire.read(), attachment_id)
    if wanted is None or content is None:
        raise NotFound(what="attachment")
    if len(content) > LARGE:
        appliance.events.publish(LargeWorkEnded())
    return Download(wanted.mime_type, wanted.filename, len(content), Content(content).pieces())


@operation(access=Access.SESSION)
def get_approval_source(appliance: Appliance, caller: Caller, approval_id: ApprovalId) -> Download:
    """Download the message of an approval.

    Returns exactly the bytes that are sent once it is approved; Bcc is not among them. `digest` is their SHA-256.
    """
    found = appliance.store.approvals.get(approval_id, caller.member.id)
    wire = _load(appliance.store, found)
    if wire is None:
        raise NotFound(what="message of this approval")
    return Download("message/rfc822", f"{found.shown.id}.eml", len(wire), wire.pieces())


@operation(access=Access.SESSION)
def approve(
    appliance: Appliance, caller: Caller, approval_id: ApprovalId, request: ApproveRequest
) -> OperationResult[Approval]:
    """Approve a message.

    Exactly the message with this digest is sent, now or at its time. Rights, mailbox and sending policies are checked
    again now, and when it is sent. If the mailbox's policy asks for the approval, only the mailbox's owner can give it.

    409 `conflict`: it is another message, or the approval is no longer pending.
    """
    store = appliance.store
    known = _find_known(store, store.approvals.get(approval_id, caller.member.id))
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        found = store.approvals.get(approval_id, caller.member.id)
        if request.digest != found.shown.digest:
            raise Conflict(
                reason="This digest names another message. Read the approval again.",
                details=(Detail("/digest", "This is not the digest of the message that waits."),),
            )
        _require_may_send(store, caller, found, known)
        store.approvals.approve(found, caller.member.id)
        store.audit.record(
            caller.actor,
            "approval.approve",
            ("approval", f"{found.shown.id} {found.shown.digest}"),
            about=found.member_id,
        )
    appliance.events.publish(DeliveryScheduled(found.shown.operation_id, found.shown.account_id))
    return OperationResult(store.approvals.get(approval_id, caller.member.id).shown)


@operation(access=Access.SESSION)
def reject(
    appliance: Appliance, caller: Caller, approval_id: ApprovalId, request: RejectRequest = _WITHOUT_REASON
) -> OperationResult[Approval]:
    """Reject a message.

    It is never sent. Its delivery ends as `failed` with `approval_rejected`.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        found = store.approvals.get(approval_id, caller.member.id)
        store.approvals.reject(found, caller.member.id, request.reason)
        store.audit.record(
            caller.actor,
            "approval.reject",
            ("approval", f"{found.shown.id} {found.shown.digest}"),
            about=found.member_id,
        )
    appliance.events.publish(DeliverySettled(found.shown.operation_id, found.shown.account_id, "failed"))
    return OperationResult(store.approvals.get(approval_id, caller.member.id).shown)


def _find_known(store: Store, found: StoredApproval) -> Collection[str] | None:
    recipients = store.deliveries.get_work(found.shown.operation_id).envelope.recipients
    policies = read_policies(store, found.shown.account_id, found.shown.requested_by.id)
    return find_known(store, policies, found.shown.account_id, recipients)


def _require_may_send(store: Store, caller: Caller, found: StoredApproval, known: Collection[str] | None) -> None:
    """Raise Denied or PolicyDenied if the message must not be sent any more, for what has changed since, or if only the
    owner of the mailbox may approve it: a policy of the mailbox also restrains the member who asked.
    """
    if not permissions.may_send_now(store, found.shown.account_id, found.shown.requested_by.id, found.member_id):
        raise Denied(reason="the credential that asked for this message may not send from this mailbox any more.")
    recipients = store.deliveries.get_work(found.shown.operation_id).envelope.recipients
    policies = read_policies(store, found.shown.account_id, found.shown.requested_by.id)
    _, by_owner = check(store, policies, found.shown.account_id, recipients, known=known)
    if by_owner or found.by_owner:
        permissions.require_owner(store.accounts.get(found.shown.account_id), caller.member.id)


def _to_requested(shown: Approval) -> RequestedApproval:
    return RequestedApproval(
        id=shown.id,
        operation_id=shown.operation_id,
        account_id=shown.account_id,
        kind=shown.kind,
        status=shown.status,
        reasons=shown.reasons,
        to=shown.to,
        cc=shown.cc,
        bcc=shown.bcc,
        created_at=shown.created_at,
        expires_at=shown.expires_at,
        decided_at=shown.decided_at,
    )


def _load(store: Store, found: StoredApproval) -> Content | None:
    """Return the message as it is sent; None if it is not kept any more."""
    wire = store.deliveries.get_work(found.shown.operation_id).wire
    return wire if len(wire) else None
