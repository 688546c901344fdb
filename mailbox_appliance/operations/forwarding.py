"""Forwarding: the original is fetched whole, quoted below a comment, and its files go along."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, MessageTooLarge
from mailbox_appliance.mail.forward import ForwardedMessage, decode_parts, forward_message
from mailbox_appliance.mail.html.analysis import UNANALYZED_OUTGOING, HtmlReader
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mailbox.attachments import MAX_PARSED_BYTES
from mailbox_appliance.model.records import Account, OutgoingMessage
from mailbox_appliance.operations.given import Forward
from mailbox_appliance.operations.operation import MIB
from mailbox_appliance.operations.outgoing import composed, people, require_files, require_lists, sender_of
from mailbox_appliance.operations.prepared import Prepared
from mailbox_appliance.operations.sources import read_source
from mailbox_appliance.operations.turns import deciding

_FILES, _WITHOUT = (
    "/includeAttachments",
    "Set includeAttachments to false, and send fewer or smaller files by themselves.",
)


@contextmanager
def forwarding(
    appliance: Appliance, account: Account, message_id: str, request: Forward, key: Hashable
) -> Iterator[Prepared]:
    """The forward, ready; while this lasts nobody decides about another request with this key.

    Raises Invalid with the place of what cannot go, NotFound, BeingDecided, and what stands for a server's fault.
    """
    sender = sender_of(appliance.store, account, request.from_)
    to, cc = people("to", request.to) or (), people("cc", request.cc) or ()
    require_lists({"to": to, "cc": cc})
    with deciding(appliance, key):
        yield _around(appliance, account, message_id, request, OutgoingMessage(sender=sender, to=to, cc=cc))


def _around(
    appliance: Appliance, account: Account, message_id: str, request: Forward, empty: OutgoingMessage
) -> Prepared:
    """The original, quoted in the message that is empty as yet."""
    source = _original(appliance, account, message_id)
    reader = appliance.html_readers.for_request()
    quoted = _quoted(source, request, reader)
    files = decode_parts(source, quoted.parts)
    require_files((len(file.content) for file in files), _FILES, _WITHOUT)
    outgoing = replace(empty, subject=quoted.subject, text=quoted.text, html=quoted.html, attachments=files)
    return Prepared(
        message=composed(outgoing, appliance.clock.now()),
        to=empty.to,
        subject=quoted.subject,
        kind="forward",
        parent_id=message_id,
        warnings=(UNANALYZED_OUTGOING,) if reader.has_failed else (),
    )


def _quoted(source: bytes, request: Forward, reader: HtmlReader) -> ForwardedMessage:
    original = parse_message(source, reader)
    return forward_message(
        original, request.comment or None, with_attachments=request.include_attachments, reader=reader
    )


def _original(appliance: Appliance, account: Account, message_id: str) -> bytes:
    if appliance.attachment_fetcher.request_source(account.id, message_id).size > MAX_PARSED_BYTES:
        details = (Detail("path:messageId", "Use another mail program for it."),)
        raise MessageTooLarge(what="The original", limit=f"{MAX_PARSED_BYTES // MIB} MiB", details=details)
    return read_source(appliance, account, message_id)
