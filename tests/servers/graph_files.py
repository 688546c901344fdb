"""Files that are added to a draft at the double of Microsoft Graph, and the host that takes large ones.

The steps: attach (a small one comes), attached (it is there; then comes the answer), session, begun (the upload may
begin; then comes the answer), upload (a range comes), uploaded (it is there; then comes the answer).

As the documents have it:

    learn.microsoft.com/graph/api/message-post-attachments .. under 3 MB, and 4 MB of JSON in all; 201
    learn.microsoft.com/graph/outlook-large-attachments ..... from 3 MB to 150 MB; ranges in their order, without
                                                              Authorization; the older names of fields in answers
    .../graph/known-issues .................................. 403 for a mailbox that is shared
"""

import base64
import json
import re
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.servers.graph_script import Added, Item, Refused, Says, error, in_json
from tests.servers.listener import Answered, Asked, HttpListener

if TYPE_CHECKING:
    from tests.servers.graph import GraphServer

_MIB = 1 << 20
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_ITEM = {"attachmentType", "name", "contentType", "isInline", "contentId", "size"}
_FILE = {"@odata.type", "name", "contentType", "isInline", "contentId", "contentBytes"}


@dataclass
class Session:
    """An upload that has begun."""

    item: Item
    described: dict[str, object]
    size: int
    token: str
    content: bytearray


class UploadHost:
    """Takes files. `leads_to`: makes another address of the one that is answered. `least`: bytes from which it does."""

    def __init__(self, graph: "GraphServer", context: ssl.SSLContext) -> None:
        self._graph = graph
        self.least, self.most_in_all = 3_000_000, 35 * _MIB
        #: Whether files may be uploaded for mailboxes that are shared, too.
        self.is_for_all = False
        self.leads_to: Callable[[str], str] = lambda url: url
        #: How many bytes of a range are kept, where not all are.
        self.keeps: int | None = None
        self.sessions: dict[str, Session] = {}
        self.asked: list[Asked] = []
        self.listener = HttpListener(self.answer, "upload double", context)
        #: Host and port.
        self.place = f"localhost:{self.listener.port}"

    def forget(self) -> None:
        self.sessions.clear()
        self.asked.clear()
        self.leads_to, self.keeps, self.is_for_all = (lambda url: url), None, False

    def answer(self, asked: Asked) -> Answered:
        """Status, body and header fields. Raises HungUp."""
        self.asked.append(asked)
        try:
            return self._put(asked)
        except Refused as refused:
            return error(refused.says)

    # --- what comes to Graph ---

    def attach(self, item: Item, asked: Asked) -> Answered:
        """A small file is added."""
        self._graph.act("attach")
        if len(asked.body) > 4 * _MIB:
            raise Refused(Says(413, "RequestEntityTooLarge"))
        described = json.loads(asked.body)
        assert described["@odata.type"] == "#microsoft.graph.fileAttachment"
        assert set(described) <= _FILE, described.keys()
        self._add(item, described, base64.b64decode(described["contentBytes"], validate=True))
        self._graph.act("attached")
        return in_json(201, {"id": "AAMk", **described})

    def begin(self, user: str, item: Item, asked: Asked) -> Answered:
        """A large one is to come."""
        self._graph.act("session")
        (described,) = json.loads(asked.body).values()
        assert set(described) <= _ITEM, described.keys()
        assert described["attachmentType"] == "file"
        if item.owner != user and not self.is_for_all:
            raise Refused(Says(403, "ErrorAccessDenied"))
        if described["size"] < self.least:
            raise Refused(Says(400, "ErrorAttachmentSizeShouldNotBeLessThanMinimumSize"))
        if described["size"] > 150_000_000:
            raise Refused(Says(400, "ErrorAttachmentSizeLimitExceeded"))
        name, token = secrets.token_urlsafe(40), secrets.token_urlsafe(300)
        self.sessions[name] = Session(item, described, described["size"], token, bytearray())
        self._graph.act("begun")
        url = f"https://{self.place}/api/gv1.0/users('{item.owner}')/messages('{item.id}')/AttachmentSessions('{name}')"
        ends = "2099-09-25T01:09:30.7671707Z"
        answer = {"uploadUrl": self.leads_to(f"{url}?authtoken={token}"), "expirationDateTime": ends}
        return in_json(201, {**answer, "nextExpectedRanges": ["0-"]})

    def _put(self, asked: Asked) -> Answered:
        self._graph.act("upload")
        assert "authorization" not in asked.headers, "the address holds a token"
        assert asked.method == "PUT"
        assert asked.headers["content-type"] == "application/octet-stream"
        place = urlsplit(asked.target)
        session = self.sessions.get(place.path.rpartition("('")[2].removesuffix("')"))
        if session is None or session.item.id not in self._graph.items:
            raise Refused(Says(404, "ErrorItemNotFound"))
        if parse_qs(place.query)["authtoken"] != [session.token]:
            raise Refused(Says(401, "InvalidAuthenticationToken"))
        self._keep(session, asked)
        is_whole = len(session.content) == session.size
        if is_whole:
            self._add(session.item, session.described, bytes(session.content))
            del self.sessions[place.path.rpartition("('")[2].removesuffix("')")]
        self._graph.act("uploaded")
        if is_whole:
            return 201, b"", {"Location": f"https://{self.place}/api/gv1.0/.../Attachments('AAMk')"}
        return in_json(200, {"NextExpectedRanges": [str(len(session.content))]})

    def _keep(self, session: Session, asked: Asked) -> None:
        match = _RANGE.fullmatch(asked.headers["content-range"])
        assert match is not None
        start, end, size = map(int, match.groups())
        if start != len(session.content) or size != session.size or end >= size:
            raise Refused(Says(416, "ErrorInvalidRange"))
        assert len(asked.body) == end - start + 1
        if len(asked.body) > 4 * _MIB:
            raise Refused(Says(413, "RequestEntityTooLarge"))
        session.content += asked.body[: self.keeps]

    def _add(self, item: Item, described: dict[str, object], content: bytes) -> None:
        whole = sum(len(each.content) for each in item.files) + len(content) + len(item.mime)
        if whole > self.most_in_all:
            raise Refused(Says(400, "ErrorMessageSizeExceeded"))
        content_id = described.get("contentId")
        assert content_id is None or isinstance(content_id, str)
        name, mime_type = str(described["name"]), str(described["contentType"])
        item.files.append(Added(name, mime_type, described["isInline"] is True, content_id, content))
