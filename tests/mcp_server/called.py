"""Tools called in this process, without the SDK, like the endpoint calls them after it has checked the request."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mcp_server import call
from mailbox_appliance.mcp_server.limits import MAX_RESULT_SIZE, wire_size
from mailbox_appliance.mcp_server.tool import CallContext, ToolResult
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.operations.operation import LOCAL

_SCHEMAS = {tool.name: tool.output for tool in TOOLS}


@cache
def _output(name: str) -> Any:
    return Draft202012Validator(_SCHEMAS[name](), format_checker=Draft202012Validator.FORMAT_CHECKER)


@dataclass
class Called:
    """A caller of tools. A single call may have another `token`."""

    appliance: Appliance
    token: str | None

    def call(self, name: str, /, token: str | None = None, **arguments: Any) -> ToolResult:
        """Return any result. `from_` becomes `from`."""
        given = {key.removesuffix("_"): value for key, value in arguments.items()}
        return call.call_tool(CallContext(self.appliance, LOCAL, token or self.token), name, given)

    def shown(self, name: str, /, **arguments: Any) -> ToolResult:
        """Return a successful result, after checking its size and schema."""
        answer = self.call(name, **arguments)
        assert not answer.is_error, answer.text
        _output(name).validate(json.loads(json.dumps(answer.structured)))
        assert wire_size(answer) <= MAX_RESULT_SIZE
        return answer

    def data(self, name: str, /, **arguments: Any) -> Any:
        """Return the data of a successful result."""
        structured = self.shown(name, **arguments).structured
        return structured["data"]

    def error(self, name: str, /, **arguments: Any) -> Any:
        """Return the error object of a failed result."""
        answer = self.call(name, **arguments)
        assert answer.is_error, answer.text
        assert answer.structured is None
        return json.loads(answer.text)["error"]

    def faults(self, name: str, /, **arguments: Any) -> dict[str, str]:
        """Return the faults of an invalid request, by place."""
        error = self.error(name, **arguments)
        assert error["code"] == "invalid_request", error
        return {detail["path"]: detail["message"] for detail in error["details"]}

    def pages(self, name: str, /, **arguments: Any) -> Iterator[Any]:
        """Yield the data of every page of a list."""
        cursor: dict[str, str] = {}
        while True:
            structured = self.shown(name, **arguments, **cursor).structured
            data = structured["data"]
            yield data
            page = {} if isinstance(data, list) else data.get("messages", data)
            following = page.get("nextCursor") or structured.get("nextCursor")
            if following is None:
                return
            cursor = {"cursor": following}
