"""What the measurements need around them: scratch folders, a running appliance, mail servers."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.dovecot import CannotStart, MailServer
from tests.servers.mailboxes import PASSWORD
from tests.servers.running import RunningAppliance

#: Empty, it has no effect: as for users, modules are compiled once and not at each start.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
#: The environment of the product: as a user's, not as ours.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", _NO_BYTECODE) and not name.startswith("MAILBOX_APPLIANCE_")
}


_USERS = 20  # that send


@dataclass(frozen=True)
class Mail:
    """Mail servers on loopback without TLS: mailboxes to send from, one to send to, and the password of all."""

    name: str
    imap_port: int
    smtp_port: int
    senders: tuple[str, ...]
    recipient: str
    password: str

    @property
    def sender(self) -> str:
        """The first that is sent from."""
        return self.senders[0]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards; others may pass through it, as mail servers must."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp" if Path("/tmp").is_dir() else None) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@contextmanager
def appliance(
    folder: Path, arguments: Sequence[str] = (), argv: Sequence[str] | None = None
) -> Iterator[RunningAppliance]:
    """The appliance as a process of its own, set up, with an administrator's token; `arguments` go to `serve`.

    `argv`: another program that serves.
    """
    process = RunningAppliance(folder, {_NO_BYTECODE: ""}, arguments=arguments, argv=argv).start()
    try:
        process.set_up()
        yield process
    finally:
        process.stop()


@contextmanager
def mail_servers(folder: Path) -> Iterator[Mail]:
    """Postfix and Dovecot where they can run; else the servers of the demo, which are slower than any real one."""
    server = MailServer()
    try:
        server.start(folder)
    except CannotStart:
        with _embedded(folder) as mail:
            yield mail
        return
    try:
        *senders, recipient = (server.fresh_user() for _ in range(_USERS + 1))
        yield Mail("Postfix", server.imap_port, server.submission_port, tuple(senders), recipient, PASSWORD)
    finally:
        server.stop()


@contextmanager
def _embedded(folder: Path) -> Iterator[Mail]:
    from mailbox_appliance.demo.mail import COLLEAGUE_EMAIL, OWNER_EMAIL

    command = [sys.executable, "-m", "mailbox_appliance.demo.servers", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            ports = ready["imap_port"], ready["smtp_port"]
            yield Mail("the demo's server", *ports, (OWNER_EMAIL,), COLLEAGUE_EMAIL, ready["password"])
        finally:
            process.stdin.close()
            process.wait(10)


def wait_until_ready(running: RunningAppliance, account: str, seconds: float = 60) -> None:
    """Return when the mailbox has been read once."""
    end = time.monotonic() + seconds
    while running.ask("GET", f"/accounts/{account}").data["status"] != "ready":
        if time.monotonic() > end:
            raise SystemExit(f"the mailbox is not ready after {seconds:.0f} seconds")
        time.sleep(0.1)
