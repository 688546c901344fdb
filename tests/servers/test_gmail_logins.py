"""Gmail's double: logins, faults, and mail that is sent."""

import base64
import imaplib
import json
import smtplib
from collections.abc import Callable

import pytest
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError, LoginError

from tests.servers.gmail import APP_PASSWORD, BYE, OVERQUOTA, PASSWORD, Gmail
from tests.servers.gmail_letters import ALL, USER, in_folders, letter
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.mailboxes import wait_until

Opens = Callable[..., IMAPClient]


def test_a_token_logs_in_and_a_wrong_one_is_told_why(gmail: Gmail) -> None:
    gmail.grant(USER, "good")
    said: list[bytes] = []

    def token(value: str) -> Callable[[bytes], bytes]:
        def answer(challenge: bytes) -> bytes:
            said.append(challenge)
            return b"" if len(said) > 1 else f"user={USER}\x01auth=Bearer {value}\x01\x01".encode()

        return answer

    with imaplib.IMAP4(gmail.host, gmail.imap_port, timeout=10) as client:
        with pytest.raises(imaplib.IMAP4.error, match="AUTHENTICATIONFAILED"):
            client.authenticate("XOAUTH2", token("bad"))
        assert json.loads(said[1])["schemes"] == "Bearer"
        said.clear()
        client.authenticate("XOAUTH2", token("good"))
        assert client.select()[0] == "OK"


def test_access_is_taken_back_and_logins_are_refused_in_gmails_words(gmail: Gmail, opens: Opens) -> None:
    client = opens()
    gmail.revoke(USER)
    with pytest.raises((IMAPClientError, OSError)):
        client.noop()
    for reply, words in ((None, "Invalid credentials"), (APP_PASSWORD, "Application-specific")):
        gmail.refuse_login(USER, reply or "NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)")
        with pytest.raises(LoginError, match=words):
            opens()
    gmail.forget()
    opens()


def test_sixteen_connections_are_one_too_many(gmail: Gmail, opens: Opens) -> None:
    clients = [opens() for _ in range(15)]
    with pytest.raises(LoginError, match="Too many simultaneous"):
        opens()
    clients[0].logout()
    wait_until(lambda: gmail.connections(USER) == 14, lambda: str(gmail.connections(USER)), 10)
    opens()


def test_commands_are_refused_and_connections_ended_as_told(gmail: Gmail, opens: Opens) -> None:
    client = opens()
    gmail.refuse("UID SEARCH", OVERQUOTA, times=1)
    with pytest.raises(IMAPClientError, match="OVERQUOTA"):
        client.search()
    client.search()
    gmail.refuse("NOOP", BYE)
    with pytest.raises(IMAPClientError):
        client.noop()


# --- sending ----------------------------------------------------------------------------------------------------------


def test_what_is_sent_appears_once_in_sent_and_with_its_recipients(gmail: Gmail, box: GmailMailbox) -> None:
    ben = gmail.add("ben@gmail.test")
    gmail.grant(USER, "good")
    source = letter("sent").replace(b"bob@example.test", USER.encode())
    with smtplib.SMTP(gmail.host, gmail.smtp_port, timeout=10) as client:
        client.ehlo()
        for token, code in (("bad", 535), ("good", 235)):
            given = base64.b64encode(f"user={USER}\x01auth=Bearer {token}\x01\x01".encode()).decode()
            answer = client.docmd("AUTH", f"XOAUTH2 {given}")
            assert (client.docmd("")[0] if answer[0] == 334 else answer[0]) == code
        client.sendmail(USER, ["ben@gmail.test"], source)
        client.sendmail(USER, [USER], source.replace(b"<sent@", b"<self@"))
    assert [in_folders(box, number) for number in box.letters] == [
        {ALL, "[Gmail]/Sent Mail"},
        {ALL, "[Gmail]/Sent Mail", "INBOX"},
    ]
    assert [in_folders(ben, number) for number in ben.letters] == [{ALL, "INBOX"}]


def test_mail_from_an_address_that_is_not_ones_own_is_sent_from_ones_own(gmail: Gmail, box: GmailMailbox) -> None:
    box.aliases = {"team@gmail.test"}
    with smtplib.SMTP(gmail.host, gmail.smtp_port, timeout=10) as client:
        client.login(USER, PASSWORD)
        for sender in ("team@gmail.test", "eve@example.test"):
            client.sendmail(USER, ["x@example.test"], letter("as").replace(b"bob@example.test", sender.encode()))
    team, eve = (each.source for each in box.letters.values())
    assert team.startswith(b"From: team@gmail.test\r\n")
    assert eve.startswith(b"From: ada@gmail.test\r\nX-Google-Original-From: eve@example.test\r\n")
