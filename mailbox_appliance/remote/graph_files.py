"""Files that are added to a draft at Microsoft Graph, one after the other, each by its size.

    small ..... POST messages/{id}/attachments, a fileAttachment with its bytes in base64 -> 201
                (learn.microsoft.com/graph/api/message-post-attachments)
    large ..... POST messages/{id}/attachments/createUploadSession -> 201 with an address that holds a token of its own;
                PUT of one range after the other there, without our token -> 200 with where the next begins, at last 201
                (learn.microsoft.com/graph/outlook-large-attachments)

The address is nobody's business: it is neither logged nor kept, and stands in no fault.
"""

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mailbox_appliance.mail.divided import LeftOut
from mailbox_appliance.remote import https
from mailbox_appliance.remote.faults import malformed
from mailbox_appliance.remote.graph import Graph, Said, read, said_in

#: Bytes of a file from which it is uploaded: "under 3 MB" it goes in one request, which has at most 4 MB.
LEAST_UPLOADED = 3_000_000
#: Bytes of one range: at most 4 MB, in steps of 320 KiB, as other uploads of Graph's want them.
_RANGE = 12 * 320 * 1024
_LONGEST_URL = 16 << 10


class _Session(msgspec.Struct, frozen=True, rename="camel"):
    upload_url: str = ""


class _Wanted(msgspec.Struct, frozen=True):
    """What is wanted next: the address answers in the words of an older API, whose names begin with capitals."""

    small: tuple[str, ...] | None = msgspec.field(default=(), name="nextExpectedRanges")
    large: tuple[str, ...] | None = msgspec.field(default=(), name="NextExpectedRanges")


def attach(graph: Graph, token: str, draft_id: str, file: LeftOut) -> Said:
    """Add a small file. Raises RemoteFault; what was asked for may have been done then."""
    described = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        **_described(file),
        "contentBytes": base64.b64encode(file.content()).decode("ascii"),
    }
    return said_in(graph.post_to_draft(token, draft_id, "attachments", msgspec.json.encode(described)))


def begin(graph: Graph, token: str, draft_id: str, file: LeftOut) -> "Upload | Said":
    """Have a large file be taken. Raises RemoteFault."""
    described = {"AttachmentItem": {"attachmentType": "file", **_described(file), "size": file.size}}
    answer = graph.post_to_draft(token, draft_id, "attachments/createUploadSession", msgspec.json.encode(described))
    if answer.status not in (200, 201):
        return said_in(answer)
    url = read(answer, _Session).upload_url
    if not url or len(url) > _LONGEST_URL:
        raise malformed("graph")
    return Upload(graph, url)


def _described(file: LeftOut) -> dict[str, Any]:
    described = {"name": file.name, "contentType": file.mime_type, "isInline": file.is_inline}
    return described if file.content_id is None else {**described, "contentId": file.content_id}


@dataclass(frozen=True)
class Upload:
    """A place that takes one file."""

    _graph: Graph
    _url: str = field(repr=False)

    def upload(self, file: LeftOut) -> Said:
        """Upload it, range by range, each once; 201 where it is all there. Raises RemoteFault."""
        start = 0
        for piece in file.pieces(_RANGE):
            end = start + len(piece)
            while start < end:
                answer = self._put_range(piece[start - end :], start, file.size)
                if answer.status not in (200, 201, 202):
                    return said_in(answer)
                start = _next(answer, start, end, file.size)
        return Said(201)

    def _put_range(self, some: bytes, start: int, size: int) -> https.Answer:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {start}-{start + len(some) - 1}/{size}",
        }
        return self._graph.put_upload(self._url, headers, some)


def _next(answer: https.Answer, start: int, end: int, size: int) -> int:
    """Where the next range begins: behind this one, or in it. Raises RemoteFault for what makes no sense."""
    if answer.status == 201:
        wanted = size
    else:
        said = read(answer, _Wanted)
        first = next(iter(said.small or said.large or ()), "").partition("-")[0]
        wanted = int(first) if first.isascii() and first.isdigit() and len(first) < 12 else -1
    if not start < wanted <= end:
        raise malformed("graph")
    return wanted
