"""HTTPS beside HTTP, at the same process: GET /me over kept connections, over new ones, and large downloads."""

import base64
import os
import time
from collections.abc import Iterator

from imapclient import IMAPClient

from benchmarks import stage
from benchmarks.asking import Asker
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.stage import Mail
from benchmarks.wire import load
from tests.servers.running import RunningAppliance
from tests.serving_proof.asking import connection_to

#: What `serve` is told, to answer by HTTPS on this computer.
SECURE = ("--https-port", "0", "--https-host", "127.0.0.1")
_CONNECTIONS, _SECONDS, _ROUNDS = 8, 3.0, 5
_LARGE, _DOWNLOADS = 25_000_000, 4


def measure() -> Iterator[Figure]:
    """Rounds in turn, so that all see the same machine. What is only told has the target 0."""
    with stage.scratch() as folder, stage.appliance(folder / "data", SECURE) as running:
        for version in ("1.3", "1.2"):
            yield _requests(running, version, kept=True, target=0.8)
        yield _requests(running, "1.3", kept=False, target=0)
        with stage.mail_servers(folder) as mail:
            yield _downloads(running, _large_message(running, mail))


def _requests(running: RunningAppliance, version: str, *, kept: bool, target: float) -> Figure:
    secure, token = str(running.https), running.token or ""

    def rate(url: str, seconds: float = _SECONDS) -> float:
        path = "/api/v1/me"
        return load(url, path, connections=_CONNECTIONS, seconds=seconds, token=token, tls=version, kept=kept).rate

    rate(secure, 0.5), rate(running.url, 0.5)
    ours, floor = zip(*[(rate(secure), rate(running.url)) for _ in range(_ROUNDS)], strict=True)
    how = f"{_CONNECTIONS} kept connections" if kept else "a connection each"
    name = f"GET /me, TLS {version} over HTTP, {how}"
    return Figure(
        name,
        ratio_of(ours, floor),
        target,
        "at least",
        "",
        f"{spread(ours)} a second",
        f"HTTP: {spread(floor)} a second",
    )


def _large_message(running: RunningAppliance, mail: Mail) -> str:
    """The path of a message of 25 MB, which the store has by then."""
    head = b"From: bob@example.test\r\nSubject: large\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    body = base64.encodebytes(os.urandom(_LARGE * 3 // 4)).replace(b"\n", b"\r\n")
    with IMAPClient("127.0.0.1", mail.imap_port, ssl=False) as imap:
        imap.login(mail.sender, mail.password)
        imap.append("INBOX", head + body)
    account = running.connect(mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password)
    stage.wait_until_ready(running, account)
    with Asker(running) as asker:
        path = f"/accounts/{account}/messages"
        raw = f"{path}/{asker.data(path)['items'][0]['id']}/raw"
        asker.body(raw)
        return raw


def _downloads(running: RunningAppliance, path: str) -> Figure:
    _megabytes_a_second(str(running.https), path, running.token or "")
    rates = [
        tuple(_megabytes_a_second(url, path, running.token or "") for url in (str(running.https), running.url))
        for _ in range(_ROUNDS)
    ]
    ours, floor = zip(*rates, strict=True)
    measured, beside = f"{spread(ours)} MB/s", f"HTTP: {spread(floor)} MB/s"
    return Figure("25 MB downloads, HTTPS over HTTP", ratio_of(ours, floor), 0, "at least", "", measured, beside)


def _megabytes_a_second(url: str, path: str, token: str) -> float:
    connection, room, size = connection_to(url), bytearray(1 << 18), 0
    began = time.perf_counter()
    for _ in range(_DOWNLOADS):
        connection.request("GET", "/api/v1" + path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"GET {path}: {response.status}")
        while got := response.readinto(room):
            size += got
    connection.close()
    return size / 1e6 / (time.perf_counter() - began)
