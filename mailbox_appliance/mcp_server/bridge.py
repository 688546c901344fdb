"""Connects the worker thread that serves an HTTP request with the MCP SDK, which runs in an event loop (ASGI).

    worker thread: message -> the loop: the SDK's session manager -> a tool call -> worker thread: runs the tool
                -> the loop: the SDK writes the result -> worker thread: the response

Each POST is independent (stateless, answered in JSON): nothing is kept between two of them, and no stream stays open.
The SDK distinguishes the two protocol versions: with `initialize` (until 2025-11-25) and without (2026-07-28).
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from queue import Empty
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mailbox_appliance.errors import Stopping
from mailbox_appliance.mcp_server import protocol
from mailbox_appliance.mcp_server.protocol import EXCHANGE_KEY, Exchange, RpcError, create_server
from mailbox_appliance.mcp_server.tool import RETRY_AFTER

log = logging.getLogger(__name__)
Headers = list[tuple[str, str]]
_AsgiApp = Callable[..., Coroutine[Any, Any, None]]
#: Seconds without activity of the loop, while no tool runs, after which a request is abandoned.
_PATIENCE = 30.0
_STARTS_WITHIN, _ENDS_WITHIN = 10.0, 2.0
#: Maximum characters quoted of an SDK error, and of a version.
_MAX_FAULT, _MAX_VERSION = 300, 100
_VERSION = "mcp-protocol-version"
_UNSUPPORTED_VERSION = f"Unsupported protocol version. Supported versions: {', '.join(KNOWN_PROTOCOL_VERSIONS)}."
#: Prefixes of pydantic's messages, which mean nothing to a client.
_PYDANTIC_PREFIXES = ("Validation error", "Parse error")
_JSON = [("content-type", "application/json")]
_SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/mcp",
    "raw_path": b"/mcp",
    "query_string": b"",
    "root_path": "",
    "server": ("localhost", 80),
    "client": None,
}


@dataclass
class _AsgiExchange:
    """One ASGI call, the interface of the SDK: passes the complete request to the SDK and collects its response."""

    body: bytes
    status: int = 500
    headers: Headers = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    is_read: bool = False

    async def receive(self) -> dict[str, Any]:
        """Return the request at the first call. Further calls never return.

        A disconnected client is noticed only when the response is written to it.
        """
        if self.is_read:
            await asyncio.Event().wait()
        self.is_read = True
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Store a part of the response, as the SDK produces it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            self.parts.append(message.get("body", b""))


class SdkBridge:
    """The MCP SDK, running in an event loop in its own thread. `answer` may be called from any thread."""

    def __init__(self) -> None:
        self._is_ready, self._end = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager = StreamableHTTPSessionManager(create_server(), json_response=True, stateless=True)
        # The SDK's own middleware copies the body twice to count it; its size has been checked already.
        self._answer: _AsgiApp = self._manager.asgi_app.app  # type: ignore[assignment]  # it is one
        self._thread = threading.Thread(target=self._run, name="mcp", daemon=True)
        self._thread.start()
        if not self._is_ready.wait(_STARTS_WITHIN):
            raise RuntimeError("the event loop does not start")

    def answer(self, exchange: Exchange, headers: Iterable[tuple[str, str]], body: bytes) -> tuple[int, Headers, bytes]:
        """Return HTTP status, header fields and body for the message in one POST.

        `exchange`: the caller, whose thread also runs the tools. Raises Stopping if the bridge is closed before the
        response is complete, and TimeoutError if the event loop hangs.
        """
        headers = list(headers)
        version = next((value for name, value in headers if name.lower() == _VERSION), None)
        try:
            _check_message(body, version)
        except RpcError as refused:
            return _rpc_status(refused, version), list(_JSON), refused.to_json()
        return self._call_sdk(exchange, headers, body)

    def _call_sdk(
        self, exchange: Exchange, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, Headers, bytes]:
        fields = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        scope, conversation = {**_SCOPE, "headers": fields, EXCHANGE_KEY: exchange}, _AsgiExchange(body)
        loop = self._loop
        if loop is None or not self._thread.is_alive():
            raise Stopping(retry_after=RETRY_AFTER)
        coroutine = self._answer(scope, conversation.receive, conversation.send)
        try:
            awaited = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError as ended:
            coroutine.close()
            raise Stopping(retry_after=RETRY_AFTER) from ended
        try:
            exchange.wait_for_answer(awaited, _PATIENCE)
        except CancelledError as ended:
            raise Stopping(retry_after=RETRY_AFTER) from ended
        except Empty as silence:
            awaited.cancel()
            if self._end.is_set():
                raise Stopping(retry_after=RETRY_AFTER) from silence
            raise TimeoutError("the event loop does not answer") from silence
        return (
            conversation.status,
            conversation.headers,
            _shorten_refusal(conversation.status, b"".join(conversation.parts)),
        )

    def close(self) -> None:
        """End the event loop. Requests that wait for a response raise Stopping."""
        if (loop := self._loop) is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_ENDS_WITHIN)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("mcp_loop_ended")

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_fault)
        async with self._manager.run():
            self._loop = loop
            self._is_ready.set()
            try:
                await self._end.wait()
            finally:
                self._loop = None  # work passed on after this is never started


def _log_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("mcp_loop_error", exc_info=context.get("exception"))


def _check_message(body: bytes, version: str | None) -> None:
    """Raise RpcError for an invalid message, or an unsupported `version`, which the SDK would not name."""
    message = protocol.read_message(body)
    if version is not None and version not in KNOWN_PROTOCOL_VERSIONS:
        told = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version[:_MAX_VERSION]}
        raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, _UNSUPPORTED_VERSION, message.short_id, told)


def _rpc_status(refused: RpcError, version: str | None) -> int:
    """Return the HTTP status of a refused message. Until 2025-11-25, 404 means that the session has ended."""
    if refused.code == protocol.METHOD_NOT_FOUND:
        return 404 if version in MODERN_PROTOCOL_VERSIONS else 200
    return 400


def _shorten_refusal(status: int, body: bytes) -> bytes:
    """Return an error with one short line: the SDK's message may quote the request or its validation library."""
    if status < 400 or not body:
        return body
    told = json.loads(body)
    fault = told["error"]
    if fault["code"] == protocol.PARSE_ERROR:  # it is not UTF-8, or nested too deep
        return RpcError(protocol.PARSE_ERROR, protocol.UNREADABLE).to_json()
    if str(fault["message"]).startswith(_PYDANTIC_PREFIXES):
        return RpcError(protocol.INVALID_REQUEST, f"{protocol.NOT_A_MESSAGE}.", told.get("id")).to_json()
    message = str(fault["message"]).partition("\n")[0][:_MAX_FAULT]
    return json.dumps({"jsonrpc": "2.0", "id": told.get("id"), "error": {**fault, "message": message}}).encode()
