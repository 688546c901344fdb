"""Attachments, raw messages and missing bodies: from the cache, or fetched once from the server.

An attachment that is not cached is taken from one of these sources:

    sent by the appliance, not in Sent yet ... the message as it was sent
    a message that was parsed completely ..... the raw message is fetched, and the parser extracts the part
    a large message .......................... only the part is fetched, in pieces, and decoded while it arrives

Everything is cached before a client gets the first byte, so that a slow client does not occupy a connection to a
server.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailbox_appliance.errors import NotFound, SyncRequired
from mailbox_appliance.events import Events, FolderWritten, LargeWorkEnded
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.large import LARGE_MESSAGE
from mailbox_appliance.mail.mime import decode_transfer
from mailbox_appliance.mail.parse import attachment_bytes, parse_message, part_sizes
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.mailbox.bulk import match_on_server
from mailbox_appliance.mailbox.connections import Connections, problem_of
from mailbox_appliance.mailbox.locks import KeyedLocks
from mailbox_appliance.model.content import LARGE as CONTENT_LARGE
from mailbox_appliance.model.messages import Download, ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, ListedPart, LocatedMessage
from mailbox_appliance.remote.errors import RemoteFault, malformed_fault
from mailbox_appliance.remote.imap.client import ImapMailbox, read_large
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.attachment_cache import CachedPartReader

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

PIECE = 512 << 10
MAX_FETCHED_BYTES = 256 << 20  # bytes of one encoded part, even if the cache may hold more
MAX_PARSED_BYTES = 80 << 20  # bytes of a raw message that is parsed in memory to extract a part
MAX_SIZED_BYTES = 32 << 20  # bytes of a raw message that is parsed to correct the sizes of attachments
_BODY_WITHOUT_ATTACHMENTS = 2  # the state of a stored body that was read without its attachments
_PIECES_A_TURN = 16  # pieces after which other requests of the same mailbox may use the connection
_SOURCE = ""


@dataclass(frozen=True)
class PartRequest:
    """A request for a part of a message, or for the raw message.

    - part: the IMAP number of the part; empty for the raw message.
    - media_type, filename: those to state in the answer to the client.
    - size: in bytes, as the list of attachments shows it.
    """

    account_id: str
    message: LocatedMessage
    part: str
    media_type: str
    filename: str
    size: int = 0


class AttachmentFetcher:
    """Finds and fetches attachments and raw messages. May be used from any thread.

    Concurrent requests for the same part fetch it once.
    """

    def __init__(self, store: "Store", connections: Connections, settings: Settings, events: Events) -> None:
        self._store, self._connections, self._events = store, connections, events
        self._settings = settings
        #: By message number and part: while one request fetches a part, others wait for it.
        self.locks = KeyedLocks()

    @property
    def _cache_limit(self) -> int:
        """The limit of the cache in bytes, by the current setting."""
        return self._settings.number("sync.cache_mib") << 20

    def request_attachment(self, account_id: str, message_id: str, attachment_id: str) -> PartRequest:
        """Return a request for an attachment of a message, for `find` and `fetch`. Raises NotFound."""
        listed, part = self._store.messages.get_attachment(account_id, message_id, attachment_id)
        message = self._locate(account_id, message_id)
        return PartRequest(account_id, message, part, listed.mime_type, listed.filename, listed.size_bytes)

    def request_source(self, account_id: str, message_id: str) -> PartRequest:
        """Return a request for a raw message, for `find` and `fetch`. Raises NotFound."""
        message = self._locate(account_id, message_id)
        return PartRequest(account_id, message, _SOURCE, "message/rfc822", f"{message_id}.eml", message.size)

    def find(self, wanted: PartRequest) -> Download | None:
        """Return the part if it is in the cache, otherwise None. Does not use the server."""
        reading = self._store.part_cache.open(wanted.message.number, wanted.part)
        return None if reading is None else _to_download(wanted, reading)

    def fetch(self, wanted: PartRequest) -> Download:
        """Return the part from the cache, or fetch it from the server.

        Raises SyncRequired if the message is no longer where it was. A failure of the server is raised as a Problem for
        the client, such as Unavailable.
        """
        try:
            return _to_download(wanted, self._fetch(wanted))
        except RemoteFault as fault:
            raise problem_of(fault) from fault

    def find_uid(self, mailbox: ImapMailbox, wanted: LocatedMessage) -> int | None:
        """Return the UID of a message, and leave its folder selected; None if it is no longer in that folder."""
        found, _ = match_on_server(self._store, mailbox, wanted.folder, [wanted])
        return found[0].uid if found else None

    def missing_error(self, message: LocatedMessage) -> SyncRequired:
        """Start a sync of the folder from which a message has vanished, and return the error to raise."""
        self._events.publish(FolderWritten(message.folder.account_id, message.folder.path))
        return SyncRequired()

    def _locate(self, account_id: str, message_id: str) -> LocatedMessage:
        message = self._store.mailbox_writer.locate(account_id, [message_id]).get(message_id)
        if message is None:
            raise NotFound(what="message")
        return message

    def _fetch(self, wanted: PartRequest) -> CachedPartReader:
        number = wanted.message.number
        with self.locks.lock((number, wanted.part)):
            return self._store.part_cache.open(number, wanted.part) or self._fetch_locked(wanted)

    def _fetch_locked(self, wanted: PartRequest) -> CachedPartReader:
        reading = self._fetch_from_source(wanted)
        if reading.size > CONTENT_LARGE:
            self._events.publish(LargeWorkEnded())
        if wanted.message.body == _BODY_WITHOUT_ATTACHMENTS:
            try:
                self._correct_sizes(wanted, reading.size)
            except BaseException:
                reading.close()
                raise
        return reading

    def _correct_sizes(self, wanted: PartRequest, size: int) -> None:
        """Record the exact sizes of attachments, now that the part or raw message is known.

        `size`: the size of the fetched part in bytes.
        """
        if wanted.part != _SOURCE:
            sizes = {(wanted.part, wanted.media_type): size}
        elif size > MAX_SIZED_BYTES or (source := self._store.part_cache.open(wanted.message.number, _SOURCE)) is None:
            return
        else:
            with closing(source):
                sizes = part_sizes(b"".join(source))
        self._store.mailbox_writer.correct_sizes(wanted.message.number, sizes)

    def _fetch_from_source(self, wanted: PartRequest) -> CachedPartReader:
        own = self._own_source(wanted)
        if own is not None:
            return self._keep(wanted, iter([_extract_part(own, wanted.part)]))
        if wanted.part == _SOURCE:
            return self._keep(wanted, self._read_pieces(wanted))
        if wanted.message.size > LARGE_MESSAGE:
            reading = self._fetch_part_alone(wanted)
            # If the appliance parsed the whole message, the server's part with this number must match the listed one.
            if reading is not None and (
                wanted.message.body == _BODY_WITHOUT_ATTACHMENTS or reading.size == wanted.size
            ):
                return reading
        return self._extract_from_source(wanted)

    def _own_source(self, wanted: PartRequest) -> bytes | None:
        """Return a message as the appliance sent it, if it is not on the server yet; otherwise None."""
        message = wanted.message
        if message.uid is not None:
            return None
        found = self._store.delivery_lists.find_source(wanted.account_id, message.id)
        return None if found is None else found.read()

    def _fetch_part_alone(self, wanted: PartRequest) -> CachedPartReader | None:
        """Fetch and cache a part by its number alone. Returns None if the server lists no such part.

        Raises SyncRequired if the message is no longer where it was.
        """
        with self._connections.borrow(wanted.account_id) as mailbox:
            uid = self.find_uid(mailbox, wanted.message)
            part = _find_part(mailbox.fetch_structure(uid), wanted.part) if uid is not None else None
        if uid is None:
            raise self.missing_error(wanted.message)
        if part is None:
            return None
        return self._keep(wanted, decode_transfer(self._read_pieces(wanted), part.encoding))

    def _extract_from_source(self, wanted: PartRequest) -> CachedPartReader:
        _require_size(wanted.message.size, MAX_PARSED_BYTES)
        reading = self._fetch(PartRequest(wanted.account_id, wanted.message, _SOURCE, "", "", wanted.message.size))
        try:
            _require_size(reading.size, MAX_PARSED_BYTES)
            source = b"".join(reading)
        finally:
            reading.close()
        return self._keep(wanted, iter([_extract_part(source, wanted.part)]))

    def _read_pieces(self, wanted: PartRequest) -> Iterator[bytes]:
        """Yield the encoded part in pieces.

        After every 16 pieces, other requests may use the mailbox's connection.
        """
        most = min(self._cache_limit, MAX_FETCHED_BYTES)
        _require_size(wanted.size, most)  # the server reported this size; it can be wrong
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
            _require_size(offset, most)
            # Sizes can be wrong (RFC822.SIZE may be an estimate), so the limit is checked while reading too.
            if offset > 2 * wanted.message.size + PIECE:
                raise malformed_fault("imap")

    def _keep(self, wanted: PartRequest, chunks: Iterator[bytes]) -> CachedPartReader:
        return self._store.part_cache.put(wanted.message.number, wanted.part, chunks, limit=self._cache_limit)


def _to_download(wanted: PartRequest, reading: CachedPartReader) -> Download:
    return Download(wanted.media_type, wanted.filename, reading.size, reading)


def _require_size(size: int, most: int) -> None:
    """Raise RemoteFault (kind `unsupported`) if `size` exceeds `most`, both in bytes."""
    if size > most:
        reason = f"It is larger than {most >> 20} MiB. Use another mail program for it."
        raise RemoteFault("imap", "unsupported", reason)


def _extract_part(source: bytes, part: str) -> bytes:
    content = source if part == _SOURCE else attachment_bytes(source, part)
    if content is None:
        raise NotFound(what="attachment")
    return content


def _find_part(part: ListedPart, number: str) -> ListedPart | None:
    """Return the part with this IMAP number in the structure of a message; None if there is none."""
    left = [part]
    while left:
        each = left.pop()
        if each.number == number and not each.mime_type.startswith("multipart/"):
            return each
        left += each.children
    return None


# --- Bodies of messages whose header alone is mirrored yet, fetched when a client reads them ---


_HEADER_ONLY = 0


class BodyFetcher:
    """Fetches the bodies of messages of which only the header is mirrored. May be used from any thread."""

    def __init__(
        self,
        store: "Store",
        connections: Connections,
        parts: AttachmentFetcher,
        make_reader: Callable[[], HtmlReader] = lambda: TAG_READER,
    ) -> None:
        """`make_reader`: called once for each message; returns the reader that extracts the text of its HTML.

        The reader must not stop after a first part of the text, because the text is stored.
        """
        self._store, self._connections, self._attachment_fetcher, self._make_reader = (
            store,
            connections,
            parts,
            make_reader,
        )

    def ensure_body(self, account_id: str, message_id: str) -> None:
        """Fetch and store the body of a message unless it is stored already. Waits for the server.

        Raises SyncRequired if the message is no longer where it was. A failure of the server is raised as a Problem for
        the client, such as Unavailable.
        """
        message = self._locate(account_id, message_id)
        if message is None:
            return
        with self._attachment_fetcher.locks.lock((message.number, "body")):
            message = self._locate(account_id, message_id)
            if message is not None:
                self._fetch_and_store(account_id, message)

    def _locate(self, account_id: str, message_id: str) -> LocatedMessage | None:
        """Return a message whose body is not stored. None if it is stored, or if there is no such message."""
        found = self._store.mailbox_writer.locate(account_id, [message_id]).get(message_id)
        return found if found is not None and found.body == _HEADER_ONLY else None

    def _fetch_and_store(self, account_id: str, message: LocatedMessage) -> None:
        try:
            with self._connections.borrow(account_id) as mailbox:
                uid = self._attachment_fetcher.find_uid(mailbox, message)
                fetched = None if uid is None else self._fetch(mailbox, uid, message)
        except RemoteFault as fault:
            raise problem_of(fault) from fault
        if fetched is None:
            raise self._attachment_fetcher.missing_error(message)
        self._store.mailbox_writer.add_bodies(message.folder, [fetched], large=message.size > LARGE_MESSAGE)

    def _fetch(self, mailbox: ImapMailbox, uid: int, message: LocatedMessage) -> tuple[FetchedMessage, ParsedMessage]:
        reader = self._make_reader()
        is_large = message.size > LARGE_MESSAGE
        fetched, parsed = (
            _fetch_large(mailbox, uid, message, reader) if is_large else _fetch_whole(mailbox, uid, reader)
        )
        return fetched, with_searched_words(parsed, reader)


def _fetch_whole(mailbox: ImapMailbox, uid: int, reader: HtmlReader) -> tuple[FetchedMessage, ParsedMessage]:
    found = next(iter(mailbox.fetch_messages([uid])), None)
    if found is None:  # it was there a moment ago
        raise RemoteFault("imap", "refused", "The IMAP server did not return this message. Try again later.")
    return found, parse_message(found.source, reader)


def _fetch_large(
    mailbox: ImapMailbox, uid: int, message: LocatedMessage, reader: HtmlReader
) -> tuple[FetchedMessage, ParsedMessage]:
    parsed = read_large(mailbox, uid, reader=reader)
    return FetchedMessage(uid, message.flags, message.internal_date, message.size, b""), parsed
