"""The input types of messages: their contents, the time to send at, and the rules for texts in headers."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from mailbox_appliance.clock import from_millis, from_timestamp, to_millis
from mailbox_appliance.errors import Invalid
from mailbox_appliance.mail.address import EMAIL_PATTERN, has_forbidden_characters
from mailbox_appliance.model.base import Input
from mailbox_appliance.model.content import Content
from mailbox_appliance.security import passwords

# --- The time to send at: RFC 3339, in the future, not too far ahead ---


MAX_SCHEDULE_AHEAD = timedelta(days=366)
_DATE_TIME = re.compile(  # RFC 3339 5.6
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE
)


def read_send_at(text: str | UnsetType, now: datetime) -> datetime | None:
    """Return the time at which to send a message, cut to milliseconds; None if the request has none.

    Raises Invalid if it is not an RFC 3339 date-time, is past, or is more than 366 days ahead.
    """
    if text is UNSET:
        return None
    try:
        if not _DATE_TIME.fullmatch(text):
            raise ValueError("not an RFC 3339 date-time")
        moment = from_millis(to_millis(from_timestamp(text)))
    except ValueError as error:
        raise Invalid.at("/sendAt", "This is not a valid date-time, such as 2030-01-31T09:00:00Z.") from error
    if not now < moment <= now + MAX_SCHEDULE_AHEAD:
        raise Invalid.at("/sendAt", f"This must be in the future, at most {MAX_SCHEDULE_AHEAD.days} days ahead.")
    return moment


# --- Texts that end up in a header or a protocol line: what they must and must not contain ---


#: `expected` is shown to people whose value does not match the pattern.
Email = Annotated[
    str,
    Meta(
        pattern=EMAIL_PATTERN,
        max_length=254,
        examples=["ada@example.org"],
        extra={"expected": "This is not a valid email address, such as ada@example.org."},
    ),
]
# Characters that change the direction of the text around them (Unicode TR 9), and invisible ones: white space, controls
# and what is ignored by default (TR 44). Astral characters are written literally: ECMA 262 has no escape for them that
# Python has as well.
_DIRECTION_CONTROLS = r"\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_READABLE = rf"^[^{_DIRECTION_CONTROLS}]*[^{_INVISIBLE}][^{_DIRECTION_CONTROLS}]*$"
_READABLE_EXPECTED = {"expected": "This must contain a visible character, and none that changes the text direction."}
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_READABLE, extra=_READABLE_EXPECTED)]
#: Of a member, a mailbox, a key.
Id = Annotated[str, Meta(min_length=1, max_length=200)]
DeviceName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=_READABLE,
        description="Name of the session, shown in lists.",
        extra=_READABLE_EXPECTED,
    ),
]
# Longer than any password may be, so that a wrong length is reported as such.
Password = Annotated[str, Meta(max_length=4096)]


def refuse_control_characters(path: str, text: str | None) -> None:
    """Raise Invalid if a text contains line breaks, NUL or other control characters, even in an encoded word (RFC
    2047).

    `path`: the JSON pointer of the text in the request.
    """
    if text and has_forbidden_characters(text):
        raise Invalid.at(path, "Line breaks and control characters are not allowed here.")


def refuse_weak_password(path: str, password: str, *, name: str = "", email: str = "") -> None:
    """Raise Invalid if a new password is too short or too long, or is the member's name or email (checked if given).

    `path`: the JSON pointer of the password in the request.
    """
    if reason := passwords.weakness(password, name=name, email=email):
        raise Invalid.at(path, reason)


# --- The messages that a request gives ---


NonEmptyText = Annotated[str, Meta(min_length=1)]
SendAt = Annotated[
    str,
    Meta(
        description="When to send it (RFC 3339), at most 366 days ahead, with millisecond precision. Default: now.",
        extra_json_schema={"format": "date-time"},
    ),
]
From = Annotated[
    Email, Meta(description="Sender address, one of the mailbox's sender addresses. Default: its own address.")
]


# The fields of these three are described in their types, since tools for AI agents show the docstrings whole.


class Recipient(Input, frozen=True, kw_only=True):
    """An email address with an optional display name."""

    email: Annotated[Email, Meta(description="Email address.")]
    name: Annotated[str, Meta(min_length=1, max_length=1000, description="Display name.")] | UnsetType = UNSET


class NewMessageBody(Input, frozen=True, kw_only=True):
    """The body, as plain text, HTML or both. Line breaks in the text are kept."""

    text: Annotated[str, Meta(description="Plain text. If only HTML is given, it is made from that.")] | UnsetType = (
        UNSET
    )
    html: Annotated[str, Meta(description="HTML.")] | UnsetType = UNSET


class NewAttachment(Input, frozen=True, kw_only=True):
    """A file to send, with its name and type. With `uploadId` instead of `content`, those of the upload apply."""

    filename: Annotated[str, Meta(min_length=1, max_length=1000, description="File name.")] | UnsetType = UNSET
    mime_type: (
        Annotated[str, Meta(min_length=1, max_length=1000, description="Media type, such as `application/pdf`.")]
        | UnsetType
    ) = UNSET
    content: (
        Annotated[
            Content,
            Meta(
                description="The file, base64 encoded.",
                extra_json_schema={"type": "string", "contentEncoding": "base64"},
            ),
        ]
        | UnsetType
    ) = UNSET
    upload_id: Annotated[str, Meta(min_length=1, max_length=200, description="ID of an upload.")] | UnsetType = UNSET
    content_id: (
        Annotated[
            NonEmptyText,
            Meta(description="ID by which the HTML refers to it (`cid:ID`). Enclosing `<` and `>` are removed."),
        ]
        | UnsetType
    ) = UNSET
    disposition: (
        Annotated[
            Literal["inline", "attachment"],
            Meta(description="`inline` if the HTML shows it. Default: `inline` with a `contentId`, else `attachment`."),
        ]
        | UnsetType
    ) = UNSET


class SendDraftRequest(Input, frozen=True, kw_only=True):
    """A saved draft to send. It is removed after it has been sent.

    - draft_id: ID of the draft.
    """

    draft_id: NonEmptyText
    send_at: SendAt | UnsetType = UNSET


class DraftRequest(Input, frozen=True, kw_only=True):
    """A message to save as a draft. Recipients and text are optional.

    - body: The text of the message.
    - to: To recipients.
    - cc: Cc recipients.
    - bcc: Bcc recipients; the others do not see them.
    - subject: Subject line.
    - attachments: Files: at most 100, and 25 MiB in total.
    """

    body: NewMessageBody
    from_: From | UnsetType = field(name="from", default=UNSET)
    to: tuple[Recipient, ...] | UnsetType = UNSET
    cc: tuple[Recipient, ...] | UnsetType = UNSET
    bcc: tuple[Recipient, ...] | UnsetType = UNSET
    subject: Annotated[str, Meta(max_length=5000)] | UnsetType = UNSET
    reply_to_message_id: (
        Annotated[
            NonEmptyText,
            Meta(
                description="ID of the message to reply to. Subject and recipients are taken from it if omitted;"
                " `to` is its Reply-To, or its From."
            ),
        ]
        | UnsetType
    ) = UNSET
    reply_all: Annotated[
        bool, Meta(description="Reply to all: fill `to` and `cc` if omitted, leaving out the mailbox's own addresses.")
    ] = False
    attachments: tuple[NewAttachment, ...] = ()


class SendEmailRequest(DraftRequest, frozen=True, kw_only=True):
    """A message to send. It needs a recipient, and a subject, text or attachment; at most 500 recipients."""

    send_at: SendAt | UnsetType = UNSET


class ForwardEmailRequest(Input, frozen=True, kw_only=True):
    """Recipients of a forward, and an optional comment.

    - to: To recipients.
    - cc: Cc recipients.
    """

    to: Annotated[tuple[Recipient, ...], Meta(min_length=1)]
    from_: From | UnsetType = field(name="from", default=UNSET)
    cc: tuple[Recipient, ...] | UnsetType = UNSET
    comment: Annotated[str, Meta(description="Text to place above the forwarded message.")] | UnsetType = UNSET
    include_attachments: Annotated[
        bool, Meta(description="Include the attachments. If false, only images that the HTML shows are included.")
    ] = True
