"""The hundred injections in a real mailbox, synced, and the tools as an MCP client calls them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mailbox_appliance.mcp_server import call
from mailbox_appliance.mcp_server.tool import CallContext
from mailbox_appliance.operations.operation import LOCAL
from tests.mcp_server.sceptic import Answer
from tests.servers.desk import Desk
from tests.servers.dovecot import MailServer
from tests.servers.injected.case import Injection
from tests.servers.injections import INJECTIONS, as_delivered
from tests.servers.mailboxes import wait_until

#: Characters of a giant body that are read page by page.
_ENOUGH = 20_000


@dataclass
class CorpusDesk:
    """An appliance with the mailbox. Every result is checked; `called` are the tools with successful results."""

    desk: Desk
    account: str
    user: str
    ids: dict[str, str] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)

    @classmethod
    def made(cls, folder: Path, server: MailServer) -> "CorpusDesk":
        """Create it with the whole corpus in its inbox, bodies too."""
        user = server.fresh_user()
        server.fill(user, "INBOX", as_delivered())
        desk = Desk(folder, sending__answer_within=20, sync__poll_interval=5)
        account = desk.connect(user, imap_port=server.imap_port, smtp_port=server.submission_port)
        made = cls(desk, account, user)

        def is_complete() -> bool:
            [state] = desk.ask("GET", "/status").data["accounts"]
            return state["progress"] is None and len(made._listed()) == len(INJECTIONS)

        wait_until(is_complete, lambda: str(desk.ask("GET", "/status").data), 30)
        newest_first = [item["id"] for item in made._listed()]
        made.ids = {one.name: its for one, its in zip(INJECTIONS, reversed(newest_first), strict=True)}
        return made

    def _listed(self) -> list[Any]:
        found: list[Any] = self.desk.ask("GET", f"/accounts/{self.account}/messages?folder=inbox&limit=100").data[
            "items"
        ]
        return found

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Return any result of a tool for this mailbox, after checking how it is shown."""
        asked = CallContext(self.desk.appliance, LOCAL, self.desk.token)
        shown = call.call_tool(asked, tool, {"accountId": self.account, **arguments})
        answer = Answer.of(tool, shown)
        assert answer.faults() == [], (arguments, answer.text[:1000])
        if not shown.is_error:
            self.called.add(tool)
        return answer

    def id_of(self, injection: Injection) -> str:
        """Return the ID of the message."""
        return self.ids[injection.name]

    def bodies(self, injection: Injection, form: str) -> str:
        """Return the whole body, read page by page; of a giant one its beginning and its end."""
        content, offset = "", 0
        while offset < _ENOUGH:
            page = self.call("get_email_body", messageId=self.id_of(injection), bodyFormat=form, offset=offset).data
            content += page["content"]
            if page["nextOffset"] is None:
                return content
            offset = page["nextOffset"]
        last = {
            "messageId": self.id_of(injection),
            "bodyFormat": form,
            "offset": max(offset, page["totalChars"] - 3000),
        }
        return content + str(self.call("get_email_body", **last).data["content"])
