"""Send messages over Microsoft Graph: create a draft, add its files, send it, and get its state.

    create_draft ....... POST messages, the MIME in base64 as text/plain -> 201 with the ID
                         (learn.microsoft.com/graph/outlook-send-mime-message)
    attach_file ........ adds a file that does not fit into that MIME; `start_upload` for large files
    send_draft ......... POST messages/{id}/send -> 202: Exchange has accepted it (.../api/message-send)
    get_draft_state .... GET messages/{id}: a draft until it was sent; then missing for a moment, or in Sent Items
                         (.../outlook-immutable-id, "Immutable IDs with sending mail")

Every request asks for IDs that stay the same when a message moves. No request is repeated automatically.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from mailbox_appliance.mail.large import SplitAttachment
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote.errors import RemoteFault, fault_of_reply, malformed_fault, named_fault
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.providers import KnownProvider

#: Largest message in bytes; a request has at most 4 MB (learn.microsoft.com/graph/api/user-post-messages), in base64.
LARGEST_MESSAGE = 3_000_000
#: Largest response in bytes: Graph returns a whole draft, except for its attachments.
_LONGEST_ANSWER = 16 << 20
_VERSION = "v1.0"
_IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
_ID = re.compile(r"[A-Za-z0-9_+/=-]{1,1000}")
_CODE = re.compile(r"[A-Za-z0-9_.]{1,100}")
_GONE = "erroritemnotfound"
#: The largest number of drafts with one Message-ID that are searched.
_MOST_DRAFTS = 10

_UNKNOWN_UPLOAD_HOST = (
    "Microsoft Graph named an upload URL that is not allowed. In a national cloud, add its host to upload_hosts"
    " in the file of the setting remote.providers_file."
)

#: The state of a draft. `gone`: it is not a draft any more, and not in Sent Items yet.
DraftState = Literal["draft", "sent", "gone"]


@dataclass(frozen=True)
class GraphResponse:
    """The status of a response from Graph, and for an error its code (learn.microsoft.com/graph/errors).

    `retry_after`: the seconds to wait, if the response contains them (learn.microsoft.com/graph/throttling).
    """

    status: int
    code: str = ""
    retry_after: float | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The status and the code, in the form that `errors.fault_name_of_reply` expects."""
        return f"{self.status} {self.code}".strip()


class _Error(msgspec.Struct, frozen=True):
    code: str = ""


class _ErrorResponse(msgspec.Struct, frozen=True):
    error: _Error = _Error()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    id: str = ""
    is_draft: bool = True


class _Messages(msgspec.Struct, frozen=True):
    value: tuple[_Message, ...] = ()


class Graph:
    """Requests to Microsoft Graph for one mailbox.

    `of`: the address of a shared mailbox; None for the mailbox of the person who signed in.
    """

    def __init__(self, provider: KnownProvider, of: str | None, *, ca_file: str, timeout: float) -> None:
        owner = "me" if of is None else f"users/{quote(of, safe='@')}"
        self._root = f"{provider.api_url.rstrip('/')}/{_VERSION}/{owner}"
        is_public = not provider.is_named_by_operator(provider.api_url)
        self._options = https.HttpsOptions("graph", ca_file, timeout, only_public=is_public, limit=_LONGEST_ANSWER)
        self._provider = provider

    def create_draft(self, token: str, mime: bytes) -> str | GraphResponse:
        """Create a draft from a MIME message. Returns its ID, or a GraphResponse with the error if Graph refuses.

        Raises RemoteFault, also if the access token is refused.
        """
        headers = {"Content-Type": "text/plain"}
        answer = self._request("POST", "messages", token, headers, base64.b64encode(mime))
        if answer.status != 201:
            return graph_response_of(answer)
        found = answer.decode(_Message, "graph").id
        if not _ID.fullmatch(found):
            raise malformed_fault("graph")
        return found

    def send_draft(self, token: str, draft_id: str, timeout: float) -> GraphResponse:
        """Send a draft. Returns Graph's response, whatever its status.

        Raises RemoteFault if there is none. If that fault is not `in_doubt`, the draft was not sent.
        """
        options = replace(self._options, timeout=timeout)
        return graph_response_of(https.request("POST", f"{self._draft_url(draft_id)}/send", options, _headers(token)))

    def get_draft_state(self, token: str, draft_id: str) -> DraftState:
        """Return the state of a draft: `draft`, `sent`, or `gone` (no longer a draft, and not in Sent Items yet).

        Raises RemoteFault if Graph does not report the state. `gone` is returned only if the drafts folder can be read,
        because without access every draft looks gone.
        """
        answer = self._request("GET", f"messages/{quote(draft_id, safe='')}?$select=id,isDraft", token)
        said = graph_response_of(answer)
        if said.status == 404 and said.code.lower() == _GONE:
            said = graph_response_of(self._request("GET", "mailFolders/drafts?$select=id", token))
            if said.status == 200:
                return "gone"
        if said.status != 200:
            raise fault_of_response(said)
        return "draft" if answer.decode(_Message, "graph").is_draft else "sent"

    def find_drafts(self, token: str, message_id: str) -> tuple[str, ...]:
        """Return the IDs of at most 10 drafts with this Message-ID; empty if there are none. Raises RemoteFault."""
        wanted = quote(f"internetMessageId eq '{message_id.replace(chr(39), chr(39) * 2)}'", safe="")
        query = f"mailFolders/drafts/messages?$filter={wanted}&$select=id,isDraft&$top={_MOST_DRAFTS}"
        answer = self._request("GET", query, token)
        if answer.status != 200:
            raise fault_of_response(graph_response_of(answer))
        return tuple(
            each.id for each in answer.decode(_Messages, "graph").value if each.is_draft and _ID.fullmatch(each.id)
        )

    def delete_draft(self, token: str, draft_id: str) -> None:
        """Delete a draft that was not sent. Does nothing if it does not exist. Raises RemoteFault."""
        said = graph_response_of(self._request("DELETE", f"messages/{quote(draft_id, safe='')}", token))
        if said.status not in (204, 404):
            raise fault_of_response(said)

    def post_to_draft(self, token: str, draft_id: str, what: str, body: bytes) -> https.HttpsResponse:
        """Post JSON to a path below a draft, and return the response. `what`: that path. Raises RemoteFault."""
        path = f"messages/{quote(draft_id, safe='')}/{what}"
        return self._request("POST", path, token, {"Content-Type": "application/json"}, body)

    def put_upload(self, url: str, headers: Mapping[str, str], body: bytes) -> https.HttpsResponse:
        """Upload bytes to a URL that Graph returned for this purpose. The URL contains its own token.

        Raises RemoteFault, also if the host of the URL is not one of the provider's `upload_hosts`.
        """
        if not self._provider.takes_uploads_at(url):
            raise RemoteFault("graph", "forbidden_address", _UNKNOWN_UPLOAD_HOST)
        is_public = not self._provider.is_named_by_operator(url)
        return https.request("PUT", url, replace(self._options, only_public=is_public), headers, body)

    def _draft_url(self, draft_id: str) -> str:
        return f"{self._root}/messages/{quote(draft_id, safe='')}"

    def _request(
        self, method: str, path: str, token: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> https.HttpsResponse:
        whole = {**_headers(token), **(headers or {})}
        answer = https.request(method, f"{self._root}/{path}", self._options, whole, body)
        if answer.status == 401:
            raise named_fault("token_refused", "graph")
        return answer


def fault_of_response(said: GraphResponse) -> RemoteFault:
    """Return the fault that an error response of Graph stands for."""
    told = fault_of_reply("graph", said.text) or RemoteFault(
        "graph", "refused", ("Microsoft Graph refused the request.")
    )
    told.retry_after = said.retry_after
    return told


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **_IMMUTABLE}


def graph_response_of(answer: https.HttpsResponse) -> GraphResponse:
    """Return the status, error code and retry time of an HTTP response from Graph."""
    if answer.status < 400:
        return GraphResponse(answer.status)
    try:
        code = decode_json(answer.body, _ErrorResponse).error.code
    except (msgspec.MsgspecError, ValueError, RecursionError):  # from a proxy between the appliance and Graph
        code = ""
    return GraphResponse(answer.status, code if _CODE.fullmatch(code) else "", answer.retry_after)


# --- Files that are added to a draft, one after the other, each by its size ---
#
#     small ..... POST messages/{id}/attachments, a fileAttachment with its bytes in base64 -> 201
#                 (learn.microsoft.com/graph/api/message-post-attachments)
#     large ..... POST messages/{id}/attachments/createUploadSession -> 201 with an address with a token of its own;
#                 PUT of one range after the other there, without ours -> 200 with where the next begins, at last 201
#                 (learn.microsoft.com/graph/outlook-large-attachments)
#
# The address is a secret: it is neither logged nor kept, and stands in no fault.


#: Bytes from which a file is uploaded: "under 3 MB" fits into one request, which has at most 4 MB.
LEAST_UPLOADED = 3_000_000
#: Bytes of one range: at most 4 MB, in steps of 320 KiB, as for other uploads of Graph.
_RANGE = 12 * 320 * 1024
_LONGEST_URL = 16 << 10


class _UploadSession(msgspec.Struct, frozen=True, rename="camel"):
    upload_url: str = ""


class _NextRanges(msgspec.Struct, frozen=True):
    """The ranges of bytes that an upload URL expects next.

    Upload URLs can belong to an older API of Microsoft, whose field names begin with capitals. Both spellings are read.
    """

    small: tuple[str, ...] | None = msgspec.field(default=(), name="nextExpectedRanges")
    large: tuple[str, ...] | None = msgspec.field(default=(), name="NextExpectedRanges")


def attach_file(graph: Graph, token: str, draft_id: str, file: SplitAttachment) -> GraphResponse:
    """Add a small file to a draft, in one request. Returns Graph's response.

    Raises RemoteFault; even then the file may have been added.
    """
    described = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        **_describe_file(file),
        "contentBytes": base64.b64encode(file.content()).decode("ascii"),
    }
    return graph_response_of(graph.post_to_draft(token, draft_id, "attachments", msgspec.json.encode(described)))


def start_upload(graph: Graph, token: str, draft_id: str, file: SplitAttachment) -> "FileUpload | GraphResponse":
    """Create an upload session for a large file. Returns Graph's response if Graph refuses. Raises RemoteFault."""
    described = {"AttachmentItem": {"attachmentType": "file", **_describe_file(file), "size": file.size}}
    answer = graph.post_to_draft(token, draft_id, "attachments/createUploadSession", msgspec.json.encode(described))
    if answer.status not in (200, 201):
        return graph_response_of(answer)
    url = answer.decode(_UploadSession, "graph").upload_url
    if not url or len(url) > _LONGEST_URL:
        raise malformed_fault("graph")
    return FileUpload(graph, url)


def _describe_file(file: SplitAttachment) -> dict[str, Any]:
    described = {"name": file.name, "contentType": file.mime_type, "isInline": file.is_inline}
    return described if file.content_id is None else {**described, "contentId": file.content_id}


@dataclass(frozen=True)
class FileUpload:
    """An upload session, with which one large file is added to a draft."""

    _graph: Graph
    _url: str = field(repr=False)

    def upload(self, file: SplitAttachment) -> GraphResponse:
        """Upload the file in ranges of bytes, one after the other. Raises RemoteFault.

        Returns status 201 if Graph has the whole file, or the response that refused a range.
        """
        start = 0
        for piece in file.pieces(_RANGE):
            end = start + len(piece)
            while start < end:
                answer = self._put_range(piece[start - end :], start, file.size)
                if answer.status not in (200, 201, 202):
                    return graph_response_of(answer)
                start = _next_range_start(answer, start, end, file.size)
        return GraphResponse(201)

    def _put_range(self, some: bytes, start: int, size: int) -> https.HttpsResponse:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {start}-{start + len(some) - 1}/{size}",
        }
        return self._graph.put_upload(self._url, headers, some)


def _next_range_start(answer: https.HttpsResponse, start: int, end: int, size: int) -> int:
    """Return the offset at which Graph expects the next range.

    `start`, `end`: the range that was just sent. Raises RemoteFault unless the offset is within it or at its end.
    """
    if answer.status == 201:
        wanted = size
    else:
        said = answer.decode(_NextRanges, "graph")
        first = next(iter(said.small or said.large or ()), "").partition("-")[0]
        wanted = int(first) if first.isascii() and first.isdigit() and len(first) < 12 else -1
    if not start < wanted <= end:
        raise malformed_fault("graph")
    return wanted
