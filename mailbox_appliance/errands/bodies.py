"""The body of a message of which only the header is here yet, fetched because somebody wants to read it now."""

from collections.abc import Callable

from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.faults import problem_of
from mailbox_appliance.errands.parts import Parts
from mailbox_appliance.mail.large import LARGE
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.model.records import FetchedMessage, LocatedMessage, ParsedMessage
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.remote.large_messages import read_large
from mailbox_appliance.store.store import Store

_HEADER_ONLY = 0


class Bodies:
    """Fetches bodies. May be used from any thread."""

    def __init__(
        self, store: Store, connections: Connections, parts: Parts, make_reader: Callable[[], HtmlReader] = lambda: TAGS
    ) -> None:
        """`make_reader`: makes a reader for all HTML of one message, which reads it whole: the text is stored."""
        self._store, self._connections, self._attachment_fetcher, self._make_reader = (
            store,
            connections,
            parts,
            make_reader,
        )

    def ensure_body(self, account_id: str, message_id: str) -> None:
        """Have the body here, unless it is already. Waits for the server.

        Raises SyncRequired where the message is not there any more, and what stands for a RemoteFault.
        """
        message = self._locate(account_id, message_id)
        if message is None:
            return
        with self._attachment_fetcher.locks.lock((message.number, "body")):
            message = self._locate(account_id, message_id)
            if message is not None:
                self._fetch_and_store(account_id, message)

    def _locate(self, account_id: str, message_id: str) -> LocatedMessage | None:
        """The message, as long as its body is not here."""
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
        self._store.mailbox_writer.add_bodies(message.folder, [fetched], large=message.size > LARGE)

    def _fetch(self, mailbox: ImapMailbox, uid: int, message: LocatedMessage) -> tuple[FetchedMessage, ParsedMessage]:
        reader = self._make_reader()
        is_large = message.size > LARGE
        fetched, parsed = _large(mailbox, uid, message, reader) if is_large else _whole(mailbox, uid, reader)
        return fetched, with_words(parsed, reader)


def _whole(mailbox: ImapMailbox, uid: int, reader: HtmlReader) -> tuple[FetchedMessage, ParsedMessage]:
    found = next(iter(mailbox.fetch_messages([uid])), None)
    if found is None:  # it was there a moment ago
        raise RemoteFault("imap", "refused", "The IMAP server does not give this message. Try again later.")
    return found, parse(found.source, reader)


def _large(
    mailbox: ImapMailbox, uid: int, message: LocatedMessage, reader: HtmlReader
) -> tuple[FetchedMessage, ParsedMessage]:
    parsed = read_large(mailbox, uid, reader=reader)
    return FetchedMessage(uid, message.flags, message.internal_date, message.size, b""), parsed
