"""Tokens in a keychain, and what happens when there is none, when it is locked, and when it never answers."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import keyring.backend
import keyring.core
import pytest

from mailbox_appliance.cli import keychain
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

BACKENDS = '''
import json, os, pathlib, time
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

class InFile(KeyringBackend):
    """Keeps secrets in a file, as a keychain does in its own."""
    priority = 5
    file = pathlib.Path(__file__).with_name("secrets.json")
    def _all(self): return json.loads(self.file.read_text()) if self.file.exists() else {}
    def get_password(self, service, username): return self._all().get(f"{service} {username}")
    def set_password(self, service, username, password):
        self.file.write_text(json.dumps({**self._all(), f"{service} {username}": password}))
    def delete_password(self, service, username):
        rest = self._all()
        if rest.pop(f"{service} {username}", None) is None: raise PasswordDeleteError("not there")
        self.file.write_text(json.dumps(rest))

class Locked(InFile):
    def set_password(self, service, username, password): raise KeyringLocked("locked")

class Forgetful(InFile):
    def get_password(self, service, username): return None

class Silent(InFile):
    def set_password(self, service, username, password): time.sleep(600)
'''
LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")


@pytest.fixture
def backends(tmp_path: Path) -> Path:
    """A folder with keychains to choose from."""
    folder = tmp_path / "backends"
    folder.mkdir()
    (folder / "made_up_keychains.py").write_text(BACKENDS)
    return folder


def run(cli: CommandLine, backends: Path, backend: str, *argv: str) -> int:
    """Run a command in a process of its own, where this keychain is the keychain; the exit code."""
    environment = {
        **cli.environment,
        "MAILBOX_APPLIANCE_KEYCHAIN": "auto",
        "PYTHON_KEYRING_BACKEND": backend,
        "PYTHONPATH": str(backends),
        "HOME": str(cli.folder),
        "PATH": "/usr/bin:/bin",
    }
    program = (sys.executable, "-m", "mailbox_appliance")
    return subprocess.run(
        [*program, *argv], env=environment, input=b"password\n", capture_output=True, timeout=30
    ).returncode


def tokens(cli: CommandLine) -> str:
    return (cli.folder / "config" / "tokens.json").read_text()


@pytest.fixture
def logged_in_at(cli: CommandLine, server: RecordingServer) -> CommandLine:
    """A command line for a server that lets everybody in."""
    cli.environment["MAILBOX_APPLIANCE_INSTANCE"] = server.url
    server.data("POST", "/auth/login", {"token": "mbxs_new", "session": {}, "member": {}})
    server.data("POST", "/auth/logout", None)
    server.data("GET", "/me", {})
    return cli


def test_a_keychain_that_works_holds_the_token(
    logged_in_at: CommandLine, backends: Path, server: RecordingServer
) -> None:
    working = "made_up_keychains.InFile"
    assert run(logged_in_at, backends, working, *LOGIN) == 0
    assert "mbxs_new" in (backends / "secrets.json").read_text()
    assert "probe" not in (backends / "secrets.json").read_text()
    assert "mbxs_new" not in tokens(logged_in_at)
    assert run(logged_in_at, backends, working, "whoami") == 0
    assert server.asked[-1].headers["Authorization"] == "Bearer mbxs_new"
    assert run(logged_in_at, backends, working, "logout") == 0
    assert (backends / "secrets.json").read_text() == "{}"
    assert run(logged_in_at, backends, working, "whoami") == 4


def test_where_none_works_a_file_does(logged_in_at: CommandLine, backends: Path) -> None:
    assert run(logged_in_at, backends, "made_up_keychains.Locked", *LOGIN) == 0
    assert "mbxs_new" in tokens(logged_in_at)
    assert run(logged_in_at, backends, "made_up_keychains.Locked", "whoami") == 0


# fmt: off
#: which keychain, and whether it is found to work
KEYCHAINS: list[tuple[str, float, bool]] = [
    ("made_up_keychains.InFile",      20.0, True),
    ("made_up_keychains.Forgetful",   20.0, False),
    ("keyring.backends.fail.Keyring", 20.0, False),
    ("made_up_keychains.Silent",       1.5, False),
]
# fmt: on


@pytest.mark.parametrize(("keychain_name", "deadline", "works"), KEYCHAINS)
def test_a_round_trip_tells_whether_it_works(keychain_name: str, deadline: float, works: bool, backends: Path) -> None:
    began = time.monotonic()
    environment = {"PYTHON_KEYRING_BACKEND": keychain_name, "PYTHONPATH": str(backends), "PATH": "/usr/bin:/bin"}
    assert keychain.works(environment, deadline) is works
    assert time.monotonic() - began < 20


class NeverAnswers(keyring.backend.KeyringBackend):
    """A keychain that waits for a prompt nobody sees."""

    priority = 5
    end = threading.Event()

    def set_password(self, service: str, username: str, password: str) -> None:
        self.end.wait(20)

    def get_password(self, service: str, username: str) -> str | None:
        self.end.wait(20)
        return None


@pytest.fixture
def never_answers() -> Iterator[None]:
    """The keychain of this process is one that never answers."""
    before, silent = keyring.get_keyring(), keyring.core.load_keyring(f"{__name__}.NeverAnswers")
    keyring.set_keyring(silent)
    yield
    NeverAnswers.end.set()
    keyring.set_keyring(before)


def test_reading_has_a_deadline_too(never_answers: None) -> None:
    with pytest.raises(keychain.KeychainSilent, match="did not answer"):
        keychain.find("url:x", deadline=0.05)


def test_a_token_that_cannot_be_read_is_said_so(cli: CommandLine, server: RecordingServer) -> None:
    before = keyring.get_keyring()
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "tokens.json").write_text(json.dumps({"file": {}, "keychain": [f"url:{server.url}"]}))
    keyring.set_keyring(keyring.core.load_keyring("keyring.backends.fail.Keyring"))
    try:
        outcome = cli("--instance", server.url, "whoami", environment={"MAILBOX_APPLIANCE_KEYCHAIN": "auto"})
    finally:
        keyring.set_keyring(before)
    assert (outcome.code, outcome.error["code"], server.asked) == (4, "keychain_locked", [])
