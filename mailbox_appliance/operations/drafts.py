"""Operations on drafts. They are kept in the drafts folder at the mail server, so that every mail program shows
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.html.analysis import UNANALYZED_OUTGOING
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.mailbox.drafts import DraftVersion
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import Deletion, Page
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import Message, OutgoingMessage
from mailbox_appliance.operations import messages
from mailbox_appliance.operations.message_input import DraftRequest
from mailbox_appliance.operations.operation import MAIL_LIMIT, Caller, Cursor, Limit, operation
from mailbox_appliance.operations.prepare import compose_message, decision_lock, find_thread, resolve_draft
from mailbox_appliance.remote.errors import RemoteFault


@operation(needs=Capability.MAIL_READ)
def list_drafts(
    appliance: Appliance, caller: Caller, account: Account, limit: Limit = 50, cursor: Cursor | None = None
) -> OperationResult[Page[Message]]:
    """List drafts.

    Returns the messages in the mailbox's drafts folder, newest first.
    """
    if appliance.store.folders.find_by_role(account.id, "drafts") is None:
        return OperationResult(Page(items=(), next_cursor=None), messages.first_sync_warnings(appliance, account))
    found = messages.list_messages(appliance, caller, account, folder="drafts", limit=limit, cursor=cursor)
    items = tuple(map(_with_draft_id, found.data.items))
    return OperationResult(Page(items=items, next_cursor=found.data.next_cursor), found.warnings)


@operation(needs=Capability.MAIL_READ)
def get_draft(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> OperationResult[Message]:
    """Get a draft.

    Returns a complete draft. A message counts as a draft if it is marked as one or is in the drafts folder.
    """
    found = messages.get_message(appliance, caller, account, draft_id)
    _require_draft(found.data)
    return OperationResult(_with_draft_id(found.data), found.warnings)


@operation(needs=Capability.MAIL_DRAFTS, body_limit=MAIL_LIMIT, asks_servers=True)
def create_draft(
    appliance: Appliance, caller: Caller, account: Account, message: DraftRequest
) -> OperationResult[Message]:
    """Create a draft.

    Recipients and text are optional. Bcc and attachments are stored with the draft. The drafts folder is created if
    needed. Not idempotent: if a response is lost, check the list of drafts before you repeat the request.
    """
    resolved = resolve_draft(appliance.store, caller, account, message)
    version, told = _compose_version(appliance, resolved.outgoing)
    try:
        draft_id = appliance.drafts.create(
            account.id, version, find_thread(appliance.store, account, resolved.outgoing)
        )
    except RemoteFault as fault:
        raise problem_of(fault) from fault
    appliance.store.uploads.delete_used(resolved.upload_ids)
    found = get_draft(appliance, caller, account, draft_id)
    return OperationResult(found.data, (*resolved.warnings, *told, *found.warnings))


@operation(needs=Capability.MAIL_DRAFTS, body_limit=MAIL_LIMIT)
def update_draft(
    appliance: Appliance, caller: Caller, account: Account, draft_id: str, message: DraftRequest
) -> OperationResult[Message]:
    """Replace a draft.

    Replaces the whole draft: omitted fields are removed, including attachments. The ID stays the same; the thread may
    change if the provider assigns threads, as Gmail does.

    409 `sync_required`: another program changed or deleted the draft; get it again first. 409 `conflict`: it is being
    sent, or is scheduled to be sent. A message that is in the drafts folder but not marked as a draft requires
    `mail.delete`.
    """
    may_delete = Capability.MAIL_DELETE in caller.capabilities
    appliance.drafts.locate(account.id, draft_id, may_delete=may_delete)
    resolved = resolve_draft(appliance.store, caller, account, message)
    version, told = _compose_version(appliance, resolved.outgoing)
    with _lock_draft(appliance, account, draft_id):
        warnings = appliance.drafts.replace(account.id, draft_id, version, may_delete=may_delete)
    appliance.store.uploads.delete_used(resolved.upload_ids)
    found = get_draft(appliance, caller, account, draft_id)
    return OperationResult(found.data, (*resolved.warnings, *told, *found.warnings, *warnings))


@operation(needs=Capability.MAIL_DRAFTS)
def delete_draft(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> Deletion:
    """Delete a draft.

    Permanent. A message that is in the drafts folder but not marked as a draft requires `mail.delete`.

    409 `conflict`: the draft is being sent, or is scheduled to be sent; cancel the scheduled message first.
    """
    with _lock_draft(appliance, account, draft_id):
        appliance.drafts.remove(account.id, draft_id, may_delete=Capability.MAIL_DELETE in caller.capabilities)
    return Deletion(id=draft_id)


@contextmanager
def _lock_draft(appliance: Appliance, account: Account, draft_id: str) -> Iterator[None]:
    """Keep other requests from changing or sending a draft. Raises DraftInUse, BeingDecided."""
    with decision_lock(appliance, draft_id):
        appliance.store.delivery_lists.require_free_draft(account.id, draft_id)
        try:
            yield
        except RemoteFault as fault:
            raise problem_of(fault) from fault


def _compose_version(appliance: Appliance, outgoing: OutgoingMessage) -> tuple[DraftVersion, tuple[str, ...]]:
    now, reader = appliance.clock.now(), appliance.html_readers.for_request()
    made = compose_message(outgoing, now, reader)
    version = DraftVersion(with_bcc(made.wire, made.bcc_header), made.message_id, now)
    return version, (UNANALYZED_OUTGOING,) if reader.has_failed else ()


def _require_draft(message: Message) -> None:
    in_drafts = not isinstance(message.folder, msgspec.UnsetType) and message.folder.role == "drafts"
    if not (message.flags.draft or in_drafts):
        raise NotFound(what="draft")


def _with_draft_id(message: Message) -> Message:
    return msgspec.structs.replace(message, draft_id=message.id)
