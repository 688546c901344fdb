"""The tools in the words of the SDK: its server, which lists and calls them, whatever carries its messages."""

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from mailbox_appliance.mcp_server import calling, words
from mailbox_appliance.mcp_server.exchange import Exchange
from mailbox_appliance.mcp_server.tool import Shown, Tool
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.operations.caller import identify
from mailbox_appliance.version import __version__

log = logging.getLogger(__name__)

#: Key of an ASGI scope: the Exchange that a message belongs to.
EXCHANGE = "mailbox.exchange"

_NO_CURSOR = "There is no such cursor: all tools are listed at once."
_NO_TOOL = "There is no tool of this name; tools/list tells which there are."
_FAULT = "Something went wrong here. The log of the appliance tells more."


def server() -> "Server[Any]":
    """A server of the tools: it offers nothing else, and keeps nothing of anybody."""
    return Server(
        words.NAME,
        version=__version__,
        title=words.TITLE,
        instructions=words.INSTRUCTIONS,
        # Nothing of ours is mirrored into header fields; the SDK would list all tools with each call to see that.
        get_tool_input_schema=lambda _: None,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    if params is not None and params.cursor:
        raise MCPError(code=types.INVALID_PARAMS, message=_NO_CURSOR)
    exchange = _exchange(context)
    try:
        return types.ListToolsResult(tools=await exchange.run_in_thread(lambda: _listed(exchange)))
    except Exception as error:  # the SDK would tell its text
        log.exception("tools were not listed")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from error


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    exchange = _exchange(context)
    try:
        return await exchange.run_in_thread(
            lambda: _result(calling.call(exchange.context, params.name, params.arguments or {}))
        )
    except calling.UnknownTool:
        raise MCPError(code=types.INVALID_PARAMS, message=_NO_TOOL) from None
    except Exception as error:  # the SDK would tell its text
        log.exception("a tool gave no result")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from error


def _exchange(context: Any) -> Exchange:
    exchange: Exchange = context.request.scope[EXCHANGE]
    return exchange


def _listed(exchange: Exchange) -> list[types.Tool]:
    asked = exchange.context
    caller = identify(asked.appliance.store, asked.token, asked.origin)
    return [_described()[tool.name] for tool in calling.listed(caller)]


@cache
def _described() -> dict[str, types.Tool]:
    return {tool.name: _tool(tool) for tool in TOOLS}


def _tool(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.reads_only,
        destructive_hint=tool.destructive,
        idempotent_hint=tool.idempotent,
        open_world_hint=tool.open_world,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.help,
        input_schema=tool.input(),
        output_schema=tool.output(),
        annotations=hints,
    )


def _result(shown: Shown) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=shown.text), *_links(shown)]
    return types.CallToolResult(content=content, structured_content=shown.structured, is_error=shown.is_error)


def _links(shown: Shown) -> Iterator[types.ContentBlock]:
    for link in shown.links:
        yield types.ResourceLink(name=link.name, uri=link.url, mime_type=link.media_type, size=link.size)
        if shown.content is not None:
            blob = types.BlobResourceContents(uri=link.url, mime_type=link.media_type, blob=shown.content)
            yield types.EmbeddedResource(resource=blob)
