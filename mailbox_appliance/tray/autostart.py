"""Start at login: the tray is started for this user, and it starts the appliance. No administrator is needed for it.

There is one for each user, as one tray is enough to look at: it is for the data directory that was named when it was
switched on, or for the usual one.
"""

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.client.local import default_data_dir
from mailbox_appliance.system import processes
from mailbox_appliance.tray.login_items import LoginItem, LoginItems

_DATA_DIR = "--data-dir"


@dataclass(frozen=True)
class Autostart:
    """Whether the tray starts when this user logs in. What cannot be changed is a Failure that says why."""

    _items: LoginItems
    #: What starts this program from where it lies now.
    _program: tuple[str, ...]
    #: The data directory that is named, if one is.
    _data_dir: str | None

    @property
    def location(self) -> str:
        """Where the system keeps it: a file, or a value of the registry."""
        return self._items.location

    @property
    def is_enabled(self) -> bool:
        """Whether it starts; what was switched off in a settings app does not."""
        found = self._items.find()
        return found is not None and found.is_on

    @property
    def is_ours(self) -> bool:
        """Whether it starts for the data directory of this one, and not for another."""
        return self.is_enabled and _meant(_data_dir_of(tuple(self.command))) == _meant(self._data_dir)

    @property
    def command(self) -> list[str]:
        """What is started at login; while nothing is, what would be."""
        found = self._items.find()
        return list(found.command if found is not None and found.is_on else self._command_for(self._data_dir))

    @property
    def missing_program(self) -> str | None:
        """The program that is to be started, where it is gone."""
        found = self._items.find()
        return None if found is None or not found.is_on or _is_there(found) else "".join(found.command[:1])

    def enable(self) -> None:
        """Start it from the next log-in on."""
        self._write(self._command_for(self._data_dir))

    def disable(self) -> None:
        """Do not start it any more. What runs goes on."""
        try:
            self._items.remove()
        except OSError as error:
            raise _refused("off", self.location, error) from error

    def refresh(self) -> bool:
        """Name this program where the one that stands there is gone, as after a move; whether that was so.

        What was switched off stays so, and so does the data directory.
        """
        found = self._items.find()
        if found is None or self.missing_program is None:
            return False
        self._write(self._command_for(_data_dir_of(found.command)))
        return True

    def _command_for(self, data_dir: str | None) -> list[str]:
        return [*self._program, *((_DATA_DIR, data_dir) if data_dir else ()), "tray"]

    def _write(self, command: list[str]) -> None:
        try:
            self._items.write(command)
        except OSError as error:
            raise _refused("on", self.location, error) from error


def for_this_system(
    environment: Mapping[str, str], data_dir: Path | None = None, platform: str = sys.platform
) -> Autostart | None:
    """Start at login as this system has it, for a data directory if one is named; None for a user without a home."""
    items = _items(environment, platform)
    if items is None:
        return None
    own = processes.own_command()
    own[0] = _without_window(own[0], platform)
    return Autostart(items, tuple(own), str(data_dir.absolute()) if data_dir else None)


def _items(environment: Mapping[str, str], platform: str) -> LoginItems | None:
    if platform == "win32":
        from mailbox_appliance.tray.run_key import RunKey, registry

        return RunKey(registry())
    home = _home(environment)
    if platform == "darwin":
        from mailbox_appliance.tray.launch_agent import LaunchAgent

        return LaunchAgent(home) if home else None
    from mailbox_appliance.tray.desktop_entry import DesktopEntry, config_folder

    folder = config_folder(environment, home)
    return DesktopEntry(folder) if folder else None


def _home(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get("HOME"):
        return Path(named)
    try:
        return Path("~").expanduser()  # of the user database, where the environment names none
    except RuntimeError:
        return None


#: Programs of Windows that open a console window -> what does not, beside them.
_SILENT = {"python.exe": "pythonw.exe", "mailbox-appliance.exe": "mailbox-appliance-tray.exe"}


def _without_window(own: str, platform: str) -> str:
    name = _SILENT.get(Path(own).name.lower()) if platform == "win32" else None
    return str(Path(own).with_name(name)) if name and Path(own).with_name(name).is_file() else own


def _data_dir_of(command: tuple[str, ...]) -> str | None:
    """The data directory that a command names."""
    return next((value for option, value in itertools.pairwise(command) if option == _DATA_DIR), None)


def _meant(data_dir: str | None) -> Path | None:
    if data_dir is not None:
        return Path(data_dir).absolute()
    try:
        return default_data_dir()
    except Failure:  # this user has no home
        return None


def _is_there(item: LoginItem) -> bool:
    try:
        return Path(item.command[0]).is_file()
    except (OSError, IndexError):
        return False  # What this user may not even see is not started either.


def _refused(wanted: str, place: str, error: OSError) -> Failure:
    why = (error.strerror or type(error).__name__).removesuffix(".")
    told = f"Start at login cannot be switched {wanted}: {place}: {why}."
    return Failure("autostart_refused", told, INTERNAL)
