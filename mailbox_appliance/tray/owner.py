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

from mailbox_appliance import regular_files, system
from mailbox_appliance.control import local

_UNIT = "mailbox-appliance.service"
_PROC = Path("/proc")
_EVERY = 0.05
_LONGEST_PID = 20


def find(data_dir: Path) -> int | None:
    """The pid of whoever owns the directory, also while it starts and answers nothing yet."""
    if (pid := holder(data_dir / "lock")) is not None:
        return pid
    running = local.find_running(data_dir)  # a full disk leaves the lock without its pid
    return None if running is None else running.pid


def answering(data_dir: Path) -> local.Running | None:
    """The owner, if it has said where it answers; not what one that was killed has left in `run.json`.

    The next owner has the lock for a while before it writes that anew, and for a moment with the pid of the one before.
    """
    running = local.find_running(data_dir)
    if running is None or find(data_dir) != running.pid:
        return None
    try:
        is_there = sys.platform != "linux" or _has_open(running.pid, data_dir / "lock")
    except PermissionError:  # another user's
        is_there = True
    except OSError:
        is_there = False
    return running if is_there else None


def holder(lock: Path) -> int | None:
    """The pid of the process that holds a lock, as it has written it there."""
    with suppress(OSError, ValueError):
        if is_held(lock):
            return int(regular_files.read(lock, _LONGEST_PID))
    return None


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock."""
    try:
        handle = regular_files.opened(lock)
    except OSError:
        return False
    try:
        return system.is_locked(handle)
    finally:
        os.close(handle)


def kept_by(pid: int, proc: Path = _PROC) -> str | None:
    """The command that stops the unit in which systemd keeps a process; None where it is in none of ours."""
    with suppress(OSError):
        for line in (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines():
            group = line.split(":", 2)[-1]
            if group.rsplit("/", 1)[-1] == _UNIT:
                return f"systemctl {'--user ' if '/user@' in group else ''}stop mailbox-appliance"
    return None


def end(lock: Path, pid: int, within: float) -> bool:
    """Tell the holder of a lock to end, and whether it has within so many seconds. Raises PermissionError."""
    handle = _handle(pid)
    try:
        if handle is not None and not _has_open(pid, lock):
            return holder(lock) != pid
        with suppress(ProcessLookupError):
            _tell(pid, handle)
        return _has_ended(lock, pid, handle, within)
    finally:
        if handle is not None:
            os.close(handle)


def _has_ended(lock: Path, pid: int, handle: int | None, within: float) -> bool:
    if handle is not None:
        return bool(select.select([handle], [], [], within)[0])
    until = time.monotonic() + within
    while holder(lock) == pid:
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


def _tell(pid: int, handle: int | None) -> None:
    if sys.platform == "linux" and handle is not None:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    else:
        system.tell_to_end(pid)
