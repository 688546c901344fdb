"""Preview of a message before it is sent, read from the exact bytes that would be sent, and its digest."""

import hashlib
import re
from collections.abc import Iterable, Iterator

from mailbox_appliance.mail.address import is_writable, to_envelope_address
from mailbox_appliance.mail.compose import boundary_seed, with_bcc
from mailbox_appliance.mail.headers import fields_of
from mailbox_appliance.mail.mime import MimePart, parse_structure
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import (
    Address,
    ComposedMessage,
    MessageSummary,
    ParsedMessage,
    PreviewedAttachment,
    SendPreview,
)


def preview_of(account_id: str, message: ComposedMessage, digest: str) -> SendPreview:
    """Return the preview of a composed message: recipients, subject, attachments and lengths of its bodies.

    Domains are in ASCII form (A-labels) as in SMTP. The length of the plain text is that of the text to be sent, even
    if it was made from the HTML.
    """
    read = parse_content(with_bcc(message.wire, message.bcc_header))
    return SendPreview(
        account_id=account_id,
        from_=read.sender.email if read.sender else message.envelope.sender,
        to=read.to,
        cc=read.cc,
        bcc=read.bcc,
        subject=read.subject,
        attachments=_files(read),
        body_text_chars=len(read.text or ""),
        body_html_chars=len(read.html or ""),
        preview_digest=digest,
    )


def summarize(message: ComposedMessage) -> MessageSummary:
    """Return sender, recipients, subject and files of a composed message.

    Every envelope recipient is among the recipients.
    """
    read = parse_content(message.wire)
    named = {to_envelope_address(each.email) for each in (*read.to, *read.cc) if is_writable(each.email)}
    unnamed = tuple(Address(email=each) for each in message.envelope.recipients if each not in named)
    return MessageSummary(
        from_=read.sender or Address(email=message.envelope.sender),
        to=read.to,
        cc=read.cc,
        bcc=unnamed,
        subject=read.subject,
        attachments=_files(read),
    )


def _files(read: ParsedMessage) -> tuple[PreviewedAttachment, ...]:
    return tuple(
        PreviewedAttachment(filename=each.filename, mime_type=each.mime_type, size_bytes=each.size_bytes)
        for each in read.attachments
    )


# --- The digest of a preview: equal for two messages if recipients see and receive the same ---
#
# Date, Message-ID and boundaries differ each time a message is composed, and are left out. Each item is hashed with its
# length, so that no text can pass for another item.


_NEW_EACH_TIME = frozenset({"date", "message-id"})
_BOUNDARY = re.compile(rb"""(?<![\w-])boundary[ \t]*=[ \t]*(?:"[^"]*"|[^\s;"]+)""", re.I)


def digest_of(message: ComposedMessage, *, is_saved_draft: bool) -> str:
    """Return the SHA-256 (hex) of the sender, all recipients and everything that they see or receive.

    `is_saved_draft`: a mail program wrote the boundaries. Otherwise they are those of `compose`, and the message is not
    read into memory.
    """
    digest, envelope = hashlib.sha256(), message.envelope
    parties = (envelope.sender, *envelope.recipients)
    for item in (b"\n".join(each.encode() for each in parties), message.bcc_header):
        digest.update(b"%d:%b" % (len(item), item))
    if is_saved_draft:
        for item in _items_of(parse_structure(message.wire.read())[0]):
            digest.update(b"%d:%b" % (len(item), item))
        return digest.hexdigest()
    head, body = message.wire.split_header()
    fields = Content(b"".join(raw for name, raw, _ in fields_of(head) if name not in _NEW_EACH_TIME))
    for piece in _without(boundary_seed(message.message_id).encode(), Content(fields, body).pieces()):
        digest.update(piece)
    return digest.hexdigest()


def _without(seed: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces without this text, also where two pieces meet in it."""
    held = b""
    for piece in pieces:
        held = (held + piece).replace(seed, b"")
        yield held[: 1 - len(seed)]
        held = held[1 - len(seed) :]
    yield held


def _items_of(part: MimePart) -> Iterator[bytes]:
    """Yield the header fields and the body of a part, or of each of its parts, without Date, Message-ID and boundaries
    where they separate parts. The same text elsewhere is kept.
    """
    left_out = frozenset() if part.number else _NEW_EACH_TIME
    for name, raw, _ in fields_of(part.source[part.begin : part.start]):
        if name not in left_out:
            yield _BOUNDARY.sub(b"", raw) if part.children and name == "content-type" else raw
    yield b"%d" % len(part.children)
    delimiter, position = b"--" + part.parameters.get("boundary", "").encode(), part.start
    for child in part.children:
        before, _, after = part.source[position : child.begin].rpartition(delimiter)
        yield from (before, after)
        yield from _items_of(child)
        position = child.end
    before, _, after = part.source[position : part.end].partition(delimiter)
    yield from (before, after)
