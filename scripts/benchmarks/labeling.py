"""Lists and counts of a mailbox with 100,000 messages and 30 labels, through HTTP, beside the same without labels."""

import random
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import stage
from benchmarks.asking import Asker, described
from benchmarks.figures import Figure, ratio_of
from benchmarks.options import OPTIONS
from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.store.store import Store
from tests.servers.running import RunningAppliance
from tests.store.labeled import LabeledMailbox
from tests.store.mail import Mailbox, fetched, parsed

_MESSAGES, _LABELS, _EACH = 100_000, 30, 100
_BATCH = 500
#: The flags and labels of Gmail's own, and how often a message has each.
_OFTEN = {"\\Seen": 0.8, "\\Inbox": 0.5, "\\Important": 0.3, "\\Sent": 0.2, "\\Flagged": 0.05}


def measure() -> Iterator[Figure]:
    """Each path over and over, in turns."""
    count = OPTIONS.scaled(_MESSAGES, least=5_000)
    with stage.scratch() as folder:
        running = RunningAppliance(folder / "data").start()
        running.set_up()
        running.stop()
        labeled, plain = _fill(folder / "data", count)
        running.start()
        try:
            with Asker(running) as asker:
                took = _asked(asker, labeled, plain)
        finally:
            running.stop()
    for name, (ours, beside) in took.items():
        value, said = statistics.median(ours), described(ours)
        if name == "GET folders":
            yield Figure(f"{name}, {count:,} with labels", value, 40, "at most", " ms", said)
        elif beside:
            with_them = f"{statistics.median(beside):.1f} ms without"
            yield Figure(f"{name}, labels over none", ratio_of(ours, beside), 1.5, "at most", "", said, with_them)
        else:
            yield Figure(f"{name}, {count:,} with labels", value, 10, "at most", " ms", said)


def _asked(asker: Asker, labeled: str, plain: str) -> dict[str, tuple[list[float], list[float]]]:
    paths: dict[str, tuple[str, str | None]] = {
        "GET folders": ("folders", None),
        "the inbox": ("messages?folder=inbox", "messages?folder=inbox"),
        "unread": ("messages?folder=inbox&unread=true", "messages?folder=inbox&unread=true"),
        "a label": ("messages?folder=Label%203", None),
        "label:": ('messages?q=label:"Label%203"', None),
    }
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in paths}
    for _ in range(_EACH):
        for name, pair in paths.items():
            for account, path, values in zip((labeled, plain), pair, took[name], strict=True):
                values += asker.milliseconds([f"/accounts/{account}/{path}"]) if path else []
    return took


def _fill(data: Path, count: int) -> tuple[str, str]:
    """A mailbox with labels and one without, of the same messages; their ids."""
    store = Store.open(data)
    owner = store.database.value("SELECT id FROM members")
    labels = [f"Label {number}" for number in range(_LABELS)]
    labeled, plain = LabeledMailbox(store, *labels, owner=owner), Mailbox(store, owner)
    chance = random.Random(7)
    for start in range(0, count, _BATCH):
        batch = []
        for uid in range(start + 1, min(start + _BATCH, count) + 1):
            flags = {name for name, often in _OFTEN.items() if chance.random() < often}
            flags.update(chance.sample(labels, chance.choice((0, 0, 1, 1, 2, 3))))
            came = replace(
                fetched(uid, [*flags], after=uid * 60), provider_id=str(uid), provider_thread_id=str(uid // 3)
            )
            batch.append((came, parsed(f"<{uid}@x>", subject=f"message {uid}")))
        store.mailbox_writer.add_headers(labeled.folder(), batch)
        store.mailbox_writer.add_headers(plain.folder(), [(_without_labels(came), said) for came, said in batch])
    with store.database.transaction():  # nothing listens there
        store.database.change("UPDATE accounts SET connection = replace(connection, 'imap.example.test', '127.0.0.1')")
    store.close()
    return labeled.id, plain.id


def _without_labels(message: FetchedMessage) -> FetchedMessage:
    return replace(message, flags=message.flags & {"\\Seen"}, provider_id=None, provider_thread_id=None)
