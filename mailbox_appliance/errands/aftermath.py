"""What an operation of sending brings with it at the mailbox's server, once it is over.

    remove_draft ... sent: the saved draft goes, if it is still the version that was sent
    flag_parent .... sent: what was answered or forwarded is marked so (RFC 9051 2.3.2)
    keep_draft ..... a scheduled send was canceled or failed: its message becomes a draft again, with its Bcc

Tried at once, then after 60 s growing to 30 minutes, for 24 hours. Only a message that is to be kept is never given up.
All of it may be done twice and leaves the same. When is `sending/due`'s to know.
"""

import logging
import threading
from datetime import datetime, timedelta

from mailbox_appliance import retry
from mailbox_appliance.clock import Clock
from mailbox_appliance.errands import action_plan
from mailbox_appliance.errands.action_plan import FlagEdit
from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.drafts import Drafts, Version
from mailbox_appliance.errands.identity import identified
from mailbox_appliance.errands.turns import Turns
from mailbox_appliance.errors import NotFound, SyncRequired
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.records import Chore, FlagChange, LocatedMessage
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.database import FAILED
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 60, 1800
TRIED_FOR = timedelta(hours=24)


class Aftermath:
    """Carries chores out. May be used from any thread; the chores of an operation are done one after the other."""

    name = "aftermath"

    def __init__(self, store: Store, connections: Connections, drafts: Drafts, events: Events, clock: Clock) -> None:
        self._store, self._connections, self._drafts = store, connections, drafts
        self._events, self._clock = events, clock
        self._turns = Turns()

    def waiting(self, now: datetime) -> tuple[str, ...]:
        """The mailboxes with chores whose time has come."""
        return self._store.due.chore_accounts(now)

    def work(self, account_id: str, stopping: threading.Event) -> None:
        """Do what is due in a mailbox; what cannot be done now is planned for later."""
        for chore in self._store.due.chores(self._clock.now(), account_id):
            if stopping.is_set():
                return
            self._do(chore, stopping)

    def now(self, operation_id: str) -> bool:
        """Do what is left after an operation, now and here; answers whether nothing is left then.

        Also where the store cannot be written: what is done is done, and the rest stays due.
        """
        try:
            for chore in self._store.due.chores_of(operation_id):
                self._do(chore, threading.Event())
        except FAILED:
            log.exception("a chore after a delivery could not be recorded", extra={"operation": operation_id})
        return not self._store.due.chores_of(operation_id)

    def _do(self, chore: Chore, stopping: threading.Event) -> None:
        with self._turns.of(chore.operation_id):
            # Another thread may have been at it, and done or planned it meanwhile.
            if chore not in self._store.due.chores_of(chore.operation_id):
                return
            try:
                warning = self._carry_out(chore)
            except NotFound:  # the mailbox is gone
                self._store.due.finish_chore(chore)
            except SyncRequired:  # moved by another program, most likely: sync finds it in its new place
                self._put_off(chore, "moved") if not chore.attempts else self._store.due.finish_chore(chore)
            except RemoteFault as fault:
                if not stopping.is_set():  # else we hung up ourselves
                    self._put_off(chore, fault.kind)
            except FAILED:
                raise
            except Exception:  # a fault of ours holds up none of the others
                log.exception("a chore after a delivery failed", extra={"operation": chore.operation_id})
                self._put_off(chore, "internal")
            else:
                self._store.due.finish_chore(chore, warning)

    def _put_off(self, chore: Chore, fault: str) -> None:
        facts = {"operation": chore.operation_id, "chore": chore.kind, "fault": fault}
        now = self._clock.now()
        if chore.kind != "keep_draft" and now - chore.since >= TRIED_FOR:
            log.warning("a chore after a delivery is given up", extra=facts)
            self._store.due.finish_chore(chore)
            return
        log.info("a chore after a delivery is put off", extra=facts)
        wait = retry.delay(chore.attempts + 1, _FIRST_WAIT, _LONGEST_WAIT)
        self._store.due.put_off_chore(chore, now + timedelta(seconds=wait))

    def _carry_out(self, chore: Chore) -> str | None:
        """Do it; answers what the result should warn of. Raises RemoteFault, SyncRequired, NotFound without mailbox."""
        if chore.kind == "keep_draft":
            self._keep_draft(chore)
        elif chore.kind == "remove_draft":
            return self._drafts.remove_sent(chore.account_id, chore.message_id or "", chore.draft_version)
        else:
            self._flag_parent(chore)
        return None

    def _keep_draft(self, chore: Chore) -> None:
        work = self._store.deliveries.work(chore.operation_id)
        if not work.wire:
            log.error("a message that was to be kept is not there", extra={"operation": chore.operation_id})
            return
        version = Version(with_bcc(work.wire, work.bcc_header), work.message_id, self._clock.now())
        self._drafts.keep(chore.account_id, version, work.result_thread_id)

    def _flag_parent(self, chore: Chore) -> None:
        message_id, edit = chore.message_id or "", FlagEdit(frozenset({chore.flag or ""}), frozenset())
        parent = self._store.mirror.locate(chore.account_id, [message_id]).get(message_id)
        if parent is None:
            return
        path = parent.folder.path
        with self._connections.borrow(chore.account_id, in_background=True) as mailbox:
            found, _ = identified(self._store, mailbox, parent.folder, [parent])
            if found:
                self._flag(mailbox, found[0], edit)
        self._events.publish(FolderTouched(chore.account_id, path))
        if not found:
            raise SyncRequired

    def _flag(self, mailbox: ImapMailbox, message: LocatedMessage, edit: FlagEdit) -> None:
        path, uids = message.folder.path, [] if message.uid is None else [message.uid]
        keywords = {flag for flag in edit.add if not flag.startswith("\\")}
        if keywords:
            permanent = mailbox.permanent_flags(path)
            if action_plan.refused_labels(keywords, permanent) is not None:
                return  # the server keeps no keywords: then it is done without
            edit = action_plan.as_written(edit, permanent)
        if edit.applied(message.flags) != message.flags:
            mailbox.store_flags(path, uids, add=edit.add, remove=frozenset())
        changes = [FlagChange(uid, edit.applied(message.flags)) for uid in uids]
        self._store.mirror.change_flags(message.folder.number, changes)
