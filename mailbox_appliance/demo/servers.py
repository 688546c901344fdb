"""Both mail servers of the demo in a separate process: the internal command `demo-servers FOLDER`.

The process prints one line of JSON when the servers are ready. It ends when its standard input ends, and so in any case
when its parent does. The last line of its input may be a cleanup order: a process to stop and a folder to remove then.
"""

import asyncio
import json
import secrets
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from mailbox_appliance.demo import imap_server, mail, smtp_server
from mailbox_appliance.demo.handshake import CleanupOrder, ServersReady


async def start_servers(folder: Path) -> tuple[ServersReady, tuple[asyncio.Server, asyncio.Server]]:
    """Store the sample mailboxes in an empty folder, and start both servers for them."""
    # pymap creates files here and moves them: both places must be on one file system, and nothing may be left behind.
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
    """Serve until the standard input ends; return the text that was read from it."""
    ready, _servers = await start_servers(folder)
    print(json.dumps(asdict(ready)), flush=True)  # noqa: T201 - whoever started this process reads it
    return await asyncio.to_thread(sys.stdin.read)


def main(folder: Path) -> None:
    """Serve until the standard input ends, then carry out the cleanup order in its last line, if there is one."""
    lines = asyncio.run(serve_until_end(folder)).splitlines()
    if lines:
        CleanupOrder(**json.loads(lines[-1])).carry_out()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
