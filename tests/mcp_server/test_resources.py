"""Resources over stdio: the latest changes, and notifications about them."""

import http.client
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.mcp_server.resources import ALL_CHANGES, changes_uri
from tests.checked_client import CheckedClient
from tests.feed.served import Served, serving
from tests.mcp_server.posted import CURRENT, PREVIOUS, headers_of, message
from tests.mcp_server.test_stdio import HELLO, Talk
from tests.operations.filled import FilledMailbox, add_key, add_member

UPDATED = "notifications/resources/updated"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_META = {
    "io.modelcontextprotocol/protocolVersion": CURRENT,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


class Stage:
    """An appliance with a mailbox of the first member and one of another member, and MCP clients of a key."""

    def __init__(self, served: Served) -> None:
        self.served = served
        owner = CheckedClient(served.appliance).set_up()
        self.box = FilledMailbox(served.appliance, owner.member["id"])
        self.others = FilledMailbox(served.appliance, add_member(served.appliance, "eve"), "eve@example.org")
        self.uri = changes_uri(self.box.id)
        self.key, self.token = add_key(served.appliance, owner.member["id"], "mail.read")
        self.sending_key = add_key(served.appliance, owner.member["id"], "mail.send")[1]

    def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send a message to `/mcp`."""
        connection = http.client.HTTPConnection(self.served.place, timeout=60)
        connection.request("POST", "/mcp", body, headers)
        response = connection.getresponse()
        status, content = response.status, response.read()
        connection.close()
        return status, content

    def over_http(self, version: str, method: str, **params: Any) -> Any:
        """The response to a message over HTTP."""
        given = message(method, **params, **({"_meta": _META} if version == CURRENT else {}))
        return json.loads(self.post(json.dumps(given).encode(), headers_of(self.token, given, version))[1])

    def for_stdio(self, given: Any) -> tuple[int, bytes]:
        """What the command `mcp` gets for a message."""
        return self.post(json.dumps(given).encode(), headers_of(self.token, given, PREVIOUS))

    def revoke(self) -> None:
        with self.served.store.database.transaction():
            self.served.store.api_keys.revoke(self.key)


def asking(talk: Talk, version: str, method: str, **params: Any) -> Any:
    """The response to a message over stdio."""
    if version == PREVIOUS and not talk.asked:
        talk.say(HELLO)
        talk.hear()
    talk.say(message(method, **params, **({"_meta": _META} if version == CURRENT else {})))
    return talk.hear()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with serving(tmp_path / "data") as served:
        served.start()
        yield Stage(served)


@pytest.fixture
def talk(stage: Stage) -> Iterator[Talk]:
    """A client over stdio, which has not said anything yet."""
    made = Talk()
    made.posts = stage.for_stdio
    yield made
    made.close()


@pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
def test_resources_can_be_listed_and_read(stage: Stage, talk: Talk, version: str) -> None:
    ask = partial(asking, talk, version)
    listed = ask("resources/list")["result"]["resources"]
    assert [one["uri"] for one in listed] == [ALL_CHANGES, stage.uri]
    letter = stage.served.deliver(stage.box.id, "Read me")
    for uri in (ALL_CHANGES, stage.uri):
        (content,) = ask("resources/read", uri=uri)["result"]["contents"]
        assert letter in content["text"]
        assert stage.served.position() in content["text"]
        assert "<untrusted-" in content["text"].partition("Read me")[0]


@pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
def test_over_http_nothing_is_said_of_resources(stage: Stage, version: str) -> None:
    hello = ("initialize", HELLO["params"]) if version == PREVIOUS else ("server/discover", {})
    assert "resources" not in stage.over_http(version, hello[0], **hello[1])["result"]["capabilities"]


@pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
def test_what_cannot_be_read_is_refused(stage: Stage, talk: Talk, version: str) -> None:
    ask = partial(asking, talk, version)
    for uri in (changes_uri(stage.others.id), changes_uri("acc_unknown"), "mailbox://nothing", "file:///etc/passwd"):
        assert ask("resources/read", uri=uri)["error"]["code"] == -32602
    stage.token = stage.sending_key
    assert ask("resources/list")["result"]["resources"] == []
    assert "mail.read" in ask("resources/read", uri=ALL_CHANGES)["error"]["message"]


def test_a_resource_has_the_latest_changes_that_the_caller_sees(stage: Stage, talk: Talk) -> None:
    letters = [stage.served.deliver(stage.box.id, f"Letter {number}") for number in range(30)]
    for number in range(300):
        stage.served.deliver(stage.others.id, f"Other {number}")
    (content,) = asking(talk, CURRENT, "resources/read", uri=ALL_CHANGES)["result"]["contents"]
    assert letters[-1] in content["text"]
    assert letters[0] not in content["text"]
    assert "Other" not in content["text"]


def test_a_subscriber_is_told_of_changes(stage: Stage, talk: Talk) -> None:
    talk.say(HELLO)
    assert talk.hear()["result"]["capabilities"]["resources"] == {"subscribe": True, "listChanged": False}
    talk.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for uri in (stage.uri, ALL_CHANGES):
        talk.say(message("resources/subscribe", uri=uri))
        assert talk.hear()["result"] == {}
    stage.served.deliver(stage.others.id, "not yours")
    letter = stage.served.deliver(stage.box.id, "for you")
    told = [talk.hear(), talk.hear()]
    assert [one["method"] for one in told] == [UPDATED, UPDATED]
    assert {one["params"]["uri"] for one in told} == {stage.uri, ALL_CHANGES}
    talk.say(message("resources/read", uri=stage.uri))
    assert letter in talk.hear()["result"]["contents"][0]["text"]
    talk.say(message("resources/unsubscribe", uri=ALL_CHANGES))
    assert talk.hear()["result"] == {}
    for number in range(50):
        stage.served.deliver(stage.box.id, f"one of many {number}")
    assert talk.hear()["params"]["uri"] == stage.uri
    rest = [one["params"]["uri"] for one in talk.end()]
    assert rest in ([], [stage.uri])


def test_a_resource_that_cannot_be_read_cannot_be_subscribed_to(stage: Stage, talk: Talk) -> None:
    talk.say(HELLO)
    talk.hear()
    for uri in (changes_uri(stage.others.id), "mailbox://nothing"):
        talk.say(message("resources/subscribe", uri=uri))
        assert talk.hear()["error"]["code"] == -32602


def test_a_listener_is_told_of_changes_until_its_key_is_revoked(stage: Stage, talk: Talk) -> None:
    talk.say(message("server/discover", _meta=_META))
    said = talk.hear()["result"]["capabilities"]
    assert said["resources"] == {"subscribe": True, "listChanged": False}
    assert said["tools"] == {"listChanged": False}
    wanted = {"resourceSubscriptions": [stage.uri], "toolsListChanged": True}
    talk.say(message("subscriptions/listen", notifications=wanted, _meta=_META) | {"id": "listening"})
    begun = talk.hear()
    assert begun["method"] == "notifications/subscriptions/acknowledged"
    assert begun["params"]["notifications"] == {"resourceSubscriptions": [stage.uri]}
    stage.served.deliver(stage.box.id, "for you")
    told = talk.hear()
    assert (told["method"], told["params"]["uri"]) == (UPDATED, stage.uri)
    assert told["params"]["_meta"] == {SUBSCRIPTION: "listening"}
    stage.revoke()
    ended = talk.hear()
    assert (ended["id"], "result" in ended) == ("listening", True)


def test_an_open_subscription_holds_up_no_end(stage: Stage, talk: Talk) -> None:
    wanted = {"resourceSubscriptions": [ALL_CHANGES]}
    talk.say(message("subscriptions/listen", notifications=wanted, _meta=_META) | {"id": "listening"})
    talk.hear()
    talk.end()
    talk.ended.result(5)
