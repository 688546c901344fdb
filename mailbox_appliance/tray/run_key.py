"""Start at login on Windows: a value below the `Run` key of the user, which needs no administrator."""

import contextlib
import errno
import importlib
import re
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from mailbox_appliance.tray.login_items import LoginItem

NAME = "MailboxAppliance"
RUN = r"Software\Microsoft\Windows\CurrentVersion\Run"
#: Where Task Manager and Settings note what was switched off: the first byte of the value of the same name is odd.
APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
#: "Run and RunOnce Registry Keys": a command line is no longer than this.
LONGEST = 260


class Registry(Protocol):
    """What is used of the module `winreg`."""

    HKEY_CURRENT_USER: int
    KEY_READ: int
    KEY_SET_VALUE: int
    REG_SZ: int

    def OpenKey(self, key: Any, sub_key: str, reserved: int, access: int) -> AbstractContextManager[Any]: ...  # noqa: N802
    def CreateKey(self, key: Any, sub_key: str) -> AbstractContextManager[Any]: ...  # noqa: N802
    def QueryValueEx(self, key: Any, name: str) -> tuple[Any, int]: ...  # noqa: N802
    def SetValueEx(self, key: Any, name: str, reserved: int, type: int, value: Any) -> None: ...  # noqa: N802, A002
    def DeleteValue(self, key: Any, name: str) -> None: ...  # noqa: N802


def registry() -> Registry:
    """The registry of this computer."""
    found: Registry = importlib.import_module("winreg")
    return found


class RunKey:
    """The value of this user."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @property
    def location(self) -> str:
        """Key and value, as the registry editor writes them."""
        return rf"HKEY_CURRENT_USER\{RUN}\{NAME}"

    def find(self) -> LoginItem | None:
        """What stands there, unless it is no text."""
        line = self._value(RUN)
        if not isinstance(line, str):
            return None
        approved = self._value(APPROVED)
        is_off = isinstance(approved, bytes) and bool(approved[:1]) and approved[0] % 2 == 1
        return LoginItem(split(line), is_on=not is_off)

    def write(self, command: Sequence[str]) -> None:
        """Set the value, and forget that it was switched off."""
        line = subprocess.list2cmdline(command)
        if len(line) > LONGEST:
            raise OSError(errno.ENAMETOOLONG, f"Windows starts no command line longer than {LONGEST} characters")
        reg = self._registry
        with reg.CreateKey(reg.HKEY_CURRENT_USER, RUN) as key:
            reg.SetValueEx(key, NAME, 0, reg.REG_SZ, line)
        self._delete(APPROVED)

    def remove(self) -> None:
        """Delete the value, and what was noted of it."""
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


def split(line: str) -> tuple[str, ...]:
    """A command line of Windows as its arguments: the inverse of `subprocess.list2cmdline`."""
    found: list[str] = []
    is_quoted = is_begun = False
    for token in re.finditer(r'(\\*)"|[ \t]+|[^" \t\\]+|\\+', line):
        text, slashes = token[0], token[1]
        if slashes is None and text.isspace() and not is_quoted:
            is_begun = False
            continue
        if slashes is not None:
            # Two backslashes before a quotation mark are one, and one more makes the mark a plain one.
            is_plain = len(slashes) % 2 == 1
            text, is_quoted = "\\" * (len(slashes) // 2) + '"' * is_plain, is_quoted ^ (not is_plain)
        if not is_begun:
            found.append("")
        found[-1] += text
        is_begun = True
    return tuple(found)
