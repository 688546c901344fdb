"""Files our copy of a sent message in Sent, exactly once: looked for by Message-ID before it is appended."""

import logging
from collections.abc import Sequence

from mailbox_appliance import retry
from mailbox_appliance.errors import NotFound
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.records import DeliveryWork, FetchedMessage, MirroredFolder, ParsedMessage, Sighting
from mailbox_appliance.remote import folder_making
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
            store.sent_copies.mark_filed(operation_id)
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
    sent = _sent_folder(store, mailbox, work.account_id)
    if not store.mirror.locate(work.account_id, [work.result_id]):  # there was no such folder when it was sent
        store.deliveries.add_copy(operation_id, copy_of(work, sent))
    uid = _file(mailbox, work, sent.path)
    there = _find_there(mailbox, sent.path, uid)
    if there is None:
        store.mirror.set_uid(work.result_id, uid)
    else:
        store.mirror.set_uid(work.result_id, uid, there.size, there.internal_date)
    store.sent_copies.mark_filed(operation_id)
    return sent.path


def _postpone(store: Store, operation_id: str) -> None:
    attempts = store.deliveries.work(operation_id).copy_attempts
    wait = retry.delay(attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
    store.sent_copies.postpone(operation_id, wait, _LATER)


def _sent_folder(store: Store, mailbox: ImapMailbox, account_id: str) -> MirroredFolder:
    """The folder for sent mail; made where there is none."""
    found = store.folders.find_by_role(account_id, "sent")
    if found is None:
        store.folders.take_in(account_id, mailbox.list_folders())  # another client may have made it
        found = store.folders.find_by_role(account_id, "sent")
    if found is None:
        path = folder_making.make(mailbox, _DEFAULT_FOLDER)
        store.folders.take_in(account_id, mailbox.list_folders())
        # A person may have given that very folder another role; it is still the one to use.
        found = store.folders.find_by_role(account_id, "sent") or store.folders.find(account_id, path)
    if found is None:
        raise RemoteFault("imap", "refused", "The IMAP server made a folder for sent mail and does not list it.")
    return found


def _file(mailbox: ImapMailbox, work: DeliveryWork, path: str) -> int | None:
    # We may have stopped between APPEND and the record of it, or the provider files sent mail by itself.
    uid = max(mailbox.find(path, work.message_id), default=None)
    if uid is None:
        source = with_bcc(work.wire, work.bcc_header)
        uid = mailbox.append(path, source, flags=frozenset({"\\Seen"}), at=work.created_at)
        if uid is None:  # not every server tells it
            uid = max(mailbox.find(path, work.message_id), default=None)
    return uid


def _find_there(mailbox: ImapMailbox, path: str, uid: int | None) -> Sighting | None:
    """What the server says of the copy: the size that it tells may be another than ours."""
    try:
        return None if uid is None else mailbox.identify(path, [uid])[1].get(uid)
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
        return None


def copy_of(work: DeliveryWork, sent: MirroredFolder) -> Copy:
    """Our copy of a sent message, as it will lie in Sent: read, and with its Bcc (RFC 5322 3.6.3)."""
    source = with_bcc(work.wire, work.bcc_header)
    message = FetchedMessage(0, frozenset({"\\Seen"}), work.created_at, len(source), source)
    return sent, message, with_words(parse(source))
