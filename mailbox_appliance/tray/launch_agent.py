"""Start at login on macOS: a property list in `~/Library/LaunchAgents` (launchd.plist(5))."""

import plistlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mailbox_appliance.system import files
from mailbox_appliance.tray.desktop_entry import replace
from mailbox_appliance.tray.login_items import LoginItem

LABEL = "org.mailboxappliance.tray"
_LARGEST = 64 * 1024


class LaunchAgent:
    """The agent of this user. It counts from the next log-in on.

    `launchctl` is not asked to load or unload it: the one would start a second tray at once, and the other would end
    the tray in which somebody has just switched it off.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self._file)

    def find(self) -> LoginItem | None:
        """What stands in the file."""
        try:
            values: Any = plistlib.loads(files.read_regular(self._file, _LARGEST))
            command = tuple(str(argument) for argument in values["ProgramArguments"])
            return LoginItem(command, is_on=values.get("RunAtLoad") is True and values.get("Disabled") is not True)
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001 - whatever a damaged file makes plistlib raise, launchd starts nothing from it
            return None

    def write(self, command: Sequence[str]) -> None:
        """Replace the file whole. No `KeepAlive`: who quits the tray means it."""
        values = {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "RunAtLoad": True,
            "ProcessType": "Interactive",
            # Only where there is a desktop, not for somebody who logs in over SSH.
            "LimitLoadToSessionType": "Aqua",
        }
        self._file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace(self._file.resolve(), plistlib.dumps(values))

    def remove(self) -> None:
        """Delete the file."""
        self._file.unlink(missing_ok=True)
