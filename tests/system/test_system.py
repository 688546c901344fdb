"""Differences between operating systems: this one, and Windows with a simulated `msvcrt`.

The simulation knows the byte ranges that each open file has locked, as LockFile of Windows does.
"""

import ctypes
import errno
import functools
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.errors import StoreInUse
from mailbox_appliance.store import files, open_file
from mailbox_appliance.system import files as system_files

SOURCE = Path(str(system_files.__file__))
PACKAGE = SOURCE.parent


class Ranges(ModuleType):
    """A `msvcrt` that keeps locks here: (device, inode) -> (handle, first, end)."""

    LK_UNLCK, LK_NBLCK = 0, 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], set[tuple[int, int, int]]] = {}

    def locking(self, handle: int, how: int, length: int) -> None:
        """Lock or unlock so many bytes from the handle's position."""
        begin = os.lseek(handle, 0, os.SEEK_CUR)
        found = os.fstat(handle)
        ranges = self.held.setdefault((found.st_dev, found.st_ino), set())
        if how == self.LK_UNLCK:
            if (handle, begin, begin + length) not in ranges:
                raise PermissionError(errno.EACCES, "Permission denied")
            ranges.remove((handle, begin, begin + length))
        elif any(begin < end and first < begin + length for _, first, end in ranges):
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            ranges.add((handle, begin, begin + length))


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    made = Ranges()
    monkeypatch.setitem(sys.modules, "msvcrt", made)
    monkeypatch.setattr(os, "O_BINARY", 0, raising=False)
    return made


@pytest.fixture
def windows(ranges: Ranges, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is on Windows, used in the modules that lock and replace files."""
    spec = importlib.util.spec_from_file_location("system_of_windows", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as there:
        there.setattr(sys, "platform", "win32")
        spec.loader.exec_module(made)
    for room in (open_file, local):
        monkeypatch.setattr(room, "files", made)
    for name in ("replace_file", "sync_folder"):
        monkeypatch.setattr(files, name, getattr(made, name))
    monkeypatch.setattr(open_file, "unlock_file", made.unlock_file)
    return made


@pytest.fixture(params=["here", "windows"])
def room(request: pytest.FixtureRequest) -> ModuleType:
    return system_files if request.param == "here" else request.getfixturevalue("windows")


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[list[int]]:
    """One file, opened three times, as by three processes."""
    (tmp_path / "lock").write_bytes(b"4711\n")
    opened = [os.open(tmp_path / "lock", os.O_RDWR) for _ in range(3)]
    yield opened
    for each in opened:
        os.close(each)


def test_who_holds_a_lock_holds_it_alone(room: ModuleType, handles: list[int]) -> None:
    first, second, third = handles
    assert room.lock_file(first)
    assert not room.lock_file(second)
    assert not room.lock_file(third, shared=True)
    assert room.is_locked(second)
    room.unlock_file(first)
    assert not room.is_locked(second)
    assert room.lock_file(second)


def test_many_may_ask_for_its_shared_form(room: ModuleType, handles: list[int]) -> None:
    first, second, third = handles
    for _ in range(20):
        assert room.lock_file(first, shared=True)
        assert room.lock_file(second, shared=True)
        assert not room.is_locked(third)
        assert not room.lock_file(third)
        room.unlock_file(first)
        room.unlock_file(second)
    assert room.lock_file(third)


def test_a_lock_hinders_nobody_from_reading_and_moves_nothing(
    windows: ModuleType, ranges: Ranges, handles: list[int]
) -> None:
    first, second, _ = handles
    os.lseek(first, 3, os.SEEK_SET)
    assert windows.lock_file(first)
    assert os.lseek(first, 0, os.SEEK_CUR) == 3
    assert windows.read_at(second, 20, 0) == b"4711\n"
    (held,) = (one for each in ranges.held.values() for one in each)
    assert held[1] > 1 << 30


def test_reading_and_writing_at_a_place(room: ModuleType, handles: list[int]) -> None:
    first, second, _ = handles
    assert room.write_at(first, b"815", 1) == 3
    assert room.read_at(second, 3, 2) == b"15\n"
    assert room.read_at(second, 3, 9) == b""


def test_bytes_are_locked_as_sqlite_does(windows: ModuleType, handles: list[int]) -> None:
    first, second, _ = handles
    assert windows.lock_bytes(first, 0x40000000, 512)
    assert not windows.lock_bytes(second, 0x40000000 + 2, 1)
    assert windows.lock_file(second), "another place"


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import os, sys; from mailbox_appliance.system import files;"
        " print(files.lock_file(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)), flush=True); sys.stdin.read()"
    )
    handle = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    command = (sys.executable, "-c", code, str(tmp_path / "lock"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert system_files.is_locked(handle)
        holder.kill()
    assert system_files.lock_file(handle)
    os.close(handle)


def test_one_at_a_time_changes_a_folder(room: ModuleType, tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def change(number: int) -> None:
        with room.locked_folder(tmp_path):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.01)
            inside.remove(number)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert most == [1] * 4


def test_a_data_directory_has_one_owner(room: ModuleType, tmp_path: Path) -> None:
    """Tests the store's lock, and checks by others whether it is held."""
    owner = open_file.DirectoryLock(tmp_path)
    with pytest.raises(StoreInUse, match=f"pid {os.getpid()}"):
        open_file.DirectoryLock(tmp_path)
    assert (room.find_lock_holder(tmp_path / "lock"), local.is_owned(tmp_path)) == (os.getpid(), True)
    files.write_private(tmp_path / "run.json", b'{"pid": %d, "url": "http://x", "secret": "s"}' % os.getpid())
    assert local.find_running(tmp_path) == local.RunningAppliance(os.getpid(), "http://x", "s")
    owner.release()
    assert (room.find_lock_holder(tmp_path / "lock"), local.is_owned(tmp_path), local.find_running(tmp_path)) == (
        None,
        False,
        None,
    )
    # The next owner may have the same number, as pid 1 of a container: where the one before answered is forgotten.
    following = open_file.DirectoryLock(tmp_path)
    assert (room.find_lock_holder(tmp_path / "lock"), local.find_running(tmp_path)) == (os.getpid(), None)
    following.release()


def test_a_file_that_somebody_reads_is_replaced_a_moment_later(
    windows: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, replace = [1, 2, 3], Path.replace

    def refuse(source: Path, target: Path) -> Path:
        if refused:
            raise PermissionError(errno.EACCES, f"in use {refused.pop()}")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", refuse)
    files.write_private(tmp_path / "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    refused += range(100)
    monkeypatch.setattr(windows, "_PAUSE", 0)
    with pytest.raises(PermissionError):
        windows.replace_file(tmp_path / "a", tmp_path / "b")


def test_room_and_the_disk(room: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    room.sync_file(file)
    room.sync_folder(tmp_path)
    assert room.free_bytes(tmp_path) > 0
    assert room.usable_processors() >= 1


class Kernel:
    """A `kernel32` with named events and handles."""

    events: dict[str, threading.Event]

    def __init__(self, events: dict[str, threading.Event]) -> None:
        names: dict[str, Callable[..., object]] = {
            "CreateEventW": self._create,
            "OpenEventW": self._open,
            "SetEvent": self._set,
        }
        names |= {"WaitForSingleObject": self._wait, "CloseHandle": lambda handle: True}
        self.events = events
        for name, function in names.items():
            setattr(self, name, functools.partial(function))  # which takes attributes, as functions of ctypes do

    def _create(self, _security: None, _is_manual: bool, _is_set: bool, name: str) -> int:
        self.events[name] = threading.Event()
        return self._open(2, False, name)

    def _open(self, _access: int, _inherits: bool, name: str) -> int:
        return [*self.events, name].index(name) + 1 if name in self.events else 0

    def _set(self, handle: int) -> bool:
        list(self.events.values())[handle - 1].set()
        return True

    def _wait(self, handle: int, _milliseconds: int) -> int:
        list(self.events.values())[handle - 1].wait(20)
        return 0


def test_windows_tells_a_process_without_a_console_to_end(windows: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    events: dict[str, threading.Event] = {}
    monkeypatch.setattr(ctypes, "WinDLL", lambda name: Kernel(events), raising=False)
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append((pid, number)))
    told = threading.Event()
    windows.on_end_request(told.set)
    windows.request_end(os.getpid() + 1)
    assert (ended, told.is_set()) == ([(os.getpid() + 1, signal.SIGTERM)], False)
    windows.request_end(os.getpid())
    assert told.wait(20)
    assert len(ended) == 1


_AS_ON_WINDOWS = """
import importlib, os, pkgutil, signal, sys, types
import mailbox_appliance
names = [each.name for each in pkgutil.walk_packages(mailbox_appliance.__path__, "mailbox_appliance.")]
names = [name for name in names if not name.endswith("__main__")]
for name in names:  # what others bring is there, and the library of Python is that of this system
    importlib.import_module(name)
for name in [name for name in sys.modules if name.startswith("mailbox_appliance")]:
    del sys.modules[name]
hidden = ("fcntl", "pwd", "grp", "termios", "resource", "tty", "pty", "syslog")
for name in hidden:
    sys.modules[name] = None
sys.modules["msvcrt"], sys.modules["winreg"] = types.ModuleType("msvcrt"), types.ModuleType("winreg")
of_os = "O_DIRECTORY O_NONBLOCK O_NOCTTY O_CLOEXEC O_NOFOLLOW fchmod fchown statvfs pread pwrite sched_getaffinity"
of_os += " getuid geteuid getgid getsid getpgid setsid killpg fork uname copy_file_range sendfile pidfd_open chown"
of_signal = "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE pthread_sigmask"
for module, gone in ((os, of_os), (signal, of_signal)):
    for name in gone.split():
        if hasattr(module, name):
            delattr(module, name)
os.O_BINARY, sys.platform = 0, "win32"
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_every_module_is_imported_where_there_is_nothing_of_posix() -> None:
    done = subprocess.run((sys.executable, "-c", _AS_ON_WINDOWS), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 250


def test_windows_says_break_where_others_say_sigterm() -> None:
    code = (
        "import signal; from mailbox_appliance.service import signals; signals._BREAK = signal.SIGUSR2"
        "\ntold = signals.SignalHandler()\ntry: signal.raise_signal(signal.SIGUSR2)"
        "\nexcept signals.StoppedBeforeStart: print(told.is_stopping)"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
