"""A mailbox at the real IMAP server that sends through a server that does what a test tells it."""

from dataclasses import dataclass
from typing import Any

from tests.checked_client import Answer, CheckedClient
from tests.operations.conftest import Mailbox
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until


@dataclass
class Box:
    """The mailbox, who asks for it, and what comes to it."""

    mailbox: Mailbox
    client: CheckedClient
    server: MailServer

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """A request below /accounts/ID."""
        return self.client.ask(method, f"/accounts/{self.mailbox.id}{path}", body, **more)

    def deliver(self, source: bytes, folder: str = "INBOX", flags: str = "") -> str:
        """A message that comes, or that another program has put there; answers its id."""
        before = self._ids(folder)
        self.server.deliver(self.mailbox.email, source, folder=folder, flags=flags)
        self.client.appliance.sync.wake(self.mailbox.id, folder)
        wait_until(lambda: bool(self._ids(folder) - before), lambda: "it is not here", 20)
        (new,) = self._ids(folder) - before
        return new

    def _ids(self, folder: str) -> set[str]:
        return {item["id"] for item in self.ask("GET", f"/messages?folder={folder}&limit=100").data["items"]}
