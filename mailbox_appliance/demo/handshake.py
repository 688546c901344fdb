"""What the demo and its mail servers tell each other, and the cleanup that is carried out when the demo vanishes."""

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass

if sys.platform == "win32":
    _BY_FORCE = signal.SIGTERM  # there is one way to end a process, and it is by force
else:
    _BY_FORCE = signal.SIGKILL


@dataclass(frozen=True)
class ServersReady:
    """Where the servers answer, and the password of the sample users at both."""

    imap_port: int
    smtp_port: int
    password: str


@dataclass(frozen=True)
class CleanupOrder:
    """What is cleaned up if the parent was killed. Both empty: nothing."""

    stop: int = 0
    remove: str = ""

    def to_line(self) -> str:
        """As a line of the servers' input."""
        return json.dumps(asdict(self)) + "\n"

    def carry_out(self, deadline: float = 10.0) -> None:
        """Stop the process, at the latest after `deadline` seconds by force, then remove the folder."""
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
