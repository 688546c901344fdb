"""Fetch bodies: those missing of messages whose headers are stored, and of new messages in a quick first sync.

While one batch is fetched, the child process parses the one before, and another thread stores the one before that.
Missing bodies are fetched folder by folder, the newest first. Large messages of a folder come after its small ones, or
while the child process is busy.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mailbox_appliance.mail.large import LARGE_MESSAGE
from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.sync import folder as sync_folder
from mailbox_appliance.sync.context import SyncSession
from mailbox_appliance.sync.folder import FolderSync
from mailbox_appliance.sync.parsers import PendingBatch
from mailbox_appliance.sync.storing import StoringTask

BATCH_COUNT = 200
BATCH_BYTES = 3 << 20
LARGE_COUNT = 20  # Large messages share one transaction while their texts stay within BATCH_BYTES.
_LISTED = 2000  # looked up at once
_MOST_UNDER_WAY = 2  # batches that are parsed or stored, beside the one that is fetched


@dataclass(frozen=True)
class _StoringBatch:
    """A fetched batch of messages that is parsed, and then stored. `is_new`: nothing of them was stored before."""

    folder: FolderSync
    count: int
    is_new: bool
    pending: PendingBatch
    storing: StoringTask[tuple[str, ...]]


class Backlog:
    """The messages of one connection whose bodies are still to be fetched. Empty until `add` is called."""

    def __init__(self, session: SyncSession) -> None:
        self.remaining = 0
        self._session = session
        self._folders: deque[FolderSync] = deque()
        self._waiting: deque[tuple[int, int]] = deque()
        self._under_way: deque[_StoringBatch] = deque()
        self._large: sync_folder.ParsedMessages = []  # of one folder
        self._large_folder: FolderSync | None = None
        self._large_waiting: deque[FetchedMessage] = deque()  # of the folder whose new messages are fetched whole

    @property
    def current_folder(self) -> FolderSync | None:
        """The folder whose bodies are fetched now, or None if no folder is left."""
        return self._folders[0] if self._folders else None

    def add(self, folders: Iterable[FolderSync], added: int = 0) -> None:
        """Add folders that may have messages without a body. `added`: the number of new messages without a body.

        If the backlog is empty, `added` is ignored and such messages are counted in the store.
        """
        if self._folders:
            self.remaining += added  # Counting again for each batch would take longer and longer.
        else:
            self.remaining = self._session.store.mailbox_writer.count_without_body(self._session.account_id)
        if self.remaining:
            self._folders.extend(folder for folder in folders if folder not in self._folders)

    def remove(self, folder: FolderSync) -> None:
        """Remove a folder from the backlog, because it was deleted or the server refuses to open it."""
        self.finish()
        if folder in self._folders:
            self._folders.remove(folder)
            self._waiting.clear()

    def has_small(self) -> bool:
        """Whether the next message without a body is small, so that fetching it shows how quick the server is."""
        return self._find_current() is not None and self._waiting[0][1] <= LARGE_MESSAGE

    def step(self) -> bool:
        """Fetch one batch of bodies, and store the previous batch. Returns False if nothing was left to do.

        Raises RemoteFault.
        """
        folder = self._find_current()
        if folder is None:
            self.remaining = 0
            return self.finish()
        if not folder.select():
            self._waiting.clear()
            return True
        if self._waiting[0][1] > LARGE_MESSAGE:
            self._fetch_large(folder, self._waiting.popleft()[0])
        else:
            self._fetch(folder, self._take_uids(folder))
        return True

    def fetch_new(self, folder: FolderSync) -> None:
        """Fetch one batch of new messages whole, of a folder whose `takes_whole` is true. Raises RemoteFault."""
        batch = folder.fetch_whole_batch()
        if batch is None:
            return
        if batch.others:
            self.add([folder], len(batch.others))
            self._large_waiting.extend(message for message in batch.others if message.size > LARGE_MESSAGE)
        while self._large_waiting and self._under_way and not self._under_way[-1].pending.is_parsed:
            self._read_large(folder, self._large_waiting.popleft())
        self._begin(folder, batch.messages, is_new=True)

    def finish(self) -> bool:
        """Store the bodies that were fetched but not stored yet. Returns whether there were any."""
        has_some = bool(self._under_way or self._large)
        self._large_waiting.clear()  # They are listed again as messages without a body.
        while self._under_way:
            self._end_oldest()
        self._store_large()
        return has_some

    def close(self) -> None:
        """Wait for the batches under way, after a fault. Whether they were stored does not matter."""
        for batch in self._under_way:
            batch.storing.wait()
        self._under_way.clear()

    def collect(self) -> None:
        """Note the batches that are stored by now, without waiting for the others."""
        while self._under_way and self._under_way[0].storing.is_done:
            self._end_oldest()

    def _find_current(self) -> FolderSync | None:
        """Return the folder to fetch from, after listing its messages without bodies. None if no folder has any."""
        while self._folders and not self._waiting:
            self.finish()  # So that messages listed from now on are fetched later.
            folder = self._folders[0]
            resting = self._session.backoff.list_postponed(folder.folder.number)
            unfilled = self._session.store.mailbox_writer.list_without_body(
                folder.folder.number, _LISTED + len(resting)
            )
            listed = [(uid, size) for uid, size in unfilled if uid not in resting]
            # Large ones come last: each between two small ones would end a batch, and small batches cost far more.
            self._waiting.extend(sorted(listed, key=lambda pair: pair[1] > LARGE_MESSAGE))
            if not self._waiting:
                self._folders.popleft()
        return self._folders[0] if self._waiting else None

    def _take_uids(self, folder: FolderSync) -> list[int]:
        """Remove the next batch from the queue and return its UIDs.

        A message that the server failed to return earlier makes a batch of its own.
        """
        backoff, number = self._session.backoff, folder.folder.number
        most = backoff.batch_size(BATCH_COUNT)
        uids: list[int] = []
        weight = 0
        while self._waiting and len(uids) < most:
            uid, size = self._waiting[0]
            is_suspect = backoff.is_suspect(number, uid)
            if size > LARGE_MESSAGE or (uids and (is_suspect or weight + size > BATCH_BYTES)):
                break
            uids.append(uid)
            weight += size
            self._waiting.popleft()
            if is_suspect:
                break
        return uids

    def _fetch(self, folder: FolderSync, uids: list[int]) -> None:
        messages = sync_folder.fetch_whole(self._session, folder.folder.number, uids)
        there = {message.uid for message in messages}
        self._begin(folder, messages, is_new=False)
        self._postpone(folder, set(uids) - there)

    def _postpone(self, folder: FolderSync, uids: set[int]) -> None:
        """Retry later the messages that the server did not return. If some no longer exist, check the folder again."""
        if uids - sync_folder.postpone(self._session, folder.folder.number, uids):
            self._session.backoff.postpone(folder.folder.number, uids)
            folder.is_due = True

    def _fetch_large(self, folder: FolderSync, uid: int) -> None:
        found = list(self._session.mailbox.fetch_headers([uid]))
        if not found or not self._read_large(folder, found[0]):
            self._postpone(folder, {uid})

    def _read_large(self, folder: FolderSync, message: FetchedMessage) -> bool:
        """Fetch a large message, and store it with the next ones. Returns False if the server does not return it."""
        pairs = sync_folder.fetch_large(self._session, folder.folder.number, message)
        self._large += pairs
        self._large_folder = folder
        texts = sum(len(parsed.text or "") + len(parsed.html or "") for _, parsed in self._large)
        if len(self._large) >= LARGE_COUNT or texts > BATCH_BYTES:
            self._store_large()
        return bool(pairs)

    def _store_large(self) -> None:
        large, self._large = self._large, []
        if large and self._large_folder is not None:
            self._session.store.mailbox_writer.add_bodies(self._large_folder.folder, large, large=True)
            self._note_filled(len(large))

    def _begin(self, folder: FolderSync, messages: list[FetchedMessage], *, is_new: bool) -> None:
        """Have a batch parsed and stored, after waiting until few others are under way. Empties `messages`."""
        services = self._session.services
        pending = services.parsers.begin([message.source for message in messages])

        def store() -> tuple[str, ...]:
            try:
                pairs = list(zip(messages, pending.result(), strict=True))
                writer = services.store.mailbox_writer
                if is_new:
                    return writer.add(folder.folder, pairs) if pairs else ()
                writer.add_bodies(folder.folder, pairs)
                return ()
            finally:
                # Their bytes: the mailbox may wait long for its next turn, in which it learns that they are stored.
                messages.clear()
                pending.sources = ()

        count, storing = len(messages), services.storing.submit(store)
        self._under_way.append(_StoringBatch(folder, count, is_new, pending, storing))
        while len(self._under_way) > _MOST_UNDER_WAY:
            self._end_oldest()

    def _end_oldest(self) -> None:
        batch = self._under_way.popleft()
        added = batch.storing.result()
        if batch.is_new:
            batch.folder.note_whole_batch(batch.count, added)
        else:
            self._note_filled(batch.count)

    def _note_filled(self, count: int) -> None:
        self._session.announce(())
        self.remaining = max(0, self.remaining - count)
