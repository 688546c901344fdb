"""Files that are added to a draft at Microsoft Graph: in one request or in ranges, and to no other host."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from mailbox_appliance.mail.large import SplitAttachment
from mailbox_appliance.remote import graph
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.graph import FileUpload, Graph, GraphResponse, attach_file, start_upload
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.providers import OUTLOOK, KnownProvider
from tests.servers.graph import GraphServer
from tests.servers.graph_script import Added

ADA, MIME = "ada@example.test", b"From: ada@example.test\r\n\r\nHello\r\n"
CONTENT = random.Random(1).randbytes(9_000_001)


class File(SplitAttachment):
    """A file of these bytes."""

    def __init__(self, content: bytes, name: str = "Grüße „1“.pdf", content_id: str | None = None) -> None:
        super().__init__(name, "application/pdf", content_id, content_id is not None, len(content), None)  # type: ignore[arg-type]
        object.__setattr__(self, "bytes", content)

    def content(self) -> bytes:
        return cast("bytes", self.bytes)  # type: ignore[attr-defined]

    def pieces(self, length: int) -> Iterator[bytes]:
        content = self.content()
        return (content[start : start + length] for start in range(0, len(content), length))


@pytest.fixture(scope="module")
def graph_there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphServer]:
    with GraphServer(tmp_path_factory.mktemp("graph"), lambda token: ADA if token == "good" else None) as there:
        yield there


@pytest.fixture
def there(graph_there: GraphServer) -> GraphServer:
    graph_there.forget()
    return graph_there


def known(there: GraphServer, *hosts: str) -> KnownProvider:
    named = frozenset({"localhost"})
    return replace(OUTLOOK, api_url=there.url, upload_hosts=hosts or (there.uploads.place,), named_by_operator=named)


def asking(there: GraphServer, *hosts: str) -> Graph:
    return Graph(known(there, *hosts), None, ca_file=str(there.ca_file), timeout=5)


def drafted(graph: Graph) -> str:
    made = graph.create_draft("good", MIME)
    assert isinstance(made, str)
    return made


def uploaded(graph: Graph, draft: str, content: bytes) -> GraphResponse:
    """Begin, and send all of it."""
    upload = start_upload(graph, "good", draft, File(content))
    assert isinstance(upload, FileUpload), upload
    return upload.upload(File(content))


def test_a_small_file_goes_in_one_request(there: GraphServer) -> None:
    graph = asking(there)
    draft = drafted(graph)
    content = CONTENT[:2_999_999]
    assert attach_file(graph, "good", draft, File(content)).status == 201
    assert attach_file(graph, "good", draft, File(b"x", "a", "a@b")).status == 201
    assert there.items[draft].files == [
        Added("Grüße „1“.pdf", "application/pdf", False, None, content),
        Added("a", "application/pdf", True, "a@b", b"x"),
    ]


def test_a_large_file_goes_in_ranges_without_our_token(there: GraphServer) -> None:
    graph = asking(there)
    draft = drafted(graph)
    upload = start_upload(graph, "good", draft, File(CONTENT, "a", "a@b"))
    assert isinstance(upload, FileUpload)
    assert "authtoken" not in repr(upload)
    assert upload.upload(File(CONTENT)) == GraphResponse(201)
    assert there.items[draft].files == [Added("a", "application/pdf", True, "a@b", CONTENT)]
    ranges = [each.headers["content-range"] for each in there.uploads.asked]
    assert ranges == [
        "bytes 0-3932159/9000001",
        "bytes 3932160-7864319/9000001",
        "bytes 7864320-9000000/9000001",
    ]
    assert not any("authorization" in each.headers or "prefer" in each.headers for each in there.uploads.asked)


def test_what_was_not_kept_of_a_range_is_sent_again(there: GraphServer) -> None:
    there.uploads.keeps = 1_500_000
    graph = asking(there)
    draft = drafted(graph)
    assert uploaded(graph, draft, CONTENT).status == 201
    assert there.items[draft].files[0].content == CONTENT
    assert len(there.uploads.asked) == 7


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"{"),
        (200, b'{"NextExpectedRanges": ["0-"]}'),  # nothing was kept: it would never end
        (200, b'{"NextExpectedRanges": ["3932161"]}'),  # more than was sent
        (200, b'{"nextExpectedRanges": ["-1"]}'),
        (200, '{"nextExpectedRanges": ["٣"]}'.encode()),
        (200, b'{"nextExpectedRanges": []}'),  # all is there, of which a part was sent
        (200, b'{"nextExpectedRanges": null}'),
        (200, b'{"nextExpectedRanges": [5]}'),
        (200, b'{"nextExpectedRanges": "1"}'),
        (201, b""),  # too early
    ],
)
def test_an_answer_that_makes_no_sense_is_a_fault(
    there: GraphServer, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    graph = asking(there)
    upload = start_upload(graph, "good", drafted(graph), File(CONTENT))
    assert isinstance(upload, FileUpload)
    asked = list[str]()

    def answer(method: str, *_: object) -> https.HttpsResponse:
        asked.append(method)
        return https.HttpsResponse(status, {}, body)

    monkeypatch.setattr(https, "request", answer)
    with pytest.raises(RemoteFault, match="graph: malformed"):
        upload.upload(File(CONTENT))
    assert asked == ["PUT"]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"", b'{"uploadUrl": ""}', b'{"uploadUrl": 5}', b'{"uploadUrl": null}'])
def test_an_upload_without_an_address_is_a_fault(
    there: GraphServer, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    graph = asking(there)
    draft = drafted(graph)
    monkeypatch.setattr(https, "request", lambda *_: https.HttpsResponse(201, {}, body))
    with pytest.raises(RemoteFault, match="graph: malformed"):
        start_upload(graph, "good", draft, File(CONTENT))


def test_what_graph_refuses_is_said(there: GraphServer) -> None:
    graph = asking(there)
    draft = drafted(graph)
    assert start_upload(graph, "good", draft, File(b"x")) == GraphResponse(
        400, "ErrorAttachmentSizeShouldNotBeLessThanMinimumSize"
    )
    assert attach_file(graph, "good", draft, File(CONTENT)) == GraphResponse(413, "RequestEntityTooLarge")
    with pytest.raises(RemoteFault, match="graph: login_refused"):
        attach_file(graph, "bad", draft, File(b"x"))
    with pytest.raises(RemoteFault, match="graph: login_refused"):
        start_upload(graph, "bad", draft, File(CONTENT))


# --- where uploads lead ---

PLACES = ("localhost:8443", "outlook.office.com")


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("https://outlook.office.com/api/v2.0/Users('a@b')/AttachmentSessions('x=')?authtoken=e.y-J", True),
        ("https://outlook.office.com:443/", True),
        ("https://OUTLOOK.office.com/", True),
        ("https://localhost:8443/x", True),
        ("http://outlook.office.com/", False),
        ("http://outlook.office.com:443/", False),
        ("HTTPS://outlook.office.com/", True),
        ("https://outlook.office.com:8443/", False),
        ("https://outlook.office.com:0/", False),
        ("https://outlook.office.com:x/", False),
        ("https://outlook.office.com./", False),
        ("https://outlook.office.com.evil.example/", False),
        ("https://evil.outlook.office.com/", False),
        ("https://evil.example/outlook.office.com", False),
        ("https://outlook.office.com@evil.example/", False),
        ("https://user:password@outlook.office.com/", False),
        ("https://evil.example#@outlook.office.com/", False),
        ("https://evil.example\\@outlook.office.com/", False),
        ("https://outlook.office.com\\.evil.example/", False),
        ("https:outlook.office.com/", False),
        ("//outlook.office.com/", False),
        ("ftp://outlook.office.com/", False),
        ("https://localhost/", False),
        ("https://localhost:443/", False),
        ("https://127.0.0.1:8443/", False),
        ("https://[::1]:8443/", False),
        ("https://[::1/", False),
        ("https://169.254.169.254/", False),
        ("https://outlook.\u200boffice.com/", False),
        ("https://ｏutlook.office.com/", False),
        ("", False),
        ("https://", False),
    ],
)
def test_where_an_upload_may_lead(url: str, is_taken: bool) -> None:
    provider = replace(OUTLOOK, upload_hosts=PLACES)
    assert provider.takes_uploads_at(url) is is_taken
    if is_taken:  # and there it goes
        assert https._parse_url(url, "graph").host in ("localhost", "outlook.office.com")


def test_no_range_is_too_large_for_a_request_or_for_a_slow_line() -> None:
    assert graph._RANGE < 4_000_000
    assert graph._RANGE % (320 * 1024) == 0
    reach = https.HttpsOptions("graph", "", 30)
    assert https.seconds_allowed(reach, graph._RANGE) == 30 + https.LONGEST_UPLOAD  # 6 kB a second
    assert graph.LEAST_UPLOADED * 4 // 3 + 4096 < 4 << 20
