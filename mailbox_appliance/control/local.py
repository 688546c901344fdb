"""The appliance of a data directory, as far as a client may know it: whether one runs, and where it listens.

DIR/lock        held by the process that owns the directory
DIR/run.json    {pid, url, secret}, new at each start; believed only while the lock is held
DIR/setup-code  the code that lets the first administrator in
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from mailbox_appliance import regular_files
from mailbox_appliance.control.failures import Failure, wrong_usage
from mailbox_appliance.system import is_locked

APPLICATION = "mailbox-appliance"
_LARGEST = 64 * 1024


@dataclass(frozen=True)
class Running:
    """A process that owns a data directory and answers."""

    pid: int
    url: str
    secret: str = field(repr=False)


def default_data_dir() -> Path:
    """Where this user's appliance keeps its data when nobody says otherwise. Raises Failure where there is no home."""
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir(APPLICATION, appauthor=False))
    except RuntimeError as error:
        raise _homeless("the data directory with --data-dir") from error


def default_config_dir() -> Path:
    """Where this user's log-ins are remembered when nobody says otherwise. Raises Failure where there is no home."""
    import platformdirs

    try:
        return Path(platformdirs.user_config_dir(APPLICATION, appauthor=False))
    except RuntimeError as error:
        raise _homeless("a folder for log-ins in MAILBOX_APPLIANCE_CONFIG_DIR") from error


def _homeless(otherwise: str) -> Failure:
    return wrong_usage(f"This user has no home directory. Set HOME, or name {otherwise}.")


def find_running(data_dir: Path) -> Running | None:
    """The process that owns the directory and has said where it listens, if there is one."""
    file = data_dir / "run.json"
    try:
        # In this order: a file that is read while the lock is held was written by the holder.
        if not file.exists() or not is_owned(data_dir):
            return None
        values = json.loads(regular_files.read(file, _LARGEST))
        return Running(int(values["pid"]), str(values["url"]), str(values["secret"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_owned(data_dir: Path) -> bool:
    """Whether a process holds the lock of the directory.

    The lock is asked for in its shared form and given back at once. It is asked for only where `run.json` lies, so that
    hardly ever a starting process meets it.
    """
    try:
        lock = regular_files.opened(data_dir / "lock")
    except FileNotFoundError:
        return False
    try:
        return is_locked(lock)
    finally:
        os.close(lock)


def find_setup_code(data_dir: Path) -> str | None:
    """The code for the first set-up, if it has not been used yet."""
    try:
        return regular_files.read(data_dir / "setup-code", _LARGEST).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
