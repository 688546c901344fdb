"""Keychains over D-Bus: working, locked, with an unanswered prompt, and missing; no command waits long.

For `key use-keyring` and `serve` with a working or locked keychain see tests/cli/test_key.py.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.store.files import KEY_FILE
from mailbox_appliance.store.key import read_key, render_key_file, wrap_with_keyring
from mailbox_appliance.system import keyring
from mailbox_appliance.tray.login import TrayLogin
from mailbox_appliance.tray.state import AccessLevel
from tests.cli.conftest import CommandLine, cli, server
from tests.cli.recording_server import RecordingServer
from tests.servers.mailboxes import wait_until
from tests.servers.prompting_keychain import PromptingKeychain
from tests.servers.secret_service import SecretService
from tests.templates import Template

__all__ = ["cli", "server"]
LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")
#: Seconds that a keychain has here, and that anything may take.
SECONDS, SOON = 0.7, 15.0
UNLOCK = ". Unlock it, or set MAILBOX_APPLIANCE_TOKEN."

# fmt: off
#: The keychain, and why it neither takes nor gives a token; None: it does.
SITUATIONS: list[tuple[str, str | None]] = [
    ("present",   None),
    ("locked",    "it is locked"),
    ("prompting", "it did not respond within 0.7 seconds"),
    ("absent",    "there is none"),
]
# fmt: on


@pytest.fixture(scope="module")
def secret_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretService]:
    """A keychain that works until it is locked."""
    service = SecretService(tmp_path_factory.mktemp("desktop"))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def prompting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PromptingKeychain]:
    """A keychain with a prompt that nobody answers."""
    service = PromptingKeychain(tmp_path_factory.mktemp("prompting"))
    yield service
    service.stop()


@pytest.fixture
def environment(
    request: pytest.FixtureRequest, secret_service: SecretService, prompting: PromptingKeychain
) -> dict[str, str]:
    """The environment of a process with the keychain that the test selects."""
    if request.param == "locked":
        secret_service.lock()
    of_bus = prompting.environment if request.param in ("prompting", "absent") else secret_service.environment
    at = {name: value for name, value in of_bus.items() if request.param != "absent" or not name.startswith("DBUS_")}
    return {**at, keyring.DEADLINE_VARIABLE: str(SECONDS if request.param == "prompting" else 20)}


@pytest.mark.parametrize(("environment", "reason"), SITUATIONS, indirect=["environment"])
def test_a_log_in_is_kept_where_it_can_be_and_the_tray_never_waits_for_it(
    environment: dict[str, str], reason: str | None, cli: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", "/auth/login", {"token": "mbxs_new", "session": {}, "member": {}})
    began, allowed = time.monotonic(), {**environment, "MAILBOX_APPLIANCE_KEYCHAIN": "auto"}
    assert cli("--instance", server.url, *LOGIN, stdin=b"password\n", environment=allowed).code == 0
    file, key = cli.folder / "config" / "tokens.json", f"url:{server.url}"
    kept = json.loads(file.read_text())
    assert kept == ({"file": {key: "mbxs_new"}, "keychain": []} if reason else {"file": {}, "keychain": [key]})
    assert file.stat().st_mode & 0o777 == 0o600

    # If the key is in a keychain that became unusable later, the store stays closed, and the error gives the reason.
    file.write_text(json.dumps({"file": {}, "keychain": [key]}))
    log_in = TrayLogin(TokenStore(file.parent, environment), key, environment, SystemClock())
    wait_until(lambda: told_by(log_in) == (reason or "mbxs_new"), lambda: told_by(log_in), SOON)
    assert time.monotonic() - began < SOON
    assert (log_in.access is AccessLevel.LOCKED) is (reason is not None)


def told_by(log_in: TrayLogin) -> str:
    """Return the token, or the reason why there is none."""
    log_in.find_token()
    try:
        return log_in.token
    except Failure as failure:
        return failure.message.removesuffix(UNLOCK).rpartition(": ")[2]


@pytest.mark.parametrize(("environment", "reason"), SITUATIONS[2:], indirect=["environment"])
def test_a_store_whose_key_such_a_keychain_has_is_neither_opened_nor_given_another_key(
    environment: dict[str, str], reason: str, tmp_path: Path, templates: dict[str, Template]
) -> None:
    folder = tmp_path / "data"
    templates["new"].copy(folder)
    key = read_key(folder / KEY_FILE)
    (folder / KEY_FILE).write_bytes(render_key_file(key, (wrap_with_keyring(key, os.urandom(32)),)))
    before, serve = (folder / KEY_FILE).read_bytes(), ("--data-dir", str(folder), "serve", "--port", "0")
    program = (sys.executable, "-m", "mailbox_appliance", *serve)
    refused = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=SOON)
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (4, "keychain_locked")
    assert reason in refused.stderr
    assert (folder / KEY_FILE).read_bytes() == before


def test_the_one_who_asks_ends_also_where_the_one_who_wanted_to_know_was_killed(prompting: PromptingKeychain) -> None:
    program = (sys.executable, "-m", "mailbox_appliance", keyring.COMMAND)
    asking = subprocess.Popen(program, env=prompting.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert asking.stdin is not None
    with asking.stdin as question:
        question.write(json.dumps({"act": "find", "name": "url:http://mail.example", "seconds": 0.5}).encode() + b"\n")
    assert asking.wait(SOON) == 1
