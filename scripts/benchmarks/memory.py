"""What the serving process takes in memory once mailboxes are connected and requests were answered."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil

from benchmarks import mailboxes, stage
from benchmarks.asking import Asker
from benchmarks.figures import Figure
from benchmarks.options import OPTIONS
from tests.servers.running import RunningAppliance

_REQUESTS, _MANY, _MIB = 50, 100, 1 << 20


def measure() -> Iterator[Figure]:
    """RSS is what the target is about; PSS shares what other processes map, too."""
    yield _with_one_mailbox()
    yield _with_many_mailboxes()


def _with_one_mailbox() -> Figure:
    """After a restart, as on any day but the first: another process hashed a password and connected the mailbox."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        first_day = _memory_after_requests(running, account)
        running.stop()
        running.start()
        fresh = _process_of(running).memory_info().rss / _MIB
        stage.wait_until_ready(running, account)
        used = _memory_after_requests(running, account)
        pss = getattr(_process_of(running).memory_full_info(), "pss", 0) / _MIB
        threads = _process_of(running).num_threads()
    measured = f"PSS {pss:.1f} MiB, {threads} threads; {first_day:.1f} MiB before the restart"
    return Figure("idle memory (RSS)", used, 50, "at most", " MiB", measured, f"just started: {fresh:.1f} MiB")


def _with_many_mailboxes() -> Figure:
    """With HTTPS, after a restart: each mailbox is watched and has one message."""
    count = OPTIONS.scaled(_MANY, least=10)
    with stage.scratch() as folder, mailboxes.dovecot(folder) as server:
        arguments = ("--https-port", "0")
        with stage.appliance(folder / "data", arguments) as running:
            users = [server.fresh_user() for _ in range(count)]
            for user in users:
                server.deliver(user, b"From: Ada <ada@example.org>\r\nSubject: one\r\n\r\nThe text of it.\r\n")
            with ThreadPoolExecutor(2) as pool:
                accounts = list(pool.map(lambda user: mailboxes.connect(running, server, user), users))
            with Asker(running) as asker:
                mailboxes.wait(lambda: _are_ready(asker), "the mailboxes are not ready", 300, 0.5)
            running.ask("PATCH", "/admin/settings", {"server.https": "on"})
            running.stop()
            running.start()
            with Asker(running) as asker:
                mailboxes.wait(lambda: _are_ready(asker), "the mailboxes are not ready", 300, 0.5)
            time.sleep(3)
            used = _memory_after_requests(running, accounts[0])
            threads = _process_of(running).num_threads()
            is_secure = running.https is not None
    measured = f"{threads} threads; HTTPS {'on' if is_secure else 'OFF'}"
    return Figure(f"idle memory with HTTPS and {count} mailboxes", used, 80, "at most", " MiB", measured)


def _are_ready(asker: Asker) -> bool:
    return all(each["status"] == "ready" for each in asker.data("/status")["accounts"])


def _memory_after_requests(running: RunningAppliance, account: str) -> float:
    for _ in range(_REQUESTS):
        running.ask("GET", f"/accounts/{account}/messages")
    time.sleep(1)
    return float(_process_of(running).memory_info().rss) / _MIB


def _process_of(running: RunningAppliance) -> psutil.Process:
    assert running.process is not None
    return psutil.Process(running.process.pid)
