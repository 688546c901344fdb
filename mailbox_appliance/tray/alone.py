"""One tray for a data directory: a lock on `tray.lock` there, which holds its pid and ends with its process."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INTERNAL, Failure
from mailbox_appliance.system import files, ownership
from mailbox_appliance.tray import owner

#: Seconds within which a tray that was told to end has ended, with what it was starting.
_ENDS_WITHIN = 20.0
#: Seconds within which a tray that has the lock has said which process it is.
_SAYS_WITHIN = 1.0
_EVERY, _LONGEST_PID = 0.05, 10
# Who looks whether a tray runs takes the lock's shared form for a moment; that moment is waited for.
_TRIES = 4


class OtherTray(Exception):
    """Another tray has the data directory."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"A tray runs already{f' (pid {pid})' if pid else ''}.")


class Unusable(Exception):
    """The data directory cannot be used; the text says why."""


@contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Be the only tray of the data directory. Raises OtherTray where there is one, and Unusable."""
    lock = _opened(data_dir)
    try:
        if not _take(lock):
            raise OtherTray(local.find_lock_holder(_lock_of(data_dir)))
        _say_who(lock)
        try:
            yield
        finally:
            files.unlock_file(lock)
    finally:
        os.close(lock)


def end_tray(data_dir: Path) -> bool:
    """Let the tray of a data directory end, which leaves its service; whether none is there any more.

    Raises Failure where one is there that cannot be told, or has not said which process it is.
    """
    lock, until = _lock_of(data_dir), time.monotonic() + _SAYS_WITHIN
    while (pid := local.find_lock_holder(lock)) is None and local.is_lock_held(lock):
        if time.monotonic() > until:
            told = "A tray runs that has not said which process it is, as on a full disk: quit it from its menu."
            raise Failure("not_stopped", told, INTERNAL)
        time.sleep(_EVERY)
    try:
        return pid is None or owner.end(lock, pid, _ENDS_WITHIN)
    except owner.OutOfReach as why:
        raise Failure("not_stopped", f"The tray (pid {pid}) {why}", INTERNAL) from why


def _opened(data_dir: Path) -> int:
    try:
        ownership.make_folder(data_dir)
        # No child inherits it: O_CLOEXEC is Python's default.
        return os.open(_lock_of(data_dir), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unusable(f"{error.filename or data_dir} cannot be used ({error.strerror}).") from error


def _take(lock: int) -> bool:
    for tries_left in reversed(range(_TRIES)):
        if files.lock_file(lock):
            return True
        if tries_left:
            time.sleep(_EVERY)
    return False


def _say_who(lock: int) -> None:
    """Write our number over the one before, for which there is room on a full disk too; else it is held without one."""
    said = f"{os.getpid():<{_LONGEST_PID}}\n".encode()
    with suppress(OSError):
        try:
            files.write_at(lock, said, 0)
            os.ftruncate(lock, len(said))
        except OSError:
            os.ftruncate(lock, 0)


def _lock_of(data_dir: Path) -> Path:
    return data_dir / "tray.lock"
