"""Records of messages: as they are parsed, listed, searched, composed and changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from mailbox_appliance.model.accounts import FolderRole, RoleSource
from mailbox_appliance.model.base import Count, Page, Timestamp, Wire
from mailbox_appliance.model.content import Content


class Address(Wire, frozen=True, kw_only=True):
    """An email address with an optional display name (RFC 5322 3.4).

    - email: Email address.
    - name: Display name.
    """

    email: str
    name: str | UnsetType = UNSET


class MessageFolder(Wire, frozen=True, kw_only=True):
    """The folder of a message.

    - id: Folder ID.
    - name: Folder name.
    - role: Role of the folder, if it has one.
    - role_source: Where the role comes from: `user` (assigned), `extension` (reported by the server) or `name`.
    - unread_count: Number of unread messages in the folder.
    """

    id: str
    name: str
    role: FolderRole | UnsetType = UNSET
    role_source: RoleSource | UnsetType = UNSET
    unread_count: Count | UnsetType = UNSET


class Folder(Wire, frozen=True, kw_only=True):
    """A folder of a mailbox.

    - id: Folder ID, such as `fld_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - name: Folder name, the last part of its path.
    - role: Role of the folder, if it has one.
    - role_source: Where the role comes from: `user` (assigned), `extension` (reported by the server) or `name`.
    - unread_count: Number of unread messages.
    - total_count: Number of messages.
    - path: Full path on the mail server.
    """

    id: str
    name: str
    role: FolderRole | UnsetType = UNSET
    role_source: RoleSource | UnsetType = UNSET
    unread_count: Count
    total_count: Count
    path: str


class Body(Wire, frozen=True, kw_only=True):
    """The readable parts of a message.

    - text: Plain-text part.
    - html: HTML part, as the sender wrote it. Never show it outside a sandbox.
    """

    text: str | UnsetType = UNSET
    html: str | UnsetType = UNSET


class Attachment(Wire, frozen=True, kw_only=True):
    """An attachment; download its content separately.

    - id: Attachment ID.
    - filename: File name, chosen by the sender.
    - mime_type: Media type, chosen by the sender.
    - size_bytes: Size of the decoded file, in bytes.
    - content_id: Content-ID by which the HTML refers to the file.
    - disposition: Whether the sender placed the file `inline` or as an `attachment`.
    """

    id: str
    filename: str
    mime_type: str
    size_bytes: Count
    content_id: str | UnsetType = UNSET
    disposition: Literal["inline", "attachment"] | UnsetType = UNSET


class MessageFlags(Wire, frozen=True, kw_only=True):
    """The flags of a message.

    - read: Whether the message is marked as read.
    - starred: Whether the message is starred.
    - draft: Whether the message is marked as a draft.
    """

    read: bool
    starred: bool
    draft: bool


class SearchMatch(Wire, frozen=True, kw_only=True, tag_field="status", tag="matched"):
    """Search result: the requested text was found in the body.

    - excerpt: The text around the match.
    """

    excerpt: str


class SearchNoMatch(Wire, frozen=True, kw_only=True, tag_field="status", tag="no_literal_match"):
    """Search result: the message matches, but its body does not contain the exact text."""


class SearchScanLimit(Wire, frozen=True, kw_only=True, tag_field="status", tag="scan_limit"):
    """Search result: the search for the exact text stopped at a limit before the end of the body."""


class SearchUnavailable(Wire, frozen=True, kw_only=True, tag_field="status", tag="unavailable"):
    """Search result: the body has not been fetched yet."""


SearchContext = SearchMatch | SearchNoMatch | SearchScanLimit | SearchUnavailable


class Message(Wire, frozen=True, kw_only=True):
    """A message or draft. Lists omit `body` and `headers`.

    - id: Message ID, such as `msg_01j9z3x7v2m4q8s6t5w0y1r3n4`.
    - thread_id: ID of the thread that the message belongs to.
    - account_id: ID of the mailbox.
    - draft_id: Equal to `id`, if the message was requested as a draft.
    - folder: The folder that the message is in.
    - labels: Labels of the message.
    - from_: The sender.
    - to: The To recipients.
    - cc: The Cc recipients.
    - bcc: The Bcc recipients; known only for drafts and sent messages.
    - reply_to: The addresses that replies should go to.
    - subject: Subject line; empty if there is none.
    - date: The Date header, which the sender wrote and which may be wrong.
    - snippet: The beginning of the text.
    - search_context: Where the text of the filter `text` was found.
    - body: The readable parts of the message.
    - attachments: The attachments, without their content.
    - flags: The flags of the message.
    - headers: Header fields, by name.
    """

    id: str
    thread_id: str
    account_id: str
    draft_id: str | UnsetType = UNSET
    folder: MessageFolder | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    from_: Address | UnsetType = msgspec.field(name="from", default=UNSET)
    to: tuple[Address, ...]
    cc: tuple[Address, ...] | UnsetType = UNSET
    bcc: tuple[Address, ...] | UnsetType = UNSET
    reply_to: tuple[Address, ...] | UnsetType = UNSET
    subject: str
    date: Timestamp
    snippet: str | UnsetType = UNSET
    search_context: SearchContext | UnsetType = UNSET
    body: Body | UnsetType = UNSET
    attachments: tuple[Attachment, ...] | UnsetType = UNSET
    flags: MessageFlags
    headers: dict[str, str] | UnsetType = UNSET


class Label(Wire, frozen=True, kw_only=True):
    """A label of a mailbox.

    - id: Label ID; equal to the name.
    - name: Label name.
    """

    id: str
    name: str


BodyFormat = Literal["text", "html", "markdown"]


class BodyPart(Wire, frozen=True, kw_only=True):
    """Part of a message body in one format.

    - format: Format of the content.
    - content: The content, from character `offset` up to `nextOffset`.
    - offset: Position of the first character.
    - next_offset: Position where the next part starts; null at the end.
    - total_chars: Length of the whole body, in characters.
    """

    format: BodyFormat
    content: str
    offset: Count
    next_offset: Count | None
    total_chars: Count


@dataclass(frozen=True)
class StoredBody:
    """The stored text parts of a message. `is_there`: the body has been fetched, even if it has no text part."""

    text: str | None
    html: str | None
    is_there: bool


@dataclass(frozen=True)
class Download:
    """A file as a response. Read its `chunks` piece by piece, then close them. `size`: None if not known yet.

    The sender chose type and name: sanitize them before you pass them on.
    """

    media_type: str
    filename: str
    size: int | None
    chunks: Iterator[bytes] = field(repr=False)


class DownloadLink(Wire, frozen=True, kw_only=True):
    """A link that downloads one attachment without a credential, until it expires. It is shown only once.

    - url: Address to download the file from.
    - expires_at: When the link expires.
    - filename: File name, chosen by the sender.
    - mime_type: Media type, chosen by the sender.
    - size_bytes: Size of the file, in bytes.
    """

    url: str
    expires_at: str
    filename: str
    mime_type: str
    size_bytes: int


class Upload(Wire, frozen=True, kw_only=True):
    """A file that was uploaded, for attachments to name by `uploadId`.

    - upload_id: Upload ID.
    - filename: File name of an attachment that gives none.
    - mime_type: Media type of an attachment that gives none.
    - size_bytes: Size of the file, in bytes.
    - sha256: SHA-256 of the file, in hex.
    - expires_at: When it is deleted, unless a message with it is accepted earlier.
    """

    upload_id: str
    filename: str
    mime_type: str
    size_bytes: int
    sha256: str
    expires_at: str


class UploadLink(Wire, frozen=True, kw_only=True):
    """A link to which one file can be uploaded without a credential. It is shown only once.

    - url: Address to send the file to, with PUT.
    - upload_id: ID that the upload gets.
    - expires_at: When the link expires.
    """

    url: str
    upload_id: str
    expires_at: str


class FailedMessageAction(Wire, frozen=True, kw_only=True):
    """A message that an action was not applied to.

    - message_id: Message ID.
    - code: Why the action failed.
    """

    message_id: str
    code: str


class MessageActionResult(Wire, frozen=True, kw_only=True):
    """The result of an action, for each message.

    - action: The action that was applied.
    - succeeded_ids: IDs of messages that are now in the requested state.
    - failed: Messages that the action was not applied to.
    - uncertain_ids: IDs of messages whose result is unknown, because the connection ended before the server confirmed.
    """

    action: str
    succeeded_ids: tuple[str, ...]
    failed: tuple[FailedMessageAction, ...]
    uncertain_ids: tuple[str, ...]


class UndoOffer(Wire, frozen=True, kw_only=True):
    """The token that undoes an action, once, until it expires. It is shown only once.

    - token: The token, for `POST /accounts/{accountId}/messages/actions/undo`.
    - expires_at: When the token expires.
    """

    token: str
    expires_at: Timestamp


class Thread(Wire, frozen=True, kw_only=True):
    """A conversation.

    - id: Thread ID.
    - subject: Subject of the conversation.
    - messages: A page of its messages, oldest first.
    """

    id: str
    subject: str
    messages: Page[Message]


SearchedField = Literal["any", "from", "to", "subject"]


@dataclass(frozen=True)
class SearchTerm:
    """Words to search for. They must stand next to each other in the field.

    `is_prefix`: the last word also matches longer words that begin with it.
    """

    words: str
    field: SearchedField = "any"
    is_prefix: bool = False


@dataclass(frozen=True)
class MessageFilter:
    """The conditions of a list of messages, all of which must match.

    - after: The earliest time that matches, in milliseconds since 1970.
    - before: The first time that no longer matches, in milliseconds since 1970.
    - is_impossible: No message can match, because conditions contradict each other or contain nothing to search for.
    """

    terms: tuple[SearchTerm, ...] = ()
    text: str | None = None
    unread: bool | None = None
    starred: bool | None = None
    has_attachment: bool | None = None
    labels: tuple[str, ...] = ()
    after: int | None = None
    before: int | None = None
    is_impossible: bool = False


@dataclass(frozen=True)
class Envelope:
    """Sender and recipients of a message, as SMTP transmits them (RFC 5321 2.3.1).

    Domains are in ASCII form (A-labels). `smtputf8`: the part before an @ is not ASCII in some address.
    """

    sender: str
    recipients: tuple[str, ...]
    smtputf8: bool = False


class PreviewedAttachment(Wire, frozen=True, kw_only=True):
    """A file that would be sent.

    - id: Its ID, by which it is downloaded. Only an approval that is read by itself has it.
    - filename: File name.
    - mime_type: Media type.
    - size_bytes: Size, in bytes.
    - content_id: ID by which the HTML shows it, as in `id`.
    """

    id: str | UnsetType = UNSET
    filename: str
    mime_type: str
    size_bytes: Count
    content_id: str | UnsetType = UNSET


class MessageSummary(Wire, frozen=True, kw_only=True):
    """A message that is to be sent, without its text.

    - from_: The sender.
    - to: Recipients in To.
    - cc: Recipients in Cc.
    - bcc: Recipients that neither To nor Cc names.
    - subject: Subject of the message.
    - attachments: Files of the message.
    """

    from_: Address = msgspec.field(name="from")
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    subject: str
    attachments: tuple[PreviewedAttachment, ...]


class SendPreview(Wire, frozen=True, kw_only=True):
    """The message that a send would submit.

    - account_id: ID of the sending mailbox.
    - from_: Sender address.
    - to: The To recipients.
    - cc: The Cc recipients.
    - bcc: The Bcc recipients.
    - subject: Subject line.
    - attachments: The files that would be sent.
    - body_text_chars: Length of the plain-text part, in characters before encoding.
    - body_html_chars: Length of the HTML part, in characters before encoding.
    - preview_digest: Digest of this message, also in `ETag`. A send with it in `If-Match` sends exactly this message.
    """

    account_id: str
    from_: str = msgspec.field(name="from")
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    subject: str
    attachments: tuple[PreviewedAttachment, ...]
    body_text_chars: Count
    body_html_chars: Count
    preview_digest: str


@dataclass(frozen=True)
class OutgoingAttachment:
    """A file to send. `content`: its bytes. `inline`: the HTML shows it, by its content ID."""

    filename: str
    mime_type: str
    content: bytes | Content = field(repr=False)
    content_id: str | None = None
    inline: bool = False


@dataclass(frozen=True)
class OutgoingMessage:
    """A message to be composed, with sender, recipients and subject filled in."""

    sender: Address
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    subject: str = ""
    text: str | None = None
    html: str | None = None
    attachments: tuple[OutgoingAttachment, ...] = ()
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComposedMessage:
    """A message ready to be sent.

    - wire: The bytes to transmit (CRLF, 7-bit, without Bcc). Large attachments are read from the request's temporary
      file, so store the message before that file is deleted.
    - bcc_header: The Bcc header, for the copy in Sent.
    - row: The parsed message, to store with that copy; None if it must be parsed.
    """

    wire: Content = field(repr=False)
    bcc_header: bytes
    envelope: Envelope
    message_id: str
    row: "ParsedMessage | None" = field(default=None, repr=False, compare=False)


class ParsedAttachment(msgspec.Struct, frozen=True, array_like=True):
    """A part of a message that is not body text. `part`: its IMAP number (RFC 9051 6.4.5), such as `1.3`."""

    part: str
    filename: str
    mime_type: str
    size_bytes: int
    content_id: str | None
    disposition: Literal["inline", "attachment"] | None


class ParsedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message parsed from its bytes. Parsing never fails: `warnings` report what could not be read, without text.

    `searched`: the text of the body for the full-text index; None if it has not been made yet (`mail/search.py`).
    """

    message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    subject: str
    sender: Address | None
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    date: datetime | None
    headers: dict[str, str]
    text: str | None
    html: str | None
    snippet: str
    attachments: tuple[ParsedAttachment, ...]
    warnings: tuple[str, ...]
    searched: str | None = None
