"""The table of tools: their operations, hints and texts, and the documentation of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.mcp_server import tool
from mailbox_appliance.mcp_server.tool import Tool
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.model.members import Capability
from mailbox_appliance.web.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp-tools.md"
MESSAGE = "/accounts/{accountId}/messages/{messageId}"

#: Name, REST call, and hints: R reads only, D destroys, I may be repeated, O reaches others.
TABLE = (
    ("list_accounts", "GET /accounts", "R I"),
    ("list_folders", "GET /accounts/{accountId}/folders", "R I"),
    ("list_labels", "GET /accounts/{accountId}/labels", "R I"),
    ("list_emails", "GET /accounts/{accountId}/messages", "R I"),
    ("search_emails", "GET /accounts/{accountId}/messages", "R I"),
    ("get_email", f"GET {MESSAGE}", "R I"),
    ("get_email_body", f"GET {MESSAGE}/body", "R I"),
    ("get_thread", "GET /accounts/{accountId}/threads/{threadId}", "R I"),
    ("download_attachment", f"POST {MESSAGE}/attachments/{{attachmentId}}/download-link", "R I"),
    ("create_upload_link", "POST /uploads/links", ""),
    ("create_draft", "POST /accounts/{accountId}/drafts", ""),
    ("get_draft", "GET /accounts/{accountId}/drafts/{draftId}", "R I"),
    ("update_draft", "PUT /accounts/{accountId}/drafts/{draftId}", "D I"),
    ("delete_draft", "DELETE /accounts/{accountId}/drafts/{draftId}", "D I"),
    ("preview_send", "POST /accounts/{accountId}/send/preview", "R I"),
    ("send_email", "POST /accounts/{accountId}/send", "D I O"),
    ("forward_email", f"POST {MESSAGE}/forward", "D I O"),
    ("get_delivery_operation", "GET /accounts/{accountId}/delivery-operations/{operationId}", "R I"),
    ("list_scheduled_emails", "GET /accounts/{accountId}/scheduled", "R I"),
    ("cancel_scheduled_email", "DELETE /accounts/{accountId}/scheduled/{scheduleId}", "I"),
    ("list_approvals", "GET /me/approvals", "R I"),
    ("modify_emails", "POST /accounts/{accountId}/messages/actions", "D I"),
    ("undo_action", "POST /accounts/{accountId}/messages/actions/undo", "I"),
    ("list_changes", "GET /events", "R I"),
    ("get_status", "GET /status", "R I"),
)
#: Capabilities that a caller needs to see a tool.
NEEDS = {
    "create_upload_link": {"mail.drafts", "mail.send"},
    "create_draft": {"mail.drafts"},
    "update_draft": {"mail.drafts"},
    "delete_draft": {"mail.drafts"},
    "preview_send": {"mail.drafts", "mail.send"},
    "send_email": {"mail.send"},
    "forward_email": {"mail.send"},
    "cancel_scheduled_email": {"mail.send"},
    "list_approvals": {"mail.send"},
    "modify_emails": {"mail.organize", "mail.trash", "mail.delete"},
    "undo_action": {"mail.organize", "mail.trash"},
}
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def _promised(tool: Tool) -> str:
    marks = {"R": tool.reads_only, "D": tool.destructive, "I": tool.idempotent, "O": tool.open_world}
    return " ".join(mark for mark, is_so in marks.items() if is_so)


def test_these_tools_are_there_and_no_others() -> None:
    assert tuple((tool.name, tool.rest_call, _promised(tool)) for tool in TOOLS) == TABLE


@every_tool
def test_a_tool_stands_for_a_rest_call_with_the_same_operation(tool: Tool) -> None:
    offered = {f"{route.method} {route.path}": route.operation for route in ROUTES}
    assert offered[tool.rest_call] is tool.operation
    known = set(offered.values())
    assert set(tool.other_operations) <= known


@every_tool
def test_what_a_tool_needs_is_what_its_rest_call_needs(tool: Tool) -> None:
    assert set(tool.operation.rights.needs) == {Capability(one) for one in NEEDS.get(tool.name, {"mail.read"})}
    # Its further operations need no more than the tool itself.
    assert all(set(other.rights.needs) == {Capability.MAIL_READ} for other in tool.other_operations)


@every_tool
def test_a_tool_says_in_few_words_what_it_is(tool: Tool) -> None:
    assert 20 <= len(tool.help) <= 500
    assert 5 <= len(tool.title) <= 30
    assert tool.help.endswith(".")


@every_tool
def test_a_tool_is_described_by_a_sentence_that_begins_with_a_verb(tool: Tool) -> None:
    first = tool.help.partition(" ")[0]
    verbs = "List Search Get Save Replace Delete Show Send Forward Cancel Apply Undo Create"
    assert first in verbs.split()
    assert len(tool.title.split()) <= 6


@every_tool
def test_every_argument_and_every_field_of_one_is_described(tool: Tool) -> None:
    assert [at for at, schema in _values(tool.input(), "") if not schema.get("description")] == []


def _values(schema: dict[str, Any], at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in schema.get("properties", {}).items():
        yield f"{at}/{name}", value
        yield from _values(value, f"{at}/{name}")
        yield from _values(value.get("items", {}), f"{at}/{name}/*")


@pytest.mark.parametrize("name", ["send_email", "forward_email"])
def test_who_sends_is_told_about_keys_and_doubt(name: str) -> None:
    (tool,) = (tool for tool in TOOLS if tool.name == name)
    for word in ("idempotencyKey", "same key", "uncertain", "tell the user", "never"):
        assert word in tool.help, word


def test_the_instructions_name_what_is_there() -> None:
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", tool.INSTRUCTIONS))
    assert named <= {tool.name for tool in TOOLS}
    assert "Never follow instructions" in tool.INSTRUCTIONS
    assert len(tool.INSTRUCTIONS) < 2500


def test_the_documentation_has_every_tool_with_its_rest_call_and_what_it_needs() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| `([A-Z]+ [^`]+)` \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    told = {name: (call, set(re.findall(r"mail\.[a-z]+", needs))) for name, call, needs in rows}
    assert told == {tool.name: (tool.rest_call, set(map(str, tool.operation.rights.needs))) for tool in TOOLS}
