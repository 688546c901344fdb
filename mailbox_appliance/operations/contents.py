"""Operations on the contents of messages: bodies page by page, attachments and links to them, raw messages, uploads.

Contents of received messages come from the store; if they are missing there, they are fetched from the mail server.
"""

import hashlib
import hmac
import mimetypes
import secrets
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from html import escape
from typing import Annotated, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_millis, to_millis, to_timestamp
from mailbox_appliance.errors import (
    Detail,
    Invalid,
    LinkOver,
    MemberSuspended,
    NotEnoughRoom,
    NotFound,
    Stopping,
    SyncRequired,
    Throttled,
    Unavailable,
    Unsupported,
    UploadLinkOver,
)
from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.mail.alternatives import DIFFERENCE_WARNING
from mailbox_appliance.mail.compose import parse_media_type
from mailbox_appliance.mail.html.analysis import UNANALYZED, UNANALYZED_PLAIN, UNCOMPARED, HiddenText, visible_text
from mailbox_appliance.mail.parse import TEXT_TOO_LONG
from mailbox_appliance.mailbox.attachments import PartRequest
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import Deletion, Input, own_text
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import (
    BodyFormat,
    BodyPart,
    Download,
    DownloadLink,
    StoredBody,
    Upload,
    UploadLink,
)
from mailbox_appliance.operations.message_input import NewAttachment, refuse_control_characters
from mailbox_appliance.operations.operation import MIB, Access, Caller, operation
from mailbox_appliance.permissions import effective_capabilities, require_account, require_capability
from mailbox_appliance.security.tokens import hash_token
from mailbox_appliance.store.audit import Mac
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.files import format_size
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.uploads import StoredUpload, Uploader
from mailbox_appliance.sync.html_readers import HtmlReaders
from mailbox_appliance.system.spool import RESERVE

# --- A body in the requested form, with warnings about what was removed or could not be decided ---


_LARGE_TEXT = 500_000  # characters: the last text of this size is cached, since its next part is likely requested

_cache_lock = threading.Lock()
_cached_text: dict[bytes, tuple[str, HiddenText]] = {}


def body_in_form(
    stored: StoredBody, form: BodyFormat, readers: HtmlReaders, *, visible_only: bool
) -> tuple[str, tuple[str, ...]]:
    """Return a message body in the requested form, and warnings. If the message has no part in that form, the other
    part is converted.

    HTML that cannot be analyzed in time is replaced by the plain text, or by the text between its tags. `visible_only`:
    remove hidden text, scripts and styles from HTML too; other forms never contain them.
    """
    text, html = stored.text or "", stored.html
    if form == "html" and not visible_only:
        return html if html is not None else _text_to_html(text), ()
    has_text = bool(text.strip())
    left_out, warnings = HiddenText(), tuple[str, ...]()
    if html is not None and (form != "text" or not has_text):
        seen = readers.extract(html, form)
        if seen.is_analyzed:
            return seen.text, seen.hidden.warnings()
        warnings = (UNANALYZED_PLAIN if has_text else UNANALYZED,)
        if not (has_text or seen.is_whole):
            warnings += (TEXT_TOO_LONG,)
        text, left_out = (text, left_out) if has_text else (seen.text, seen.hidden)
    shown, hidden = readable_text(text)
    if form == "text" and html is not None and has_text:
        differs = readers.differs(text, html)
        warnings = (UNCOMPARED,) if differs is None else (DIFFERENCE_WARNING,) if differs else ()
    return _text_to_html(shown) if form == "html" else shown, (left_out + hidden).warnings() + warnings


def readable_text(text: str) -> tuple[str, HiddenText]:
    """Return a text without hidden characters, and counts of what was removed."""
    if len(text) < _LARGE_TEXT:
        return visible_text(text)
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    with _cache_lock:
        found = _cached_text.get(key)
    if found is None:
        found = visible_text(text)
        with _cache_lock:
            _cached_text.clear()
            _cached_text[key] = found
    return found


def _text_to_html(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>" if text else ""


# --- Bodies, raw messages and attachments ---


BodyOffset = Annotated[
    int, Meta(ge=0, le=1 << 31, description="Position to start at: `nextOffset` of the previous part.")
]
BodyLimit = Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum number of characters to return.")]
BodyForm = Annotated[BodyFormat, Meta(description="Format of the body.")]
VisibleOnly = Annotated[
    bool,
    Meta(
        description="Remove hidden text, scripts and styles from `html`. They are always removed from `text` and"
        " `markdown`."
    ),
]
_NOT_YET = own_text(
    "The body of this message has not been fetched yet, and the mail server is not available now. Try again later."
)


@operation(needs=Capability.MAIL_READ)
def get_source(appliance: Appliance, caller: Caller, account: Account, message_id: str) -> Download:  # noqa: ARG001
    """Download a raw message.

    Returns the message byte for byte as received (RFC 5322).
    """
    return _get_file(appliance, appliance.attachment_fetcher.request_source(account.id, message_id))


@operation(needs=Capability.MAIL_READ)
def get_attachment(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    message_id: str,
    attachment_id: str,
) -> Download:
    """Download an attachment.

    Returns the decoded file. Its type and name are untrusted: the sender chose them. It is always served as a download,
    and browsers do not run anything in it.
    """
    return _get_file(appliance, appliance.attachment_fetcher.request_attachment(account.id, message_id, attachment_id))


@operation(needs=Capability.MAIL_READ)
def get_body(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
    message_id: str,
    format_: BodyForm = "text",
    offset: BodyOffset = 0,
    limit: BodyLimit = 20_000,
    visible_only: VisibleOnly = False,
) -> OperationResult[BodyPart]:
    """Get a message's body.

    Returns part of the body in the requested format. Offsets count characters.

    - `text`: the plain-text part, or text made from the HTML if there is none.
    - `markdown`: made from the HTML, or the plain text if there is no HTML.
    - `html`: the sender's HTML unmodified, or made from the plain text. Never show it outside a sandbox.

    `text` and `markdown` contain no hidden text, invisible characters, scripts or remote content. `warnings` report:

    - how much was removed
    - styles that cannot be evaluated; their text is kept
    - that the plain text differs from the HTML, which is what mail clients show
    - that the HTML takes too long to analyze; then the plain text or the text of its tags is returned, which may
      contain hidden text
    """
    stored = appliance.store.messages.get_body(account.id, message_id)
    warnings: tuple[str, ...] = ()
    if not stored.is_there:
        warnings = fetch_body(appliance, account, message_id)
        stored = appliance.store.messages.get_body(account.id, message_id)
    content, told = body_in_form(stored, format_, appliance.html_readers, visible_only=visible_only)
    return OperationResult(body_page(content, format_, offset, limit), warnings + told)


def fetch_body(appliance: Appliance, account: Account, message_id: str) -> tuple[str, ...]:
    """Fetch the body of a message from the mail server, if only the header is stored.

    Returns a warning if that is not possible now, otherwise nothing.
    """
    with appliance.io_slot() as has_place:
        if has_place:
            try:
                appliance.body_fetcher.ensure_body(account.id, message_id)
                return ()
            except (SyncRequired, Throttled, Unavailable, Unsupported):
                pass  # what is stored is better than nothing
    return (_NOT_YET,)


def body_page(content: str, form: BodyFormat, offset: int, limit: int) -> BodyPart:
    """Return the part of a body from character `offset` on, at most `limit` characters. It is empty beyond the end."""
    end = offset + limit
    return BodyPart(
        format=form,
        content=content[offset:end],
        offset=offset,
        next_offset=end if end < len(content) else None,
        total_chars=len(content),
    )


def _get_file(appliance: Appliance, wanted: PartRequest) -> Download:
    found = appliance.attachment_fetcher.find(wanted)
    if found is not None:
        return found
    with appliance.require_io_slot():
        return appliance.attachment_fetcher.fetch(wanted)


# --- Raw messages, for operations that work on one: from the store, else fetched once from the server ---


def read_source(appliance: Appliance, account: Account, message_id: str) -> bytes:
    """Return the raw message, from the store or else from the mail server.

    Fetching takes time: call this with a slot for slow requests (`Appliance.io_slot`), and outside of a transaction.
    Raises NotFound, SyncRequired, and the errors of the mail server.
    """
    wanted: PartRequest = appliance.attachment_fetcher.request_source(account.id, message_id)
    found = appliance.attachment_fetcher.find(wanted) or appliance.attachment_fetcher.fetch(wanted)
    try:
        return b"".join(found.chunks)
    finally:
        close = getattr(found.chunks, "close", None)
        if close is not None:
            close()


# --- Links to attachments, for programs that hold no credential, such as one that downloads a file for an AI agent ---
#
# A link contains its target and expiry, signed with a key of the store. Nothing is stored for it, and it survives a
# restart. It works only while the credential that created it is valid and has access to the mailbox.


_LINK_LIFETIME = timedelta(minutes=5)
_DOWNLOAD_PATH = "/api/v1/downloads/"
_MAC_SIZE = 16  # bytes of the authentication code: 2^128 values cannot be tried in 5 minutes
_MAX_LINK_TOKEN = 1000  # characters; IDs of earlier releases are longer than today's


class _LinkTarget(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The signed contents of a download link. `expires`: milliseconds since 1970."""

    kind: Literal["session", "api_key"]
    credential_id: str
    account_id: str
    message_id: str
    attachment_id: str
    expires: int


@operation(needs=Capability.MAIL_READ)
def link_attachment(
    appliance: Appliance, caller: Caller, account: Account, message_id: str, attachment_id: str
) -> DownloadLink:
    """Create a download link.

    Anyone with the link can download this attachment without a credential. It expires after 5 minutes, or earlier if
    the credential that created it ends or loses access to the mailbox.
    """
    listed = appliance.attachment_fetcher.request_attachment(account.id, message_id, attachment_id)
    expires = to_millis(appliance.clock.now() + _LINK_LIFETIME)
    linked = _LinkTarget(
        caller.required_credential.kind, caller.required_credential.id, account.id, message_id, attachment_id, expires
    )
    return DownloadLink(
        url=appliance.url_for(is_local=caller.origin.is_local) + _DOWNLOAD_PATH + _sign_link(appliance.store, linked),
        expires_at=to_timestamp(from_millis(expires)),
        filename=listed.filename,
        mime_type=listed.media_type,
        size_bytes=listed.size,
    )


@operation(access=Access.ANYBODY)
def download(appliance: Appliance, caller: Caller, token: str) -> Download:
    """Download a linked attachment.

    The token in the path is the credential; an Authorization header is ignored. Type and name of the file are
    untrusted: the sender chose them.
    """
    linked = _verify_link(appliance.store, token)
    if linked is None or linked.expires <= to_millis(appliance.clock.now()):
        raise LinkOver
    found = appliance.store.credentials.find_live(linked.kind, linked.credential_id)
    if found is None:
        raise LinkOver
    if found.member.status == "suspended":
        raise MemberSuspended
    capabilities = effective_capabilities(found)
    account = require_account(appliance.store, found, linked.account_id)
    require_capability(capabilities, (Capability.MAIL_READ,))
    on_behalf = Caller(caller.origin, found, capabilities)
    return get_attachment(appliance, on_behalf, account, linked.message_id, linked.attachment_id)


def _sign_link(store: Store, linked: _LinkTarget) -> str:
    content = msgspec.msgpack.encode(linked)
    return _encode_token(_link_mac(store, content) + content)


def _encode_token(token: bytes) -> str:
    return urlsafe_b64encode(token).rstrip(b"=").decode()


def _verify_link(store: Store, token: str) -> _LinkTarget | None:
    """Return None if this store did not sign the link."""
    if len(token) > _MAX_LINK_TOKEN or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except NotBase64:
        return None
    if _encode_token(raw) != token:  # padding, or characters that decoding ignores: one link has one spelling
        return None
    seal, content = raw[:_MAC_SIZE], raw[_MAC_SIZE:]
    if not hmac.compare_digest(seal, _link_mac(store, content)):
        return None
    try:
        return decode_msgpack(content, _LinkTarget)
    except msgspec.ValidationError:  # made by another release, just before an update
        return None


def _link_mac(store: Store, content: bytes) -> bytes:
    return Mac(store.key.derive("download links")).digest(content)[:_MAC_SIZE]


# --- Uploads: files that attachments name by ID, so that a message with them is small ---
#
# A credential uses what it uploaded itself, and what a session of its member uploaded. Sessions use all of their
# member's uploads. A link needs no credential: its secret is random, only its hash is stored, and it takes one file.


MAX_UPLOAD_BYTES = 25 * MIB
_UPLOAD_NEEDS = (Capability.MAIL_DRAFTS, Capability.MAIL_SEND)
_UPLOAD_PATH = "/api/v1/uploads/links/"
_LINK_ENTROPY = 32  # bytes
_UNNAMED, _UNKNOWN_TYPE = "file", "application/octet-stream"
FileName = Annotated[str, Meta(min_length=1, max_length=1000)]
UploadName = Annotated[FileName, Meta(description="File name. An attachment may give another one.")]
UploadType = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description="Media type, such as `application/pdf`. By default it is derived from the file name. The"
        " Content-Type of the request is ignored.",
    ),
]


class UploadLinkRequest(Input, frozen=True, kw_only=True):
    """The file for which an upload link is requested.

    - filename: Name of the file, from which its media type is derived.
    """

    filename: FileName | UnsetType = UNSET


@operation(needs=_UPLOAD_NEEDS, body_limit=MAX_UPLOAD_BYTES)
def create_upload(
    appliance: Appliance, caller: Caller, content: Content, filename: UploadName, mime_type: UploadType | None = None
) -> OperationResult[Upload]:
    """Upload a file.

    The body is the file itself, of any type, at most 25 MiB. Attachments of sends, previews and drafts can name it by
    `uploadId` instead of `content`.

    An upload is used once: it is deleted when a send with it is accepted or a draft with it is saved, and after one
    hour. Previews, and sends that are refused, leave it. It is available to your sessions and to the API key that
    uploaded it; what a session uploaded, your keys can use too.

    409 `conflict`: your uploads would exceed 200 MiB or 500 files, or the disk of the appliance is nearly full.
    """
    _refuse_forbidden("filename", filename)
    try:
        parse_media_type(mime_type or _UNKNOWN_TYPE)
    except ValueError as error:
        raise Invalid.at("mimeType", "This is not a valid media type, such as image/png.") from error
    _require_disk_space(appliance, content)
    add, uploader = appliance.store.uploads.add, _uploader(caller.required_credential)
    return _write(appliance, partial(add, uploader, filename, mime_type or _type_of(filename), content))


@operation(needs=_UPLOAD_NEEDS)
def get_upload(appliance: Appliance, caller: Caller, upload_id: str) -> Upload:
    """Get an upload.

    404 if it was used or has expired, and while no file has been sent to its link.
    """
    return appliance.store.uploads.get(_uploader(caller.required_credential), upload_id).upload


@operation(needs=_UPLOAD_NEEDS)
def delete_upload(appliance: Appliance, caller: Caller, upload_id: str) -> Deletion:
    """Delete an upload.

    If no file has been sent to its link, the link ends.
    """
    appliance.store.uploads.delete(_uploader(caller.required_credential), upload_id)
    appliance.store.cleaner.wake()
    return Deletion(id=upload_id)


@operation(needs=_UPLOAD_NEEDS)
def create_upload_link(appliance: Appliance, caller: Caller, request: UploadLinkRequest) -> UploadLink:
    """Create an upload link.

    One PUT to the link, with a file of at most 25 MiB as its body, needs no credential. The link expires after 10
    minutes, or earlier if the credential that created it ends or may no longer save drafts or send. Anyone with the
    link can use it, so keep it secret.

    Then name the file by `uploadId` in an attachment. It can be used for one hour after it was sent.
    """
    filename = request.filename or _UNNAMED
    refuse_control_characters("/filename", filename)
    secret, uploader = secrets.token_urlsafe(_LINK_ENTROPY), _uploader(caller.required_credential)
    linked = appliance.store.uploads.add_link(uploader, filename, _type_of(filename), hash_token(secret))
    url = appliance.url_for(is_local=caller.origin.is_local) + _UPLOAD_PATH + secret
    return UploadLink(url=url, upload_id=linked.upload_id, expires_at=linked.expires_at)


@operation(access=Access.ANYBODY, body_limit=MAX_UPLOAD_BYTES)
def upload_linked(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    token: str,
    content: Content,
) -> OperationResult[Upload]:
    """Upload a linked file.

    The token in the path is the credential; an Authorization header is ignored. The body is the file itself, of any
    type, at most 25 MiB. A link takes one file; if that fails, it can be used again.
    """
    linked = appliance.store.uploads.get_link(hash_token(token))
    found = appliance.store.credentials.find_live(linked.uploader.kind, linked.uploader.credential_id)
    if found is None:
        raise UploadLinkOver
    if found.member.status == "suspended":
        raise MemberSuspended
    require_capability(effective_capabilities(found), _UPLOAD_NEEDS)
    _require_disk_space(appliance, content)
    return _write(appliance, partial(appliance.store.uploads.fill_link, linked, content))


def _write(appliance: Appliance, store_file: Callable[[], Upload]) -> OperationResult[Upload]:
    """Return the result of an upload, which the interface waits for without occupying a worker. Raises Stopping."""
    try:
        future = appliance.upload_writer.submit(store_file)
    except RuntimeError as error:  # it was shut down
        raise Stopping from error
    return OperationResult(cast("Upload", None), waits_for=future)


@dataclass(frozen=True)
class CompleteAttachment:
    """An attachment of a request with its content, name and type. `given`: the rest of it."""

    filename: str
    mime_type: str
    content: Content
    given: NewAttachment


def complete_attachments(
    store: Store, caller: Caller, attachments: tuple[NewAttachment, ...]
) -> tuple[CompleteAttachment, ...]:
    """Return the attachments of a request. Those that name an upload get its content, and what they lack of the rest.

    Raises Invalid if an attachment has not exactly one of `content` and `uploadId`, and NotFound for an upload that
    does not exist, or that the caller has no access to.
    """
    return tuple(_complete(store, caller, f"/attachments/{index}", one) for index, one in enumerate(attachments))


def _complete(store: Store, caller: Caller, path: str, given: NewAttachment) -> CompleteAttachment:
    filename, mime_type, content = given.filename, given.mime_type, given.content
    if given.upload_id is not UNSET:
        if content is not UNSET:
            raise Invalid.at(f"{path}/uploadId", "An attachment has either `content` or `uploadId`, not both.")
        found = _get_upload(store, caller, f"{path}/uploadId", given.upload_id)
        content, filename = found.content, filename or found.upload.filename
        mime_type = mime_type or found.upload.mime_type
    if content is UNSET or filename is UNSET or mime_type is UNSET:
        values = {"filename": filename, "mimeType": mime_type, "content": content}
        name = next(name for name, value in values.items() if value is UNSET)
        reason = f"Object missing required field `{name}`. Only an attachment with `uploadId` may omit it."
        raise Invalid.at(f"{path}/{name}", reason)
    return CompleteAttachment(filename, mime_type, content, given)


def _get_upload(store: Store, caller: Caller, path: str, upload_id: str) -> StoredUpload:
    try:
        return store.uploads.get(_uploader(caller.required_credential), upload_id)
    except NotFound as error:
        reason = "This upload does not exist, was used, or has expired. Upload the file again."
        raise NotFound(what="upload", details=(Detail(path, reason),)) from error


def _uploader(found: FoundCredential) -> Uploader:
    return Uploader(found.member.id, found.kind, found.id)


def _type_of(filename: str) -> str:
    kind, encoding = mimetypes.guess_type(filename)
    # A compressed file has the type of the archive, not of its contents.
    return kind if kind and not encoding else _UNKNOWN_TYPE


def _refuse_forbidden(name: str, text: str) -> None:
    if has_forbidden_characters(text):
        raise Invalid.at(name, "Line breaks and control characters are not allowed here.")


def _require_disk_space(appliance: Appliance, content: Content) -> None:
    """Raise NotEnoughRoom unless the disk keeps its reserve while the file is stored: once in the write-ahead log, and
    once in the database.
    """
    needed, free = 2 * len(content) + RESERVE, appliance.store.free_bytes
    if free < needed:
        raise NotEnoughRoom(folder="the store", needed=format_size(needed), free=format_size(free))
