"""Making a folder where a server has a mailbox's own ones."""

from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox


def make(mailbox: ImapMailbox, name: str) -> str:
    """Make a folder at the top, or below INBOX on servers that have all folders there; answers its path.

    Raises RemoteFault.
    """
    inbox = next((folder for folder in mailbox.list_folders() if folder.path == "INBOX"), None)
    below = f"{inbox.path}{inbox.delimiter}{name}" if inbox is not None and inbox.delimiter else name
    try:
        mailbox.create_folder(name)
    except RemoteFault as fault:
        if fault.kind != "refused" or below == name:
            raise
        mailbox.create_folder(below)
        return below
    return name
