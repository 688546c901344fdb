"""Attachments and sources of messages: from the cache, else fetched once from the server and kept.

our own copy, not filed yet ... from the message as it was sent
read whole .................... the source is fetched, and our parser takes the part out
large ......................... the part alone is fetched, in pieces, and decoded as it comes in

Everything is in the cache before anybody is given a byte: who reads slowly holds no connection to a server.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.faults import problem_of
from mailbox_appliance.errands.identity import identified
from mailbox_appliance.errands.turns import Turns
from mailbox_appliance.errors import NotFound, SyncRequired
from mailbox_appliance.events import Events, FolderWritten, LargeWorkEnded
from mailbox_appliance.mail.large import LARGE
from mailbox_appliance.mail.parse import attachment_bytes, part_sizes
from mailbox_appliance.mail.transfer_decoding import decoded
from mailbox_appliance.model.content import LARGE as CONTENT_LARGE
from mailbox_appliance.model.records import Download, ListedPart, LocatedMessage
from mailbox_appliance.remote.faults import RemoteFault, malformed
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.attachment_cache import CachedPartReader
from mailbox_appliance.store.store import Store

PIECE = 512 << 10
MOST_FETCHED = 256 << 20  # bytes, as they travel, of one part; also where more would be kept
MOST_PARSED = 80 << 20  # bytes of a source that we take a part out of, in memory
MOST_LOOKED_THROUGH = 32 << 20  # bytes of a source in which the sizes of attachments are looked at
_READ_LARGE = 2  # a body: read without the attachments
_PIECES_A_TURN = 16  # then others of the same mailbox may have the connection
_SOURCE = ""


@dataclass(frozen=True)
class Wanted:
    """A part of a message, or its whole source (part ''), as it is to be answered. `size`: as it was listed."""

    account_id: str
    message: LocatedMessage
    part: str
    media_type: str
    filename: str
    size: int = 0


class Parts:
    """Finds and fetches parts. May be used from any thread; the same part is fetched once, whoever asks."""

    def __init__(self, store: Store, connections: Connections, settings: Settings, events: Events) -> None:
        self._store, self._connections, self._events = store, connections, events
        self._settings = settings
        #: By message number and part: whoever fetches something has nobody else fetch it meanwhile.
        self.locks = Turns()

    @property
    def _cache_limit(self) -> int:
        """The bound of the cache, in bytes; it may change while running."""
        return self._settings.number("sync.cache_mib") << 20

    def request_attachment(self, account_id: str, message_id: str, attachment_id: str) -> Wanted:
        """An attachment as it is listed. Raises NotFound."""
        listed, part = self._store.messages.get_attachment(account_id, message_id, attachment_id)
        message = self._locate(account_id, message_id)
        return Wanted(account_id, message, part, listed.mime_type, listed.filename, listed.size_bytes)

    def request_source(self, account_id: str, message_id: str) -> Wanted:
        """The source of a message. Raises NotFound."""
        message = self._locate(account_id, message_id)
        return Wanted(account_id, message, _SOURCE, "message/rfc822", f"{message_id}.eml", message.size)

    def find(self, wanted: Wanted) -> Download | None:
        """The part, where it is here."""
        reading = self._store.part_cache.open(wanted.message.number, wanted.part)
        return None if reading is None else _download(wanted, reading)

    def fetch(self, wanted: Wanted) -> Download:
        """The part, fetched where it is not here. Waits for the server.

        Raises SyncRequired where the message is not there any more, and what stands for a RemoteFault.
        """
        try:
            return _download(wanted, self._fetch(wanted))
        except RemoteFault as fault:
            raise problem_of(fault) from fault

    def find_uid(self, mailbox: ImapMailbox, wanted: LocatedMessage) -> int | None:
        """The UID of a message, in its folder, which becomes the selected one; None where it is not there."""
        found, _ = identified(self._store, mailbox, wanted.folder, [wanted])
        return found[0].uid if found else None

    def missing_error(self, message: LocatedMessage) -> SyncRequired:
        """The problem that a message is not where it was; its folder is looked at again."""
        self._events.publish(FolderWritten(message.folder.account_id, message.folder.path))
        return SyncRequired()

    def _locate(self, account_id: str, message_id: str) -> LocatedMessage:
        message = self._store.mailbox_writer.locate(account_id, [message_id]).get(message_id)
        if message is None:
            raise NotFound(what="message")
        return message

    def _fetch(self, wanted: Wanted) -> CachedPartReader:
        number = wanted.message.number
        with self.locks.lock((number, wanted.part)):
            return self._store.part_cache.open(number, wanted.part) or self._fetch_locked(wanted)

    def _fetch_locked(self, wanted: Wanted) -> CachedPartReader:
        reading = self._fetch_from_source(wanted)
        if reading.size > CONTENT_LARGE:
            self._events.publish(LargeWorkEnded())
        if wanted.message.body == _READ_LARGE:
            try:
                self._correct_sizes(wanted, reading.size)
            except BaseException:
                reading.close()
                raise
        return reading

    def _correct_sizes(self, wanted: Wanted, size: int) -> None:
        """Note how large it is, or what is in it: without them sizes are what the server tells, or follow from that."""
        if wanted.part != _SOURCE:
            sizes = {(wanted.part, wanted.media_type): size}
        elif (
            size > MOST_LOOKED_THROUGH
            or (source := self._store.part_cache.open(wanted.message.number, _SOURCE)) is None
        ):
            return
        else:
            with closing(source):
                sizes = part_sizes(b"".join(source))
        self._store.mailbox_writer.correct_sizes(wanted.message.number, sizes)

    def _fetch_from_source(self, wanted: Wanted) -> CachedPartReader:
        own = self._own_source(wanted)
        if own is not None:
            return self._keep(wanted, iter([_part_of(own, wanted.part)]))
        if wanted.part == _SOURCE:
            return self._keep(wanted, self._read_pieces(wanted))
        if wanted.message.size > LARGE:
            reading = self._fetch_part_alone(wanted)
            # Where we read the message whole, what the server calls by this number must be what we listed.
            if reading is not None and (wanted.message.body == _READ_LARGE or reading.size == wanted.size):
                return reading
        return self._extract_from_source(wanted)

    def _own_source(self, wanted: Wanted) -> bytes | None:
        """The message as it was sent, where it is our own copy that is not on the server yet."""
        message = wanted.message
        if message.uid is not None:
            return None
        found = self._store.delivery_lists.find_source(wanted.account_id, message.id)
        return None if found is None else found.read()

    def _fetch_part_alone(self, wanted: Wanted) -> CachedPartReader | None:
        """The part by the server's number for it; None where the server has no such part."""
        with self._connections.borrow(wanted.account_id) as mailbox:
            uid = self.find_uid(mailbox, wanted.message)
            part = _find(mailbox.fetch_structure(uid), wanted.part) if uid is not None else None
        if uid is None:
            raise self.missing_error(wanted.message)
        if part is None:
            return None
        return self._keep(wanted, decoded(self._read_pieces(wanted), part.encoding))

    def _extract_from_source(self, wanted: Wanted) -> CachedPartReader:
        _require(wanted.message.size, MOST_PARSED)
        reading = self._fetch(Wanted(wanted.account_id, wanted.message, _SOURCE, "", "", wanted.message.size))
        try:
            _require(reading.size, MOST_PARSED)
            source = b"".join(reading)
        finally:
            reading.close()
        return self._keep(wanted, iter([_part_of(source, wanted.part)]))

    def _read_pieces(self, wanted: Wanted) -> Iterator[bytes]:
        """The part as it travels; the connection is lent anew every few pieces."""
        most = min(self._cache_limit, MOST_FETCHED)
        _require(wanted.size, most)  # as the server tells it, which may be any number
        offset, is_through = 0, False
        while not is_through:
            with self._connections.borrow(wanted.account_id) as mailbox:
                uid = self.find_uid(mailbox, wanted.message)
                for _ in range(_PIECES_A_TURN if uid is not None else 0):
                    piece = mailbox.read_section(uid or 0, wanted.part, offset, PIECE)
                    offset += len(piece)
                    is_through = len(piece) < PIECE
                    yield piece
                    if is_through:
                        break
            if uid is None:
                raise self.missing_error(wanted.message)
            _require(offset, most)
            # Sizes are wrong at times (RFC822.SIZE may be an estimate), but not without end.
            if offset > 2 * wanted.message.size + PIECE:
                raise malformed("imap")

    def _keep(self, wanted: Wanted, chunks: Iterator[bytes]) -> CachedPartReader:
        return self._store.part_cache.put(wanted.message.number, wanted.part, chunks, limit=self._cache_limit)


def _download(wanted: Wanted, reading: CachedPartReader) -> Download:
    return Download(wanted.media_type, wanted.filename, reading.size, reading)


def _require(size: int, most: int) -> None:
    """Raises RemoteFault (`unsupported`) for more than `most` bytes."""
    if size > most:
        reason = f"It is larger than {most >> 20} MiB. Use another mail program for it."
        raise RemoteFault("imap", "unsupported", reason)


def _part_of(source: bytes, part: str) -> bytes:
    content = source if part == _SOURCE else attachment_bytes(source, part)
    if content is None:
        raise NotFound(what="attachment")
    return content


def _find(part: ListedPart, number: str) -> ListedPart | None:
    """The part of this number; those inside an attached message are not ours to list."""
    left = [part]
    while left:
        each = left.pop()
        if each.number == number and not each.mime_type.startswith("multipart/"):
            return each
        left += each.children
    return None
