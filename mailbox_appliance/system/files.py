"""What differs between Linux, macOS and Windows: file locks, syncing, renaming, free space, memory, ending a process.

A lock is one on an open file. All processes see it, and it ends when the file is closed or its process ends.

    Linux, macOS   flock, which has a shared form, and hinders nobody from reading or writing
    Windows        ranges of bytes, without a shared form, and nobody else can read or write these: they lie far
                   behind any content. Who holds the lock has all of them; who asks for its shared form takes one
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mailbox_appliance.system.ownership import require_own_handle

# glibc's M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX: pieces above 4 MiB are mapped alone, a pool keeps 1 MiB,
# and threads share four pools.
_MALLOC_OPTIONS = ((-3, 4 << 20), (-1, 1 << 20), (-8, 4))

if sys.platform == "win32":
    import msvcrt
    import threading
    import time

    #: Open flags that are not everywhere: bytes as they are; not waiting for a pipe's other end; no terminal of ours;
    #: no link at the end of the path.
    BINARY, NO_WAIT, NO_TERMINAL, NO_FOLLOW = os.O_BINARY, 0, 0, 0

    # For the shared form as many places are tried: one may be another's who asks for it too, but all are the holder's.
    _LOCK_AT, _LOCK_LENGTH, _SHARED_TRIES = 0x7000_0000, 509, 3
    _PAUSE, _MOVE_TRIES = 0.05, 40
    _moving = threading.Lock()  # a handle is moved to where it is to be read or locked
    _shared_at: dict[int, int] = {}

    def lock_file(handle: int, *, shared: bool = False) -> bool:
        """Take the lock on an open file without waiting; whether that could be. Raises OSError where there are none.

        It is held until `unlock_file`, or until the file is closed. `shared`: together with others who ask for it so.
        """
        if not shared:
            return lock_bytes(handle, _LOCK_AT, _LOCK_LENGTH)
        first = int.from_bytes(os.urandom(2), "big")
        for number in range(_SHARED_TRIES):
            place = _LOCK_AT + (first + 37 * number) % _LOCK_LENGTH
            if lock_bytes(handle, place, 1):
                _shared_at[handle] = place
                return True
        return False

    def unlock_file(handle: int) -> None:
        """Give a lock back that is held. To be done before closing: the system takes its time with what was left."""
        place = _shared_at.pop(handle, None)
        if place is None:
            _lock(handle, msvcrt.LK_UNLCK, _LOCK_AT, _LOCK_LENGTH)
        else:
            _lock(handle, msvcrt.LK_UNLCK, place, 1)

    def lock_bytes(handle: int, start: int, length: int) -> bool:
        """Lock bytes of a file as SQLite does, without waiting; whether that could be."""
        try:
            _lock(handle, msvcrt.LK_NBLCK, start, length)
        except PermissionError:
            return False
        return True

    def _lock(handle: int, how: int, start: int, length: int) -> None:
        with _moving:
            before = os.lseek(handle, 0, os.SEEK_CUR)
            os.lseek(handle, start, os.SEEK_SET)
            try:
                msvcrt.locking(handle, how, length)
            finally:
                os.lseek(handle, before, os.SEEK_SET)

    def _open_to_lock(folder: Path) -> int:
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)  # a folder is not opened as a file here

    def _wait_for_lock(handle: int) -> None:
        while not lock_file(handle):
            time.sleep(_PAUSE)

    def read_at(handle: int, length: int, offset: int, /) -> bytes:
        """What stands at a place of an open file, which others may read in the same way meanwhile."""
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.read(handle, length)

    def write_at(handle: int, content: bytes, offset: int, /) -> int:
        """Write at a place of an open file; answers how much of it was written."""
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.write(handle, content)

    def sync_folder(folder: Path) -> None:
        """Put a folder's entries on the disk: here NTFS keeps a journal of them, and Python cannot open a folder."""

    def sync_file(file: Path) -> None:
        """Put a file's content on the disk."""
        _sync(file, os.O_RDWR)  # what is open for reading alone cannot be synced here

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name; a file that has it is replaced. One that others read at this moment is waited for.

        Windows refuses that as long as somebody has either file open: a client that reads it, or a virus scanner.
        """
        for tries_left in reversed(range(_MOVE_TRIES)):
            try:
                source.replace(target)
                return
            except PermissionError:
                if not tries_left:
                    raise
                time.sleep(_PAUSE)

    def free_bytes(folder: Path) -> int:
        """How much room is left for us on the disk that holds a folder. Raises OSError."""
        import shutil

        return shutil.disk_usage(folder).free

    def on_end_request(act: Callable[[], None]) -> None:
        """Have this done in a thread when somebody of this user tells this process to end, by `request_end`."""
        kernel = _kernel()
        if event := kernel.CreateEventW(None, True, False, _EVENT.format(os.getpid())):

            def wait() -> None:
                kernel.WaitForSingleObject(event, _FOR_EVER)
                act()

            threading.Thread(target=wait, name="told-to-end", daemon=True).start()

    def request_end(pid: int) -> None:
        """Tell a process to end in order; one that does not listen for that is ended. Raises OSError."""
        import signal

        kernel = _kernel()
        event = kernel.OpenEventW(_MAY_SET, False, _EVENT.format(pid))
        if not (event and kernel.SetEvent(event)):
            os.kill(pid, signal.SIGTERM)  # which is by force here
        if event:
            kernel.CloseHandle(event)

    # There is no signal that reaches a process without a console, or with one of its own. An event with a name does.
    _EVENT, _MAY_SET, _FOR_EVER = "Local\\mailbox-appliance-end-{}", 0x0002, 0xFFFF_FFFF

    def _kernel() -> Any:
        import ctypes
        from ctypes import wintypes

        kernel = ctypes.WinDLL("kernel32")
        kernel.CreateEventW.restype = kernel.OpenEventW.restype = wintypes.HANDLE  # wider than an int
        kernel.CreateEventW.argtypes = (wintypes.LPVOID, wintypes.BOOL, wintypes.BOOL, wintypes.LPCWSTR)
        kernel.OpenEventW.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.LPCWSTR)
        kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        kernel.SetEvent.argtypes = kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        return kernel

else:
    import fcntl

    BINARY, NO_WAIT, NO_TERMINAL, NO_FOLLOW = 0, os.O_NONBLOCK, os.O_NOCTTY, os.O_NOFOLLOW
    read_at, write_at = os.pread, os.pwrite

    def lock_file(handle: int, *, shared: bool = False) -> bool:
        """Take the lock on an open file without waiting; whether that could be. Raises OSError where there are none.

        It is held until `unlock_file`, or until the file is closed. `shared`: together with others who ask for it so.
        """
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock_file(handle: int) -> None:
        """Give a lock back that is held."""
        fcntl.flock(handle, fcntl.LOCK_UN)

    def lock_bytes(handle: int, start: int, length: int) -> bool:
        """Lock bytes of a file as SQLite does, without waiting; whether that could be."""
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except BlockingIOError:
            return False
        return True

    def _open_to_lock(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def _wait_for_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def sync_folder(folder: Path) -> None:
        """Put a folder's entries on the disk: renames are lasting only after this."""
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(file: Path) -> None:
        """Put a file's content on the disk."""
        _sync(file, os.O_RDONLY)

    def replace_file(source: Path, target: Path) -> None:
        """Give a file another name; a file that has it is replaced."""
        source.replace(target)

    def free_bytes(folder: Path) -> int:
        """How much room is left for us on the disk that holds a folder. Raises OSError."""
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize

    def on_end_request(act: Callable[[], None]) -> None:
        """Have this done when somebody tells this process to end: here SIGTERM does, and whoever listens for that."""

    def request_end(pid: int) -> None:
        """Tell a process to end in order. Raises OSError."""
        import signal

        os.kill(pid, signal.SIGTERM)


def tune_memory() -> None:
    """Have glibc keep little freed memory, from now on. For a process with threads of its own, before they start.

    By default each thread may get a pool (arena) of its own, and a pool keeps up to 64 MiB at its top once a large
    piece was freed: `malloc_trim` does not reach that (mallopt(3), M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX).
    """
    if not can_trim_memory():
        return
    import ctypes

    mallopt = ctypes.CDLL(None).mallopt
    for parameter, value in _MALLOC_OPTIONS:
        mallopt(parameter, value)


def can_trim_memory() -> bool:
    """Whether the C library keeps freed memory that `trim_memory` gives back (glibc)."""
    return _malloc_trim() is not None


def trim_memory() -> None:
    """Give freed memory back to the system (malloc_trim(3)). Does nothing where the C library has no such call."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    with suppress(AttributeError, ImportError, OSError, TypeError):  # another C library, or a Python without ctypes
        import ctypes

        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return trim
    return None


def is_locked(handle: int) -> bool:
    """Whether somebody holds the lock of an open file for himself alone: asks for its shared form, for a moment."""
    if not lock_file(handle, shared=True):
        return True
    unlock_file(handle)
    return False


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """One process at a time is in here, others wait. Raises OSError where the folder cannot be opened."""
    handle, is_held = _open_to_lock(folder), False
    try:
        with suppress(OSError):  # a network's file system may know no locks of directories
            _wait_for_lock(handle)
            is_held = True
        yield
    finally:
        if is_held:
            unlock_file(handle)
        os.close(handle)


def usable_processors() -> int:
    """How many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- Reading regular files ---


def open_regular(file: Path) -> int:
    """A handle to read a regular file by, to be closed by who asks. Raises OSError, also for what is none."""
    handle = os.open(file, os.O_RDONLY | NO_WAIT | BINARY)  # else a pipe is waited for until somebody writes into it
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(code, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file", str(file))


def read_regular(file: Path, most: int) -> bytes:
    """The content of a regular file, no more than its first `most` bytes. Raises OSError, also for what is none."""
    with os.fdopen(open_regular(file), "rb") as stream:
        return stream.read(most)


def read_own(file: Path, most: int, *, is_read_only: bool = False) -> bytes:
    """Return the first `most` bytes of a regular file that is the effective user's alone, or also root's if
    `is_read_only`. Raises OSError, and StoreUnusable for a file of somebody else or with several hard links.
    """
    with os.fdopen(open_regular(file), "rb") as stream:
        require_own_handle(stream.fileno(), file, is_read_only=is_read_only)
        return stream.read(most)
