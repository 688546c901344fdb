"""Mail of Microsoft Graph, as far as sending needs it: a draft from MIME, its sending by its id, what became of it.

    draft ..... POST messages, the MIME in base64 as text/plain -> 201 with the id
                (learn.microsoft.com/graph/outlook-send-mime-message)
    files ..... what does not fit into that MIME is added to the draft (`graph_files`)
    send ...... POST messages/{id}/send -> 202: it is in Exchange's hands (learn.microsoft.com/graph/api/message-send)
    look ...... GET messages/{id}: a draft as long as it was not sent; then it is nowhere for a moment, or in Sent Items
                (learn.microsoft.com/graph/outlook-immutable-id, "Immutable IDs with sending mail")

Every request asks for ids that stay when a message moves. No request here is repeated by itself.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote import https
from mailbox_appliance.remote.faults import RemoteFault, malformed
from mailbox_appliance.remote.named_faults import fault
from mailbox_appliance.remote.providers import KnownProvider
from mailbox_appliance.remote.replies import fault_of

#: Bytes of a message; a request has at most 4 MB (learn.microsoft.com/graph/api/user-post-messages), in base64.
LARGEST = 3_000_000
#: Bytes of an answer: what was made of a draft is told whole, but for its attachments.
_LONGEST_ANSWER = 16 << 20
_VERSION = "v1.0"
_IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
_ID = re.compile(r"[A-Za-z0-9_+/=-]{1,1000}")
_CODE = re.compile(r"[A-Za-z0-9_.]{1,100}")
_GONE = "erroritemnotfound"
#: The most drafts with one Message-ID that are looked for.
_MOST_DRAFTS = 10

_ELSEWHERE = (
    "Microsoft Graph wants a file uploaded to an address where none is sent to. In another cloud, name its host in"
    " upload_hosts, in the file of the setting remote.providers_file."
)

_T = TypeVar("_T")
#: What became of a draft. `gone`: it is no draft any more, and not in Sent Items yet.
DraftState = Literal["draft", "sent", "gone"]


@dataclass(frozen=True)
class Said:
    """What Graph answers: a status, and where it is no success a code (learn.microsoft.com/graph/errors).

    `retry_after`: seconds that it wants us to wait, where it says so (learn.microsoft.com/graph/throttling).
    """

    status: int
    code: str = ""
    retry_after: float | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """As `replies` reads it."""
        return f"{self.status} {self.code}".strip()


class _Error(msgspec.Struct, frozen=True):
    code: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Error = _Error()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    id: str = ""
    is_draft: bool = True


class _Messages(msgspec.Struct, frozen=True):
    value: tuple[_Message, ...] = ()


class Graph:
    """The mail of one mailbox. `of`: the address of another one's mailbox that is shared; else of whoever signed in."""

    def __init__(self, provider: KnownProvider, of: str | None, *, ca_file: str, timeout: float) -> None:
        owner = "me" if of is None else f"users/{quote(of, safe='@')}"
        self._root = f"{provider.api_url.rstrip('/')}/{_VERSION}/{owner}"
        is_public = not provider.is_named_by_operator(provider.api_url)
        self._reach = https.Reach("graph", ca_file, timeout, only_public=is_public, limit=_LONGEST_ANSWER)
        self._provider = provider

    def create_draft(self, token: str, mime: bytes) -> str | Said:
        """Keep a draft; its id, or what Graph says instead. Raises RemoteFault, also for a token that is refused."""
        headers = {"Content-Type": "text/plain"}
        answer = self._request("POST", "messages", token, headers, base64.b64encode(mime))
        if answer.status != 201:
            return said_in(answer)
        found = read(answer, _Message).id
        if not _ID.fullmatch(found):
            raise malformed("graph")
        return found

    def send_draft(self, token: str, draft_id: str, timeout: float) -> Said:
        """Send a draft. Raises RemoteFault; unless it is `in_doubt`, nothing was asked for."""
        reach = replace(self._reach, timeout=timeout)
        return said_in(https.request("POST", f"{self._draft_url(draft_id)}/send", reach, _headers(token)))

    def get_draft_state(self, token: str, draft_id: str) -> DraftState:
        """What became of a draft. Raises RemoteFault where Graph does not tell.

        Nothing is gone from a mailbox that may not be looked into: the folder of drafts must be there to be seen.
        """
        answer = self._request("GET", f"messages/{quote(draft_id, safe='')}?$select=id,isDraft", token)
        said = said_in(answer)
        if said.status == 404 and said.code.lower() == _GONE:
            said = said_in(self._request("GET", "mailFolders/drafts?$select=id", token))
            if said.status == 200:
                return "gone"
        if said.status != 200:
            raise refusal(said)
        return "draft" if read(answer, _Message).is_draft else "sent"

    def find_drafts(self, token: str, message_id: str) -> tuple[str, ...]:
        """The ids of the drafts that have this Message-ID. Raises RemoteFault."""
        wanted = quote(f"internetMessageId eq '{message_id.replace(chr(39), chr(39) * 2)}'", safe="")
        query = f"mailFolders/drafts/messages?$filter={wanted}&$select=id,isDraft&$top={_MOST_DRAFTS}"
        answer = self._request("GET", query, token)
        if answer.status != 200:
            raise refusal(said_in(answer))
        return tuple(each.id for each in read(answer, _Messages).value if each.is_draft and _ID.fullmatch(each.id))

    def delete_draft(self, token: str, draft_id: str) -> None:
        """Remove a draft that was not sent. Raises RemoteFault; one that is gone already is none."""
        said = said_in(self._request("DELETE", f"messages/{quote(draft_id, safe='')}", token))
        if said.status not in (204, 404):
            raise refusal(said)

    def post_to_draft(self, token: str, draft_id: str, what: str, body: bytes) -> https.Answer:
        """What is answered where something in JSON is added to a draft. Raises RemoteFault."""
        path = f"messages/{quote(draft_id, safe='')}/{what}"
        return self._request("POST", path, token, {"Content-Type": "application/json"}, body)

    def put_upload(self, url: str, headers: Mapping[str, str], body: bytes) -> https.Answer:
        """What is answered at an address that an answer of Graph's named: it has its own token. Raises RemoteFault."""
        if not self._provider.takes_uploads_at(url):
            raise RemoteFault("graph", "forbidden_address", _ELSEWHERE)
        is_public = not self._provider.is_named_by_operator(url)
        return https.request("PUT", url, replace(self._reach, only_public=is_public), headers, body)

    def _draft_url(self, draft_id: str) -> str:
        return f"{self._root}/messages/{quote(draft_id, safe='')}"

    def _request(
        self, method: str, path: str, token: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> https.Answer:
        whole = {**_headers(token), **(headers or {})}
        answer = https.request(method, f"{self._root}/{path}", self._reach, whole, body)
        if answer.status == 401:
            raise fault("token_refused", "graph")
        return answer


def refusal(said: Said) -> RemoteFault:
    """What it means that Graph does not do what it is asked."""
    told = fault_of("graph", said.text) or RemoteFault("graph", "refused", "Microsoft Graph refuses the request.")
    told.retry_after = said.retry_after
    return told


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **_IMMUTABLE}


def said_in(answer: https.Answer) -> Said:
    """What an answer of Graph's says."""
    if answer.status < 400:
        return Said(answer.status)
    try:
        code = decode_json(answer.body, _Refusal).error.code
    except (msgspec.MsgspecError, ValueError, RecursionError):  # of something between us and Graph
        code = ""
    return Said(answer.status, code if _CODE.fullmatch(code) else "", answer.retry_after)


def read(answer: https.Answer, kind: type[_T]) -> _T:
    """What an answer holds, in JSON. Raises RemoteFault."""
    try:
        return decode_json(answer.body, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed("graph") from error
