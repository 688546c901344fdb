"""Proves that the MCP inspector can use everything that the SDK's client can, with the same results.

The inspector plays the story of a day (`story.py`), over HTTP and stdio, in both protocol versions. Every result is
checked as in the test suite. For each call that only reads, the SDK's client makes the same call, and the results must
agree. Then the inspector connects without a token, with a wrong one, and with a read-only one.

Run by `scripts/prove-assistants`.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mcp_server import mailbag
from tests.mcp_server.assistant import CURRENT, PREVIOUS, Assistant, Speaker, environment_of
from tests.mcp_server.inspector import (
    AUTH_REQUIRED,
    TOOL_ERROR,
    VERSION,
    CannotInstall,
    Inspector,
    as_child,
    at_url,
    install,
)
from tests.mcp_server.judging import HINTS, Judge
from tests.mcp_server.stage import Stage
from tests.mcp_server.story import Story
from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance

ERAS = {"modern": CURRENT, "legacy": PREVIOUS}
_TRIES = 3
_NEW = (
    re.compile(r"\b[0-9a-f]{24}\b"),
    re.compile(r"https?://[^\s\"']+/downloads/[\w.~-]+"),
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
    re.compile(r"req_\w+"),
)
#: Its text also contains its status, as numbers.
_NEW_STATUS = (re.compile(r"\d+"),)


@dataclass
class Twins:
    """Two clients: the first makes each call, and the second repeats those that change nothing."""

    first: Speaker
    second: Assistant
    calls: int = 0
    compared: int = 0
    seconds: list[float] = field(default_factory=list)

    def tools(self) -> list[dict[str, Any]]:
        """Return the listed tools, which must be the same for both."""
        one, other = self.first.tools(), self.second.tools()
        assert by_name(one) == by_name(other)
        return one

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first client's result."""
        began = time.monotonic()
        answer = self.first.call(name, arguments)
        self.seconds.append(time.monotonic() - began)
        self.calls += 1
        if HINTS[name]["readOnlyHint"]:
            self._compare(name, arguments, answer)
        return answer

    def _compare(self, name: str, arguments: Mapping[str, Any], answer: dict[str, Any]) -> None:
        """Compare both results; call again if mail may have arrived between the two."""
        for _ in range(_TRIES):
            other = self.second.call(name, arguments)
            if lasting(answer, name) == lasting(other, name):
                self.compared += 1
                return
            answer = self.first.call(name, arguments)
        raise AssertionError(f"{name} {arguments}: {lasting(answer, name)} is not {lasting(other, name)}"[:4000])


def by_name(tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return tools by name, without fields that only one client keeps."""
    return {
        tool["name"]: {key: tool[key] for key in ("description", "inputSchema", "outputSchema", "annotations")}
        for tool in tools
    }


def lasting(value: Any, tool: str = "") -> Any:
    """Return a result without values that change: nonces, links, times, request IDs, and the appliance's status."""
    if isinstance(value, dict):
        return {key: lasting(inner, tool) for key, inner in value.items() if key != "_meta"}
    if isinstance(value, list):
        return [lasting(inner, tool) for inner in value]
    if isinstance(value, str):
        for pattern in (*_NEW, *_NEW_STATUS) if tool == "get_status" else _NEW:
            value = pattern.sub("*", value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return 0 if tool == "get_status" and is_number else value


def play(stage: Stage, commands: Path, way: str, era: str) -> str:
    """Play the day of one inspector; return a summary."""
    recipient = stage.mail.fresh_user()
    account, user = stage.mailbox(*mailbag.letters("you@example.test"))
    token = stage.key(permissionProfile="full")
    inspector = Inspector(commands, stage.folder / "home", target_of(stage, way, token), era)
    with connected(stage, way, token, era) as sdk:
        twins = Twins(inspector, sdk)
        judge = Judge(twins.tools())
        judge.check_listing()
        # The inspector converts arguments by the schema of the tool: "5" becomes 5.
        Story(twins, judge, stage.running, stage.mail, account, user, recipient, is_literal=False).play()
    refusals(stage, commands, way, era)
    took = sorted(twins.seconds)
    return (
        f"{way} {era}: {twins.calls} calls of {len(judge.called)} tools, {sum(judge.called.values())} good answers,"
        f" {twins.compared} compared with the SDK's client, exit codes {dict(sorted(inspector.codes.items()))},"
        f" median {took[len(took) // 2]:.2f} s a call"
    )


def target_of(stage: Stage, way: str, token: str | None) -> list[str]:
    """Return the inspector's target for this transport."""
    if way == "http":
        return at_url(stage.running.url, token)
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(stage.running.folder), "mcp"]
    return as_child(stage.folder / "inspector.json", command, environment_of(stage.folder / "config", token))


def connected(stage: Stage, way: str, token: str, era: str) -> AbstractContextManager[Assistant]:
    """Connect the SDK's client by the same transport."""
    return stage.ways()[way](token, ERAS[era])


def refusals(stage: Stage, commands: Path, way: str, era: str) -> None:
    """Connect without a token, with a wrong one, and with a read-only one."""
    for token in (None, "nonsense"):
        inspector = Inspector(commands, stage.folder / "home", target_of(stage, way, token), era)
        code, told = inspector.run("--method", "tools/list")
        assert code == AUTH_REQUIRED if way == "http" else code != 0, (way, token, code, told)
    reader = stage.key(permissionProfile="read-only")
    inspector = Inspector(commands, stage.folder / "home", target_of(stage, way, reader), era)
    names = {tool["name"] for tool in inspector.tools()}
    assert names == {name for name, hints in HINTS.items() if hints["readOnlyHint"]} - {"preview_send"}
    code, told = inspector.run("--method", "tools/call", "--tool-name", "send_email", "--tool-args-json", "{}")
    assert code == TOOL_ERROR, (code, told)


def main() -> int:
    """The command line of `scripts/prove-assistants`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-assistants", description="Prove it with the MCP inspector.")
    kept = Path(tempfile.gettempdir()) / f"mcp-inspector-{VERSION}"
    parser.add_argument(
        "--inspector", type=Path, default=kept, help=f"where it lies, or is put by npm (default {kept})"
    )
    parser.add_argument("--way", choices=("http", "stdio"), help="this alone")
    parser.add_argument("--era", choices=sorted(ERAS), help="this alone")
    given = parser.parse_args()
    try:
        commands = install(given.inspector.absolute())
    except (CannotInstall, OSError) as problem:
        print(f"prove-assistants: {problem}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "home").mkdir()
        mail = MailServer().start(folder)
        running = RunningAppliance(folder / "data").start()
        try:
            running.set_up()
            return _prove(Stage(running, mail, folder), commands, given.way, given.era)
        finally:
            running.stop()
            mail.stop()


def _prove(stage: Stage, commands: Path, way: str | None, era: str | None) -> int:
    failures = 0
    for each in [way] if way else ["http", "stdio"]:
        for one in [era] if era else list(ERAS):
            try:
                print(play(stage, commands, each, one), flush=True)
            except AssertionError as error:
                failures += 1
                print(f"{each} {one}: FAILED {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
