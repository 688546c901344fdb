"""An attachment of 60 MiB through the running appliance: whole, in little memory, and the first time in one fetch."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance, download

MIB = 1 << 20
SIZE = 60 * MIB
#: What downloading it may add to the process: some chunks, the cache of the database's connections, and what else the
#: appliance does meanwhile (14 MiB were seen). Far below the file.
MOST_GROWTH = SIZE // 3


def message(content: bytes) -> bytes:
    return (
        b"From: bob@example.test\r\nSubject: Large\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHere it is.\r\n--b\r\n"
        b"Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=large.bin\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(content).replace(b"\n", b"\r\n")
        + b"--b--\r\n"
    )


def peak(process: int) -> int:
    """The most memory that a process had since `forget_peak`, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def forget_peak(process: int) -> None:
    Path(f"/proc/{process}/clear_refs").write_text("5")


@pytest.mark.slow
def test_it_comes_whole_and_needs_little_memory(running: RunningAppliance, mail_server: MailServer) -> None:
    content = os.urandom(MIB) * 60
    user = mail_server.fresh_user()
    mail_server.deliver(user, message(content))
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    path = f"/accounts/{account}"
    wait_until(lambda: running.ask("GET", path).data["status"] == "ready", lambda: "the sync is not through", 60)
    (item,) = running.ask("GET", f"{path}/messages").data["items"]
    (listed,) = running.ask("GET", f"{path}/messages/{item['id']}").data["attachments"]
    assert abs(listed["sizeBytes"] - SIZE) < 100
    assert running.process is not None
    process = running.process.pid
    url = f"{running.url}/api/v1{path}"
    expected = (SIZE, hashlib.sha256(content).hexdigest())
    for _ in range(2):  # fetched, then kept
        forget_peak(process)
        before = peak(process)
        assert download(f"{url}/messages/{item['id']}/attachments/{listed['id']}", running.token) == expected
        assert peak(process) - before < MOST_GROWTH
    before = peak(process)
    size, _ = download(f"{url}/messages/{item['id']}/raw", running.token)
    assert size == len(message(content))
    assert peak(process) - before < MOST_GROWTH
