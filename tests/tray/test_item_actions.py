"""Requests, programs and notifications that a click leads to, with a fake appliance."""

import os
import shlex
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.system import processes
from mailbox_appliance.tray.item_actions import Actions, DesktopLauncher, TrayParts
from mailbox_appliance.tray.notifications import Notice
from mailbox_appliance.tray.service import ServiceProcess
from mailbox_appliance.tray.state import HttpsState, TrayState
from mailbox_appliance.tray.state import ServiceState as How
from mailbox_appliance.tray.view import Action
from mailbox_appliance.tray.watcher import ApplianceWatcher
from tests.cli.recording_server import Asked, Canned, RecordingServer
from tests.cli.test_login import owned
from tests.servers.mailboxes import wait_until

LINKS, BACKUPS, HTTPS = "/auth/console-links", "/admin/backups", "/admin/https"


class Desktop:
    """Fake programs on a PATH of the test, each of which records its arguments and input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.environment = {"PATH": f"{folder}:/usr/bin:/bin"}

    def has(self, name: str, then: str = "exit 0") -> None:
        """Create this program."""
        file = self._folder / name
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" > {file}.said\n{then}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def said(self, name: str) -> str | None:
        """Return what the program recorded, if it was started."""
        file = self._folder / f"{name}.said"
        return file.read_text().removesuffix("\n") if file.exists() else None


@dataclass
class Around:
    """A fake of the tray around the actions."""

    state: TrayState
    told: list[Notice] = field(default_factory=list)
    has_ended: bool = False

    def show_notice(self, notice: Notice) -> None:
        """Record the notification."""
        self.told.append(notice)

    def refresh(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Record the end."""
        self.has_ended = True


@dataclass
class Bench:
    """Actions, with everything that they use."""

    server: RecordingServer
    desktop: Desktop
    data_dir: Path
    around: Around
    actions: Actions

    def does(self, action: Action) -> list[Notice]:
        """Click and wait until the action is done; return its notifications."""
        self.around.told.clear()
        self.actions.start(action)
        wait_until(lambda: action not in self.actions.running, lambda: f"{action} goes on", 10)
        return list(self.around.told)

    def asked(self, method: str, path: str) -> list[Asked]:
        """Return the requests with this method and path."""
        return [one for one in self.server.asked if (one.method, one.target) == (method, f"/api/v1{path}")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A signed-in user of an appliance with canned responses."""
    data_dir, desktop = tmp_path / "data", Desktop(tmp_path / "bin")
    data_dir.mkdir()
    tokens = TokenStore(tmp_path / "config", {"MAILBOX_APPLIANCE_KEYCHAIN": "off"})
    tokens.put(local_key(data_dir), "mbxs_test")
    with RecordingServer() as server, owned(data_dir, server.url):
        watcher = ApplianceWatcher(data_dir, tokens, {})
        watcher.poll()
        around: Any = Around(TrayState(How.ANSWERS, https=HttpsState(enabled=False, fingerprint="sha256:0123")))
        parts = TrayParts(data_dir, watcher, ServiceProcess(data_dir, {}), DesktopLauncher(desktop.environment), None)
        yield Bench(server, desktop, data_dir, around, Actions(around, parts))


def _refusal(status: int, code: str, message: str) -> Canned:
    return Canned(status, {"error": {"code": code, "message": message, "requestId": "req_1"}})


@pytest.mark.parametrize(
    ("action", "place"),
    [
        (Action.OPEN_CONSOLE, ""),
        (Action.SET_UP, ""),
        (Action.SHOW_MAILBOXES, "/mailboxes"),
        (Action.SHOW_UNCERTAIN, "/deliveries"),
        (Action.SHOW_APPROVALS, "/approvals"),
        (Action.RESTORE, "/backups"),
    ],
)
def test_the_console_is_opened_signed_in_at_the_page_that_is_meant(bench: Bench, action: Action, place: str) -> None:
    bench.desktop.has("xdg-open")
    bench.server.data("POST", LINKS, {"url": "http://127.0.0.1:1/#console=mbxc_1", "expiresAt": "soon"}, 201)
    assert bench.does(action) == []
    led = f"&to={place}" if place else ""
    assert bench.desktop.said("xdg-open") == f"http://127.0.0.1:1/#console=mbxc_1{led}"
    bench.server.answer("POST", LINKS, _refusal(403, "session_required", "Not with an API key."))
    assert bench.does(action) == []
    assert bench.desktop.said("xdg-open") == f"{bench.server.url}/{'#' if place else ''}{place}"


def test_a_link_that_no_browser_takes_is_told_without_what_opens_it(bench: Bench) -> None:
    bench.desktop.environment["PATH"] = str(bench.data_dir)
    bench.server.data("POST", LINKS, {"url": "http://127.0.0.1:1/#console=mbxc_1", "expiresAt": "soon"}, 201)
    (told,) = bench.does(Action.RESTORE)
    assert told == Notice("Could not open a browser", f"The console is at {bench.server.url}/#/backups")


def test_a_backup_is_made_once_however_often_one_clicks_and_hinders_nothing_else(bench: Bench) -> None:
    bench.desktop.has("xdg-open")
    bench.server.answer("POST", BACKUPS, Canned(201, {"data": {}}, after="POST /never"))
    bench.actions.start(Action.BACK_UP)
    bench.actions.start(Action.BACK_UP)
    assert bench.does(Action.OPEN_LOGS) == []
    assert bench.desktop.said("xdg-open") == str(bench.data_dir / "logs")
    wait_until(lambda: bool(bench.asked("POST", BACKUPS)), lambda: "nothing was asked", 5)
    assert bench.actions.running == {Action.BACK_UP}
    assert Action.OPEN_LOGS in bench.actions.take_recent()
    assert bench.actions.take_recent() == {Action.BACK_UP}
    assert len(bench.asked("POST", BACKUPS)) == 1


def test_what_the_api_refuses_is_told_in_its_words(bench: Bench) -> None:
    bench.server.answer("POST", BACKUPS, _refusal(409, "conflict", "A rekey is being made."))
    assert bench.does(Action.BACK_UP) == [Notice("Backup failed", "A rekey is being made.")]
    bench.server.answer("PATCH", HTTPS, _refusal(409, "conflict", "Port 8443 is taken."))
    assert bench.does(Action.SWITCH_HTTPS) == [Notice("Could not change remote access", "Port 8443 is taken.")]
    bench.server.answer("PATCH", HTTPS, Canned(200, {"unexpected": True}))
    (told,) = bench.does(Action.SWITCH_HTTPS)
    assert "Internal error" in told.text


def test_https_is_switched_to_what_it_is_not(bench: Bench) -> None:
    on = {"enabled": True, "url": "https://127.0.0.1:8443", "port": 8443}
    bench.server.answer("PATCH", HTTPS, Canned(200, {"data": on, "warnings": ["It expires soon."]}))
    (told,) = bench.does(Action.SWITCH_HTTPS)
    assert (told.title, "port 8443" in told.text, "It expires soon." in told.text) == (
        "Remote access is on",
        True,
        True,
    )
    bench.around.state = TrayState(How.ANSWERS, https=HttpsState(enabled=True))
    bench.server.answer("PATCH", HTTPS, Canned(200, {"data": on | {"enabled": False, "url": None}, "warnings": []}))
    (told,) = bench.does(Action.SWITCH_HTTPS)
    assert told.title == "Remote access is off"
    assert [one.json for one in bench.asked("PATCH", HTTPS)] == [{"enabled": True}, {"enabled": False}]


def test_a_log_in_is_typed_in_a_terminal_and_without_one_it_is_told_how(bench: Bench) -> None:
    bench.desktop.has("xdg-terminal-exec", "exit 1")
    bench.desktop.has("x-terminal-emulator", "sleep 0.2")
    assert bench.does(Action.LOG_IN) == []
    assert (bench.desktop.said("x-terminal-emulator") or "").endswith(
        f"--data-dir {bench.data_dir} login --format table"
    )
    bench.desktop.environment["PATH"] = str(bench.data_dir)
    (told,) = bench.does(Action.LOG_IN)
    command = processes.own_command("--data-dir", str(bench.data_dir), "login", "--format", "table")
    assert told.text == f"Run in a terminal: {shlex.join(command)}"


def test_the_fingerprint_is_copied_where_there_is_a_clipboard_and_else_shown(bench: Bench) -> None:
    assert bench.does(Action.COPY_FINGERPRINT) == [Notice("Certificate fingerprint", "sha256:0123")]
    bench.desktop.has("wl-copy", "exit 1")
    bench.desktop.has("xclip", f"cat > {bench.data_dir}/copied")
    bench.desktop.environment.update(WAYLAND_DISPLAY="wayland-0", DISPLAY=":0")
    (told,) = bench.does(Action.COPY_FINGERPRINT)
    assert (told.title, (bench.data_dir / "copied").read_text()) == ("Fingerprint copied", "sha256:0123")


def test_the_set_up_code_is_copied_or_its_file_is_opened_and_no_notice_has_it(bench: Bench) -> None:
    bench.around.state = TrayState(How.ANSWERS, setup_code="ab-cd")
    file = bench.data_dir / "setup-code"
    assert bench.does(Action.COPY_SETUP_CODE) == [Notice("Setup code", f"It is in the menu, and in the file {file}")]
    bench.desktop.has("xdg-open")
    assert bench.does(Action.COPY_SETUP_CODE) == []
    assert bench.desktop.said("xdg-open") == str(file)
    bench.desktop.has("wl-copy", f"cat > {bench.data_dir}/copied")
    bench.desktop.environment["WAYLAND_DISPLAY"] = "wayland-0"
    (told,) = bench.does(Action.COPY_SETUP_CODE)
    assert (told.title, "ab-cd" in told.text) == ("Setup code copied", False)
    assert (bench.data_dir / "copied").read_text() == "ab-cd"


def test_a_browser_is_the_one_that_is_named_and_none_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailbox_appliance.tray.item_actions._BEGINS_WITHIN", 0.3)
    desktop = Desktop(tmp_path / "bin")
    desktop.has("picky", "exit 3")
    desktop.has("slow", "exec sleep 20")
    desktop.has("xdg-open")
    opening = DesktopLauncher(desktop.environment | {"BROWSER": 'gone:picky --new "%s":broken "quote:slow'})
    before = time.monotonic()
    links = (f"http://127.0.0.1:1/#{number}" for number in range(9))  # each is single-use
    assert opening.open_browser(lambda: next(links))
    assert time.monotonic() - before < 10
    assert desktop.said("picky") == "--new http://127.0.0.1:1/#0"
    assert desktop.said("slow") == "http://127.0.0.1:1/#1"
    assert desktop.said("xdg-open") is None


def test_programs_of_others_get_their_own_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.frozen", True, raising=False)
    desktop = Desktop(tmp_path / "bin")
    desktop.has("xdg-open", f"env > {tmp_path}/environment")
    ours = {"LD_LIBRARY_PATH": "/ours", "LD_LIBRARY_PATH_ORIG": "/theirs"}
    assert DesktopLauncher(desktop.environment | ours).open_path(tmp_path)
    assert "LD_LIBRARY_PATH=/theirs\n" in (tmp_path / "environment").read_text()


def test_a_terminal_of_windows_is_given_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the command line only, for a program and folders with spaces and an & in their names."""
    lines: list[str] = []
    monkeypatch.setattr(DesktopLauncher, "_start_and_check", lambda _, command, *__: lines.append(command))
    DesktopLauncher({}, "win32").open_terminal([r"C:\Program Files\x.exe", r"C:\R&D\mail", "D:\\"])
    assert lines == [r'cmd /s /k ""C:\Program Files\x.exe" "C:\R&D\mail" "D:\\""']


def test_why_it_did_not_start_is_kept_until_it_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ServiceProcess) -> None:
        raise Failure("cannot_listen", "The port is taken.", 1)

    with monkeypatch.context() as patched:
        patched.setattr(ServiceProcess, "start", refuse)
        assert bench.does(Action.START) == [Notice("The appliance did not start", "The port is taken.")]
    assert bench.actions.not_started == "The port is taken."
    monkeypatch.setattr(ServiceProcess, "start", lambda _: None)
    assert bench.does(Action.START) == []
    assert bench.actions.not_started is None


def test_quit_ends_the_tray_also_where_the_service_does_not_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailbox_appliance.tray.service.find_owner_pid", lambda _: os.getpid())
    monkeypatch.setattr("mailbox_appliance.tray.service.end_process", lambda *_: False)
    (told,) = bench.does(Action.QUIT)
    assert (told.title, bench.around.has_ended) == ("Could not stop the appliance", True)
