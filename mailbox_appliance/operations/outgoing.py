"""From a request to a message that can be composed: sender, recipients, reply headers and files, all checked."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Literal, TypedDict

from msgspec import UNSET, Meta, UnsetType, field

from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import Detail, Invalid, MessageTooLarge
from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import compose, new_message_id
from mailbox_appliance.mail.part_writing import media_type
from mailbox_appliance.mail.threads import message_ids, reply_references, reply_subject
from mailbox_appliance.operations.texts import Email, refuse_controls
from mailbox_appliance.records import (
    Account,
    Address,
    Composed,
    Input,
    Message,
    Outgoing,
    OutgoingAttachment,
    Timestamp,
)
from mailbox_appliance.store.store import Store

MIB = 1024 * 1024
MOST_ATTACHMENTS = 100
MOST_ATTACHED = 25 * MIB
MOST_RECIPIENTS = 500
FARTHEST_AHEAD = timedelta(days=366)

_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")
_DATE_TIME = re.compile(  # RFC 3339 5.6
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE
)
Text = Annotated[str, Meta(min_length=1)]


class GivenAddress(Input, frozen=True, kw_only=True):
    """A mail address with an optional display name."""

    email: Email
    name: Annotated[str, Meta(min_length=1, max_length=1000)] | UnsetType = UNSET


class GivenBody(Input, frozen=True, kw_only=True):
    """The body, as text, HTML or both. Line breaks of the text appear in the sent email."""

    text: str | UnsetType = UNSET
    html: str | UnsetType = UNSET


class GivenAttachment(Input, frozen=True, kw_only=True):
    """A file to send; `content` is base64."""

    filename: Annotated[str, Meta(min_length=1, max_length=1000)]
    mime_type: Annotated[str, Meta(min_length=1, max_length=1000)]
    content: bytes
    content_id: Text | UnsetType = UNSET
    disposition: Literal["inline", "attachment"] | UnsetType = UNSET


class SavedDraft(Input, frozen=True, kw_only=True):
    """A draft that is saved already."""

    draft_id: Text
    send_at: Timestamp | None = None


class DraftMessage(Input, frozen=True, kw_only=True):
    """A message to be kept as a draft; it may lack recipients and text."""

    body: GivenBody
    from_: Email | UnsetType = field(name="from", default=UNSET)
    to: tuple[GivenAddress, ...] | UnsetType = UNSET
    cc: tuple[GivenAddress, ...] | UnsetType = UNSET
    bcc: tuple[GivenAddress, ...] | UnsetType = UNSET
    subject: Annotated[str, Meta(max_length=5000)] | UnsetType = UNSET
    reply_to_message_id: Text | UnsetType = UNSET
    reply_all: bool = False
    attachments: tuple[GivenAttachment, ...] = ()


class InlineMessage(DraftMessage, frozen=True, kw_only=True):
    """A message given in the request."""

    send_at: Timestamp | None = None


class _ReplyFields(TypedDict, total=False):
    in_reply_to: str | None
    references: tuple[str, ...]


def resolve(store: Store, account: Account, message: InlineMessage) -> Outgoing:
    """The message as it goes out. Raises Invalid with the place of what cannot go, NotFound for an unknown parent."""
    outgoing = resolve_draft(store, account, message)
    if not (outgoing.to or outgoing.cc or outgoing.bcc):
        raise Invalid.at("/to", "A message needs at least one recipient in to, cc or bcc.")
    return outgoing


def resolve_draft(store: Store, account: Account, message: DraftMessage) -> Outgoing:
    """As `resolve`, for a message that need not go to anybody yet."""
    _check_count(sum(len(people or ()) for people in (message.to, message.cc, message.bcc)))
    _check_texts(message)
    _check_attachments(message.attachments)
    outgoing = _addressed(store, account, message)
    _check_count(len(outgoing.to) + len(outgoing.cc) + len(outgoing.bcc))
    return outgoing


def _check_count(recipients: int) -> None:
    if recipients > MOST_RECIPIENTS:
        raise Invalid.at("/to", f"A message goes to at most {MOST_RECIPIENTS} recipients.")


def composed(outgoing: Outgoing, now: datetime) -> Composed:
    """The message as it travels, with a new Message-ID. Raises Invalid for what no header field can hold."""
    try:
        return compose(outgoing, message_id=new_message_id(outgoing.sender.email), date=now)
    except ValueError as error:
        # What a client gives is checked before, with its place; this is left for what a mirrored message brings along.
        raise Invalid.at("", f"The message cannot be written: {error}.") from error


def check_send_at(text: str | None, now: datetime) -> None:
    """Raises Invalid where a time to send at is no RFC 3339 date-time, is past, or is more than 366 days ahead."""
    if text is None:
        return
    try:
        if not _DATE_TIME.fullmatch(text):
            raise ValueError("not as RFC 3339 writes it")
        moment = from_timestamp(text)
    except ValueError as error:
        raise Invalid.at("/sendAt", "This is no date-time, such as 2030-01-31T09:00:00Z.") from error
    if not now < moment <= now + FARTHEST_AHEAD:
        raise Invalid.at("/sendAt", f"This must be in the future, at most {FARTHEST_AHEAD.days} days ahead.")


def _addressed(store: Store, account: Account, message: DraftMessage) -> Outgoing:
    if message.from_ is not UNSET and not same_mailbox(message.from_, account.email):
        raise Invalid.at("/from", "This address is not one of the mailbox's own.")
    sender = Address(email=account.email, name=account.display_name or UNSET)
    given: dict[str, tuple[Address, ...] | None] = {
        name: _given(name, getattr(message, name)) for name in ("to", "cc", "bcc")
    }
    subject = message.subject or ""
    threading: _ReplyFields = {}
    if message.reply_to_message_id is not UNSET:
        parent, _ = store.messages.get(account.id, message.reply_to_message_id)
        headers = store.messages.reply_headers(account.id, message.reply_to_message_id)
        threading = _reply_fields(headers)
        to = given["to"]
        if to is None:
            to = given["to"] = _reply_to(account, parent, given["cc"] or (), everybody=message.reply_all)
        if given["cc"] is None and message.reply_all:
            given["cc"] = _usable(_others(parent.cc or (), (*_own(account), *to)))
        subject = message.subject if message.subject is not UNSET else reply_subject(parent.subject)
    elif message.reply_all:
        raise Invalid.at("/replyToMessageId", "replyAll needs replyToMessageId.")
    return Outgoing(
        sender=sender,
        to=given.get("to") or (),
        cc=given.get("cc") or (),
        bcc=given.get("bcc") or (),
        subject=subject,
        text=message.body.text if message.body.text is not UNSET else None,
        html=message.body.html if message.body.html is not UNSET else None,
        attachments=tuple(map(_attachment, message.attachments)),
        **threading,
    )


def _given(name: str, addresses: tuple[GivenAddress, ...] | UnsetType) -> tuple[Address, ...] | None:
    """The addresses of a list that was given; None where it was not. Raises Invalid for one that cannot be sent to."""
    if addresses is UNSET:
        return None
    for index, address in enumerate(addresses):
        try:
            to_envelope_address(address.email)
        except ValueError as error:
            raise Invalid.at(f"/{name}/{index}/email", f"This address cannot be sent to: {error}.") from error
    return tuple(Address(email=address.email, name=address.name) for address in addresses)


def _reply_fields(headers: Mapping[str, str]) -> _ReplyFields:
    """In-Reply-To and References of a reply (RFC 5322 3.6.4)."""
    own, references, in_reply_to = (
        message_ids(headers.get(n, "")) for n in ("message-id", "references", "in-reply-to")
    )
    parent = own[0] if own else None
    return {"in_reply_to": parent, "references": reply_references(parent, references, in_reply_to)}


def _reply_to(account: Account, parent: Message, copied: Iterable[Address], *, everybody: bool) -> tuple[Address, ...]:
    """To of a reply: Reply-To, else From (RFC 5322 3.6.2), and for everybody also its To, without ourselves.

    A reply to what we sent ourselves goes to those we sent it to. Nobody stands here who is named in the given Cc.
    Raises Invalid where one it goes to in the first place has an address that is not written; further ones with such
    an address (here and in Cc) are left out, as nobody could write to them.
    """
    writers = parent.reply_to or ((parent.from_,) if parent.from_ is not UNSET else ())
    if all(same_mailbox(writer.email, account.email) for writer in writers):
        writers = parent.to
    first = _others(writers, copied)
    for address in first:
        if not _is_usable(address):
            reason = f"{address.email} cannot be written to; give `to` yourself."
            raise Invalid.at("/replyToMessageId", reason)
    if not everybody:
        return first
    return _usable(_others((*writers, *parent.to), (*_own(account), *copied))) or first


def _own(account: Account) -> tuple[Address, ...]:
    return (Address(email=account.email),)


def _others(people: Iterable[Address], named: Iterable[Address]) -> tuple[Address, ...]:
    """Everybody once, without those named already."""
    known = [address.email for address in named]
    found: list[Address] = []
    for person in people:
        if not any(same_mailbox(person.email, email) for email in known):
            known.append(person.email)
            found.append(person)
    return tuple(found)


def _usable(people: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(filter(_is_usable, people))


def _is_usable(address: Address) -> bool:
    """Whether the address can be written; mail comes with others too, such as `a@[192.0.2.1]` or `a@-b.example`."""
    try:
        to_envelope_address(address.email)
    except ValueError:
        return False
    return True


def _attachment(given: GivenAttachment) -> OutgoingAttachment:
    content_id = given.content_id if given.content_id is not UNSET else None
    inline = given.disposition == "inline" or (given.disposition is UNSET and content_id is not None)
    return OutgoingAttachment(given.filename, given.mime_type, given.content, content_id, inline)


def _check_texts(message: DraftMessage) -> None:
    refuse_controls("/subject", message.subject or None)
    for name in ("to", "cc", "bcc"):
        for index, address in enumerate(getattr(message, name) or ()):
            refuse_controls(f"/{name}/{index}/name", address.name or None)
    for index, attachment in enumerate(message.attachments):
        refuse_controls(f"/attachments/{index}/filename", attachment.filename)
        refuse_controls(f"/attachments/{index}/contentId", attachment.content_id or None)


def _check_attachments(attachments: tuple[GivenAttachment, ...]) -> None:
    if len(attachments) > MOST_ATTACHMENTS:
        raise Invalid.at("/attachments", f"A message has at most {MOST_ATTACHMENTS} attachments.")
    for index, attachment in enumerate(attachments):
        try:
            media_type(attachment.mime_type)
        except ValueError as error:
            reason = "This is no media type of a file, such as image/png or text/plain; charset=utf-8."
            raise Invalid.at(f"/attachments/{index}/mimeType", reason) from error
        if attachment.content_id is not UNSET and not _CONTENT_ID.fullmatch(attachment.content_id):
            raise Invalid.at(f"/attachments/{index}/contentId", "A content id is ASCII without spaces and brackets.")
    if sum(len(attachment.content) for attachment in attachments) > MOST_ATTACHED:
        raise MessageTooLarge(
            what="The attachments together",
            limit=f"{MOST_ATTACHED // MIB} MiB",
            details=(Detail("/attachments", "Send fewer or smaller files."),),
        )
