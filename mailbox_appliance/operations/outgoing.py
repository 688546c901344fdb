"""From a request to a message that can be composed: sender, recipients, reply headers and files, all checked."""

import re
from collections.abc import Iterable
from datetime import datetime

from msgspec import UNSET, UnsetType

from mailbox_appliance.errors import Detail, Invalid, MessageTooLarge
from mailbox_appliance.mail import replies
from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import compose, is_empty, new_message_id
from mailbox_appliance.mail.part_writing import media_type
from mailbox_appliance.mail.replies import Recipients, Threading
from mailbox_appliance.mail.threads import reply_subject
from mailbox_appliance.operations.given import DraftMessage, GivenAddress, GivenAttachment, InlineMessage
from mailbox_appliance.operations.texts import refuse_controls
from mailbox_appliance.records import Account, Address, Composed, Outgoing, OutgoingAttachment
from mailbox_appliance.store.store import Store

MIB = 1024 * 1024
MOST_ATTACHMENTS = 100
MOST_ATTACHED = 25 * MIB
MOST_RECIPIENTS = 500

_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")


def resolve(store: Store, account: Account, message: InlineMessage) -> Outgoing:
    """The message as it goes out. Raises Invalid with the place of what cannot go, NotFound for an unknown parent."""
    outgoing = resolve_draft(store, account, message)
    if not (outgoing.to or outgoing.cc or outgoing.bcc):
        raise Invalid.at("/to", "A message needs at least one recipient in to, cc or bcc.")
    if is_empty(outgoing.text, outgoing.html, len(outgoing.attachments)):
        raise Invalid.at("/body", "The message is empty: give it a text, an HTML or an attachment.")
    return outgoing


def resolve_draft(store: Store, account: Account, message: DraftMessage) -> Outgoing:
    """As `resolve`, for a message that need not go to anybody yet."""
    require_count(sum(len(people or ()) for people in (message.to, message.cc, message.bcc)))
    _check_texts(message)
    _check_attachments(message.attachments)
    outgoing = _addressed(store, account, message)
    require_count(len(outgoing.to) + len(outgoing.cc) + len(outgoing.bcc))
    return outgoing


def require_count(recipients: int, path: str = "/to") -> None:
    """Raises Invalid where a message would go to too many."""
    if recipients > MOST_RECIPIENTS:
        raise Invalid.at(path, f"A message goes to at most {MOST_RECIPIENTS} recipients.")


def require_files(sizes: Iterable[int], path: str = "/attachments") -> None:
    """Raises Invalid where a message would have too many files, or too large ones."""
    found = list(sizes)
    if len(found) > MOST_ATTACHMENTS:
        raise Invalid.at(path, f"A message has at most {MOST_ATTACHMENTS} attachments.")
    if sum(found) > MOST_ATTACHED:
        raise MessageTooLarge(
            what="The attachments together",
            limit=f"{MOST_ATTACHED // MIB} MiB",
            details=(Detail(path, "Send fewer or smaller files."),),
        )


def composed(outgoing: Outgoing, date: datetime) -> Composed:
    """The message as it travels, with a new Message-ID. Raises Invalid for what no header field can hold."""
    try:
        return compose(outgoing, message_id=new_message_id(outgoing.sender.email), date=date)
    except ValueError as error:
        # What a client gives is checked before, with its place; this is left for what a mirrored message brings along.
        raise Invalid.at("", f"The message cannot be written: {error}.") from error


def sender_of(account: Account, given: str | UnsetType = UNSET) -> Address:
    """Who a message is from. Raises Invalid where the given address is not one of the mailbox's own."""
    if given is not UNSET and not same_mailbox(given, account.email):
        raise Invalid.at("/from", "This address is not one of the mailbox's own.")
    return Address(email=account.email, name=account.display_name or UNSET)


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


def _addressed(store: Store, account: Account, message: DraftMessage) -> Outgoing:
    sender = sender_of(account, message.from_)
    to, cc, bcc = (people(name, getattr(message, name)) for name in ("to", "cc", "bcc"))
    found, threading, subject = Recipients(to or (), cc or ()), Threading(), message.subject or ""
    if message.reply_to_message_id is not UNSET:
        parent, _ = store.messages.get(account.id, message.reply_to_message_id)
        headers = store.messages.reply_headers(account.id, message.reply_to_message_id)
        threading = replies.threading(headers)
        try:
            found = replies.recipients(parent, headers, (account.email,), to=to, cc=cc, everybody=message.reply_all)
        except ValueError as error:
            raise Invalid.at("/replyToMessageId", str(error)) from error
        subject = message.subject if message.subject is not UNSET else reply_subject(parent.subject)
    elif message.reply_all:
        raise Invalid.at("/replyToMessageId", "replyAll needs replyToMessageId.")
    return Outgoing(
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


def _attachment(given: GivenAttachment) -> OutgoingAttachment:
    content_id = given.content_id if given.content_id is not UNSET else None
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
            media_type(attachment.mime_type)
        except ValueError as error:
            reason = "This is no media type of a file, such as image/png or text/plain; charset=utf-8."
            raise Invalid.at(f"/attachments/{index}/mimeType", reason) from error
        if attachment.content_id is not UNSET and not _CONTENT_ID.fullmatch(attachment.content_id):
            raise Invalid.at(f"/attachments/{index}/contentId", "A content id is ASCII without spaces and brackets.")
    require_files(len(attachment.content) for attachment in attachments)
