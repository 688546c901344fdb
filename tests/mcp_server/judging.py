"""Checks results, as on the wire, against the promises for all of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.mcp_server.sceptic import BOUND, Answer

#: Maximum characters of an error.
ERROR_BOUND = 4_000
#: Hints that every tool must have: whether it only reads, destroys, may be repeated, reaches out to others.
READS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
MAKES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
SENDS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": True}
DESTROYS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
TAKES_BACK = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
HINTS: dict[str, Mapping[str, bool]] = {
    "list_accounts": READS,
    "list_folders": READS,
    "list_labels": READS,
    "list_emails": READS,
    "search_emails": READS,
    "get_email": READS,
    "get_email_body": READS,
    "get_thread": READS,
    "download_attachment": READS,
    "create_upload_link": MAKES,
    "create_draft": MAKES,
    "get_draft": READS,
    "update_draft": DESTROYS,
    "delete_draft": DESTROYS,
    "preview_send": READS,
    "send_email": SENDS,
    "forward_email": SENDS,
    "get_delivery_operation": READS,
    "list_scheduled_emails": READS,
    "cancel_scheduled_email": TAKES_BACK,
    "list_approvals": READS,
    "modify_emails": DESTROYS,
    "undo_action": TAKES_BACK,
    "list_changes": READS,
    "get_status": READS,
}


@dataclass
class Judge:
    """Knows the listed tools; `called` counts the successful results of each."""

    tools: list[dict[str, Any]]
    called: dict[str, int] = field(default_factory=dict)

    def check_listing(self, names: set[str] | None = None) -> None:
        """Check names, hints and schemas of the listed tools. `names`: the expected ones; all by default."""
        listed = {tool["name"]: tool for tool in self.tools}
        assert len(listed) == len(self.tools), "a name stands there twice"
        assert set(listed) == (set(HINTS) if names is None else names)
        for name, tool in listed.items():
            hints = {key: value for key, value in tool["annotations"].items() if key != "title"}
            assert hints == HINTS[name], name
            for kind in ("inputSchema", "outputSchema"):
                _check_schema(json.dumps(tool[kind]))
                assert tool[kind]["type"] == "object", (name, kind)
            assert tool["inputSchema"]["additionalProperties"] is False, name
            assert not {"oneOf", "anyOf", "allOf", "$ref"} & tool["inputSchema"].keys(), name
            assert tool["description"].strip(), name

    def check(self, name: str, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check one result and return it."""
        told = (name, arguments, str(result)[:1000])
        size = len(json.dumps([result["content"], result.get("structuredContent")], ensure_ascii=False))
        assert size <= BOUND, (size, *told)
        assert result["content"][0]["type"] == "text", told
        (_check_error if result.get("isError") else self._check_answer)(name, result)
        return result

    def _check_answer(self, name: str, result: Mapping[str, Any]) -> None:
        tool = next(tool for tool in self.tools if tool["name"] == name)
        structure = result["structuredContent"]
        Draft202012Validator(tool["outputSchema"]).validate(structure)
        assert all(pointer.startswith(("/data/", "/warnings/")) for pointer in structure["untrusted"]), name
        assert Answer(name, text_of(result), structure, ()).faults() == []
        self.called[name] = self.called.get(name, 0) + 1


@cache
def _check_schema(schema: str) -> None:
    """Check a schema once: many tools share theirs, and all callers get the same."""
    Draft202012Validator.check_schema(json.loads(schema))


def _check_error(name: str, result: Mapping[str, Any]) -> None:
    assert "structuredContent" not in result, (name, result)
    assert len(result["content"]) == 1, (name, result)
    text = text_of(result)
    assert len(text) <= ERROR_BOUND, (name, len(text))
    error = json.loads(text)["error"]
    assert {"code", "message", "requestId"} <= error.keys() <= {"code", "message", "requestId", "details"}, error


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result."""
    return str(result["content"][0]["text"])


def data_of(result: Mapping[str, Any]) -> Any:
    """Return the data of a successful result."""
    assert not result.get("isError"), text_of(result)
    return result["structuredContent"]["data"]


def error_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the API's error object of a failed result."""
    assert result.get("isError"), result
    error: dict[str, Any] = json.loads(text_of(result))["error"]
    return error


def code_of(result: Mapping[str, Any]) -> str:
    """Return the code of an error."""
    return str(error_of(result)["code"])
