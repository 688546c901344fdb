"""Programs that show icons are found or waited for; a missing one is reported."""

import os
import sys
import threading
import time
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from mailbox_appliance.tray import display, run
from mailbox_appliance.tray.view import SEPARATOR, Action, Icon, IconLook, MenuRow, NoTrayHost
from tests.servers.session_bus import SessionBus
from tests.servers.tray_watcher import TrayHost

PATIENCE = 10.0


def find(environment: dict[str, str], patience: float = 0.0, platform: str = "linux") -> Icon:
    """Return the icon without handlers for clicks."""
    return display.find_icon(lambda _: None, lambda: None, environment, patience=patience, platform=platform)


def let_go(icon: Icon) -> None:
    """Disconnect the icon from the bus."""
    icon.stop()
    icon.run()


# --- Linux: none ---


def test_without_a_session_bus_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoTrayHost, match="The tray icon cannot be shown: this is not a desktop session"):
        find({"DISPLAY": ":99", "XDG_RUNTIME_DIR": str(tmp_path)})


@pytest.mark.parametrize("address", ["unix:path=/nonexistent", "autolaunch:", "tcp:host=localhost,port=1", "nonsense"])
def test_a_bus_that_is_not_there_is_said(address: str) -> None:
    with pytest.raises(NoTrayHost, match="session bus of this desktop does not answer"):
        find({"DBUS_SESSION_BUS_ADDRESS": address})


def test_a_desktop_without_a_tray_is_said(bus: SessionBus) -> None:
    with pytest.raises(NoTrayHost, match="This desktop shows no tray icons") as told:
        find(bus.environment)
    assert "\n" not in str(told.value)
    assert str(told.value).endswith(".")


def test_on_plain_gnome_the_extension_is_named(bus: SessionBus) -> None:
    with pytest.raises(NoTrayHost, match="AppIndicator and KStatusNotifierItem Support"):
        find(bus.environment | {"XDG_CURRENT_DESKTOP": "ubuntu:GNOME"})


def test_without_a_screen_nothing_is_waited_for(bus: SessionBus) -> None:
    begun = time.monotonic()
    with pytest.raises(NoTrayHost):
        find(bus.environment, patience=PATIENCE)
    assert time.monotonic() - begun < PATIENCE / 2


# --- Linux: there ---


def test_a_panel_that_comes_after_us_is_waited_for(bus: SessionBus) -> None:
    host = TrayHost(bus.address)
    coming = threading.Timer(0.2, host.start)
    coming.start()
    let_go(find(bus.environment | {"WAYLAND_DISPLAY": "wayland-0"}, patience=PATIENCE))
    coming.join()
    host.stop()


def test_the_bus_is_found_where_systemd_puts_it(bus: SessionBus, host: TrayHost, tmp_path: Path) -> None:
    (tmp_path / "bus").symlink_to(bus.address.split("path=")[1].split(",")[0])
    let_go(find({"XDG_RUNTIME_DIR": str(tmp_path)}))


# --- Windows, macOS, others: by pystray, with a backend that only records ---


with patch.dict(os.environ, PYSTRAY_BACKEND="dummy"):  # the others need a screen when they are imported
    import pystray
    from pystray._base import Icon as PystrayBase


class Remembered(PystrayBase):
    """A pystray backend without a screen."""

    made: "list[Remembered]" = []  # noqa: RUF012
    can_notify = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.events: list[str] = []
        self.notices: list[tuple[str, str | None]] = []
        self.ends = threading.Event()
        Remembered.made.append(self)
        super().__init__(*arguments, **named)

    def _show(self) -> None:
        self.events.append("show")

    def _hide(self) -> None:
        self.events.append("hide")

    def _update_icon(self) -> None:
        self._icon_valid = True
        self.events.append("icon")

    def _update_title(self) -> None:
        self.events.append("title")

    def _update_menu(self) -> None:
        self.events.append("menu")

    def _run(self) -> None:
        self._mark_ready()
        self.ends.wait(PATIENCE)

    def _stop(self) -> None:
        self.ends.set()

    def _notify(self, message: str, title: str | None = None) -> None:
        if not self.can_notify:
            raise NotImplementedError
        self.notices.append((message, title))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> type[Remembered]:
    monkeypatch.setattr(pystray, "Icon", Remembered)
    monkeypatch.setitem(sys.modules, "PyObjCTools", ModuleType("PyObjCTools"))
    helper = SimpleNamespace(callAfter=lambda change: change())
    monkeypatch.setitem(sys.modules, "PyObjCTools.AppHelper", helper)
    return Remembered


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_windows_and_macos_show_it_by_pystray(backend: type[Remembered], platform: str) -> None:
    clicks = Queue[Action]()
    icon = display.find_icon(clicks.put, lambda: None, {}, platform=platform)
    shown = backend.made[-1]
    rows = (
        MenuRow("Everything is up to date", enabled=False),
        SEPARATOR,
        MenuRow("Open console", Action.OPEN_CONSOLE),
        MenuRow("R & D", Action.SHOW_MAILBOXES),
        MenuRow("Start at login", Action.SWITCH_START_AT_LOGIN, checked=True),
    )
    running = threading.Thread(target=icon.run)
    running.start()
    icon.show(IconLook.ATTENTION, "1 thing needs you", rows)
    told, _line, console, mailboxes, at_login = shown.menu.items
    assert (told.enabled, console.default, at_login.checked, at_login.default) == (False, True, True, False)
    assert mailboxes.text == ("R && D" if platform == "win32" else "R & D")
    shown()  # a click on the icon
    mailboxes(shown)
    assert {clicks.get(timeout=PATIENCE), clicks.get(timeout=PATIENCE)} == {Action.OPEN_CONSOLE, Action.SHOW_MAILBOXES}
    assert shown.title == "Mailbox Appliance: 1 thing needs you"
    assert shown.icon.size == (64, 64)
    icon.stop()
    running.join(PATIENCE)
    assert not running.is_alive()


def test_notifications_that_cannot_be_shown_are_left_out(backend: type[Remembered]) -> None:
    icon = find({}, platform="win32")
    icon.notify("Backup made", "It is in the folder.")
    backend.can_notify = False
    icon.notify("Backup made", "It is in the folder.")
    backend.can_notify = True
    assert backend.made[-1].notices == [("It is in the folder.", "Backup made")]


def test_a_session_without_a_screen_is_said(backend: type[Remembered], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no window station")

    monkeypatch.setattr(pystray, "Icon", refuse)
    with pytest.raises(NoTrayHost, match=r"cannot show a tray icon \(OSError: no window station\)\."):
        find({}, platform="win32")


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_a_missing_library_is_said_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setitem(sys.modules, "pystray", None)
    with pytest.raises(NoTrayHost, match=r"^The tray icon needs .* `pip install 'mailbox-appliance\[tray\]'`\.$"):
        find({}, platform=platform)
    monkeypatch.setitem(sys.modules, "jeepney", None)
    monkeypatch.delitem(sys.modules, "mailbox_appliance.tray.linux.dbus", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    run._notify("The tray icon cannot be shown", "It needs more packages.", {})  # Linux alone has a session bus


def test_other_systems_are_said_to_be_unknown() -> None:
    with pytest.raises(NoTrayHost, match="not supported on this system"):
        find({}, platform="freebsd14")
