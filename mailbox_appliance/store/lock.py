"""One process owns a data directory: an advisory lock on `lock`, which holds its pid and ends with its process."""

import fcntl
import os
from pathlib import Path

from mailbox_appliance.errors import StoreInUse


class DirectoryLock:
    """The lock of a data directory, held from construction to `release`.

    Raises StoreInUse, naming the owner's pid, where another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        # O_CLOEXEC is Python's default: a child process does not inherit the lock.
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise StoreInUse(holder=f" (pid {pid})" if pid.isdigit() else "", folder=folder) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have the directory."""
        os.ftruncate(self._file, 0)
        os.close(self._file)
