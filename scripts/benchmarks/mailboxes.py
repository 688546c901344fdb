"""A real Dovecot with mailboxes that are full, and the appliance's way with them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.asking import Asker
from benchmarks.options import LeftOut
from tests.servers.dovecot import CannotStart, MailServer
from tests.servers.running import RunningAppliance


@contextmanager
def dovecot(folder: Path) -> Iterator[MailServer]:
    """Dovecot and Postfix below a folder. Raises LeftOut where they cannot run."""
    server = MailServer()
    try:
        server.start(folder)
    except CannotStart as problem:
        raise LeftOut(str(problem)) from problem
    try:
        yield server
    finally:
        server.stop()


def seeded(server: MailServer, count: int) -> str:
    """The user of an INBOX with so many messages of the corpus. Dovecot has its index, as of mail that it delivered."""
    user = server.fresh_user()
    server.seed(user, {"INBOX": count})
    server.doveadm("index", "-u", user, "INBOX")
    return user


def connect(running: RunningAppliance, server: MailServer, user: str, imap_port: int | None = None) -> str:
    """Connect a mailbox; its id."""
    return running.connect(user, imap_port=imap_port or server.imap_port, smtp_port=server.submission_port)


def wait_until_complete(asker: Asker, account: str, seconds: float = 600) -> None:
    """Return when a first sync is through: every message is there, with its body."""

    def is_complete() -> bool:
        [status] = [each for each in asker.data("/status")["accounts"] if each["id"] == account]
        return status["status"] == "ready" and status["lastSyncAt"] is not None and status["progress"] is None

    wait(is_complete, f"the mailbox is not complete after {seconds:.0f} seconds", seconds, 0.05)


def wait(condition: Callable[[], bool], complaint: str, seconds: float, pause: float = 0.02) -> None:
    """Return when the condition holds; end everything with the complaint where that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(complaint)
        time.sleep(pause)
