"""MCP over HTTP: answers POST /mcp, and loads the MCP SDK with the first message.

The SDK takes 0.4 seconds of processor time and 27 MiB to load. It runs in an event loop in its own thread; the worker
that waits for a response runs the tools. Each POST is independent: no session and no stream is kept.
"""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Stopping
from mailbox_appliance.feed.waiting import EventWait
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
    ) -> tuple[int, list[tuple[str, str]], bytes, EventWait | None]:
        """Return HTTP status, header fields and body for the message in one POST, and what it could wait for instead.

        Raises Stopping once the endpoint is closed.
        """
        bridge = self._get_bridge()
        from mailbox_appliance.mcp_server.protocol import Exchange  # loads asyncio: 1 MiB that nothing else needs

        asked = CallContext(appliance, origin, token)
        return *bridge.answer(Exchange(asked), headers, body), next(iter(asked.waits), None)

    def close(self) -> None:
        """Close the endpoint. Requests that wait for a response raise Stopping."""
        self._is_closed = True
        if (bridge := self._bridge) is not None:
            bridge.close()

    def _get_bridge(self) -> "SdkBridge":
        with self._lock:
            if self._bridge is None and not self._is_closed:
                with importing_sdk_parts():
                    from mailbox_appliance.mcp_server.bridge import SdkBridge

                self._bridge = SdkBridge()
            if self._is_closed or self._bridge is None:
                self.close()
                raise Stopping(retry_after=RETRY_AFTER)
            return self._bridge


# --- The parts of the SDK that a server needs ---
#
# The packages `mcp` and `mcp.server` import all their parts: a client, its HTTP library, and a second kind of server.
# These take 12 MiB of memory and a fifth of the time. A server needs single modules, which import each other directly.


_PACKAGES = ("mcp", "mcp.server")


@contextmanager
def importing_sdk_parts() -> Iterator[None]:
    """Context manager: until the block ends, modules of the SDK are imported without the code of its two packages.

    Afterwards an import of the packages works as usual. If one is loaded already, or is not where it should be, nothing
    is different. Only for one thread at a time.
    """
    bare = _bare_packages()
    sys.modules.update(bare)
    try:
        yield
    finally:
        for name, module in bare.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _bare_packages() -> dict[str, ModuleType]:
    if any(name in sys.modules for name in _PACKAGES):
        return {}
    bare: dict[str, ModuleType] = {}
    path = None
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None:
            return {}
        path = list(spec.submodule_search_locations)
        bare[name] = ModuleType(name)
        bare[name].__path__, bare[name].__spec__ = path, spec
    return bare
