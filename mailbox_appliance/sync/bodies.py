"""Messages with their bodies: small ones whole, large ones without their attachments.

What the server has and does not give is left out; it is asked for again after a rest.
"""

from collections.abc import Collection, Iterator, Sequence

from mailbox_appliance.mail.large import LARGE
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.model.records import FetchedMessage, ParsedMessage
from mailbox_appliance.remote import large_messages
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.sync.context import SyncSession, is_server_fault

ParsedMessages = list[tuple[FetchedMessage, ParsedMessage]]


def fetch(
    session: SyncSession, folder_number: int, messages: Sequence[FetchedMessage]
) -> Iterator[tuple[bool, ParsedMessages]]:
    """Messages of the selected folder, of which the headers are known, in groups: whether these are large, and they.

    Those that are gone meanwhile, or are not given, are left out. Raises RemoteFault.
    """
    found = fetch_whole(session, folder_number, [message.uid for message in messages if message.size <= LARGE])
    parsed = session.services.parsers.begin([message.source for message in found]).result()
    yield False, list(zip(found, parsed, strict=True))
    for message in messages:
        if message.size > LARGE:
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
            found = large_messages.read_large(session.mailbox, uid, session.stop.check, session.services.parsers)
    except RemoteFault as fault:
        if fault.kind != "refused" or is_server_fault(fault):
            raise
        return []
    backoff.record_success(folder_number, [uid])
    return [(message, with_words(found, session.services.parsers))]


def postpone(session: SyncSession, folder_number: int, uids: Collection[int]) -> frozenset[int]:
    """Leave messages of the selected folder alone for a while that were not given; those of them that are there."""
    if not uids:
        return frozenset()
    session.mailbox.refresh()  # most likely they were moved away or deleted this moment
    there = session.mailbox.fetch_flags(sorted(uids)).keys() & set(uids)
    session.backoff.postpone(folder_number, there)
    return frozenset(there)
