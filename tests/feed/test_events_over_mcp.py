"""`list_changes` over HTTP: calls that wait occupy no worker, and end with their credential."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checked_client import CheckedClient
from tests.feed.served import Served, serving
from tests.mcp_server.posted import PREVIOUS, calling
from tests.operations.filled import FilledMailbox, add_key
from tests.servers.mailboxes import wait_until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "data") as made:
        made.start()
        yield made


@pytest.fixture
def owner(served: Served) -> CheckedClient:
    return CheckedClient(served.appliance).set_up()


def begin(served: Served, token: str, **arguments: object) -> http.client.HTTPConnection:
    """Call the tool; the response is read later."""
    connection = http.client.HTTPConnection(served.place, timeout=60)
    fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "MCP-Protocol-Version": PREVIOUS}
    connection.request("POST", "/mcp", json.dumps(calling("list_changes", **arguments)), fields)
    return connection


def end(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


def test_waiting_calls_occupy_no_worker(served: Served, owner: CheckedClient) -> None:
    box = FilledMailbox(served.appliance, owner.member["id"])
    waiting = [begin(served, owner.token, after=served.position(), wait=30) for _ in range(20)]
    wait_until(lambda: len(served.appliance.readers) == 20, lambda: f"{len(served.appliance.readers)} wait", 20)
    assert served.open("/me", owner.token).status() == 200
    message = served.deliver(box.id, "Awaited")
    for one in waiting:
        status, body = end(one)
        shown = body["result"]["structuredContent"]
        assert (status, [item["data"]["id"] for item in shown["data"]["items"]]) == (200, [message])
        assert shown["untrusted"]
        assert shown["data"]["nextPosition"] in body["result"]["content"][0]["text"]


def test_a_call_that_waited_in_vain_says_where_to_go_on(served: Served, owner: CheckedClient) -> None:
    position = served.position()
    _, body = end(begin(served, owner.token, after=position, wait=1))
    assert body["result"]["structuredContent"]["data"] == {"items": [], "nextPosition": position, "reset": False}
    assert position in body["result"]["content"][0]["text"]


def test_a_waiting_call_ends_with_its_key(served: Served, owner: CheckedClient) -> None:
    key, token = add_key(served.appliance, owner.member["id"], "mail.read")
    waiting = begin(served, token, after=served.position(), wait=30)
    wait_until(lambda: len(served.appliance.readers) == 1, lambda: "nobody waits", 20)
    with served.store.database.transaction():
        served.store.api_keys.revoke(key)
    status, body = end(waiting)
    assert (status, body["error"]["code"]) == (401, "unauthenticated")


def test_a_position_of_another_store_says_that_all_must_be_read_anew(served: Served, owner: CheckedClient) -> None:
    _, body = end(begin(served, owner.token, after="00ff-7"))
    assert body["result"]["structuredContent"]["data"] == {
        "items": [],
        "nextPosition": served.position(),
        "reset": True,
    }
    assert "List mailboxes and messages again" in body["result"]["content"][0]["text"]


def test_a_request_without_a_position_waits_for_the_first_event(served: Served, owner: CheckedClient) -> None:
    box = FilledMailbox(served.appliance, owner.member["id"])
    waiting = served.open("/events", owner.token, wait=30)
    wait_until(lambda: len(served.appliance.readers) == 1, lambda: "nobody waits", 20)
    message = served.deliver(box.id, "Awaited")
    assert [one["data"]["id"] for one in waiting.data()["items"]] == [message]
