"""`mailbox-appliance mcp` as a process: its requests to the appliance, its output, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.recording_server import Canned, RecordingServer

TOKEN = "mbxk_of_an_assistant"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_status", "arguments": {"a": 1}}}
RESULT = {"content": [{"type": "text", "text": "fine"}], "structuredContent": {"data": 1}, "isError": False}
ANSWER = Canned(200, {"jsonrpc": "2.0", "id": 1, "result": RESULT})


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as server:
        server.data("GET", "/me", {})
        server.answers["POST", "/mcp"] = [ANSWER]
        yield server


def assistant(server: RecordingServer, folder: Path, prefix: str = "") -> "subprocess.Popen[bytes]":
    """Start the command."""
    environment = {**os.environ, "MAILBOX_APPLIANCE_TOKEN": TOKEN, "MAILBOX_APPLIANCE_CONFIG_DIR": str(folder)}
    argv = (sys.executable, "-m", "mailbox_appliance", "--instance", server.url + prefix, "mcp")
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment | {"PYTHONWARNINGS": "error"})


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_what_is_said_and_asked(server: RecordingServer, tmp_path: Path) -> None:
    process = assistant(server, tmp_path)
    said, complained = process.communicate(lines(HELLO, CALL), timeout=30)
    assert (process.returncode, complained) == (0, b"")
    hello, answer = sorted(map(json.loads, said.splitlines()), key=lambda line: int(line["id"]))
    assert hello["result"]["serverInfo"]["name"] == "mailbox-appliance"
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": RESULT}
    me, called = server.asked
    assert [(one.method, one.target) for one in (me, called)] == [("GET", "/api/v1/me"), ("POST", "/mcp")]
    assert called.json == {**CALL, "id": 1}
    fields = {name.lower(): value for name, value in called.headers.items()}
    assert fields["authorization"] == f"Bearer {TOKEN}"
    assert fields["mcp-protocol-version"] == "2025-11-25"
    assert {"application/json", "text/event-stream"} == set(fields["accept"].split(", "))


def test_how_it_ends(server: RecordingServer, tmp_path: Path) -> None:
    """It ends by a signal during a call, and when its reader has gone; tested in parallel, since each takes long."""
    server.answers["POST", "/mcp"] = [Canned(silent=True)]
    names = ("terminated", "interrupted", "unheard")
    processes = {name: assistant(server, tmp_path) for name in names}
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write(lines(HELLO, CALL))
        process.stdin.flush()
    for process in processes.values():
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 1
    processes["terminated"].send_signal(signal.SIGTERM)
    processes["interrupted"].send_signal(signal.SIGINT)
    unheard = processes["unheard"]
    assert unheard.stdout is not None
    assert unheard.stdin is not None
    unheard.stdout.close()
    unheard.stdin.write(lines({**CALL, "id": 3, "method": "ping"}))
    unheard.stdin.flush()
    codes = {name: process.wait(60) for name, process in processes.items()}
    complaints = {name: process.stderr.read() if process.stderr else b"" for name, process in processes.items()}
    for process in processes.values():
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    assert codes == {"terminated": 0, "interrupted": 130, "unheard": 141}
    assert json.loads(complaints["interrupted"])["error"]["code"] == "interrupted"
    assert (complaints["terminated"], complaints["unheard"]) == (b"", b"")


def test_a_proxy_with_a_prefix_and_a_token_that_is_not_good(server: RecordingServer, tmp_path: Path) -> None:
    server.answers["GET", "/box/api/v1/me"] = [Canned(200, {"data": {}})]
    server.answers["POST", "/box/mcp"] = [ANSWER]
    behind, refused = assistant(server, tmp_path, "/box"), assistant(server, tmp_path, "/elsewhere")
    error = {"error": {"code": "unauthenticated", "message": "Log in again.", "requestId": "req_1"}}
    server.answers["GET", "/elsewhere/api/v1/me"] = [Canned(401, error)]
    said, _ = behind.communicate(lines(HELLO, CALL), timeout=30)
    assert json.loads(said.splitlines()[1])["result"] == RESULT
    said, complained = refused.communicate(timeout=30)
    assert (refused.returncode, said, json.loads(complained)) == (4, b"", error)
