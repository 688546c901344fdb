"""Functions that need different code on Linux, macOS and Windows: file locks, syncing, renaming, free space, memory,
and ending a process.

A lock belongs to an open file. All processes see it, and it ends when the file is closed or its process ends.

    Linux, macOS   flock: has a shared form, and does not prevent reading or writing
    Windows        byte ranges: no shared form, and no other process can read or write them, so they are far
                   beyond any content. An exclusive lock takes all of them, a shared one takes one
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mailbox_appliance.system.ownership import require_own_handle

# glibc's M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX: pieces above 4 MiB are mapped alone, a pool keeps 1 MiB,
# and threads share four pools.
_MALLOC_OPTIONS = ((-3, 4 << 20), (-1, 1 << 20), (-8, 4))
#: As many as the unit file for systemd allows.
_OPEN_FILES = 8192

if sys.platform == "win32":
    import msvcrt
    import threading

    #: Open flags that some systems lack: binary mode; do not wait for the other end of a pipe; no controlling terminal;
    #: do not follow a link.
    BINARY, NO_WAIT, NO_TERMINAL, NO_FOLLOW = os.O_BINARY, 0, 0, 0

    # Number of places tried for a shared lock: one place may be taken by another shared lock, all by an exclusive one.
    _LOCK_AT, _LOCK_LENGTH, _SHARED_TRIES = 0x7000_0000, 509, 3
    _PAUSE, _MOVE_TRIES = 0.05, 40
    _moving = threading.Lock()  # held while the position of a handle is moved
    _shared_at: dict[int, int] = {}

    def lock_file(handle: int, *, shared: bool = False) -> bool:
        """Try to lock an open file, without waiting; return whether that succeeded. `handle`: its file descriptor.

        The lock is held until `unlock_file`, or until the file is closed. `shared`: other shared locks may exist at the
        same time. Raises OSError if the file system does not support locks.
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
        """Release the lock on an open file. Call it before closing the file: Windows releases locks of closed files
        late.
        """
        place = _shared_at.pop(handle, None)
        if place is None:
            _lock(handle, msvcrt.LK_UNLCK, _LOCK_AT, _LOCK_LENGTH)
        else:
            _lock(handle, msvcrt.LK_UNLCK, place, 1)

    def lock_bytes(handle: int, start: int, length: int) -> bool:
        """Try to lock a range of bytes, with the kind of lock that SQLite uses, without waiting; return whether that
        succeeded.
        """
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
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)  # Windows cannot open a folder as a file

    def _wait_for_lock(handle: int) -> None:
        while not lock_file(handle):
            time.sleep(_PAUSE)

    def read_at(handle: int, length: int, offset: int, /) -> bytes:
        """Return at most `length` bytes from `offset` of an open file.

        Several threads may call this at the same time.
        """
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.read(handle, length)

    def write_at(handle: int, content: bytes, offset: int, /) -> int:
        """Write at `offset` of an open file; return the number of bytes written."""
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.write(handle, content)

    def sync_folder(folder: Path) -> None:
        """Do nothing: NTFS records renames in a journal, and Python cannot open a folder on Windows."""

    def sync_file(file: Path) -> None:
        """Write a file's content to the disk."""
        _sync(file, os.O_RDWR)  # Windows cannot sync a file that is open only for reading

    def replace_file(source: Path, target: Path) -> None:
        """Rename a file, replacing an existing one. Waits up to some seconds if another program has one of them open.

        Windows refuses to rename a file that a client or a virus scanner has open.
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
        """Return the free bytes that this user may use on the disk of a folder. Raises OSError."""
        import shutil

        return shutil.disk_usage(folder).free

    def on_end_request(act: Callable[[], None]) -> None:
        """Call `act` in a separate thread when another process of this user calls `request_end` for this process."""
        kernel = _kernel()
        if event := kernel.CreateEventW(None, True, False, _EVENT.format(os.getpid())):

            def wait() -> None:
                kernel.WaitForSingleObject(event, _FOR_EVER)
                act()

            threading.Thread(target=wait, name="told-to-end", daemon=True).start()

    def request_end(pid: int) -> None:
        """Ask a process to end. One that has not called `on_end_request` is ended by force. Raises OSError."""
        import signal

        kernel = _kernel()
        event = kernel.OpenEventW(_MAY_SET, False, _EVENT.format(pid))
        if not (event and kernel.SetEvent(event)):
            os.kill(pid, signal.SIGTERM)  # on Windows this ends the process by force
        if event:
            kernel.CloseHandle(event)

    # No signal reaches a process without a console, or with its own. A named event does.
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
        """Try to lock an open file, without waiting; return whether that succeeded. `handle`: its file descriptor.

        The lock is held until `unlock_file`, or until the file is closed. `shared`: other shared locks may exist at the
        same time. Raises OSError if the file system does not support locks.
        """
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock_file(handle: int) -> None:
        """Release the lock on an open file."""
        fcntl.flock(handle, fcntl.LOCK_UN)

    def lock_bytes(handle: int, start: int, length: int) -> bool:
        """Try to lock a range of bytes, with the kind of lock that SQLite uses, without waiting; return whether that
        succeeded.
        """
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
        """Write a folder's list of entries to the disk. A rename in it survives a power failure only after this."""
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(file: Path) -> None:
        """Write a file's content to the disk."""
        _sync(file, os.O_RDONLY)

    def replace_file(source: Path, target: Path) -> None:
        """Rename a file, replacing an existing one."""
        source.replace(target)

    def free_bytes(folder: Path) -> int:
        """Return the free bytes that this user may use on the disk of a folder. Raises OSError."""
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize

    def on_end_request(act: Callable[[], None]) -> None:
        """Do nothing: here `request_end` sends SIGTERM, which has a handler of its own."""

    def request_end(pid: int) -> None:
        """Ask a process to end, by SIGTERM. Raises OSError."""
        import signal

        os.kill(pid, signal.SIGTERM)


def tune_memory() -> None:
    """Configure the C library (glibc) to return freed memory early. Call it before the process starts threads.

    By default each thread may get its own pool (arena), and a pool keeps up to 64 MiB at its top once a large piece was
    freed. `malloc_trim` does not release that (mallopt(3), M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX).
    """
    if not can_trim_memory():
        return
    import ctypes

    mallopt = ctypes.CDLL(None).mallopt
    for parameter, value in _MALLOC_OPTIONS:
        mallopt(parameter, value)


def raise_open_files_limit() -> None:
    """Let this process open as many files and sockets as its hard limit allows, up to 8192.

    The usual soft limit of 1024 is less than the connections that may be open. Does nothing on Windows, which has no
    such limit.
    """
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(OSError, ValueError):  # not allowed here, as in a sandbox
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def can_trim_memory() -> bool:
    """Whether the C library is glibc, which keeps freed memory that `trim_memory` can release."""
    return _malloc_trim() is not None


def trim_memory() -> None:
    """Return freed memory to the operating system (malloc_trim(3)).

    Does nothing if the C library lacks that function.
    """
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
    """Whether a process holds an exclusive lock on the open file.

    To find out, this takes a shared lock for a moment.
    """
    if not lock_file(handle, shared=True):
        return True
    unlock_file(handle)
    return False


def write_whole(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step; its content is on the disk when this returns. Raises OSError."""
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # created with 0600
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        if mode != 0o600:
            new.chmod(mode)
        replace_file(new, file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


# --- Lock files: the lock shows that a process owns something, and the content which process that is ---


# A process that checks a lock holds a shared one for a moment.
_LOCK_TRIES, _LOCK_PAUSE = 6, 0.03
_LONGEST_PID = 20


def acquire_lock(handle: int) -> bool:
    """Lock an open lock file; return whether that succeeded. Processes that only check the lock are waited for."""
    for tries_left in reversed(range(_LOCK_TRIES)):
        if lock_file(handle):
            return True
        if tries_left:
            time.sleep(_LOCK_PAUSE)
    return False


def write_lock_holder(handle: int) -> None:
    """Write the ID of this process into an open lock file. If that fails, as on a full disk, the file is left empty."""
    content = f"{os.getpid()}\n".encode()
    with suppress(OSError):
        try:
            write_at(handle, content, 0)
            os.ftruncate(handle, len(content))
        except OSError:
            os.ftruncate(handle, 0)


def is_lock_held(lock: Path) -> bool:
    """Whether a process holds the lock on this file. Nothing is created or changed."""
    try:
        handle = open_regular(lock)
    except OSError:
        return False
    try:
        return is_locked(handle)
    finally:
        os.close(handle)


def find_lock_holder(lock: Path) -> int | None:
    """Return the ID of the process that holds the lock on this file.

    None if no process holds it, or if the file has no ID: on a full disk the holder could not write it.
    """
    try:
        return read_lock_pid(lock) if is_lock_held(lock) else None
    except OSError:
        return None


def read_lock_pid(lock: Path) -> int | None:
    """Return the process ID in a lock file, whether the lock is held or not; None if it has none."""
    try:
        return int(read_regular(lock, _LONGEST_PID))
    except (OSError, ValueError):
        return None


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Context manager: hold a lock on a folder until the block ends; other processes that want it wait.

    Without effect on a file system that cannot lock folders. Raises OSError if the folder cannot be opened.
    """
    handle, is_held = _open_to_lock(folder), False
    try:
        with suppress(OSError):  # a network file system may not support locks on directories
            _wait_for_lock(handle)
            is_held = True
        yield
    finally:
        if is_held:
            unlock_file(handle)
        os.close(handle)


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
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
    """Open a regular file for reading; return its file descriptor, which the caller closes.

    Raises OSError, also for a device, FIFO or folder.
    """
    # without NO_WAIT, opening a pipe would block until another process writes to it
    handle = os.open(file, os.O_RDONLY | NO_WAIT | BINARY)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(code, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file", str(file))


def read_regular(file: Path, most: int) -> bytes:
    """Return at most the first `most` bytes of a regular file. Raises OSError, also for a device, FIFO or folder."""
    with os.fdopen(open_regular(file), "rb") as stream:
        return stream.read(most)


def read_own(file: Path, most: int, *, is_read_only: bool = False) -> bytes:
    """Return at most the first `most` bytes of a regular file, if this process's user owns it.

    `is_read_only`: the appliance only reads this file, so root may own it too. Raises OSError if it cannot be read, and
    StoreUnusable if another user owns it or it has several hard links.
    """
    with os.fdopen(open_regular(file), "rb") as stream:
        require_own_handle(stream.fileno(), file, is_read_only=is_read_only)
        return stream.read(most)
