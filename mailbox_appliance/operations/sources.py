"""The whole source of a message for what is made of it here: from the store, else fetched once from its server."""

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mailbox.attachments import PartRequest
from mailbox_appliance.model.records import Account


def read_source(appliance: Appliance, account: Account, message_id: str) -> bytes:
    """The source of a message. Waits for the server where it is not here: have a waiting place, and no transaction.

    Raises NotFound, SyncRequired, and what stands for a fault of the server's.
    """
    wanted: PartRequest = appliance.attachment_fetcher.request_source(account.id, message_id)
    found = appliance.attachment_fetcher.find(wanted) or appliance.attachment_fetcher.fetch(wanted)
    try:
        return b"".join(found.chunks)
    finally:
        close = getattr(found.chunks, "close", None)
        if close is not None:
            close()
