"""Arguments of tools: strict, reported by place, and checked after the caller and the access to the mailbox."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mcp_server import call
from mailbox_appliance.mcp_server.tool import CallContext, Tool
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.operations.operation import LOCAL
from tests.checked_client import CheckedClient
from tests.mcp_server.called import Called
from tests.operations.filled import FilledMailbox, add_key, add_member, letter, suspend
from tests.servers.fake_clock import FakeClock

ACCOUNT, MESSAGE = "accountId", "messageId"


class Stage:
    """An appliance with a mailbox without a server, and the administrator who owns it."""

    def __init__(self, folder: Path) -> None:
        self.appliance = Appliance(folder, clock=FakeClock())
        self.client = CheckedClient(self.appliance).set_up()
        self.mailbox = FilledMailbox(self.appliance, self.client.member["id"])
        (self.message,) = self.mailbox.deliver(letter("First", number=1))
        self.tools = Called(self.appliance, self.client.token)

    def given(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the IDs of this stage in place of their names."""
        ids = {ACCOUNT: self.mailbox.id, MESSAGE: self.message}
        return {name: ids[name] if value is ... else value for name, value in arguments.items()}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("arguments") / "data")
    yield made
    made.appliance.stop()


HERE = {ACCOUNT: ...}
READ = HERE | {MESSAGE: ...}
NO_SUCH, WHOLE = "Unknown argument.", "This must be a whole number."
REQUIRED = "This is required."

WRONG = [
    ("list_emails", HERE | {"limit": "5"}, "/limit", WHOLE),
    ("list_emails", HERE | {"limit": 5.0}, "/limit", WHOLE),
    ("list_emails", HERE | {"limit": True}, "/limit", WHOLE),
    ("list_emails", HERE | {"limit": 0}, "/limit", "Expected `int` >= 1."),
    ("list_emails", HERE | {"limit": 101}, "/limit", "Expected `int` <= 100."),
    ("list_emails", HERE | {"limit": 10**40}, "/limit", "Expected `int` <= 100."),
    ("list_emails", HERE | {"limit": []}, "/limit", WHOLE),
    ("list_emails", HERE | {"unread": 1}, "/unread", "Expected `bool"),
    ("list_emails", HERE | {"unread": "true"}, "/unread", "Expected `bool"),
    ("list_emails", HERE | {"from": 5}, "/from", "Expected `str | null`"),
    ("list_emails", HERE | {"from": ""}, "/from", "Expected `str` of length >= 1."),
    ("list_emails", HERE | {"after": "yesterday"}, "/after", ""),
    ("list_emails", HERE | {"cursor": "nonsense"}, "/cursor", ""),
    ("list_emails", HERE | {"cursor": {"a": 1}}, "/cursor", "Expected `str | null`"),
    ("list_emails", HERE | {"q": "word"}, "/q", NO_SUCH),
    ("list_emails", {"limit": 0}, "/limit", "Expected `int` >= 1."),
    ("list_emails", {ACCOUNT: 5}, "/accountId", "Expected `str`"),
    ("list_emails", {"account": "x"}, "/account", NO_SUCH),
    ("search_emails", {}, "/q", "list_emails"),
    ("search_emails", {}, "/text", "list_emails"),
    ("search_emails", {"q": "  "}, "/q", "This must not be empty."),
    ("search_emails", {"q": "word", "text": ""}, "/text", "Expected `str` of length >= 1."),
    ("search_emails", HERE | {"q": "from:"}, "/q", ""),
    ("list_accounts", {"limit": "5"}, "/limit", WHOLE),
    ("list_accounts", {"name": "x"}, "/name", NO_SUCH),
    ("list_folders", {}, "/accountId", REQUIRED),
    ("list_folders", {ACCOUNT: None}, "/accountId", "Expected `str`"),
    ("list_folders", {ACCOUNT: ""}, "/accountId", "Expected `str` of length >= 1."),
    ("list_folders", HERE | {"a~b/c": 1}, "/a~0b~1c", NO_SUCH),
    ("list_folders", HERE | {"x" * 999: 1}, "/" + "x" * 200 + "...", NO_SUCH),
    ("get_email", HERE, "/messageId", REQUIRED),
    ("get_email", HERE | {MESSAGE: None}, "/messageId", "Expected `str`"),
    ("get_email", HERE | {MESSAGE: 7}, "/messageId", "Expected `str`"),
    ("get_email", HERE | {MESSAGE: ""}, "/messageId", "Expected `str` of length >= 1."),
    ("get_email", HERE | {MESSAGE: "\ud800"}, "/messageId", "This is not valid text"),
    ("get_email", READ | {"bodyFormat": "pdf"}, "/bodyFormat", "`markdown`"),
    ("get_email", READ | {"bodyFormat": 1}, "/bodyFormat", ""),
    ("get_email", READ | {"listOffset": -1}, "/listOffset", "Expected `int` >= 0."),
    ("get_email", READ | {"format": "text"}, "/format", NO_SUCH),
    ("get_email_body", READ | {"bodyFormat": "none"}, "/bodyFormat", "`text`"),
    ("get_email_body", READ | {"format": "text"}, "/format", NO_SUCH),
    ("get_email_body", READ | {"visibleOnly": False}, "/visibleOnly", NO_SUCH),
    ("get_email_body", READ | {"offset": -1}, "/offset", "Expected `int` >= 0."),
    ("get_thread", HERE | {"threadId": "x", "limit": 0}, "/limit", "Expected `int` >= 1."),
    ("download_attachment", READ | {"attachmentId": "x", "inline": "yes"}, "/inline", "Expected `bool"),
    ("send_email", HERE | {"body": {"text": "x"}}, "/idempotencyKey", REQUIRED),
    ("send_email", HERE | {"body": {"text": "x"}, "idempotencyKey": "a b"}, "/idempotencyKey", "without spaces"),
    ("send_email", HERE | {"body": {"text": "x"}, "idempotencyKey": ""}, "/idempotencyKey", ""),
    ("send_email", HERE | {"idempotencyKey": "k"}, "/body", ""),
    ("send_email", HERE | {"idempotencyKey": "k", "body": None}, "/body", "Expected `object`"),
    ("send_email", HERE | {"idempotencyKey": "k", "body": "Hello"}, "/body", "Expected `object`"),
    ("send_email", HERE | {"idempotencyKey": "k", "body": {"text": "\udfff"}}, "/body", "This is not valid text"),
    (
        "send_email",
        HERE | {"idempotencyKey": "k", "body": {"markdown": "x"}},
        "/body/markdown",
        "Object contains unknown field",
    ),
    ("send_email", HERE | {"idempotencyKey": "k", "body": {}, "to": "a@b"}, "/to", "Expected `array`"),
    (
        "send_email",
        HERE | {"idempotencyKey": "k", "body": {"text": "x"}, "to": [{"email": "nobody"}]},
        "/to/0/email",
        "This is not a valid email address",
    ),
    ("send_email", HERE | {"idempotencyKey": "k", "draftId": "x", "to": []}, "/to", "`draftId`"),
    ("send_email", HERE | {"idempotencyKey": "k", "body": {"text": "x"}}, "/to", ""),
    ("preview_send", HERE | {"idempotencyKey": "k", "body": {"text": "x"}}, "/idempotencyKey", NO_SUCH),
    ("create_draft", HERE | {"body": {"text": "x"}, "sendAt": "2027-01-01T00:00:00Z"}, "/sendAt", NO_SUCH),
    ("create_draft", HERE, "/body", "missing"),
    ("forward_email", READ | {"idempotencyKey": "k", "to": []}, "/to", "Expected `array` of length >= 1."),
    ("forward_email", READ | {"idempotencyKey": "k", "to": [{}]}, "/to/0/email", "missing"),
    ("modify_emails", HERE | {"messageIds": ["x"], "action": "explode"}, "/action", "`markRead`"),
    ("modify_emails", HERE | {"messageIds": [], "action": "star"}, "/messageIds", "Expected `array` of length >= 1."),
    ("modify_emails", HERE | {"messageIds": ["x"], "action": "move"}, "/folder", "folder"),
    ("modify_emails", HERE | {"messageIds": [str(n) for n in range(101)], "action": "star"}, "/messageIds", "100"),
    ("get_delivery_operation", HERE, "/operationId", REQUIRED),
    ("cancel_scheduled_email", HERE, "/scheduleId", REQUIRED),
    ("get_status", {ACCOUNT: ...}, "/accountId", NO_SUCH),
]


@pytest.mark.parametrize(("name", "arguments", "place", "told"), WRONG)
def test_what_is_wrong_is_told_by_its_place(
    stage: Stage, name: str, arguments: dict[str, Any], place: str, told: str
) -> None:
    faults = stage.tools.faults(name, **stage.given(arguments))
    assert place in faults, faults
    assert told in faults[place]


def test_what_is_wrong_is_told_all_at_once(stage: Stage) -> None:
    faults = stage.tools.faults("get_email", accountId=stage.mailbox.id, bodyFormat="pdf", listOffset="1", limit=3)
    assert set(faults) == {"/messageId", "/bodyFormat", "/listOffset", "/limit"}
    many = stage.tools.faults("list_accounts", **{f"argument{number}": number for number in range(1000)})
    assert len(many) == 20


def test_a_fault_of_the_body_is_told_with_the_others(stage: Stage) -> None:
    faults = stage.tools.faults(
        "send_email", accountId=stage.mailbox.id, idempotencyKey="x", body={"text": "x"}, to=5, zzz=1
    )
    assert set(faults) == {"/zzz", "/to"}
    assert set(stage.tools.faults("send_email", accountId=stage.mailbox.id, zzz=1)) >= {"/zzz", "/idempotencyKey"}


def test_the_message_names_the_place_too(stage: Stage) -> None:
    error = stage.tools.error("list_emails", accountId=stage.mailbox.id, limit=0)
    assert error["message"].endswith("/limit: Expected `int` >= 1.")
    assert error["requestId"].startswith("req_")


def test_null_is_what_may_be_left_out(stage: Stage) -> None:
    found = stage.tools.data("list_emails", accountId=None, unread=None, from_=None, limit=None, cursor=None)
    assert [item["id"] for item in found["items"]] == [stage.message]
    same = stage.tools.data("get_email", accountId=stage.mailbox.id, messageId=stage.message, bodyFormat=None)
    assert same["body"]["format"] == "text"


def test_a_body_field_that_is_null_is_refused_as_the_api_refuses_it(stage: Stage) -> None:
    faults = stage.tools.faults("preview_send", accountId=stage.mailbox.id, body={"text": "x"}, cc=None)
    assert set(faults) == {"/cc"}


def test_deep_nesting_is_refused(stage: Stage) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert "/to/0" in stage.tools.faults("preview_send", accountId=stage.mailbox.id, body={"text": "x"}, to=deep)


def test_a_small_body_is_bounded_as_it_is_in_the_api(stage: Stage) -> None:
    labels = ["x" * 1_100_000]
    error = stage.tools.error(
        "modify_emails", accountId=stage.mailbox.id, messageIds=["x"], action="addLabels", labels=labels
    )
    assert error["code"] == "body_too_large"


def test_there_is_no_other_tool(stage: Stage) -> None:
    with pytest.raises(call.UnknownTool):
        call.call_tool(CallContext(stage.appliance, LOCAL, stage.client.token), "send_emails", {})


# --- The order of checks: caller, mailbox, permission, input ---

ORDER = [
    ("get_email", {"messageId": 5, "wrong": 1}),
    ("send_email", {"idempotencyKey": 5}),
    ("modify_emails", {"action": "explode"}),
    ("list_emails", {"limit": "x"}),
    ("download_attachment", {}),
]


@pytest.mark.parametrize(("name", "arguments"), ORDER)
def test_who_asks_comes_first_and_what_is_wrong_last(stage: Stage, name: str, arguments: dict[str, Any]) -> None:
    tools, member = stage.tools, stage.client.member["id"]
    for token in (None, "nonsense", "mbxs_" + "a" * 49):
        asked = Called(stage.appliance, token)
        assert asked.error(name, accountId="acc_elsewhere", **arguments)["code"] == "unauthenticated"
    assert tools.error(name, accountId="acc_elsewhere", **arguments)["code"] == "not_found"
    _, nothing = add_key(stage.appliance, member)
    denied = tools.error(name, token=nothing, accountId=stage.mailbox.id, **arguments)
    assert denied["code"] == "permission_denied"
    assert {detail["path"] for detail in denied["details"]} == {"capability"}
    _, elsewhere = add_key(stage.appliance, member, "mail.read", "mail.send", "mail.organize", accounts=[])
    assert tools.error(name, token=elsewhere, accountId=stage.mailbox.id, **arguments)["code"] == "not_found"
    assert tools.faults(name, accountId=stage.mailbox.id, **arguments)


def test_a_missing_mailbox_is_told_to_those_alone_who_may_ask(stage: Stage) -> None:
    assert Called(stage.appliance, None).error("list_folders")["code"] == "unauthenticated"
    _, drafts = add_key(stage.appliance, stage.client.member["id"], "mail.drafts")
    assert stage.tools.error("list_folders", token=drafts)["code"] == "permission_denied"
    assert stage.tools.faults("list_folders") == {"/accountId": REQUIRED}


def test_a_suspended_member_is_told_so(stage: Stage) -> None:
    member = add_member(stage.appliance, "eve")
    _, token = add_key(stage.appliance, member, "mail.read")
    assert stage.tools.data("list_accounts", token=token) == []
    suspend(stage.appliance, member)
    assert stage.tools.error("list_accounts", token=token)["code"] == "member_suspended"


# --- Schemas of input and output: JSON Schema 2020-12, generated from the types of operations ---


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
    "list_approvals": [],
    "modify_emails": ["accountId", "messageIds", "action"],
    "undo_action": ["accountId", "token"],
    "list_changes": [],
    "get_status": [],
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed_is_said(name: str) -> None:
    assert BY_NAME[name].input()["required"] == NEEDED[name]


DEFAULTS = [
    ("list_emails", "limit", 10),
    ("search_emails", "limit", 10),
    ("list_scheduled_emails", "limit", 20),
    ("list_approvals", "limit", 20),
    ("list_changes", "limit", 20),
    ("list_changes", "wait", 0),
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
    of_forwards = {"messageId", "comment", "includeAttachments"}
    assert fields - {"idempotencyKey", "previewDigest"} == set(previewed) - {"listOffset"} - of_forwards
    assert of_forwards | {"previewDigest"} <= set(BY_NAME["forward_email"].input()["properties"])


def test_all_there_is_to_be_told_beforehand_is_bounded() -> None:
    told = sum(len(repr(tool.input())) + len(tool.help) for tool in TOOLS)
    assert told < 40_000
