"""Brings the mirror of one folder up to date, in batches: talk, then write, never both at once.

Each batch is one transaction. The position is noted only when all of it is done, so that a run that was broken off is
taken up again; whatever was already brought in is not fetched twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mailbox_appliance.mail.parse import parse
from mailbox_appliance.records import FetchedMessage, FlagChange, MirroredFolder, ParsedMessage
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.plan import (
    ChangeFlags,
    Fetch,
    FolderMirror,
    Remove,
    Reset,
    ServerFolder,
    is_unchanged,
    plan,
)

BATCH_COUNT = 50
BATCH_BYTES = 8 << 20
WRITE_COUNT = 1000

#: Told after each batch: the ids of the messages that are new, and how many are still to come.
Arrived = Callable[[tuple[str, ...], int], None]


class Stopped(Exception):
    """Sync was told to stop; what is written stays, the rest is for the next time."""


class FolderSync:
    """Keeps the folders of one mailbox over one connection."""

    def __init__(self, store: Store, mailbox: ImapMailbox, arrived: Arrived, is_stopping: Callable[[], bool]) -> None:
        self._store, self._mailbox = store, mailbox
        self._arrived, self._is_stopping = arrived, is_stopping

    def run(self, folder: MirroredFolder) -> MirroredFolder:
        """Bring a folder up to date, and answer it with the position reached. It stays selected.

        Raises RemoteFault, and Stopped between two batches.
        """
        state = self._mailbox.select(folder.path)
        if is_unchanged(folder.state, state):
            return folder
        server = ServerFolder(state, self._mailbox.flags() if state.exists else {})
        mirror = FolderMirror(folder.state, self._store.mirror.known(folder.number))
        for step in plan(mirror, server):
            match step:
                case Reset():
                    self._store.folders.reset(folder.number, step.state)
                case Remove():
                    self._remove(folder, step.uids)
                case ChangeFlags():
                    self._change_flags(folder, step.changes)
                case Fetch():
                    self._fetch(folder, step.uids)
        self._store.folders.set_state(folder.number, state)
        return replace(folder, state=state)

    def _remove(self, folder: MirroredFolder, uids: Sequence[int]) -> None:
        for start in range(0, len(uids), WRITE_COUNT):
            self._go_on()
            self._store.mirror.remove(folder.number, uids[start : start + WRITE_COUNT])

    def _change_flags(self, folder: MirroredFolder, changes: Sequence[FlagChange]) -> None:
        for start in range(0, len(changes), WRITE_COUNT):
            self._go_on()
            self._store.mirror.change_flags(folder.number, changes[start : start + WRITE_COUNT])

    def _fetch(self, folder: MirroredFolder, uids: Sequence[int]) -> None:
        left = len(uids)
        for batch in _batches(self._mailbox.fetch(uids)):
            self._go_on()
            left -= len(batch)
            self._arrived(self._store.mirror.add(folder, batch), left)

    def _go_on(self) -> None:
        if self._is_stopping():
            raise Stopped


def _batches(messages: Iterator[FetchedMessage]) -> Iterator[list[tuple[FetchedMessage, ParsedMessage]]]:
    """The messages, parsed, in groups for one transaction each."""
    batch: list[tuple[FetchedMessage, ParsedMessage]] = []
    weight = 0
    for message in messages:
        batch.append((message, parse(message.source)))
        weight += len(message.source)
        if len(batch) == BATCH_COUNT or weight >= BATCH_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch
