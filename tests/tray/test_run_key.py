"""Start at login on Windows, with a fake registry: the value, and the switch of Task Manager."""

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mailbox_appliance.tray.autostart import APPROVED, LONGEST, NAME, RUN, LoginItem, RunKey, split_command_line

# fmt: off
#: A command line of Windows, and its arguments ("Parsing C command-line arguments").
LINES: list[tuple[str, tuple[str, ...]]] = [
    ("",                                    ()),
    ("run.exe tray",                        ("run.exe", "tray")),
    (r'"C:\Program Files\M\run.exe"  tray', (r"C:\Program Files\M\run.exe", "tray")),
    (r'run --data-dir "D:\a b\\" tray',     ("run", "--data-dir", "D:\\a b\\", "tray")),
    (r"run D:\mail\ tray",                  ("run", "D:\\mail\\", "tray")),
    (r'run a\"b "c d"e ""',                 ("run", 'a"b', "c de", "")),
    (r'run a\\\"b',                         ("run", r'a\"b')),
]
#: The value below StartupApproved, and whether the tray starts then.
SWITCHES: list[tuple[bytes | None, bool]] = [
    (None,                                  True),
    (b"\x02" + bytes(11),                   True),
    (b"\x06" + bytes(11),                   True),
    (b"\x03" + bytes(11),                   False),
    (b"\x07" + bytes(11),                   False),
    (b"",                                   True),
]
# fmt: on


class Registry:
    """The part of `winreg` that is used, on dictionaries."""

    HKEY_CURRENT_USER, KEY_READ, KEY_SET_VALUE, REG_SZ = 1, 0x20019, 0x0002, 1

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, Any]] = {}
        self.is_locked = False

    @contextlib.contextmanager
    def OpenKey(self, key: int, sub_key: str, reserved: int, access: int) -> Iterator[dict[str, Any]]:  # noqa: N802
        """Open an existing key."""
        assert (key, reserved) == (self.HKEY_CURRENT_USER, 0)
        if self.is_locked and access == self.KEY_SET_VALUE:
            raise PermissionError(13, "Access is denied")
        if sub_key not in self.keys:
            raise FileNotFoundError(2, "The system cannot find the file specified")
        yield self.keys[sub_key]

    @contextlib.contextmanager
    def CreateKey(self, key: int, sub_key: str) -> Iterator[dict[str, Any]]:  # noqa: N802
        """Open a key, and create it if it is missing."""
        assert key == self.HKEY_CURRENT_USER
        if self.is_locked:
            raise PermissionError(13, "Access is denied")
        yield self.keys.setdefault(sub_key, {})

    def QueryValueEx(self, key: dict[str, Any], name: str) -> tuple[Any, int]:  # noqa: N802
        """Return a value and its type."""
        if name not in key:
            raise FileNotFoundError(2, "The system cannot find the file specified")
        return key[name], self.REG_SZ

    def SetValueEx(self, key: dict[str, Any], name: str, reserved: int, type: int, value: Any) -> None:  # noqa: N802, A002
        """Set a value."""
        assert (reserved, type) == (0, self.REG_SZ)
        key[name] = value

    def DeleteValue(self, key: dict[str, Any], name: str) -> None:  # noqa: N802
        """Delete a value."""
        if key.pop(name, None) is None:
            raise FileNotFoundError(2, "The system cannot find the file specified")


@pytest.mark.parametrize(("line", "arguments"), LINES)
def test_a_command_line_is_read_as_windows_does(line: str, arguments: tuple[str, ...]) -> None:
    assert split_command_line(line) == arguments


@given(some.lists(some.text('ab\\" \t%$&^', max_size=6), max_size=5))
def test_what_python_writes_is_read_back(command: list[str]) -> None:
    assert split_command_line(subprocess.list2cmdline(command)) == tuple(command)


COMMAND = [r"C:\Users\Ada L\AppData\mailbox-appliance-tray.exe", "--data-dir", "D:\\", "tray"]


def test_the_value_comes_and_goes() -> None:
    registry = Registry()
    key = RunKey(registry)
    assert key.find() is None
    key.write(COMMAND)
    assert registry.keys[RUN] == {NAME: r'"C:\Users\Ada L\AppData\mailbox-appliance-tray.exe" --data-dir D:\ tray'}
    assert key.find() == LoginItem(tuple(COMMAND), is_on=True)
    assert key.location == rf"HKEY_CURRENT_USER\{RUN}\{NAME}"
    for _ in range(2):  # deleting it again has no effect
        key.remove()
        assert key.find() is None


@pytest.mark.parametrize(("noted", "is_on"), SWITCHES)
def test_what_task_manager_switched_off_is_off_and_is_switched_on_again(noted: bytes | None, is_on: bool) -> None:
    registry = Registry()
    key = RunKey(registry)
    key.write(COMMAND)
    registry.keys[APPROVED] = {"Somebody else's": b"\x03"} | ({} if noted is None else {NAME: noted})
    assert key.find() == LoginItem(tuple(COMMAND), is_on=is_on)
    key.write(COMMAND)
    assert key.find() == LoginItem(tuple(COMMAND), is_on=True)
    assert registry.keys[APPROVED] == {"Somebody else's": b"\x03"}


def test_what_windows_would_not_start_is_not_written() -> None:
    registry = Registry()
    with pytest.raises(OSError, match="not start command lines longer than 260 characters"):
        RunKey(registry).write(["C:\\" + LONGEST * "a"])
    assert registry.keys == {}


def test_a_registry_that_may_not_be_changed_says_so() -> None:
    registry = Registry()
    key = RunKey(registry)
    key.write(COMMAND)
    registry.is_locked = True
    with pytest.raises(PermissionError):
        key.write(COMMAND)
    with pytest.raises(PermissionError):
        key.remove()
    registry.keys[RUN][NAME] = 7  # not a text
    assert key.find() is None
