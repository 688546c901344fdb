"""The SDK's own client and every tool, over stdio and HTTP, in both protocol versions; permissions."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp_server import mailbag
from tests.mcp_server.assistant import (
    CURRENT,
    PREVIOUS,
    VERSIONS,
    Assistant,
    MCPError,
)
from tests.mcp_server.judging import HINTS, Judge, code_of, data_of, error_of
from tests.mcp_server.stage import Stage
from tests.mcp_server.story import Story
from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance

UNKNOWN_TOOL = -32602


@pytest.fixture(scope="module")
def stage(mail_server: MailServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A serving appliance that is set up."""
    folder = tmp_path_factory.mktemp("assistants")
    running = RunningAppliance(folder / "data").start()
    try:
        running.set_up()
        yield Stage(running, mail_server, folder)
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("mode", VERSIONS)
@pytest.mark.parametrize("way", ["http", "stdio"])
def test_a_day_with_every_tool(stage: Stage, way: str, mode: str) -> None:
    recipient = stage.mail.fresh_user()
    account, user = stage.mailbox(*mailbag.letters("you@example.test"))
    with stage.ways()[way](stage.key(permissionProfile="full"), mode) as assistant:
        assert assistant.version == VERSIONS[mode]
        assert "untrusted" in (assistant.instructions or "untrusted")
        judge = Judge(assistant.tools())
        judge.check_listing()
        Story(assistant, judge, stage.running, stage.mail, account, user, recipient).play()
        with pytest.raises(MCPError) as unknown:
            assistant.call("drop_everything", {})
        assert unknown.value.code == UNKNOWN_TOOL


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_a_client_that_asks_first_is_told_the_current_version(stage: Stage, way: str) -> None:
    with stage.ways()[way](str(stage.running.token), "auto") as assistant:
        assert assistant.version == CURRENT


READING = {name for name, hints in HINTS.items() if hints["readOnlyHint"]} - {"preview_send", "list_approvals"}
WRITING: dict[str, dict[str, Any]] = {
    "create_upload_link": {},
    "create_draft": {"body": {"text": "a"}},
    "update_draft": {"draftId": "msg_1", "body": {"text": "a"}},
    "delete_draft": {"draftId": "msg_1"},
    "preview_send": {"to": [{"email": "a@example.test"}], "body": {"text": "a"}},
    "send_email": {"to": [{"email": "a@example.test"}], "body": {"text": "a"}, "idempotencyKey": "k"},
    "forward_email": {"messageId": "msg_1", "to": [{"email": "a@example.test"}], "idempotencyKey": "k"},
    "cancel_scheduled_email": {"scheduleId": "sch_1"},
    "modify_emails": {"messageIds": ["msg_1"], "action": "markRead"},
    "undo_action": {"token": "mbxu_1"},
}
#: The tools listed for a key with these capabilities.
SHOWN: dict[tuple[str, ...], set[str]] = {
    ("mail.read",): READING,
    ("mail.drafts",): {"create_upload_link", "create_draft", "update_draft", "delete_draft", "preview_send"},
    ("mail.send",): {
        *("create_upload_link", "preview_send", "send_email", "forward_email", "cancel_scheduled_email"),
        "list_approvals",
    },
    ("mail.organize",): {"modify_emails", "undo_action"},
    ("mail.trash", "mail.delete"): {"modify_emails", "undo_action"},
    ("admin.audit",): set(),
}


def test_a_key_that_may_only_read(stage: Stage) -> None:
    assert set(HINTS) == READING | WRITING.keys() | {"list_approvals"}
    account, _ = stage.mailbox()
    with stage.http(stage.key(permissionProfile="read-only"), CURRENT) as assistant:
        judge = Judge(assistant.tools())
        judge.check_listing(READING)
        for name, arguments in WRITING.items():
            given = {"accountId": account, **arguments}
            error = error_of(judge.check(name, given, assistant.call(name, given)))
            assert (error["code"], error["details"][0]["path"]) == ("permission_denied", "capability"), name


@pytest.mark.parametrize("mode", VERSIONS)
def test_a_key_is_shown_what_it_can_use(stage: Stage, mode: str) -> None:
    for capabilities, names in SHOWN.items():
        with stage.http(stage.key(customCapabilities=capabilities), mode) as assistant:
            assert {tool["name"] for tool in assistant.tools()} == names, capabilities


def test_a_key_for_one_mailbox(stage: Stage) -> None:
    own, other = stage.mailbox()[0], stage.mailbox()[0]
    with stage.http(stage.key(permissionProfile="full", accounts=[own]), CURRENT) as assistant:
        assert [mailbox["id"] for mailbox in data_of(assistant.call("list_accounts", {}))] == [own]
        assert data_of(assistant.call("list_folders", {"accountId": own}))
        in_mailboxes = {name: arguments for name, arguments in WRITING.items() if name != "create_upload_link"}
        for name, arguments in {
            **in_mailboxes,
            "list_folders": {},
            "list_emails": {},
            "list_scheduled_emails": {},
        }.items():
            assert code_of(assistant.call(name, {"accountId": other, **arguments})) == "not_found", name


def test_a_key_that_is_revoked_while_its_assistant_works(stage: Stage) -> None:
    for way in stage.ways().values():
        key = stage.made(permissionProfile="read-only")
        with way(key["token"], CURRENT) as assistant:
            assert {tool["name"] for tool in assistant.tools()} == READING
            assert code_of(assistant.call("create_draft", {"accountId": "acc_1"})) == "not_found"
            stage.running.ask("DELETE", f"/me/api-keys/{key['apiKey']['id']}")
            assert refused(assistant) in ("unauthenticated", 401)
    with pytest.raises(MCPError), stage.http(key["token"], PREVIOUS):
        pass


def test_a_member_who_is_suspended_while_an_assistant_works(stage: Stage) -> None:
    for number, way in enumerate(stage.ways().values()):
        member, session = stage.member(f"Eve{number}")
        token = stage.made(by=session, permissionProfile="full")["token"]
        with way(token, CURRENT) as assistant:
            assert data_of(assistant.call("list_accounts", {})) == []
            stage.running.ask("PATCH", f"/admin/members/{member}", {"status": "suspended"})
            assert refused(assistant) in ("member_suspended", 403)


def refused(assistant: Assistant) -> object:
    """Return the status for a caller without access; over stdio the code of the error."""
    try:
        return code_of(assistant.call("get_status", {}))
    except MCPError:
        return assistant.statuses[-1]
