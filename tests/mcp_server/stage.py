"""A running appliance with mail servers, and the transports of MCP clients."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mcp_server.assistant import Assistant, environment_of, over_http, over_stdio
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance

Way = Callable[[str, str], AbstractContextManager[Assistant]]


@dataclass
class Stage:
    """A running appliance, mail servers, and the transports."""

    running: RunningAppliance
    mail: MailServer
    folder: Path

    def mailbox(self, *sources: bytes) -> tuple[str, str]:
        """Connect a new mailbox with these letters and wait for its sync; return its ID and address."""
        user = self.mail.fresh_user()
        if sources:
            self.mail.deliver(user, *sources)
        account = self.running.connect(user, imap_port=self.mail.imap_port, smtp_port=self.mail.submission_port)
        self.wait_for(account, len(sources))
        return account, user

    def wait_for(self, account: str, count: int) -> None:
        """Wait until the mailbox is ready and has so many messages."""

        def state() -> Any:
            return self.running.ask("GET", f"/accounts/{account}").data

        def items() -> Any:
            return self.running.ask("GET", f"/accounts/{account}/messages?limit=100").data["items"]

        wait_until(lambda: state()["status"] == "ready" and len(items()) == count, lambda: str(state()), 20)

    def key(self, **rights: Any) -> str:
        """Return the token of a new API key of the administrator."""
        return str(self.made(**rights)["token"])

    def made(self, *, by: str | None = None, **rights: Any) -> Any:
        answer = self.running.ask("POST", "/me/api-keys", {"name": "assistant", **rights}, token=by)
        assert answer.status == 201, answer
        return answer.data

    def member(self, name: str) -> tuple[str, str]:
        """Create a member; return the ID and the token of a session."""
        person = {"name": name, "email": f"{name.lower()}@example.org", "role": "member"}
        made = self.running.ask("POST", "/admin/members", person).data
        enroll = {"token": made["invitation"]["token"], "password": "eleven green bottles", "deviceName": "x"}
        return made["member"]["id"], self.running.ask("POST", "/auth/enroll", enroll).data["token"]

    def http(self, token: str, mode: str) -> AbstractContextManager[Assistant]:
        """Connect straight to `/mcp`."""
        return over_http(self.running.url, token, mode)

    def stdio(self, token: str, mode: str) -> AbstractContextManager[Assistant]:
        """Connect through a child that finds the appliance by its data directory."""
        environment = environment_of(self.folder / "config", token)
        arguments = ["--data-dir", str(self.running.folder)]
        return over_stdio(arguments, environment, self.folder / "errors", mode)

    def ways(self) -> dict[str, Way]:
        """Return both transports by name."""
        return {"http": self.http, "stdio": self.stdio}
