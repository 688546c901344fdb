"""Removing messages for good. On a server with labels only what lies in trash can be: elsewhere the settings of the
mailbox say whether EXPUNGE archives a message, or what else becomes of it.

(support.google.com/mail/answer/77657: "Auto-Expunge", "When a message is marked as deleted and expunged")
"""

from collections.abc import Sequence
from dataclasses import replace

from mailbox_appliance.errands import role_folders
from mailbox_appliance.errands.identity import with_uids
from mailbox_appliance.model.records import LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store


def remove(store: Store, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
    """Remove messages that lie in this folder. Raises RemoteFault, `in_doubt` where they may be in trash by now."""
    uids = [message.uid for message in messages if message.uid is not None]
    if folder.role == "trash" or store.folders.find_all_mail(folder.account_id) is None:
        mailbox.expunge(folder.path, uids)
        return
    trash = role_folders.of_role(store, mailbox, folder.account_id, "trash")
    new_uids = mailbox.move(folder.path, uids, trash.path)
    try:
        moved = [replace(each, uid=new_uids.get(each.uid or 0)) for each in messages]
        found = with_uids(mailbox, trash, moved)
        mailbox.expunge(trash.path, [each.uid for each in found if each.uid is not None])
        if len(found) < len(messages):
            raise RemoteFault("imap", "malformed", "The IMAP server does not say where in the trash a message is.")
    except RemoteFault as fault:
        fault.in_doubt = True
        raise
