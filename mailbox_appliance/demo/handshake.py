"""Messages between the demo and its mail servers, and the cleanup that is carried out if the demo is killed."""

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass

if sys.platform == "win32":
    _BY_FORCE = signal.SIGTERM  # Windows can end a process only by force.
else:
    _BY_FORCE = signal.SIGKILL


@dataclass(frozen=True)
class ServersReady:
    """The ports of the servers, and the password of the sample users for both."""

    imap_port: int
    smtp_port: int
    password: str


@dataclass(frozen=True)
class CleanupOrder:
    """The cleanup if the parent is killed: a process to stop and a folder to remove. Empty fields mean nothing to
    do.
    """

    stop: int = 0
    remove: str = ""

    def to_line(self) -> str:
        """Return the order as a line of the servers' input."""
        return json.dumps(asdict(self)) + "\n"

    def carry_out(self, deadline: float = 10.0) -> None:
        """Stop the process, by force after `deadline` seconds, then remove the folder."""
        end = time.monotonic() + deadline
        while self.stop and _send_signal(self.stop, signal.SIGTERM if time.monotonic() < end else _BY_FORCE):
            time.sleep(0.1)
        if self.remove:
            shutil.rmtree(self.remove, ignore_errors=True)


def _send_signal(process: int, number: signal.Signals) -> bool:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True
