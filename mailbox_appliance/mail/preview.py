"""Preview of a message before it is sent, read from the exact bytes that would be sent."""

from mailbox_appliance.mail.address import is_writable, to_envelope_address
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.model.messages import (
    Address,
    ComposedMessage,
    MessageSummary,
    ParsedMessage,
    PreviewedAttachment,
    SendPreview,
)


def preview_of(account_id: str, message: ComposedMessage) -> SendPreview:
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
