"""The demo's mail servers in their own process, used by third-party IMAP and SMTP clients."""

import json
import smtplib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import psutil
import pytest
from imapclient import IMAPClient
from imapclient.exceptions import LoginError

from mailbox_appliance.demo import mail as demo_mail
from mailbox_appliance.demo import maildir
from mailbox_appliance.demo.handshake import CleanupOrder, ServersReady

LETTERS = demo_mail.list_letters()
ME, MIRA = demo_mail.OWNER_EMAIL, demo_mail.COLLEAGUE_EMAIL


def run_servers(folder: Path) -> "subprocess.Popen[str]":
    command = (sys.executable, "-P", "-W", "error", "-m", "mailbox_appliance.demo.servers", str(folder))
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_line(process: "subprocess.Popen[str]") -> ServersReady:
    assert process.stdout
    return ServersReady(**json.loads(process.stdout.readline()))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServersReady]:
    with run_servers(tmp_path_factory.mktemp("mail")) as process:
        yield first_line(process)
        process.communicate(timeout=60)
        assert process.returncode == 0


@contextmanager
def imap(servers: ServersReady, name: str = ME) -> Iterator[IMAPClient]:
    client = IMAPClient("127.0.0.1", servers.imap_port, ssl=False, timeout=10)
    try:
        client.login(name, servers.password)
        yield client
    finally:
        client.shutdown()


@contextmanager
def smtp(servers: ServersReady, name: str = ME) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=10) as client:
        client.login(name, servers.password)
        yield client


def mail(subject: str, to: str = ME, sender: str = ME) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message["Message-ID"] = f"<{subject}@tests.example>"
    message.set_content("Hello.\n\n.\n.. dots\n")
    return message


def found(look: Callable[[], list[Any]], seconds: float = 60) -> list[Any]:
    """Return the result of `look` as soon as it is not empty."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.02)
    return seen


def with_subject(client: IMAPClient, subject: str, folder: str = "INBOX") -> list[int]:
    client.select_folder(folder)
    return list(client.search(["SUBJECT", subject]))


FLAGS = {"S": b"\\Seen", "F": b"\\Flagged", "R": b"\\Answered", "D": b"\\Draft"}


@pytest.mark.parametrize("folder", sorted({letter.folder for letter in LETTERS}))
def test_the_sample_is_there_byte_for_byte(servers: ServersReady, folder: str) -> None:
    with imap(servers) as client:
        client.select_folder(folder, readonly=True)
        rows = client.fetch(client.search(), ["BODY.PEEK[]", "RFC822.SIZE", "INTERNALDATE", "FLAGS"]).values()
    by_id = {message_from_bytes(row[b"BODY[]"])["Message-ID"]: row for row in rows}
    for letter in (letter for letter in LETTERS if letter.folder == folder):
        row = by_id[message_from_bytes(letter.source)["Message-ID"]]
        received_at = row[b"INTERNALDATE"].astimezone(UTC)
        composed_at = received_at + (received_at - letter.sent_at(received_at))
        assert row[b"BODY[]"] == letter.content(composed_at)
        assert row[b"RFC822.SIZE"] == len(row[b"BODY[]"])
        assert set(row[b"FLAGS"]) - {b"\\Recent"} == {FLAGS[flag] for flag in letter.flags}


def test_folders_and_what_the_server_can_do(servers: ServersReady) -> None:
    with imap(servers) as client:
        folders = {name: flags for flags, _, name in client.list_folders()}
        assert set(folders) == {"INBOX", *maildir.FOLDERS}
        assert not any(b"\\Noselect" in flags for flags in folders.values())
        assert {b"IDLE", b"UIDPLUS", b"MOVE"} <= set(client.capabilities())


def test_a_copy_is_put_into_sent(servers: ServersReady) -> None:
    content = mail("append-to-sent", MIRA).as_bytes(policy=SMTP)
    with imap(servers) as client:
        answer = client.append("Sent", content, flags=(b"\\Seen",))
        (uid,) = with_subject(client, "append-to-sent", "Sent")
        row = client.fetch([uid], ["BODY.PEEK[]", "FLAGS"])[uid]
    assert b"APPENDUID" in answer
    assert row[b"BODY[]"] == content
    assert b"\\Seen" in row[b"FLAGS"]


def test_mail_arrives_and_is_pushed(servers: ServersReady) -> None:
    with imap(servers) as client, smtp(servers) as sender:
        before = client.select_folder("INBOX")[b"EXISTS"]
        client.idle()
        sender.send_message(mail("pushed", f"{ME}, {MIRA}"))
        sent_at = time.monotonic()
        pushed = found(lambda: [row for row in client.idle_check(timeout=2) if row[-1] == b"EXISTS"])
        assert time.monotonic() - sent_at < 2, "mail is seen within 2 s"
        client.idle_done()
        assert (before + 1, b"EXISTS") in pushed
        (uid,) = with_subject(client, "pushed")
        content = client.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"]
        assert content.startswith(b"Return-Path: <demo@demo.test>\r\nReceived: from ")
        assert content.endswith(b"\r\n\r\nHello.\r\n\r\n.\r\n.. dots\r\n")
        with imap(servers, MIRA) as other:
            assert len(with_subject(other, "pushed")) == 1


def test_messages_are_flagged_moved_and_removed(servers: ServersReady) -> None:
    with imap(servers) as client:
        client.append("INBOX", mail("to-be-moved").as_bytes(policy=SMTP))
        (uid,) = with_subject(client, "to-be-moved")
        client.add_flags([uid], [b"\\Flagged"])
        client.move([uid], "Archive")
        assert with_subject(client, "to-be-moved") == []
        (uid,) = with_subject(client, "to-be-moved", "Archive")
        assert b"\\Flagged" in client.fetch([uid], ["FLAGS"])[uid][b"FLAGS"]
        client.delete_messages([uid])
        client.uid_expunge([uid])
        assert with_subject(client, "to-be-moved", "Archive") == []


@pytest.mark.parametrize(("name", "password"), [(ME, "wrong"), (ME, ""), ("nobody@demo.test", None), ("", None)])
def test_a_wrong_password_is_refused(servers: ServersReady, name: str, password: str | None) -> None:
    given = servers.password if password is None else password
    client = IMAPClient("127.0.0.1", servers.imap_port, ssl=False, timeout=10)
    try:
        with pytest.raises(LoginError):
            client.login(name or " ", given)
    finally:
        client.shutdown()
    with smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=10) as sender:
        sender.ehlo()
        with pytest.raises(smtplib.SMTPAuthenticationError):
            sender.auth("PLAIN", lambda _challenge=None: f"\0{name}\0{given}")


@pytest.mark.parametrize(
    ("sender", "recipient", "code"),
    [
        (ME, "anybody@example.com", 550),
        (ME, "nobody@demo.test", 550),
        (ME, "mira@demo.test.example.com", 550),
        (MIRA, ME, 553),
        ("", ME, 553),
        (ME, MIRA.upper(), 250),
    ],
)
def test_mail_stays_on_this_computer(servers: ServersReady, sender: str, recipient: str, code: int) -> None:
    with smtp(servers) as client:
        answer, _ = client.mail(sender)
        if answer == 250:
            answer, _ = client.rcpt(recipient)
    assert answer == code


def test_nobody_sends_without_logging_in(servers: ServersReady) -> None:
    with smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=10) as client:
        client.ehlo()
        assert client.mail(ME)[0] == 530


def test_the_lost_recipient_leaves_one_in_doubt(servers: ServersReady) -> None:
    client = smtplib.SMTP("127.0.0.1", servers.smtp_port, timeout=10)
    with closing(client):
        client.login(ME, servers.password)
        client.mail(ME)
        assert [client.rcpt(name)[0] for name in ("lost@demo.test", MIRA)] == [250, 250]
        with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
            client.data(mail("in-doubt", "lost@demo.test").as_bytes(policy=SMTP))
    with imap(servers, MIRA) as other:
        assert len(with_subject(other, "in-doubt")) == 1, "the others have it"


def test_the_servers_end_with_whoever_started_them_and_carry_out_the_will(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "mail").mkdir(parents=True)
    with subprocess.Popen(("sleep", "60")) as sleeper, run_servers(scratch / "mail") as process:
        first_line(process)
        assert process.stdin
        process.stdin.write(CleanupOrder(sleeper.pid, str(scratch)).to_line())
        process.stdin.close()
        sleeper.wait(timeout=60)
        process.wait(timeout=60)
    assert process.returncode == 0
    assert not scratch.exists()


def test_a_will_that_was_taken_back_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "mail").mkdir()
    with subprocess.Popen(("sleep", "60")) as sleeper, run_servers(tmp_path / "mail") as process:
        first_line(process)
        process.communicate(CleanupOrder(sleeper.pid, str(tmp_path)).to_line() + CleanupOrder().to_line(), timeout=10)
        assert sleeper.poll() is None
        sleeper.kill()
    assert (tmp_path / "mail").is_dir()


def test_only_this_computer_is_served(servers: ServersReady) -> None:
    listening = [
        connection.laddr
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port in (servers.imap_port, servers.smtp_port)
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"] * 2
