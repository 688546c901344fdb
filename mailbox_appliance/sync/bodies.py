"""Messages with their bodies: small ones whole, large ones without their attachments.

What the server has and does not give is left out; it is asked for again after a rest.
"""

from collections.abc import Collection, Iterator, Sequence

from mailbox_appliance.mail.large import LARGE
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.records import FetchedMessage, ParsedMessage
from mailbox_appliance.remote import large_messages
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.sync.means import Means, is_of_server

Read = list[tuple[FetchedMessage, ParsedMessage]]


def read(means: Means, folder_number: int, messages: Sequence[FetchedMessage]) -> Iterator[tuple[bool, Read]]:
    """Messages of the selected folder, of which the headers are known, in groups: whether these are large, and they.

    Those that are gone meanwhile, or are not given, are left out. Raises RemoteFault.
    """
    found = whole(means, folder_number, [message.uid for message in messages if message.size <= LARGE])
    parsed = means.parsers.begin([message.source for message in found]).result()
    yield False, list(zip(found, parsed, strict=True))
    for message in messages:
        if message.size > LARGE:
            yield True, read_large(means, folder_number, message)


def whole(means: Means, folder_number: int, uids: Sequence[int]) -> list[FetchedMessage]:
    """Small messages, with all of their sources, without those that are gone or cannot be had."""
    caution = means.caution
    asked = [uid for uid in uids if not caution.is_hopeless("bodies", folder_number, uid)]
    if not asked:
        return []
    with caution.trying("bodies", folder_number, asked):
        found = list(means.mailbox.fetch(asked))
    caution.given(folder_number, [message.uid for message in found])
    return found


def read_large(means: Means, folder_number: int, message: FetchedMessage) -> Read:
    """A large message: its header, structure and texts are fetched. Nothing where it cannot be had."""
    caution, uid = means.caution, message.uid
    if caution.is_hopeless("bodies", folder_number, uid):
        return []
    try:
        with caution.trying("bodies", folder_number, [uid]):
            found = large_messages.read_large(means.mailbox, uid, means.go_on, means.parsers)
    except RemoteFault as fault:
        if fault.kind != "refused" or is_of_server(fault):
            raise
        return []
    caution.given(folder_number, [uid])
    return [(message, with_words(found, means.parsers))]


def leave(means: Means, folder_number: int, uids: Collection[int]) -> frozenset[int]:
    """Leave messages of the selected folder alone for a while that were not given; those of them that are there."""
    if not uids:
        return frozenset()
    means.mailbox.refresh()  # most likely they were moved away or deleted this moment
    there = means.mailbox.flags(sorted(uids)).keys() & set(uids)
    means.caution.rest(folder_number, there)
    return frozenset(there)
