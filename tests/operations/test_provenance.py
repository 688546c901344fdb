"""What a mailbox is told of the sender of a message, by what it has received and sent before."""

import pytest

from mailbox_appliance.mail.provenance import DMARC_FAILED, FIRST_TIME, LOOKALIKE, REPLIES_ELSEWHERE
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, letter


class Read:
    """A mailbox, and the warnings that reading its messages gives."""

    def __init__(self, client: CheckedClient) -> None:
        self.client = client
        self.box = FilledMailbox(client.appliance, client.member["id"])

    def deliver(self, sender: str, number: int, more: bytes = b"", folder: str = "INBOX", flags: str = "") -> str:
        source = letter("Hello", number=number)
        source = more + source.replace(b"Bob <bob@example.test>", sender.encode()).replace(
            b"bob@example.test", sender.encode()
        )
        (made,) = self.box.deliver(source, folder=folder, flags=flags)
        return made

    def warnings(self, message: str) -> list[str]:
        return self.client.ask("GET", f"/accounts/{self.box.id}/messages/{message}").warnings


@pytest.fixture
def read(checked_client: CheckedClient) -> Read:
    return Read(checked_client)


def test_only_the_first_message_of_a_sender_is_new(read: Read) -> None:
    first, second = read.deliver("carol@example.test", 1), read.deliver("CAROL@example.test", 2)
    other = read.deliver("carol@example.test.evil.test", 3)
    assert read.warnings(first) == [FIRST_TIME]
    assert read.warnings(second) == []
    assert read.warnings(other) == [FIRST_TIME], "a longer address is another one"
    assert read.warnings(first) == [FIRST_TIME], "it stays the first one"
