"""Saves the appliance's copies of sent messages in the folder Sent, soon after sending.

All waiting copies of one mailbox are uploaded over one connection, so that a slow server delays only its own copies.
The timer (`scheduler`) starts this. It first waits up to 3 seconds until no message has been sent for a moment, so that
sending comes first.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from mailbox_appliance import clock
from mailbox_appliance.errors import AllMailHidden, NotFound
from mailbox_appliance.events import FolderWritten, LargeWorkEnded
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.folder_roles import SENT_LABEL
from mailbox_appliance.mail.outline import parse_content
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.content import LARGE
from mailbox_appliance.model.deliveries import DeliveryWork, FoundCopy
from mailbox_appliance.model.sync import FetchedMessage, MirroredFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.store.deliveries import SentCopy

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

# --- Providers that file sent mail themselves, so that a second copy must be avoided ---


_PROVIDERS = frozenset({"google", "outlook"})
_SMTP_HOSTS = frozenset({"smtp.gmail.com", "smtp.googlemail.com", "smtp.office365.com", "smtp-mail.outlook.com"})
#: Announced by the IMAP servers of Google (developers.google.com/gmail/imap/imap-extensions).
_IMAP_FEATURE = "X-GM-EXT-1"


def files_sent_mail(provider: str, smtp_host: str, imap_features: Collection[str]) -> bool:
    """Whether the provider itself saves a copy of each sent message in Sent.

    `imap_features`: the capabilities of the IMAP server, in upper case.
    """
    host = smtp_host.rstrip(".").lower()
    return provider in _PROVIDERS or host in _SMTP_HOSTS or _IMAP_FEATURE in imap_features


# --- One mailbox: each copy is filed exactly once, after a search by Message-ID ---
#
# If the provider files sent mail, the appliance waits for that copy, which becomes the message that the result names.


log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
_FIRST_GLANCE = 5  # seconds: providers usually file a copy at once
#: How long to wait for a copy that the provider files.
WAITED_FOR = timedelta(hours=24)
_DEFAULT_FOLDER = "Sent"
_LATER = own_text(
    "The message was sent, but its copy could not be saved in the Sent folder yet. The appliance tries again."
)
_NEVER = own_text(
    "The message was sent, but its copy was not found in the Sent folder, where the provider should have saved it."
)


class SentMailFiler:
    """Uploads copies of sent messages to Sent, and records for each that it is there or when to try again."""

    def __init__(self, context: SendingContext) -> None:
        self._store, self._logins, self._settings = context.store, context.logins, context.settings
        self._events, self._clock = context.events, context.clock

    def file(self, account_id: str, operations: Sequence[str], stopping: threading.Event) -> None:
        """Upload copies of sent messages of one mailbox to Sent over one connection, in the given order.

        If a copy fails, it is retried later at growing intervals, and the next one follows. If the connection is lost,
        all remaining copies are retried later. Starts no further copy once `stopping` is set.
        """
        left, filed = list(operations), set[str]()
        try:
            with self._open(account_id) as mailbox:
                files_itself = self._has_filing_provider(account_id, mailbox)
                while left and not stopping.is_set():
                    path = self._file_or_postpone(mailbox, left[0], files_itself)
                    left.pop(0)
                    if path is not None:
                        filed.add(path)
        except NotFound:  # the mailbox was removed, so there is no folder any more
            for operation_id in left:
                self._store.sent_copies.mark_filed(operation_id)
            return
        except RemoteFault as fault:
            log.warning("sent_copies_postponed", extra={"operations": left, "fault": fault.kind})
        for operation_id in left if not stopping.is_set() else ():
            self._postpone(operation_id)
        for path in sorted(filed):
            self._events.publish(FolderWritten(account_id, path))

    def _open(self, account_id: str) -> ImapMailbox:
        ca_file, timeout = self._settings.text("remote.ca_file"), self._settings.number("remote.timeout")
        return self._logins.open_imap(account_id, partial(ImapMailbox.open, ca_file=ca_file, timeout=timeout))

    def _has_filing_provider(self, account_id: str, mailbox: ImapMailbox) -> bool:
        account = self._store.accounts.get(account_id)
        host = self._logins.endpoint(account_id, "smtp").host
        return files_sent_mail(account.provider, host, mailbox.features)

    def _file_or_postpone(self, mailbox: ImapMailbox, operation_id: str, files_itself: bool) -> str | None:
        """Save one copy in Sent and return the path of its folder. Returns None if it is tried later.

        `files_itself`: whether the provider saves the copy, so that the appliance only waits for it. Raises RemoteFault
        if the connection is lost, NotFound if the mailbox was removed.
        """
        try:
            work = self._store.deliveries.get_work(operation_id)
            return self._await_one(mailbox, work) if files_itself else self._file_one(mailbox, work)
        except RemoteFault as fault:
            if fault.kind != "refused":  # this message may be too large; others may fit
                raise
            log.warning("sent_copy_refused", extra={"operation": operation_id})
        except AllMailHidden:
            log.warning("sent_copy_delayed", extra={"operation": operation_id})
        except NotFound:
            raise
        except Exception:  # an internal error
            log.exception("sent_copy_failed", extra={"operation": operation_id})
        self._postpone(operation_id)
        return None

    def _file_one(self, mailbox: ImapMailbox, work: DeliveryWork) -> str:
        """Upload one copy to Sent unless it is there already, record it, and return the path of the folder."""
        sent = self._ensure_sent_folder(mailbox, work.account_id)
        # An earlier run may have stopped between APPEND and its record, or the provider files copies without announcing
        # it.
        found = client.find_by_message_id(mailbox, sent, work.message_id) or _append(mailbox, work, sent)
        self._record(work, sent, found)
        if len(work.wire) > LARGE:
            self._events.publish(LargeWorkEnded())
        return sent.path

    def _await_one(self, mailbox: ImapMailbox, work: DeliveryWork) -> str | None:
        """Check whether the provider has saved a copy in Sent. If so, record it and return the path of the folder.

        Otherwise returns None and plans the next check; after 24 hours the delivery gets a warning instead.
        """
        sent = find_sent_folder(self._store, work.account_id)
        found = None if sent is None else client.find_by_message_id(mailbox, sent, work.message_id, _extra_flags(sent))
        if sent is not None and found is not None:
            self._record(work, sent, found)
            return sent.path
        if self._clock.now() - work.updated_at < WAITED_FOR:
            wait = clock.retry_delay(work.copy_attempts + 1, _FIRST_GLANCE, _LONGEST_WAIT)
            self._store.sent_copies.await_provider(work.operation_id, wait)
        else:
            log.warning("sent_copy_missing", extra={"operation": work.operation_id})
            with self._store.database.transaction():
                # the server does not have it, and will not get it
                self._store.mailbox_writer.drop_pending(work.result_id)
                self._store.sent_copies.give_up(work.operation_id, _NEVER)
        return None

    def _record(self, work: DeliveryWork, sent: MirroredFolder, found: FoundCopy | None) -> None:
        store = self._store
        if not store.mailbox_writer.locate(
            work.account_id, [work.result_id]
        ):  # the folder did not exist when the message was sent
            store.deliveries.add_copies([(work.operation_id, make_copy(work, sent))])
        store.mailbox_writer.record_server_copy(work.result_id, found or FoundCopy(sent, None))
        store.sent_copies.mark_filed(work.operation_id)

    def _postpone(self, operation_id: str) -> None:
        attempts = self._store.deliveries.get_work(operation_id).copy_attempts
        wait = clock.retry_delay(attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
        self._store.sent_copies.postpone(operation_id, wait, _LATER)

    def _ensure_sent_folder(self, mailbox: ImapMailbox, account_id: str) -> MirroredFolder:
        """Return the folder for sent mail. If there is none, create the folder `Sent` on the server."""
        folders = self._store.folders
        found = folders.find_by_role(account_id, "sent")
        if found is None:
            folders.add_listed(account_id, mailbox.list_folders())  # another client may have made it
            found = folders.find_by_role(account_id, "sent")
        if found is None:
            path = client.make_folder(mailbox, _DEFAULT_FOLDER)
            folders.add_listed(account_id, mailbox.list_folders())
            # A person may have mapped that folder to another role; it is still the right one.
            found = folders.find_by_role(account_id, "sent") or folders.find(account_id, path)
        if found is None:
            raise RemoteFault("imap", "refused", "The IMAP server created a folder for sent mail but does not list it.")
        return found


def _append(mailbox: ImapMailbox, work: DeliveryWork, sent: MirroredFolder) -> FoundCopy | None:
    """Upload a copy to Sent. Returns its folder and UID, or None if the server does not show which message it is."""
    source = with_bcc(work.wire, work.bcc_header)
    known = sent.state.uidvalidity if sent.state is not None else None
    uid = mailbox.append(sent.path, source, flags=frozenset({"\\Seen"}), at=work.message_date, uidvalidity=known)
    try:  # the server may report another size than ours
        # Not every server returns the UID.
        return (
            client.find_by_message_id(mailbox, sent, work.message_id)
            if uid is None
            else client.find_by_uid(mailbox, sent, uid)
        )
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
        return None if uid is None else FoundCopy(sent, uid)


def find_sent_folder(store: "Store", account_id: str) -> MirroredFolder | None:
    """Return the folder that contains sent mail, or None.

    That is All Mail on a server with labels, otherwise Sent. Raises AllMailHidden if IMAP does not show All Mail.
    """
    return store.folders.find_all_mail(account_id) or store.folders.find_by_role(account_id, "sent")


def _extra_flags(sent: MirroredFolder) -> frozenset[str]:
    """Return the flags or labels that distinguish sent messages in this folder; empty unless it is All Mail."""
    return frozenset({SENT_LABEL}) if sent.role == "all" else frozenset()


def make_copy(work: DeliveryWork, sent: MirroredFolder) -> SentCopy:
    """Return a sent message as the mirror of the folder `sent` shows it: with Bcc (RFC 5322 3.6.3) and search index.

    If `work.row`, the parsed message, is missing (as after a restart), the message is parsed.
    """
    source = with_bcc(work.wire, work.bcc_header)
    flags = frozenset({"\\Seen"}) | _extra_flags(sent)
    # the mirror uses the parsed form, not these bytes
    message = FetchedMessage(0, flags, work.message_date, len(source), b"")
    return sent, message, with_searched_words(work.row or parse_content(source))


# --- Copies that the mirror does not show yet: the answer to the client came first ---
#
# They are shown together after a moment without a send, and at the latest before an operation reads mail.
# The journal has them as copies to file, so the next start finds those that a crash has left.


_MOST_UNSHOWN = 32


class UnshownCopies:
    """The copies of sent messages that are still to be added to the mirror. Thread-safe.

    `left`: these copies; empty if there is nothing to do.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self.left: deque[tuple[str, SentCopy | None]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether there are so many that they should be shown although messages are being sent."""
        return len(self.left) >= _MOST_UNSHOWN

    def add(self, operation_id: str, copy: SentCopy) -> None:
        """Add the copy of an operation that has succeeded."""
        self.left.append((operation_id, copy))

    def recover(self) -> None:
        """Add the copies that an earlier run has not shown."""
        self.left.extend((operation_id, None) for operation_id in self._store.sent_copies.list_unshown())

    def show(self) -> None:
        """Add all copies to the mirror, if there are any. Never raises: a copy that fails is added when it is filed."""
        if not self.left:
            return
        with self._store.database.block_writers():  # a caller waits for copies that another thread is adding
            while self.left:
                batch = list(itertools.islice(self.left, _MOST_UNSHOWN))
                try:
                    self._add(batch)
                except Exception:  # noqa: BLE001 - one of them fails, or the disk is full
                    for one in batch:
                        self._try(one)
                for _ in batch:
                    self.left.popleft()

    def _try(self, one: tuple[str, SentCopy | None]) -> None:
        try:
            self._add([one])
        except Exception:  # it is added when it is filed
            log.exception("sent_copy_not_shown", extra={"operation": one[0]})

    def _add(self, batch: Sequence[tuple[str, SentCopy | None]]) -> None:
        copies = [(operation_id, copy or self._make(operation_id)) for operation_id, copy in batch]
        self._store.deliveries.add_copies([(each, copy) for each, copy in copies if copy is not None])

    def _make(self, operation_id: str) -> SentCopy | None:
        work = self._store.deliveries.get_work(operation_id)
        sent = find_sent_folder(self._store, work.account_id)
        return None if sent is None else make_copy(work, sent)


# --- The task of the timer ---


# Copies are less urgent than messages: filing starts after so many seconds without a send, or after the longest hold.
_QUIET, _GLANCE, _LONGEST_HOLD = 0.2, 0.05, 3.0


class SentMailTask:
    """The timer's task that saves copies in Sent.

    `is_sending`: returns whether a message is being sent, or was within so many seconds.
    """

    name = "sent copies"

    def __init__(self, context: SendingContext, unshown: UnshownCopies, is_sending: Callable[[float], bool]) -> None:
        self._store, self._clock, self._is_sending = context.store, context.clock, is_sending
        self._unshown = unshown
        self._filer = SentMailFiler(context)
        self._changed, self._at_work = threading.Condition(), set[str]()

    def due_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of the mailboxes with copies that are to be saved at `now` or earlier."""
        return self._store.sent_copies.list_due_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Upload the copies of sent messages that a mailbox still lacks in its Sent folder.

        Waits up to 3 seconds until no message has been sent for a moment. `stopping`: set to end the work early.
        """
        until = time.monotonic() + _LONGEST_HOLD
        while self._is_sending(_QUIET) and time.monotonic() < until and not stopping.wait(_GLANCE):
            pass
        if not stopping.is_set():
            self._file(account_id, stopping)

    def _file(self, account_id: str, stopping: threading.Event) -> None:
        with self._lock(account_id):
            operations = self._store.sent_copies.list_due(self._clock.now(), account_id)
            self._unshown.show()  # those of these operations were added before they became due
            if operations:
                self._filer.file(account_id, operations, stopping)

    @contextmanager
    def _lock(self, account_id: str) -> Iterator[None]:
        """Context manager: exclude other threads that save copies of this mailbox until the block ends."""
        with self._changed:
            self._changed.wait_for(lambda: account_id not in self._at_work)
            self._at_work.add(account_id)
        try:
            yield
        finally:
            with self._changed:
                self._at_work.discard(account_id)
                self._changed.notify_all()
