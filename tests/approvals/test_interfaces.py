"""What keys, AI agents and commands see of approvals and sending policies."""

import io
import json
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.cli.main import run
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.clock import to_timestamp
from tests.approvals.conftest import OTHER, Desk
from tests.approvals.test_approvals import pending
from tests.servers.mailboxes import wait_until


def call_tool(desk: Desk, name: str, **arguments: object) -> Any:
    """Return the result of a tool, called with the API key."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    headers = {
        "Authorization": f"Bearer {desk.key}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "MCP-Protocol-Version": "2025-11-25",
    }
    request = urllib.request.Request(f"{desk.house.url}/mcp", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["result"]


def send_by_tool(desk: Desk, key: str) -> Any:
    """Send a message with the tool `send_email`."""
    message = {"to": [{"email": OTHER}], "subject": "Hello", "body": {"text": "Hi."}}
    return call_tool(desk, "send_email", accountId=desk.box.id, idempotencyKey=key, **message)


class Typed(io.BytesIO):
    """The standard input of a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture
def command(desk: Desk, tmp_path: Path) -> Any:
    """A function that runs a command as the owner: exit code, output and error output."""
    environment: Mapping[str, str] = {
        "MAILBOX_APPLIANCE_CONFIG_DIR": str(tmp_path),
        "MAILBOX_APPLIANCE_DATA_DIR": str(tmp_path),
        "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        "MAILBOX_APPLIANCE_INSTANCE": desk.house.url,
        "MAILBOX_APPLIANCE_TOKEN": str(desk.box.owner.token),
    }

    def ask(line: str, typed: str | None = None) -> tuple[int, str, str]:
        stdin = io.BytesIO() if typed is None else Typed(typed.encode())
        out, err = io.StringIO(), io.StringIO()
        code = run(line.split(), {}, Terminal(stdin, out, err, environment))
        return code, out.getvalue(), err.getvalue()

    return ask


def test_an_agent_is_told_that_a_person_decides(desk: Desk) -> None:
    desk.set_key_policy(approval="always")
    told = send_by_tool(desk, "once")
    assert not told["isError"]
    for words in ("a person must approve it first", "Tell the user", "Do not send it again", "list_approvals"):
        assert words in told["content"][0]["text"]
    operation = told["structuredContent"]["data"]["operationId"]
    listed = call_tool(desk, "list_approvals")
    (item,) = listed["structuredContent"]["data"]["items"]
    assert (item["operationId"], item["status"], item["to"]) == (operation, "pending", [{"email": OTHER}])
    assert not {"bodyText", "subject", "digest", "attachments"} & item.keys()
    assert "/data/items/0/to/0/email" in listed["structuredContent"]["untrusted"]
    desk.owner("POST", f"/approvals/{pending(desk)['id']}/reject", {"reason": "Not to him."})
    failed = call_tool(desk, "get_delivery_operation", accountId=desk.box.id, operationId=operation)
    assert "approval_rejected" in failed["content"][0]["text"]
    assert failed["structuredContent"]["warnings"] == ["It was rejected: Not to him."]
    (item,) = call_tool(desk, "list_approvals", status="rejected")["structuredContent"]["data"]["items"]
    assert item["decidedAt"]
    assert desk.reached() == []


def test_a_credential_sees_only_what_it_asked_for(desk: Desk) -> None:
    desk.set_policy(approval="always")
    desk.send(OTHER)
    other = desk.owner("POST", "/me/api-keys", {"name": "Other", "permissionProfile": "full"}).data["token"]
    ask = desk.house.running.ask
    assert ask("GET", "/me/approvals", token=other).data["items"] == []
    assert desk.owner("GET", "/me/approvals").data["items"] == []
    assert len(ask("GET", "/me/approvals", token=desk.key).data["items"]) == 1
    assert ask("GET", "/approvals", token=desk.key).code == "session_required"


def test_an_agent_is_told_not_to_get_around_a_policy(desk: Desk) -> None:
    desk.set_policy(allowedRecipients=[])
    told = send_by_tool(desk, "once")
    error = json.loads(told["content"][0]["text"])["error"]
    assert (told["isError"], error["code"], error["details"][0]["path"]) == (True, "policy_denied", "/to/0/email")
    assert "Nothing was sent." in error["message"]
    assert "Do not try other recipients" in error["message"]


def test_a_delivery_warns_of_an_approval_only_while_it_waits(desk: Desk) -> None:
    desk.set_policy(approval="always")
    later = to_timestamp(datetime.now(UTC) + timedelta(days=30))
    answer = desk.send(OTHER, sendAt=later)
    assert "waits until a person approves it" in answer.body["warnings"][-1]
    operation = f"/accounts/{desk.box.id}/delivery-operations/{answer.data['operationId']}"
    assert desk.owner("GET", f"{operation}/timeline").data["nextAttemptAt"] is None
    shown = pending(desk)
    desk.owner("POST", f"/approvals/{shown['id']}/approve", {"digest": shown["digest"]})
    approved = desk.owner("GET", operation)
    assert approved.data["status"] == "queued"
    assert "warnings" not in approved.body
    assert desk.owner("GET", f"{operation}/timeline").data["nextAttemptAt"] == later


def test_a_person_on_a_terminal_sees_what_they_approve(desk: Desk, command: Any) -> None:
    desk.set_policy(approval="always")
    desk.send(OTHER)
    shown = pending(desk)
    code, _, err = command(f"approvals approve {shown['id']}")
    assert (code, "--digest" in err) == (2, True)
    code, _, err = command(f"approvals approve {shown['id']}", "n\n")
    assert "Nothing was approved." in err
    for words in (f"to:\n  {OTHER}", "subject: Hello", "Hi.", "Agent", shown["digest"]):
        assert words in err
    code, _, err = command(f"approvals approve {shown['id']} --digest sha256:0")
    assert json.loads(err)["error"]["code"] == "conflict"
    assert desk.reached() == []
    code, out, _ = command(f"approvals approve {shown['id']}", "y\n")
    assert (code, json.loads(out)["data"]["status"]) == (0, "approved")
    wait_until(lambda: desk.reached() == [OTHER], lambda: "not sent", 20)


def test_a_command_changes_only_the_given_fields_of_a_policy(desk: Desk, command: Any) -> None:
    code, _, err = command("policy set --allow example.org --allow ann@example.net --per-day 20")
    assert code == 0, err
    code, out, err = command("policy set --approval always --per-day none --internal-only")
    policy = json.loads(out)["data"]
    assert policy["allowedRecipients"] == ["example.org", "ann@example.net"]
    assert (policy["approval"], policy["perDay"], policy["internalOnly"]) == ("always", None, True)
    assert "allowedRecipients: nobody" in command("policy set --allow-nobody --format table")[1]
    assert json.loads(command("policy set --allow-everybody")[1])["data"]["allowedRecipients"] is None
    assert command("policy set --allow a.example --allow-nobody")[0] == 2
    assert command("policy set")[0] == 2
    assert command("policy set --per-day many")[0] == 2
    code, out, _ = command(f"policy set --key {desk.key_id} --block example.org")
    assert json.loads(out)["data"]["blockedRecipients"] == ["example.org"]
    assert json.loads(command(f"policy show --key {desk.key_id}")[1]) == json.loads(out)
    assert command("policy show --all-members")[0] == 2
