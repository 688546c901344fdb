"""The process that owns a data directory, as far as one sees it without asking it."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance import regular_files
from mailbox_appliance.control import local
from mailbox_appliance.control.failures import unreachable
from mailbox_appliance.tray.service import is_kept

_LONGEST_PID = 20


@dataclass(frozen=True)
class Presence:
    """An owner. Without `url` it has not said yet where it answers, or does not answer any more."""

    pid: int | None
    url: str | None
    is_kept: bool


def find(data_dir: Path) -> Presence | None:
    """The owner of a data directory, if it has one."""
    if not local.is_owned(data_dir):
        return None
    running, pid = local.find_running(data_dir), _pid_in_lock(data_dir)
    if running is not None and pid in (None, running.pid):
        return Presence(running.pid, running.url, is_kept(running.pid))
    return Presence(pid, None, pid is not None and is_kept(pid))  # `run.json` was left behind by one before


def url(data_dir: Path) -> str:
    """Where the owner answers. Raises Failure where none does."""
    running = local.find_running(data_dir)
    if running is None:
        raise unreachable(
            "The appliance does not answer now. The menu of the icon tells whether it runs, and starts it."
        )
    return running.url


def _pid_in_lock(data_dir: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(regular_files.read(data_dir / "lock", _LONGEST_PID))
    return None
