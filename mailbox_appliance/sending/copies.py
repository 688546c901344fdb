"""Files our copy of a sent message in Sent, exactly once: looked for by Message-ID before it is appended."""

import logging
from collections.abc import Sequence

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


def file_copies(store: Store, settings: Settings, events: Events, account_id: str, operations: Sequence[str]) -> None:
    """Put the copies of succeeded operations of one mailbox into Sent, over one connection, the oldest first.

    What cannot be filed now is noted to be tried again, later each time. One that the server or we cannot deal with
    holds up none of the others; a connection that is lost does.
    """
    try:
        connection = store.accounts.connection(account_id)
    except NotFound:  # the mailbox was removed meanwhile; there is nowhere to file to
        for operation_id in operations:
            store.deliveries.mark_filed(operation_id)
        return
    left, filed = list(operations), set[str]()
    timeout = settings.number("remote.timeout")
    try:
        with ImapMailbox.open(connection.imap, ca_file=settings.text("remote.ca_file"), timeout=timeout) as mailbox:
            while left:
                path = _file_or_postpone(store, mailbox, left[0])
                left.pop(0)
                if path is not None:
                    filed.add(path)
    except RemoteFault as fault:
        log.warning("sent copies not filed", extra={"operations": left, "fault": fault.kind})
    for operation_id in left:
        _postpone(store, operation_id)
    for path in sorted(filed):
        events.publish(FolderTouched(account_id, path))


def _file_or_postpone(store: Store, mailbox: ImapMailbox, operation_id: str) -> str | None:
    """File one copy and answer where, or note that it is for later. Raises RemoteFault where the connection is lost."""
    try:
        return _file_one(store, mailbox, operation_id)
    except RemoteFault as fault:
        if fault.kind != "refused":  # this message may be too large, another one not
            raise
        log.warning("a sent copy was refused", extra={"operation": operation_id})
    except Exception:  # a fault of ours
        log.exception("a sent copy was not filed", extra={"operation": operation_id})
    _postpone(store, operation_id)
    return None


def _file_one(store: Store, mailbox: ImapMailbox, operation_id: str) -> str:
    """File one copy, record it, and answer the path of the folder."""
    work = store.deliveries.work(operation_id)
    sent = store.folders.find_by_role(work.account_id, "sent") or _made(store, mailbox, work)
    uid = _file(mailbox, work, sent.path)
    if uid is not None:
        store.mirror.set_uid(work.result_id, uid)
    store.deliveries.mark_filed(operation_id)
    return sent.path


def _postpone(store: Store, operation_id: str) -> None:
    attempts = store.deliveries.work(operation_id).copy_attempts
    wait = retry.delay(attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
    store.deliveries.postpone_copy(operation_id, wait, _LATER)


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
