"""One tray for a data directory: a lock on `tray.lock` there, which holds its pid and ends with its process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mailbox_appliance import system
from mailbox_appliance.tray import owner

#: Seconds within which a tray that was told to end has ended, with what it was starting.
_ENDS_WITHIN = 20.0


class OtherTray(Exception):
    """Another tray has the data directory."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"A tray runs already{f' (pid {pid})' if pid else ''}.")


@contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Be the only tray of the data directory. Raises OtherTray where there is one."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # No child inherits it: O_CLOEXEC is Python's default.
    lock = os.open(_lock_of(data_dir), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not system.lock_file(lock):
            raise OtherTray(owner.holder(_lock_of(data_dir)))
        with suppress(OSError):  # on a full disk it is held without saying by whom
            os.ftruncate(lock, 0)
            system.write_at(lock, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            system.unlock_file(lock)
    finally:
        os.close(lock)


def end_tray(data_dir: Path) -> bool:
    """Let the tray of a data directory end, which leaves its service; whether none is there any more."""
    pid = owner.holder(_lock_of(data_dir))
    return pid is None or owner.end(_lock_of(data_dir), pid, _ENDS_WITHIN)


def _lock_of(data_dir: Path) -> Path:
    return data_dir / "tray.lock"
