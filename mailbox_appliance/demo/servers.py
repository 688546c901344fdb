"""Both mail servers of the demo in a process of their own: `python -m mailbox_appliance.demo.servers FOLDER`.

It prints one line of JSON when they answer, and ends when its input ends: so it dies with whoever started it, however
that happens. The last line of its input may be a will: what to stop and to remove at that end.
"""

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mailbox_appliance.demo import imap_server, sample, smtp_server


@dataclass(frozen=True)
class Ready:
    """Where the servers answer, and the password of the sample users at both."""

    imap_port: int
    smtp_port: int
    password: str


async def start(folder: Path) -> tuple[Ready, tuple[asyncio.Server, asyncio.Server]]:
    """Fill an empty folder with the sample mailboxes, and serve them."""
    # pymap makes files here and moves them; both must be on one file system, and nothing may stay behind.
    tempfile.tempdir = str(folder)
    password = secrets.token_urlsafe(18)
    passwords = dict.fromkeys((sample.OWNER_EMAIL, sample.COLLEAGUE_EMAIL), password)
    sample.fill(folder)
    imap, smtp = await imap_server.start(folder, passwords), await smtp_server.start(folder, passwords)
    imap_port, smtp_port = (server.sockets[0].getsockname()[1] for server in (imap, smtp))
    return Ready(imap_port, smtp_port, password), (imap, smtp)


async def serve(folder: Path) -> str:
    """Serve until the input ends; returns what was written there."""
    ready, _servers = await start(folder)
    print(json.dumps(asdict(ready)), flush=True)  # noqa: T201 - whoever started this process reads it
    return await asyncio.to_thread(sys.stdin.read)


@dataclass(frozen=True)
class Will:
    """What is done when whoever started the servers vanished without a word. Both empty: nothing."""

    stop: int = 0
    remove: str = ""

    def line(self) -> str:
        """As a line of the servers' input."""
        return json.dumps(asdict(self)) + "\n"

    def carry_out(self, deadline: float = 10.0) -> None:
        """Stop the process, at the latest after `deadline` seconds by force, then remove the folder."""
        end = time.monotonic() + deadline
        while self.stop and _signalled(self.stop, signal.SIGTERM if time.monotonic() < end else signal.SIGKILL):
            time.sleep(0.1)
        if self.remove:
            shutil.rmtree(self.remove, ignore_errors=True)


def _signalled(process: int, number: signal.Signals) -> bool:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def main(folder: Path) -> None:
    """Serve, then carry out the will, if the last line of the input is one."""
    lines = asyncio.run(serve(folder)).splitlines()
    if lines:
        Will(**json.loads(lines[-1])).carry_out()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
