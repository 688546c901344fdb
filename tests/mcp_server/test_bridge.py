"""The end of the endpoint: later requests get 503, and the SDK is not loaded for them."""

import sys
from collections.abc import Iterator

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Stopping
from mailbox_appliance.mcp_server.bridge import SdkBridge
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.mcp_server.protocol import Exchange
from mailbox_appliance.mcp_server.tool import CallContext
from mailbox_appliance.operations.operation import LOCAL

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HEADERS = [("Content-Type", "application/json"), ("Accept", "application/json")]
BRIDGE = "mailbox_appliance.mcp_server.http"


@pytest.fixture
def bridge() -> Iterator[SdkBridge]:
    made = SdkBridge()
    yield made
    made.close()


def test_a_closed_door_loads_nothing(timed: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    door = McpEndpoint()
    door.close()
    monkeypatch.delitem(sys.modules, BRIDGE)
    with pytest.raises(Stopping):
        door.answer(timed, LOCAL, "token", HEADERS, PING)
    assert BRIDGE not in sys.modules


def test_who_comes_after_the_end_is_told_so_at_once(timed: Appliance, bridge: SdkBridge) -> None:
    def ask() -> int:
        return bridge.answer(Exchange(CallContext(timed, LOCAL, "token")), HEADERS, PING)[0]

    assert ask() == 200
    bridge.close()
    with pytest.raises(Stopping):
        ask()
    bridge.close()
