"""What the tests of servers share."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from imapclient import IMAPClient

from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_letters import ALL, USER
from tests.servers.gmail_mailbox import GmailMailbox


@pytest.fixture
def gmail(gmail: Gmail) -> Gmail:
    """Gmail's double, with an account."""
    gmail.add(USER)
    return gmail


@pytest.fixture
def box(gmail: Gmail) -> GmailMailbox:
    return gmail.boxes[USER]


@pytest.fixture
def opens(gmail: Gmail) -> Iterator[Callable[..., IMAPClient]]:
    """Opens connections that are logged in, with a folder selected."""
    opened: list[IMAPClient] = []

    def opens(folder: str | None = ALL) -> IMAPClient:
        client = IMAPClient(gmail.host, gmail.imap_port, ssl=False, timeout=10)
        opened.append(client)
        client.login(USER, PASSWORD)
        if folder:
            client.select_folder(folder)
        return client

    yield opens
    for client in opened:
        with contextlib.suppress(OSError):  # closed already
            client.shutdown()
