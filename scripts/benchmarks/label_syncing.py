"""The first sync of a mailbox with labels beside the same messages without, and all labels of a large one read again.

Both are told by a server of ours that does as little as it can, so that what is compared is what we do.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import stage
from benchmarks.canned import canned
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.options import OPTIONS
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.store.store import Store
from tests.sync.mirrored import Mirror

_MESSAGES, _MANY, _ROUNDS = 5_000, 100_000, 3


def measure() -> Iterator[Figure]:
    """With labels and without, in turns."""
    count, many = OPTIONS.scaled(_MESSAGES), OPTIONS.scaled(_MANY)
    with stage.scratch() as folder, ExitStack() as servers:
        plain, labeled = (servers.enter_context(canned(count, has_labels=each)) for each in (False, True))
        pairs = [
            (_synced(folder / f"{turn}a", plain, count), _synced(folder / f"{turn}b", labeled, count))
            for turn in range(_ROUNDS)
        ]
        large = servers.enter_context(canned(many, has_labels=True))
        read = [_read_all(large, many) for _ in range(_ROUNDS)]
    without, with_labels = ([count / pair[index] for pair in pairs] for index in (0, 1))
    said, beside = (f"{spread(each)} a second" for each in (with_labels, without))
    name = f"first sync of {count:,} with labels over none"
    yield Figure(name, ratio_of(with_labels, without), 0.8, "at least", "", said, beside)
    name = f"labels and flags of {many:,}, all again"
    yield Figure(name, statistics.median(read), 2, "at most", " s", f"{spread(read, '.2f')} s")


def _synced(folder: Path, port: int, count: int) -> float:
    """Seconds until all messages are in a new store, whole."""
    endpoint = _endpoint(port)
    store = Store.open(folder)
    mirror = Mirror(store, Connection("ada@example.test", endpoint, endpoint))
    began = time.perf_counter()
    mirror.supervisor.start()
    try:
        mirror.wait_for_status("ready")
        mirror.wait_for(lambda: mirror.supervisor.progress(mirror.account_id) is None, "the bodies", 300)
        took = time.perf_counter() - began
        assert int(store.database.value("SELECT count(*) FROM messages WHERE body = 1")) == count
        return took
    finally:
        mirror.supervisor.stop()
        store.close()


def _read_all(port: int, count: int) -> float:
    with ImapMailbox.open(_endpoint(port), ca_file="", timeout=30) as mailbox:
        began = time.perf_counter()
        news = mailbox.folder_news("[Gmail]/All Mail", None, 0)
        took = time.perf_counter() - began
    assert len(news.changed) == count
    assert "Label 7" in news.changed[7]
    return took


def _endpoint(port: int) -> Endpoint:
    return Endpoint("127.0.0.1", port, "none", "ada@example.test", "secret")
