"""The first steps of a user with an appliance in a minimal system, each done with the program itself."""

import http.client
import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.packaging.minimal_system import MinimalSystem
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance

INSTALLED = "/usr/bin/mailbox-appliance"
DATA = "/var/lib/mailbox-appliance"
_MODERN = {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"}


class Newcomer:
    """The program at a path of a minimal system, run by a user of it on a data directory."""

    def __init__(
        self, system: MinimalSystem, program: str = INSTALLED, *, user: str = "mailbox-appliance", data: str = DATA
    ) -> None:
        self.system, self.program, self.user, self.data = system, program, user, data
        self._variables = {"HOME": data, "MAILBOX_APPLIANCE_DATA_DIR": data, "MAILBOX_APPLIANCE_KEYCHAIN": "off"}
        self.account = ""
        self._running: RunningAppliance | None = None

    @property
    def running(self) -> RunningAppliance:
        """The started service."""
        assert self._running is not None
        return self._running

    @property
    def pid(self) -> int:
        """The process ID of the service."""
        assert self.running.process is not None
        return self.running.process.pid

    def start(self) -> float:
        """Start the service; return the seconds until its first response."""
        command = self.system.command(self.program, user=self.user, **self._variables)
        began = time.perf_counter()
        self._running = RunningAppliance(Path(self.data), argv=command).start()
        status, _ = self.get("/healthz")
        took = time.perf_counter() - began
        assert status == 200, status
        return took

    def stop(self) -> None:
        """Send SIGTERM and wait for an orderly end."""
        assert self.running.stop() == 0, self.running.said()

    def end(self) -> None:
        """Make sure that nothing of it keeps running."""
        if self._running is not None:
            # Not kill -9: the portable program is a process that waits for another one, which would keep running.
            self._running.stop()

    def say(self, *words: str, typed: str = "") -> Any:
        """Run one command; return the `data` of its output."""
        done = self.try_to_say(*words, typed=typed)
        assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr}"
        return json.loads(done.stdout)["data"]

    def try_to_say(self, *words: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run one command, which may fail."""
        return self.system.run(self.program, *words, typed=typed, check=False, user=self.user, **self._variables)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the response that a browser gets."""
        connection = http.client.HTTPConnection(urlsplit(self.running.url).netloc, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    # --- the steps ---

    def set_up(self) -> None:
        """Create the administrator."""
        who = ("--name", "Ada", "--email", "ada@example.org", "--password-stdin")
        self.say("setup", *who, typed=PASSWORD + "\n")
        assert self.say("whoami")["member"]["email"] == "ada@example.org"

    def connect(self, server: MailServer, email: str) -> None:
        """Connect a mailbox of a real server."""
        imap = ("--imap-host", "127.0.0.1", "--imap-port", str(server.imap_port), "--imap-security", "none")
        smtp = ("--smtp-host", "127.0.0.1", "--smtp-port", str(server.submission_port), "--smtp-security", "none")
        added = self.say("accounts", "add", "--email", email, *imap, *smtp, "--password-stdin", typed="secret\n")
        self.account = added["id"]

    def send_and_read(self, to: str, subject: str) -> None:
        """Send a message to oneself, and read it when it has arrived."""
        words = ("--to", to, "--subject", subject, "--text", "Read me.", "--idempotency-key", subject)
        sent = self.say("emails", "send", *words)
        assert sent["status"] == "succeeded", sent
        self.read(subject)

    def read(self, subject: str) -> None:
        """Find a message in the inbox and read it."""
        listed: list[Any] = []

        def has_come() -> bool:
            listed[:] = self.say("emails", "list", "--folder", "inbox")["items"]
            return any(each["subject"] == subject for each in listed)

        wait_until(has_come, lambda: str(listed), 20)
        (found,) = [each for each in listed if each["subject"] == subject]
        shown = self.say("emails", "get", found["id"])
        assert "Read me." in json.dumps(shown), shown

    def look_at_console(self) -> None:
        """Fetch the console's page, script, style sheet and a third-party file that they need."""
        status, page = self.get("/")
        assert status == 200
        files = re.findall(r'"(/console/[^"]+)"', page.decode())
        program = next(file for file in files if file.endswith("/app.js"))
        for file in {*files, program.replace("/app.js", "/vendor/preact.mjs")}:
            assert self.get(file)[0] == 200, file

    def count_tools_by_stdio(self) -> int:
        """Return the number of tools that `mcp` offers."""
        return _tools(self.try_to_say("mcp", typed=_asked()).stdout.splitlines())

    def count_tools_by_http(self) -> int:
        """Return the number of tools at /mcp, with the session's token."""
        (kept,) = (self.system / self.data[1:]).rglob("tokens.json")
        (token,) = json.loads(kept.read_text())["file"].values()
        connection = http.client.HTTPConnection(urlsplit(self.running.url).netloc, timeout=60)
        try:
            fields = {**_MODERN, "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/mcp", _asked().splitlines()[-1], fields)
            answer = connection.getresponse()
            lines = answer.read().decode().splitlines()
            return _tools([line.removeprefix("data: ") for line in lines])
        finally:
            connection.close()


def _asked() -> str:
    """Return an MCP client's messages up to the list of tools."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _tools(lines: Sequence[str]) -> int:
    answers = [json.loads(line) for line in lines if line.startswith("{")]
    (listed,) = [each for each in answers if each.get("id") == 2]
    return len(listed["result"]["tools"])
