"""What is in a message: its body page by page, its attachments, its source. From the store; fetched where missing."""

from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import SyncRequired, Throttled, Unavailable, Unsupported
from mailbox_appliance.mailbox.attachments import PartRequest
from mailbox_appliance.model.records import Account, BodyFormat, BodyPart, Capability, Download, OperationResult
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.readable import in_form

BodyOffset = Annotated[int, Meta(ge=0, le=1 << 31, description="Where to begin: `nextOffset` of the page before.")]
BodyLimit = Annotated[int, Meta(ge=1, le=1_000_000, description="How many characters a page holds at most.")]
Form = Annotated[BodyFormat, Meta(description="The form that the body is wanted in.")]
VisibleOnly = Annotated[
    bool,
    Meta(
        description="Leave out of `html` what is not seen, scripts, styles and what else a text may be hidden in."
        " Of `text` and `markdown` it is always left out."
    ),
]
_NOT_YET = "The body of this message is not here yet, and the mail server cannot be asked now. Try again later."


@operation(needs=Capability.MAIL_READ)
def get_source(appliance: Appliance, caller: Caller, account: Account, message_id: str) -> Download:  # noqa: ARG001
    """The message as it came, byte for byte (RFC 5322)."""
    return _file(appliance, appliance.attachment_fetcher.request_source(account.id, message_id))


@operation(needs=Capability.MAIL_READ)
def get_attachment(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    message_id: str,
    attachment_id: str,
) -> Download:
    """An attachment, decoded.

    Its type and name are the sender's word. It comes as a file to be saved, whatever it is, and a browser runs nothing
    that is in it.
    """
    return _file(appliance, appliance.attachment_fetcher.request_attachment(account.id, message_id, attachment_id))


@operation(needs=Capability.MAIL_READ)
def get_body(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    message_id: str,
    format_: Form = "text",
    offset: BodyOffset = 0,
    limit: BodyLimit = 20_000,
    visible_only: VisibleOnly = False,
) -> OperationResult[BodyPart]:
    """The body of a message, page by page; offsets are characters.

    Without a text, `text` is made from the HTML, and without HTML, `html` from the text; `markdown` is made from the
    HTML where there is any, else it is the text. Text and Markdown have no hidden text and no invisible characters, no
    scripts, and nothing that is loaded from elsewhere; a warning tells how much was left out. Text whose
    style cannot be judged is kept, and a warning names that style. Another one tells where `text` says other things
    than the HTML, which is what mail programs show. HTML that takes too long to analyze is
    replaced by the plain text, or by the text of its tags; a warning says that hidden text may be in it. `html` is
    what the sender wrote, as it is: never show it outside a sandbox.
    """
    stored = appliance.store.messages.get_body(account.id, message_id)
    warnings: tuple[str, ...] = ()
    if not stored.is_there:
        warnings = fill(appliance, account, message_id)
        stored = appliance.store.messages.get_body(account.id, message_id)
    content, told = in_form(stored, format_, appliance.html_readers, visible_only=visible_only)
    return OperationResult(page_of(content, format_, offset, limit), warnings + told)


def fill(appliance: Appliance, account: Account, message_id: str) -> tuple[str, ...]:
    """Have the body of a message fetched, of which only the header is here; warnings where that cannot be done now."""
    with appliance.io_slot() as has_place:
        if has_place:
            try:
                appliance.body_fetcher.ensure_body(account.id, message_id)
                return ()
            except (SyncRequired, Throttled, Unavailable, Unsupported):
                pass  # what is here is better than nothing
    return (_NOT_YET,)


def page_of(content: str, form: BodyFormat, offset: int, limit: int) -> BodyPart:
    """Part of a body; empty beyond its end."""
    end = offset + limit
    return BodyPart(
        format=form,
        content=content[offset:end],
        offset=offset,
        next_offset=end if end < len(content) else None,
        total_chars=len(content),
    )


def _file(appliance: Appliance, wanted: PartRequest) -> Download:
    found = appliance.attachment_fetcher.find(wanted)
    if found is not None:
        return found
    with appliance.require_io_slot():
        return appliance.attachment_fetcher.fetch(wanted)
