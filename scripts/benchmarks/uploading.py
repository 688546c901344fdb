"""Measures uploads: memory of the serving process for a file of 25 MB, and the time of GET /me beside eight of them."""

import http.client
import os
import threading
import time
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

from benchmarks import stage
from benchmarks.figures import Figure, spread
from benchmarks.processes import MemoryWatch
from tests.servers.prober import Latency, Prober
from tests.servers.running import RunningAppliance

_SIZE, _AT_ONCE, _SECONDS, _ROUNDS, _SETTLED = 25_000_000, 8, 6.0, 3, 3.0


def measure() -> Iterator[Figure]:
    """An upload and a send with it, then eight uploads at once, repeatedly."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        file = os.urandom(_SIZE)
        yield _memory(running, account, mail.recipient, file)
        yield _latency(running, file)


def _memory(running: RunningAppliance, account: str, recipient: str, file: bytes) -> Figure:
    _send(running, account, recipient, _upload(running, file[:100_000]))  # what the first send loads stays loaded
    time.sleep(_SETTLED)
    assert running.process is not None
    with MemoryWatch(running.process.pid) as watch:
        time.sleep(_SETTLED)
        before = watch.peak_of_main
        _send(running, account, recipient, _upload(running, file))
        time.sleep(_SETTLED)
    grown = watch.peak_of_main - before
    return Figure(
        "memory for an upload of 25 MB and a send with it", grown, 20, "at most", " MiB", f"{before:.1f} MiB before"
    )


def _latency(running: RunningAppliance, file: bytes) -> Figure:
    _asked(running, 1)
    before, during = [], []
    for _ in range(_ROUNDS):
        before.append(_asked(running).p95)
        stop = threading.Event()
        threads = [threading.Thread(target=_keep_uploading, args=(running, file, stop)) for _ in range(_AT_ONCE)]
        for thread in threads:
            thread.start()
        during.append(_asked(running).p95)
        stop.set()
        for thread in threads:
            thread.join()
    return Figure(
        f"p95 of GET /me beside {_AT_ONCE} uploads of 25 MB",
        sorted(during)[_ROUNDS // 2] / sorted(before)[_ROUNDS // 2],
        2,
        "at most",
        "x",
        f"{spread(during, '.1f')} ms",
        f"in peace: {spread(before, '.1f')} ms",
    )


def _keep_uploading(running: RunningAppliance, file: bytes, stop: threading.Event) -> None:
    while not stop.is_set():
        running.ask("DELETE", f"/uploads/{_upload(running, file)}")


def _upload(running: RunningAppliance, file: bytes) -> str:
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=120)
    try:
        fields = {"Authorization": f"Bearer {running.token}"}
        connection.request("POST", "/api/v1/uploads?filename=file.bin", file, fields)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != 201:
        raise SystemExit(f"upload: {answer.status} {content[:200]!r}")
    return content.partition(b'"uploadId":"')[2].partition(b'"')[0].decode()


def _send(running: RunningAppliance, account: str, recipient: str, upload_id: str) -> None:
    body = {
        "to": [{"email": recipient}],
        "subject": "Bench",
        "body": {"text": "A file."},
        "attachments": [{"uploadId": upload_id}],
    }
    sent = running.ask("POST", f"/accounts/{account}/send", body, Idempotency_Key=uuid.uuid4().hex)
    if sent.status != 200 or sent.data["status"] != "succeeded":
        raise SystemExit(f"send: {sent.status} {sent.body}")


def _asked(running: RunningAppliance, seconds: float = _SECONDS) -> Latency:
    prober = Prober(running.url.removeprefix("http://"), running.token or "")
    time.sleep(seconds)
    return prober.stop()
