"""The folder of a mailbox that plays a role; made at the server where there is none."""

from mailbox_appliance.model.records import FolderRole, MirroredFolder
from mailbox_appliance.remote import folder_making
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store

#: By such a name it is found again: the role comes with it.
_NAMES: dict[FolderRole, str] = {"archive": "Archive", "trash": "Trash", "drafts": "Drafts"}


def of_role(store: Store, mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    """The folder that plays this role. Raises RemoteFault, kind `refused` where the server makes none.

    On a server with labels none is made: it would be a label, whatever its name.
    """
    found = store.folders.find_by_role(account_id, role)
    if found is not None:
        return found
    relist(store, mailbox, account_id)  # another client may have made it
    found = store.folders.find_by_role(account_id, role)
    if found is None and store.folders.find_all_mail(account_id) is not None:
        reason = (
            f"The folder of this mailbox for {role} is hidden: tick “Show in IMAP” for it in Gmail's settings, Labels."
        )
        raise RemoteFault("imap", "refused", reason)
    return found or _made(store, mailbox, account_id, role)


def relist(store: Store, mailbox: ImapMailbox, account_id: str) -> None:
    """Take the server's list of folders in."""
    store.folders.add_listed(account_id, mailbox.list_folders())


def is_there(mailbox: ImapMailbox, path: str) -> bool:
    """Whether the server has this folder."""
    return path in {folder.path for folder in mailbox.list_folders()}


def _made(store: Store, mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    name = _NAMES.get(role)
    if name is None:
        raise RemoteFault("imap", "refused", f"This mailbox has no {role} folder.")
    path = folder_making.make(mailbox, name)
    relist(store, mailbox, account_id)
    # A person may have given that very folder another role; it is still the one to use.
    found = store.folders.find_by_role(account_id, role) or store.folders.find(account_id, path)
    if found is None:
        raise RemoteFault("imap", "refused", f"The IMAP server made a {role} folder and does not list it.")
    return found
