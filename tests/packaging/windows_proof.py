"""The checks of `scripts/prove-windows-installer`: under Wine, the installer installs, upgrades, refuses and
removes.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from mailbox_appliance.tray import autostart
from tests.packaging.unit_files import ROOT
from tests.packaging.wine import Windows
from tests.servers.mailboxes import wait_until

CONSOLE, TRAY = "mailbox-appliance.exe", "mailbox-appliance-tray.exe"
UNINSTALL = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\MailboxAppliance"
RUN, APPROVED = rf"HKCU\{autostart.RUN}", rf"HKCU\{autostart.APPROVED}"
#: Files that only one of the releases has.
OLD, NEW = "1.0.0", "1.1.0"


class Proof:
    """One Windows, and two releases to install on it."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.notes = windows.local / "mailbox-appliance"
        self.program = windows.local / "Programs" / "Mailbox Appliance"
        icons = windows.given / "icons"
        subprocess.run([sys.executable, ROOT / "packaging" / "icons" / "draw", icons], check=True)
        for version in (OLD, NEW):
            self._release(version, icons / "mailbox-appliance.ico")

    def _release(self, version: str, icon: Path) -> None:
        bundle = self.windows.given / version
        (bundle / "_internal").mkdir(parents=True, exist_ok=True)
        for name in (f"of {version}", "THIRD-PARTY.txt"):
            (bundle / "_internal" / name).write_text(version)
        for name in (CONSOLE, TRAY):
            compiled(Path(__file__).with_name("stand_in.nsi"), OUT=bundle / name)
        script = ROOT / "packaging" / "windows" / "mailbox-appliance.nsi"
        compiled(script, VERSION=version, BUNDLE=bundle, ICON=icon, OUT=self.windows.given / f"{version}.exe", FAST="")

    def install(self, version: str, *more: str) -> int:
        """Install silently; return the exit code."""
        return self.windows.run(rf"Z:\given\{version}.exe", "/S", *more)[0]

    def installed(self, folder: Path) -> set[str]:
        """Return the files of the program."""
        return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}

    def calls(self) -> list[str]:
        """Return the command lines of the programs that were called, oldest first."""
        file = self.notes / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def start_tray(self) -> None:
        """Start the program as a click in the menu does."""
        before = len(self.calls())
        self.windows.start(self.windows.path(self.program / TRAY), "tray", "--open")
        wait_until(lambda: len(self.calls()) > before, lambda: "the tray does not start", 30)

    def uninstall(self, folder: Path) -> None:
        """Uninstall silently and wait: the uninstaller continues as a copy of itself after its first process has
        ended.
        """
        assert self.windows.run(self.windows.path(folder / "uninstall.exe"), "/S")[0] == 0
        gone = folder / "uninstall.exe"
        wait_until(lambda: not gone.exists(), lambda: f"{gone} is still there", 60)

    # --- the checks, in this order ---

    def an_older_windows_is_refused(self) -> None:
        self.windows.be("win7")
        assert self.install(OLD) == 2
        assert not self.program.exists()
        self.windows.be("win10")

    def it_installs(self) -> None:
        assert self.install(OLD) == 0
        assert self.installed(self.program) == files_of(OLD)
        menu = {file.name for file in (self.windows.menu / "Mailbox Appliance").iterdir()}
        assert menu == {"Mailbox Appliance.lnk", "Command line.lnk"}
        assert self.windows.registry(UNINSTALL, "DisplayVersion") == OLD
        assert self.windows.registry(UNINSTALL, "InstallLocation") == self.windows.path(self.program)
        assert self.calls() == []  # nothing is started without a request

    def an_upgrade_ends_what_runs_and_starts_it_again(self) -> None:
        self.start_tray()
        assert self.install(NEW) == 0
        assert self.installed(self.program) == files_of(NEW)
        assert self.windows.registry(UNINSTALL, "DisplayVersion") == NEW
        wait_until(lambda: len(self.calls()) == 3, lambda: str(self.calls()), 30)
        assert self.calls() == [f"{TRAY} tray --open", f"{CONSOLE} tray --quit", f"{TRAY} tray"]

    def what_does_not_end_is_not_cut_off(self) -> None:
        (self.notes / "stubborn").touch()
        assert self.install(OLD) == 2
        assert self.installed(self.program) == files_of(NEW)
        assert self.windows.registry(UNINSTALL, "DisplayVersion") == NEW
        (self.notes / "stubborn").unlink()
        self.windows.end()  # as when the session ends

    def it_is_removed_and_the_data_stays(self) -> None:
        for key in (RUN, APPROVED):
            self.windows.run("reg", "add", key, "/v", autostart.NAME, "/d", "anything")
        self.windows.run("reg", "add", RUN, "/v", "Other", "/d", "anything")
        self.uninstall(self.program)
        assert not self.program.exists()
        assert not (self.windows.menu / "Mailbox Appliance").exists()
        assert [self.windows.registry(key, autostart.NAME) for key in (RUN, APPROVED)] == [None, None]
        assert self.windows.registry(RUN, "Other") == "anything"
        assert self.windows.registry(UNINSTALL, "DisplayVersion") is None
        assert (self.notes / "calls").exists()

    def a_folder_with_other_things_keeps_them(self) -> None:
        other = self.windows.drive / "tools"
        (other / "_internal").mkdir(parents=True)
        kept = {"mine.txt", "_internal/mine.dll"}
        for name in kept:
            (other / name).write_text("mine")
        assert self.install(NEW, r"/D=C:\tools") == 0
        assert self.installed(other / "Mailbox Appliance") == files_of(NEW)
        self.uninstall(other / "Mailbox Appliance")
        assert self.installed(other) == kept
        assert not (other / "Mailbox Appliance").exists()


def files_of(version: str) -> set[str]:
    """Return the files that a release installs."""
    return {CONSOLE, TRAY, f"_internal/of {version}", "LICENSE.txt", "THIRD-PARTY.txt", "uninstall.exe"}


def compiled(script: Path, **named: object) -> None:
    """Compile a program with NSIS."""
    definitions = [f"-D{name}={value}" if value != "" else f"-D{name}" for name, value in named.items()]
    subprocess.run(["makensis", "-V1", "-WX", *definitions, script], check=True)


def main() -> None:
    """Run all checks in order."""
    parser = argparse.ArgumentParser(prog="scripts/prove-windows-installer")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "wine", metavar="DIR", help="default: build/wine"
    )
    windows = Windows(parser.parse_args().folder.resolve())
    windows.make()
    try:
        proof = Proof(windows)
        steps: list[Callable[[], None]] = [
            proof.an_older_windows_is_refused,
            proof.it_installs,
            proof.an_upgrade_ends_what_runs_and_starts_it_again,
            proof.what_does_not_end_is_not_cut_off,
            proof.it_is_removed_and_the_data_stays,
            proof.a_folder_with_other_things_keeps_them,
        ]
        for step in steps:
            step()
            print(f"holds: {step.__name__.replace('_', ' ')}", flush=True)
    finally:
        windows.end()


if __name__ == "__main__":
    main()
