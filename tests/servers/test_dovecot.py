"""The real mail servers start, deliver, refuse, and can be looked into."""

import imaplib
import smtplib
import ssl
from pathlib import Path

import pytest

from tests.servers import dovecot
from tests.servers.dovecot import CannotStart, MailServer

MESSAGE = b"From: alice@example.test\r\nSubject: hello\r\n\r\nfirst\r\n.second\r\n"


def test_submission_reaches_the_mailbox(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    context = ssl.create_default_context(cafile=str(mail_server.ca_file))
    with smtplib.SMTP_SSL("localhost", mail_server.smtps_port, context=context, timeout=10) as client:
        client.login("alice@example.test", "secret")
        client.sendmail("alice@example.test", user, MESSAGE)
    [message] = mail_server.wait_for_messages(user, 1)
    assert message.startswith(b"Return-Path: <alice@example.test>\r\n")
    assert message.endswith(b"\r\n\r\nfirst\r\n.second\r\n")


def test_starttls_and_refusals(mail_server: MailServer) -> None:
    with smtplib.SMTP("localhost", mail_server.submission_port, timeout=10) as client:
        client.starttls(context=ssl.create_default_context(cafile=str(mail_server.ca_file)))
        with pytest.raises(smtplib.SMTPAuthenticationError):
            client.login("alice@example.test", "wrong")
        client.login("alice@example.test", "secret")
        client.mail("bob@example.test")
        assert client.rcpt("alice@example.test")[0] == 553
        client.rset()
        client.mail("alice@example.test")
        assert client.rcpt("nobody@example.test")[0] == 550


def test_inbound_takes_local_recipients_only(mail_server: MailServer) -> None:
    with smtplib.SMTP(mail_server.host, mail_server.smtp_port, timeout=10) as client:
        client.sendmail("stranger@elsewhere.test", "bob@example.test", MESSAGE)
        client.mail("stranger@elsewhere.test")
        assert client.rcpt("other@elsewhere.test")[0] == 554
    mail_server.wait_for_messages("bob@example.test", 1)


def test_folders_and_what_lies_in_them(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    mail_server.make_folder(user, "Bücher/Alte")
    mail_server.deliver(user, MESSAGE, MESSAGE.replace(b"first", b"later"), folder="Bücher/Alte", flags="\\Seen")
    assert mail_server.messages(user, "Bücher/Alte") == [MESSAGE, MESSAGE.replace(b"first", b"later")]
    assert (mail_server.messages(user), mail_server.messages(user, "Sent")) == ([], [])
    assert mail_server.doveadm("mailbox", "status", "-u", user, "unseen", "Bücher/Alte").split()[-1] == "unseen=0"


def test_special_use_and_the_extensions_of_a_good_server(mail_server: MailServer) -> None:
    context = ssl.create_default_context(cafile=str(mail_server.ca_file))
    with imaplib.IMAP4_SSL("localhost", mail_server.imaps_port, ssl_context=context, timeout=10) as client:
        client.login(mail_server.fresh_user(), "secret")
        _, [capabilities, *_] = client.capability()
        assert {b"IDLE", b"MOVE", b"UIDPLUS", b"CONDSTORE", b"QRESYNC", b"SPECIAL-USE"} <= set(capabilities.split())
        _, folders = client.list()
        assert any(b"\\Sent" in line for line in folders if isinstance(line, bytes))


def test_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"closed to the users|too long a path|must be run as root|scripts/setup"):
        MailServer().start(tmp_path)


def test_waiting_ends_with_a_complaint() -> None:
    with pytest.raises(AssertionError, match="nothing came"):
        dovecot.wait_until(lambda: False, lambda: "nothing came", timeout=0.02)
