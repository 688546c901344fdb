"""Clients that follow events: pages, requests that wait, and streams."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.servers.running import Answer, RunningAppliance


def events(running: RunningAppliance, token: str, after: str | None = None, **query: object) -> dict[str, Any]:
    """One page of events."""
    given = {name: value for name, value in (("after", after), *query.items()) if value is not None}
    answer: Answer = running.ask("GET", f"/events?{urlencode(given)}", token=token, timeout=60)
    assert answer.status == 200, answer.body
    page: dict[str, Any] = answer.data
    return page


def all_events(running: RunningAppliance, token: str, after: str, **query: object) -> list[dict[str, Any]]:
    """All events after a position that are there now."""
    found: list[dict[str, Any]] = []
    while page := events(running, token, after, **query):
        assert not page["reset"]
        found += page["items"]
        if page["nextPosition"] == after or not page["items"]:
            break
        after = page["nextPosition"]
    return found


@dataclass
class Stream:
    """An open stream of events; iterating over it yields each event as (id, event, data), and comments as None."""

    running: RunningAppliance
    token: str
    query: dict[str, object] = field(default_factory=dict)
    last_event_id: str | None = None

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(self.running.url).netloc, timeout=30)
        headers = {"Authorization": f"Bearer {self.token}"}
        if self.last_event_id is not None:
            headers["Last-Event-ID"] = self.last_event_id
        self._connection.request("GET", f"/api/v1/events/stream?{urlencode(self.query)}", headers=headers)
        self.response = self._connection.getresponse()

    def __iter__(self) -> Iterator[tuple[str, str, Any] | None]:
        told: dict[str, str] = {}
        for line in self.response:
            text = line.decode().rstrip("\n")
            if text.startswith(":"):
                yield None
            elif text:
                name, _, value = text.partition(": ")
                told[name] = value
            elif told:
                yield told["id"], told["event"], json.loads(told["data"])
                told = {}

    def next_event(self) -> tuple[str, str, Any]:
        """The next event; comments are passed over."""
        return next(one for one in self if one is not None)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
