"""The macOS app, as far as it can be tested without a Mac: arguments for PyInstaller, property lists, the script."""

import plistlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.tray import autostart
from mailbox_appliance.version import __version__
from tests.packaging.spec_files import begins, of_kind, run_spec
from tests.packaging.unit_files import ROOT, SYSTEM, read_unit

MACOS = ROOT / "packaging" / "macos"
SIGN = MACOS / "sign-and-notarize"


def plist(name: str) -> dict[str, Any]:
    found: dict[str, Any] = plistlib.loads((MACOS / name).read_bytes())
    return found


def test_the_app_is_the_tray_with_the_command_line_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = run_spec(MACOS / "mailbox-appliance.spec", monkeypatch, tmp_path)
    tray, console = of_kind(made, "EXE")
    assert (tray.named["name"], tray.named["console"]) == ("mailbox-appliance-tray", False)
    assert (console.named["name"], console.named["console"]) == ("mailbox-appliance", True)
    assert begins(tray) == ["pyi_rth_inspect", "launch_tray"]
    assert begins(console) == ["pyi_rth_inspect", "launch"]
    (collected,), (app,) = of_kind(made, "COLLECT"), of_kind(made, "BUNDLE")
    assert collected.given[:2] == (tray, console)  # the first one is what the Finder opens
    assert app.given == (collected,)
    assert (app.named["version"], app.named["info_plist"]["CFBundleVersion"]) == (__version__, __version__)
    assert (app.named["info_plist"]["LSUIElement"], app.named["info_plist"]["LSBackgroundOnly"]) == (True, False)
    (found,) = of_kind(made, "Analysis")
    assert "pystray._darwin" in found.named["hiddenimports"]
    assert [name for name, _, _ in found.datas] == ["THIRD-PARTY.txt"]  # third-party licenses
    name = app.named["bundle_identifier"]  # one name begins all names
    assert f"{name}.tray" == autostart.LABEL
    assert plist(f"{name}.service.plist")["Label"] == f"{name}.service"


def test_the_service_without_a_tray_is_kept_as_the_systemd_unit_keeps_it() -> None:
    agent = plist("org.mailboxappliance.service.plist")
    assert agent["ProgramArguments"] == [
        "/Applications/Mailbox Appliance.app/Contents/MacOS/mailbox-appliance",
        "serve",
    ]
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    unit = read_unit(SYSTEM.read_text())["Service"]
    assert [str(agent["ThrottleInterval"])] == unit["RestartSec"]
    assert [str(agent["ExitTimeOut"])] == unit["TimeoutStopSec"]
    assert [f"{agent['Umask']:04o}"] == unit["UMask"]
    assert agent["HardResourceLimits"] == {"Core": 0}


def test_little_is_let_through_the_hardened_runtime() -> None:
    assert plist("entitlements.plist") == {"com.apple.security.cs.allow-unsigned-executable-memory": True}


def test_the_script_that_signs_can_be_read() -> None:
    finished = subprocess.run(["shellcheck", str(SIGN)], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, "")
    finished = subprocess.run([str(SIGN), "a.app", "a.dmg"], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (1, "sign-and-notarize: this script works only on a Mac\n")
