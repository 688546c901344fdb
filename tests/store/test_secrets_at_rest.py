"""While the appliance runs and after it stopped, its directory has nothing readable of mail, people or secrets."""

import base64
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD as MAILBOX_PASSWORD
from tests.servers.running import PASSWORD, Answer, RunningAppliance

SUBJECTS = ("Zwetschgendatschi recipe", "Grünkohlessen im Dezember")
BODY = "The treasure is buried beneath the seventh lighthouse."
SENT_SUBJECT, SENT_BODY = "Quokka expedition budget", "Bring nine umbrellas to Rottnest."
WRONG_PASSWORD = "thermonuclear gherkin"
SENDER_NAME = "Bartholomew Quackenbush"
ATTACHMENT = "Schatzkarte-geheim.txt"


def source(number: int, to: str, subject: str) -> bytes:
    text = (
        f"From: {SENDER_NAME} <quackenbush@hideout.example>\r\nTo: {to}\r\nSubject: {subject}\r\n"
        f"Message-ID: <lighthouse-{number}@hideout.example>\r\nDate: Sat, 21 Nov 2026 05:00:0{number} +0000\r\n"
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=edge\r\n\r\n"
        f"--edge\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{BODY}\r\n"
        f"--edge\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename={ATTACHMENT}\r\n\r\nX\r\n"
        "--edge--\r\n"
    )
    return text.encode()


def traces(text: str) -> set[bytes]:
    """Return the forms of a text in a file: UTF-8, UTF-16, hex, quoted in JSON, and base64 at any offset."""
    plain = text.encode()
    shapes = {plain, plain.lower(), plain.hex().encode(), text.encode("utf-16-le"), text.encode("utf-16-be")}
    shapes.add(text.encode("ascii", "backslashreplace"))
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + plain)
        # The first and the last characters depend on the neighbours.
        shapes.add(encoded[(before * 8 + 5) // 6 : len(encoded) // 4 * 4 - 4])
    return shapes


def test_the_search_finds_what_it_looks_for() -> None:
    for before in range(5):
        raw = b"-" * before + BODY.encode() + b"- and more"
        for written in (raw, base64.b64encode(raw), raw.hex().encode(), raw.decode().encode("utf-16-le")):
            assert any(trace in written for trace in traces(BODY)), written


def found(files: dict[str, bytes], secrets: dict[str, str]) -> set[tuple[str, str]]:
    """Return file and secret if one contains the other."""
    return {
        (file, name)
        for file, content in files.items()
        for name, secret in secrets.items()
        if any(trace in content or trace in content.lower() for trace in traces(secret))
    }


def files_of(running: RunningAppliance) -> dict[str, bytes]:
    """Return every file of the data directory, and every other file that the process has open."""
    files = {
        str(path.relative_to(running.folder)): path.read_bytes() for path in running.folder.rglob("*") if path.is_file()
    }
    assert running.process is not None
    if running.process.poll() is None:
        for descriptor in Path(f"/proc/{running.process.pid}/fd").iterdir():
            if descriptor.is_file() and str(running.folder) not in os.readlink(descriptor):
                files[f"open: {os.readlink(descriptor)}"] = descriptor.read_bytes()
    return files


def wait_for(answer: Callable[[], Answer], is_there: Callable[[Any], bool]) -> Any:
    """Return the data of an answer, once it is as wanted."""
    deadline = time.monotonic() + 20
    while True:
        data = answer().data
        if is_there(data):
            return data
        assert time.monotonic() < deadline, data
        time.sleep(0.05)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningAppliance]:
    """A running appliance that waits for its setup."""
    process = RunningAppliance(tmp_path / "data").start()
    yield process
    process.stop()


@pytest.fixture
def secrets(running: RunningAppliance, mail_server: MailServer) -> dict[str, str]:
    """The texts that must not be readable, after an appliance has done one of everything."""
    code = (running.folder / "setup-code").read_text().strip()
    running.set_up()
    user, other = mail_server.fresh_user(), mail_server.fresh_user()
    mail_server.deliver(user, *(source(number, user, subject) for number, subject in enumerate(SUBJECTS)))
    login = {"email": "ada@example.org", "deviceName": "Ada's secret typewriter"}
    assert running.ask("POST", "/auth/login", {**login, "password": WRONG_PASSWORD}).status == 401
    again = running.ask("POST", "/auth/login", {**login, "password": PASSWORD}).data["token"]
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    listed = wait_for(
        lambda: running.ask("GET", f"/accounts/{account}/messages"), lambda data: len(data["items"]) == len(SUBJECTS)
    )
    whole = running.ask("GET", f"/accounts/{account}/messages/{listed['items'][0]['id']}").data
    assert BODY in whole["body"]["text"]
    message = {"to": [{"email": other}], "subject": SENT_SUBJECT, "body": {"text": SENT_BODY}}
    sent = running.ask("POST", f"/accounts/{account}/send", message, Idempotency_Key="expedition")
    assert sent.data["status"] == "succeeded"
    mail_server.wait_for_messages(user, 1, "Sent")
    return {
        "set-up code": code,
        **{f"subject {number}": subject for number, subject in enumerate((*SUBJECTS, SENT_SUBJECT))},
        **{f"text {number}": text for number, text in enumerate((BODY, SENT_BODY))},
        "sender": "quackenbush@hideout.example",
        "sender's name": SENDER_NAME,
        "own address": user,
        "recipient": other,
        "member": "ada@example.org",
        "device": login["deviceName"],
        "Message-ID": "lighthouse-0@hideout",
        "attachment": ATTACHMENT,
        "password": PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "mailbox password": f': "{MAILBOX_PASSWORD}"',  # as it would be in JSON
        "token": str(running.token),
        "other token": str(again),
        "a hash": "$argon2id$",
        "table": "CREATE TABLE",
    }


def test_nothing_readable_lies_in_the_data_directory(running: RunningAppliance, secrets: dict[str, str]) -> None:
    key = re.search(rb'"key": "([^"]+)"', (running.folder / "encryption.key").read_bytes())
    assert key is not None
    local_secret = re.search(rb'"secret": "([^"]+)"', (running.folder / "run.json").read_bytes())
    assert local_secret is not None
    secrets |= {"key": key[1].decode(), "local secret": local_secret[1].decode()}
    while_running = files_of(running)
    assert {"mailbox.db", "mailbox.db-wal", "mailbox.db-shm", "logs/appliance.log"} <= while_running.keys()
    assert len(while_running["mailbox.db-wal"]) > 50_000
    assert found(while_running, secrets) == {("encryption.key", "key"), ("run.json", "local secret")}
    assert [path for path in running.folder.rglob("*") if path.stat().st_mode & 0o077] == []
    assert running.stop() == 0
    after = files_of(running)
    assert sorted(after) == ["encryption.key", "lock", "logs/appliance.log", "logs/crash.txt", "mailbox.db"]
    assert not after["logs/crash.txt"]
    assert len(after["mailbox.db"]) > 200_000
    assert found(after, secrets) == {("encryption.key", "key")}
