"""Finds the appliance that runs on a data directory, by files in that directory.

DIR/lock        held by the process that owns the directory
DIR/run.json    {pid, url, secret}, new at each start; valid only while the lock is held
DIR/setup-code  the code for creating the first administrator
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from mailbox_appliance.client.errors import Failure, wrong_usage
from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.system import files

APPLICATION = "mailbox-appliance"
_LARGEST = 64 * 1024


@dataclass(frozen=True)
class RunningAppliance:
    """An appliance that is running on a data directory: its process ID, address, and the local operator's secret."""

    pid: int
    url: str
    secret: str = field(repr=False)


def default_data_dir() -> Path:
    """Return the default data directory of this user. Raises Failure if there is no home directory."""
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir(APPLICATION, appauthor=False))
    except RuntimeError as error:
        raise _no_home_failure("the data directory with --data-dir") from error


def default_config_dir() -> Path:
    """Return the default directory of this user's known appliances and tokens.

    Raises Failure if there is no home directory.
    """
    import platformdirs

    try:
        return Path(platformdirs.user_config_dir(APPLICATION, appauthor=False))
    except RuntimeError as error:
        raise _no_home_failure("a folder for tokens in MAILBOX_APPLIANCE_CONFIG_DIR") from error


def _no_home_failure(otherwise: str) -> Failure:
    return wrong_usage(f"This user has no home directory. Set HOME, or name {otherwise}.")


def find_running(data_dir: Path) -> RunningAppliance | None:
    """Return the appliance that runs on the directory; None if none does, or it has not published its address yet.

    Callers may send a token to the address. So `run.json` counts only if it has the PID of the process that holds the
    lock: after a kill, the old file stays until the next process has written its own.
    """
    file, lock = data_dir / "run.json", data_dir / "lock"
    try:
        # In this order: a file read while the lock is held was written by the holder or an earlier one.
        if not file.exists() or not files.is_lock_held(lock):
            return None
        values = json.loads(files.read_own(file, _LARGEST))
        running = RunningAppliance(int(values["pid"]), str(values["url"]), str(values["secret"]))
    except (OSError, ValueError, KeyError, TypeError, StoreUnusable):
        return None
    return running if files.read_lock_pid(lock) in (None, running.pid) else None


def is_owned(data_dir: Path) -> bool:
    """Whether a process holds the lock of the data directory."""
    return files.is_lock_held(data_dir / "lock")


def find_setup_code(data_dir: Path) -> str | None:
    """Return the code for creating the first administrator; None if it was used already or cannot be read."""
    try:
        return files.read_own(data_dir / "setup-code", _LARGEST).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError, StoreUnusable):
        return None
