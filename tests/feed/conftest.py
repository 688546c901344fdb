"""An appliance that may send webhooks to this computer, and a mailbox in it."""

from collections.abc import Iterator

import pytest

from tests.console.house import Box, House
from tests.servers.dovecot import MailServer

_LETTER = (
    b"From: ann@example.org\r\nTo: bob@example.org\r\nSubject: %b\r\nMessage-ID: <%b@example.org>\r\n\r\nHello\r\n"
)


def letter(subject: str) -> bytes:
    """A message with this subject."""
    return _LETTER % (subject.encode(), subject.encode())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    """An appliance that makes no backups of its own."""
    settings = {"MAILBOX_APPLIANCE_BACKUP_DAILY": "no", "MAILBOX_APPLIANCE_WEBHOOKS_ALLOW_PRIVATE": "yes"}
    made = House(tmp_path_factory.mktemp("feed"), mail_server, environment=settings)
    yield made
    made.stop()


@pytest.fixture
def box(house: House) -> Box:
    """A mailbox with one message, of a new member."""
    return house.connect(house.add_member("ann"), letter("first"))
