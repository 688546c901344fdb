"""One process owns a data directory: an advisory lock on `lock`, which holds its pid and ends with its process."""

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from mailbox_appliance.errors import StoreInUse, StoreUnusable
from mailbox_appliance.store.files import RUN_FILE
from mailbox_appliance.system import files, ownership
from mailbox_appliance.system.files import (
    BINARY,
    NO_FOLLOW,
    NO_WAIT,
    is_locked,
    lock_file,
    read_at,
    unlock_file,
    write_at,
)

# The command line looks whether the lock is held by taking a shared one for a moment; that moment is waited for.
_TRIES, _PAUSE = 6, 0.03


class DirectoryLock:
    """The lock of a data directory, held from construction to `release`.

    Raises StoreInUse, naming the owner's pid, where another process holds it, and StoreUnusable where it cannot be had,
    or where the directory or a file in it is another user's (`ownership`); then nothing on the disk was changed.
    """

    def __init__(self, folder: Path) -> None:
        ownership.require_own(folder)
        # O_CLOEXEC is Python's default: a child process does not inherit the lock.
        try:
            self._file = _opened(folder / "lock")
        except OSError as error:
            raise StoreUnusable(reason=f"{folder / 'lock'} cannot be opened ({error.strerror}).") from error
        if not _take(self._file):
            pid = read_at(self._file, 20, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise StoreInUse(holder=f" (pid {pid})" if pid.isdigit() else "", folder=folder)
        with suppress(OSError):  # left by an owner that was killed: where that one answered, nobody may take for ours
            (folder / RUN_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # on a full disk the lock is held without saying by whom
            os.ftruncate(self._file, 0)
            write_at(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have the directory. Doing it twice is harmless."""
        file, self._file = self._file, -1  # the number may be another file's by then
        if file >= 0:
            with suppress(OSError):  # the pid in it says nothing once nobody holds it
                os.ftruncate(file, 0)
                unlock_file(file)
            os.close(file)


def holder(folder: Path) -> int | None:
    """The pid of the process that owns a data directory, if one does; nothing is made or changed."""
    try:
        file = files.open_regular(folder / "lock")
    except OSError:
        return None
    try:
        if not is_locked(file):
            return None
        pid = read_at(file, 20, 0).decode("ascii", "replace").strip()
        return int(pid) if pid.isdigit() else None
    finally:
        os.close(file)


def _opened(file: Path) -> int:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | NO_WAIT | NO_FOLLOW | BINARY, 0o600)
    try:
        ownership.require_own_handle(handle, file)
    except BaseException:
        os.close(handle)
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Not a regular file", str(file))
    return handle


def _take(file: int) -> bool:
    for tries_left in reversed(range(_TRIES)):
        if lock_file(file):
            return True
        if tries_left:
            time.sleep(_PAUSE)
    return False
