"""Finds out whether messages with an unknown outcome were sent, by searching the mailbox for their Message-ID.

The schedule: 5 seconds, 30 seconds and 2 minutes after the operation became uncertain, then every 10 minutes for 24
hours. The places searched:

    in Sent .......... the appliance files no copy there until then, so the provider put it there
    in the inbox ..... if the mailbox itself is among the recipients
    in All Mail ...... on a server with labels, with the label of sent mail or of the inbox
    by its ID ........ a draft that Microsoft Graph was asked to send: if it is no longer a draft, it was sent; while
                       it is one, nothing is known, since sending can take time

If the message is found, the operation has succeeded. If there is no place to search, it stays uncertain. If the last
search failed, more follow until the mailbox can be searched once.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from mailbox_appliance.errors import AllMailHidden, NotFound, Unsupported
from mailbox_appliance.events import DeliverySettled, FolderWritten
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.deliveries import FoundCopy, UncertainDelivery
from mailbox_appliance.model.sync import MirroredFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.graph import GraphDrafts
from mailbox_appliance.sending.sent_copies import find_sent_folder, make_copy
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.database import DATABASE_ERRORS
from mailbox_appliance.store.deliveries import SentCopy

log = logging.getLogger(__name__)

FIRST_LOOKS = (5, 30, 120)  # seconds after the operation became uncertain
EVERY = timedelta(minutes=10)
LOOKED_FOR = timedelta(hours=24)
#: Two days of searches, including failed ones, however the clock jumps.
MOST_LOOKS = 300
#: Lends the connection of a mailbox. Raises RemoteFault, and NotFound if the mailbox was removed.
Borrow = Callable[[str], AbstractContextManager[ImapMailbox]]


def next_search(since: datetime, now: datetime, looks: int, *, is_made: bool) -> datetime | None:
    """Return the time of the search that follows one at `now`, or None if there is no further search.

    - since: the time at which the operation became uncertain.
    - looks: the number of searches before this one.
    - is_made: whether the mailbox could be searched this time.

    After 24 hours, the first search for which `is_made` is True is the last one.
    """
    if looks + 1 >= MOST_LOOKS:
        return None
    if now < since:  # the clock was set back, so the elapsed time is unknown
        return now + timedelta(seconds=FIRST_LOOKS[looks]) if looks < len(FIRST_LOOKS) else now + EVERY
    for seconds in FIRST_LOOKS:
        if now < since + timedelta(seconds=seconds):
            return since + timedelta(seconds=seconds)
    if now < since + LOOKED_FOR:
        return min(now + EVERY, since + LOOKED_FOR)
    return None if is_made else now + EVERY


class Reconciler:
    """Searches mailboxes for messages with an unknown outcome, and records those that it finds as sent."""

    name = "evidence"

    def __init__(self, context: SendingContext, borrow: Borrow) -> None:
        self._store, self._events, self._clock, self._borrow = context.store, context.events, context.clock, borrow
        self._drafts = GraphDrafts(context.logins)

    def due_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of the mailboxes in which a search for a message is planned for `now` or earlier."""
        return self._store.schedule.list_evidence_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Run the planned searches of a mailbox, one message at a time; requests use its connection in between.

        If the mailbox cannot be reached, all its searches are planned again. Ends early once `stopping` is set.
        """
        is_reached = True
        for uncertain in self._store.schedule.list_due_evidence(self._clock.now(), account_id):
            if stopping.is_set():
                return
            if is_reached:
                is_reached = self._search_for(uncertain, stopping)
            else:
                self._plan_next(uncertain, is_made=False)

    def _search_for(self, uncertain: UncertainDelivery, stopping: threading.Event) -> bool:
        """Search for one message and record the result. Returns False if the mailbox could not be reached."""
        operation_id, is_reached = uncertain.operation_id, True
        try:
            if self._has_left_drafts(uncertain):
                self._confirm(uncertain, None)
                return True
            found = self._find(uncertain)
        except AllMailHidden:  # tried again until the folder is visible
            log.info("confirmation_all_mail_hidden", extra={"operation": operation_id})
            found, is_reached = None, False
        except (NotFound, Unsupported):  # the mailbox was removed or cannot be searched
            self._store.schedule.schedule_evidence(operation_id, None)
            return True
        except RemoteFault as fault:
            if stopping.is_set():  # the appliance itself closed the connection
                return False
            log.info("confirmation_unavailable", extra={"operation": operation_id, "fault": fault.kind})
            found, is_reached = None, False
        except DATABASE_ERRORS:
            raise
        except Exception:  # an internal error must not stop the other searches
            log.exception("confirmation_failed", extra={"operation": operation_id})
            found = None
        if found is None:
            self._plan_next(uncertain, is_made=is_reached)
        else:
            self._confirm(uncertain, found)
        return is_reached

    def _has_left_drafts(self, uncertain: UncertainDelivery) -> bool:
        """Whether the draft of a message at Graph was sent. False if there is none, or Graph cannot be asked now."""
        if uncertain.provider_draft_id is None:
            return False
        try:
            return self._drafts.state(uncertain.account_id, uncertain.provider_draft_id) != "draft"
        except RemoteFault as fault:
            facts = {"operation": uncertain.operation_id, "fault": fault.kind, "named": fault.name}
            log.info("confirmation_draft_unknown", extra=facts)
            return False

    def _plan_next(self, uncertain: UncertainDelivery, *, is_made: bool) -> None:
        next_at = next_search(uncertain.since, self._clock.now(), uncertain.looks, is_made=is_made)
        self._store.schedule.schedule_evidence(uncertain.operation_id, next_at)
        if next_at is None:
            log.info("confirmation_ended", extra={"operation": uncertain.operation_id})

    def _find(self, uncertain: UncertainDelivery) -> FoundCopy | None:
        places = list(self._folders_to_search(uncertain))
        if not places:
            return None
        with self._borrow(uncertain.account_id) as mailbox:
            for folder, having in places:
                found = _find_in(mailbox, folder, uncertain.message_id, having)
                if found is not None:
                    return found
        return None

    def _folders_to_search(self, uncertain: UncertainDelivery) -> Iterator[tuple[MirroredFolder, tuple[str, ...]]]:
        """Yield the folders in which to search for a message, each with labels.

        The message must have at least one of these labels to count as sent, since its draft may be in the same folder.
        An empty tuple requires none.
        """
        account_id, folders = uncertain.account_id, self._store.folders
        own = self._store.accounts.get(account_id).email
        is_to_self = any(same_mailbox(recipient, own) for recipient in uncertain.recipients)
        if (all_mail := folders.find_all_mail(account_id)) is not None:
            yield (
                all_mail,
                (folder_roles.SENT_LABEL, folder_roles.INBOX_LABEL) if is_to_self else (folder_roles.SENT_LABEL,),
            )
            return
        if (sent := folders.find_by_role(account_id, "sent")) is not None:
            yield sent, ()
        if is_to_self and (inbox := folders.find_by_role(account_id, "inbox")) is not None:
            yield inbox, ()

    def _confirm(self, uncertain: UncertainDelivery, found: FoundCopy | None) -> None:
        """Record that a message was sent. `found`: where; None if only Graph reports that it was sent."""
        operation_id, account_id = uncertain.operation_id, uncertain.account_id
        sent = find_sent_folder(self._store, account_id)
        copy = self._copy(operation_id, found.folder if found is not None and found.folder.role == "sent" else sent)
        with self._store.database.transaction(durable=True):
            if not self._store.deliveries.confirm(operation_id, found, copy):
                return  # a person has resolved it already
            self._store.audit.record(SYSTEM_ACTOR, "delivery.confirm", ("delivery", operation_id))
        place = None if found is None else found.folder.role
        facts = {"operation": operation_id, "account": account_id, "status": "succeeded", "found": place}
        log.info("delivery", extra=facts)
        self._events.publish(DeliverySettled(operation_id, account_id, "succeeded"))
        folder = sent if found is None else found.folder
        if folder is not None:
            self._events.publish(FolderWritten(account_id, folder.path))

    def _copy(self, operation_id: str, sent: MirroredFolder | None) -> SentCopy | None:
        """Return the sent message as the local mirror shows it until the server's copy is synced.

        `sent`: the folder for sent mail. Returns None without one, or if the message cannot be prepared for it.
        """
        try:
            return None if sent is None else make_copy(self._store.deliveries.get_work(operation_id), sent)
        except DATABASE_ERRORS:
            raise
        except Exception:  # the operation counts as succeeded even if its copy cannot be shown at once
            log.exception("sent_copy_not_shown", extra={"operation": operation_id})
            return None


def _find_in(
    mailbox: ImapMailbox, folder: MirroredFolder, message_id: str, having: tuple[str, ...]
) -> FoundCopy | None:
    try:
        return client.find_by_message_id(mailbox, folder, message_id, having)
    except RemoteFault as fault:
        if fault.kind != "refused":  # the folder may not exist; the next one can still be searched
            raise
        return None
