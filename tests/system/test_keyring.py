"""Tokens in the keychain, and the behavior if it is missing, locked or never responds."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mailbox_appliance.system import keyring
from tests.cli.conftest import CommandLine, cli, server
from tests.cli.recording_server import RecordingServer
from tests.servers.mailboxes import wait_until

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

class Mute(InFile):
    def get_password(self, service, username):
        self.file.with_name("asked").touch()
        time.sleep(600)
    def delete_password(self, service, username): time.sleep(600)

class Noisy(InFile):
    def set_password(self, service, username, password):
        print("Thank you!")
        super().set_password(service, username, password)

class Changing(InFile):
    has_set = False
    def set_password(self, service, username, password):
        Changing.has_set = True
        super().set_password(service, username, password)
    def get_password(self, service, username):
        found = super().get_password(service, username)
        return found if found is None or Changing.has_set else "A" * 43 + "="  # 32 bytes, but others

class Dying(InFile):
    def set_password(self, service, username, password): os._exit(9)
'''
# The fixtures of the command line.
__all__ = ["cli", "server"]
ROOT = str(Path(keyring.__file__).parents[2])
LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")


@pytest.fixture
def backends(tmp_path: Path) -> Path:
    """A folder with keychains to choose from."""
    folder = tmp_path / "backends"
    folder.mkdir()
    (folder / "made_up_keychains.py").write_text(BACKENDS)
    return folder


def run(cli: CommandLine, backends: Path, backend: str, *argv: str) -> int:
    """Run a command in a separate process with this keychain; return the exit code."""
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
    """A command line for a server that accepts every sign-in."""
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
#: which keychain, how many seconds it has, and why it cannot be used
KEYCHAINS: list[tuple[str, float, str | None]] = [
    ("made_up_keychains.Noisy",       20.0, None),
    ("made_up_keychains.Forgetful",   20.0, "it does not return what was stored"),
    ("made_up_keychains.Locked",      20.0, "it is locked"),
    ("keyring.backends.fail.Keyring", 20.0, "there is none"),
    ("keyring.backends.null.Keyring", 20.0, "there is none"),
    ("no_such_module.Keyring",        20.0, r"it failed \(ModuleNotFoundError\)"),
    ("made_up_keychains.Silent",       1.0, "it did not respond within 1 seconds"),
    ("made_up_keychains.Dying",       20.0, "the process that accesses it failed"),
]
# fmt: on


def environment_of(backend: str, backends: Path) -> dict[str, str]:
    return {"PYTHON_KEYRING_BACKEND": backend, "PYTHONPATH": str(backends), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(("backend", "deadline", "reason"), KEYCHAINS)
def test_storing_is_a_round_trip_with_a_deadline(
    backend: str, deadline: float, reason: str | None, backends: Path
) -> None:
    environment = environment_of(backend, backends)
    refused = contextlib.nullcontext() if reason is None else pytest.raises(keyring.KeyringUnavailable, match=reason)
    with refused:
        keyring.put("a name", "a secret", environment=environment, deadline=deadline)
        assert keyring.find("a name", environment=environment) == "a secret"
        for _ in range(2):  # removing a missing secret succeeds
            keyring.remove("a name", environment=environment)
        assert keyring.find("a name", environment=environment) is None


def test_reading_and_forgetting_have_a_deadline_too(backends: Path) -> None:
    environment = environment_of("made_up_keychains.Mute", backends) | {keyring.DEADLINE_VARIABLE: "0.8"}
    for ask in (keyring.find, keyring.remove):
        with pytest.raises(keyring.KeyringUnavailable, match=r"did not respond within 0\.8 seconds"):
            ask("a name", environment=environment)


def test_a_prompt_does_not_outlive_who_asked(backends: Path) -> None:
    """For a tray that is closed while its keychain waits for a password."""
    asks = "from mailbox_appliance.system import keyring; keyring.find('a name')"
    environment = environment_of("made_up_keychains.Mute", backends)
    asker = subprocess.Popen(
        [sys.executable, "-c", asks], env=environment | {"PYTHONPATH": os.pathsep.join((ROOT, str(backends)))}
    )
    children = Path(f"/proc/{asker.pid}/task/{asker.pid}/children")
    try:
        wait_until((backends / "asked").exists, lambda: "the keychain is not asked", 20)
        (child,) = children.read_text().split()
    finally:
        asker.kill()
        asker.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), lambda: "the child goes on", 10)


def test_a_package_that_lies_in_the_working_directory_is_not_loaded(
    backends: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("keyring", "mailbox_appliance"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from where we stand')")
    monkeypatch.chdir(tmp_path)
    environment = environment_of("made_up_keychains.InFile", backends)
    keyring.put("a name", "a secret", environment=environment)
    assert keyring.find("a name", environment=environment) == "a secret"


def test_a_token_that_cannot_be_read_is_said_so(cli: CommandLine, server: RecordingServer) -> None:
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "tokens.json").write_text(json.dumps({"file": {}, "keychain": [f"url:{server.url}"]}))
    none = {"MAILBOX_APPLIANCE_KEYCHAIN": "auto", "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    outcome = cli("--instance", server.url, "whoami", environment=none)
    assert (outcome.code, outcome.error["code"], server.asked) == (4, "keychain_locked", [])
