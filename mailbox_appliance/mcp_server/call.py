"""Calls a tool by its name; every failure becomes a result that explains it."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mailbox_appliance import logs
from mailbox_appliance.errors import Problem
from mailbox_appliance.mcp_server import render
from mailbox_appliance.mcp_server.arguments import rename_places
from mailbox_appliance.mcp_server.tool import CallContext, Tool, ToolResult
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.operations.operation import Caller
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import DISK_FULL_MESSAGE, is_disk_full

log = logging.getLogger(__name__)

_TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}


class UnknownTool(Exception):
    """The requested tool does not exist."""


def list_tools(caller: Caller) -> tuple[Tool, ...]:
    """Return the tools whose operations the caller has the capability for, in the order of the table."""
    return tuple(tool for tool in TOOLS if tool.may_be_used_by(caller))


def call_tool(asked: CallContext, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Call a tool and return its result. A failure is returned as a result too. Raises only UnknownTool."""
    tool = _TOOLS_BY_NAME.get(name)
    if tool is None:
        raise UnknownTool
    with _request_id() as request_id:
        try:
            return tool.handler(asked, arguments)
        except Problem as problem:
            if render.is_internal_error(problem):
                log.exception("mcp_tool_failed", extra={"tool": tool.name})
            rename_places(problem)
            return render.present_error(problem, request_id)
        except Exception as error:
            if is_disk_full(error, asked.appliance.folder):
                log.error("mcp_tool_disk_full", extra={"tool": tool.name})
                return render.present_error(Problem(), request_id, told=DISK_FULL_MESSAGE)
            log.exception("mcp_tool_failed", extra={"tool": tool.name})
            return render.present_error(Problem(), request_id)


@contextmanager
def _request_id() -> Iterator[str]:
    """Context manager: yield the ID of the HTTP request, or one that is created for this block and its log lines."""
    given = logs.request_id.get()
    if given is not None:
        yield given
        return
    made = new_id("req")
    token = logs.request_id.set(made)
    try:
        yield made
    finally:
        logs.request_id.reset(token)
