"""Generate a client from the OpenAPI document, install it, and use it against a demo. See `scripts/prove-sdk`."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailbox_appliance.web.openapi import describe
from tests.checked_client import description

GENERATOR = "openapi-python-client==0.29.1"
#: Raw messages are files to the generator; it knows few media types.
CONFIG = "content_type_overrides:\n  message/rfc822: application/octet-stream\n"
#: What a user of the package would write; it prints JSON.
PROGRAM = """
import json, sys
from mailbox_appliance_client import AuthenticatedClient, Client
from mailbox_appliance_client.api.api_keys import create_api_key
from mailbox_appliance_client.api.messages import download_raw_message, list_messages
from mailbox_appliance_client.api.mailboxes import list_accounts
from mailbox_appliance_client.api.sending import get_delivery, send_email
from mailbox_appliance_client.api.sign_in import sign_in
from mailbox_appliance_client.models import (
    CreateApiKeyRequest, CreateApiKeyRequestPermissionProfile, NewMessageBody, Recipient, SendEmailRequest,
    SignInRequest,
)

url, email, password = sys.argv[1:]
session = sign_in.sync(
    client=Client(base_url=url), body=SignInRequest(email=email, password=password, device_name="SDK")
).data
client = AuthenticatedClient(base_url=url, token=session.token)
key = create_api_key.sync(
    client=client,
    body=CreateApiKeyRequest(name="SDK", permission_profile=CreateApiKeyRequestPermissionProfile.FULL),
).data
client = AuthenticatedClient(base_url=url, token=key.token)
(account,) = list_accounts.sync(client=client).data
page = list_messages.sync(account.id, client=client, folder="inbox", limit=5).data
raw = download_raw_message.sync(account.id, page.items[0].id, client=client)
message = SendEmailRequest(
    to=[Recipient(email=email)], subject="From an SDK", body=NewMessageBody(text="It works.")
)
sent = [
    send_email.sync(account.id, client=client, body=message, idempotency_key="sdk-1").data for _ in range(2)
]
found = get_delivery.sync(account.id, sent[0].operation_id, client=client).data
print(json.dumps({
    "subjects": [one.subject for one in page.items],
    "raw": len(raw.payload.read()),
    "operations": [one.operation_id for one in sent],
    "status": found.status,
}))
"""


def main() -> int:
    """Prove it, and print what happened."""
    parser = argparse.ArgumentParser(prog="scripts/prove-sdk")
    parser.add_argument("--tools", type=Path, default=Path(tempfile.gettempdir()) / "mailbox-sdk-tools")
    parser.add_argument("--keep", type=Path, help="where to leave the package and its program")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="mailbox-sdk-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        python = install_generator(given.tools)
        count = generate(python, folder)
        print(f"generated a package with {count} operations, without a warning")
        program = install(folder)
        with demo() as (url, email, password):
            done = run(program, folder / "program.py", url, email, password)
        told = json.loads(done)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"listed: {', '.join(told['subjects'])}; downloaded a raw message of {told['raw']} bytes")
    print(f"sent twice with one key: {' and '.join(told['operations'])}, status {told['status']}")
    is_right = told["subjects"] and told["raw"] and len(set(told["operations"])) == 1 and told["status"] == "succeeded"
    print("the generated client works" if is_right else "FAILED")
    return 0 if is_right else 1


def install_generator(tools: Path) -> Path:
    """Return the Python of the virtual environment that has the generator."""
    python = tools / "bin" / "python"
    if not (tools / "bin" / "openapi-python-client").exists():
        venv.create(tools, with_pip=True)
        run(python, "-m", "pip", "install", "--quiet", GENERATOR, "ruff")
    return python


def generate(python: Path, folder: Path) -> int:
    """Generate the package in `folder`; return its number of operations. Fails on a warning or a missing operation."""
    (folder / "openapi.json").write_bytes(describe())
    (folder / "config.yml").write_text(CONFIG)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    command = ("openapi-python-client", "generate", "--overwrite", "--path", "openapi.json", "--config", "config.yml")
    done = subprocess.run(
        (python.parent / command[0], *command[1:], "--output-path", "package"),
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    if done.returncode or re.search(r"warning|error|cannot|skipp", told, re.IGNORECASE):
        raise SystemExit(f"the generator complained:\n{told}")
    made = [one for one in folder.glob("package/*/api/*/*.py") if one.name != "__init__.py"]
    expected = sum(len(methods) for methods in description()["paths"].values())
    if len(made) != expected:
        raise SystemExit(f"{len(made)} operations were generated, of {expected}")
    return len(made)


def install(folder: Path) -> Path:
    """Install the package into a virtual environment of its own; return its Python."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", folder / "package")
    (folder / "program.py").write_text(PROGRAM)
    return python


@contextmanager
def demo() -> Iterator[tuple[str, str, str]]:
    """A running demo: its address, and the email and password of its member."""
    process = subprocess.Popen(
        (sys.executable, "-m", "mailbox_appliance", "demo"), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    output = process.stdout
    assert output is not None
    try:
        told = ""
        while not (found := re.search(r"(http://\S+)\s.*?(\S+@demo\.test)\s+Password:?\s+(\S+)", told, re.DOTALL)):
            line = output.readline()
            if not line:
                raise SystemExit(f"the demo did not start:\n{told}")
            told += line
        threading.Thread(target=output.read, daemon=True).start()  # so that it never waits for us
        yield found[1], found[2], found[3]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def run(*command: str | Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
