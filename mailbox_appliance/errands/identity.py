"""Whether what lies at the server is still what the mirror has: asked before anything is done to a message."""

from collections.abc import Sequence
from dataclasses import replace

from mailbox_appliance.errands import action_plan, role_folders
from mailbox_appliance.errands.action_plan import Code
from mailbox_appliance.model.records import LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store


def identified(
    store: Store, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
) -> tuple[tuple[LocatedMessage, ...], dict[str, Code]]:
    """Those messages of a folder that are what they were, with UID and flags as they are now, and why the others not.

    One whose UID is not known yet, say after a move, is looked for by its provider's id, or else by its Message-ID,
    among what is nobody else's.
    Raises RemoteFault.
    """
    try:
        candidates = {message.id: _candidates(mailbox, message) for message in messages if message.uid is None}
        uids = {message.uid for message in messages if message.uid is not None}.union(*candidates.values())
        if not uids:
            return (), {message.id: "not_found" for message in messages}
        state, sightings = mailbox.identify(folder.path, sorted(uids))
    except RemoteFault as fault:
        if fault.kind != "refused" or role_folders.is_there(mailbox, folder.path):
            raise
        if folder.number == _home(store, folder):  # which is hidden now, and nothing in it is gone
            return (), {message.id: "unsupported_capability" for message in messages}
        return (), {message.id: "not_found" for message in messages}
    looked_for = {uid for some in candidates.values() for uid in some}
    taken = {message.uid for message in messages}.union(store.mailbox_writer.load_flags(folder.number, looked_for))
    found: list[LocatedMessage] = []
    problems: dict[str, Code] = {}
    for message in messages:
        uid = message.uid
        if uid is None:
            some = {each: sightings[each] for each in candidates[message.id] if each in sightings}
            uid = action_plan.pick(message, some, taken)
        sighting = sightings.get(uid) if uid is not None else None
        code = action_plan.identity(message, state, sighting)
        if code is None and sighting is not None:
            taken.add(uid)
            found.append(replace(message, uid=uid, flags=sighting.flags))
            if message.uid is None:
                store.mailbox_writer.record_moves(folder.account_id, [(message.id, folder.number, uid)])
        else:
            problems[message.id] = code or "not_found"
    return tuple(found), problems


def with_uids(
    mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
) -> tuple[LocatedMessage, ...]:
    """Messages that were moved to a folder, with their UIDs there; without those that are not to be found by their id.

    Raises RemoteFault.
    """
    found: list[LocatedMessage] = []
    for message in messages:
        uid = message.uid
        if uid is None and message.provider_id is not None:
            uid = mailbox.search_provider_id(folder.path, message.provider_id)
        found += [replace(message, folder=folder, uid=uid)] if uid is not None else []
    return tuple(found)


def _home(store: Store, folder: MirroredFolder) -> int | None:
    """The number of the folder of all mail, in a mailbox with labels."""
    home = store.folders.find_all_mail(folder.account_id)
    return None if home is None else home.number


def _candidates(mailbox: ImapMailbox, message: LocatedMessage) -> tuple[int, ...]:
    if message.provider_id is not None:
        uid = mailbox.search_provider_id(message.folder.path, message.provider_id)
        return (uid,) if uid is not None else ()
    return mailbox.search_message_id(message.folder.path, message.message_id) if message.message_id is not None else ()
