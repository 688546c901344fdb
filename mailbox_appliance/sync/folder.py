"""The sync of one folder: read changes from the server, store them, and add new messages, a batch at a time.

    catch_up ...... reads the changes, stores removals and flags, and queues the UIDs of new messages
    fetch_batch ... fetches the headers of the newest queued UIDs
    store_batch ... recognizes moved messages and adds the others; stores the folder's state after the last batch

In a first sync from a quick server, `fetch_whole_batch` and `note_whole_batch` replace the last two.

Between `fetch_batch` and `store_batch` the follower also checks the folders that messages may have moved out of
(`HeaderBatch.origins`).

Each batch is one transaction, and none is open during a request to the server. After an interruption, sync continues
from the stored state of the folder, and does not fetch messages again that are stored already.
"""

import dataclasses
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mailbox_appliance.mail.large import LARGE_MESSAGE
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, FolderChanges, FolderState, MessageIdentity, MirroredFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.sync.context import SyncSession, is_server_fault
from mailbox_appliance.sync.plan import (
    ChangeFlags,
    FetchMessages,
    FolderMirror,
    RemoveMessages,
    ResetFolder,
    Step,
    is_settled,
    may_be_news,
    plan,
)

# --- Bodies: small messages whole, large ones without attachments ---
#
# A message that the server does not return is left out and requested again after a pause.


ParsedMessages = list[tuple[FetchedMessage, ParsedMessage]]


def fetch(
    session: SyncSession, folder_number: int, messages: Sequence[FetchedMessage]
) -> Iterator[tuple[bool, ParsedMessages]]:
    """Fetch and parse messages of the selected folder. Yields groups, each with whether its messages are large.

    `messages`: the messages with their headers. The small ones are one group; each large message is another. Messages
    that were deleted since, or that the server does not return, are left out. Raises RemoteFault.
    """
    found = fetch_whole(session, folder_number, [message.uid for message in messages if message.size <= LARGE_MESSAGE])
    parsed = session.services.parsers.begin([message.source for message in found]).result()
    yield False, list(zip(found, parsed, strict=True))
    for message in messages:
        if message.size > LARGE_MESSAGE:
            yield True, fetch_large(session, folder_number, message)


def fetch_whole(
    session: SyncSession, folder_number: int, uids: Sequence[int], sizes: Mapping[int, int] | None = None
) -> list[FetchedMessage]:
    """Return small messages with their raw source. Deleted messages and those that the server refuses are left out.

    `sizes`: their sizes as the server reported them; None if they must be requested.
    """
    backoff = session.backoff
    asked = [uid for uid in uids if not backoff.has_given_up("bodies", folder_number, uid)]
    if not asked:
        return []
    began = time.monotonic()
    with backoff.attempt("bodies", folder_number, asked):
        found = list(session.mailbox.fetch_messages(asked, sizes))
    session.note_speed(time.monotonic() - began, len(found))
    backoff.record_success(folder_number, [message.uid for message in found])
    return found


def fetch_large(session: SyncSession, folder_number: int, message: FetchedMessage) -> ParsedMessages:
    """Fetch and parse a large message without its attachments: its header, structure and texts.

    Returns one pair, or an empty list if the server does not return the message.
    """
    backoff, uid = session.backoff, message.uid
    if backoff.has_given_up("bodies", folder_number, uid):
        return []
    try:
        with backoff.attempt("bodies", folder_number, [uid]):
            found = client.read_large(session.mailbox, uid, session.stop.check, session.services.parsers)
    except RemoteFault as fault:
        if fault.kind != "refused" or is_server_fault(fault):
            raise
        return []
    backoff.record_success(folder_number, [uid])
    return [(message, with_searched_words(found, session.services.parsers))]


def postpone(session: SyncSession, folder_number: int, uids: Collection[int]) -> frozenset[int]:
    """Postpone messages that the server did not return. Returns the UIDs of those that still exist."""
    if not uids:
        return frozenset()
    session.mailbox.refresh()  # Most likely they were moved or deleted at this moment.
    there = session.mailbox.fetch_flags(sorted(uids)).keys() & set(uids)
    session.backoff.postpone(folder_number, there)
    return frozenset(there)


# --- One folder ---


T = TypeVar("T")

HEADERS = 500  # a batch
WHOLE_COUNT, WHOLE_BYTES = 200, 3 << 20  # a batch
#: New messages up to this number are fetched whole; of more, headers come first.
FEW = 50
_SIZES = 2000  # sizes requested at once
_WRITE_COUNT = 1000  # flag changes or removed messages in one transaction
#: Without CONDSTORE, comparing all flags is repeated only after this many times the duration of the last comparison.
_PAUSE = 20


@dataclass
class HeaderBatch:
    """New messages whose headers were fetched, ready to be stored.

    - uids: all UIDs that were requested.
    - messages: the messages that the store does not have yet.
    - is_whole: whether `store_batch` also fetches and stores their bodies; otherwise the backlog does so later.
    - origins: numbers (keys in the store) of other folders that have such messages, which may come from there.
    """

    uids: Sequence[int]
    messages: ParsedMessages
    is_whole: bool
    origins: frozenset[int] = frozenset()


@dataclass(frozen=True)
class WholeBatch:
    """New messages that were fetched whole.

    `others`: those that were stored with their headers only, because they are large or were not returned.
    """

    messages: list[FetchedMessage]
    others: list[FetchedMessage]


class FolderSync:
    """Keeps the stored copy of one folder equal to the server's, during one connection."""

    def __init__(self, folder: MirroredFolder, session: SyncSession) -> None:
        self.folder = folder
        self.is_due = False
        self.is_urgent = False
        self.pending: list[int] = []  # UIDs to fetch, the newest last
        self._refused_since: float | None = None
        self._session = session
        self._reached = self._stored = folder.state
        self._status: FolderState | None = None  # from STATUS, before the last catch-up
        self._pauses_until = 0.0
        self._count: int | None = None  # number of rows with a UID; None if it must be counted
        self._sizes: dict[int, int] = {}  # of the newest queued messages
        self._being_stored = 0  # batches fetched whole and not noted as stored
        self._has_begun = False  # whether headers of new messages were fetched

    @property
    def position(self) -> FolderState | None:
        """The state of the folder on the server at the last `catch_up`; None before the first sync."""
        return self._reached

    @property
    def has_work(self) -> bool:
        """Whether the server may have changes in the folder that are not read yet, or new messages are queued."""
        return self.is_due or bool(self.pending)

    def request(self) -> None:
        """Make this folder the next one to be checked, because the appliance itself changed it."""
        self.is_due = self.is_urgent = True
        self._count = None

    def require_full_compare(self) -> None:
        """Compare flags and labels of all messages at the next check, as reported changes may be incomplete."""
        self.is_due = True
        if self._reached is not None:
            self._reached = dataclasses.replace(self._reached, highestmodseq=None)

    def apply_status(self, state: FolderState, *, thorough: bool) -> None:
        """Mark the folder to be checked if its state in a STATUS response shows that it may have changed.

        `thorough`: also check a server without CONDSTORE (RFC 7162), which does not report changed flags in STATUS.
        """
        # On some servers SELECT and STATUS never agree, so the STATUS result before the last catch-up counts as well.
        if all(may_be_news(one, state, thorough=thorough) for one in (self._reached, self._status)):
            is_cheap = state.highestmodseq is not None or state not in (self._reached, self._status)
            self.is_due = self.is_due or is_cheap or time.monotonic() >= self._pauses_until
        self._status = state

    def mark_refused(self) -> None:
        """Do not check the folder again until the next check of all folders, because the server refused to open it."""
        self._refused_since = self._refused_since or time.monotonic()
        self.is_due, self._status = False, None
        self.pending.clear()
        self._being_stored = 0
        self._reached = self._stored

    @property
    def refusal_seconds(self) -> float:
        """The seconds for which the server has refused to open the folder; 0 if it does not refuse."""
        return time.monotonic() - self._refused_since if self._refused_since is not None else 0.0

    def count_messages(self) -> tuple[int, int]:
        """Return the number of messages in the folder, and how many of them are not stored yet."""
        state = self._status or self._reached
        there = state.exists if state else 0
        return there, len(self.pending) if is_settled(self._reached) else there

    # --- catching up ---

    def catch_up(self) -> bool:
        """Read the changes from the server and store them. New messages are only queued for `fetch_batch`.

        Returns whether any message disappeared from this folder. Raises RemoteFault.
        """
        began = time.monotonic()
        session, number = self._session, self.folder.number
        if self._count is None:
            self._count = session.store.mailbox_writer.count_in_folder(number)
        known = self._count + len(self.pending)
        session.selected = None
        news = session.mailbox.folder_news(self.folder.path, self._reached, known)
        session.selected = self.folder.path
        self.is_due = self.is_urgent = False
        is_detached = False
        for step in plan(FolderMirror(self._reached, self._load_flags(news)), news):
            is_detached |= self._carry_out(step)
        self._forget_vanished(news)
        if news.present is not None:
            self._count = None  # The numbers do not match, or cannot be found in another way.
        self._reached = news.state
        self._note_position()
        self._pauses_until = time.monotonic() + _PAUSE * (time.monotonic() - began)
        return is_detached

    def _load_flags(self, news: FolderChanges) -> dict[int, frozenset[str]]:
        uids = None if news.present is not None else news.changed.keys() | news.vanished
        return self._session.store.mailbox_writer.load_flags(self.folder.number, uids) if uids is None or uids else {}

    def _carry_out(self, step: Step) -> bool:
        """Store one step of the plan: detach messages from the folder, change flags, or queue new UIDs.

        Returns whether messages disappeared from this folder.
        """
        mirror, number = self._session.store.mailbox_writer, self.folder.number
        match step:
            case ResetFolder():
                detached = mirror.detach(number, None) if self._stored is not None else 0
                self._count = None
                self._session.store.folders.set_state(number, step.state)
                self._stored = step.state
                self.pending.clear()
                return detached > 0
            case RemoveMessages():
                for uids in _split(step.uids, _WRITE_COUNT):
                    self._session.stop.check()
                    self._adjust_count(-mirror.detach(number, uids))
                return True
            case ChangeFlags():
                for changes in _split(step.changes, _WRITE_COUNT):
                    self._session.stop.check()
                    mirror.change_flags(number, changes)
                    self._session.note_labels(change.flags for change in changes)
            case FetchMessages():
                self.pending = sorted({*self.pending, *step.uids})
        return False

    def _forget_vanished(self, news: FolderChanges) -> None:
        if self.pending and (news.vanished or news.present is not None):
            gone, present = news.vanished, news.present
            self.pending = [uid for uid in self.pending if uid not in gone and (present is None or uid in present)]

    def _note_position(self) -> None:
        if self.pending or self._being_stored:
            return
        self._refused_since = None
        if self._reached is not None and self._reached != self._stored:
            self._session.store.folders.set_state(self.folder.number, self._reached)
            self._stored = self._reached

    # --- taking in ---

    def select(self) -> bool:
        """Select the folder unless it is selected already.

        Returns False if its UIDVALIDITY changed: then known UIDs are invalid, and the folder must be checked again.
        """
        if self._session.selected == self.folder.path:
            return True
        state = self._session.select(self.folder.path)
        self.is_due = self.is_due or state != self._reached
        return self._reached is not None and state.uidvalidity == self._reached.uidvalidity

    def fetch_batch(self) -> HeaderBatch | None:
        """Fetch the headers of the newest queued messages. Raises RemoteFault.

        Returns None if UIDVALIDITY changed, so that `catch_up` must be called first.
        """
        # In a first sync, a server that refuses bodies must not keep the rest of the messages out of lists.
        is_whole = len(self.pending) <= FEW and (is_settled(self._stored) or not self._session.backoff.has_failed)
        # First only as many as a list shows: their bodies tell how quick the server is, unless all are large.
        usual = FEW if self.may_take_whole and not self._has_begun else HEADERS
        self._has_begun = True
        uids = self.pending[-self._session.backoff.batch_size(usual) :][::-1]
        if not self.select():
            return None
        batch = HeaderBatch(uids, self._fetch_headers(uids), is_whole)
        # A message is known by its provider's id, whatever folder it was in.
        has_labels = self._session.mailbox.has_labels
        if self._session.has_gone or (has_labels and is_whole):
            self.reattach(batch)
        # In the first sync of a large folder, this would search for every copy of a message.
        if not has_labels and (is_whole or is_settled(self._stored)):
            self.find_origins(batch)
        return batch

    def find_origins(self, batch: HeaderBatch) -> None:
        """Note the other folders that have messages of a batch now, in the store."""
        sightings = list(map(_make_sighting, batch.messages))
        batch.origins = self._session.store.mailbox_writer.find_other_folders(self.folder, sightings)

    # --- a first sync from a quick server ---

    @property
    def may_take_whole(self) -> bool:
        """Whether new messages are fetched whole, without their headers first, if the server is quick.

        Only in a first sync, in which no message can have moved here, and as long as no request fails.
        """
        session = self._session
        return (
            len(self.pending) > FEW
            and not is_settled(self._stored)
            and not session.has_gone
            and not session.backoff.has_failed
            and session.is_quick is not False
        )

    @property
    def takes_whole(self) -> bool:
        """Whether the next new messages are fetched by `fetch_whole_batch`."""
        return self.may_take_whole and self._session.is_quick is True

    def fetch_whole_batch(self) -> WholeBatch | None:
        """Fetch the newest queued messages whole. Raises RemoteFault.

        Of large messages, and of those that the server does not return, the headers are stored. Returns None if
        UIDVALIDITY changed, so that `catch_up` must be called first. Otherwise call `note_whole_batch` after the
        messages were stored.
        """
        if not self.select():
            return None
        uids, by_header = self._choose_whole()
        found = fetch_whole(self._session, self.folder.number, uids, self._sizes)
        self._session.note_labels(message.flags for message in found)
        by_header |= set(uids) - {message.uid for message in found}
        headers = self._fetch_headers(sorted(by_header, reverse=True)) if by_header else []
        self._store_headers(headers)
        taken = by_header.union(uids)
        self.pending[-_SIZES:] = [uid for uid in self.pending[-_SIZES:] if uid not in taken]
        self._being_stored += 1
        return WholeBatch(found, [message for message, _ in headers])

    def _choose_whole(self) -> tuple[list[int], set[int]]:
        """Return the UIDs of the newest messages to fetch whole, and of those whose headers are fetched.

        The sizes of many messages are requested at once, and so are the headers of the large ones among them.
        """
        if self.pending[-1] not in self._sizes:
            newest = self.pending[-_SIZES:]
            # A message without a size may no longer exist.
            self._sizes = dict.fromkeys(newest, LARGE_MESSAGE + 1) | self._session.mailbox.fetch_sizes(newest)
        by_header = {uid for uid in self.pending[-_SIZES:] if self._sizes.get(uid, 0) > LARGE_MESSAGE}
        uids: list[int] = []
        weight = 0
        for uid in reversed(self.pending[-_SIZES:]):
            if uid in by_header:
                continue
            weight += self._sizes.get(uid, 0)
            if uid not in self._sizes or len(uids) == WHOLE_COUNT or (uids and weight > WHOLE_BYTES):
                break
            uids.append(uid)
        return uids, by_header

    def note_whole_batch(self, count: int, new: tuple[str, ...]) -> None:
        """Announce the new messages of a batch that was stored, and store the folder's state after the last one.

        `count`: how many messages the batch had.
        """
        self._being_stored -= 1
        self._announce(count, new)
        self._note_position()

    def reattach(self, batch: HeaderBatch) -> None:
        """Recognize messages of a batch that moved here from another folder, and remove them from the batch.

        In the store they keep their ids and bodies, and belong to this folder from now on.
        """
        found = self._session.store.mailbox_writer.reattach(self.folder, list(map(_make_sighting, batch.messages)))
        self._adjust_count(len(found))
        batch.messages = [pair for pair in batch.messages if pair[0].uid not in found]

    def store_batch(self, batch: HeaderBatch) -> int:
        """Store a batch. Returns how many of its messages have no body yet. Raises RemoteFault."""
        if not batch.is_whole:
            self._store_headers(batch.messages)
        elif batch.messages:
            if not self.select():  # Other folders may have been checked since.
                return 0
            self._store_whole(batch.messages)
        # not [-len(uids):], which is the whole list when uids is empty
        del self.pending[len(self.pending) - len(batch.uids) :]
        self._note_position()
        return 0 if batch.is_whole else len(batch.messages)

    def _store_whole(self, messages: ParsedMessages) -> None:
        mirror, missing = (
            self._session.store.mailbox_writer,
            {message.uid: (message, parsed) for message, parsed in messages},
        )
        for is_large, pairs in fetch(self._session, self.folder.number, [message for message, _ in messages]):
            self._announce(len(pairs), mirror.add(self.folder, pairs, large=is_large) if pairs else ())
            for message, _ in pairs:
                del missing[message.uid]
        self._store_headers([missing[uid] for uid in postpone(self._session, self.folder.number, missing)])

    def _store_headers(self, messages: ParsedMessages) -> None:
        """Store messages with their headers only; the backlog fetches the bodies later."""
        new = self._session.store.mailbox_writer.add_headers(self.folder, messages) if messages else ()
        self._announce(len(messages), new)

    def _announce(self, count: int, new: tuple[str, ...]) -> None:
        # Otherwise copies that the appliance filed were among them.
        self._adjust_count(len(new) if len(new) == count else None)
        if count:
            self._session.announce(new)

    def _adjust_count(self, more: int | None) -> None:
        """Add `more` to the known number of stored messages. None: count them in the store at the next check."""
        self._count = None if self._count is None or more is None else self._count + more

    def _fetch_headers(self, uids: Sequence[int]) -> ParsedMessages:
        backoff, number = self._session.backoff, self.folder.number
        asked = [uid for uid in uids if not backoff.has_given_up("headers", number, uid)]
        with backoff.attempt("headers", number, asked):
            messages = [
                (message, parse_message(message.source)) for message in self._session.mailbox.fetch_headers(asked)
            ]
        self._session.note_labels(message.flags for message, _ in messages)
        self._store_unreadable(set(uids) - {message.uid for message, _ in messages})
        return messages

    def _store_unreadable(self, uids: set[int]) -> None:
        """Store placeholders without any content for messages whose headers the server does not return."""
        there = postpone(self._session, self.folder.number, uids)
        self._store_headers(
            [(message, parse_message(b"")) for message in self._session.mailbox.fetch_outlines(sorted(there))]
        )


def _make_sighting(pair: tuple[FetchedMessage, ParsedMessage]) -> MessageIdentity:
    message, parsed = pair
    message_id = canonical_message_id(parsed.message_id or "")
    ids = (message.provider_id, message.provider_thread_id)
    return MessageIdentity(message.uid, message.flags, message_id, message.size, message.internal_date, *ids)


def _split(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
