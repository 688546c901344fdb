"""Handwritten messages to `/mcp`: those that MCP clients send, and those that none should."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webtest import TestApp, TestRequest

PREVIOUS, CURRENT = "2025-11-25", "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": CURRENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Posted:
    """A response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def refusal(self) -> tuple[int, str]:
        """Return status and code of an error object of the API."""
        assert self.json["error"]["requestId"] == self.headers["x-request-id"]
        return self.status, self.json["error"]["code"]

    @property
    def result(self) -> Any:
        """Return the result of a successful call."""
        assert self.status == 200, self.content
        return self.json["result"]


def message(method: str, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def calling(name: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return message("tools/call", name=name, arguments=arguments)


def headers_of(token: str, given: Mapping[str, Any], version: str) -> dict[str, str]:
    """Return the header fields of a message."""
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    fields |= {"MCP-Protocol-Version": version} | ({"Authorization": f"Bearer {token}"} if token else {})
    if version == CURRENT and "method" in given:
        fields["Mcp-Method"] = given["method"]
        if "name" in given.get("params", {}):
            fields["Mcp-Name"] = given["params"]["name"]
    return fields


def _body(given: Any, version: str) -> bytes:
    if isinstance(given, bytes):
        return given
    if version == CURRENT and isinstance(given, dict):
        given = given | {"params": given.get("params", {}) | {"_meta": _META}}
    return json.dumps(given).encode()


def post(
    app: TestApp,
    token: str,
    given: Any,
    *,
    version: str = PREVIOUS,
    method: str = "POST",
    path: str = "/mcp",
    headers: Mapping[str, str | None] | None = None,
    environ: Mapping[str, object] | None = None,
) -> Posted:
    """Send one request to an application in this process; header fields of None are omitted."""
    fields = headers_of(token, given if isinstance(given, dict) else {}, version)
    local = {"HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": "127.0.0.1", "SERVER_PROTOCOL": "HTTP/1.1"}
    sent = {name: value for name, value in (fields | dict(headers or {})).items() if value is not None}
    request = TestRequest.blank(path, method=method, body=_body(given, version), headers=sent)
    request.environ.update(local | dict(environ or {}))
    response = app.do_request(request, expect_errors=True)
    seen = {name.lower(): value for name, value in response.headers.items()}
    return Posted(response.status_int, seen, response.body)


def post_to(address: tuple[str, int], token: str, given: Any) -> Posted:
    """Send one request to a listener, on a connection of its own."""
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request("POST", "/mcp", _body(given, PREVIOUS), headers_of(token, given, PREVIOUS))
        response = connection.getresponse()
        fields = {name.lower(): value for name, value in response.headers.items()}
        return Posted(response.status, fields, response.read())
    finally:
        connection.close()
