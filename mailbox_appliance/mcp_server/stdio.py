"""The command `mailbox-appliance mcp`: MCP on standard input and output, for AI agents on this computer.

    AI agent <-> lines <-> the SDK's server, in either protocol version <-> POST /mcp <-> the appliance

A running appliance runs the tools; this process only passes messages on. Its only secret is the token that `post`
sends.
"""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from mailbox_appliance.mcp_server import protocol, resources, tool
from mailbox_appliance.mcp_server.protocol import RpcError, run_in_thread
from mailbox_appliance.version import __version__

# --- Lines on standard input and output, reserved for the protocol ---
#
# The SDK's own transport reads in a thread that cannot be ended while the input stays open, not even by a signal.


_CHUNK = 64 * 1024
_LINES_AHEAD = 4  # lines

#: Replaces a line that is too long; it is not valid JSON.
TOO_LONG = b"!"


@contextmanager
def claim_stdio() -> Iterator[tuple[int, int]]:
    """Context manager: yield private copies of standard input and output, as two file descriptors, for the protocol.

    Until the block ends, other code reads nothing from standard input, and its output goes to standard error.
    """
    private = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    try:
        yield private
    finally:
        for number, kept in enumerate(private):
            os.dup2(kept, number)


async def read_lines(fd: int, longest: int) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a file descriptor. A separate thread reads at most a few lines ahead.

    A line of more than `longest` bytes becomes TOO_LONG.
    """
    loop, places = asyncio.get_running_loop(), threading.Semaphore(_LINES_AHEAD)
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # the loop has ended
            for line in split_lines(_read_chunks(fd), longest):
                loop.call_soon_threadsafe(lines.put_nowait, line)
                places.acquire()
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, name="mcp-input", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
        places.release()


def split_lines(chunks: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """Yield the lines in the chunks, including an unfinished last one. A line of more than `longest` bytes becomes
    TOO_LONG.
    """
    kept: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, begun = chunk.split(b"\n")
        for rest in ended:
            yield b"".join((*kept, rest)) if size + len(rest) <= longest else TOO_LONG
            kept, size = [], 0
        size += len(begun)
        if size > longest:
            kept.clear()
        else:
            kept.append(begun)
    if size:
        yield b"".join(kept) if size <= longest else TOO_LONG


class LineWriter:
    """Writes lines in a separate thread, so that a client that does not read its output never blocks the event loop."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._write, name="mcp-output", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line and wait until it is written. Raises OSError if the client has closed its end."""
        await run_in_thread(lambda: _write_all(self._fd, line + b"\n"), self._work.put)

    def _write(self) -> None:
        while True:
            self._work.get()()


def _read_chunks(fd: int) -> Iterator[bytes]:
    # Not through a buffered file: a thread that waits in one holds its lock when the process ends.
    with suppress(OSError):  # a terminal that has gone
        while chunk := os.read(fd, _CHUNK):
            yield chunk


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# --- Subscriptions to resources ---
#
# Until 2025-11-25 a client subscribes to each resource by resources/subscribe, later to several by
# subscriptions/listen, whose response stays open. While anyone is subscribed, one call of list_changes waits at the
# appliance.


#: Calls list_changes; returns its data, or the error object.
ListChanges = Callable[[dict[str, Any]], Coroutine[Any, Any, tuple[dict[str, Any] | None, dict[str, Any]]]]

_WAIT, _PAGE = 25, 100
#: Seconds between two notifications about the same resource, and between two attempts to reach the appliance.
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: Errors that last: the credential has ended, or must not read mail.
_LASTING = frozenset({"unauthenticated", "member_suspended", "permission_denied"})


class ChangeWatch:
    """Publishes an event of the SDK for each subscribed resource that has changed, at most once a second."""

    def __init__(self, list_changes: ListChanges) -> None:
        self._list_changes = list_changes
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._uris: Counter[str] = Counter()
        self._ends: dict[str, Callable[[], None]] = {}  # of resources/subscribe
        self._position: str | None = None
        self._watching: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def subscribe(self, context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Answer resources/subscribe."""
        uri = str(params.uri)
        await self._begin(uri)

        def send(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and event.uri == uri:
                task = asyncio.ensure_future(context.session.send_resource_updated(uri))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

        if uri in self._ends:
            self._end(uri)
        else:
            self._ends[uri] = self._bus.subscribe(send)
        return types.EmptyResult()

    async def unsubscribe(self, _context: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Answer resources/unsubscribe."""
        uri = str(params.uri)
        if (end := self._ends.pop(uri, None)) is not None:
            end()
            self._end(uri)
        return types.EmptyResult()

    async def listen(
        self, context: Any, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Answer subscriptions/listen, when the subscription ends. Only resources can be subscribed to."""
        uris = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        begun: list[str] = []
        try:
            for uri in uris:
                await self._begin(uri)
                begun.append(uri)
            wanted = types.SubscriptionFilter(resource_subscriptions=uris)
            return await self._listen(context, params.model_copy(update={"notifications": wanted}))
        finally:
            for uri in begun:
                self._end(uri)

    def close(self) -> None:
        """End all subscriptions."""
        for end in self._ends.values():
            end()
        self._ends.clear()
        self._uris.clear()
        self._listen.close()
        if self._watching is not None:
            self._watching.cancel()

    async def _begin(self, uri: str) -> None:
        """Count a subscription, and watch from now on. Raises MCPError if the resource cannot be read."""
        try:
            account = resources.mailbox_of(uri)
        except resources.UnknownResource:
            raise MCPError(code=types.INVALID_PARAMS, message=protocol.UNKNOWN_RESOURCE) from None
        data, error = await self._list_changes({} if account is None else {"accountId": account})
        if data is None:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error.get("message", "")))
        self._uris[uri] += 1
        if self._watching is None or self._watching.done():
            self._position = data["nextPosition"]
            self._watching = asyncio.ensure_future(self._watch())

    def _end(self, uri: str) -> None:
        self._uris -= Counter((uri,))
        if not self._uris and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self) -> None:
        pause = _PAUSE
        while True:
            data, error = await self._list_changes({"after": self._position, "wait": _WAIT, "limit": _PAGE})
            if data is not None:
                self._position, pause = data["nextPosition"], _PAUSE
                for uri in self._changed(data):
                    await self._bus.publish(ResourceUpdated(uri))
                if not data["items"] and not data["reset"]:
                    continue
            elif error.get("code") in _LASTING:
                self._watching = None
                self.close()
                return
            else:
                pause = min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    def _changed(self, data: dict[str, Any]) -> list[str]:
        if data["reset"]:
            return sorted(self._uris)
        found = {resources.changes_uri(one["accountId"]) for one in data["items"] if one["accountId"] is not None}
        return sorted(self._uris.keys() & (found | ({resources.ALL_CHANGES} if data["items"] else set())))


# --- The session: the SDK's server between the lines and a running appliance ---


#: Sends a message to the appliance with these header fields; returns status and body. The last argument is the advice
#: for a lost response. Without a response the body is an error object with the reason, and the status 0, or -1 if the
#: message was surely not sent.
Post = Callable[[bytes, dict[str, str], str], tuple[int, bytes]]

_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION}
#: The status of a message that was surely not sent. Any other status may mean that something was done.
_NOT_SENT = -1
_MAX_CONCURRENT = 16
_MAX_LINE = 40 << 20  # bytes; the appliance accepts 36 MiB
#: Seconds for open requests to be answered after the input has ended.
_FINISH_WITHIN = 30.0
_LISTEN = "subscriptions/listen"
_POLL_SECONDS = 0.02
_REPEAT_ADVICE = (
    "It may have been done nevertheless: repeat the call with the same idempotencyKey and the same arguments."
)
_CHECK_ADVICE = "It is unknown whether this was done. Check before you repeat the call."


def serve(post: Post) -> int:
    """Serve one client until the input ends or SIGTERM arrives; return the exit code. `post`: sends a message to the
    appliance.

    Raises KeyboardInterrupt, and BrokenPipeError if the client has closed the output.
    """
    with claim_stdio() as (source, sink):
        ended_by = asyncio.run(_run_until_signal(serve_files(post, source, sink)))
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
    return 0


async def serve_files(post: Post, source: int, sink: int) -> None:
    """Read messages from the file descriptor `source` and write responses to `sink`, until the input ends.

    Raises BrokenPipeError if the client has closed the output.
    """
    await _StdioSession(post, source, sink).run()


async def _run_until_signal(speaking: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Run a coroutine until it is done, or until SIGTERM or SIGINT cancels it; return the signal."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[signal.Signals] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, _note_signal, told, number)
    serving = asyncio.ensure_future(speaking)
    await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
        return None
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    return told.result()


@dataclass
class _StdioSession:
    """The conversation with one MCP client over standard input and output."""

    post: Post
    source: int
    sink: int
    #: The IDs of open requests.
    pending: set[types.RequestId] = field(default_factory=set)

    async def run(self) -> None:
        """Answer messages until the input ends. Raises BrokenPipeError if the client has closed the output."""
        self._writer, self._call_slots = LineWriter(self.sink), asyncio.Semaphore(_MAX_CONCURRENT)
        come, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, go = anyio.create_memory_object_stream[SessionMessage](0)
        self._watch = ChangeWatch(self._list_changes)
        server = self._create_server()
        async with come:
            reading, writing = asyncio.ensure_future(self._read(come)), asyncio.ensure_future(self._write(go))
            options = server.create_initialization_options()
            serving = asyncio.ensure_future(server.run(incoming, outgoing, options))
            try:
                # The server ends after the reader, and closes the stream that the writer reads.
                await asyncio.wait((writing, serving), return_when=asyncio.FIRST_COMPLETED)
                await writing
                await serving
            finally:
                self._watch.close()
                # The server still answers open requests, so the writer ends last.
                for tasks in ((reading, serving), (writing,)):
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, come: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass the client's messages to `come`. After the input has ended, wait for requests in progress."""
        async with come:
            async with aclosing(read_lines(self.source, _MAX_LINE)) as lines:
                async for line in lines:
                    if (message := await self._read_message(line)) is not None:
                        await come.send(SessionMessage(message))
            with suppress(TimeoutError):
                async with asyncio.timeout(_FINISH_WITHIN):
                    while self.pending:
                        await asyncio.sleep(_POLL_SECONDS)

    async def _read_message(self, line: bytes) -> types.JSONRPCMessage | None:
        if not line.strip():
            return None
        try:
            protocol.read_message(line)
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            await self._write_error(RpcError(protocol.PARSE_ERROR, protocol.UNREADABLE))
            return None
        except RpcError as refused:
            await self._write_error(refused)
            return None
        if isinstance(message, types.JSONRPCRequest):
            self.pending |= {message.id} if message.method != _LISTEN else set()  # it is answered when it ends
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            given_up = (message.params or {}).get("requestId")
            self.pending -= {given_up} if isinstance(given_up, int | str) else set()  # it is never answered
        return message

    async def _write(self, go: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with go:
            async for outgoing in go:
                message = outgoing.message
                await self._writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                    self.pending.discard(message.id)

    async def _write_error(self, refused: RpcError) -> None:
        with suppress(OSError):  # the next response reports it
            await self._writer.write(refused.to_json())

    def _create_server(self) -> "Server[Any]":
        server = Server(
            tool.SERVER_NAME,
            version=__version__,
            title=tool.SERVER_TITLE,
            instructions=tool.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._watch.subscribe,
            on_unsubscribe_resource=self._watch.unsubscribe,
            on_subscriptions_listen=self._watch.listen,
        )

        async def discover(context: Any, _params: types.RequestParams) -> types.DiscoverResult:
            # The SDK would announce that changed lists of tools and resources can be listened to.
            found = server.get_capabilities(protocol_version=context.protocol_version)
            found.tools = types.ToolsCapability(list_changed=False)
            found.resources = types.ResourcesCapability(subscribe=True, list_changed=False)
            return types.DiscoverResult(
                supported_versions=list(MODERN_PROTOCOL_VERSIONS),
                capabilities=found,
                instructions=server.instructions,
            )

        server.add_request_handler("server/discover", types.RequestParams, discover)
        return server

    async def _list_resources(
        self, _context: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = {"cursor": params.cursor} if params is not None and params.cursor else {}
        _, answer = await self._call_appliance(protocol.LIST_RESOURCES, cursor, "Repeat the request.")
        if "result" not in answer:
            raise _to_mcp_error(answer)
        return types.ListResourcesResult.model_validate(answer["result"])

    async def _read_resource(self, _context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = {"uri": str(params.uri)}
        _, answer = await self._call_appliance(protocol.READ_RESOURCE, uri, "Repeat the request.")
        if "result" not in answer:
            raise _to_mcp_error(answer)
        return types.ReadResourceResult.model_validate(answer["result"])

    async def _list_changes(self, arguments: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Return the data of list_changes; None and the error object if there is none. Takes no place of a call."""
        call = {"name": "list_changes", "arguments": arguments}
        _, answer = await self._exchange("tools/call", call, "Repeat the request.")
        result = answer.get("result", {})
        if "structuredContent" in result:
            return result["structuredContent"]["data"], {}
        if "result" in answer:
            return None, json.loads(result["content"][0]["text"])["error"]
        return None, answer["error"]

    async def _list_tools(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        cursor = {"cursor": params.cursor} if params is not None and params.cursor else {}
        _, answer = await self._call_appliance("tools/list", cursor, "Repeat the request.")
        if "result" not in answer:
            raise _to_mcp_error(answer)
        return types.ListToolsResult.model_validate(answer["result"])

    async def _call_tool(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        advice = _REPEAT_ADVICE if "idempotencyKey" in arguments else _CHECK_ADVICE
        call = {"name": params.name, "arguments": arguments}
        is_unsent, answer = await self._call_appliance("tools/call", call, advice)
        if "result" in answer:
            return types.CallToolResult.model_validate(answer["result"])
        if isinstance(answer["error"].get("code"), int):
            raise _to_mcp_error(answer)
        return _error_result(_add_advice(answer["error"], advice) if is_unsent else answer["error"])

    async def _call_appliance(self, method: str, params: dict[str, Any], advice: str) -> tuple[bool, dict[str, Any]]:
        """Send a message; return whether it certainly did not arrive, and the response, with `result` or `error`."""
        async with self._call_slots:
            return await self._exchange(method, params, advice)

    async def _exchange(self, method: str, params: dict[str, Any], advice: str) -> tuple[bool, dict[str, Any]]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        status, payload = await run_in_thread(lambda: self.post(body, dict(_HEADERS), advice), _run_in_thread)
        with suppress(ValueError, RecursionError):
            answer = json.loads(payload)
            if isinstance(answer, dict) and ("result" in answer or isinstance(answer.get("error"), dict)):
                return status == _NOT_SENT, answer
        told = f"Unexpected response (status {status}): this is not an appliance, or one of another release."
        return False, {"error": {"code": "unexpected_answer", "message": told}}


def _note_signal(told: "asyncio.Future[signal.Signals]", number: signal.Signals) -> None:
    if not told.done():
        told.set_result(number)


def _run_in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="mcp-call", daemon=True).start()


def _to_mcp_error(answer: dict[str, Any]) -> MCPError:
    """Return the exception for the MCP SDK to raise, for an error response of the endpoint or of the REST API."""
    code, message = answer["error"].get("code"), str(answer["error"].get("message", ""))
    return MCPError(code=code if isinstance(code, int) else types.INTERNAL_ERROR, message=message)


def _add_advice(error: dict[str, Any], advice: str) -> dict[str, Any]:
    """Return the error; if the appliance could not be reached, add that nothing was done."""
    message = str(error.get("message", ""))
    if error.get("code") != "appliance_unreachable":
        return error
    how = " with the same idempotencyKey" if advice is _REPEAT_ADVICE else ""
    return {**error, "message": f"{message} Nothing was done: repeat the call{how} once the appliance runs."}


def _error_result(error: dict[str, Any]) -> types.CallToolResult:
    text = json.dumps({"error": error}, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
