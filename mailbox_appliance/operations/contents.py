"""Operations on the contents of a message: its body page by page, attachments and links to them, the raw message.

Contents come from the store; if they are missing there, they are fetched from the mail server.
"""

import hashlib
import hmac
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from datetime import timedelta
from html import escape
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_millis, to_millis, to_timestamp
from mailbox_appliance.errors import LinkOver, MemberSuspended, SyncRequired, Throttled, Unavailable, Unsupported
from mailbox_appliance.mail.alternatives import DIFFERENCE_WARNING
from mailbox_appliance.mail.html.analysis import UNANALYZED, UNANALYZED_PLAIN, UNCOMPARED, HiddenText, visible_text
from mailbox_appliance.mail.parse import TEXT_TOO_LONG
from mailbox_appliance.mailbox.attachments import PartRequest
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import BodyFormat, BodyPart, Download, DownloadLink, StoredBody
from mailbox_appliance.operations.operation import Access, Caller, operation
from mailbox_appliance.permissions import effective_capabilities, require_account, require_capability
from mailbox_appliance.store.audit import Mac
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.html_readers import HtmlReaders

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
