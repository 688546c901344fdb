"""The interface of tools: messages of the Model Context Protocol to `/mcp`, in process, through the real bridge.

Every call has an argument that nothing knows, so nothing is done.
"""

import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.web.app import App
from tests.doors.people import HERE, Aim, Credential, Origin
from tests.doors.rights import ACTIONS, BOX, MESSAGE, OPERATION, RIGHTS, UNDO
from tests.doors.verdicts import NONSENSE, Verdict

#: Who answers: HTTP before any message is read, or the tool.
Told = tuple[str, str | None, str | None]
VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "matrix", "version": "1"},
}


@dataclass(frozen=True)
class Row:
    """A tool, the REST call that it stands for, and what is given to it beside the values of the path."""

    tool: str
    call: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The tool, and the bulk action or the mailbox where it takes one."""
        if self.tool == "preview_send" and self.arguments:
            return f"{self.tool} of a forward"
        given = self.action or ("in a mailbox" if self.tool in _WITH_AND_WITHOUT and "accountId" in self.call else "")
        return f"{self.tool} {given}".rstrip()

    @property
    def action(self) -> str | None:
        """The bulk action."""
        return self.arguments.get("action")


_WITH_AND_WITHOUT = ("list_emails", "search_emails")


def _actions() -> Iterable[Row]:
    """A row for each bulk action of the table of rights."""
    for right in RIGHTS:
        if right.action is not None and right.body is not None:
            yield Row("modify_emails", ACTIONS, dict(right.body))


# fmt: off
ROWS: tuple[Row, ...] = (
    Row("list_accounts",          "GET /accounts"),
    Row("get_status",             "GET /status"),
    Row("list_folders",           f"GET {BOX}/folders"),
    Row("list_labels",            f"GET {BOX}/labels"),
    Row("list_emails",            "GET /messages"),
    Row("list_emails",            f"GET {BOX}/messages"),
    Row("search_emails",          "GET /messages", {"q": "a"}),
    Row("search_emails",          f"GET {BOX}/messages", {"q": "a"}),
    Row("get_email",              f"GET {MESSAGE}"),
    Row("get_email_body",         f"GET {MESSAGE}/body"),
    Row("get_thread",             f"GET {BOX}/threads/{{threadId}}"),
    Row("download_attachment",    f"POST {MESSAGE}/attachments/{{attachmentId}}/download-link"),
    Row("create_upload_link",     "POST /uploads/links"),
    Row("create_draft",           f"POST {BOX}/drafts"),
    Row("get_draft",              f"GET {BOX}/drafts/{{draftId}}"),
    Row("update_draft",           f"PUT {BOX}/drafts/{{draftId}}"),
    Row("delete_draft",           f"DELETE {BOX}/drafts/{{draftId}}"),
    Row("preview_send",           f"POST {BOX}/send/preview"),
    Row("preview_send",           f"POST {MESSAGE}/forward/preview", {"messageId": "m"}),
    Row("send_email",             f"POST {BOX}/send", {"idempotencyKey": "k"}),
    Row("forward_email",          f"POST {MESSAGE}/forward", {"idempotencyKey": "k"}),
    Row("get_delivery_operation", f"GET {OPERATION}"),
    Row("list_scheduled_emails",  f"GET {BOX}/scheduled"),
    Row("cancel_scheduled_email", f"DELETE {BOX}/scheduled/{{scheduleId}}"),
    Row("list_approvals",         "GET /me/approvals"),
    Row("list_changes",           "GET /events"),
    *_actions(),
    Row("undo_action",            UNDO),
)
# fmt: on


class Mcp:
    """Calls tools of an appliance."""

    def __init__(self, appliance: Appliance, folder: Path) -> None:
        self._assistants = McpEndpoint()
        self._app = App(appliance, assistants=self._assistants)

    def close(self) -> None:
        """End the bridge."""
        self._assistants.close()

    def ask(self, row: Row, who: Credential, origin: Origin, aim: Aim) -> Told:
        """Who refuses, the code, and what is named."""
        places = dict.fromkeys(re.findall(r"{(\w+)}", row.call), "unknown")
        arguments = {**places, **aim.values, **row.arguments, NONSENSE: 1}
        params = {"name": row.tool, "arguments": arguments}
        status, answer = self._post("tools/call", params, who, origin)
        if status != 200:
            return _told("http", answer["error"])
        result = answer["result"]
        assert result["isError"], (row.name, who.name)
        return _told("tool", json.loads(result["content"][0]["text"])["error"])

    def listed(self, who: Credential) -> set[str]:
        """The tools that somebody is shown."""
        status, answer = self._post("tools/list", {}, who, HERE)
        return {tool["name"] for tool in answer["result"]["tools"]} if status == 200 else set()

    def _post(self, method: str, params: dict[str, Any], who: Credential, origin: Origin) -> tuple[int, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
        content = json.dumps(message).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/mcp",
            "QUERY_STRING": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "127.0.0.1:8025",
            "HTTP_ACCEPT": "application/json, text/event-stream",
            "HTTP_MCP_PROTOCOL_VERSION": VERSION,
            "HTTP_MCP_METHOD": method,
            "HTTP_MCP_NAME": params.get("name", ""),
            "REMOTE_ADDR": origin.peer,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(content)),
            "wsgi.input": io.BytesIO(content),
            "wsgi.url_scheme": "https" if origin.is_secure else "http",
        }
        environ |= {"HTTP_" + name.upper().replace("-", "_"): value for name, value in origin.headers.items()}
        if who.token:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {who.token}"
        began: list[str] = []
        answer = b"".join(self._app(environ, lambda status, headers: began.append(status)))
        return int(began[0][:3]), json.loads(answer)

    def told(self, verdict: Verdict) -> Told:
        """A verdict of the API: who has no good credential does not come as far as to a tool."""
        where = "http" if verdict.code in ("unauthenticated", "member_suspended") else "tool"
        path = verdict.path
        return where, verdict.code, f"/{path.partition(':')[2]}" if path is not None and ":" in path else path

    @staticmethod
    def ways() -> Sequence[Row]:
        """The tools."""
        return ROWS

    @staticmethod
    def without_row() -> set[str]:
        """Tools and the calls they stand for without a row, and rows without a tool."""
        stands_for = {f"{tool.name} {tool.rest_call}" for tool in TOOLS} - {f"{row.tool} {row.call}" for row in ROWS}
        return stands_for | ({tool.name for tool in TOOLS} ^ {row.tool for row in ROWS})


def _told(where: str, error: Any) -> Told:
    paths = [one["path"] for one in error.get("details", ())]
    return where, error["code"], f"/{NONSENSE}" if f"/{NONSENSE}" in paths else next(iter(paths), None)
