"""The command line against a real appliance, each as a process."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD as MAILBOX_PASSWORD

PROGRAM = (sys.executable, "-m", "mailbox_appliance")
SETUP = ("setup", "--name", "Ann", "--email", "ann@example.org", "--password-stdin", "--device-name", "desk")
LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")
PASSWORD = b"correct horse battery\n"


def run(cli: CommandLine, *argv: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run one command line and return its outcome."""
    environment = {**os.environ, **cli.environment}
    return subprocess.run([*PROGRAM, *argv], env=environment, input=stdin, capture_output=True, timeout=60)


def data(cli: CommandLine, *argv: str, stdin: bytes = b"") -> Any:
    """Return the data of a command, which must succeed."""
    finished = run(cli, *argv, stdin=stdin)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return json.loads(finished.stdout)["data"]


def failed(cli: CommandLine, *argv: str, stdin: bytes = b"") -> tuple[int, str]:
    """Return the exit code and error code of a command, which must fail."""
    finished = run(cli, *argv, stdin=stdin)
    assert finished.stdout == b""
    return finished.returncode, json.loads(finished.stderr)["error"]["code"]


@contextmanager
def serving(cli: CommandLine) -> Iterator[dict[str, Any]]:
    """Serve the data directory of the command line; yield the ready message."""
    environment = {**os.environ, **cli.environment}
    command = [*PROGRAM, "serve", "--port", "0", "--ready-json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_set_up_while_it_runs(cli: CommandLine) -> None:
    with serving(cli) as ready:
        assert (ready["event"], ready["https"]) == ("ready", None)
        assert data(cli, *SETUP, stdin=PASSWORD)["member"]["role"] == "admin"
        assert stat.S_IMODE((cli.folder / "config" / "tokens.json").stat().st_mode) == 0o600
        assert data(cli, "whoami")["member"]["email"] == "ann@example.org"
        assert [row["deviceName"] for row in data(cli, "sessions", "list")] == ["desk"]
        assert data(cli, "status")["store"]["format"] == 5
        assert data(cli, "accounts", "list") == []
        assert failed(cli, *SETUP, stdin=PASSWORD) == (2, "conflict")
        assert failed(cli, *LOGIN, stdin=b"wrong\n") == (4, "invalid_credentials")
        assert failed(cli, "emails", "list") == (2, "not_found")
        assert failed(cli, "accounts", "show", "acc_none") == (2, "not_found")
        assert failed(cli, "serve") == (1, "store_in_use")
        assert run(cli, "openapi").stdout.startswith(b"{")
        assert json.loads(run(cli, "logs", "--lines", "1").stdout.splitlines()[-1])["event"] == "request"
    assert failed(cli, "whoami") == (5, "appliance_unreachable")


def test_set_up_on_files_then_log_in_and_out(cli: CommandLine) -> None:
    assert data(cli, *SETUP, stdin=PASSWORD)["member"]["name"] == "Ann"
    assert failed(cli, *SETUP, stdin=PASSWORD) == (2, "conflict")
    with serving(cli):
        first = data(cli, "whoami")["credential"]["id"]
        second = data(cli, *LOGIN, stdin=PASSWORD)["session"]["id"]
        assert data(cli, "whoami")["credential"]["id"] == second != first
        assert {row["id"] for row in data(cli, "sessions", "list")} == {first, second}
        assert data(cli, "logout") is None
        assert failed(cli, "whoami") == (4, "unauthenticated")


def test_a_key_that_is_gone_is_an_access_error(cli: CommandLine) -> None:
    data(cli, *SETUP, stdin=PASSWORD)
    (cli.data_dir / "encryption.key").unlink()
    assert failed(cli, "serve") == (4, "key_missing")


@pytest.mark.parametrize("password", [b"short\n", b"ann@example.org\n"])
def test_a_password_that_is_refused(cli: CommandLine, password: bytes) -> None:
    assert failed(cli, *SETUP, stdin=password) == (2, "invalid_request")


def add_options(server: MailServer, address: str) -> tuple[str, ...]:
    """Return the options that connect a mailbox of the test's mail server."""
    imap = ("--imap-host", "localhost", "--imap-port", str(server.imaps_port))
    smtp = ("--smtp-host", "localhost", "--smtp-port", str(server.smtps_port))
    return ("accounts", "add", "--email", address, *imap, *smtp, "--password-stdin")


def wait_for_item(cli: CommandLine, *argv: str) -> Any:
    """Wait for the first item of a list and return it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if items := data(cli, *argv)["items"]:
            return items[0]
        time.sleep(0.2)
    raise AssertionError("nothing came")


def test_connect_a_mailbox_send_and_read_it_back(cli: CommandLine, mail_server: MailServer) -> None:
    sender, reader = mail_server.fresh_user(), mail_server.fresh_user()
    (cli.data_dir / "config.toml").write_text(f'[remote]\nca_file = "{mail_server.ca_file}"\n')
    data(cli, *SETUP, stdin=PASSWORD)
    with serving(cli):
        assert failed(cli, *add_options(mail_server, sender), stdin=b"wrong\n")[0] == 2
        account = data(cli, *add_options(mail_server, sender), stdin=MAILBOX_PASSWORD.encode())
        send = ("emails", "send", "--idempotency-key", "k1", "--to", f"Reader <{reader}>", "--bcc", sender)
        operation = data(cli, *send, "--subject", "Grüße", "--text", "Hello\nthere")
        assert operation["status"] == "succeeded"
        assert data(cli, *send, "--subject", "Grüße", "--text", "Hello\nthere") == operation
        assert failed(cli, *send, "--text", "Another") == (2, "idempotency_conflict")
        assert data(cli, "emails", "delivery-status", operation["operationId"]) == operation
        (received,) = mail_server.wait_for_messages(reader, 1)
        assert b"bcc" not in received.lower()
        listed = wait_for_item(cli, "emails", "list", "--account", sender, "--folder", "inbox")
        assert listed["subject"] == "Grüße"
        message = data(cli, "emails", "get", listed["id"])
        assert message["body"]["text"].splitlines() == ["Hello", "there"]
        conversation = data(cli, "threads", "get", message["threadId"])
        assert listed["id"] in [one["id"] for one in conversation["messages"]["items"]]
        assert "inbox" in [folder.get("role") for folder in data(cli, "accounts", "folders")]
        assert data(cli, "accounts", "remove", account["id"]) == {"id": account["id"], "deleted": True}
        assert data(cli, "accounts", "list") == []
