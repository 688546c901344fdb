"""Operations that read mail: folders, labels, filtered lists, messages, threads. They read the store; only a body that
is missing there is fetched from the mail server.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, TypedDict, TypeVar, Unpack

from msgspec import UNSET, Meta

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Invalid, UnknownFolder
from mailbox_appliance.mail import provenance, search
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import OwnText, Page, own_text
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import (
    Body,
    Folder,
    Label,
    Message,
    MessageFilter,
    SearchedField,
    SearchTerm,
    Thread,
)
from mailbox_appliance.operations import contents
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor
from mailbox_appliance.operations.operation import Caller, Cursor, Limit, operation

# --- The filter: the single values that every list of messages takes, as one value ---


T = TypeVar("T")

_EVERYTHING = MessageFilter()
_FIRST_SYNCS = "The first sync of {incomplete} of these mailboxes is still running."
#: Words of a query that a warning names.
_MAX_NAMED = 10

FolderName = Annotated[str, Meta(min_length=1, max_length=1024, description="ID, role, path or name of a folder.")]
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description=(
            'Search query. All terms must match: words, "phrases", prefix*, and the operators from: to: subject:'
            " before: after: is:unread is:read is:starred has:attachment label:. OR, AND, NOT and -word are not"
            " supported; they and other terms with a colon are searched as text."
        ),
    ),
]
TextFilter = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description="Only messages with all these words; `searchContext` shows where the text was found.",
    ),
]
Unread = Annotated[bool, Meta(description="Only unread messages; if false, only read ones.")]
Starred = Annotated[bool, Meta(description="Only starred messages; if false, only others.")]
HasAttachment = Annotated[
    bool, Meta(description="Only messages with an attachment (inline images do not count); if false, only others.")
]
PersonFilter = Annotated[
    str,
    Meta(min_length=1, max_length=1000, description="Consecutive words of a name or address."),
]
SubjectFilter = Annotated[str, Meta(min_length=1, max_length=1000, description="Consecutive words of the subject.")]
DateFilter = Annotated[str, Meta(max_length=40, description="Date or date-time (UTC), compared with `date`.")]


class Filters(TypedDict, total=False):
    """The filters of a list of messages, each a parameter of its own."""

    q: Query | None
    text: TextFilter | None
    unread: Unread | None
    starred: Starred | None
    has_attachment: HasAttachment | None
    from_: PersonFilter | None
    to: PersonFilter | None
    subject: SubjectFilter | None
    after: DateFilter | None
    before: DateFilter | None


def read_filter(**given: Unpack[Filters]) -> MessageFilter:
    """Return the conditions of a list of messages, all of which must match. Raises Invalid for an invalid value.

    `after` includes its own moment, `before` does not. A blank `q` or `text` is refused: it would match everything, and
    is usually a mistake in a program.
    """
    q, text = given.get("q"), given.get("text")
    named: tuple[tuple[SearchedField, str | None], ...] = (
        ("from", given.get("from_")),
        ("to", given.get("to")),
        ("subject", given.get("subject")),
    )
    marked = MessageFilter(
        terms=tuple(SearchTerm(words, field) for field, words in named if words is not None),
        unread=given.get("unread"),
        starred=given.get("starred"),
        has_attachment=given.get("has_attachment"),
        after=_read_value("after", given.get("after"), search.parse_moment),
        before=_read_value("before", given.get("before"), search.parse_moment),
    )
    typed = _read_value("q", _require_not_blank("q", q), search.parse_query)
    sought = _read_value("text", _require_not_blank("text", text), _read_text)
    found = (search.without_signs(marked), typed, sought)
    return search.combine_filters([one for one in found if one is not None and one != _EVERYTHING])


def filter_warnings(wanted: MessageFilter) -> Iterator[str]:
    """Yield a warning if no message can match the filter."""
    if wanted.is_impossible:
        yield own_text(
            "No message can match: the conditions contradict each other, or contain no letter or digit to search for."
        )


def query_warnings(q: str | None) -> Iterator[str]:
    """Yield warnings about parts of a query that are searched as text but look like operators."""
    there_are = " ".join(f"{key}:" for key in search.known_keys())
    for key in search.misread_keys(q or ""):
        yield f"{key} is not a supported operator: searched as text. Supported: {there_are}"
    if chosen := search.misread_words(q or ""):
        named = ", ".join(chosen[:_MAX_NAMED]) + (" and others" if len(chosen) > _MAX_NAMED else "")
        yield f"{named}: searched as text. All terms of a query must match; exclusion by - or NOT is not supported."


def _require_not_blank(name: str, given: str | None) -> str | None:
    if given is not None and not given.strip():
        raise Invalid.at(name, "This must not be empty.")
    return given


def _read_text(text: str) -> MessageFilter:
    count = len(search.split_words(text))
    if count > search.MOST_TERMS:
        raise ValueError(f"A text can have at most {search.MOST_TERMS} words.")
    return MessageFilter(text=text, is_impossible=count == 0)


def _read_value(name: str, given: str | None, reader: Callable[[str], T]) -> T | None:
    if given is None:
        return None
    try:
        return reader(given)
    except ValueError as error:
        raise Invalid.at(name, str(error)) from error


# --- Folders, labels, lists, messages and threads ---


@operation(needs=Capability.MAIL_READ)
def list_folders(appliance: Appliance, caller: Caller, account: Account) -> tuple[Folder, ...]:  # noqa: ARG001
    """List folders.

    Returns the folders of a mailbox with their roles and message counts.
    """
    return appliance.store.folders.list_with_counts(account.id)


@operation(needs=Capability.MAIL_READ)
def list_labels(appliance: Appliance, caller: Caller, account: Account) -> tuple[Label, ...]:  # noqa: ARG001
    """List labels.

    Returns the labels used in a mailbox: IMAP keywords (RFC 9051 2.3.2), or all labels of a Gmail mailbox.
    """
    return tuple(Label(id=name, name=name) for name in appliance.store.messages.list_labels(account.id))


@operation(needs=Capability.MAIL_READ)
def list_messages(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    folder: FolderName | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
    **filters: Unpack[Filters],
) -> OperationResult[Page[Message]]:
    """List or search messages.

    Newest first. Without `folder`, spam and trash are left out. All given filters must match.

    Messages are ordered by the time the server received them (INTERNALDATE, RFC 9051 2.3.3). `date` shows the Date
    header, which the sender writes and which may be wrong; `after` and `before` compare with it.
    """
    wanted = read_filter(**filters)
    warnings = (*first_sync_warnings(appliance, account), *query_warnings(filters.get("q")))
    return _list_page(appliance, (account.id,), wanted, folder, cursor, limit, warnings, account.id)


@operation(needs=Capability.MAIL_READ)
def list_all_messages(
    appliance: Appliance,
    caller: Caller,
    folder: FolderName | None = None,
    limit: Limit = 50,
    cursor: Cursor | None = None,
    **filters: Unpack[Filters],
) -> OperationResult[Page[Message]]:
    """List messages of all mailboxes.

    Newest first, with the same filters as the list of one mailbox. `folder` is matched in each mailbox by role, path or
    name. Messages are ordered by the time the servers received them; `after` and `before` compare with `date`, which
    the sender wrote.
    """
    wanted = read_filter(**filters)
    accounts = permissions.reachable_syncs(appliance.store, caller.required_credential)
    incomplete = sum(last_sync_at is None for last_sync_at in accounts.values())
    first = ((own_text(_FIRST_SYNCS, incomplete=incomplete)),) if incomplete else ()
    warnings = (*first, *query_warnings(filters.get("q")))
    # Not bound to the mailboxes: connecting one does not invalidate the cursors of those who are paging.
    return _list_page(appliance, tuple(accounts), wanted, folder, cursor, limit, warnings, "every mailbox")


@operation(needs=Capability.MAIL_READ)
def get_message(appliance: Appliance, caller: Caller, account: Account, message_id: str) -> OperationResult[Message]:  # noqa: ARG001
    """Get a message.

    Returns a message with its body and headers. If the body has not been fetched yet, it is fetched from the mail
    server now. `warnings` also report what may be wrong with its sender: failed SPF, DKIM and DMARC checks of the
    receiving server, replies that go to another domain, a first-time sender, a domain that resembles a known one. They
    also report hidden text in its HTML.
    """
    message, warnings = appliance.store.messages.get(account.id, message_id)
    if message.body in (UNSET, Body()) and not appliance.store.messages.get_body(account.id, message_id).is_there:
        missing = contents.fetch_body(appliance, account, message_id)
        message, warnings = appliance.store.messages.get(account.id, message_id)
        warnings += missing
    return OperationResult(message, (*warnings, *_provenance_warnings(appliance, account, message)))


#: Messages of the newest sent ones that make their recipient's domain a known one.
_OFTEN = 3


def _provenance_warnings(appliance: Appliance, account: Account, message: Message) -> Iterator[str]:
    """Yield warnings about the sender of a received message."""
    role = message.folder.role if message.folder is not UNSET else None
    if message.from_ is UNSET or message.flags.draft or role in ("sent", "drafts"):
        return
    if message.body is not UNSET and message.body.html is not UNSET:
        # The result is cached, since a request for the body often follows.
        seen = appliance.html_readers.for_request().extract(message.body.html, "markdown")
        if seen.is_analyzed and any(seen.hidden.counts.values()):
            yield provenance.HIDDEN_TEXT
    store, sender = appliance.store, message.from_.email
    headers = {} if message.headers is UNSET else message.headers
    trusted = appliance.settings.names("mail.trusted_authserv_ids")
    server = provenance.ReceivingServer(store.accounts.get_imap_host(account.id), account.email, trusted)
    if failed := provenance.authentication_warning(headers, server):
        yield failed
    reply_to = () if message.reply_to is UNSET else tuple(each.email for each in message.reply_to)
    if provenance.goes_elsewhere(sender, reply_to, headers):
        yield provenance.REPLIES_ELSEWHERE
    own = [each.email for each in store.sender_addresses.list_of(account)]
    if any(same_mailbox(sender, each) for each in own) or store.messages.has_met(account.id, sender, message.id):
        return
    often = {domain for domain, count in store.messages.count_written_domains(account.id).items() if count >= _OFTEN}
    yield from provenance.sender_warnings(sender, often | set(map(provenance.domain_key, own)))


@operation(needs=Capability.MAIL_READ)
def get_thread(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    thread_id: str,
    limit: Limit = 50,
    cursor: Cursor | None = None,
) -> Thread:
    """Get a thread.

    Returns a conversation with its messages, oldest first by the time the server received them (INTERNALDATE, RFC 9051
    2.3.3), regardless of `date`.
    """
    position = decode_cursor(cursor, account.id, thread_id)
    subject = appliance.store.messages.get_thread_subject(account.id, thread_id)
    items, more = appliance.store.messages.list_thread(account.id, thread_id, after=position, limit=limit)
    page = Page(items=items, next_cursor=encode_cursor(more, account.id, thread_id))
    return Thread(id=thread_id, subject=subject, messages=page)


def _list_page(
    appliance: Appliance,
    ids: Sequence[str],
    wanted: MessageFilter,
    folder: str | None,
    cursor: str | None,
    limit: int,
    warnings: tuple[str, ...],
    name: str,
) -> OperationResult[Page[Message]]:
    folders = None
    if folder is not None:
        folders = appliance.store.folders.find_numbers(ids, folder)
        if not folders:
            raise UnknownFolder
    position = decode_cursor(cursor, name, folder, wanted)
    items, more = appliance.store.messages.list(
        ids, wanted, folders=folders, before=position, limit=limit, reader=appliance.html_readers.for_request()
    )
    warnings = (*warnings, *filter_warnings(wanted), *_backlog_warnings(appliance, ids, wanted))
    return OperationResult(Page(items=items, next_cursor=encode_cursor(more, name, folder, wanted)), warnings)


def _backlog_warnings(appliance: Appliance, account_ids: Sequence[str], wanted: MessageFilter) -> Iterator[str]:
    if not wanted.terms and wanted.text is None:
        return
    backlog = appliance.store.mailbox_writer.count_without_body(*account_ids)
    if backlog:
        yield own_text(
            "Message bodies that are not indexed yet: {backlog}. Until then, search finds these messages only by"
            " subject and people.",
            backlog=backlog,
        )


def first_sync_warnings(appliance: Appliance, account: Account) -> tuple[str, ...]:
    """Return warnings that results are incomplete, while the first sync of a mailbox runs; otherwise nothing.

    The first sync stores headers first, then bodies.
    """
    progress = appliance.sync.progress(account.id)
    if account.last_sync_at is None:
        so_far = OwnText(f" ({progress.text})" if progress else "")
        return (own_text("The first sync of this mailbox is still running{so_far}.", so_far=so_far),)
    so_far = OwnText(progress.text if progress else "")
    return (own_text("Mail of this mailbox is still being fetched ({so_far}).", so_far=so_far),) if progress else ()
