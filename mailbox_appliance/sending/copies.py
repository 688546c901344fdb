"""Files our copy of a sent message in Sent, exactly once: looked for by Message-ID before it is appended."""

import logging

from mailbox_appliance import retry
from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.records import DeliveryWork, FetchedMessage, MirroredFolder, ParsedMessage
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
_DEFAULT_FOLDER = "Sent"
Copy = tuple[MirroredFolder, FetchedMessage, ParsedMessage]
_LATER = "The message was sent, but its copy could not be put into the Sent folder yet; this is tried again."


def file_copy(store: Store, settings: Settings, events: Events, operation_id: str) -> None:
    """Put the copy of a succeeded operation into Sent; where that fails now, note when to try again."""
    try:
        work = store.deliveries.work(operation_id)
        connection = store.accounts.connection(work.account_id)
    except NotFound:  # the mailbox was removed meanwhile; there is nowhere to file to
        store.deliveries.mark_filed(operation_id)
        return
    timeout = settings.number("remote.timeout")
    try:
        with ImapMailbox.open(connection.imap, ca_file=settings.text("remote.ca_file"), timeout=timeout) as mailbox:
            sent = store.folders.find_by_role(work.account_id, "sent") or _made(store, mailbox, work)
            uid = _file(mailbox, work, sent.path)
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
    events.publish(FolderTouched(work.account_id, sent.path))


def _postpone(store: Store, work: DeliveryWork) -> None:
    wait = retry.delay(work.copy_attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
    store.deliveries.postpone_copy(work.operation_id, wait, _LATER)


def _made(store: Store, mailbox: ImapMailbox, work: DeliveryWork) -> MirroredFolder:
    """A folder for sent mail where there was none, with our copy in its mirror under the id that was promised."""
    listed = mailbox.list_folders()
    if _DEFAULT_FOLDER not in {folder.path for folder in listed}:
        mailbox.create(_DEFAULT_FOLDER)
        listed = mailbox.list_folders()
    roles = folder_roles.assign(listed, store.folders.user_mapping(work.account_id))
    folders = store.folders.replace(work.account_id, listed, roles)
    sent = next(folder for folder in folders if folder.path == _DEFAULT_FOLDER)
    store.deliveries.add_copy(work.operation_id, copy_of(work, sent))
    return sent


def _file(mailbox: ImapMailbox, work: DeliveryWork, path: str) -> int | None:
    # We may have stopped between APPEND and the record of it, or the provider files sent mail by itself.
    found = mailbox.find(path, work.message_id)
    if found:
        return found[-1]
    source = with_bcc(work.wire, work.bcc_header)
    return mailbox.append(path, source, flags=frozenset({"\\Seen"}), at=work.created_at)


def copy_of(work: DeliveryWork, sent: MirroredFolder) -> Copy:
    """Our copy of a sent message, as it will lie in Sent: read, and with its Bcc (RFC 5322 3.6.3)."""
    source = with_bcc(work.wire, work.bcc_header)
    return sent, FetchedMessage(0, frozenset({"\\Seen"}), work.created_at, len(source), source), parse(source)
