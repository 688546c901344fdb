"""What users and clients see of a build, as text: the OpenAPI document, every help page, the tools, the metrics.

Only the installed program is asked, never its modules: so two commits can be compared however their code is laid out.

    scripts/compare-interfaces [COMMIT]     today's files beside COMMIT (default HEAD)
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PASSWORD = "correct horse battery staple"
#: What differs from run to run: numbers of metrics, and their labels that come from requests.
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? .*$", re.MULTILINE)


@dataclass(frozen=True)
class Build:
    """A checkout whose program is run with the libraries of this one."""

    root: Path
    home: Path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "mailbox_appliance", *arguments]

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAILBOX", "XDG"))}
        folders = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config")}
        return {**kept, **folders, "PYTHONPATH": str(self.root), "COLUMNS": "100", "NO_COLOR": "1"}

    def run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            self.command(*arguments), input=text, capture_output=True, text=True, check=True, env=self.environment
        )
        return done.stdout

    @contextmanager
    def serve(self) -> Iterator[str]:
        """The address of an appliance on a new data directory."""
        arguments = ("--data-dir", str(self.home / "data"), "serve", "--port", "0", "--https-port", "0", "--ready-json")
        with subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment
        ) as process:
            assert process.stdout is not None
            try:
                yield json.loads(process.stdout.readline())["http"]
            finally:
                process.terminate()


def read_interfaces(build: Build) -> dict[str, str]:
    """Every interface of a build by its name, each as lines that can be compared."""
    found = dict(_help_pages(build))
    with build.serve() as address:
        found["openapi.json"] = _pretty(_fetch(f"{address}/api/v1/openapi.json"))
        key = _make_key(build, address)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        tools = _fetch(f"{address}/mcp", key, request)
        found["tools.json"] = _pretty(tools[tools.index("{") : tools.rindex("}") + 1])
        found["metrics"] = _SAMPLE.sub(r"\1", _fetch(f"{address}/metrics", key))
    return found


def _help_pages(build: Build, *command: str) -> Iterator[tuple[str, str]]:
    page = build.run(*command, "--help")
    yield " ".join(("help", *command)), page
    for name in re.findall(r"^  ([a-z][a-z-]*)(?:  +\S|$)", page, re.MULTILINE):
        yield from _help_pages(build, *command, name)


def _make_key(build: Build, address: str) -> str:
    data = ("--data-dir", str(build.home / "data"))
    who = ("--name", "Ada", "--email", "ada@example.org", "--password-stdin")
    build.run(*data, "setup", *who, text=_PASSWORD + "\n")
    login = {"email": "ada@example.org", "password": _PASSWORD, "deviceName": "compare"}
    session = json.loads(_fetch(f"{address}/api/v1/auth/login", None, login))["data"]["token"]
    key = {"name": "compare", "permissionProfile": "full", "accounts": []}
    return str(json.loads(_fetch(f"{address}/api/v1/me/api-keys", session, key))["data"]["token"])


def _fetch(url: str, token: str | None = None, body: Mapping[str, object] | None = None) -> str:
    headers = {"Accept": "application/json, text/event-stream, text/plain", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return str(answer.read().decode())


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False)


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The lines in which two builds differ, as a unified diff."""
    found: list[str] = []
    for name in sorted({*before, *after}):
        old, new = (each.get(name, "").splitlines() for each in (before, after))
        found += difflib.unified_diff(old, new, f"before: {name}", f"after: {name}", lineterm="", n=1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/compare-interfaces")
    parser.add_argument("commit", nargs="?", default="HEAD")
    commit = parser.parse_args().commit
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkout = folder / "checkout"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", checkout, commit], check=True, cwd=ROOT)
        try:
            before = read_interfaces(Build(checkout, folder / "before"))
            after = read_interfaces(Build(ROOT, folder / "after"))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", checkout], check=True, cwd=ROOT)
    lines = compare(before, after)
    print("\n".join(lines) or f"{len(after)} pages, the same as at {commit}: help, OpenAPI, tools, metrics")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
