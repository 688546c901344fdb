"""Uploads over sockets: they wait without a worker, hold few bytes, and leave nothing when they are interrupted."""

import hashlib
import http.client
import json
import os
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.uploads import Uploader
from mailbox_appliance.system.spool import Spool
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer
from tests.checked_client import CheckedClient
from tests.servers.running import RunningAppliance
from tests.web.wire import Wire, eventually, listening

MIB = 1 << 20
FILE = os.urandom(3 * MIB)


@pytest.fixture
def server(appliance: Appliance) -> Iterator[HttpServer]:
    appliance.upload_writer.submit(int).result()  # its thread stays
    with listening(App(appliance), workers=4) as made:
        yield made


def head(
    checked_client: CheckedClient, fields: str, path: str = "/uploads?filename=a.bin", method: str = "POST"
) -> bytes:
    host = f"Host: 127.0.0.1:8025\r\nAuthorization: Bearer {checked_client.token}\r\n"
    return f"{method} /api/v1{path} HTTP/1.1\r\n{host}{fields}\r\n".encode()


def rows(appliance: Appliance) -> tuple[int, int]:
    count = "SELECT (SELECT count(*) FROM uploads), (SELECT count(*) FROM upload_chunks)"
    return appliance.store.database.rows(count)[0]


def test_uploads_wait_for_the_writer_without_a_worker(
    checked_client: CheckedClient, appliance: Appliance, server: HttpServer
) -> None:
    may_write = threading.Event()
    appliance.upload_writer.submit(may_write.wait)
    wires = [Wire(server.addresses[0]) for _ in range(8)]
    for wire in wires:
        wire.send(head(checked_client, f"Content-Length: {len(FILE)}\r\n") + FILE)
    assert eventually(lambda: server.memory.taken == 8 * len(FILE))  # on the disk, until they are stored
    assert eventually(lambda: server.stats().busy_workers == 0)
    with Wire(server.addresses[0]) as other:
        assert other.send(head(checked_client, "", "/me", "GET")).answer().status == 200
    lost = wires.pop()
    lost.__exit__(None, None, None)
    may_write.set()
    answers = [wire.answer() for wire in wires]
    assert [answer.status for answer in answers] == [201] * 7
    assert {answer.json["data"]["sha256"] for answer in answers} == {hashlib.sha256(FILE).hexdigest()}
    assert eventually(lambda: server.memory.taken == 0)
    for wire in wires:
        wire.__exit__(None, None, None)


def test_a_chunked_upload_is_stored(checked_client: CheckedClient, appliance: Appliance, server: HttpServer) -> None:
    pieces = [FILE[at : at + 100_000] for at in range(0, len(FILE), 100_000)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    with Wire(server.addresses[0]) as wire:
        answer = wire.send(head(checked_client, "Transfer-Encoding: chunked\r\n") + body).answer()
    assert (answer.status, answer.json["data"]["sha256"]) == (201, hashlib.sha256(FILE).hexdigest())
    assert rows(appliance) == (1, 24)


INTERRUPTED = [f"Content-Length: {len(FILE)}\r\n", "Transfer-Encoding: chunked\r\n"]


@pytest.mark.parametrize("fields", INTERRUPTED)
def test_an_upload_that_is_interrupted_leaves_nothing(
    checked_client: CheckedClient, appliance: Appliance, server: HttpServer, fields: str
) -> None:
    part = FILE[: 2 * MIB]
    framed = part if "Length" in fields else b"%x\r\n%b\r\n" % (len(part), part)
    with Wire(server.addresses[0]) as wire:
        wire.send(head(checked_client, fields) + framed)
        assert eventually(lambda: server.memory.taken > 0)
    assert eventually(lambda: server.memory.taken == 0)
    assert rows(appliance) == (0, 0)


@pytest.mark.parametrize("size", [25 * MIB + 1, 60 * MIB])
def test_a_file_that_is_too_large_is_refused(
    checked_client: CheckedClient, appliance: Appliance, server: HttpServer, size: int
) -> None:
    with Wire(server.addresses[0]) as wire:
        answer = wire.send(head(checked_client, f"Content-Length: {size}\r\n") + bytes(size)).answer()
    assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")
    assert rows(appliance) == (0, 0)


def test_storing_and_reading_an_upload_holds_few_bytes(appliance: Appliance, checked_client: CheckedClient) -> None:
    spool, uploader = Spool(), Uploader(checked_client.member["id"], "session", "ses_1")
    for _ in range(25):
        spool.append(os.urandom(MIB))
    tracemalloc.start()
    try:
        made = appliance.store.uploads.add(uploader, "a.bin", "a/b", spool.content())
        digest = hashlib.sha256()
        for piece in appliance.store.uploads.get(uploader, made.upload_id).content.pieces():
            digest.update(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        spool.close()
    assert digest.hexdigest() == made.sha256
    assert peak < 2 * MIB


def test_uploads_that_wait_are_told_when_the_appliance_stops(
    checked_client: CheckedClient, appliance: Appliance, server: HttpServer
) -> None:
    is_busy, may_write = threading.Event(), threading.Event()

    def write() -> None:
        is_busy.set()
        may_write.wait()

    appliance.upload_writer.submit(write)
    assert is_busy.wait(30)  # else it would be the one that waits
    with Wire(server.addresses[0]) as wire:
        wire.send(head(checked_client, "Content-Length: 3\r\n") + b"abc")
        assert eventually(lambda: appliance.upload_writer._work_queue.qsize() == 1)
        appliance.upload_writer.shutdown(wait=False, cancel_futures=True)
        answer = wire.answer()
        may_write.set()
    assert answer.status in (429, 503)
    assert json.loads(answer.body)["error"]["message"]
    with Wire(server.addresses[0]) as wire:
        wire.send(head(checked_client, "Content-Length: 3\r\n") + b"abc")
        later = wire.answer()
    assert later.status == 503
    assert "is stopping" in json.loads(later.body)["error"]["message"]


def test_a_killed_appliance_keeps_whole_uploads_and_nothing_of_others(running: RunningAppliance) -> None:
    """Twelve uploads are under way or stored when it is killed."""
    content = os.urandom(4 * MIB)
    place = urlsplit(running.url).netloc
    stored = threading.Semaphore(0)

    def upload() -> None:
        fields = {"Authorization": f"Bearer {running.token}"}
        with (
            suppress(OSError, http.client.HTTPException),
            closing(http.client.HTTPConnection(place, timeout=30)) as connection,
        ):
            connection.request("POST", "/api/v1/uploads?filename=a.bin", content, fields)
            connection.getresponse().close()
        stored.release()

    threads = [threading.Thread(target=upload) for _ in range(12)]
    for thread in threads:
        thread.start()
    assert stored.acquire(timeout=30)
    assert running.process is not None
    running.process.kill()
    running.process.wait()
    for thread in threads:
        thread.join()
    store = Store.open(running.folder)
    try:
        store.cleaner.delete_uploads()
        rows_left = store.database.rows("SELECT member_id, id FROM uploads")
        assert rows_left
        assert store.database.value("SELECT count(*) FROM upload_chunks") == 32 * len(rows_left)
        for member, upload_id in rows_left:
            found = store.uploads.get(Uploader(member, "session", "any"), upload_id)
            assert hashlib.sha256(found.content.read()).hexdigest() == found.upload.sha256
    finally:
        store.close()
