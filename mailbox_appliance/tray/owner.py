"""Finds the process that owns a data directory, by the files in that directory."""

from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.client import local
from mailbox_appliance.client.errors import unreachable
from mailbox_appliance.tray.service import is_kept_by_systemd


@dataclass(frozen=True)
class OwnerProcess:
    """The process that owns a data directory.

    `pid`: None if it is not known. `url`: None if the process has not published its address, for example while it
    starts or stops. `is_kept`: systemd runs the process, so the tray must not stop it.
    """

    pid: int | None
    url: str | None
    is_kept: bool


def find_owner(data_dir: Path) -> OwnerProcess | None:
    """Return the process that owns a data directory; None if there is none."""
    if (running := local.find_running(data_dir)) is not None:
        return OwnerProcess(running.pid, running.url, is_kept_by_systemd(running.pid))
    if not local.is_owned(data_dir):
        return None
    pid = local.find_lock_holder(data_dir / "lock")
    return OwnerProcess(pid, None, pid is not None and is_kept_by_systemd(pid))


def owner_url(data_dir: Path) -> str:
    """Return the address of the appliance that runs on a data directory.

    Raises Failure if no appliance runs there, or it has not published its address yet.
    """
    running = local.find_running(data_dir)
    if running is None:
        raise unreachable("The appliance does not answer. Check and start it from the menu of the tray icon.")
    return running.url
