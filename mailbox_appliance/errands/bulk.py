"""What bulk actions have in common: groups of messages, each carried out over a connection, and what became of each.

Before anything is done to a message, what lies under its UID is compared with what we know of it. Folders are
independent: what fails in one keeps nothing from being done in another.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from mailbox_appliance.errands import action_plan, role_folders
from mailbox_appliance.errands.action_plan import Code, FlagEdit, Outcomes, ids
from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.identity import identified
from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.model.records import FlagChange, FolderRole, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import FaultKind, RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store

How = TypeVar("How")  # what is done to the messages of a group
Group = tuple[MirroredFolder, How, tuple[LocatedMessage, ...]]

_CODES: dict[FaultKind, Code] = {"refused": "provider_rejected", "unsupported": "unsupported_capability"}
#: After these another folder may still do; after the others it would only make the caller wait longer.
_PASSING = frozenset({"refused", "unsupported", "disconnected", "malformed"})


class Bulk(ABC, Generic[How]):
    """One bulk action at one mailbox."""

    #: Labels as they are written; case does not count.
    known_labels: frozenset[str] = frozenset()

    def __init__(
        self, connections: Connections, store: Store, events: Events, account_id: str, outcomes: Outcomes
    ) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._account_id, self._outcomes, self._action = account_id, outcomes, outcomes.wanted
        self._was_connected = False
        self._touched: dict[str, None] = {}

    def run(self, groups: Sequence[Group[How]]) -> None:
        """All groups, one after the other; one that meets a fault does not hold up the next, unless it would wait."""
        fault: RemoteFault | None = None
        for group in groups:
            if fault is None or fault.kind in _PASSING:
                try:
                    fault = self._try_group(group)
                finally:
                    self._notify_sync()  # at once, since it may be looking there already
            self._outcomes.mark_failed(ids(group[2]), "provider_unavailable")  # those of which nothing else is said
        if fault is not None and not self._was_connected and not self._outcomes.has_success:
            raise fault

    def _try_group(self, group: Group[How]) -> RemoteFault | None:
        try:
            with self._connections.borrow(self._account_id) as mailbox:
                self._was_connected = True
                self._run_group(mailbox, group)
        except RemoteFault as fault:
            self._outcomes.mark_failed(ids(group[2]), _CODES.get(fault.kind, "provider_unavailable"))
            return fault
        return None

    def _notify_sync(self) -> None:
        for path in self._touched:
            self._events.publish(FolderWritten(self._account_id, path))
        self._touched.clear()

    @abstractmethod
    def _run_group(self, mailbox: ImapMailbox, group: Group[How]) -> None:
        """Carry it out for one group, and say what became of each message. Raises RemoteFault."""

    def _match_on_server(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
    ) -> tuple[LocatedMessage, ...]:
        """Those that are still what they were, with the flags and the UIDs they have now."""
        found, problems = identified(self._store, mailbox, folder, messages)
        for message_id, code in problems.items():
            self._outcomes.mark_failed([message_id], code)
        if problems:
            self._touched[folder.path] = None  # the mirror is behind
        return found

    # --- what is said to the server ---

    def _change_flags(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        refusal: Code = "provider_rejected"
        if self._action.labels:
            permanent = mailbox.permanent_flags(folder.path) | self.known_labels
            if (problem := action_plan.refused_labels(edit.add, permanent)) is not None:
                self._outcomes.mark_failed(ids(messages), problem)
                return
            edit, refusal = action_plan.as_written(edit, permanent), "label_invalid"
        changing = [message for message in messages if edit.apply_to(message.flags) != message.flags]
        self._record_flags(folder, [message for message in messages if message not in changing], edit)
        if changing:
            with self._mark_on_fault(changing, folder.path, refusal=refusal):
                mailbox.store_flags(folder.path, uids(changing), add=edit.add, remove=edit.remove)
            self._record_flags(folder, changing, edit)

    def _record_flags(self, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit) -> None:
        changes = [FlagChange(uid_of(message), edit.apply_to(message.flags)) for message in messages]
        self._store.mailbox_writer.change_flags(folder.number, changes)
        self._outcomes.mark_succeeded(ids(messages))

    def _move_messages(
        self,
        mailbox: ImapMailbox,
        folder: MirroredFolder,
        messages: Sequence[LocatedMessage],
        target: MirroredFolder,
    ) -> tuple[LocatedMessage, ...]:
        """Move them, and answer those that were moved as they lie now. The others are not there any more."""
        try:
            with self._mark_on_fault(messages, folder.path, target.path, refusal=None):
                uidvalidity = target.state.uidvalidity if target.state is not None else None
                new_uids = mailbox.move(folder.path, uids(messages), target.path, uidvalidity)
        except RemoteFault as fault:
            if fault.kind == "refused" and not role_folders.is_there(mailbox, target.path):
                self._outcomes.mark_failed(ids(messages), "folder_not_found")
            raise
        # Where the server told new UIDs, one without was no longer there to be moved.
        moved = [message for message in messages if not new_uids or message.uid in new_uids]
        there = tuple(replace(each, folder=target, uid=new_uids.get(uid_of(each))) for each in moved)
        self._store.mailbox_writer.record_moves(
            self._account_id, [(each.id, target.number, each.uid) for each in there]
        )
        self._outcomes.mark_failed(ids([message for message in messages if message not in moved]), "not_found")
        return there

    def _target_folder(
        self, mailbox: ImapMailbox, messages: Sequence[LocatedMessage], role: FolderRole
    ) -> MirroredFolder | None:
        """Where these go; the archive and the trash are made where there are none."""
        try:
            return role_folders.of_role(self._store, mailbox, self._account_id, role)
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            self._outcomes.mark_failed(ids(messages), "folder_not_found")
            return None

    @contextmanager
    def _mark_on_fault(
        self, messages: Sequence[LocatedMessage], *paths: str, refusal: Code | None = "provider_rejected"
    ) -> Iterator[None]:
        """What is said within may have been done, whether we hear of it or not."""
        self._touched.update(dict.fromkeys(paths))
        try:
            yield
        except RemoteFault as fault:
            if fault.in_doubt:
                self._outcomes.mark_uncertain(ids(messages))
            elif fault.kind == "refused" and refusal is not None:
                self._outcomes.mark_failed(ids(messages), refusal)
            raise


def uid_of(message: LocatedMessage) -> int:
    """Its UID."""
    assert message.uid is not None  # noqa: S101 - identified messages have one
    return message.uid


def uids(messages: Sequence[LocatedMessage]) -> list[int]:
    """Their UIDs."""
    return [uid_of(message) for message in messages]
