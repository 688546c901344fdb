"""A mailbox at the real server, connected through the API, with sync at work."""

from typing import Any

from tests.checked_client import Answer, CheckedClient
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import account_at, wait_until


def request_to_connect(server: MailServer, *, imap_port: int = 0) -> dict[str, Any]:
    """The body that connects a mailbox that nobody has used."""
    return account_at(server.fresh_user(), imap_port or server.imap_port, server.submission_port)


class ConnectedMailbox:
    """The mailbox and its owner."""

    def __init__(self, client: CheckedClient, server: MailServer) -> None:
        request = request_to_connect(server)
        self.client, self.server, self.user = client, server, request["email"]
        self.id = str(client.ask("POST", "/accounts", request).data["id"])
        wait_until(lambda: bool(self.ask("GET", "").data["status"] == "ready"), lambda: "it is not ready", 10)

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """A request below /accounts/ID."""
        return self.client.ask(method, f"/accounts/{self.id}{path}", body, **more)

    def act(self, action: str, *ids: str, **more: Any) -> Answer:
        """A bulk action."""
        return self.ask("POST", "/messages/actions", {"action": action, "messageIds": ids, **more})

    def deliver(self, *sources: bytes, folder: str = "INBOX", flags: str = "") -> list[str]:
        """Put messages into a folder; answers their ids when they are here, the newest first."""
        before = len(self.list(folder))
        self.server.deliver(self.user, *sources, folder=folder, flags=flags)
        self.client.appliance.sync.wake(self.id, folder)
        wait_until(lambda: len(self.list(folder)) == before + len(sources), lambda: str(self.list(folder)), 10)
        return [item["id"] for item in self.list(folder)][: len(sources)]

    def list(self, folder: str) -> list[Any]:
        """The messages of a folder, the newest first."""
        return list(self.ask("GET", f"/messages?folder={folder}&limit=100").data["items"])
