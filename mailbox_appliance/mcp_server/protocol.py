"""The MCP protocol: checks messages before the SDK sees them, and runs the SDK's server with the appliance's tools."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, Raw

from mailbox_appliance.errors import Problem
from mailbox_appliance.mcp_server import call, render, resources, tool
from mailbox_appliance.mcp_server.limits import to_sdk_result
from mailbox_appliance.mcp_server.tool import CallContext, Tool, ToolResult
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.operations.operation import identify
from mailbox_appliance.version import __version__

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

UNREADABLE = (
    "This is not valid JSON (RFC 8259) in UTF-8, is nested too deeply, or contains half of a surrogate pair (8.2)."
)
NOT_A_MESSAGE = "This is not a JSON-RPC 2.0 message"
_BATCH = "Batches are not supported. Send one message at a time."
_NOT_AN_OBJECT = f"{NOT_A_MESSAGE}: it must be an object."
_WRONG_RPC = f'{NOT_A_MESSAGE}: `jsonrpc` must be "2.0".'
_WRONG_ID = f"{NOT_A_MESSAGE}: `id` must be a string or a whole number of 64 bits."
_WRONG_METHOD = f"{NOT_A_MESSAGE}: `method` must be a string."
_UNEXPECTED_RESPONSE = "Unexpected response: this server sends no requests."
_WRONG_PARAMS = "`params` must be an object."
_NO_METHOD = "Unknown method: its name is too long."
_MAX_METHOD = _MAX_ID_LENGTH = 200  # characters
_MAX_ID = 2**63


class RpcError(Exception):
    """An error response of JSON-RPC to a message. `request_id`: the ID of the message; None if it has no valid one."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None, data: Any = None) -> None:
        self.code, self.message, self.request_id, self.data = code, message, request_id, data
        super().__init__(message)

    def to_json(self) -> bytes:
        """Return the error as a JSON-RPC message."""
        error = {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})
        return msgspec.json.encode({"jsonrpc": "2.0", "id": self.request_id, "error": error})


class RpcMessage(msgspec.Struct, frozen=True):
    """The fields of a JSON-RPC message; `params` are kept as unparsed JSON."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    result: Raw = Raw()
    error: Raw = Raw()
    params: Raw = Raw()

    @property
    def short_id(self) -> str | int | None:
        """The ID to repeat in an error response; None if it is invalid or very long."""
        is_good = _is_id(self.id) and (isinstance(self.id, int) or len(self.id) <= _MAX_ID_LENGTH)
        return self.id if is_good else None


def read_message(body: bytes) -> RpcMessage:
    """Return the fields of a JSON-RPC request or notification. Raises RpcError for anything else."""
    message = _decode_message(body)
    fault = _find_message_fault(message)
    if fault is not None:
        raise RpcError(INVALID_REQUEST, fault, message.short_id)
    if bytes(memoryview(message.params)[:1]) not in (b"", b"{", b"n"):  # n: null
        raise RpcError(INVALID_PARAMS, _WRONG_PARAMS, message.short_id)
    if message.id is not UNSET and len(message.method) > _MAX_METHOD:  # the SDK echoes an unknown method
        raise RpcError(METHOD_NOT_FOUND, _NO_METHOD, message.short_id)
    return message


def _decode_message(body: bytes) -> RpcMessage:
    try:
        return decode_json(body, RpcMessage)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, _BATCH if body.lstrip()[:1] == b"[" else _NOT_AN_OBJECT) from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, UNREADABLE) from None


def _find_message_fault(message: RpcMessage) -> str | None:
    if message.jsonrpc != "2.0":
        return _WRONG_RPC
    if message.id is not UNSET and not _is_id(message.id):
        return _WRONG_ID
    if message.method is UNSET and (len(memoryview(message.result)) or len(memoryview(message.error))):
        return _UNEXPECTED_RESPONSE
    return None if isinstance(message.method, str) else _WRONG_METHOD


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and -_MAX_ID <= value < _MAX_ID)


# --- Between an event loop and a thread ---


T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], to: Callable[[Callable[[], None]], None]) -> T:
    """Run `work` in another thread, wait for it without blocking the event loop, and return its result or raise its
    error.

    `to`: a function that passes the work to that thread. Canceling ends only the waiting, not the work.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def do() -> None:
        outcome: Future[T] = Future()
        try:
            outcome.set_result(work())
        except Exception as error:  # noqa: BLE001 - who asked for it is told
            outcome.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_set_outcome, outcome, result)

    to(do)
    return await result


def _set_outcome(outcome: "Future[T]", result: "asyncio.Future[T]") -> None:
    if result.done():  # canceled
        return
    if (error := outcome.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(outcome.result())


# --- One POST in progress: the thread that waits for its response also runs its tools ---
#
# Tools run in as many threads as requests do, under the ID of their request, and none is left running. The loop of the
# SDK never waits for a store or a server.


class Exchange:
    """One POST in progress: its caller, and a queue of tool calls that the event loop passes to the worker thread."""

    def __init__(self, asked: CallContext) -> None:
        self.context = asked
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in the worker thread that is in `wait_for_answer`, and return its result. For coroutines of the
        loop.
        """
        return await run_in_thread(work, self._work.put)

    def wait_for_answer(self, awaited: "Future[T]", patience: float) -> T:
        """Run the tool calls that the event loop passes on, until the response is complete, and return it.

        `awaited`: the response. Raises Empty if the loop passes no work for `patience` seconds, or the error that the
        response ends with.
        """
        awaited.add_done_callback(lambda _: self._work.put(None))
        while (work := self._work.get(timeout=patience)) is not None:
            work()
        return awaited.result()


# --- The SDK's server, which lists and calls the tools, over any transport ---


log = logging.getLogger(__name__)

#: Key of an ASGI scope: the Exchange that a message belongs to.
EXCHANGE_KEY = "mailbox.exchange"

#: The methods by which `stdio` gets resources.
LIST_RESOURCES, READ_RESOURCE = "mailbox/resources/list", "mailbox/resources/read"

_NO_CURSOR = "Unknown cursor: all tools are on one page."
_NO_RESOURCE_CURSOR = "Unknown cursor: all resources are on one page."
#: The message for a URI that no resource has.
UNKNOWN_RESOURCE = "Unknown resource. resources/list shows the available resources."
_UNKNOWN_TOOL = "Unknown tool. tools/list shows the available tools."
_FAULT = "Internal error. The log of the appliance has the details."


def create_server() -> "Server[Any]":
    """Return the SDK's server. It offers only the tools, and keeps nothing between messages.

    Resources serve subscriptions, which need a connection that stays open. So `stdio` offers them, and gets them here
    by methods of its own.
    """
    server = Server(
        tool.SERVER_NAME,
        version=__version__,
        title=tool.SERVER_TITLE,
        instructions=tool.INSTRUCTIONS,
        # No argument is mirrored into header fields; the SDK would list all tools with each call to find out.
        get_tool_input_schema=lambda _: None,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )
    server.add_request_handler(LIST_RESOURCES, types.PaginatedRequestParams, _list_resources)
    server.add_request_handler(READ_RESOURCE, types.ReadResourceRequestParams, _read_resource)
    return server


async def _list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    if params is not None and params.cursor:
        raise MCPError(code=types.INVALID_PARAMS, message=_NO_CURSOR)
    exchange = _get_exchange(context)
    try:
        return types.ListToolsResult(tools=await exchange.run_in_thread(lambda: _list_for_caller(exchange)))
    except Exception as error:  # the SDK would show its text
        log.exception("mcp_list_failed")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from error


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    exchange = _get_exchange(context)
    try:
        return await exchange.run_in_thread(
            lambda: _to_call_result(call.call_tool(exchange.context, params.name, params.arguments or {}))
        )
    except call.UnknownTool:
        raise MCPError(code=types.INVALID_PARAMS, message=_UNKNOWN_TOOL) from None
    except Exception as error:  # the SDK would show its text
        log.exception("mcp_call_failed")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from error


async def _list_resources(context: Any, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
    if params.cursor:
        raise MCPError(code=types.INVALID_PARAMS, message=_NO_RESOURCE_CURSOR)
    exchange = _get_exchange(context)
    found = await _run(exchange, lambda: list(resources.list_resources(exchange.context)))
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=one.uri,
                name=one.name,
                title=one.title,
                description=one.description,
                mime_type=resources.MEDIA_TYPE,
            )
            for one in found
        ]
    )


async def _read_resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    exchange, uri = _get_exchange(context), str(params.uri)
    text = await _run(exchange, lambda: resources.read_resource(exchange.context, uri))
    content = types.TextResourceContents(uri=uri, mime_type=resources.MEDIA_TYPE, text=text)
    return types.ReadResourceResult(contents=[content])


async def _run(exchange: Exchange, work: Callable[[], T]) -> T:
    """Run work on resources, and return its result. Raises MCPError for every failure."""
    try:
        return await exchange.run_in_thread(work)
    except resources.UnknownResource:
        raise MCPError(code=types.INVALID_PARAMS, message=UNKNOWN_RESOURCE) from None
    except Problem as problem:
        if not render.is_internal_error(problem):
            raise MCPError(code=types.INVALID_PARAMS, message=problem.message) from None
        log.exception("mcp_resource_failed")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from problem
    except Exception as error:  # the SDK would show its text
        log.exception("mcp_resource_failed")
        raise MCPError(code=types.INTERNAL_ERROR, message=_FAULT) from error


def _get_exchange(context: Any) -> Exchange:
    exchange: Exchange = context.request.scope[EXCHANGE_KEY]
    return exchange


def _list_for_caller(exchange: Exchange) -> list[types.Tool]:
    asked = exchange.context
    caller = identify(asked.appliance.store, asked.token, asked.origin)
    return [_describe_tools()[tool.name] for tool in call.list_tools(caller)]


@cache
def _describe_tools() -> dict[str, types.Tool]:
    return {tool.name: _to_sdk_tool(tool) for tool in TOOLS}


def _to_sdk_tool(tool: Tool) -> types.Tool:
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


def _to_call_result(shown: ToolResult) -> types.CallToolResult:
    return types.CallToolResult.model_validate(to_sdk_result(shown))
