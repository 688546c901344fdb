"""The first sync of a large mailbox beside mbsync, and beside mbsync followed by `notmuch new`, in turns."""

import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers, stage
from benchmarks.asking import Asker
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.mailboxes import connect, dovecot, seeded, wait, wait_until_complete
from benchmarks.options import OPTIONS
from benchmarks.processes import MemoryWatch, seconds_of
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD

_SMALL, _MESSAGES, _LARGE = 5_000, 20_000, 100_000
_ROUNDS = 2
_LONGEST = 3600  # seconds


@dataclass(frozen=True)
class FirstSync:
    """Seconds from the request that connects the mailbox on; `processor`: seconds with children; `peak` in MiB."""

    newest: float
    all: float
    processor: float
    peak: float
    peak_of_main: float


def measure() -> Iterator[Figure]:
    """Both fetch all; we also parse, index, and encrypt."""
    yield from _measure(_MESSAGES, _ROUNDS)


def measure_small() -> Iterator[Figure]:
    """The same with fewer messages."""
    yield from _measure(_SMALL, _ROUNDS)


def measure_large() -> Iterator[Figure]:
    """The same with more messages, once: for a run that asks for it."""
    yield from _measure(_LARGE, 1)


def _measure(messages: int, rounds_asked: int) -> Iterator[Figure]:
    peers.need("mbsync", "notmuch")
    count = OPTIONS.scaled(messages)
    with stage.scratch() as folder, dovecot(folder) as server:
        user = seeded(server, count)
        rounds = [_round(folder, server, user, count) for _ in range(rounds_asked)]
    mbsync, notmuch, ours = zip(*rounds, strict=True)
    rates = [count / each.all for each in ours]
    peer, both = [count / each for each in mbsync], [count / (a + b) for a, b in zip(mbsync, notmuch, strict=True)]
    spent = statistics.median(each.processor for each in ours) / count * 1000
    said = f"{spread(rates)} a second; {spent:.2f} ms of processor time a message"
    name = f"first sync of {count:,}"
    yield Figure(f"{name} over mbsync", ratio_of(rates, peer), 0.7, "at least", "", said, f"{spread(peer)} a second")
    yield Figure(
        f"{name} over mbsync + notmuch new", ratio_of(rates, both), 8, "at least", "", said, f"{spread(both)} a second"
    )
    newest = [each.newest for each in ours]
    yield Figure(
        f"list of the newest 50 of {count:,}",
        statistics.median(newest),
        5,
        "at most",
        " s",
        f"{spread(newest, '.2f')} s",
    )
    peak = max(each.peak for each in ours)
    main = f"the serving process alone: {max(each.peak_of_main for each in ours):.0f} MiB"
    yield Figure(f"memory in a first sync of {count:,} (RSS, with children)", peak, 250, "at most", " MiB", main)


def _round(folder: Path, server: MailServer, user: str, count: int) -> tuple[float, float, FirstSync]:
    maildir = folder / "maildir"
    before = _fetched(maildir, server, user, count)
    ours = first_sync(folder / "data", server, user, count)
    shutil.rmtree(maildir)
    # Before us and after us: how long it takes depends on what the disk still has to write.
    after = _fetched(maildir, server, user, count)
    indexed = peers.notmuch_new(maildir)
    assert peers.notmuch_count(maildir, "*") > count * 0.98, "notmuch indexed less"
    shutil.rmtree(maildir)
    return (before + after) / 2, indexed, ours


def _fetched(maildir: Path, server: MailServer, user: str, count: int) -> float:
    took = peers.mbsync(maildir, server.imap_port, user, PASSWORD)
    files = sum(1 for part in ("cur", "new") for _ in (maildir / "INBOX" / part).iterdir())
    assert files == count, f"mbsync fetched {files}"
    return took


def first_sync(folder: Path, server: MailServer, user: str, count: int, argv: Sequence[str] | None = None) -> FirstSync:
    """Sync a mailbox with so many messages into a new appliance. `argv`: another program that serves."""
    with stage.appliance(folder, argv=argv) as running, Asker(running) as asker:
        assert running.process is not None
        with MemoryWatch(running.process.pid) as memory:
            began, before = time.perf_counter(), seconds_of(running.process.pid)
            account = connect(running, server, user)
            inbox = f"/accounts/{account}/messages?folder=inbox&limit=50"
            wait(lambda: len(asker.data(inbox)["items"]) == 50, "no list came", 60)
            newest = time.perf_counter() - began
            shown = [item["id"] for item in asker.data(inbox)["items"]]
            wait_until_complete(asker, account, _LONGEST)
            whole = time.perf_counter() - began
            spent = seconds_of(running.process.pid) - before
        assert _count(asker, account) == count, "not all messages came"
        assert shown == [item["id"] for item in asker.data(inbox)["items"]], "the list was not of the newest"
    shutil.rmtree(folder)
    return FirstSync(newest, whole, spent, memory.peak, memory.peak_of_main)


def _count(asker: Asker, account: str) -> int:
    folders = asker.data(f"/accounts/{account}/folders")
    return int(next(folder["totalCount"] for folder in folders if folder.get("role") == "inbox"))
