"""What the serving process takes in memory once a mailbox is connected and requests were answered."""

import time
from collections.abc import Iterator

import psutil

from benchmarks import stage
from benchmarks.figures import Figure

_REQUESTS, _MIB = 50, 1 << 20


def measure() -> Iterator[Figure]:
    """RSS is what the target is about; PSS shares what other processes map, too."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        assert running.process is not None
        process = psutil.Process(running.process.pid)
        fresh = process.memory_info().rss / _MIB
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        for _ in range(_REQUESTS):
            running.ask("GET", f"/accounts/{account}/messages")
        time.sleep(1)
        used = process.memory_full_info()
        threads = process.num_threads()
    pss = getattr(used, "pss", 0) / _MIB
    measured = f"PSS {pss:.1f} MiB, {threads} threads"
    yield Figure(
        "idle memory (RSS)", used.rss / _MIB, 60, "at most", " MiB", measured, f"just started: {fresh:.1f} MiB"
    )
