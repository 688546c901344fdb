"""Both mail servers of the demo in a process of their own: the command `demo-servers FOLDER`.

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

from mailbox_appliance.demo import imap_server, mail, smtp_server

# --- What the demo and its mail servers tell each other, and the will that is carried out when the demo vanishes ---


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
    """What is done when whoever started the servers vanished without a word. Both empty: nothing."""

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


async def start_servers(folder: Path) -> tuple[ServersReady, tuple[asyncio.Server, asyncio.Server]]:
    """Fill an empty folder with the sample mailboxes, and serve them."""
    # pymap makes files here and moves them; both must be on one file system, and nothing may stay behind.
    tempfile.tempdir = str(folder)
    password = secrets.token_urlsafe(18)
    passwords = dict.fromkeys((mail.OWNER_EMAIL, mail.COLLEAGUE_EMAIL), password)
    mail.fill_mailboxes(folder)
    imap, smtp = (
        await imap_server.start_imap_server(folder, passwords),
        await smtp_server.start_smtp_server(folder, passwords),
    )
    imap_port, smtp_port = (server.sockets[0].getsockname()[1] for server in (imap, smtp))
    return ServersReady(imap_port, smtp_port, password), (imap, smtp)


async def serve_until_end(folder: Path) -> str:
    """Serve until the input ends; returns what was written there."""
    ready, _servers = await start_servers(folder)
    print(json.dumps(asdict(ready)), flush=True)  # noqa: T201 - whoever started this process reads it
    return await asyncio.to_thread(sys.stdin.read)


def main(folder: Path) -> None:
    """Serve, then carry out the will, if the last line of the input is one."""
    lines = asyncio.run(serve_until_end(folder)).splitlines()
    if lines:
        CleanupOrder(**json.loads(lines[-1])).carry_out()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
