"""Acts about what is to be sent: drafts and previews."""

from collections.abc import Mapping
from typing import Any

from mailbox_appliance.mcp_server import presenting
from mailbox_appliance.mcp_server.answers import parted, plain, without_headers
from mailbox_appliance.mcp_server.arguments import Form, Given
from mailbox_appliance.mcp_server.reading import LIST_OFFSET
from mailbox_appliance.mcp_server.tool import Asked, Shown
from mailbox_appliance.mcp_server.untrusted import MESSAGE, PREVIEW
from mailbox_appliance.operations import drafts, sending

NEW_DRAFT = Form(drafts.create_draft, "POST /accounts/{accountId}/drafts")
WHOLE_DRAFT = Form(drafts.update_draft, "PUT /accounts/{accountId}/drafts/{draftId}")
OLD_DRAFT = Form(drafts.delete_draft, "DELETE /accounts/{accountId}/drafts/{draftId}")
PREVIEWED = Form(sending.preview, "POST /accounts/{accountId}/send/preview", own_arguments=(LIST_OFFSET,))


def create_draft(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Keep a message as a draft."""
    return _draft(asked, NEW_DRAFT.read(arguments), "The draft is kept. Nothing was sent.")


def update_draft(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Replace a draft as a whole."""
    about = "The draft is replaced as a whole; what was not given is gone. Nothing was sent."
    return _draft(asked, WHOLE_DRAFT.read(arguments), about)


def delete_draft(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Remove a draft for good."""
    answer = OLD_DRAFT.read(arguments).call(asked)
    return presenting.shown(
        plain(answer.data), tool="delete_draft", about="The draft is gone.", warnings=answer.warnings
    )


def preview_send(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """What a send would hand over, and to whom."""
    given = PREVIEWED.read(arguments)
    answer = given.call(asked)
    ours, quoting = parted(answer.warnings)
    return presenting.shown(
        plain(answer.data),
        tool="preview_send",
        about="This is what a send of the same arguments would hand over. Nothing was sent or kept.",
        senders=PREVIEW,
        warnings=ours,
        quoting=quoting,
        list_offset=given.own_arguments["listOffset"],
    )


def _draft(asked: Asked, given: Given, about: str) -> Shown:
    answer = given.call(asked)
    data = without_headers(plain(answer.data))
    ours, quoting = parted(answer.warnings)
    # What is cut here is read on with get_draft.
    return presenting.shown(data, tool="get_draft", about=about, senders=MESSAGE, warnings=ours, quoting=quoting)
