"""The command line against the appliance itself, each as a process of its own."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.conftest import CommandLine

PROGRAM = (sys.executable, "-m", "mailbox_appliance")
SETUP = ("setup", "--name", "Ann", "--email", "ann@example.org", "--password-stdin", "--device-name", "desk")
LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")
PASSWORD = b"correct horse battery\n"


def run(cli: CommandLine, *argv: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run one command line to its end."""
    environment = {**os.environ, **cli.environment}
    return subprocess.run([*PROGRAM, *argv], env=environment, input=stdin, capture_output=True, timeout=60)


def data(cli: CommandLine, *argv: str, stdin: bytes = b"") -> Any:
    """The data that a command answers, which must succeed."""
    finished = run(cli, *argv, stdin=stdin)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return json.loads(finished.stdout)["data"]


def failed(cli: CommandLine, *argv: str, stdin: bytes = b"") -> tuple[int, str]:
    """The exit code and the error code of a command that must fail."""
    finished = run(cli, *argv, stdin=stdin)
    assert finished.stdout == b""
    return finished.returncode, json.loads(finished.stderr)["error"]["code"]


@contextmanager
def serving(cli: CommandLine) -> Iterator[dict[str, Any]]:
    """An appliance on the data directory of the command line; what it says when it is ready."""
    environment = {**os.environ, **cli.environment}
    command = [*PROGRAM, "serve", "--port", "0", "--ready-json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


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
        assert data(cli, "sessions", "revoke", first) == {"id": first, "deleted": True}
        assert data(cli, "logout") is None
        assert failed(cli, "whoami") == (4, "unauthenticated")


def test_a_key_that_is_gone_is_an_access_error(cli: CommandLine) -> None:
    data(cli, *SETUP, stdin=PASSWORD)
    (cli.data_dir / "encryption.key").unlink()
    assert failed(cli, "serve") == (4, "key_missing")


@pytest.mark.parametrize("password", [b"short\n", b"ann@example.org\n"])
def test_a_password_that_is_refused(cli: CommandLine, password: bytes) -> None:
    assert failed(cli, *SETUP, stdin=password) == (2, "invalid_request")
