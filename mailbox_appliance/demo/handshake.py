"""Messages between the demo and the process of its mail servers: their addresses, and the cleanup to do after a
kill.
"""

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
    """The first output of the mail servers: their ports, and one password for all sample users."""

    imap_port: int
    smtp_port: int
    password: str


@dataclass(frozen=True)
class CleanupOrder:
    """The cleanup that the mail servers' process does after the demo has ended, even by being killed.

    `stop`: the PID of a process to stop, or 0. `remove`: the path of a folder to remove, or empty.
    """

    stop: int = 0
    remove: str = ""

    def to_line(self) -> str:
        """Return the order as a line of JSON for the standard input of the mail servers' process."""
        return json.dumps(asdict(self)) + "\n"

    def carry_out(self, deadline: float = 10.0) -> None:
        """Stop the process, then remove the folder. After `deadline` seconds the process is killed."""
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
