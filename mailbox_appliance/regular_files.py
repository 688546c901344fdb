"""Reading files that others may have put there: regular ones alone, since a pipe or a device may never answer."""

import errno
import os
import stat
from pathlib import Path

from mailbox_appliance.ownership import require_own_handle
from mailbox_appliance.system import BINARY, NO_WAIT


def opened(file: Path) -> int:
    """A handle to read a regular file by, to be closed by who asks. Raises OSError, also for what is none."""
    handle = os.open(file, os.O_RDONLY | NO_WAIT | BINARY)  # else a pipe is waited for until somebody writes into it
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(code, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file", str(file))


def read(file: Path, most: int) -> bytes:
    """The content of a regular file, no more than its first `most` bytes. Raises OSError, also for what is none."""
    with os.fdopen(opened(file), "rb") as stream:
        return stream.read(most)


def read_own(file: Path, most: int, *, is_read_only: bool = False) -> bytes:
    """Return the first `most` bytes of a regular file that is the effective user's alone, or also root's if
    `is_read_only`. Raises OSError, and StoreUnusable for a file of somebody else or with several hard links.
    """
    with os.fdopen(opened(file), "rb") as stream:
        require_own_handle(stream.fileno(), file, is_read_only=is_read_only)
        return stream.read(most)
