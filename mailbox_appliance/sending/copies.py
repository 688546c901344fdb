"""Files our copy of a sent message in Sent, exactly once: looked for by Message-ID before it is appended."""

import logging

from mailbox_appliance import retry
from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.records import DeliveryWork, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
_DEFAULT_FOLDER = "Sent"
_LATER = "The message was sent, but its copy could not be put into the Sent folder yet; this is tried again."


def file_copy(store: Store, settings: Settings, events: Events, operation_id: str) -> None:
    """Put the copy of a succeeded operation into Sent; where that fails now, note when to try again."""
    try:
        work = store.deliveries.work(operation_id)
        connection = store.accounts.connection(work.account_id)
    except NotFound:  # the mailbox was removed meanwhile; there is nowhere to file to
        store.deliveries.mark_filed(operation_id)
        return
    sent = store.folders.find_by_role(work.account_id, "sent")
    timeout = settings.number("remote.timeout")
    try:
        with ImapMailbox.open(connection.imap, ca_file=settings.text("remote.ca_file"), timeout=timeout) as mailbox:
            path, uid = _file(mailbox, work, sent)
    except RemoteFault as fault:
        log.warning("sent copy not filed", extra={"operation": operation_id, "fault": fault.kind})
        _postpone(store, work)
        return
    except Exception:  # a fault of ours must not keep other copies from being filed
        log.exception("sent copy not filed", extra={"operation": operation_id})
        _postpone(store, work)
        return
    if uid is not None:
        store.messages.set_uid(work.result_id, uid)
    store.deliveries.mark_filed(operation_id)
    events.publish(FolderTouched(work.account_id, path))


def _postpone(store: Store, work: DeliveryWork) -> None:
    wait = retry.delay(work.copy_attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
    store.deliveries.postpone_copy(work.operation_id, wait, _LATER)


def _file(mailbox: ImapMailbox, work: DeliveryWork, sent: MirroredFolder | None) -> tuple[str, int | None]:
    path = sent.path if sent is not None else _DEFAULT_FOLDER
    if sent is None and path not in {folder.path for folder in mailbox.list_folders()}:
        mailbox.create(path)
    # We may have stopped between APPEND and the record of it, or the provider files sent mail by itself.
    found = mailbox.find(path, work.message_id)
    if found:
        return path, found[-1]
    source = with_bcc(work.wire, work.bcc_header)
    return path, mailbox.append(path, source, flags=frozenset({"\\Seen"}), at=work.created_at)
