"""Start at login on a Linux desktop: `autostart/mailbox-appliance.desktop` (XDG Desktop Application Autostart)."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mailbox_appliance.system import files, ownership
from mailbox_appliance.tray.login_items import LoginItem

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
#: Desktop Entry Specification, "Possible value types": what a string value writes with a backslash.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MEANT = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r", "s": " "}
_UNDER_QUOTES = '"`$\\'
#: Starts a program that the desktop would not find under its name.
_BY_ANOTHER = "/usr/bin/env"


def config_folder(environment: Mapping[str, str], home: Path | None) -> Path | None:
    """The user's configuration folder; a relative one counts as none (XDG Base Directory Specification)."""
    named = Path(environment.get("XDG_CONFIG_HOME", ""))
    if named.is_absolute():
        return named
    return home / ".config" if home else None


def exec_line(command: Sequence[str]) -> str:
    """A command as the value of `Exec`; it is not quoted as for a shell, and `%` begins a code of the desktop's.

    Seen in practice: GLib looks for the program before it reads the codes, so one with `%` in its path is not found.
    """
    if "%" in command[0]:
        command = (_BY_ANOTHER, *command)
    return _escaped(" ".join(_quoted(argument) for argument in command))


def _quoted(argument: str) -> str:
    # Desktop Entry Specification, "The Exec key".
    marked = "".join(f"\\{one}" if one in _UNDER_QUOTES else one for one in argument)
    return '"' + marked.replace("%", "%%") + '"'


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(one, one) for one in text)


def command_of(line: str) -> tuple[str, ...]:
    """The command that a value of `Exec` stands for; none where its quotes do not close."""
    text = re.sub(r"\\(.)", lambda found: _MEANT.get(found[1], found[0]), line)
    found = tuple(_arguments(text))
    return found[1:] if found[:1] == (_BY_ANOTHER,) else found


def _arguments(text: str) -> Iterator[str]:
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)', text, re.DOTALL):
        unmarked = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted else plain
        yield unmarked.replace("%%", "%")


class DesktopEntry:
    """The entry of this user."""

    def __init__(self, config_folder: Path) -> None:
        self._file = config_folder / "autostart" / _NAME

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self._file)

    def find(self) -> LoginItem | None:
        """What stands in the file; a settings app switches it off by one of two keys, and leaves the file."""
        try:
            text = files.read_regular(self._file, _LARGEST).decode("utf-8", "surrogateescape")
        except OSError:
            return None
        keys = _keys(text)
        off = keys.get("Hidden") == "true" or keys.get("X-GNOME-Autostart-enabled") == "false"
        command = command_of(keys.get("Exec", ""))
        return LoginItem(command, is_on=bool(command) and not off)

    def write(self, command: Sequence[str]) -> None:
        """Replace the file whole; behind a link, the file that is meant."""
        ownership.make_folder(self._file.parent)
        # Where the program is gone, as with its package, the desktop starts nothing and complains of nothing.
        entry = _ENTRY.format(_escaped(command[0]), exec_line(command))
        replace(self._file.resolve(), entry.encode("utf-8", "surrogateescape"))

    def remove(self) -> None:
        """Delete the file."""
        self._file.unlink(missing_ok=True)


def _keys(text: str) -> dict[str, str]:
    """Keys and values of the group that counts."""
    _, _, rest = f"\n{text}".partition(f"\n{_GROUP}\n")
    rows = rest.partition("\n[")[0].splitlines()
    pairs = (row.partition("=") for row in rows if "=" in row and not row.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def replace(file: Path, content: bytes) -> None:
    """Write a file that others may read, so that whoever reads meanwhile sees the old one or the new one."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
