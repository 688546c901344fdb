"""An account of Gmail's double that tests begin with, letters for it, and where they are."""

import time
from typing import Any

from imapclient import IMAPClient

from tests.servers.gmail_mailbox import GmailMailbox

USER = "ada@gmail.test"
ALL, TRASH, SPAM = "[Gmail]/All Mail", "[Gmail]/Trash", "[Gmail]/Spam"


def letter(subject: str, *, fields: str = "", text: str = "body") -> bytes:
    """A message with this subject, and a Message-ID of it."""
    head = f"From: bob@example.test\r\nTo: {USER}\r\nMessage-ID: <{subject.replace(' ', '-')}@example.test>\r\n"
    return f"{head}{fields}Subject: {subject}\r\n\r\n{text}\r\n".encode()


def in_folders(box: GmailMailbox, number: int) -> set[str]:
    """The folders that show a message."""
    return {path for path, messages in box.contents().items() if number in messages.values()}


def heard(client: IMAPClient) -> list[Any]:
    """What IDLE tells; it has begun."""
    told: list[Any] = []
    end = time.monotonic() + 10
    while not told and time.monotonic() < end:
        told += client.idle_check(timeout=0.1)
    return told
