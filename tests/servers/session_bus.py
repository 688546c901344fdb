"""A D-Bus session of a test's own: no process on it finds anything of the user's desktop."""

import os
import subprocess
from pathlib import Path


class SessionBus:
    """A bus; `environment` leads a process to it, with a home and XDG folders of the test and without a display."""

    def __init__(self, folder: Path) -> None:
        for name in ("run", "data", "home", "config", "cache"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return self.environment["DBUS_SESSION_BUS_ADDRESS"]

    def start(self, display: str | None = None) -> "SessionBus":
        """Start it; programs that it starts of itself have `display`, if that is named."""
        if display:
            self.environment["DISPLAY"] = display
        self._process = subprocess.Popen(
            ("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1"),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            self.environment["DBUS_SESSION_BUS_ADDRESS"] = said.readline().strip()
        return self

    def stop(self) -> None:
        """End it, and every connection to it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None
