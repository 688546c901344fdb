"""Carries a bulk action out: at the server first, folder by folder in few commands, then in the store.

Before anything is done to a message, what lies under its UID is compared with what we know of it. Folders are
independent: what fails in one keeps nothing from being done in another.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mailbox_appliance.errands import action_plan, role_folders
from mailbox_appliance.errands.action_plan import Code, FlagEdit, Group, Outcomes, Wanted, ids
from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.identity import identified
from mailbox_appliance.events import Events, FolderTouched
from mailbox_appliance.records import ActionResult, FlagChange, FolderRole, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import FaultKind, RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store

_CODES: dict[FaultKind, Code] = {"refused": "provider_rejected", "unsupported": "unsupported_capability"}
#: After these another folder may still do; after the others it would only make the caller wait longer.
_PASSING = frozenset({"refused", "unsupported", "disconnected", "malformed"})


def perform(connections: Connections, store: Store, events: Events, account_id: str, wanted: Wanted) -> ActionResult:
    """Do it, and say of each message what became of it. Raises RemoteFault where nothing could even be tried."""
    outcomes = Outcomes(wanted)
    located = store.mirror.locate(account_id, wanted.message_ids)
    outcomes.fail([each for each in wanted.message_ids if each not in located], "not_found")
    messages = [located[each] for each in wanted.message_ids if each in located]
    if (code := action_plan.hopeless(wanted)) is not None:
        outcomes.fail(ids(messages), code)
    else:
        there = [message for message in messages if action_plan.stays(wanted, message)]
        outcomes.succeed(ids(there))
        to_do = [message for message in messages if message not in there]
        _Errand(connections, store, events, account_id, outcomes).run(action_plan.groups(wanted, to_do))
    return outcomes.result()


class _Errand:
    """One bulk action at one mailbox."""

    def __init__(
        self, connections: Connections, store: Store, events: Events, account_id: str, outcomes: Outcomes
    ) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._account_id, self._outcomes, self._wanted = account_id, outcomes, outcomes.wanted
        self._was_connected = False
        self._touched: dict[str, None] = {}

    def run(self, groups: Sequence[Group]) -> None:
        """All groups, one after the other; one that meets a fault does not hold up the next, unless it would wait."""
        fault: RemoteFault | None = None
        for group in groups:
            if fault is None or fault.kind in _PASSING:
                try:
                    fault = self._try(group)
                finally:
                    self._tell_sync()  # at once, since it may be looking there already
            self._outcomes.fail(ids(group[2]), "provider_unavailable")  # those of which nothing else is said
        if fault is not None and not self._was_connected and not self._outcomes.has_success:
            raise fault

    def _try(self, group: Group) -> RemoteFault | None:
        try:
            with self._connections.borrow(self._account_id) as mailbox:
                self._was_connected = True
                self._act(mailbox, group)
        except RemoteFault as fault:
            self._outcomes.fail(ids(group[2]), _CODES.get(fault.kind, "provider_unavailable"))
            return fault
        return None

    def _tell_sync(self) -> None:
        for path in self._touched:
            self._events.publish(FolderTouched(self._account_id, path))
        self._touched.clear()

    def _act(self, mailbox: ImapMailbox, group: Group) -> None:
        folder, role, messages = group
        identified_ones = self._identified(mailbox, folder, messages)
        found = [message for message in identified_ones if not action_plan.stays(self._wanted, message)]
        self._outcomes.succeed(ids([message for message in identified_ones if message not in found]))
        edit = action_plan.flag_edit(self._wanted)
        if not found:
            return
        if edit is not None:
            self._flag(mailbox, folder, found, edit)
        elif self._wanted.action == "delete":
            self._expunge(mailbox, folder, found)
        elif (target := self._target(mailbox, found, role)) is not None:
            self._move(mailbox, folder, found, target)

    def _identified(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
    ) -> tuple[LocatedMessage, ...]:
        """Those that are still what they were, with the flags and the UIDs they have now."""
        found, problems = identified(self._store, mailbox, folder, messages)
        for message_id, code in problems.items():
            self._outcomes.fail([message_id], code)
        if problems:
            self._touched[folder.path] = None  # the mirror is behind
        return found

    # --- what is said to the server ---

    def _flag(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        refusal: Code = "provider_rejected"
        if self._wanted.labels:
            permanent = mailbox.permanent_flags(folder.path)
            if (problem := action_plan.refused_labels(edit.add, permanent)) is not None:
                self._outcomes.fail(ids(messages), problem)
                return
            edit, refusal = action_plan.as_written(edit, permanent), "label_invalid"
        changing = [message for message in messages if edit.applied(message.flags) != message.flags]
        self._flagged(folder, [message for message in messages if message not in changing], edit)
        if changing:
            with self._telling(changing, folder.path, refusal=refusal):
                mailbox.store_flags(folder.path, _uids(changing), add=edit.add, remove=edit.remove)
            self._flagged(folder, changing, edit)

    def _flagged(self, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit) -> None:
        changes = [FlagChange(_uid(message), edit.applied(message.flags)) for message in messages]
        self._store.mirror.change_flags(folder.number, changes)
        self._outcomes.succeed(ids(messages))

    def _expunge(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        with self._telling(messages, folder.path):
            mailbox.expunge(folder.path, _uids(messages))
        self._store.mirror.remove(folder.number, _uids(messages))
        self._outcomes.succeed(ids(messages))

    def _move(
        self,
        mailbox: ImapMailbox,
        folder: MirroredFolder,
        messages: Sequence[LocatedMessage],
        target: MirroredFolder,
    ) -> None:
        try:
            with self._telling(messages, folder.path, target.path, refusal=None):
                uidvalidity = target.state.uidvalidity if target.state is not None else None
                new_uids = mailbox.move(folder.path, _uids(messages), target.path, uidvalidity)
        except RemoteFault as fault:
            if fault.kind == "refused" and not role_folders.is_there(mailbox, target.path):
                self._outcomes.fail(ids(messages), "folder_not_found")
            raise
        # Where the server told new UIDs, one without was no longer there to be moved.
        moved = [message for message in messages if not new_uids or message.uid in new_uids]
        moves = [(message.id, target.number, new_uids.get(_uid(message))) for message in moved]
        self._store.mirror.moved(self._account_id, moves)
        self._outcomes.succeed(ids(moved))
        self._outcomes.fail(ids(messages), "not_found")

    def _target(
        self, mailbox: ImapMailbox, messages: Sequence[LocatedMessage], role: FolderRole | None
    ) -> MirroredFolder | None:
        """Where these go; the archive and the trash are made where there are none."""
        if role is None:
            return self._wanted.target
        try:
            return role_folders.of_role(self._store, mailbox, self._account_id, role)
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            self._outcomes.fail(ids(messages), "folder_not_found")
            return None

    @contextmanager
    def _telling(
        self, messages: Sequence[LocatedMessage], *paths: str, refusal: Code | None = "provider_rejected"
    ) -> Iterator[None]:
        """What is said within may have been done, whether we hear of it or not."""
        self._touched.update(dict.fromkeys(paths))
        try:
            yield
        except RemoteFault as fault:
            if fault.in_doubt:
                self._outcomes.doubt(ids(messages))
            elif fault.kind == "refused" and refusal is not None:
                self._outcomes.fail(ids(messages), refusal)
            raise


def _uid(message: LocatedMessage) -> int:
    assert message.uid is not None  # noqa: S101 - identified messages have one
    return message.uid


def _uids(messages: Sequence[LocatedMessage]) -> list[int]:
    return [_uid(message) for message in messages]
