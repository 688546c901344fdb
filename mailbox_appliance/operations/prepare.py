"""Prepares a message for sending: checks it, composes it, and locks its draft until it is accepted.

Sends and previews use the same checks. There are three kinds of messages:

- A message in the request is checked and composed. An error names the invalid field.
- A saved draft is read as a raw message and made ready to send. An error names `/draftId`.
- A forward is composed around the original message.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec import UNSET, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import BeingDecided, Detail, Invalid, MessageTooLarge, NotFound
from mailbox_appliance.mail import reply
from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import compose, has_text, new_message_id, parse_media_type, with_plain_text
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.forward import decode_parts, forward_message
from mailbox_appliance.mail.html.analysis import TAG_READER, UNANALYZED_OUTGOING, HtmlReader
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.preview import digest_of
from mailbox_appliance.mail.reply import ReplyRecipients, ReplyThreading
from mailbox_appliance.mail.threads import canonical_message_id, reply_subject
from mailbox_appliance.mailbox.attachments import MAX_PARSED_BYTES
from mailbox_appliance.mailbox.drafts import version_of
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.deliveries import DeliveryKind, Quota
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import (
    Address,
    ComposedMessage,
    Message,
    OutgoingAttachment,
    OutgoingMessage,
    ParsedMessage,
)
from mailbox_appliance.operations.contents import CompleteAttachment, complete_attachments, read_source
from mailbox_appliance.operations.message_input import (
    DraftRequest,
    ForwardEmailRequest,
    Recipient,
    SendDraftRequest,
    SendEmailRequest,
    read_send_at,
    refuse_control_characters,
)
from mailbox_appliance.operations.operation import MAIL_LIMIT, MIB, Caller
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

# --- Resolve and compose: sender, recipients, reply headers and files, all checked ---


MAX_ATTACHMENTS = 100
MAX_ATTACHMENT_BYTES = 25 * MIB
MAX_RECIPIENTS = 500

_CONTENT_ID = re.compile(r"[!-;=?-~]{1,250}")
#: Shown to the sender of a message that has a subject or files, but no text.
NO_TEXT_WARNING = own_text("The message has no text.")
_MAX_NAMED = 10
_FEWER_FILES_ADVICE = "Send fewer or smaller files."


@dataclass(frozen=True)
class ResolvedMessage:
    """A message with sender, recipients and subject filled in, ready to be composed, and warnings for its sender.

    `upload_ids`: the uploads that it contains.
    """

    outgoing: OutgoingMessage
    warnings: tuple[str, ...] = ()
    upload_ids: tuple[str, ...] = ()


def resolve_message(store: Store, caller: Caller, account: Account, message: SendEmailRequest) -> ResolvedMessage:
    """Check a message to send, and fill in its sender, recipients and subject.

    Raises Invalid with the invalid field, also for an empty message or one without recipients, and NotFound if the
    message to reply to or an upload does not exist.
    """
    resolved = resolve_draft(store, caller, account, message)
    outgoing = resolved.outgoing
    if not (outgoing.to or outgoing.cc or outgoing.bcc):
        raise Invalid.at("/to", "A message needs at least one recipient in to, cc or bcc.")
    if has_text(outgoing.text, outgoing.html):
        return resolved
    if not (outgoing.subject.strip() or outgoing.attachments):
        raise Invalid.at("/body", "The message is empty: give it a subject, a text or an attachment.")
    return replace(resolved, warnings=(*resolved.warnings, NO_TEXT_WARNING))


def resolve_draft(store: Store, caller: Caller, account: Account, message: DraftRequest) -> ResolvedMessage:
    """Check a message to save as a draft, which may lack recipients and text, and fill in its sender, recipients and
    subject.

    Raises Invalid with the invalid field, and NotFound if the message to reply to or an upload does not exist.
    """
    require_recipient_lists({"to": message.to or (), "cc": message.cc or (), "bcc": message.bcc or ()})
    refuse_control_characters("/subject", message.subject or None)
    files = complete_attachments(store, caller, message.attachments)
    _check_attachments(files)
    resolved = _resolve_recipients(store, account, message, files)
    filled = resolved.outgoing
    count = len(filled.to) + len(filled.cc) + len(filled.bcc)
    require_recipient_count(count, "/replyAll" if message.reply_all else "/replyToMessageId")
    return resolved


def require_recipient_lists(lists: Mapping[str, Sized]) -> None:
    """Raise Invalid if the lists have too many recipients together. The error names the list that exceeds the limit."""
    count = 0
    for name, addresses in lists.items():
        count += len(addresses)
        require_recipient_count(count, f"/{name}")


def require_recipient_count(recipients: int, path: str) -> None:
    """Raise Invalid if there are more recipients than allowed. `path`: the JSON pointer that the error names."""
    if recipients > MAX_RECIPIENTS:
        raise Invalid.at(path, f"A message can have at most {MAX_RECIPIENTS} recipients.")


def require_attachment_sizes(
    sizes: Iterable[int], path: str = "/attachments", advice: str = _FEWER_FILES_ADVICE
) -> None:
    """Raise Invalid if there are too many attachments, or if they are too large together.

    `sizes`: the bytes of each. `path`: the JSON pointer that the error names. `advice`: the next step, for the error.
    """
    found = list(sizes)
    if len(found) > MAX_ATTACHMENTS:
        raise Invalid.at(path, f"A message can have at most {MAX_ATTACHMENTS} attachments.")
    if sum(found) > MAX_ATTACHMENT_BYTES:
        raise MessageTooLarge(
            what="The size of all attachments together",
            limit=f"{MAX_ATTACHMENT_BYTES // MIB} MiB",
            details=(Detail(path, advice),),
        )


def compose_message(outgoing: OutgoingMessage, date: datetime, reader: HtmlReader = TAG_READER) -> ComposedMessage:
    """Return the message in Internet Message Format, with a new Message-ID. If it has only HTML, plain text is made
    from it.

    Raises Invalid if a header field cannot contain a value.
    """
    try:
        return compose(with_plain_text(outgoing, reader), message_id=new_message_id(outgoing.sender.email), date=date)
    except ValueError as error:
        # Values from clients were checked earlier, with their place; this catches those of a mirrored message.
        raise Invalid.at("", f"The message cannot be written: {error}.") from error


def get_sender(store: Store, account: Account, given: str | UnsetType = UNSET) -> Address:
    """Return the sender of a message. `given`: the address in the request; if omitted, the mailbox's own address is
    used.

    Raises Invalid if the mailbox cannot send as the given address.
    """
    for each in store.sender_addresses.list_of(account):
        if given is UNSET or same_mailbox(given, each.email):
            return Address(email=each.email, name=each.name or account.display_name or UNSET)
    raise Invalid.at("/from", "This address is not one of the mailbox's own.")


def read_addresses(name: str, addresses: tuple[Recipient, ...] | UnsetType) -> tuple[Address, ...] | None:
    """Return the addresses of a recipient list; None if the request omits it. `name`: the field of the list, such as
    `to`.

    Raises Invalid for an address that cannot receive mail.
    """
    if addresses is UNSET:
        return None
    for index, address in enumerate(addresses):
        refuse_control_characters(f"/{name}/{index}/name", address.name or None)
        try:
            to_envelope_address(address.email)
        except ValueError as error:
            raise Invalid.at(f"/{name}/{index}/email", f"Mail cannot be sent to this address: {error}.") from error
    return tuple(Address(email=address.email, name=address.name) for address in addresses)


def _resolve_recipients(
    store: Store, account: Account, message: DraftRequest, files: tuple[CompleteAttachment, ...]
) -> ResolvedMessage:
    sender = get_sender(store, account, message.from_)
    to, cc, bcc = (read_addresses(name, getattr(message, name)) for name in ("to", "cc", "bcc"))
    found, threading, subject = ReplyRecipients(to or (), cc or ()), ReplyThreading(), message.subject or ""
    if message.reply_to_message_id is not UNSET:
        parent = _get_parent(store, account, message.reply_to_message_id)
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
        attachments=tuple(map(_to_attachment, files)),
        in_reply_to=threading.in_reply_to,
        references=threading.references,
    )
    used = (one.given.upload_id for one in files)
    upload_ids = tuple(dict.fromkeys(upload_id for upload_id in used if upload_id is not UNSET))
    return ResolvedMessage(outgoing, _left_out_warnings(found), upload_ids)


def _get_parent(store: Store, account: Account, message_id: str) -> Message:
    try:
        parent, _ = store.messages.get(account.id, message_id)
    except NotFound as error:
        details = (Detail("/replyToMessageId", "This mailbox has no such message."),)
        raise NotFound(what="message", details=details) from error
    return parent


def _left_out_warnings(found: ReplyRecipients) -> tuple[str, ...]:
    """It is not marked as the appliance's own text: the sender of the original chose these addresses."""
    if not found.left_out:
        return ()
    more = len(found.left_out) - _MAX_NAMED
    names = ", ".join(found.left_out[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (f"This reply does not go to {names}: these addresses of the original are not usable.",)


def _to_attachment(file: CompleteAttachment) -> OutgoingAttachment:
    given = file.given
    content_id = _strip_brackets(given.content_id) if given.content_id is not UNSET else None
    inline = given.disposition == "inline" or (given.disposition is UNSET and content_id is not None)
    return OutgoingAttachment(file.filename, file.mime_type, file.content, content_id, inline)


def _check_attachments(files: tuple[CompleteAttachment, ...]) -> None:
    for index, file in enumerate(files):
        content_id = file.given.content_id
        refuse_control_characters(f"/attachments/{index}/filename", file.filename)
        refuse_control_characters(f"/attachments/{index}/contentId", content_id or None)
        try:
            parse_media_type(file.mime_type)
        except ValueError as error:
            reason = "This is not a valid media type, such as image/png or text/plain; charset=utf-8."
            raise Invalid.at(f"/attachments/{index}/mimeType", reason) from error
        if content_id is not UNSET and not _CONTENT_ID.fullmatch(_strip_brackets(content_id)):
            reason = "A content ID must be at most 250 ASCII characters without spaces, such as logo@example.org."
            raise Invalid.at(f"/attachments/{index}/contentId", reason)
    require_attachment_sizes(len(file.content) for file in files)


def _strip_brackets(content_id: str) -> str:
    """Return a content ID without enclosing `<` and `>` (RFC 2392), which some clients include."""
    return content_id[1:-1] if content_id.startswith("<") and content_id.endswith(">") else content_id


# --- Decision locks: one request at a time decides about a draft, or under an idempotency key ---
#
# the first request ..... holds the lock, and one of the few I/O slots
# the next one .......... waits for the lock for some seconds, also with a slot
# all others ............ get 409 at once, so that one draft never blocks other work


_DECISION_PATIENCE = 10.0


@contextmanager
def decision_lock(appliance: Appliance, *about: Hashable) -> Iterator[None]:
    """Context manager: allow only one request at a time to use a draft or an idempotency key, until the block ends.

    `about`: what to lock, such as a draft's ID, or an idempotency key with its credential. The request also takes a
    slot for requests that wait for other servers. If another request holds a lock, this waits some seconds for it.

    Raises BeingDecided if the lock is not free after that, or if no slot is free to wait in. Raises ServersBusy if the
    locks are free but no slot is.
    """
    with ExitStack() as held:
        has_place = False
        for each in about:
            if _acquire(held, appliance, each, 0):
                continue
            # Without a slot the outcome is unknown: the response must not claim anything, not even "not sent".
            has_place = has_place or held.enter_context(appliance.io_slot())
            if not (has_place and _acquire(held, appliance, each, _DECISION_PATIENCE)):
                raise BeingDecided
        if not has_place:
            held.enter_context(appliance.require_io_slot())
        yield


def _acquire(held: ExitStack, appliance: Appliance, about: Hashable, seconds: float) -> bool:
    """Return whether the lock was acquired in time; closing `held` releases it."""
    with ExitStack() as tried:
        is_mine = tried.enter_context(appliance.drafts.decision_locks.try_lock(about, seconds))
        if is_mine:
            held.push(tried.pop_all())
    return is_mine


# --- A message with everything about it fixed: inline, or a saved draft ---


_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class PreparedMessage:
    """A complete message that can be accepted for sending.

    `draft_id`, `draft_version`: the saved draft that it was made from, and its version. `parent_id`: the message that
    it replies to or forwards. `warnings`: warnings for its sender. `pointers`: the place in the request of each
    envelope recipient, for errors. `upload_ids`: the uploads that it contains.
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
    upload_ids: tuple[str, ...] = ()
    pointers: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Return the digest of what recipients would see and receive: the same for a preview and for its send."""
        return digest_of(self.message, is_saved_draft=self.draft_id is not None)


@contextmanager
def prepare_message(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message: SendDraftRequest | SendEmailRequest,
    *request: Hashable,
) -> Iterator[PreparedMessage]:
    """Context manager: yield a message that is ready to be sent. Until the block ends, no other request can change or
    send its saved draft, if it has one.

    `request`: values that identify the request and its retries; with a draft, they are locked too. Raises Invalid with
    the invalid field, and NotFound if the message to reply to does not exist. For a draft it also raises DraftInUse,
    BeingDecided (another request with this draft or key is being processed), and errors of its mail server.
    """
    now = appliance.clock.now()
    send_at = read_send_at(message.send_at, now)
    if isinstance(message, SendEmailRequest):
        yield _prepare_inline(appliance, caller, account, message, send_at, now)
        return
    with decision_lock(appliance, *request, message.draft_id):
        yield _prepare_draft(appliance, caller, account, message.draft_id, send_at, now)


def sending_quotas(settings: Settings) -> tuple[Quota, ...]:
    """Return the configured limits on the number of sent messages; empty if none is set."""
    rows = (
        Quota("credential", settings.number("sending.credential_per_hour"), _HOUR),
        Quota("credential", settings.number("sending.credential_per_day"), _DAY),
        Quota("account", settings.number("sending.account_per_hour"), _HOUR),
        Quota("account", settings.number("sending.account_per_day"), _DAY),
    )
    return tuple(quota for quota in rows if quota.most)


def _prepare_inline(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    message: SendEmailRequest,
    send_at: datetime | None,
    now: datetime,
) -> PreparedMessage:
    store = appliance.store
    if message.reply_to_message_id is not UNSET:
        appliance.sender.unshown.show()
    resolved = resolve_message(store, caller, account, message)
    outgoing, reader = resolved.outgoing, appliance.html_readers.for_request()
    return PreparedMessage(
        message=compose_message(outgoing, send_at or now, reader),
        to=outgoing.to,
        subject=outgoing.subject,
        kind="send" if send_at is None else "scheduled",
        thread_id=find_thread(store, account, outgoing),
        parent_id=message.reply_to_message_id or None,
        send_at=send_at,
        warnings=resolved.warnings + ((UNANALYZED_OUTGOING,) if reader.has_failed else ()),
        pointers=_pointers(outgoing, message, "/replyToMessageId"),
        upload_ids=resolved.upload_ids,
    )


def _pointers(outgoing: OutgoingMessage, request: object, other: str) -> dict[str, str]:
    """Return the place in the request of each recipient, by its envelope address. `other`: that of the others."""
    found = {to_envelope_address(each.email): other for each in (*outgoing.to, *outgoing.cc, *outgoing.bcc)}
    for name in ("to", "cc", "bcc"):
        for index, each in enumerate(getattr(request, name, None) or ()):
            found[to_envelope_address(each.email)] = f"/{name}/{index}/email"
    return found


def _prepare_draft(
    appliance: Appliance, caller: Caller, account: Account, draft_id: str, send_at: datetime | None, now: datetime
) -> PreparedMessage:
    store = appliance.store
    appliance.sender.unshown.show()
    store.delivery_lists.require_free_draft(account.id, draft_id)
    source, version = _read_draft(appliance, caller, account, draft_id)
    try:
        own_id = new_message_id(account.email)
        sender = _draft_sender(store, account, source)
        message = to_sendable(source, sender, message_id=own_id, date=send_at or now)
    except ValueError as error:
        raise Invalid.at("/draftId", f"This draft cannot be sent: {str(error).removesuffix('.')}.") from error
    _require_size(len(message.wire))
    read = parse_content(message.wire)
    require_recipient_count(len(message.envelope.recipients), "/draftId")
    require_attachment_sizes((each.size_bytes for each in read.attachments), "/draftId")
    return PreparedMessage(
        message=message,
        to=read.to,
        subject=read.subject,
        kind="send" if send_at is None else "scheduled",
        thread_id=_find_thread_by_ids(store, account, (*read.references, *read.in_reply_to)),
        parent_id=_find_parent_id(store, account, read),
        send_at=send_at,
        draft_id=draft_id,
        draft_version=version,
        warnings=() if has_text(read.text, read.html) else (NO_TEXT_WARNING,),
        pointers=dict.fromkeys(message.envelope.recipients, "/draftId"),
    )


def _draft_sender(store: Store, account: Account, source: bytes) -> Address:
    """Return the From address of the draft if the mailbox can send as that, otherwise its own."""
    try:
        found = parse_message(source.partition(b"\r\n\r\n")[0] + b"\r\n\r\n").sender
        return get_sender(store, account, UNSET if found is None else found.email)
    except Invalid:  # an invalid one is reported with the draft's other faults
        return get_sender(store, account)


def _read_draft(appliance: Appliance, caller: Caller, account: Account, draft_id: str) -> tuple[bytes, str | None]:
    """Return the raw draft and its version, as they are on the mail server."""
    may_delete = Capability.MAIL_DELETE in caller.capabilities  # it is removed once it has been sent
    try:
        draft = appliance.drafts.locate(account.id, draft_id, may_delete=may_delete)
        _require_size(draft.size)
        # If another program changes it from now on, that is another version, which is not removed.
        return read_source(appliance, account, draft_id), version_of(draft)
    except NotFound as error:
        raise Invalid.at("/draftId", "This mailbox has no such draft.") from error


def _require_size(size: int) -> None:
    if size > MAIL_LIMIT:
        details = (Detail("/draftId", "Remove files from it, or make them smaller."),)
        raise MessageTooLarge(what="The draft", limit=f"{MAIL_LIMIT // MIB} MiB", details=details)


def find_thread(store: Store, account: Account, outgoing: OutgoingMessage) -> str | None:
    """Return the ID of the conversation that a new message belongs to, by the messages that it refers to; None if it
    starts one.
    """
    return _find_thread_by_ids(store, account, (*outgoing.references, outgoing.in_reply_to or ""))


def _find_thread_by_ids(store: Store, account: Account, ids: tuple[str, ...]) -> str | None:
    return store.messages.find_thread(account.id, filter(None, map(canonical_message_id, reversed(ids))))


def _find_parent_id(store: Store, account: Account, read: ParsedMessage) -> str | None:
    answered = canonical_message_id(read.in_reply_to[0]) if read.in_reply_to else None
    return None if answered is None else store.messages.find_by_message_id(account.id, answered)


# --- Forwards: the original is fetched whole and quoted below a comment, and its files are attached ---


_FILES, _WITHOUT = (
    "/includeAttachments",
    "Set includeAttachments to false, and send fewer or smaller files separately.",
)


@contextmanager
def prepare_forward(
    appliance: Appliance, account: Account, message_id: str, request: ForwardEmailRequest, *key: Hashable
) -> Iterator[PreparedMessage]:
    """Context manager: yield a forward that is ready to be sent. Until the block ends, no other request with the same
    key is processed.

    `key`: identifies the request and its retries; a preview has none. Raises Invalid with the invalid field, NotFound,
    BeingDecided (another request with this key is being processed), and errors of the mail server.
    """
    sender = get_sender(appliance.store, account, request.from_)
    to, cc = read_addresses("to", request.to) or (), read_addresses("cc", request.cc) or ()
    require_recipient_lists({"to": to, "cc": cc})
    with decision_lock(appliance, *key):
        yield _prepare_around(appliance, account, message_id, request, OutgoingMessage(sender=sender, to=to, cc=cc))


def _prepare_around(
    appliance: Appliance, account: Account, message_id: str, request: ForwardEmailRequest, empty: OutgoingMessage
) -> PreparedMessage:
    """`empty`: the message to fill, with sender and recipients only."""
    appliance.sender.unshown.show()
    source = _read_original(appliance, account, message_id)
    reader = appliance.html_readers.for_request()
    quoted = forward_message(
        parse_message(source, reader),
        request.comment or None,
        with_attachments=request.include_attachments,
        reader=reader,
    )
    files = decode_parts(source, quoted.parts)
    require_attachment_sizes((len(file.content) for file in files), _FILES, _WITHOUT)
    outgoing = replace(empty, subject=quoted.subject, text=quoted.text, html=quoted.html, attachments=files)
    return PreparedMessage(
        message=compose_message(outgoing, appliance.clock.now()),
        to=empty.to,
        subject=quoted.subject,
        kind="forward",
        parent_id=message_id,
        pointers=_pointers(empty, request, "/to"),
        warnings=(UNANALYZED_OUTGOING,) if reader.has_failed else (),
    )


def _read_original(appliance: Appliance, account: Account, message_id: str) -> bytes:
    if appliance.attachment_fetcher.request_source(account.id, message_id).size > MAX_PARSED_BYTES:
        details = (Detail("path:messageId", "Forward it with another mail client."),)
        raise MessageTooLarge(what="The original", limit=f"{MAX_PARSED_BYTES // MIB} MiB", details=details)
    return read_source(appliance, account, message_id)
