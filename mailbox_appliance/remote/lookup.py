"""Finding one message in a folder by its Message-ID: a search by text, whose finds are then looked at."""

from collections.abc import Collection, Mapping

from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.records import FolderState, FoundCopy, MessageIdentity, MirroredFolder
from mailbox_appliance.remote.imap import ImapMailbox


def find(
    mailbox: ImapMailbox, folder: MirroredFolder, message_id: str, having: Collection[str] = ()
) -> FoundCopy | None:
    """The message with this Message-ID, the newest one where there are several; or None. Raises RemoteFault.

    `having`: it has one of these flags, or labels, as `mail.labels` writes them.
    """
    uids = mailbox.search_message_id(folder.path, message_id)
    if not uids:
        return None
    state, sightings = mailbox.identify(folder.path, uids)
    # RFC 9051 6.4.4: the search is for a text within the field, which others may have as well.
    own = canonical_message_id(message_id)
    fitting = [each for each in sightings.values() if not having or not each.flags.isdisjoint(having)]
    uid = max((each.uid for each in fitting if each.message_id == own), default=None)
    return None if uid is None else _found(folder, state, sightings, uid)


def look(mailbox: ImapMailbox, folder: MirroredFolder, uid: int) -> FoundCopy | None:
    """What lies under this UID; or None. Raises RemoteFault."""
    state, sightings = mailbox.identify(folder.path, [uid])
    return _found(folder, state, sightings, uid) if uid in sightings else None


def _found(folder: MirroredFolder, state: FolderState, sightings: Mapping[int, MessageIdentity], uid: int) -> FoundCopy:
    is_known = folder.state is None or folder.state.uidvalidity == state.uidvalidity
    one = sightings[uid]
    return FoundCopy(folder, uid if is_known else None, one.size, one.internal_date, one)
