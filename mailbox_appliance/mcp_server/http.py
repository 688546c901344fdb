"""MCP over HTTP: answers POST /mcp, and loads the MCP SDK with the first message.

The SDK takes half a second and 31 MiB to load. It runs in an event loop in its own thread; the worker that waits for a
response runs the tools. Each POST is independent: no session and no stream is kept.
"""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Stopping
from mailbox_appliance.mcp_server.tool import RETRY_AFTER, CallContext
from mailbox_appliance.operations.operation import Origin

if TYPE_CHECKING:
    from mailbox_appliance.mcp_server.bridge import SdkBridge


class McpEndpoint:
    """Answers messages of callers that have been identified. The appliance is passed to each call, since a restore
    replaces it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bridge: SdkBridge | None = None
        self._is_closed = False

    def answer(
        self, appliance: Appliance, origin: Origin, token: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return HTTP status, header fields and body for the message in one POST. Raises Stopping once the endpoint is
        closed.
        """
        bridge = self._get_bridge()
        from mailbox_appliance.mcp_server.protocol import Exchange  # loads asyncio: 1 MiB that nothing else needs

        return bridge.answer(Exchange(CallContext(appliance, origin, token)), headers, body)

    def close(self) -> None:
        """Close the endpoint. Requests that wait for a response raise Stopping."""
        self._is_closed = True
        if (bridge := self._bridge) is not None:
            bridge.close()

    def _get_bridge(self) -> "SdkBridge":
        with self._lock:
            if self._bridge is None and not self._is_closed:
                from mailbox_appliance.mcp_server.bridge import SdkBridge

                self._bridge = SdkBridge()
            if self._is_closed or self._bridge is None:
                self.close()
                raise Stopping(retry_after=RETRY_AFTER)
            return self._bridge
