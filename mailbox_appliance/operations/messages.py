"""Reading mail: always from the store, never from the network."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.records import (
    Account,
    Body,
    Capability,
    Folder,
    Label,
    Message,
    MessageFilter,
    OperationResult,
    Page,
    Thread,
)
from mailbox_appliance.operations import contents, filters
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import Cursor, Limit, operation
from mailbox_appliance.operations.pages import decode_cursor, encode_cursor


@operation(needs=Capability.MAIL_READ)
def list_folders(appliance: Appliance, caller: Caller, account: Account) -> tuple[Folder, ...]:  # noqa: ARG001
    """The folders of a mailbox with their roles and counts."""
    return appliance.store.folders.list_with_counts(account.id)


@operation(needs=Capability.MAIL_READ)
def list_labels(appliance: Appliance, caller: Caller, account: Account) -> tuple[Label, ...]:  # noqa: ARG001
    """The labels that messages have: on an IMAP server its keywords (RFC 9051 2.3.2), at Gmail all that there are."""
    return tuple(Label(id=name, name=name) for name in appliance.store.messages.list_labels(account.id))


@operation(needs=Capability.MAIL_READ)
def list_messages(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    folder: filters.FolderName | None = None,
    q: filters.Query | None = None,
    text: filters.Text | None = None,
    unread: filters.Unread | None = None,
    starred: filters.Starred | None = None,
    has_attachment: filters.HasAttachment | None = None,
    from_: filters.Person | None = None,
    to: filters.Person | None = None,
    subject: filters.Subject | None = None,
    after: filters.Moment | None = None,
    before: filters.Moment | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> OperationResult[Page[Message]]:
    """Messages of a mailbox, newest first; of every folder but spam and trash, unless a folder is named.

    All that is asked for must hold. Newest is what the server received last (INTERNALDATE, RFC 9051 2.3.3). `date`
    shows the Date field, which the sender writes and which may be wrong: `after` and `before` go by it, the order
    does not.
    """
    wanted = filters.read(
        q=q,
        text=text,
        unread=unread,
        starred=starred,
        has_attachment=has_attachment,
        from_=from_,
        to=to,
        subject=subject,
        after=after,
        before=before,
    )
    warnings = (*first_sync_warnings(appliance, account), *filters.misread(q))
    return _page(appliance, (account,), wanted, folder, cursor, limit, warnings, account.id)


@operation(needs=Capability.MAIL_READ)
def list_all_messages(
    appliance: Appliance,
    caller: Caller,
    folder: filters.FolderName | None = None,
    q: filters.Query | None = None,
    text: filters.Text | None = None,
    unread: filters.Unread | None = None,
    starred: filters.Starred | None = None,
    has_attachment: filters.HasAttachment | None = None,
    from_: filters.Person | None = None,
    to: filters.Person | None = None,
    subject: filters.Subject | None = None,
    after: filters.Moment | None = None,
    before: filters.Moment | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> OperationResult[Page[Message]]:
    """Messages of every mailbox that you reach, newest first, as in the list of one mailbox.

    A folder is looked for in each mailbox, by its role, path or name. The order is that in which the servers received
    the messages; `after` and `before` go by `date`, which the sender wrote.
    """
    wanted = filters.read(
        q=q,
        text=text,
        unread=unread,
        starred=starred,
        has_attachment=has_attachment,
        from_=from_,
        to=to,
        subject=subject,
        after=after,
        before=before,
    )
    accounts = permissions.reachable_accounts(appliance.store, caller.required_credential)
    incomplete = sum(account.last_sync_at is None for account in accounts)
    first = (f"The first sync of {incomplete} of these mailboxes is not through yet.",) if incomplete else ()
    warnings = (*first, *filters.misread(q))
    # Not bound to the mailboxes: one that is connected while somebody turns the pages breaks nothing.
    return _page(appliance, accounts, wanted, folder, cursor, limit, warnings, "every mailbox")


@operation(needs=Capability.MAIL_READ)
def get_message(appliance: Appliance, caller: Caller, account: Account, message_id: str) -> OperationResult[Message]:  # noqa: ARG001
    """A whole message, with its body and header fields; a body that is not here yet is fetched now."""
    message, warnings = appliance.store.messages.get(account.id, message_id)
    if message.body in (UNSET, Body()) and not appliance.store.messages.get_body(account.id, message_id).is_there:
        missing = contents.fill(appliance, account, message_id)
        message, warnings = appliance.store.messages.get(account.id, message_id)
        warnings += missing
    return OperationResult(message, warnings)


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
    position = decode_cursor(cursor, account.id, thread_id)
    subject = appliance.store.messages.get_thread_subject(account.id, thread_id)
    items, more = appliance.store.messages.list_thread(account.id, thread_id, after=position, limit=limit)
    page = Page(items=items, next_cursor=encode_cursor(more, account.id, thread_id))
    return Thread(id=thread_id, subject=subject, messages=page)


def _page(
    appliance: Appliance,
    accounts: Sequence[Account],
    wanted: MessageFilter,
    folder: str | None,
    cursor: str | None,
    limit: int,
    warnings: tuple[str, ...],
    name: str,
) -> OperationResult[Page[Message]]:
    ids = [account.id for account in accounts]
    folders = None
    if folder is not None:
        found = [appliance.store.folders.find(account_id, folder) for account_id in ids]
        folders = [one.number for one in found if one is not None]
        if not folders:
            raise NotFound(what="folder")
    position = decode_cursor(cursor, name, folder, wanted)
    items, more = appliance.store.messages.list(
        ids, wanted, folders=folders, before=position, limit=limit, reader=appliance.html_readers.for_request()
    )
    warnings = (*warnings, *filters.warnings(wanted), *_backlog_warnings(appliance, ids, wanted))
    return OperationResult(Page(items=items, next_cursor=encode_cursor(more, name, folder, wanted)), warnings)


def _backlog_warnings(appliance: Appliance, account_ids: Sequence[str], wanted: MessageFilter) -> Iterator[str]:
    if not wanted.terms and wanted.text is None:
        return
    backlog = sum(map(appliance.store.mailbox_writer.count_without_body, account_ids))
    if backlog:
        yield f"Of {backlog} messages the body is still coming; until then they are found by subject and people only."


def first_sync_warnings(appliance: Appliance, account: Account) -> tuple[str, ...]:
    """What a reader should know while the mail of a mailbox is still being brought in: headers first, then bodies."""
    progress = appliance.sync.progress(account.id)
    if account.last_sync_at is None:
        return (f"The first sync of this mailbox is not through yet{f' ({progress})' if progress else ''}.",)
    return (f"Mail of this mailbox is still being brought in ({progress}).",) if progress else ()
