"""A separate Windows, simulated by Wine in a separate Debian, with the files of its one user."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_ENVIRONMENT = {
    "HOME": "/home",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "WINEPREFIX": "/home/prefix",
    "WINEARCH": "win64",
    "WINEDEBUG": "-all",
    # Prevents prompts for .NET and a browser.
    "WINEDLLOVERRIDES": "mscoree=;mshtml=",
}
_WINE = "/usr/lib/wine/wine64"


class Windows:
    """Runs Windows programs. Call `make` first. For processes with their own mount namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.given = folder / "given"
        drive = folder / "home" / "prefix" / "drive_c"
        self.drive = drive
        self.local = drive / "users" / "root" / "AppData" / "Local"
        self.menu = drive / "users" / "root" / "AppData" / "Roaming/Microsoft/Windows/Start Menu/Programs"

    def make(self) -> None:
        """Create a new Windows 10; the Debian below it is created only once."""
        if not (self.folder / _WINE.lstrip("/")).exists():
            command = ["debootstrap", "--variant=minbase", "--include=wine64", "bookworm", str(self.folder)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._mount()
        shutil.rmtree(self.folder / "home" / "prefix", ignore_errors=True)
        self.given.mkdir(exist_ok=True)
        self.run("wineboot", "--init")
        self.be("win10")

    def be(self, version: str) -> None:
        """Become another version of Windows, as named by `winecfg`."""
        self.run("winecfg", "/v", version)

    def run(self, *command: str, timeout: float = 180) -> tuple[int, str]:
        """Run one program; return its exit code and output."""
        # A file, not a pipe: a pipe would stay open as long as any process that the program started.
        with tempfile.TemporaryFile() as told:
            argv = self._argv(command)
            code = subprocess.run(argv, stdout=told, stderr=subprocess.DEVNULL, timeout=timeout).returncode
            told.seek(0)
            return code, told.read().decode("utf-8", "replace").replace("\r", "")

    def start(self, *command: str) -> None:
        """Start one program and leave it running."""
        subprocess.Popen(
            self._argv(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def registry(self, key: str, name: str) -> str | None:
        """Return a registry value as `reg` prints it."""
        code, told = self.run("reg", "query", key, "/v", name)
        return told.strip().splitlines()[-1].split(maxsplit=2)[2] if code == 0 else None

    def path(self, file: Path) -> str:
        """Return the Windows path of a file on the drive."""
        return "C:\\" + "\\".join(file.relative_to(self.drive).parts)

    def end(self) -> None:
        """End all remaining programs."""
        named = [f"{name}={value}" for name, value in _ENVIRONMENT.items()]
        command = ["chroot", str(self.folder), "env", "-i", *named, "/usr/lib/wine/wineserver64", "--kill"]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    def _mount(self) -> None:
        for name in ("proc", "dev"):
            if not os.path.ismount(self.folder / name):
                subprocess.run(["mount", "--bind", f"/{name}", self.folder / name], check=True)

    def _argv(self, command: Sequence[str]) -> list[str]:
        named = [f"{name}={value}" for name, value in _ENVIRONMENT.items()]
        return ["chroot", str(self.folder), "env", "-i", *named, _WINE, *command]
