"""Events told to 500 readers: how late they have them; what they cost others, memory, a first sync, and the disk."""

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks import stage, unjournaled
from benchmarks.asking import Asker, described, p95
from benchmarks.figures import Figure, spread
from benchmarks.first_sync import first_sync
from benchmarks.mailboxes import connect, dovecot, seeded, wait_until_complete
from benchmarks.options import OPTIONS
from benchmarks.processes import memory_of, seconds_of
from benchmarks.waiting import Readers, Told
from mailbox_appliance.store.changes import KINDS
from mailbox_appliance.store.store import Store
from tests.servers.dovecot import MailServer
from tests.servers.prober import Latency, Prober
from tests.servers.running import PASSWORD, RunningAppliance

_READERS, _MEMBERS = 500, 20
_DELIVERIES, _ROUNDS, _SECONDS = 30, 5, 4.0
_EVERY = 1.0  # seconds between two deliveries
_MESSAGES, _ROWS = 20_000, 1_000_000


def measure() -> Iterator[Figure]:
    """Readers first, then the first sync with and without the journal, then a long journal."""
    with stage.scratch() as folder, dovecot(folder) as server:
        with stage.appliance(folder / "data") as running:
            yield from _readers(running, server)
        yield from _first_sync(folder, server)
        yield _disk(folder / "rows")


def _readers(running: RunningAppliance, server: MailServer) -> Iterator[Figure]:
    """Rounds in turn: nobody waits, all wait, and all are told of deliveries."""
    user = server.fresh_user()
    server.deliver(user, _message(0))
    with Asker(running) as asker:
        account = connect(running, server, user)
        wait_until_complete(asker, account)
    assert running.process is not None
    process = psutil.Process(running.process.pid)
    tokens = [_session(running) for _ in range(_MEMBERS)]
    count = OPTIONS.scaled(_READERS, least=20)
    alone, waiting, during, grown, told, spent = [], [], [], [], [], []
    _me(running)
    for number in range(_ROUNDS):
        alone.append(_me(running).p95)
        before = memory_of(process)[0]
        with Readers(running.url, tokens, count) as readers:
            waiting.append(_me(running).p95)
            grown.append(memory_of(process)[0] - before)
            prober, used = Prober(running.url.removeprefix("http://"), running.token or ""), seconds_of(process.pid)
            for delivery in range(_DELIVERIES // _ROUNDS):
                server.deliver(user, _message(1 + number * 1000 + delivery))
                time.sleep(_EVERY)
            during.append(prober.stop().p95)
            told += readers.stop()
            spent.append((seconds_of(process.pid) - used) / max(1, _DELIVERIES // _ROUNDS) * 1000)
    yield from _lateness(told, count, spent)
    yield _beside(f"p95 of GET /me with {count} waiting readers", waiting, alone)
    yield _beside(f"p95 of GET /me while {count} readers get an event a second", during, alone)
    # The first round also fills the free lists of Python; what later rounds leave is not the readers'.
    yield Figure(f"memory of {count} waiting readers", max(grown), 20, "at most", " MiB", f"{spread(grown, '.1f')} MiB")


def _lateness(told: Sequence[Told], count: int, spent: Sequence[float]) -> Iterator[Figure]:
    created = [each for each in told if each.type == "message.created"]
    assert created, "no event was told"
    assert all(len(each.late) == count for each in created), "an event was told too often, or not to all"
    late = [milliseconds for each in created for milliseconds in each.late]
    said = f"{described(late)}; {statistics.median(spent):.0f} ms of processor time a delivery"
    yield Figure(f"p95 of {count} readers, commit to event", p95(late), 50, "at most", " ms", said)


def _beside(name: str, values: Sequence[float], alone: Sequence[float]) -> Figure:
    ratio = statistics.median(values) / statistics.median(alone)
    return Figure(name, ratio, 1.3, "at most", "x", f"{spread(values, '.1f')} ms", f"alone: {spread(alone, '.1f')} ms")


def _me(running: RunningAppliance) -> Latency:
    prober = Prober(running.url.removeprefix("http://"), running.token or "")
    time.sleep(_SECONDS)
    return prober.stop()


def _session(running: RunningAppliance) -> str:
    request = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "bench"}
    return str(running.ask("POST", "/auth/login", request).data["token"])


def _message(number: int) -> bytes:
    return (
        f"From: Ada <ada@example.org>\r\nTo: <me@example.test>\r\nSubject: delivery {number}\r\n"
        f"Message-ID: <{number}@example.org>\r\n\r\nHello\r\n"
    ).encode()


def _first_sync(folder: Path, server: MailServer) -> Iterator[Figure]:
    """By processor time, which other work on the machine changes less than the time that passes."""
    count = OPTIONS.scaled(_MESSAGES)
    user = seeded(server, count)
    rounds = [
        [first_sync(folder / "sync", server, user, count, argv).processor for argv in (None, unjournaled.ARGV)]
        for _ in range(max(1, _ROUNDS // 2))
    ]
    ours, without = zip(*rounds, strict=True)
    yield Figure(
        f"first sync of {count:,} with the journal over one without",
        statistics.median(one / other for one, other in rounds),
        1.05,
        "at most",
        "x",
        f"{spread(ours, '.1f')} s of processor time",
        f"without: {spread(without, '.1f')} s",
    )


def _disk(data: Path) -> Figure:
    rows = OPTIONS.scaled(_ROWS)
    with stage.appliance(data):
        pass
    store = Store.open(data)
    try:
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        before = store.database.value(pages)
        insert = (
            "WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            " INSERT INTO changes (kind, account, subject)"
            " SELECT ?, 1, 'msg_' || lower(hex(randomblob(13))) FROM numbers"
        )
        with store.database.transaction():
            store.database.change(insert, (rows, KINDS.index("message.updated") + 1))
        size = (store.database.value(pages) - before) / (1 << 20) * _ROWS / rows
    finally:
        store.close()
    return Figure("a million rows of the journal", size, 120, "at most", " MiB", f"{rows:,} rows")
