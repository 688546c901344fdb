"""An MCP client: the SDK's own client, with a loop of its own, for synchronous tests, over stdio or HTTP."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio.from_thread
import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

#: The two protocol versions: the mode of the client, and the version that it reports.
CURRENT, PREVIOUS = "2026-07-28", "legacy"
VERSIONS = {CURRENT: "2026-07-28", PREVIOUS: "2025-11-25"}
PATIENCE = 60.0


class Speaker(Protocol):
    """A client that can call tools; all values are as on the wire."""

    def tools(self) -> list[dict[str, Any]]:
        """Return the listed tools."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return `content`, `structuredContent` if there is one, and `isError` if it is true."""


@dataclass
class Assistant:
    """The SDK's client, connected. `portal` runs its loop; `statuses`: HTTP statuses, which the client hides."""

    client: Client
    portal: anyio.from_thread.BlockingPortal
    statuses: list[int] = field(default_factory=list)

    @property
    def version(self) -> str:
        return str(self.client.protocol_version)

    @property
    def instructions(self) -> str | None:
        """The server's instructions; None if this version has none."""
        return self.client.instructions

    def tools(self) -> list[dict[str, Any]]:
        """Request and return the listed tools, of all pages."""
        listed = self.portal.call(self._list)
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool. Raises MCPError for an error of the protocol."""
        return wire(self.portal.call(self._call, name, dict(arguments)))

    async def _list(self) -> list[mcp_types.Tool]:
        found, cursor = list[mcp_types.Tool](), None
        while True:
            page = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _call(self, name: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        return await self.client.call_tool(name, arguments, read_timeout_seconds=PATIENCE)


def wire(result: mcp_types.CallToolResult) -> dict[str, Any]:
    """Return a result as on the wire; nulls in the structure are kept."""
    content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    shown: dict[str, Any] = {"content": content}
    if result.structured_content is not None:
        shown["structuredContent"] = result.structured_content
    return shown | ({"isError": True} if result.is_error else {})


@contextmanager
def _alone() -> Iterator[None]:
    """Raise an error of the caller itself instead of nested groups of one error."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


@contextmanager
def over_http(url: str, token: str, mode: str = CURRENT) -> Iterator[Assistant]:
    """Connect to `/mcp` of an appliance. Raises what the SDK raises for a refusal."""
    with _alone(), anyio.from_thread.start_blocking_portal() as portal:
        statuses = list[int]()

        async def note(response: httpx2.Response) -> None:
            statuses.append(response.status_code)

        http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
            event_hooks={"response": [note]},
        )
        with portal.wrap_async_context_manager(http):
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            with portal.wrap_async_context_manager(Client(transport, mode=mode)) as client:
                yield Assistant(client, portal, statuses)


@contextmanager
def over_stdio(
    arguments: list[str], environment: Mapping[str, str], errors: Path, mode: str = CURRENT
) -> Iterator[Assistant]:
    """Connect to a child `mailbox-appliance ... mcp`, whose error output goes to a file."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mailbox_appliance", *arguments, "mcp"], env=dict(environment)
    )
    with _alone(), anyio.from_thread.start_blocking_portal() as portal, errors.open("w") as log:
        transport = stdio_client(server, errlog=log)
        with portal.wrap_async_context_manager(Client(transport, mode=mode)) as client:
            yield Assistant(client, portal)


def environment_of(folder: Path, token: str | None = None, **more: str) -> dict[str, str]:
    """Return the environment of a child that knows nothing of this user; its configuration is in `folder`."""
    given = {"MAILBOX_APPLIANCE_CONFIG_DIR": str(folder), "MAILBOX_APPLIANCE_KEYCHAIN": "off"}
    given |= {"PYTHONFAULTHANDLER": "1", "PATH": os.environ.get("PATH", "")}
    return given | ({} if token is None else {"MAILBOX_APPLIANCE_TOKEN": token}) | more


__all__ = ["Assistant", "MCPError", "Speaker", "environment_of", "over_http", "over_stdio", "wire"]
