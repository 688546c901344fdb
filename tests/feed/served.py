"""An appliance in this process behind a real listener, whose store a test changes itself; no mail server is asked."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import Clock
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer
from tests.operations.filled import letter

_MOMENT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
_uids = count(1000)


@dataclass
class Opened:
    """A request whose response is not read yet."""

    connection: http.client.HTTPConnection

    def status(self) -> int:
        """The status of the response."""
        response = self.connection.getresponse()
        response.read()
        self.connection.close()
        return response.status

    def data(self) -> Any:
        """The data of a response in JSON; None for an error."""
        body = json.loads(self.connection.getresponse().read())
        self.connection.close()
        return body.get("data")

    def events(self) -> list[dict[str, Any]]:
        """The events of a stream that has ended."""
        response = self.connection.getresponse()
        lines = response.read().decode().splitlines()
        self.connection.close()
        is_stream = response.status == 200
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")] if is_stream else []


class Served:
    """The appliance, its listener, and requests to it."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        given = settings.load(None, {}, {"webhooks.allow_private": True})
        self.appliance = Appliance(folder, given, clock)
        self.store = self.appliance.store
        self._mcp = McpEndpoint()
        self._server = HttpServer(App(self.appliance, assistants=self._mcp), [("127.0.0.1", 0)], workers=4)
        self.place = f"127.0.0.1:{self._server.addresses[0][1]}"

    def start(self) -> None:
        """Serve, tell readers and send webhooks; nothing else runs."""
        self._server.start()
        self.appliance.readers.start()
        self.appliance.webhook_sender.start()

    def stop(self) -> None:
        """Stop all of it."""
        self.appliance.readers.stop()
        self._server.stop(5)
        self._mcp.close()
        self.appliance.stop()

    def open(self, path: str, token: str, method: str = "GET", body: object = None, **query: object) -> Opened:
        """Send a request to the API; its response is read later."""
        connection = http.client.HTTPConnection(self.place, timeout=30)
        target = f"/api/v1{path}?{urlencode(query)}" if query else f"/api/v1{path}"
        fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, target, None if body is None else json.dumps(body), fields)
        return Opened(connection)

    def pages(self, token: str, after: str) -> list[dict[str, Any]]:
        """All events after a position, page by page; nothing if they are refused."""
        found: list[dict[str, Any]] = []
        while page := self.open("/events", token, after=after, limit=7).data():
            assert not page["reset"]
            found += page["items"]
            if not page["items"]:
                break
            after = page["nextPosition"]
        return found

    def position(self) -> str:
        """The position of now."""
        return self.store.changes.to_position(self.store.changes.end())

    def deliver(self, account_id: str, subject: str = "new") -> str:
        """Put a message into a mailbox; its ID."""
        inbox = self.store.folders.find(account_id, "INBOX")
        assert inbox is not None
        source = letter(subject)
        fetched = FetchedMessage(next(_uids), frozenset(), _MOMENT, len(source), source)
        (message_id,) = self.store.mailbox_writer.add(inbox, [(fetched, parse_message(source))])
        return message_id

    def change(self, sql: str, *values: object) -> None:
        """Change the store in a transaction of its own."""
        with self.store.database.transaction():
            self.store.database.change(sql, values)


@contextmanager
def serving(folder: Path, clock: Clock | None = None) -> Iterator[Served]:
    """Context manager: an appliance that serves nothing yet; see `Served.start`."""
    made = Served(folder, clock)
    try:
        yield made
    finally:
        made.stop()
