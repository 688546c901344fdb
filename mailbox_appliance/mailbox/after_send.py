"""What is left to do at the mailbox's server when an operation of sending has ended.

    remove_draft ... sent: the saved draft goes, if it is still the version that was sent
    flag_parent .... sent: what was answered or forwarded is marked so (RFC 9051 2.3.2)
    keep_draft ..... a scheduled send was canceled or failed: its message is a draft again, with its Bcc and the Date
                     of now. Of a saved draft only where that does not lie there any more as it was.

Tried at once (the draft by the request that waits for the send, which then answers that it is sent), then after 60 s
growing to 30 minutes, as often as a day has room for: tries are counted, not hours, since the appliance may be off.
What is given up is in the warnings of the result. Only a message that is to be kept is never given up. All of it may be
done twice and leaves the same. `sending.scheduler` knows when it is due.
"""

import logging
import threading
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from mailbox_appliance import clock
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import NotFound, SyncRequired, Unsupported
from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.mail.compose import with_bcc, with_date
from mailbox_appliance.mailbox import bulk
from mailbox_appliance.mailbox.bulk import FlagEdit, match_on_server
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.mailbox.drafts import Drafts, DraftVersion
from mailbox_appliance.mailbox.locks import KeyedLocks
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.deliveries import PostSendTask, PostSendTaskKind
from mailbox_appliance.model.sync import FlagChange, LocatedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.store.database import DATABASE_ERRORS

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
MAX_ATTEMPTS = 52  # take 24 hours
_GIVEN_UP = {
    "remove_draft": own_text(
        "The message was sent, but its draft could not be removed. It may still be in the drafts folder."
    ),
    "flag_parent": own_text("The message was sent, but the original could not be marked as answered or forwarded."),
}


class PostSendTasks:
    """Carries chores out. May be used from any thread; the chores of an operation are done one after the other."""

    name = "aftermath"

    def __init__(self, store: "Store", connections: Connections, drafts: Drafts, events: Events, clock: Clock) -> None:
        self._store, self._connections, self._drafts = store, connections, drafts
        self._events, self._clock = events, clock
        self._locks = KeyedLocks()

    def due_accounts(self, now: datetime) -> tuple[str, ...]:
        """The mailboxes with chores whose time has come."""
        return self._store.schedule.list_chore_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Do what is due in a mailbox; what cannot be done now is planned for later."""
        for chore in self._store.schedule.list_due_chores(self._clock.now(), account_id):
            if stopping.is_set():
                return
            self._run_task(chore, stopping)

    def run_now(self, operation_id: str) -> bool:
        """Do what is left after an operation, now and here; answers whether nothing is left then.

        Also where the store cannot be written: what is done is done, and the rest stays due.
        """
        self._run_tasks_of(operation_id)
        return not self._store.schedule.list_chores(operation_id)

    def is_draft_left(self, operation_id: str) -> bool:
        """Whether the saved draft that an operation has sent is still to be removed."""
        return any(chore.kind == "remove_draft" for chore in self._store.schedule.list_chores(operation_id))

    def remove_draft_now(self, operation_id: str) -> None:
        """As `now`, of the saved draft that an operation has sent and nothing else."""
        self._run_tasks_of(operation_id, "remove_draft")

    def _run_tasks_of(self, operation_id: str, kind: PostSendTaskKind | None = None) -> None:
        try:
            for chore in self._store.schedule.list_chores(operation_id):
                if kind in (None, chore.kind):
                    self._run_task(chore, threading.Event())
        except DATABASE_ERRORS:
            log.exception("after_send_task_not_recorded", extra={"operation": operation_id})

    def _run_task(self, chore: PostSendTask, stopping: threading.Event) -> None:
        with self._locks.lock(chore.operation_id):
            # Another thread may have been at it, and done or planned it meanwhile.
            if chore not in self._store.schedule.list_chores(chore.operation_id):
                return
            try:
                warning = self._carry_out(chore)
            except NotFound:  # the mailbox is gone
                self._store.schedule.finish_chore(chore)
            except SyncRequired:  # moved or removed by another program, most likely: sync finds that out
                self._postpone(chore, "moved")
            except RemoteFault as fault:
                if not stopping.is_set():  # else we hung up ourselves
                    self._postpone(chore, fault.kind)
            except DATABASE_ERRORS:
                raise
            except Unsupported:
                self._postpone(chore, "unsupported")
            except Exception:  # a fault of ours holds up none of the others
                log.exception("after_send_task_failed", extra={"operation": chore.operation_id})
                self._postpone(chore, "internal")
            else:
                self._store.schedule.finish_chore(chore, warning)

    def _postpone(self, chore: PostSendTask, fault: str) -> None:
        facts = {"operation": chore.operation_id, "chore": chore.kind, "fault": fault}
        tries = chore.attempts + 1
        if tries >= MAX_ATTEMPTS and chore.kind in _GIVEN_UP:
            log.warning("after_send_task_abandoned", extra=facts)
            self._store.schedule.finish_chore(chore, _GIVEN_UP[chore.kind])
            return
        log.info("after_send_task_postponed", extra=facts)
        wait = clock.retry_delay(tries, _FIRST_WAIT, _LONGEST_WAIT)
        self._store.schedule.postpone_chore(chore, self._clock.now() + timedelta(seconds=wait))

    def _carry_out(self, chore: PostSendTask) -> str | None:
        """Do it; answers what the result should warn of. Raises RemoteFault, SyncRequired, NotFound without mailbox."""
        if chore.kind == "keep_draft":
            self._keep_draft(chore)
        elif chore.kind == "remove_draft":
            return self._drafts.remove_sent(chore.account_id, chore.message_id or "", chore.draft_version)
        else:
            self._flag_parent(chore)
        return None

    def _keep_draft(self, chore: PostSendTask) -> None:
        if chore.message_id and self._drafts.is_on_server(chore.account_id, chore.message_id, chore.draft_version):
            return
        work = self._store.deliveries.get_work(chore.operation_id)
        if not len(work.wire):
            log.error("message_to_keep_missing", extra={"operation": chore.operation_id})
            return
        now = self._clock.now()
        source = with_bcc(with_date(work.wire, now), work.bcc_header)
        # In one transaction with the mirror: a person who removes the draft then does not get it back.
        record = partial(self._store.schedule.finish_chore, chore)
        self._drafts.ensure_saved(
            chore.account_id, DraftVersion(source, work.message_id, now), work.result_thread_id, record
        )

    def _flag_parent(self, chore: PostSendTask) -> None:
        message_id, edit = chore.message_id or "", FlagEdit(frozenset({chore.flag or ""}), frozenset())
        parent = self._store.mailbox_writer.locate(chore.account_id, [message_id]).get(message_id)
        if parent is None:
            return
        path = parent.folder.path
        with self._connections.borrow(chore.account_id, in_background=True) as mailbox:
            found, _ = match_on_server(self._store, mailbox, parent.folder, [parent])
            if found:
                self._flag(mailbox, found[0], edit)
        self._events.publish(FolderWritten(chore.account_id, path))
        if not found:
            raise SyncRequired

    def _flag(self, mailbox: ImapMailbox, message: LocatedMessage, edit: FlagEdit) -> None:
        path, uids = message.folder.path, [] if message.uid is None else [message.uid]
        keywords = {flag for flag in edit.add if not flag.startswith("\\")}
        if keywords:
            permanent = mailbox.permanent_flags(path)
            if bulk.why_labels_refused(keywords, permanent) is not None:
                return  # the server keeps no keywords: then it is done without
            edit = bulk.with_server_spelling(edit, permanent)
        if edit.apply_to(message.flags) != message.flags:
            mailbox.store_flags(path, uids, add=edit.add, remove=frozenset())
        changes = [FlagChange(uid, edit.apply_to(message.flags)) for uid in uids]
        self._store.mailbox_writer.change_flags(message.folder.number, changes)
