"""Many mailboxes watched by one process: threads, memory for each, and the processor time while nothing happens.

Beyond some 120 connections the kernel lets Dovecot watch no more folders (inotify instances of a user), so that it
looks at them every 30 seconds; on our side nothing differs.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil

from benchmarks import stage
from benchmarks.asking import Asker
from benchmarks.figures import Figure
from benchmarks.mailboxes import connect, dovecot, wait
from benchmarks.options import OPTIONS
from benchmarks.processes import memory_of, seconds_of
from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance

_STEPS, _QUIET = (100, 300), 65.0
_WARM = 10  # mailboxes that are there before memory is measured: what is loaded once is none of theirs
_MESSAGE = b"From: Ada <ada@example.org>\r\nSubject: one\r\nMessage-ID: <one@example.org>\r\n\r\nThe text of it.\r\n"


def measure() -> Iterator[Figure]:
    """The CPU is measured for longer than the interval at which all folders are looked at."""
    quiet = max(10.0, _QUIET * min(1.0, OPTIONS.scale))
    with stage.scratch() as folder, dovecot(folder) as server, stage.appliance(folder / "data") as running:
        assert running.process is not None
        process = psutil.Process(running.process.pid)
        _connect(running, server, _WARM)
        before = _memory(process)
        watched = _WARM
        for wanted in (OPTIONS.scaled(step, least=20) for step in _STEPS):
            _connect(running, server, wanted - watched)
            watched = wanted
            load = _idle_load(process.pid, quiet)
            each = (_memory(process) - before) / (wanted - _WARM)
            threads = process.num_threads()
            yield Figure(f"{wanted} watched mailboxes: threads", threads, 39, "at most", "", f"{threads}")
            said = f"{_memory(process):.1f} MiB in all, {before:.1f} with {_WARM}"
            yield Figure(f"{wanted} watched mailboxes: memory each", each, 0.25, "at most", " MiB", said)
            yield Figure(
                f"{wanted} watched mailboxes: idle CPU", load, 0.7, "at most", " %", f"of a core, over {quiet:.0f} s"
            )


def _connect(running: RunningAppliance, server: MailServer, count: int) -> None:
    users = [server.fresh_user() for _ in range(count)]
    for user in users:
        server.deliver(user, _MESSAGE)
    with ThreadPoolExecutor(2) as pool:
        accounts = list(pool.map(lambda user: connect(running, server, user), users))
    with Asker(running) as asker:
        wait(lambda: _are_ready(asker, accounts), "the mailboxes are not ready", 300, 0.5)
    time.sleep(3)


def _are_ready(asker: Asker, accounts: Sequence[str]) -> bool:
    ready = {each["id"] for each in asker.data("/status")["accounts"] if each["status"] == "ready"}
    return set(accounts) <= ready


def _memory(process: psutil.Process) -> float:
    return sum(memory_of(process))


def _idle_load(pid: int, seconds: float) -> float:
    """Percent of one core."""
    before, began = seconds_of(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (seconds_of(pid) - before) / (time.monotonic() - began)
