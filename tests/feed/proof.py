"""Proves that the feed of events gives the mirror: from zero, after any mix of changes, restarts and kill -9.

`scripts/prove-events` runs many seeds, the test suite some.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.changes import Event, list_event_types
from mailbox_appliance.store.store import Store
from tests.feed.walk import Reader, Walk, pages, seen_by_all
from tests.stores.opening import FORMATS, copied

STEPS = 120
_forking = multiprocessing.get_context("fork")


def prove(folder: Path, seed: int, steps: int = STEPS) -> Counter[str]:
    """Walk through changes and accidents with three readers; return what happened, and what a reader was told.

    Raises AssertionError if the copy of a reader differs from the mirror, or an event contradicts an earlier one.
    """
    chance, happened = random.Random(seed), Counter[str]()
    data = folder / "data"
    if seed % 5 in (3, 4):  # the numbers of the past formats
        copied(seed % 5, data)
    assert {3, 4} == set(FORMATS)
    walk = Walk(data, seed)
    accidents = (walk.restart, walk.restart, walk.trim, walk.trim, walk.back_up, walk.restore)
    try:
        readers = [Reader(walk.store.changes.to_position(0)) for _ in range(3)]
        for number in range(steps):
            walk.step()
            happened["changes"] += 1
            if chance.random() < 0.06:
                accident = chance.choice(accidents)
                accident()
                happened[accident.__name__] += 1
            if chance.random() < 0.04:
                _walk_until_killed(walk, readers[0], chance)
                happened["kill"] += 1
            for reader in readers:
                if number == steps - 1 or chance.random() < 0.2:
                    reader.read(walk.store, chance.randint(1, 20))
                    reader.require_equal(walk.store)
        _require_same_in_any_pages(walk.store)
        happened["reset"] = sum(reader.resets for reader in readers)
        return happened + readers[0].told
    finally:
        walk.store.close()


def _require_same_in_any_pages(store: Store) -> None:
    """The events are the same ones in pages of any size, and those of some types are some of them."""
    start = store.changes.to_position(store.changes.floor())
    everything = _read(store, start, 1000)
    for limit in (1, 2, 3, 7, 50, 99):
        assert _read(store, start, limit) == everything
    for kind in list_event_types():
        seen = seen_by_all(store, frozenset({kind}))
        changes, end = store.changes.read(store.changes.floor(), seen, 100_000)
        assert to_events(store, changes) == [one for one in everything if one.type == kind]
        assert end == store.changes.end()
    for event in everything[:: max(1, len(everything) // 10)]:  # who resumes after any event
        rest = [one for one in everything if _number(one) > _number(event)]
        assert _read(store, event.position, 1000) == rest


def _read(store: Store, position: str, limit: int) -> list[Event]:
    return [event for page in pages(store, position, limit) for event in page.events]


def _number(event: Event) -> int:
    return int(event.position.rpartition("-")[2])


def _walk_until_killed(walk: Walk, reader: Reader, chance: random.Random) -> None:
    """Let another process go on with the walk and tell a reader of it, until kill -9 at any moment."""
    walk.store.close()
    ours, theirs = _forking.Pipe()
    seed, limit, delay = chance.randrange(1 << 30), chance.randint(1, 20), chance.uniform(0.02, 0.15)
    child = _forking.Process(target=_walk_on, args=(theirs, walk.folder, seed, reader.position, limit, delay))
    child.start()
    theirs.close()
    try:
        while True:
            reader.take(ours.recv())
    except (EOFError, OSError):
        pass
    child.join()
    assert child.exitcode == -signal.SIGKILL, child.exitcode
    ours.close()
    walk.store = Store.open(walk.folder)
    walk.require_mailbox()


def _walk_on(told: Connection, folder: Path, seed: int, position: str, limit: int, delay: float) -> None:
    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    walk = Walk(folder, seed)
    while True:
        walk.step()
        if walk.chance.random() < 0.3:
            for page in pages(walk.store, position, limit):
                told.send(page)
                position = page.position


def main() -> int:
    """Prove it for many seeds, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="number of walks (default: 200)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"changes of a walk (default: {STEPS})")
    asked = parser.parse_args()
    began, happened = time.monotonic(), Counter[str]()
    for seed in range(asked.first, asked.first + asked.seeds):
        folder = Path(tempfile.mkdtemp(prefix="events-"))
        try:
            happened += prove(folder, seed, asked.steps)
        except BaseException:
            print(f"seed {seed}: the store is kept in {folder}", file=sys.stderr)
            raise
        shutil.rmtree(folder)
    for name, count in sorted(happened.items()):
        print(f"{name:18} {count:8,}")
    print(f"{asked.seeds} seeds: every copy equals the mirror ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
