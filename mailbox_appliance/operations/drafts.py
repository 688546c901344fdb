"""Drafts: kept in the mailbox's drafts folder at its server, so that every mail program shows them."""

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
    """The drafts of a mailbox: what lies in its drafts folder, newest first."""
    if appliance.store.folders.find_by_role(account.id, "drafts") is None:
        return OperationResult(Page(items=(), next_cursor=None), messages.first_sync_warnings(appliance, account))
    found = messages.list_messages(appliance, caller, account, folder="drafts", limit=limit, cursor=cursor)
    items = tuple(map(_with_draft_id, found.data.items))
    return OperationResult(Page(items=items, next_cursor=found.data.next_cursor), found.warnings)


@operation(needs=Capability.MAIL_READ)
def get_draft(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> OperationResult[Message]:
    """A draft, whole. Any message that is marked as a draft, or lies in the drafts folder, is one."""
    found = messages.get_message(appliance, caller, account, draft_id)
    _require_draft(found.data)
    return OperationResult(_with_draft_id(found.data), found.warnings)


@operation(needs=Capability.MAIL_DRAFTS, body_limit=MAIL_LIMIT, asks_servers=True)
def create_draft(
    appliance: Appliance, caller: Caller, account: Account, message: DraftRequest
) -> OperationResult[Message]:
    """Keep a message as a draft. It needs neither recipients nor a text; Bcc and attachments are kept with it.

    The drafts folder is made where there is none. A request whose answer is lost may be repeated; look at the list
    first, since the draft may be there.
    """
    resolved = resolve_draft(appliance.store, account, message)
    version, told = _compose_version(appliance, resolved.outgoing)
    try:
        draft_id = appliance.drafts.create(
            account.id, version, find_thread(appliance.store, account, resolved.outgoing)
        )
    except RemoteFault as fault:
        raise problem_of(fault) from fault
    found = get_draft(appliance, caller, account, draft_id)
    return OperationResult(found.data, (*resolved.warnings, *told, *found.warnings))


@operation(needs=Capability.MAIL_DRAFTS, body_limit=MAIL_LIMIT)
def update_draft(
    appliance: Appliance, caller: Caller, account: Account, draft_id: str, message: DraftRequest
) -> OperationResult[Message]:
    """Replace a draft as a whole: what is not given is gone, attachments too. Its id stays.

    Its thread may be another one afterwards, where the provider says what belongs together, as Gmail does.

    `sync_required`: somebody else has changed or removed it; get it again first. `conflict`: it is being sent, or waits
    for its time to be sent. What lies in the drafts folder without being marked as a draft is replaced only for those
    who may delete it (`mail.delete`).
    """
    may_delete = Capability.MAIL_DELETE in caller.capabilities
    appliance.drafts.locate(account.id, draft_id, may_delete=may_delete)
    resolved = resolve_draft(appliance.store, account, message)
    version, told = _compose_version(appliance, resolved.outgoing)
    with _lock_draft(appliance, account, draft_id):
        warnings = appliance.drafts.replace(account.id, draft_id, version, may_delete=may_delete)
    found = get_draft(appliance, caller, account, draft_id)
    return OperationResult(found.data, (*resolved.warnings, *told, *found.warnings, *warnings))


@operation(needs=Capability.MAIL_DRAFTS)
def delete_draft(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> Deletion:
    """Remove a draft for good; what is not marked as one only for those who may delete it (`mail.delete`).

    `conflict`: it is being sent, or waits for its time to be sent; cancel the scheduled send first.
    """
    with _lock_draft(appliance, account, draft_id):
        appliance.drafts.remove(account.id, draft_id, may_delete=Capability.MAIL_DELETE in caller.capabilities)
    return Deletion(id=draft_id)


@contextmanager
def _lock_draft(appliance: Appliance, account: Account, draft_id: str) -> Iterator[None]:
    """Lock a draft against changes and sends of others. Raises DraftInUse and BeingDecided."""
    with decision_lock(appliance, draft_id):
        appliance.store.delivery_lists.require_free_draft(account.id, draft_id)
        try:
            yield
        except RemoteFault as fault:
            raise problem_of(fault) from fault


def _compose_version(appliance: Appliance, outgoing: OutgoingMessage) -> tuple[DraftVersion, tuple[str, ...]]:
    """The draft in the version to be saved, and warnings about its plain text."""
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
