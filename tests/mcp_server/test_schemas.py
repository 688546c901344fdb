"""What tools say they take and give: JSON Schema 2020-12, made from the types of their operations."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mailbox_appliance.mcp_server.tool import Tool
from mailbox_appliance.mcp_server.tools import TOOLS

BY_NAME = {tool.name: tool for tool in TOOLS}
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def _inside(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _inside(one)


@every_tool
def test_schemas_are_valid(tool: Tool) -> None:
    for schema in (tool.input(), tool.output()):
        Draft202012Validator.check_schema(schema)


@every_tool
def test_input_is_one_flat_object_that_any_client_understands(tool: Tool) -> None:
    schema = tool.input()
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema) == {"type", "properties", "required", "additionalProperties"}
    assert set(schema["required"]) <= set(schema["properties"])
    for name, one in schema["properties"].items():
        assert one.get("description"), name
        assert one["type"] in ("string", "integer", "boolean", "array", "object"), name
    odd = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "pattern"}
    assert not any(odd & set(one) for one in _inside(schema))


@every_tool
def test_output_is_data_and_what_a_sender_wrote(tool: Tool) -> None:
    schema = tool.output()
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert schema["required"] == ["data", "untrusted"]
    references = {one["$ref"] for one in _inside(schema) if "$ref" in one}
    assert {one.removeprefix("#/$defs/") for one in references} <= set(schema.get("$defs", {}))


@pytest.mark.parametrize(
    "name", ["list_emails", "search_emails", "get_email", "get_thread", "get_draft", "create_draft"]
)
def test_a_message_has_parts_of_a_body_and_no_headers(name: str) -> None:
    message = BY_NAME[name].output()["$defs"]["Message"]
    assert "headers" not in message["properties"]
    assert message["properties"]["body"] == {"$ref": "#/$defs/BodyPart"}


NEEDED = {
    "list_emails": [],
    "search_emails": [],
    "get_email": ["accountId", "messageId"],
    "download_attachment": ["accountId", "messageId", "attachmentId"],
    "create_draft": ["accountId", "body"],
    "update_draft": ["accountId", "draftId", "body"],
    "preview_send": ["accountId"],
    "send_email": ["accountId", "idempotencyKey"],
    "forward_email": ["accountId", "messageId", "idempotencyKey", "to"],
    "cancel_scheduled_email": ["accountId", "scheduleId"],
    "modify_emails": ["accountId", "messageIds", "action"],
    "get_status": [],
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed_is_said(name: str) -> None:
    assert BY_NAME[name].input()["required"] == NEEDED[name]


DEFAULTS = [
    ("list_emails", "limit", 10),
    ("search_emails", "limit", 10),
    ("list_scheduled_emails", "limit", 20),
    ("get_thread", "limit", 20),
    ("get_email", "bodyFormat", "text"),
    ("get_email_body", "offset", 0),
    ("download_attachment", "inline", False),
    ("forward_email", "includeAttachments", True),
]


@pytest.mark.parametrize(("name", "argument", "default"), DEFAULTS)
def test_defaults_are_said(name: str, argument: str, default: object) -> None:
    assert BY_NAME[name].input()["properties"][argument]["default"] == default


def test_only_a_whole_body_has_no_none() -> None:
    forms = {
        name: BY_NAME[name].input()["properties"]["bodyFormat"]["enum"]
        for name in ("get_email", "get_draft", "get_thread", "get_email_body")
    }
    without = sorted(forms.pop("get_email_body"))
    assert without == ["html", "markdown", "text"]
    assert all(sorted(form) == ["html", "markdown", "none", "text"] for form in forms.values())


def test_who_sends_may_name_a_draft_or_write_a_message() -> None:
    fields = set(BY_NAME["send_email"].input()["properties"])
    assert {"draftId", "sendAt", "body", "to", "cc", "bcc", "replyToMessageId", "attachments"} <= fields
    previewed = BY_NAME["preview_send"].input()["properties"]
    assert fields - {"idempotencyKey"} == set(previewed) - {"listOffset"}


def test_all_there_is_to_be_told_beforehand_is_bounded() -> None:
    told = sum(len(repr(tool.input())) + len(tool.help) for tool in TOOLS)
    assert told < 40_000
