"""The process that owns a data directory: which it is, whether systemd keeps it, and how it is told to end.

A pid is only a number, which may be another process's a moment later, or that of a container in which the directory is
used as well. So where the system tells, it is not believed before that very process is seen to hold the lock.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from mailbox_appliance.client import local
from mailbox_appliance.system import files

_UNIT = "mailbox-appliance.service"
_PROC = Path("/proc")
_EVERY = 0.05
#: Seconds within which one is gone that has closed its files, as it ends.
_GOES_WITHIN = 0.5
_OF_ANOTHER = "belongs to another user, who can stop it."
_UNSEEN = "is no process that is seen from here, as where it runs in a container: stop it there."


class OutOfReach(Exception):
    """The owner was not told to end; the text says why, as what follows its name."""


def find(data_dir: Path) -> int | None:
    """The pid of whoever owns the directory, also while it starts and answers nothing yet."""
    if (pid := local.find_lock_holder(data_dir / "lock")) is not None:
        return pid
    running = local.find_running(data_dir)  # a full disk leaves the lock without its pid
    return None if running is None else running.pid


def kept_by(pid: int, proc: Path = _PROC) -> str | None:
    """The command that stops the unit in which systemd keeps a process; None where it is in none of ours."""
    with suppress(OSError):
        for line in (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines():
            group = line.split(":", 2)[-1]
            if group.rsplit("/", 1)[-1] == _UNIT:
                return f"systemctl {'--user ' if '/user@' in group else ''}stop mailbox-appliance"
    return None


def end(lock: Path, pid: int, within: float) -> bool:
    """Tell the holder of a lock to end, and whether it has within so many seconds. Raises OutOfReach."""
    handle = _handle(pid)
    try:
        hindrance = _hindrance(pid, lock) or _told(pid, handle)
        if hindrance is None:
            return _has_ended(lock, pid, handle, within)
    finally:
        if handle is not None:
            os.close(handle)
    if _has_ended(lock, pid, None, _GOES_WITHIN):  # it was about to, when it was looked at
        return True
    raise OutOfReach(hindrance)


def _hindrance(pid: int, lock: Path) -> str | None:
    """Why a process is not told to end, if so: it is not seen to have the lock. Only Linux tells."""
    if sys.platform == "linux":
        try:
            return None if _has_open(pid, lock) else _UNSEEN
        except PermissionError:
            return _OF_ANOTHER
        except OSError:
            return _UNSEEN
    else:
        return None


def _has_ended(lock: Path, pid: int, handle: int | None, within: float) -> bool:
    if handle is not None:
        return bool(select.select([handle], [], [], within)[0])
    until = time.monotonic() + within
    while local.find_lock_holder(lock) == pid:
        if time.monotonic() > until:
            return False
        time.sleep(_EVERY)
    return True


def _handle(pid: int) -> int | None:
    """What means this process and no later one of that number; only Linux has it."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_open(pid: int, lock: Path) -> bool:
    """Whether a process has the lock's file open. Raises PermissionError where it is another user's."""
    wanted = lock.stat()
    for file in (_PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(file.stat(), wanted):
                return True
    return False


def _told(pid: int, handle: int | None) -> str | None:
    """Tell a process to end; answers why it could not be told, if so. One that has gone was."""
    try:
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        else:
            files.request_end(pid)
    except PermissionError:
        return _OF_ANOTHER
    except ProcessLookupError:
        pass
    return None
