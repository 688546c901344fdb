"""The SDK is loaded with the first valid credential at `/mcp`, and not before."""

import json
import subprocess
import sys
from pathlib import Path

#: Of the SDK, and of no use to a server.
CLIENT = "mcp.client mcp.server.mcpserver httpx2 httpcore2"
LIBRARIES = "mcp mcp.server.lowlevel mcp_types pydantic pydantic_core anyio starlette uvicorn opentelemetry asyncio"
#: Serves, gets HTTP requests from a thread, records after each step which libraries are loaded, and ends.
SCRIPT = """
import http.client, json, os, signal, sys, threading, time
from pathlib import Path
from urllib.parse import urlsplit
from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli.main import run

folder, libraries = Path(sys.argv[1]), sys.argv[2].split()
told = {}

def asked(method, path, body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    fields = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    connection.request(method, path, None if body is None else json.dumps(body), fields)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")

def tell(step):
    told[step] = sorted(set(libraries) & set(sys.modules))

def ask():
    global url
    while not (folder / "run.json").exists() or not (folder / "setup-code").exists():
        time.sleep(0.02)
    url = json.loads((folder / "run.json").read_text())["url"]
    code = (folder / "setup-code").read_text().strip()
    person = {"name": "Ada", "email": "ada@example.org", "password": "correct horse battery", "deviceName": "x"}
    status, answer = asked("POST", "/api/v1/setup", {"setupCode": code, **person})
    token = {"Authorization": "Bearer " + answer["data"]["token"]}
    for path in ("/api/v1/me", "/api/v1/accounts", "/api/v1/messages", "/api/v1/openapi.json", "/api/v1/status"):
        asked("GET", path, **token)
    tell("after REST")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    told["refused"] = [asked("POST", "/mcp", ping)[0], asked("GET", "/mcp", **token)[0]]
    tell("after /mcp without a credential")
    told["answered"] = asked("POST", "/mcp", ping, **token)[0]
    call = {"name": "list_accounts", "arguments": {}}
    for method, params in (("tools/list", {}), ("tools/call", call)):
        status, answer = asked("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **token)
        assert "result" in answer, answer
    tell("after /mcp")
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=ask, daemon=True).start()
told["code"] = run(["--data-dir", str(folder), "serve", "--port", "0"], SERVICES)
print(json.dumps(told))
"""


def test_serving_loads_the_sdk_with_the_first_good_message(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", SCRIPT, str(tmp_path / "data"), f"{LIBRARIES} {CLIENT}")
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert (told["refused"], told["answered"], told["code"]) == ([401, 405], 200, 0)
    assert told["after REST"] == told["after /mcp without a credential"] == []
    assert {"mcp.server.lowlevel", "pydantic", "anyio", "starlette"} <= set(told["after /mcp"])
    assert not set(CLIENT.split()) & set(told["after /mcp"])


def test_commands_do_not_load_the_sdk() -> None:
    for argv in (["--help"], ["mcp", "--help"], ["emails", "--help"]):
        code = f"import sys; from mailbox_appliance.__main__ import main; sys.argv[1:] = {argv!r}\n"
        code += "try: main()\nfinally: print('\\n', *sys.modules, file=sys.stderr)"
        ended = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False, timeout=30)
        assert ended.returncode == 0, ended.stderr
        assert not set(LIBRARIES.split()) & set(ended.stderr.split())
