"""From a request to a message that can be composed: sender, recipients, reply headers and files, all checked."""

import re
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import UNSET, UnsetType

from mailbox_appliance.errors import Detail, Invalid, MessageTooLarge, NotFound
from mailbox_appliance.mail import reply
from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import compose, has_text, new_message_id, parse_media_type, with_plain_text
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.reply import ReplyRecipients, ReplyThreading
from mailbox_appliance.mail.threads import reply_subject
from mailbox_appliance.model.records import (
    Account,
    Address,
    ComposedMessage,
    Message,
    OutgoingAttachment,
    OutgoingMessage,
)
from mailbox_appliance.operations.given import DraftMessage, GivenAddress, GivenAttachment, InlineMessage
from mailbox_appliance.operations.operation import MIB
from mailbox_appliance.operations.texts import refuse_controls
from mailbox_appliance.store.store import Store

MOST_ATTACHMENTS = 100
MOST_ATTACHED = 25 * MIB
MOST_RECIPIENTS = 500

_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")
#: How a warning begins that names addresses which a sender of mail chose.
LEFT_OUT = "This reply does not go to"
#: What the sender of a message is told that has a subject or files, and nothing else.
NO_TEXT = "The message has no text."
_MOST_NAMED = 10
_PUT_LESS = "Send fewer or smaller files."


@dataclass(frozen=True)
class Resolved:
    """A message as it goes out, and what its sender should be told about it."""

    outgoing: OutgoingMessage
    warnings: tuple[str, ...] = ()


def resolve(store: Store, account: Account, message: InlineMessage) -> Resolved:
    """The message as it goes out. Raises Invalid with the place of what cannot go, NotFound for an unknown parent."""
    resolved = resolve_draft(store, account, message)
    outgoing = resolved.outgoing
    if not (outgoing.to or outgoing.cc or outgoing.bcc):
        raise Invalid.at("/to", "A message needs at least one recipient in to, cc or bcc.")
    if has_text(outgoing.text, outgoing.html):
        return resolved
    if not (outgoing.subject.strip() or outgoing.attachments):
        raise Invalid.at("/body", "The message is empty: give it a subject, a text or an attachment.")
    return replace(resolved, warnings=(*resolved.warnings, NO_TEXT))


def resolve_draft(store: Store, account: Account, message: DraftMessage) -> Resolved:
    """As `resolve`, for a message that need not go to anybody yet."""
    require_lists({"to": message.to or (), "cc": message.cc or (), "bcc": message.bcc or ()})
    _check_texts(message)
    _check_attachments(message.attachments)
    resolved = _addressed(store, account, message)
    filled = resolved.outgoing
    count = len(filled.to) + len(filled.cc) + len(filled.bcc)
    require_count(count, "/replyAll" if message.reply_all else "/replyToMessageId")
    return resolved


def require_lists(lists: Mapping[str, Sized]) -> None:
    """Raises Invalid, with the list that is too long beside those before it, where a message would go to too many."""
    count = 0
    for name, addresses in lists.items():
        count += len(addresses)
        require_count(count, f"/{name}")


def require_count(recipients: int, path: str) -> None:
    """Raises Invalid where a message would go to too many."""
    if recipients > MOST_RECIPIENTS:
        raise Invalid.at(path, f"A message goes to at most {MOST_RECIPIENTS} recipients.")


def require_files(sizes: Iterable[int], path: str = "/attachments", advice: str = _PUT_LESS) -> None:
    """Raises Invalid where a message would have too many files, or too large ones."""
    found = list(sizes)
    if len(found) > MOST_ATTACHMENTS:
        raise Invalid.at(path, f"A message has at most {MOST_ATTACHMENTS} attachments.")
    if sum(found) > MOST_ATTACHED:
        raise MessageTooLarge(
            what="The size of all attachments together",
            limit=f"{MOST_ATTACHED // MIB} MiB",
            details=(Detail(path, advice),),
        )


def composed(outgoing: OutgoingMessage, date: datetime, reader: HtmlReader = TAG_READER) -> ComposedMessage:
    """Return the message as it travels, with a new Message-ID, and a plain text beside its HTML.

    Raises Invalid for what no header field can hold.
    """
    try:
        return compose(with_plain_text(outgoing, reader), message_id=new_message_id(outgoing.sender.email), date=date)
    except ValueError as error:
        # What a client gives is checked before, with its place; this is left for what a mirrored message brings along.
        raise Invalid.at("", f"The message cannot be written: {error}.") from error


def sender_of(store: Store, account: Account, given: str | UnsetType = UNSET) -> Address:
    """Who a message is from: the mailbox's own address, or another that its provider lets it send as.

    Raises Invalid where the given address is none of these.
    """
    for each in store.sender_addresses.list_of(account):
        if given is UNSET or same_mailbox(given, each.email):
            return Address(email=each.email, name=each.name or account.display_name or UNSET)
    raise Invalid.at("/from", "This address is not one of the mailbox's own.")


def people(name: str, addresses: tuple[GivenAddress, ...] | UnsetType) -> tuple[Address, ...] | None:
    """The addresses of a list that was given; None where it was not. Raises Invalid for one that cannot be sent to."""
    if addresses is UNSET:
        return None
    for index, address in enumerate(addresses):
        refuse_controls(f"/{name}/{index}/name", address.name or None)
        try:
            to_envelope_address(address.email)
        except ValueError as error:
            raise Invalid.at(f"/{name}/{index}/email", f"This address cannot be sent to: {error}.") from error
    return tuple(Address(email=address.email, name=address.name) for address in addresses)


def _addressed(store: Store, account: Account, message: DraftMessage) -> Resolved:
    sender = sender_of(store, account, message.from_)
    to, cc, bcc = (people(name, getattr(message, name)) for name in ("to", "cc", "bcc"))
    found, threading, subject = ReplyRecipients(to or (), cc or ()), ReplyThreading(), message.subject or ""
    if message.reply_to_message_id is not UNSET:
        parent = _parent(store, account, message.reply_to_message_id)
        headers = store.messages.get_reply_headers(account.id, message.reply_to_message_id)
        threading = reply.reply_threading(headers)
        own = tuple(each.email for each in store.sender_addresses.list_of(account))
        try:
            found = reply.reply_recipients(parent, headers, own, to=to, cc=cc, everybody=message.reply_all)
        except ValueError as error:
            raise Invalid.at("/replyToMessageId", str(error)) from error
        subject = message.subject if message.subject is not UNSET else reply_subject(parent.subject)
    elif message.reply_all:
        raise Invalid.at("/replyToMessageId", "replyAll needs replyToMessageId.")
    outgoing = OutgoingMessage(
        sender=sender,
        to=found.to,
        cc=found.cc,
        bcc=bcc or (),
        subject=subject,
        text=message.body.text if message.body.text is not UNSET else None,
        html=message.body.html if message.body.html is not UNSET else None,
        attachments=tuple(map(_attachment, message.attachments)),
        in_reply_to=threading.in_reply_to,
        references=threading.references,
    )
    return Resolved(outgoing, _left_out(found))


def _parent(store: Store, account: Account, message_id: str) -> Message:
    """The message that is answered. Raises NotFound, with its place in the request."""
    try:
        parent, _ = store.messages.get(account.id, message_id)
    except NotFound as error:
        details = (Detail("/replyToMessageId", "There is no such message in this mailbox."),)
        raise NotFound(what="message", details=details) from error
    return parent


def _left_out(found: ReplyRecipients) -> tuple[str, ...]:
    """Whom a reply does not go to, though it should."""
    if not found.left_out:
        return ()
    more = len(found.left_out) - _MOST_NAMED
    names = ", ".join(found.left_out[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (f"{LEFT_OUT} {names}: these addresses of the original cannot be written to.",)


def _attachment(given: GivenAttachment) -> OutgoingAttachment:
    content_id = _bare(given.content_id) if given.content_id is not UNSET else None
    inline = given.disposition == "inline" or (given.disposition is UNSET and content_id is not None)
    return OutgoingAttachment(given.filename, given.mime_type, given.content, content_id, inline)


def _check_texts(message: DraftMessage) -> None:
    refuse_controls("/subject", message.subject or None)
    for index, attachment in enumerate(message.attachments):
        refuse_controls(f"/attachments/{index}/filename", attachment.filename)
        refuse_controls(f"/attachments/{index}/contentId", attachment.content_id or None)


def _check_attachments(attachments: tuple[GivenAttachment, ...]) -> None:
    for index, attachment in enumerate(attachments):
        try:
            parse_media_type(attachment.mime_type)
        except ValueError as error:
            reason = "This is no media type of a file, such as image/png or text/plain; charset=utf-8."
            raise Invalid.at(f"/attachments/{index}/mimeType", reason) from error
        if attachment.content_id is not UNSET and not _CONTENT_ID.fullmatch(_bare(attachment.content_id)):
            reason = "A content id is up to 250 ASCII characters, such as logo@example.org, without spaces."
            raise Invalid.at(f"/attachments/{index}/contentId", reason)
    require_files(len(attachment.content) for attachment in attachments)


def _bare(content_id: str) -> str:
    """A content id as `cid:` and lists have it; in a header field it stands in brackets (RFC 2392), which some give."""
    return content_id[1:-1] if content_id.startswith("<") and content_id.endswith(">") else content_id
