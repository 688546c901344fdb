"""Sessions, the files they leave behind, and the appliance that a command uses."""

import fcntl
import io
import json
import os
import pty
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.cli.main import run
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import NETWORK
from mailbox_appliance.errors import Conflict, StoreInUse
from mailbox_appliance.system.files import find_lock_holder
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

LOGIN = ("login", "--email", "ann@example.org", "--password-stdin")
SETUP = ("setup", "--name", "Ann", "--email", "ann@example.org", "--password-stdin")
LOGGED_IN = {"token": "mbxs_new", "session": {"id": "ses_1"}, "member": {"id": "mem_1"}}


@contextmanager
def owned(data_dir: Path, url: str) -> Iterator[None]:
    """Let a process that listens at this URL own the data directory."""
    lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (data_dir / "run.json").write_text(json.dumps({"pid": os.getpid(), "url": url, "secret": "s"}))
    try:
        yield
    finally:
        os.close(lock)


@pytest.fixture
def running(cli: CommandLine, server: RecordingServer) -> Iterator[RecordingServer]:
    """A server that owns the data directory of the command line."""
    with owned(cli.data_dir, server.url):
        yield server


def test_login_here_and_out_again(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    running.data("GET", "/me", {"member": {}})
    running.data("POST", "/auth/logout", None)
    outcome = cli(*LOGIN, "--device-name", "desk", stdin=b"correct horse\r\nrest")
    assert (outcome.code, outcome.data) == (0, LOGGED_IN)
    assert running.asked[0].json == {"email": "ann@example.org", "password": "correct horse", "deviceName": "desk"}
    assert cli("whoami").code == 0
    assert running.asked[-1].headers["Authorization"] == "Bearer mbxs_new"
    outcome = cli("logout")
    assert (outcome.code, outcome.data) == (0, None)
    assert cli("whoami").code == 4


def test_the_token_is_not_shown_in_a_window(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    for outcome in (cli(*LOGIN, stdin=b"password", screen=True), cli(*LOGIN, "--format", "table", stdin=b"password")):
        assert outcome.code == 0
        assert "mem_1" in outcome.out
        assert "mbxs_new" not in outcome.out + outcome.err


def test_a_login_leaves_the_one_before_alone(cli: CommandLine, running: RecordingServer) -> None:
    for token in ("mbxs_1", "mbxs_2"):
        running.data("POST", "/auth/login", LOGGED_IN | {"token": token})
        assert cli(*LOGIN, stdin=b"password").data["token"] == token
    assert [asked.target for asked in running.asked] == ["/api/v1/auth/login"] * 2


def test_what_is_named_on_the_line_beats_what_is_in_use(
    cli: CommandLine, server: RecordingServer, running: RecordingServer
) -> None:
    with RecordingServer() as other:
        other.data("POST", "/auth/login", LOGGED_IN)
        assert cli("login", other.url, *LOGIN[1:], stdin=b"password").code == 0
        assert cli(*LOGIN, stdin=b"password").code == 0
        assert len(other.asked) == 2
        running.data("POST", "/auth/login", LOGGED_IN)
        here = ("--data-dir", str(cli.data_dir))
        assert cli(*LOGIN, *here, stdin=b"password").code == 0
        assert running.asked[-1].target == "/api/v1/auth/login"
        running.data("GET", "/me", {"member": {}})
        assert cli("whoami", *here).code == 0
        assert cli("whoami", *here, environment={"MAILBOX_APPLIANCE_INSTANCE": other.url}).code == 0
        other.data("GET", "/me", {"member": {}})
        assert cli("whoami", *here, "--instance", other.url).code == 0
    assert running.asked[-1].target == "/api/v1/me"


def test_what_a_login_leaves_is_for_its_owner_alone(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    assert cli(*LOGIN, stdin=b"password").code == 0
    folder = cli.folder / "config"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in folder.iterdir()] == [("tokens.json", 0o600)]


def test_a_logout_of_a_session_that_has_ended_forgets_it(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    ended = {"code": "unauthenticated", "message": "m", "requestId": "r"}
    running.answer("POST", "/auth/logout", Canned(401, {"error": ended}))
    assert cli(*LOGIN, stdin=b"password").code == 0
    assert cli("logout").data is None
    assert cli("logout").error["message"].startswith("You are not signed in")


def test_a_wrong_password_is_kept_nowhere(cli: CommandLine, running: RecordingServer) -> None:
    error = {"code": "invalid_credentials", "message": "m", "requestId": "r"}
    running.answer("POST", "/auth/login", Canned(401, {"error": error}))
    outcome = cli(*LOGIN, stdin=b"password")
    assert (outcome.code, outcome.error) == (4, error)
    assert not (cli.folder / "config").exists()


def test_passwords_come_from_the_environment_too(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    outcome = cli("login", "--email", "a@b", environment={"MAILBOX_APPLIANCE_PASSWORD": "from there"})
    assert (outcome.code, running.asked[0].json["password"]) == (0, "from there")


def test_the_address_is_asked_for_at_a_terminal_and_nowhere_else(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    assert cli("login", stdin=b"a@b\n").error["message"] == "Missing option '--email'."
    ours, theirs = pty.openpty()
    told = io.StringIO()
    with os.fdopen(theirs, "rb", buffering=0) as keyboard, os.fdopen(ours, "wb", buffering=0) as keys:
        environment = cli.environment | {"MAILBOX_APPLIANCE_PASSWORD": "from there"}
        terminal = Terminal(keyboard, io.StringIO(), told, environment)
        keys.write(b" ann@example.org\n")
        assert run(["login"], terminal=terminal) == 0
        assert run(["login", "--password-stdin"], terminal=terminal) == 2
        keys.write(b"\n")
        assert run(["login"], terminal=terminal) == 2
    assert [asked.json["email"] for asked in running.asked] == ["ann@example.org"]
    assert told.getvalue().startswith(f"Your email address for {running.url}: ")
    assert "Missing address." in told.getvalue()


def test_no_password_goes_unprotected_to_another_computer(cli: CommandLine) -> None:
    outcome = cli("login", "http://mail.example.org", "--email", "a@b", "--password-stdin", stdin=b"password")
    assert (outcome.code, outcome.error["code"]) == (4, "https_required")


def test_login_at_a_url_is_used_from_then_on(cli: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/auth/login", LOGGED_IN)
    server.data("GET", "/me", {"member": {}})
    assert cli("login", server.url + "/", "--email", "a@b", "--password-stdin", stdin=b"password").code == 0
    assert cli("whoami").code == 0
    assert cli("whoami", "--instance", server.url).code == 0
    assert cli("whoami", "--data-dir", str(cli.folder / "other")).error["code"] == "appliance_unreachable"
    name = server.url.removeprefix("http://")
    assert cli("instances", "use", "local").data["current"] is True
    assert cli("whoami").code == 5
    assert cli("instances", "use", name).data["url"] == server.url
    known = {row["name"]: row for row in cli("instances", "list").data}
    assert (known[name]["current"], known[name]["loggedIn"]) == (True, True)
    assert (known["local"]["url"], known["local"]["loggedIn"]) == (None, False)
    assert cli("instances", "remove", name).data == {"id": name, "deleted": True}
    assert "mbxs_new" not in (cli.folder / "config" / "tokens.json").read_text()
    assert cli("instances", "use", name).code == 2
    assert cli("--instance", name, "whoami").error["code"] == "not_found"


def test_the_url_of_the_local_appliance_means_the_local_appliance(cli: CommandLine, running: RecordingServer) -> None:
    running.data("POST", "/auth/login", LOGGED_IN)
    running.data("GET", "/me", {"member": {}})
    assert cli("login", running.url, "--email", "a@b", "--password-stdin", stdin=b"password").code == 0
    assert cli("whoami").code == 0
    assert [row["name"] for row in cli("instances", "list").data] == ["local"]


def test_run_json_is_believed_only_while_the_lock_is_held(cli: CommandLine, server: RecordingServer) -> None:
    with owned(cli.data_dir, server.url):
        found = local.find_running(cli.data_dir)
        assert found is not None
        assert (found.url, found.pid, "secret" in repr(found)) == (server.url, os.getpid(), False)
    assert local.find_running(cli.data_dir) is None
    with owned(cli.data_dir, server.url):
        (cli.data_dir / "run.json").write_text('{"pid": 1}')
        assert local.find_running(cli.data_dir) is None
    (cli.data_dir / "lock").unlink()
    assert local.find_running(cli.data_dir) is None


def test_what_one_that_was_killed_has_left_is_not_believed_while_the_next_one_starts(
    cli: CommandLine, server: RecordingServer
) -> None:
    """Another program may listen there by now and must not get a token."""
    cli.environment["MAILBOX_APPLIANCE_TOKEN"] = "mbxs_x"
    following = os.getpid() + 1
    with owned(cli.data_dir, server.url):
        for written, is_believed in (("", True), (f"{os.getpid()}\n", True), (f"{following}\n", False)):
            (cli.data_dir / "lock").write_text(written)  # none on a full disk
            assert (local.find_running(cli.data_dir) is not None) == is_believed
        assert (find_lock_holder(cli.data_dir / "lock"), cli("status").code) == (following, NETWORK)
    assert server.asked == []


def test_asking_for_the_lock_does_not_keep_it(cli: CommandLine) -> None:
    with owned(cli.data_dir, "http://127.0.0.1:1"):
        pass
    assert not local.is_owned(cli.data_dir)
    with owned(cli.data_dir, "http://127.0.0.1:1"):
        assert local.is_owned(cli.data_dir)


def test_setup_through_the_running_appliance(cli: CommandLine, running: RecordingServer) -> None:
    (cli.data_dir / "setup-code").write_text("code-1\n")
    running.data("POST", "/setup", LOGGED_IN, status=201)
    running.data("GET", "/me", {})
    outcome = cli(*SETUP, "--device-name", "d", stdin=b"correct horse\n")
    assert (outcome.code, outcome.data) == (0, LOGGED_IN)
    body = {"setupCode": "code-1", "name": "Ann", "email": "ann@example.org", "password": "correct horse"}
    assert running.asked[0].json == {**body, "deviceName": "d"}
    assert cli("whoami").code == 0


def test_a_second_setup_says_so(cli: CommandLine, running: RecordingServer) -> None:
    outcome = cli(*SETUP, stdin=b"correct horse\n")
    assert (outcome.code, outcome.error["code"], running.asked) == (2, "conflict", [])


def setup_on_files(data_dir: Path, *, name: str, email: str, password: str, device_name: str) -> dict[str, Any]:
    """Stand in for the function of the higher layer."""
    if name == "Early":
        raise StoreInUse(holder="", folder=data_dir)
    if name == "Again":
        raise Conflict(reason="There is an administrator already.")
    (data_dir / "done").write_text(f"{name} {email} {password} {bool(device_name)}")
    return {"data": LOGGED_IN}


def serve(
    data_dir: Path, *, flags: dict[str, object], ready_json: bool, passphrase: str | None, showing: object
) -> int:
    """Stand in for the function of the higher layer."""
    (data_dir / "served").write_text(json.dumps([flags, ready_json, passphrase]))
    return 7


def demo(port: int = 0) -> int:
    """Stand in for the function of the higher layer."""
    return port


def test_setup_on_files_when_nothing_runs(cli: CommandLine, server: RecordingServer) -> None:
    cli.services["setup_on_files"] = f"{__name__}:setup_on_files"
    assert cli(*SETUP, stdin=b"correct horse\n").data == LOGGED_IN
    assert (cli.data_dir / "done").read_text() == "Ann ann@example.org correct horse True"
    server.data("GET", "/me", {})
    with owned(cli.data_dir, server.url):
        assert cli("whoami").code == 0
    assert server.asked[0].headers["Authorization"] == "Bearer mbxs_new"
    (cli.data_dir / "run.json").unlink()
    outcome = cli("setup", "--name", "Again", *SETUP[3:], stdin=b"correct horse\n")
    assert (outcome.code, outcome.error["code"]) == (2, "conflict")


def test_setup_waits_for_an_appliance_that_starts(cli: CommandLine, server: RecordingServer) -> None:
    cli.services["setup_on_files"] = f"{__name__}:setup_on_files"
    (cli.data_dir / "setup-code").write_text("code-1\n")
    server.data("POST", "/setup", LOGGED_IN, status=201)
    with owned(cli.data_dir, server.url):
        (cli.data_dir / "run.json").rename(cli.data_dir / "later")
        starting = threading.Timer(0.3, (cli.data_dir / "later").rename, (cli.data_dir / "run.json",))
        starting.start()
        assert cli("setup", "--name", "Early", *SETUP[3:], stdin=b"correct horse\n").code == 0
        starting.join()


def test_setup_says_that_it_may_be_starting(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.services["setup_on_files"] = f"{__name__}:setup_on_files"
    monkeypatch.setattr("mailbox_appliance.cli.commands.session._PATIENCE", 0.1)
    outcome = cli("setup", "--name", "Early", *SETUP[3:], stdin=b"correct horse\n")
    assert (outcome.code, outcome.error["code"]) == (1, "store_in_use")
    assert "still starting" in outcome.error["message"]


def test_serve_and_demo_hand_over(cli: CommandLine) -> None:
    cli.services |= {"serve": f"{__name__}:serve", "demo": f"{__name__}:demo"}
    assert cli("serve", "--port", "0", "--host", "::1", "--ready-json").code == 7
    assert json.loads((cli.data_dir / "served").read_text()) == [
        {"server.host": "::1", "server.port": 0},
        True,
        None,
    ]
    assert cli("serve", "--passphrase-stdin", stdin=b"twelve geese fly\n").code == 7
    assert json.loads((cli.data_dir / "served").read_text()) == [{}, False, "twelve geese fly"]
    assert cli("demo", "--port", "9").code == 9


def test_a_service_that_is_missing_is_named(cli: CommandLine) -> None:
    cli.services["demo"] = "mailbox_appliance.no_such_module:main"
    outcome = cli("demo")
    assert outcome.code == 1
    assert "mailbox-appliance[demo]" in outcome.error["message"]


def test_a_damaged_file_is_named(cli: CommandLine) -> None:
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "instances.json").write_text("{")
    outcome = cli("instances", "list")
    assert (outcome.code, outcome.error["code"]) == (1, "local_file_damaged")
    assert "instances.json" in outcome.error["message"]
