"""Reading mail: always from the store, never from the network."""

from typing import Annotated

from msgspec import UNSET, Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import NotFound
from mailbox_appliance.operations import contents
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import Cursor, Limit, operation
from mailbox_appliance.operations.pages import decode_cursor, encode_cursor
from mailbox_appliance.records import Account, Answer, Body, Capability, Folder, Message, Page, Thread

FolderName = Annotated[str, Meta(min_length=1, max_length=1024, description="A folder's id, role, path or name.")]


@operation(needs=Capability.MAIL_READ)
def list_folders(appliance: Appliance, caller: Caller, account: Account) -> tuple[Folder, ...]:  # noqa: ARG001
    """The folders of a mailbox with their roles and counts."""
    return appliance.store.folders.show(account.id)


@operation(needs=Capability.MAIL_READ)
def list_messages(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    folder: FolderName | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Answer[Page[Message]]:
    """Messages of a mailbox, newest first; of every folder but spam and trash, unless a folder is named.

    Newest is what the server received last (INTERNALDATE, RFC 9051 2.3.3). `date` shows the Date field, which the
    sender writes and which may be wrong: it does not decide the order.
    """
    number = None
    if folder is not None:
        found = appliance.store.folders.find(account.id, folder)
        if found is None:
            raise NotFound(what="folder")
        number = found.number
    items, more = appliance.store.messages.list(
        account.id, folder_number=number, before=decode_cursor(cursor), limit=limit
    )
    return Answer(Page(items=items, next_cursor=encode_cursor(more)), first_sync_warnings(appliance, account))


@operation(needs=Capability.MAIL_READ)
def get_message(appliance: Appliance, caller: Caller, account: Account, message_id: str) -> Answer[Message]:  # noqa: ARG001
    """A whole message, with its body and header fields; a body that is not here yet is fetched now."""
    message, warnings = appliance.store.messages.get(account.id, message_id)
    if message.body in (UNSET, Body()) and not appliance.store.messages.body(account.id, message_id).is_there:
        missing = contents.fill(appliance, account, message_id)
        message, warnings = appliance.store.messages.get(account.id, message_id)
        warnings += missing
    return Answer(message, warnings)


@operation(needs=Capability.MAIL_READ)
def get_thread(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    thread_id: str,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Thread:
    """A conversation and its messages, oldest first.

    Oldest is what the server received first (INTERNALDATE, RFC 9051 2.3.3), whatever `date` says.
    """
    position = decode_cursor(cursor)
    subject = appliance.store.messages.thread_subject(account.id, thread_id)
    items, more = appliance.store.messages.list_thread(account.id, thread_id, after=position, limit=limit)
    return Thread(id=thread_id, subject=subject, messages=Page(items=items, next_cursor=encode_cursor(more)))


def first_sync_warnings(appliance: Appliance, account: Account) -> tuple[str, ...]:
    """What a reader should know while the first sync of a mailbox is not through."""
    if account.last_sync_at is not None:
        return ()
    progress = appliance.sync.progress(account.id)
    return (f"The first sync of this mailbox is not through yet{f' ({progress})' if progress else ''}.",)
