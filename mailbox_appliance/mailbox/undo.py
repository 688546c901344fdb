"""Undoes a bulk action: restores the flags, labels and folders of the messages that are still as it left them.

The server is asked right before the change. A message whose folder, flags or labels somebody has changed since stays as
it is, and its outcome is the failure `changed`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailbox_appliance.events import Events
from mailbox_appliance.mail.folder_roles import INBOX_LABEL
from mailbox_appliance.mailbox.bulk import (
    ActionGroup,
    BulkOutcomes,
    BulkRunner,
    FlagEdit,
    MessageAction,
    ids_of,
)
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.model.sync import LocatedMessage, MirroredFolder, StateChange
from mailbox_appliance.remote.imap.client import ImapMailbox

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store


@dataclass(frozen=True)
class Restoration:
    """The way back to the earlier state, for the messages of a group.

    - expected: Their flags as the action left them. Messages with others stay as they are.
    - target: Folder to move them to; None if the action did not move them.
    - edit: The flags and labels to change, after the move.
    """

    expected: frozenset[str]
    target: MirroredFolder | None
    edit: FlagEdit


def undo(
    connections: Connections,
    store: "Store",
    events: Events,
    account_id: str,
    wanted: MessageAction,
    changes: Sequence[StateChange],
) -> BulkOutcomes:
    """Undo what an action changed, and return the outcome for each message that it changed.

    `wanted`: the action, with the messages in the order of the outcomes. Raises RemoteFault if the server could not be
    reached; then nothing was restored.
    """
    outcomes = BulkOutcomes(wanted)
    located = store.mailbox_writer.locate(account_id, wanted.message_ids)
    outcomes.mark_failed([each for each in wanted.message_ids if each not in located], "not_found")
    folders = {folder.id: folder for folder in store.folders.list(account_id)}
    has_labels = any(folder.label is not None for folder in folders.values())
    groups: list[ActionGroup[Restoration]] = []
    for change in changes:
        messages = [located[each] for each in change.message_ids if each in located]
        left = [message for message in messages if message.folder.id == change.after.folder_id]
        outcomes.mark_failed(ids_of([message for message in messages if message not in left]), "changed")
        restoration = _plan(change, folders, has_labels=has_labels)
        if restoration is None:
            outcomes.mark_failed(ids_of(left), "folder_not_found")
        elif left:
            groups.append((left[0].folder, restoration, tuple(left)))
    UndoRunner(connections, store, events, account_id, outcomes).run(groups)
    return outcomes


def _plan(change: StateChange, folders: Mapping[str, MirroredFolder], *, has_labels: bool) -> Restoration | None:
    """Return how to undo a change; None if the folder that the messages were in does not exist any more."""
    before, after = change.before, change.after
    edit = FlagEdit(_without(before.flags, after.flags), _without(after.flags, before.flags))
    if before.folder_id == after.folder_id:
        return Restoration(after.flags, None, edit)
    if has_labels:
        # A server may add this label to a message that leaves spam or trash.
        edit = FlagEdit(edit.add, edit.remove | _without({INBOX_LABEL}, before.flags))
    target = folders.get(before.folder_id)
    return None if target is None else Restoration(after.flags, target, edit)


def _without(flags: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """Return the flags that are not among the others. Case is ignored (RFC 9051 2.3.2)."""
    names = {other.lower() for other in others}
    return frozenset(flag for flag in flags if flag.lower() not in names)


class UndoRunner(BulkRunner[Restoration]):
    """Restores the messages of an action, on servers with folders and with labels."""

    def _run_group(self, mailbox: ImapMailbox, group: ActionGroup[Restoration]) -> None:
        folder, way, messages = group
        found = self._match_on_server(mailbox, folder, messages)
        same = [message for message in found if _is_same(message, way.expected)]
        self._outcomes.mark_failed(ids_of([message for message in found if message not in same]), "changed")
        if not same:
            self._touched[folder.path] = None  # the mirror is outdated
        elif way.target is None:
            self._change_flags(mailbox, folder, same, way.edit)
        else:
            moved = self._move_messages(mailbox, folder, same, way.target)
            if moved and (way.edit.add or way.edit.remove):
                self._change_moved(mailbox, way.target, moved, way.edit)
            self._outcomes.mark_succeeded(ids_of(moved))


def _is_same(message: LocatedMessage, flags: frozenset[str]) -> bool:
    return not _without(message.flags, flags) and not _without(flags, message.flags)
