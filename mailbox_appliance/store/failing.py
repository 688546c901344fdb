"""What the disk or SQLite could not do with a data directory, told so that an operator knows what to do about it.

Where nothing at all is free SQLite does not say that the disk is full: the index of its log cannot be made, which is a
"disk I/O error". So the disk is asked.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store import room
from mailbox_appliance.store.database import FAILED

#: For whoever asked for something meanwhile: they may not be able to log in and see the status.
DISK_FULL = "The disk of the appliance is full. Its operator has to make room; then repeat the request."
_FULL = (errno.ENOSPC, errno.EDQUOT)
# The index of a log is made of 32 KiB at once, and a page is to go into the log.
_LEAST = 64 * 1024


@contextmanager
def failures_as_unusable(folder: Path, *, then: str = "") -> Iterator[None]:
    """What the disk or SQLite could not do is a StoreUnusable that says so; `then`: a sentence on what became of it."""
    try:
        yield
    except (OSError, *FAILED) as error:
        raise unusable(error, folder, then=then) from error
    except UnicodeEncodeError as error:
        name = str(folder).encode("utf-8", "backslashreplace").decode()
        if name == str(folder):
            raise
        raise StoreUnusable(reason=f"its name, {name}, is not UTF-8, which SQLite needs. Give it another.") from error


def unusable(error: Exception, folder: Path, *, then: str = "") -> StoreUnusable:
    """What is to be told of an error of the disk or of SQLite."""
    if is_full(error, folder):
        reason = f"the disk that holds {folder} is full{_left(folder)}. Make room on it, and repeat the command."
    elif isinstance(error, OSError):
        reason = f"{error.filename or folder}: {(error.strerror or str(error)).removesuffix('.')}."
    else:
        reason = f"its database in {folder} cannot be read or written ({error})."
    return StoreUnusable(reason=f"{reason} {then}".strip())


def is_full(error: Exception, folder: Path) -> bool:
    """Whether what failed is that the disk of a folder is full."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    chain = (error, error.__cause__, error.__context__)  # peewee wraps what fails while connecting
    if any(isinstance(one, apsw.FullError) for one in chain):
        return True
    with suppress(OSError):
        is_of_disk = any(isinstance(one, apsw.IOError | apsw.CantOpenError) for one in chain)
        return is_of_disk and isinstance(error, FAILED) and room.free_bytes(folder) < _LEAST
    return False


def _left(folder: Path) -> str:
    with suppress(OSError):
        return f" ({room.written(room.free_bytes(folder))} are left)"
    return ""
