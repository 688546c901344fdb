"""What a request gives of a message: the bodies of send, preview, forward and drafts, as clients write them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import Input
from mailbox_appliance.operations.texts import Email

Text = Annotated[str, Meta(min_length=1)]
SendAt = Annotated[
    str,
    Meta(
        description="When to send it, RFC 3339, at most 366 days ahead; kept to the millisecond. Left out: now.",
        extra_json_schema={"format": "date-time"},
    ),
]
From = Annotated[Email, Meta(description="The mailbox's own address, which is also taken where this is left out.")]


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
    content: Annotated[Content, Meta(extra_json_schema={"type": "string", "contentEncoding": "base64"})]
    content_id: (
        Annotated[
            Text, Meta(description="By which the HTML shows it: `cid:ID`; brackets around it (`<ID>`) are taken off.")
        ]
        | UnsetType
    ) = UNSET
    disposition: Literal["inline", "attachment"] | UnsetType = UNSET


class SavedDraft(Input, frozen=True, kw_only=True):
    """A draft that is saved already; it is removed once it has been sent."""

    draft_id: Text
    send_at: SendAt | UnsetType = UNSET


class DraftMessage(Input, frozen=True, kw_only=True):
    """A message to be kept as a draft; it may lack recipients and text."""

    body: GivenBody
    from_: From | UnsetType = field(name="from", default=UNSET)
    to: tuple[GivenAddress, ...] | UnsetType = UNSET
    cc: tuple[GivenAddress, ...] | UnsetType = UNSET
    bcc: tuple[GivenAddress, ...] | UnsetType = UNSET
    subject: Annotated[str, Meta(max_length=5000)] | UnsetType = UNSET
    reply_to_message_id: (
        Annotated[
            Text,
            Meta(
                description="The message that this answers. It gives the subject and the recipients that are not given:"
                " `to` is its Reply-To, else its From."
            ),
        ]
        | UnsetType
    ) = UNSET
    reply_all: Annotated[
        bool, Meta(description="Answer everybody: fills `to` and `cc` where they are not given, without ourselves.")
    ] = False
    attachments: tuple[GivenAttachment, ...] = ()


class InlineMessage(DraftMessage, frozen=True, kw_only=True):
    """A message given in the request. It needs a recipient, and a text, an HTML or an attachment."""

    send_at: SendAt | UnsetType = UNSET


class Forward(Input, frozen=True, kw_only=True):
    """To whom a message is forwarded, and with what words above it."""

    to: Annotated[tuple[GivenAddress, ...], Meta(min_length=1)]
    from_: From | UnsetType = field(name="from", default=UNSET)
    cc: tuple[GivenAddress, ...] | UnsetType = UNSET
    comment: Annotated[str, Meta(description="Text placed above the forwarded message.")] | UnsetType = UNSET
    include_attachments: Annotated[
        bool, Meta(description="Without, only the pictures go along that the quoted HTML shows.")
    ] = True
