"""`scripts/bench growth`: what things cost at stores of different sizes, in processor time of the serving process.

Processor time is what can be compared between runs: the machine may be doing other things as well. All is measured
once at each size, on the stores that the other measurements use, too.
"""

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks import growth, history, pages, stage
from benchmarks.asking import Asker
from benchmarks.figures import table
from benchmarks.filling import filled
from benchmarks.growth import Point
from benchmarks.mailboxes import connect, dovecot, seeded, wait
from benchmarks.options import OPTIONS
from benchmarks.questions import questions
from tests.servers.fault_proxy import FaultProxy
from tests.servers.running import RunningAppliance

_SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
#: What stores of other measurements are as well.
_FILLING: dict[int, dict[str, Any]] = {5_000_000: {"mailboxes": 300}}
_STARTS, _EACH, _ROUNDS, _NEW = 3, 50, 5, 2000
#: Seconds until what a start brings along is done: the mailboxes of the store have no server to be connected to.
_SETTLED = 5.0
_MIB = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Measure at the sizes that were asked for, and keep the values if wanted."""
    parser = argparse.ArgumentParser(prog="scripts/bench growth", description="Measures what grows with a store.")
    parser.add_argument("sizes", nargs="*", type=int, metavar="MESSAGES", help="of the stores; without: all four")
    parser.add_argument("--write", action="store_true", help="keep the values, and write the pages and the plot again")
    parser.add_argument("--cache", type=Path, help="where the stores lie between two runs")
    parser.add_argument("--quick", action="store_true", help="see that it works; the values mean nothing")
    options = parser.parse_args(arguments)
    OPTIONS.quick = options.quick
    OPTIONS.hurry(sys.modules[__name__])
    OPTIONS.cache = options.cache or OPTIONS.cache
    measured: list[Point] = []
    for size in options.sizes or _SIZES:
        print(f"growth: {size:,} messages ...", file=sys.stderr, end=" ", flush=True)
        began = time.perf_counter()
        measured += measure(size)
        print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
        if options.write:
            growth.write(growth.merged(growth.read(), measured))
            pages.write(history.read(), growth.read())
    print(table([("cost of", *growth.heading(measured), "exponent"), *growth.rows(measured)]))
    return 0


def measure(size: int) -> Iterator[Point]:
    """All values at one size."""
    date, commit = f"{datetime.now(UTC):%Y-%m-%d}", history.checked_out()
    for name, value, unit in _measured(size):
        yield Point(name, size, float(f"{value:.4g}"), unit, date, commit)


def _measured(size: int) -> Iterator[tuple[str, float, str]]:
    running = filled(OPTIONS.cache, size, **_FILLING.get(size, {}))
    try:
        yield "start, until the first answer", min(_start(running) for _ in range(_STARTS)), " s"
        time.sleep(_SETTLED)
        assert running.process is not None
        pid = running.process.pid
        with Asker(running) as asker:
            kinds = questions(asker, _EACH)
            for name in ("list", "search"):
                paths = [path for kind in kinds if kind.name.startswith(name) for path in kind.paths]
                yield name, 1000 * _spent(pid, lambda: asker.milliseconds(paths)) / len(paths), " ms"  # noqa: B023
            yield "memory after lists and searches", psutil.Process(pid).memory_info().rss / _MIB, " MiB"
            yield from _sync(running, asker, pid)
        yield "backup", _backup(running, pid), " s"
    finally:
        running.stop()


def _start(running: RunningAppliance) -> float:
    running.stop()
    running.start()
    assert running.process is not None
    running.ask("GET", "/me")
    return _clock(running.process.pid)


def _sync(running: RunningAppliance, asker: Asker, pid: int) -> Iterator[tuple[str, float, str]]:
    """A mailbox of a real server is added to the store, looked at again when nothing has changed, and removed."""
    with stage.scratch() as folder, dovecot(folder) as server:
        user, proxy = seeded(server, _NEW), server.proxy()
        account = ""

        def add() -> None:
            nonlocal account
            account = connect(running, server, user, proxy.port)
            wait(lambda: _is_complete(asker, account), "the mailbox was not synced", 600, 0.5)

        try:
            yield "sync: a message added", 1000 * _spent(pid, add) / _NEW, " ms"
            again = [_spent(pid, lambda: _resync(proxy, asker, account)) for _ in range(_ROUNDS)]
            yield "sync: nothing new", 1000 * statistics.median(again), " ms"
        finally:  # the store is to be as it was for whoever measures next
            if account:
                running.ask("DELETE", f"/accounts/{account}", timeout=600)


def _is_complete(asker: Asker, account: str) -> bool:
    [status] = [each for each in asker.data("/status")["accounts"] if each["id"] == account]
    return status["status"] == "ready" and status["lastSyncAt"] is not None and status["progress"] is None


def _resync(proxy: FaultProxy, asker: Asker, account: str) -> None:
    before = asker.data(f"/accounts/{account}")["lastSyncAt"]
    proxy.cut_all()
    wait(lambda: asker.data(f"/accounts/{account}")["lastSyncAt"] != before, "it was not looked at again", 60, 0.25)


def _backup(running: RunningAppliance, pid: int) -> float:
    shutil.rmtree(running.folder / "backups", ignore_errors=True)
    running.ask("PATCH", "/admin/settings", {"backup.daily": False})  # none but ours
    spent = _spent(pid, lambda: _made(running))
    shutil.rmtree(running.folder / "backups", ignore_errors=True)
    return spent


def _made(running: RunningAppliance) -> None:
    made = running.ask("POST", "/admin/backups", {}, timeout=3600)
    assert made.status == 201, made


def _spent(pid: int, act: Callable[[], object]) -> float:
    """The seconds of processor time that a process took meanwhile."""
    before = _clock(pid)
    act()
    return _clock(pid) - before


def _clock(pid: int) -> float:
    """The processor time of another process since its start, to the nanosecond (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)
