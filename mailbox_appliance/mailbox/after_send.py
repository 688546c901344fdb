"""Tasks at the mailbox's server that remain when a delivery has ended.

    remove_draft ... sent: remove the saved draft, if it is still the version that was sent
    flag_parent .... sent: mark the original as answered or forwarded (RFC 9051 2.3.2)
    keep_draft ..... a scheduled message was canceled or failed: save it as a draft, with its Bcc and the current Date,
                     unless its saved draft is still there unchanged

The first attempt is immediate. Retries follow after 60 s, growing to 30 minutes. After 52 attempts, about a day, a task
is given up with a warning in the result of the delivery; only `keep_draft` is never given up. Every task can be
repeated without harm.

The timer (`sending.scheduler`) starts tasks when their time has come. If an API request waits for the send, it runs
`remove_draft` itself, so that its answer comes after the removal.
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
MAX_ATTEMPTS = 52  # take 24 hours in total
_GIVEN_UP = {
    "remove_draft": own_text(
        "The message was sent, but its draft could not be removed. It may still be in the drafts folder."
    ),
    "flag_parent": own_text("The message was sent, but the original could not be marked as answered or forwarded."),
}


class PostSendTasks:
    """Runs the tasks that remain after deliveries, one of a delivery at a time. Thread-safe."""

    name = "aftermath"

    def __init__(self, store: "Store", connections: Connections, drafts: Drafts, events: Events, clock: Clock) -> None:
        self._store, self._connections, self._drafts = store, connections, drafts
        self._events, self._clock = events, clock
        self._locks = KeyedLocks()

    def due_accounts(self, now: datetime) -> tuple[str, ...]:
        """Return the IDs of the mailboxes with tasks whose next attempt is planned for `now` or earlier."""
        return self._store.schedule.list_chore_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Run the tasks of a mailbox that are due; those that fail are planned again. Ends early on `stopping`."""
        for chore in self._store.schedule.list_due_chores(self._clock.now(), account_id):
            if stopping.is_set():
                return
            self._run_task(chore, stopping)

    def run_now(self, operation_id: str) -> bool:
        """Run the remaining tasks of a delivery now, in this thread. Returns whether none is left.

        If the store cannot be written, the error is logged, and tasks not recorded as done are repeated later.
        """
        self._run_tasks_of(operation_id)
        return not self._store.schedule.list_chores(operation_id)

    def is_draft_left(self, operation_id: str) -> bool:
        """Whether the saved draft of a delivery still has to be removed."""
        return any(chore.kind == "remove_draft" for chore in self._store.schedule.list_chores(operation_id))

    def remove_draft_now(self, operation_id: str) -> None:
        """Remove the saved draft of a delivery now, in this thread, if it remains. A failure is retried later."""
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
            # Another thread may have finished or postponed it while this one waited.
            if chore not in self._store.schedule.list_chores(chore.operation_id):
                return
            try:
                warning = self._carry_out(chore)
            except NotFound:  # the mailbox was removed
                self._store.schedule.finish_chore(chore)
            except SyncRequired:  # probably moved or removed by another program; sync finds that out
                self._postpone(chore, "moved")
            except RemoteFault as fault:
                if not stopping.is_set():  # otherwise the appliance itself closed the connection
                    self._postpone(chore, fault.kind)
            except DATABASE_ERRORS:
                raise
            except Unsupported:
                self._postpone(chore, "unsupported")
            except Exception:  # an internal error must not stop the other tasks
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
        """Run one task. Returns a warning for the result of the delivery, or None.

        Raises RemoteFault, NotFound if the mailbox was removed, SyncRequired if the message is not where it was.
        """
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
        # In one transaction with the mirror, so that a draft that a person removes does not come back.
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
                return  # the server keeps no keywords, so the mark is omitted
            edit = bulk.with_server_spelling(edit, permanent)
        if edit.apply_to(message.flags) != message.flags:
            mailbox.store_flags(path, uids, add=edit.add, remove=frozenset())
        changes = [FlagChange(uid, edit.apply_to(message.flags)) for uid in uids]
        self._store.mailbox_writer.change_flags(message.folder.number, changes)
