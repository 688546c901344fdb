"""The tray from a user's view: the real process, a real bus, a real appliance, clicks by label."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.system import crashes, files
from mailbox_appliance.tray import run, service
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.session_bus import SessionBus
from tests.servers.tray_watcher import TrayHost
from tests.system.test_keyring import BACKENDS
from tests.templates import Template
from tests.tray.conftest import Desk, desk_at

_OPENER = """#!/bin/sh
printf '%s\\n' "$*" >> "$(dirname "$0")/opened"
"""


class Seat:
    """A desk with a bus, a tray host, and programs that record what they open."""

    def __init__(self, folder: Path, template: Template) -> None:
        self.bus = SessionBus(folder / "session").start()
        self.host = TrayHost(self.bus.address).start()
        desk = desk_at(folder, template)
        self._programs = folder / "bin"
        self._programs.mkdir()
        environment = self.bus.environment | {
            name: value for name, value in desk.environment.items() if name.startswith("MAILBOX_")
        }
        environment["PATH"] = f"{self._programs}:{os.environ['PATH']}"
        self.desk = Desk(folder, desk.token, environment)
        for name in ("xdg-open", "x-terminal-emulator"):
            (self._programs / name).write_text(_OPENER)
            (self._programs / name).chmod(0o755)
        self._processes: list[subprocess.Popen[str]] = []

    def tray(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a tray."""
        self._processes.append(
            subprocess.Popen(
                (sys.executable, "-m", "mailbox_appliance", "tray", *arguments),
                env=self.desk.environment | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self._processes[-1]

    def opened(self) -> str:
        """Return the address or path that is opened next, or was opened already."""
        file = self._programs / "opened"
        wait_until(lambda: file.exists() and bool(file.read_text()), lambda: "nothing was opened", 10)
        text = file.read_text().strip()
        file.unlink()
        return text

    def looks_until_told(self, title: str) -> None:
        """Open the menu repeatedly until a notification arrives, which makes the tray poll sooner."""

        def is_told() -> bool:
            self.host.open_menu()
            return any(notice.title == title for notice in self.host.notices)

        wait_until(is_told, lambda: f"no notice {title!r} among {self.host.notices}", 10)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.communicate()
        self.desk.stop()
        self.host.stop()
        self.bus.stop()


@pytest.fixture
def seat(tmp_path: Path, templates: dict[str, Template]) -> Iterator[Seat]:
    """A seat without running processes."""
    made = Seat(tmp_path, templates["set up"])
    yield made
    made.close()


@pytest.fixture
def desktop(seat: Seat) -> Iterator[TrayHost]:
    """A desktop that shows notifications and no icons, in place of the usual one."""
    seat.host.stop()
    bare = TrayHost(seat.bus.address, tray=False).start()
    yield bare
    bare.stop()


def _ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Return the exit code and output of a process."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.slow
def test_every_click_of_a_day(seat: Seat) -> None:
    host, desk = seat.host, seat.desk
    desk.log_in()
    tray = seat.tray("--open")
    host.wait_for_icon()
    host.wait_for("Open console", enabled=True)
    running = desk.running()

    link = urlsplit(seat.opened())
    assert f"http://{link.netloc}" == running.url
    assert link.fragment.startswith("console=mbxc_")
    assert "&" not in link.fragment
    host.click("Restore…")
    assert seat.opened().endswith("&to=/backups")
    host.click("Open the log folder")
    assert seat.opened() == str(desk.data_dir / "logs")

    host.click("Back up now")
    assert host.wait_for_notice("Backup").title == "Backup complete"
    assert len(list((desk.data_dir / "backups").glob("*-manual.mbxbackup"))) == 1
    host.wait_for("Back up now", enabled=True)

    host.click("Allow remote access (HTTPS)")
    host.wait_for("Allow remote access (HTTPS)", checked=True)
    host.wait_for_notice("Remote access is on")
    fingerprint = next(label for label in host.labels() if label.startswith("Fingerprint: "))
    host.click(fingerprint)
    assert host.wait_for_notice("fingerprint").text.startswith("sha256:")
    host.click("Allow remote access (HTTPS)")
    host.wait_for("Allow remote access (HTTPS)", checked=False)
    host.wait_for_notice("Remote access is off")

    host.click("Start at login")
    host.wait_for("Start at login", checked=True)
    entry = Path(desk.environment["XDG_CONFIG_HOME"]) / "autostart" / "mailbox-appliance.desktop"
    assert str(desk.data_dir) in entry.read_text()
    host.click("Start at login")
    host.wait_for("Start at login", checked=False)

    client = ApiClient(running.url, desk.token)
    (made,) = client.call(ApiRequest("GET", "/admin/backups"))["data"]["items"]
    client.call(ApiRequest("POST", "/admin/restore", body={"backupId": made["id"]}))
    seat.looks_until_told("Restore complete")
    assert desk.running().pid == running.pid
    os.kill(running.pid, signal.SIGTERM)
    seat.looks_until_told("The appliance has stopped")
    host.click("Start the appliance")
    host.wait_for("Open console", enabled=True)
    host.notices.clear()

    host.click("Stop the appliance")
    host.wait_for("Start the appliance", enabled=True)
    assert service.find_owner_pid(desk.data_dir) is None
    host.click("Start the appliance")
    host.wait_for("Open console", enabled=True)
    assert desk.running().pid != running.pid
    assert not [notice for notice in host.notices if "stopped" in notice.title or "start" in notice.title]

    running = desk.running()
    os.kill(running.pid, signal.SIGSTOP)  # it takes some time to end
    host.click("Quit")
    host.wait_for("The appliance is stopping…")
    os.kill(running.pid, signal.SIGCONT)
    assert _ended(tray) == (0, "", "")
    host.wait_until_gone()
    assert service.find_owner_pid(desk.data_dir) is None


def test_beside_a_service_started_by_hand_and_beside_another_tray(seat: Seat) -> None:
    host, desk = seat.host, seat.desk
    by_hand = RunningAppliance(desk.data_dir, desk.environment).start()
    tray = seat.tray()
    host.wait_for_icon()
    host.wait_for("Sign in…")
    host.click("Open console")
    assert seat.opened() == f"{by_hand.url}/"
    host.click("Sign in…")
    assert seat.opened().endswith(f"--data-dir {desk.data_dir} login --format table")
    desk.log_in()
    host.open_menu()
    host.wait_for("Back up now", enabled=True)

    code, out, err = _ended(seat.tray("--open"))
    assert (code, out, err) == (0, "", f"The tray is already running (pid {tray.pid}).\n")
    assert "#console=mbxc_" in seat.opened()

    tray.send_signal(signal.SIGTERM)
    assert _ended(tray) == (0, "", "")
    host.wait_until_gone()
    told = [(desk.data_dir / "logs" / name).read_text() for name in ("tray.log", "appliance.log")]
    assert ["tray_started" in text for text in told] == [True, False]  # two processes would rotate one file
    assert by_hand.process is not None
    assert desk.running().pid == by_hand.process.pid

    seat.tray()
    host.wait_for_icon()
    assert _ended(seat.tray("--quit")) == (0, "", "")
    host.wait_until_gone()
    assert by_hand.stop() == 0
    assert _ended(seat.tray("--quit")) == (0, "", "")


@pytest.mark.slow
def test_a_service_that_crashes_comes_back_and_one_that_was_stopped_does_not(seat: Seat) -> None:
    host, desk = seat.host, seat.desk
    tray = seat.tray()
    host.wait_for_icon()
    host.wait_for("Sign in…")
    crashed = desk.running()
    os.kill(crashed.pid, signal.SIGSEGV)
    wait_until(
        lambda: (local.find_running(desk.data_dir) or crashed).pid != crashed.pid, lambda: "it does not come back", 30
    )
    seat.looks_until_told("The appliance crashed")
    host.wait_for("Sign in…")
    kept = list((desk.data_dir / "logs").glob("crash-*.txt"))
    assert [file.read_text().splitlines()[0] for file in kept] == ["Fatal Python error: Segmentation fault"]
    told = [(notice.title, notice.text) for notice in host.notices]
    assert [title for title, _ in told] == ["The appliance crashed"], "once, and nothing of a stop"
    assert kept[0].name in told[0][1]

    host.click("Stop the appliance")
    host.wait_for("Start the appliance", enabled=True)
    assert _serving(desk) == []
    tray.send_signal(signal.SIGTERM)
    code, out, err = _ended(tray)
    assert (code, out, err.count("\n")) == (0, "", 1), err
    assert "tray_service_crashed" in err

    host.notices.clear()
    seat.tray()
    host.wait_for_icon()
    seat.looks_until_told("The appliance crashed")
    assert _ended(seat.tray("--quit")) == (0, "", "")
    host.wait_until_gone()
    crashes.dismiss(desk.data_dir, kept[0].name)
    host.notices.clear()
    seat.tray()
    host.wait_for_icon()
    host.wait_for("Sign in…")
    assert host.notices == []


def _serving(desk: Desk) -> list[int]:
    """Return the processes of the appliance, also those that own nothing yet."""
    wanted = f"\0--data-dir\0{desk.data_dir}\0serve\0".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


@pytest.mark.parametrize("has_lock", [False, True], ids=["before it has the lock", "before it answers"])
def test_what_is_told_to_quit_while_it_starts_leaves_nothing_that_comes_up(seat: Seat, has_lock: bool) -> None:
    desk = seat.desk
    tray = seat.tray()
    begun = (lambda: service.find_owner_pid(desk.data_dir)) if has_lock else (lambda: _serving(desk))
    wait_until(lambda: bool(begun()), lambda: "nothing was started", 10)
    assert _ended(seat.tray("--quit")) == (0, "", "")
    assert _ended(tray) == (0, "", "")
    assert _serving(desk) == []


def test_a_signal_ends_it_whatever_the_main_thread_does() -> None:
    told, before = threading.Event(), signal.getsignal(signal.SIGTERM)
    with run.end_on_signals(told.set):
        os.kill(os.getpid(), signal.SIGTERM)
        assert told.wait(5)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_is_not_heeded_ends_nothing() -> None:
    """`nohup` sets a signal to be ignored."""
    told, before = threading.Event(), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with run.end_on_signals(told.set):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not told.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_waits_for_a_panel_ends_it_as_later(seat: Seat, number: signal.Signals) -> None:
    seat.host.stop()
    tray, lock = seat.tray(DISPLAY=":77"), seat.desk.data_dir / "tray.lock"
    wait_until(lambda: files.find_lock_holder(lock) == tray.pid, lambda: "no tray", 10)
    with pytest.raises(subprocess.TimeoutExpired):  # it waits
        tray.wait(0.5)
    tray.send_signal(number)
    assert _ended(tray) == (0, "", "")


def test_where_its_data_cannot_be_written_that_is_told_on_the_desktop_too(seat: Seat) -> None:
    lock = seat.desk.data_dir / "tray.lock"
    lock.mkdir()
    by_hand = RunningAppliance(seat.desk.data_dir, seat.desk.environment).start()
    why = f"{lock} cannot be used (Is a directory)."
    assert _ended(seat.tray()) == (1, f"{by_hand.url}\n", f"{why} The console is at:\n")
    assert seat.host.wait_for_notice("icon cannot be shown").text == why
    by_hand.stop()


def test_where_no_log_can_be_written_the_icon_tells_why_nothing_starts(seat: Seat) -> None:
    logs = seat.desk.data_dir / "logs"
    logs.write_text("")
    seat.tray()
    assert f"{logs} cannot be used" in seat.host.wait_for_notice("did not start").text
    seat.host.wait_for("Start the appliance")
    assert seat.host.labels()[1].startswith("It did not start: ")


def test_where_no_desktop_shows_icons_the_address_is_told(seat: Seat, desktop: TrayHost) -> None:
    code, out, err = _ended(seat.tray("--open"))
    assert (code, out) == (0, "")
    assert err.endswith("Start it with `mailbox-appliance serve`.\n")
    assert desktop.wait_for_notice("icon cannot be shown").text == err.strip()
    by_hand = RunningAppliance(seat.desk.data_dir, seat.desk.environment).start()
    code, out, err = _ended(seat.tray("--open", DBUS_SESSION_BUS_ADDRESS=""))
    assert (code, out) == (0, f"{by_hand.url}\n")
    assert err.endswith("The console is at:\n")
    assert seat.opened() == f"{by_hand.url}/"
    by_hand.stop()


def test_a_click_on_a_desktop_without_icons_starts_the_appliance_and_opens_the_console(
    seat: Seat, desktop: TrayHost
) -> None:
    at_log_in = _ended(seat.tray(DISPLAY=":77", DBUS_SESSION_BUS_ADDRESS=""))
    assert at_log_in[2].endswith("Start it with `mailbox-appliance serve`.\n")
    assert service.find_owner_pid(seat.desk.data_dir) is None

    code, out, err = _ended(seat.tray("--open", DISPLAY=":77", XDG_CURRENT_DESKTOP="GNOME"))
    url = seat.desk.running().url
    assert (code, out) == (0, f"{url}\n")
    assert err.startswith("GNOME shows tray icons only with the extension")
    assert seat.opened() == f"{url}/"
    assert desktop.wait_for_notice("icon cannot be shown").text.endswith("run `mailbox-appliance tray --quit`.")
    assert _ended(seat.tray("--quit")) == (0, "", "")
    assert service.find_owner_pid(seat.desk.data_dir) is None


def test_what_does_not_start_by_a_click_is_told_on_a_desktop_without_icons(seat: Seat, desktop: TrayHost) -> None:
    (seat.desk.data_dir / "config.toml").write_text("[server]\nport = true\n")
    code, _, err = _ended(seat.tray("--open", DISPLAY=":77"))
    assert code != 0
    assert desktop.wait_for_notice("did not start").text in err


def test_a_keychain_that_is_silent_keeps_nothing_waiting(seat: Seat, tmp_path: Path) -> None:
    host, desk = seat.host, seat.desk
    (tmp_path / "made_up_keychains.py").write_text(BACKENDS)
    desk.config_dir.mkdir()
    (desk.config_dir / "tokens.json").write_text(json.dumps({"file": {}, "keychain": [local_key(desk.data_dir)]}))
    silent = {"MAILBOX_APPLIANCE_KEYCHAIN": "on", "PYTHON_KEYRING_BACKEND": "made_up_keychains.Mute"}
    tray = seat.tray(**silent, PYTHONPATH=str(tmp_path))
    host.wait_for_icon()
    host.wait_for("The keychain is locked")
    before = time.monotonic()
    host.open_menu()
    host.click("Open console")
    assert seat.opened() == f"{desk.running().url}/"
    host.click("Quit")
    assert _ended(tray) == (0, "", "")
    assert time.monotonic() - before < 10  # the keychain has 30 s
    assert service.find_owner_pid(desk.data_dir) is None


# --- The process ID in the lock of a tray, and what follows if it is missing ---


#: Linux assigns no process ID as high.
NO_PROCESS = 4_194_305


def test_who_has_the_lock_stands_in_it_whatever_stood_there(tmp_path: Path) -> None:
    lock = tmp_path / "tray.lock"
    for before in ("", "1\n", "99999999\nand more, of another release\n"):
        lock.write_text(before)
        with run.hold_tray_lock(tmp_path):
            assert files.find_lock_holder(lock) == os.getpid()


def test_one_that_cannot_say_who_it_is_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_at", full)
    monkeypatch.setattr(run, "_PID_SECONDS", 0.1)
    (tmp_path / "tray.lock").write_text("1\n")
    with run.hold_tray_lock(tmp_path), pytest.raises(Failure, match="Quit it from its menu"):
        run.end_tray(tmp_path)
    assert run.end_tray(tmp_path)


def test_who_looks_whether_there_is_one_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "tray.lock").touch()
    looks = os.open(tmp_path / "tray.lock", os.O_RDONLY)
    assert files.lock_file(looks, shared=True)
    with pytest.raises(run.OtherTray), run.hold_tray_lock(tmp_path):
        pass
    gone = threading.Timer(0.02, files.unlock_file, (looks,))
    gone.start()
    with run.hold_tray_lock(tmp_path):
        gone.join()
    os.close(looks)


def test_one_that_is_no_process_here_is_told_as_that(tmp_path: Path) -> None:
    with run.hold_tray_lock(tmp_path):
        (tmp_path / "tray.lock").write_text(f"{NO_PROCESS}\n")
        with pytest.raises(Failure, match=rf"^The tray \(pid {NO_PROCESS}\) is not visible from here"):
            run.end_tray(tmp_path)
