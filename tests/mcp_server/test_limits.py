"""Whatever a mailbox holds, no answer of a tool passes its bound; a file of 25 MB comes out by its link (show 3)."""

import hashlib
import http.client
import os
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.mcp_server.bounding import CHECKS, Reader, not_asked, reading
from tests.mcp_server.giant import Size
from tests.mcp_server.posted import calling, post_to
from tests.operations.test_large_download import forget_peak, message, peak
from tests.servers.corpus import CorpusMessage
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance

MIB = 1 << 20
SIZE = 25 * MIB
#: What reading it may add to the process: some chunks, and the cache of the database's connections.
MOST_GROWTH = 12 * MIB
SMALL = Size(messages=600, folders=300, labels=400, accounts=40, conversation=60, scheduled=8, body=400_000)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with reading(tmp_path_factory.mktemp("giant") / "data", SMALL) as made:
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_no_answer_is_too_long(reader: Reader, check: Callable[[Reader], None]) -> None:
    check(reader)


def test_every_tool_that_reads_was_asked(reader: Reader) -> None:
    assert not_asked(reader) == set()


def fetched(url: str) -> tuple[str, int]:
    """SHA-256 and size of what lies at an address, read piece by piece; no token is shown."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=60)
    connection.request("GET", place.path)
    response = connection.getresponse()
    assert response.status == 200, response.read(1000)
    digest, size = hashlib.sha256(), 0
    while chunk := response.read(64 * 1024):
        digest.update(chunk)
        size += len(chunk)
    connection.close()
    return digest.hexdigest(), size


@pytest.mark.slow
def test_25_mb_come_out_through_a_link(running: RunningAppliance, mail_server: MailServer) -> None:
    content = os.urandom(MIB) * 25
    user = mail_server.fresh_user()
    mail_server.fill(user, "INBOX", [CorpusMessage(message(content), 1_700_000_000, "")])
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    listed = f"/accounts/{account}/messages"
    wait_until(lambda: len(running.ask("GET", listed).data["items"]) == 1, lambda: "the message does not come", 30)
    (item,) = running.ask("GET", listed).data["items"]
    (file,) = running.ask("GET", f"{listed}/{item['id']}").data["attachments"]
    assert running.process is not None
    place = urlsplit(running.url)
    wanted = {"accountId": account, "messageId": item["id"], "attachmentId": file["id"]}
    for inline in (False, True):
        arguments = calling("download_attachment", **wanted, inline=inline)
        posted = post_to((str(place.hostname), int(place.port or 0)), str(running.token), arguments)
        forget_peak(running.process.pid)
        before = peak(running.process.pid)
        assert len(posted.content.decode()) < 2_048
        link = posted.result["structuredContent"]["data"]["url"]
        assert fetched(link) == (hashlib.sha256(content).hexdigest(), SIZE)
        assert peak(running.process.pid) - before < MOST_GROWTH
