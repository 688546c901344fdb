"""The mirror of one folder: learns what happened, carries the plan out, takes new messages in, a batch at a time.

    catch_up ...... news -> plan -> gone, flags: written; new UIDs: put on top of what is to be taken in
    fetch_batch ... headers of the newest of them -> moved ones recognised, as far as their old folders were looked at
    store_batch ... the others added; at the end: position

Between the last two the follower catches up with the folders that messages may have moved out of (`origins`).

Each batch is one transaction, none is open while the server is asked. Whatever is broken off is taken up again: the
position is noted last, and what was brought in by then is not asked for twice.
"""

import dataclasses
import time
from collections.abc import Collection, Iterator, Sequence
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

# --- Bodies: small messages whole, large ones without their attachments ---
#
# What the server has and does not give is left out; it is asked for again after a pause.


ParsedMessages = list[tuple[FetchedMessage, ParsedMessage]]


def fetch(
    session: SyncSession, folder_number: int, messages: Sequence[FetchedMessage]
) -> Iterator[tuple[bool, ParsedMessages]]:
    """Messages of the selected folder, of which the headers are known, in groups: whether these are large, and they.

    Those that are gone meanwhile, or are not given, are left out. Raises RemoteFault.
    """
    found = fetch_whole(session, folder_number, [message.uid for message in messages if message.size <= LARGE_MESSAGE])
    parsed = session.services.parsers.begin([message.source for message in found]).result()
    yield False, list(zip(found, parsed, strict=True))
    for message in messages:
        if message.size > LARGE_MESSAGE:
            yield True, fetch_large(session, folder_number, message)


def fetch_whole(session: SyncSession, folder_number: int, uids: Sequence[int]) -> list[FetchedMessage]:
    """Small messages, with all of their sources, without those that are gone or cannot be had."""
    backoff = session.backoff
    asked = [uid for uid in uids if not backoff.has_given_up("bodies", folder_number, uid)]
    if not asked:
        return []
    with backoff.attempt("bodies", folder_number, asked):
        found = list(session.mailbox.fetch_messages(asked))
    backoff.record_success(folder_number, [message.uid for message in found])
    return found


def fetch_large(session: SyncSession, folder_number: int, message: FetchedMessage) -> ParsedMessages:
    """A large message: its header, structure and texts are fetched. Nothing where it cannot be had."""
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
    """Leave messages of the selected folder alone for a while that were not given; those of them that are there."""
    if not uids:
        return frozenset()
    session.mailbox.refresh()  # most likely they were moved away or deleted this moment
    there = session.mailbox.fetch_flags(sorted(uids)).keys() & set(uids)
    session.backoff.postpone(folder_number, there)
    return frozenset(there)


# --- One folder ---


T = TypeVar("T")

HEADERS = 500  # a batch
#: New messages that are taken in whole at once; of more, first the headers.
FEW = 50
_WRITE_COUNT = 1000  # flags, or messages that are gone, in one transaction
#: After all flags were compared (no CONDSTORE), so many times as long until the next time for flags alone.
_PAUSE = 20


@dataclass
class HeaderBatch:
    """Messages to take in whose headers were fetched.

    `uids`: all that were asked for. `messages`: those of them that are new to us. `is_whole`: their bodies are taken in
    too. `origins`: the numbers of folders in which some of them were, and may be still.
    """

    uids: Sequence[int]
    messages: ParsedMessages
    is_whole: bool
    origins: frozenset[int] = frozenset()


class FolderSync:
    """A folder, for as long as a connection lasts."""

    def __init__(self, folder: MirroredFolder, session: SyncSession) -> None:
        self.folder = folder
        self.is_due = False
        self.is_urgent = False
        self.pending: list[int] = []  # UIDs to take in, the newest last
        self._refused_since: float | None = None
        self._session = session
        self._reached = self._stored = folder.state
        self._status: FolderState | None = None  # by STATUS, before it last caught up
        self._pauses_until = 0.0
        self._count: int | None = None  # of the rows with a UID; None where that is to be counted

    @property
    def position(self) -> FolderState | None:
        """Up to where the server has reported what happened."""
        return self._reached

    @property
    def has_work(self) -> bool:
        """Whether it is to be looked at, or has messages to be taken in."""
        return self.is_due or bool(self.pending)

    def request(self) -> None:
        """Look at it as soon as can be: somebody of us wrote to it, on the server and in the store."""
        self.is_due = self.is_urgent = True
        self._count = None

    def require_full_compare(self) -> None:
        """Compare all flags and labels the next time: what is known to have changed since may not be all."""
        self.is_due = True
        if self._reached is not None:
            self._reached = dataclasses.replace(self._reached, highestmodseq=None)

    def apply_status(self, state: FolderState, *, thorough: bool) -> None:
        """Compare with a STATUS answer; the folder becomes due if there may be news."""
        # Some servers' SELECT and STATUS never agree, so what STATUS said before we last caught up counts as well.
        if all(may_be_news(one, state, thorough=thorough) for one in (self._reached, self._status)):
            is_cheap = state.highestmodseq is not None or state not in (self._reached, self._status)
            self.is_due = self.is_due or is_cheap or time.monotonic() >= self._pauses_until
        self._status = state

    def mark_refused(self) -> None:
        """Leave it alone until the next time everything is looked at: the server does not let us in."""
        self._refused_since = self._refused_since or time.monotonic()
        self.is_due, self._status = False, None
        self.pending.clear()
        self._reached = self._stored

    @property
    def refusal_seconds(self) -> float:
        """For how many seconds it has been refused."""
        return time.monotonic() - self._refused_since if self._refused_since is not None else 0.0

    def count_messages(self) -> tuple[int, int]:
        """How many messages are there, as far as is known, and how many of them are not taken in."""
        state = self._status or self._reached
        there = state.exists if state else 0
        return there, len(self.pending) if is_settled(self._reached) else there

    # --- catching up ---

    def catch_up(self) -> bool:
        """Learn what happened and write it; new messages are taken in later. Whether any are gone from here.

        Raises RemoteFault.
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
            self._count = None  # it did not add up, or cannot be known in another way
        self._reached = news.state
        self._note_position()
        self._pauses_until = time.monotonic() + _PAUSE * (time.monotonic() - began)
        return is_detached

    def _load_flags(self, news: FolderChanges) -> dict[int, frozenset[str]]:
        uids = None if news.present is not None else news.changed.keys() | news.vanished
        return self._session.store.mailbox_writer.load_flags(self.folder.number, uids) if uids is None or uids else {}

    def _carry_out(self, step: Step) -> bool:
        """Do it; whether messages may be gone from here now."""
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
        if self.pending:
            return
        self._refused_since = None
        if self._reached is not None and self._reached != self._stored:
            self._session.store.folders.set_state(self.folder.number, self._reached)
            self._stored = self._reached

    # --- taking in ---

    def select(self) -> bool:
        """Select it, if it is not. False: its UIDs mean other messages now, so it is due."""
        if self._session.selected == self.folder.path:
            return True
        state = self._session.select(self.folder.path)
        self.is_due = self.is_due or state != self._reached
        return self._reached is not None and state.uidvalidity == self._reached.uidvalidity

    def fetch_batch(self) -> HeaderBatch | None:
        """Fetch the headers of the newest of the new messages; None if it has to be looked at first.

        Raises RemoteFault.
        """
        is_whole = len(self.pending) <= FEW
        uids = self.pending[-self._session.backoff.batch_size(HEADERS) :][::-1]
        if not self.select():
            return None
        batch = HeaderBatch(uids, self._fetch_headers(uids), is_whole)
        has_labels = self._session.mailbox.has_labels  # then a message is known by its provider's id, wherever it lay
        if self._session.has_gone or (has_labels and is_whole):
            self.reattach(batch)
        # In the first sync of a large folder, every copy of a message would be asked after.
        if batch.messages and not has_labels and (is_whole or is_settled(self._stored)):
            sightings = list(map(_make_sighting, batch.messages))
            batch.origins = self._session.store.mailbox_writer.find_other_folders(self.folder, sightings)
        return batch

    def reattach(self, batch: HeaderBatch) -> None:
        """Recognise the messages of a batch that are gone elsewhere: they keep their ids, and are not new."""
        found = self._session.store.mailbox_writer.reattach(self.folder, list(map(_make_sighting, batch.messages)))
        self._adjust_count(len(found))
        batch.messages = [pair for pair in batch.messages if pair[0].uid not in found]

    def store_batch(self, batch: HeaderBatch) -> int:
        """Store a batch; of how many messages the bodies are left for later. Raises RemoteFault."""
        if not batch.is_whole:
            self._store_headers(batch.messages)
        elif batch.messages:
            if not self.select():  # other folders may have been looked at since
                return 0
            self._store_whole(batch.messages)
        del self.pending[len(self.pending) - len(batch.uids) :]  # not [-len(uids):], which is all of it for none
        self._note_position()
        return 0 if batch.is_whole else len(batch.messages)

    def _store_whole(self, messages: ParsedMessages) -> None:
        mirror, missing = (
            self._session.store.mailbox_writer,
            {message.uid: (message, parsed) for message, parsed in messages},
        )
        for is_large, pairs in fetch(self._session, self.folder.number, [message for message, _ in messages]):
            self._announce(pairs, mirror.add(self.folder, pairs, large=is_large) if pairs else ())
            for message, _ in pairs:
                del missing[message.uid]
        self._store_headers([missing[uid] for uid in postpone(self._session, self.folder.number, missing)])

    def _store_headers(self, messages: ParsedMessages) -> None:
        """Have messages in the mirror with their headers, without their bodies."""
        self._announce(
            messages, self._session.store.mailbox_writer.add_headers(self.folder, messages) if messages else ()
        )

    def _announce(self, messages: ParsedMessages, new: tuple[str, ...]) -> None:
        self._adjust_count(len(new) if len(new) == len(messages) else None)  # else copies of ours were among them
        if messages:
            self._session.announce(new)

    def _adjust_count(self, more: int | None) -> None:
        """So many more are in the mirror; None: nobody knows."""
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
        """List messages that the server has, and of which it does not even give the header."""
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
