"""Makes the tray start at login on Linux, macOS and Windows, without administrator rights.

Each user has one login item, as one tray is enough. It starts the tray for the data directory named when it was
enabled, or for the default one.
"""

import contextlib
import errno
import importlib
import itertools
import plistlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.client.local import default_data_dir
from mailbox_appliance.system import files, ownership, processes

# --- The login item, on any system ---


@dataclass(frozen=True)
class LoginItem:
    """The tray's login item: its command, and whether it is enabled.

    A settings app can disable an item without removing it.
    """

    command: tuple[str, ...]
    is_on: bool


class LoginItems(Protocol):
    """The place where an operating system keeps this user's login item for the tray. One implementation for each
    system.

    Methods raise OSError if the system refuses.
    """

    @property
    def location(self) -> str:
        """The path or registry value of the login item, to show to the user."""

    def find(self) -> LoginItem | None:
        """Return the tray's login item; None if it does not exist or cannot be read."""

    def write(self, command: Sequence[str]) -> None:
        """Write the login item with this command and enable it, even if a settings app has disabled it."""

    def remove(self) -> None:
        """Remove the login item, if it exists."""


_DATA_DIR = "--data-dir"


@dataclass(frozen=True)
class Autostart:
    """The setting "start the tray at login" of this user.

    Methods raise Failure with the reason if a change is refused.
    """

    _items: LoginItems
    #: The command that starts this program from its current path.
    _program: tuple[str, ...]
    #: The data directory, if one was given.
    _data_dir: str | None

    @property
    def location(self) -> str:
        """The place of the login item, to show to the user: the path of a file, or a value of the Windows registry."""
        return self._items.location

    @property
    def is_enabled(self) -> bool:
        """Whether the tray starts at login. False if a settings app has disabled the login item."""
        found = self._items.find()
        return found is not None and found.is_on

    @property
    def is_ours(self) -> bool:
        """Whether the tray starts at login for the data directory of this object, not for another one."""
        return self.is_enabled and find_data_dir(_data_dir_of(self.command)) == find_data_dir(self._data_dir)

    @property
    def command(self) -> list[str]:
        """The command that is run at login or, if none is enabled, the one that `enable` would set."""
        found = self._items.find()
        return list(found.command if found is not None and found.is_on else self._command_for(self._data_dir))

    @property
    def missing_program(self) -> str | None:
        """The path of the program in the login item, if there is no such file any more; else None."""
        found = self._items.find()
        return None if found is None or not found.is_on or _program_exists(found) else "".join(found.command[:1])

    def enable(self) -> None:
        """Start the tray at every login from now on. No tray is started now."""
        self._write(self._command_for(self._data_dir))

    def disable(self) -> None:
        """Stop starting the tray at login. A tray that is running continues."""
        try:
            self._items.remove()
        except OSError as error:
            raise _cannot_change_failure("off", self.location, error) from error

    def refresh(self) -> bool:
        """If the program in the login item is missing, as after a move, set its current path; return whether that was
        done.

        A disabled item stays disabled, and its data directory stays the same.
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
            raise _cannot_change_failure("on", self.location, error) from error


def for_this_system(
    environment: Mapping[str, str], data_dir: Path | None = None, platform: str = sys.platform
) -> Autostart | None:
    """Return the login setting for this system; None for a user without a home directory.

    `data_dir`: the data directory for which the tray starts, by default the user's default one.
    """
    items = _login_items(environment, platform)
    if items is None:
        return None
    own = processes.own_command()
    own[0] = _without_console_window(own[0], platform)
    return Autostart(items, tuple(own), str(data_dir.absolute()) if data_dir else None)


def _login_items(environment: Mapping[str, str], platform: str) -> LoginItems | None:
    if platform == "win32":
        return RunKey(load_registry())
    home = _home(environment)
    if platform == "darwin":
        return LaunchAgent(home) if home else None

    folder = config_folder(environment, home)
    return DesktopEntry(folder) if folder else None


def _home(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get("HOME"):
        return Path(named)
    try:
        return Path("~").expanduser()  # from the user database, if the environment names none
    except RuntimeError:
        return None


#: Windows programs that open a console window -> the equivalents that do not.
_SILENT = {"python.exe": "pythonw.exe", "mailbox-appliance.exe": "mailbox-appliance-tray.exe"}


def _without_console_window(own: str, platform: str) -> str:
    name = _SILENT.get(Path(own).name.lower()) if platform == "win32" else None
    return str(Path(own).with_name(name)) if name and Path(own).with_name(name).is_file() else own


def _data_dir_of(command: Sequence[str]) -> str | None:
    """Return the value of `--data-dir` in a command; None if the command has no such option."""
    return next((value for option, value in itertools.pairwise(command) if option == _DATA_DIR), None)


def find_data_dir(data_dir: str | None) -> Path | None:
    """Return a named data directory, or the default one; None for a user without a home directory."""
    if data_dir is not None:
        return Path(data_dir).absolute()
    try:
        return default_data_dir()
    except Failure:
        return None


def _program_exists(item: LoginItem) -> bool:
    try:
        return Path(item.command[0]).is_file()
    except (OSError, IndexError):
        return False  # A program that this user may not see cannot start.


def _cannot_change_failure(wanted: str, place: str, error: OSError) -> Failure:
    why = (error.strerror or type(error).__name__).removesuffix(".")
    told = f"Could not turn start at login {wanted}: {place}: {why}."
    return Failure("autostart_refused", told, INTERNAL)


class _FileItem:
    """A login item in a file of its own."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self._file)

    def remove(self) -> None:
        """Delete the file, if it exists."""
        self._file.unlink(missing_ok=True)

    def _replace(self, content: bytes) -> None:
        """Replace the file in one step. Other users may read the new file. If it is a link, its target is replaced."""
        ownership.make_folder(self._file.parent)
        files.write_whole(self._file.resolve(), content, 0o644)


# --- Linux desktops: `autostart/mailbox-appliance.desktop` (XDG Desktop Application Autostart) ---


_NAME = "mailbox-appliance.desktop"
_LARGEST = 64 * 1024
_GROUP = "[Desktop Entry]"
_ENTRY = """\
[Desktop Entry]
Type=Application
Name=Mailbox Appliance
Comment=Your mailboxes in one encrypted file
Icon=mailbox-appliance
TryExec={}
Exec={}
Terminal=false
StartupNotify=false
X-GNOME-Autostart-enabled=true
"""
#: Desktop Entry Specification, "Possible value types": what a string value escapes with a backslash.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MEANT = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r", "s": " "}
_UNDER_QUOTES = '"`$\\'
#: Starts a program that the desktop would not find by its name.
_BY_ANOTHER = "/usr/bin/env"


def config_folder(environment: Mapping[str, str], home: Path | None) -> Path | None:
    """Return the user's configuration folder, such as `~/.config`. `home`: the user's home directory.

    A relative path in XDG_CONFIG_HOME is ignored (XDG Base Directory Specification). Returns None if neither is known.
    """
    named = Path(environment.get("XDG_CONFIG_HOME", ""))
    if named.is_absolute():
        return named
    return home / ".config" if home else None


def exec_line(command: Sequence[str]) -> str:
    """Return a command as the value of `Exec` in a desktop entry.

    Its quoting differs from a shell's, and `%` starts a code that the desktop replaces. Observed: GLib looks for the
    program before it reads the codes, so a program with `%` in its path is not found.
    """
    if "%" in command[0]:
        command = (_BY_ANOTHER, *command)
    return _escape(" ".join(_quote_argument(argument) for argument in command))


def _quote_argument(argument: str) -> str:
    # Desktop Entry Specification, "The Exec key".
    marked = "".join(f"\\{one}" if one in _UNDER_QUOTES else one for one in argument)
    return '"' + marked.replace("%", "%%") + '"'


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(one, one) for one in text)


def command_from_exec_line(line: str) -> tuple[str, ...]:
    """Return the command in an `Exec` value of a desktop entry; empty if a quotation mark is not closed."""
    text = re.sub(r"\\(.)", lambda found: _MEANT.get(found[1], found[0]), line)
    found = tuple(_split_exec_line(text))
    return found[1:] if found[:1] == (_BY_ANOTHER,) else found


def _split_exec_line(text: str) -> Iterator[str]:
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)', text, re.DOTALL):
        unmarked = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted else plain
        yield unmarked.replace("%%", "%")


class DesktopEntry(_FileItem):
    """The login item on Linux: a desktop entry in the user's autostart folder."""

    def __init__(self, config_folder: Path) -> None:
        super().__init__(config_folder / "autostart" / _NAME)

    def find(self) -> LoginItem | None:
        """Return the login item in the file; None if the file cannot be read.

        A settings app disables the item by one of two keys in the file, and does not delete the file.
        """
        try:
            text = files.read_regular(self._file, _LARGEST).decode("utf-8", "surrogateescape")
        except OSError:
            return None
        keys = _parse_keys(text)
        off = keys.get("Hidden") == "true" or keys.get("X-GNOME-Autostart-enabled") == "false"
        command = command_from_exec_line(keys.get("Exec", ""))
        return LoginItem(command, is_on=bool(command) and not off)

    def write(self, command: Sequence[str]) -> None:
        """Replace the whole file by an enabled item with this command."""
        # If the program is gone, as after its package was removed, the desktop starts nothing and reports nothing.
        entry = _ENTRY.format(_escape(command[0]), exec_line(command))
        self._replace(entry.encode("utf-8", "surrogateescape"))


def _parse_keys(text: str) -> dict[str, str]:
    """Return the keys and values in the group `[Desktop Entry]` of a desktop entry."""
    _, _, rest = f"\n{text}".partition(f"\n{_GROUP}\n")
    rows = rest.partition("\n[")[0].splitlines()
    pairs = (row.partition("=") for row in rows if "=" in row and not row.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


# --- macOS: a property list in `~/Library/LaunchAgents` (launchd.plist(5)) ---


LABEL = "org.mailboxappliance.tray"


class LaunchAgent(_FileItem):
    """The login item on macOS: a launch agent of this user. It takes effect at the next login.

    `launchctl` is not used to load or unload it: loading would start a second tray at once, and unloading would end the
    tray in which the user has just disabled it.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home / "Library" / "LaunchAgents" / f"{LABEL}.plist")

    def find(self) -> LoginItem | None:
        """Return the login item in the property list; None if the file cannot be read."""
        try:
            values: Any = plistlib.loads(files.read_regular(self._file, _LARGEST))
            command = tuple(str(argument) for argument in values["ProgramArguments"])
            return LoginItem(command, is_on=values.get("RunAtLoad") is True and values.get("Disabled") is not True)
        except Exception:  # noqa: BLE001 - whatever a damaged file makes plistlib raise, launchd starts nothing from it
            return None

    def write(self, command: Sequence[str]) -> None:
        """Replace the whole file by an item with this command.

        It has no `KeepAlive`, which would restart a tray that was quit.
        """
        values = {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "RunAtLoad": True,
            "ProcessType": "Interactive",
            # Only with a desktop, not for a login over SSH.
            "LimitLoadToSessionType": "Aqua",
        }
        self._replace(plistlib.dumps(values))


# --- Windows: a value below the `Run` key of the user, which needs no administrator ---


NAME = "MailboxAppliance"
RUN = r"Software\Microsoft\Windows\CurrentVersion\Run"
#: Where Task Manager and Settings store what was disabled: the first byte of the value with that name is odd.
APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
#: "Run and RunOnce Registry Keys": the maximum length of a command line.
LONGEST = 260


def load_registry() -> Any:
    """Return the module `winreg`, the registry of this computer."""
    return importlib.import_module("winreg")


class RunKey:
    """The login item on Windows: a value under the registry key `Run` of this user."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    @property
    def location(self) -> str:
        """The registry key and value, as the registry editor writes them."""
        return rf"HKEY_CURRENT_USER\{RUN}\{NAME}"

    def find(self) -> LoginItem | None:
        """Return the login item; None if the registry value is missing or not a string."""
        line = self._value(RUN)
        if not isinstance(line, str):
            return None
        approved = self._value(APPROVED)
        is_off = isinstance(approved, bytes) and bool(approved[:1]) and approved[0] % 2 == 1
        return LoginItem(split_command_line(line), is_on=not is_off)

    def write(self, command: Sequence[str]) -> None:
        """Set the registry value, and delete the one with which a settings app disables it."""
        line = subprocess.list2cmdline(command)
        if len(line) > LONGEST:
            raise OSError(errno.ENAMETOOLONG, f"Windows does not start command lines longer than {LONGEST} characters")
        reg = self._registry
        with reg.CreateKey(reg.HKEY_CURRENT_USER, RUN) as key:
            reg.SetValueEx(key, NAME, 0, reg.REG_SZ, line)
        self._delete(APPROVED)

    def remove(self) -> None:
        """Delete the registry value, and the one with which a settings app disables it."""
        self._delete(RUN)
        self._delete(APPROVED)

    def _value(self, key: str) -> object:
        reg = self._registry
        try:
            with reg.OpenKey(reg.HKEY_CURRENT_USER, key, 0, reg.KEY_READ) as opened:
                return reg.QueryValueEx(opened, NAME)[0]
        except OSError:
            return None

    def _delete(self, key: str) -> None:
        reg = self._registry
        with (
            contextlib.suppress(FileNotFoundError),
            reg.OpenKey(reg.HKEY_CURRENT_USER, key, 0, reg.KEY_SET_VALUE) as opened,
        ):
            reg.DeleteValue(opened, NAME)


def split_command_line(line: str) -> tuple[str, ...]:
    """Return the arguments of a Windows command line: the inverse of `subprocess.list2cmdline`."""
    found: list[str] = []
    is_quoted = is_begun = False
    for token in re.finditer(r'(\\*)"|[ \t]+|[^" \t\\]+|\\+', line):
        text, slashes = token[0], token[1]
        if slashes is None and text.isspace() and not is_quoted:
            is_begun = False
            continue
        if slashes is not None:
            # Two backslashes before a quotation mark stand for one; an odd one escapes the mark.
            is_plain = len(slashes) % 2 == 1
            text, is_quoted = "\\" * (len(slashes) // 2) + '"' * is_plain, is_quoted ^ (not is_plain)
        if not is_begun:
            found.append("")
        found[-1] += text
        is_begun = True
    return tuple(found)
