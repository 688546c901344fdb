"""The folder of a mailbox that plays a role; made at the server where there is none."""

from collections.abc import Sequence

from mailbox_appliance.mail import folder_roles
from mailbox_appliance.records import FolderRole, ListedFolder, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store

#: By such a name it is found again: the role comes with it.
_NAMES: dict[FolderRole, str] = {"archive": "Archive", "trash": "Trash", "drafts": "Drafts"}


def of_role(store: Store, mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    """The folder that plays this role. Raises RemoteFault, kind `refused` where the server makes none."""
    found = store.folders.find_by_role(account_id, role)
    if found is not None:
        return found
    relist(store, mailbox, account_id)  # another client may have made it
    return store.folders.find_by_role(account_id, role) or _made(store, mailbox, account_id, role)


def relist(store: Store, mailbox: ImapMailbox, account_id: str) -> None:
    """Take the server's list of folders in."""
    take_in(store, account_id, mailbox.list_folders())


def take_in(store: Store, account_id: str, listed: Sequence[ListedFolder]) -> None:
    """Bring new folders into the mirror, and give all folders the roles that they have now.

    A folder that is gone stays: its messages may lie elsewhere by now, which is for sync to find out.
    """
    paths = {folder.path for folder in listed}
    with store.database.transaction():  # the mapping must be the one that holds when the roles are written
        roles = folder_roles.assign(listed, store.folders.user_mapping(account_id))
        gone = [folder for folder in store.folders.list(account_id) if folder.path not in paths]
        kept = (ListedFolder(folder.path, folder.delimiter, frozenset()) for folder in gone)
        store.folders.replace(account_id, (*listed, *kept), roles)


def is_there(mailbox: ImapMailbox, path: str) -> bool:
    """Whether the server has this folder."""
    return path in {folder.path for folder in mailbox.list_folders()}


def _made(store: Store, mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    name = _NAMES.get(role)
    if name is None:
        raise RemoteFault("imap", "refused", f"This mailbox has no {role} folder.")
    path = _create(mailbox, name, mailbox.list_folders())
    relist(store, mailbox, account_id)
    # A person may have given that very folder another role; it is still the one to use.
    found = store.folders.find_by_role(account_id, role) or store.folders.find(account_id, path)
    if found is None:
        raise RemoteFault("imap", "refused", f"The IMAP server made a {role} folder and does not list it.")
    return found


def _create(mailbox: ImapMailbox, name: str, listed: tuple[ListedFolder, ...]) -> str:
    """Make a folder at the top, or below INBOX on servers that have all folders there; answers its path."""
    inbox = next((folder for folder in listed if folder.path.upper() == "INBOX"), None)
    below = f"{inbox.path}{inbox.delimiter}{name}" if inbox is not None and inbox.delimiter else name
    try:
        mailbox.create(name)
    except RemoteFault as fault:
        if fault.kind != "refused" or below == name:
            raise
        mailbox.create(below)
        return below
    return name
