"""What the full run does through an assistant: every tool, a link followed, and secrets where they do not belong."""

import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mailbox_appliance.clock import to_timestamp
from tests.mcp_server.assistant import Assistant, MCPError
from tests.mcp_server.judging import data_of, error_of

#: What stands in the letter, and in what is written: none of it may lie in a file that can be read.
SUBJECT, FILE = "Quokkas of Rottnest", "ferry-timetable.txt"
BODY, WRITTEN, SOUGHT = "They sleep below the lighthouse keeper's veranda.", "Umbrellas for nine.", "veranda lighthouse"
PRIVATE = {"subject": SUBJECT, "file name": FILE, "body": BODY, "text that was written": WRITTEN, "search": SOUGHT}


def letter(to: str) -> bytes:
    """The letter that lies in the mailbox."""
    text = (
        f"From: Quentin <quentin@example.test>\r\nTo: {to}\r\nSubject: {SUBJECT}\r\nMessage-ID: <q@example.test>\r\n"
        "Date: Sat, 21 Nov 2026 05:00:00 +0000\r\nMIME-Version: 1.0\r\n"
        "Content-Type: multipart/mixed; boundary=edge\r\n\r\n"
        f"--edge\r\nContent-Type: text/plain\r\n\r\n{BODY}\r\n"
        f"--edge\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename={FILE}\r\n\r\n08:15\r\n"
        "--edge--\r\n"
    )
    return text.encode()


@dataclass
class ByTools:
    """Calls tools; `tell` is told what each came to, `remember` of a secret that a step shows."""

    assistant: Assistant
    account: str
    recipient: str
    tell: Callable[[str, dict[str, Any]], None]
    remember: Callable[[str, str, str], str]
    used: set[str] = field(default_factory=set)

    def go(self) -> None:
        self._look_around()
        message = self._read()
        self._draft()
        self._send(message)
        self._follow()
        self._send_later()
        star = {"accountId": self.account, "messageIds": [message], "action": "star"}
        taken = self._call("tool modify_emails", "modify_emails", star)
        self._ask("undo_action", token=taken["structuredContent"]["undo"]["token"])
        assert data_of(self._call("tool list_approvals", "list_approvals", {}))["items"] == []

    def _call(self, step: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self.assistant.call(tool, arguments)
        self.tell(step, result)
        self.used.add(tool)
        return result

    def _ask(self, tool: str, step: str = "", **arguments: Any) -> Any:
        return data_of(self._call(step or f"tool {tool}", tool, {"accountId": self.account, **arguments}))

    def _look_around(self) -> None:
        for tool in ("list_accounts", "get_status"):
            assert data_of(self._call(f"tool {tool}", tool, {}))
        for tool in ("list_folders", "list_labels", "list_emails"):
            self._ask(tool)

    def _read(self) -> str:
        found = self._ask("search_emails", text=SOUGHT.split()[0])["items"][0]
        message = self._ask("get_email", messageId=found["id"])
        assert BODY in self._ask("get_email_body", messageId=found["id"])["content"]
        self._ask("get_thread", threadId=found["threadId"])
        file = {"messageId": found["id"], "attachmentId": message["attachments"][0]["id"]}
        link = self._ask("download_attachment", **file, inline=True)["url"]
        self.remember("tool download_attachment", "download link", link.rpartition("/")[2])
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(link, timeout=30) as answer:
            assert answer.read().startswith(b"08:15")
        assert self._ask("search_emails", "tool search_emails by many", q=SOUGHT)["items"] is not None
        link = data_of(self._call("tool create_upload_link", "create_upload_link", {"filename": "plan.txt"}))["url"]
        self.remember("tool create_upload_link", "upload link", link.rpartition("/")[2])
        return str(found["id"])

    def _draft(self) -> None:
        message: dict[str, Any] = {"to": [{"email": self.recipient}], "body": {"text": WRITTEN}, "subject": SUBJECT}
        draft = self._ask("create_draft", **message)["draftId"]
        self._ask("update_draft", **message, draftId=draft)
        self._ask("get_draft", draftId=draft)
        self._ask("preview_send", draftId=draft)
        self._ask("delete_draft", draftId=draft)

    def _send(self, message: str) -> None:
        to: dict[str, Any] = {"to": [{"email": self.recipient}]}
        sent = self._ask("send_email", **to, body={"text": WRITTEN}, subject=SUBJECT, idempotencyKey="by-tool")
        self._ask("get_delivery_operation", operationId=sent["operationId"])
        self._ask("forward_email", **to, messageId=message, comment=WRITTEN, idempotencyKey="forward-by-tool")

    def _follow(self) -> None:
        position = self._ask("list_changes")["nextPosition"]
        self._ask("list_changes", after=position, types="message.created")

    def _send_later(self) -> None:
        tomorrow = to_timestamp(datetime.now(UTC) + timedelta(days=1))
        later = {"to": [{"email": self.recipient}], "body": {"text": WRITTEN}, "sendAt": tomorrow}
        self._ask("send_email", "tool send_email for tomorrow", **later, idempotencyKey="later-by-tool")
        waiting = self._ask("list_scheduled_emails")["items"]
        self._ask("cancel_scheduled_email", scheduleId=waiting[0]["id"])


def misplace(by: ByTools, token: str, password: str) -> None:
    """Secrets where they do not belong: they must not come back, nor be written down."""
    box = {"accountId": by.account}
    wrong: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("a token as a message", "get_email", {**box, "messageId": token}),
        ("a token as a mailbox", "list_folders", {"accountId": token}),
        ("a token as a cursor", "list_emails", {**box, "cursor": token}),
        ("a password as an action", "modify_emails", {**box, "messageIds": ["m"], "action": password}),
        ("a password as a number", "list_emails", {**box, "limit": password}),
        ("a password as recipient", "preview_send", {**box, "to": password, "body": {}}),
        ("a token beside the arguments", "get_status", {"token": token}),
    )
    for step, tool, arguments in wrong:
        result = by.assistant.call(tool, arguments)
        assert error_of(result), step
        by.tell(f"tool: {step}", result)
    try:
        by.assistant.call(token, {})
    except MCPError as error:
        by.tell("tool: a token as a tool", {"error": f"{error} {error.error.data}"})
    else:
        raise AssertionError("a token is no tool")
