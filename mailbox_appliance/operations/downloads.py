"""Links to attachments for programs that hold no credential, such as one that an assistant tells to fetch a file.

A link holds what it is for and when it ends, signed with a key of the store's: nothing is stored for it, it survives a
restart, and it is as good as the credential that asked for it, at the moment when somebody follows it.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from datetime import timedelta
from typing import Literal

import msgspec

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_millis, to_millis, to_timestamp
from mailbox_appliance.errors import LinkOver, MemberSuspended
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.records import Account, Capability, Download, DownloadLink
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.contents import get_attachment
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.permissions import effective_capabilities, require_account, require_capability
from mailbox_appliance.store.audit import Mac
from mailbox_appliance.store.store import Store

_LIVES_FOR = timedelta(minutes=5)
_PATH = "/api/v1/downloads/"
_SEAL = 16  # bytes of the authentication code: 2^128 are not tried in 5 minutes
_LONGEST = 1000  # characters; ids of earlier releases are longer than ours


class _Linked(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a link is for, on behalf of whom, and until when (milliseconds since 1970)."""

    kind: Literal["session", "api_key"]
    credential_id: str
    account_id: str
    message_id: str
    attachment_id: str
    expires: int


@operation(needs=Capability.MAIL_READ, tag="downloads")
def link_attachment(
    appliance: Appliance, caller: Caller, account: Account, message_id: str, attachment_id: str
) -> DownloadLink:
    """Make a link by which whoever has it downloads this attachment, for 5 minutes and without a credential.

    It ends earlier where the session or key ends that asks for it, or loses the right to read this mailbox.
    """
    listed = appliance.attachment_fetcher.request_attachment(account.id, message_id, attachment_id)
    expires = to_millis(appliance.clock.now() + _LIVES_FOR)
    linked = _Linked(
        caller.required_credential.kind, caller.required_credential.id, account.id, message_id, attachment_id, expires
    )
    return DownloadLink(
        url=appliance.url_for(is_local=caller.origin.is_local) + _PATH + _sealed(appliance.store, linked),
        expires_at=to_timestamp(from_millis(expires)),
        filename=listed.filename,
        mime_type=listed.media_type,
        size_bytes=listed.size,
    )


@operation(access=Access.ANYBODY, tag="downloads")
def download(appliance: Appliance, caller: Caller, token: str) -> Download:
    """The file that a download link stands for. The link is the credential: no other one is looked at.

    Its type and name are the sender's word, so it comes as a file to be saved.
    """
    linked = _opened(appliance.store, token)
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


def _sealed(store: Store, linked: _Linked) -> str:
    content = msgspec.msgpack.encode(linked)
    return _as_text(_seal(store, content) + content)


def _as_text(token: bytes) -> str:
    return urlsafe_b64encode(token).rstrip(b"=").decode()


def _opened(store: Store, token: str) -> _Linked | None:
    """What a token says; None for one that is not of this store."""
    if len(token) > _LONGEST or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except NotBase64:
        return None
    if _as_text(raw) != token:  # padding, or what decoding passes over: one link is one text
        return None
    seal, content = raw[:_SEAL], raw[_SEAL:]
    if not hmac.compare_digest(seal, _seal(store, content)):
        return None
    try:
        return decode_msgpack(content, _Linked)
    except msgspec.ValidationError:  # of another release, just before an update
        return None


def _seal(store: Store, content: bytes) -> bytes:
    return Mac(store.key.derive("download links")).digest(content)[:_SEAL]
