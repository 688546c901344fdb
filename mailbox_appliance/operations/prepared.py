"""A message with everything about it fixed, as a send hands it in and a preview shows it: the very same guards.

inline ......... resolved and composed                       refused at the place of the fault
saved draft .... its source, made ready to go                refused at /draftId
forward ........ composed around the original                (operations/forwarding.py)
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import UNSET

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid, MessageTooLarge, NotFound
from mailbox_appliance.mail.compose import has_text, new_message_id
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.html.analysis import UNANALYZED_OUTGOING
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.mailbox.drafts import version_of
from mailbox_appliance.model.records import (
    Account,
    Address,
    Capability,
    ComposedMessage,
    DeliveryKind,
    OutgoingMessage,
    ParsedMessage,
    Quota,
)
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.given import InlineMessage, SavedDraft
from mailbox_appliance.operations.operation import MAIL_LIMIT, MIB
from mailbox_appliance.operations.outgoing import (
    NO_TEXT,
    composed,
    require_count,
    require_files,
    resolve,
    sender_of,
)
from mailbox_appliance.operations.send_times import read_send_at
from mailbox_appliance.operations.sources import read_source
from mailbox_appliance.operations.turns import deciding
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Prepared:
    """A message that can be handed in.

    `draft_id`: the saved draft that it is, in this `draft_version`; `parent_id`: what it answers or forwards;
    `warnings`: what its sender should be told of it.
    """

    message: ComposedMessage
    to: tuple[Address, ...]
    subject: str
    kind: DeliveryKind = "send"
    thread_id: str | None = None
    parent_id: str | None = None
    send_at: datetime | None = None
    draft_id: str | None = None
    draft_version: str | None = None
    warnings: tuple[str, ...] = ()


@contextmanager
def preparing(
    appliance: Appliance, caller: Caller, account: Account, message: SavedDraft | InlineMessage, *request: Hashable
) -> Iterator[Prepared]:
    """The message, ready; while this lasts nobody changes the draft that it is, or decides to send it as well.

    `request`: what tells it and its retries from others. Raises Invalid with the place of what cannot go, NotFound for
    an unknown parent, DraftInUse, and for a draft BeingDecided and what stands for a fault of the server's.
    """
    now = appliance.clock.now()
    send_at = read_send_at(message.send_at, now)
    if isinstance(message, InlineMessage):
        yield _inline(appliance, account, message, send_at, now)
        return
    with deciding(appliance, *request, message.draft_id):
        yield _saved(appliance, caller, account, message.draft_id, send_at, now)


def quotas(settings: Settings) -> tuple[Quota, ...]:
    """How many messages may be handed in, as the operator says."""
    rows = (
        Quota("credential", settings.number("sending.credential_per_hour"), _HOUR),
        Quota("credential", settings.number("sending.credential_per_day"), _DAY),
        Quota("account", settings.number("sending.account_per_hour"), _HOUR),
        Quota("account", settings.number("sending.account_per_day"), _DAY),
    )
    return tuple(quota for quota in rows if quota.most)


def _inline(
    appliance: Appliance, account: Account, message: InlineMessage, send_at: datetime | None, now: datetime
) -> Prepared:
    store = appliance.store
    resolved = resolve(store, account, message)
    outgoing, reader = resolved.outgoing, appliance.html_readers.for_request()
    return Prepared(
        message=composed(outgoing, send_at or now, reader),
        to=outgoing.to,
        subject=outgoing.subject,
        kind="send" if send_at is None else "scheduled",
        thread_id=thread_of(store, account, outgoing),
        parent_id=message.reply_to_message_id or None,
        send_at=send_at,
        warnings=resolved.warnings + ((UNANALYZED_OUTGOING,) if reader.has_failed else ()),
    )


def _saved(
    appliance: Appliance, caller: Caller, account: Account, draft_id: str, send_at: datetime | None, now: datetime
) -> Prepared:
    store = appliance.store
    store.delivery_lists.require_free_draft(account.id, draft_id)
    source, version = _source(appliance, caller, account, draft_id)
    try:
        own_id = new_message_id(account.email)
        sender = _named(store, account, source)
        message = to_sendable(source, sender, message_id=own_id, date=send_at or now)
    except ValueError as error:
        raise Invalid.at("/draftId", f"This draft cannot be sent: {str(error).removesuffix('.')}.") from error
    _require_size(len(message.wire))
    read = parse_content(message.wire)
    require_count(len(message.envelope.recipients), "/draftId")
    require_files((each.size_bytes for each in read.attachments), "/draftId")
    return Prepared(
        message=message,
        to=read.to,
        subject=read.subject,
        kind="send" if send_at is None else "scheduled",
        thread_id=_thread(store, account, (*read.references, *read.in_reply_to)),
        parent_id=_parent(store, account, read),
        send_at=send_at,
        draft_id=draft_id,
        draft_version=version,
        warnings=() if has_text(read.text, read.html) else (NO_TEXT,),
    )


def _named(store: Store, account: Account, source: bytes) -> Address:
    """Who a draft is from: whom it names, where the mailbox may send as that; else the mailbox's own address."""
    try:
        found = parse_message(source.partition(b"\r\n\r\n")[0] + b"\r\n\r\n").sender
        return sender_of(store, account, UNSET if found is None else found.email)
    except Invalid:  # what it names is told as something that the draft has wrong
        return sender_of(store, account)


def _source(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> tuple[bytes, str | None]:
    """The draft as it lies at the server, and which version it is. Raises Invalid where there is no such draft."""
    may_delete = Capability.MAIL_DELETE in caller.capabilities  # it is removed once it has been sent
    try:
        draft = appliance.drafts.locate(account.id, draft_id, may_delete=may_delete)
        _require_size(draft.size)
        # Where another program changes it from now on, it is another version, which is not removed.
        return read_source(appliance, account, draft_id), version_of(draft)
    except NotFound as error:
        raise Invalid.at("/draftId", "There is no such draft in this mailbox.") from error


def _require_size(size: int) -> None:
    if size > MAIL_LIMIT:
        details = (Detail("/draftId", "Take files out of it, or make them smaller."),)
        raise MessageTooLarge(what="The draft", limit=f"{MAIL_LIMIT // MIB} MiB", details=details)


def thread_of(store: Store, account: Account, outgoing: OutgoingMessage) -> str | None:
    """The conversation that a message belongs to by what it answers."""
    return _thread(store, account, (*outgoing.references, outgoing.in_reply_to or ""))


def _thread(store: Store, account: Account, ids: tuple[str, ...]) -> str | None:
    return store.messages.find_thread(account.id, filter(None, map(canonical_message_id, reversed(ids))))


def _parent(store: Store, account: Account, read: ParsedMessage) -> str | None:
    """The message that a draft answers, where it is here."""
    answered = canonical_message_id(read.in_reply_to[0]) if read.in_reply_to else None
    return None if answered is None else store.messages.find_by_message_id(account.id, answered)
