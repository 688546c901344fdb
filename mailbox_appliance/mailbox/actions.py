"""Runs bulk actions on messages, such as archiving many at once: at the server first, then in the store.

`FolderRunner` is for servers with folders, `LabelRunner` for servers with labels (Gmail).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mailbox_appliance.events import Events
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.folder_roles import is_user_label
from mailbox_appliance.mailbox import bulk
from mailbox_appliance.mailbox.bulk import (
    ActionGroup,
    BulkOutcomes,
    BulkRunner,
    FailureCode,
    FlagEdit,
    MessageAction,
    find_moved_uids,
    flag_edit,
    ids_of,
    uid_of,
    uids_of,
)
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.model.accounts import FolderRole
from mailbox_appliance.model.sync import LocatedMessage, MirroredFolder
from mailbox_appliance.remote.imap.client import ImapMailbox

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store


def perform(
    connections: Connections, store: "Store", events: Events, account_id: str, wanted: MessageAction
) -> BulkOutcomes:
    """Run the action on the messages that it names, and return the outcome for each of them.

    Raises RemoteFault if the server could not be reached and no message has succeeded. Raises AllMailHidden if Gmail
    hides the folder All Mail from IMAP.
    """
    outcomes = BulkOutcomes(wanted)
    located = store.mailbox_writer.locate(account_id, wanted.message_ids)
    outcomes.mark_failed([each for each in wanted.message_ids if each not in located], "not_found")
    messages = [located[each] for each in wanted.message_ids if each in located]
    if store.folders.find_all_mail(account_id) is not None:
        if (code := why_labels_impossible(wanted)) is not None:
            outcomes.mark_failed(ids_of(messages), code)
        else:
            to_do = _not_done_yet(wanted, messages, outcomes, is_already_labeled)
            LabelRunner(connections, store, events, account_id, outcomes).run(group_by_steps(wanted, to_do))
    elif (code := bulk.why_impossible(wanted)) is not None:
        outcomes.mark_failed(ids_of(messages), code)
    else:
        to_do = _not_done_yet(wanted, messages, outcomes, bulk.is_already_there)
        FolderRunner(connections, store, events, account_id, outcomes).run(bulk.group_by_folder(wanted, to_do))
    return outcomes


def _not_done_yet(
    wanted: MessageAction,
    messages: Sequence[LocatedMessage],
    outcomes: BulkOutcomes,
    stays: Callable[[MessageAction, LocatedMessage], bool],
) -> list[LocatedMessage]:
    """Return the messages that still need the action, and record the others as succeeded.

    `stays`: returns whether a message is already as the action would make it.
    """
    there = [message for message in messages if stays(wanted, message)]
    outcomes.mark_succeeded(ids_of(there))
    return [message for message in messages if message not in there]


class FolderRunner(BulkRunner[FolderRole | None]):
    """Runs a bulk action on a server with folders, one group of messages at a time.

    The messages of a group are in the same folder. Each group has the role of the folder to move them to, such as
    `trash`. The role is None if the client names the target folder, or if the action moves nothing.
    """

    def _run_group(self, mailbox: ImapMailbox, group: ActionGroup[FolderRole | None]) -> None:
        folder, role, messages = group
        identified_ones = self._match_on_server(mailbox, folder, messages)
        found = [message for message in identified_ones if not bulk.is_already_there(self._action, message)]
        self._outcomes.mark_succeeded(ids_of([message for message in identified_ones if message not in found]))
        edit = bulk.flag_edit(self._action)
        if not found:
            return
        if edit is not None:
            self._change_flags(mailbox, folder, found, edit)
        elif self._action.action == "delete":
            self._expunge(mailbox, folder, found)
        else:
            target = self._action.target if role is None else self._target_folder(mailbox, found, role)
            if target is not None:
                moved = self._move_messages(mailbox, folder, found, target)
                self._outcomes.mark_succeeded(ids_of(moved))
                self._outcomes.record_states(found, moved)

    def _expunge(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        with self._mark_on_fault(messages, folder.path):
            mailbox.expunge(folder.path, uids_of(messages))
        self._store.mailbox_writer.delete_by_id(self._account_id, ids_of(messages))
        self._outcomes.mark_succeeded(ids_of(messages))


# --- With labels: the commands for each message, decided before any is sent. Pure ---
#
#     archive ... remove the inbox label; from spam or trash, move to All Mail first
#     trash ..... move to trash                   untrash ... move to All Mail, and add the inbox label except to drafts
#     delete .... move to trash, and remove it there: in other folders the mailbox's settings decide what EXPUNGE does
#     move ...... to a label: add it, remove the inbox label; from spam or trash, move to All Mail first. To All Mail:
#                 as `archive`
#     others .... change flags and labels
#
# (support.google.com/mail/answer/77657, "IMAP actions"; developers.google.com/workspace/gmail/imap/imap-extensions)


#: The folders beside All Mail that contain messages.
_OUTSIDE_ALL_MAIL: frozenset[FolderRole | None] = frozenset({"spam", "trash"})
NO_EDIT = FlagEdit(frozenset(), frozenset())


@dataclass(frozen=True)
class LabelSteps:
    """The changes to a message on a server with labels, in this order.

    - goes_to: the role of the folder to move it to; None if it is not moved.
    - edit: the flags and labels to change.
    - is_removed: whether it is deleted permanently. Then nothing else is changed.
    """

    goes_to: FolderRole | None = None
    edit: FlagEdit = NO_EDIT
    is_removed: bool = False


def why_labels_impossible(wanted: MessageAction) -> FailureCode | None:
    """Return why the action cannot succeed for any message on a server with labels, before the server is used.

    Returns None if it may succeed.
    """
    if not all(map(folder_roles.is_valid_label_name, wanted.labels)):
        return "label_invalid"
    if wanted.action != "move":
        return None
    if wanted.target is None:
        return "folder_not_found"
    label, role = wanted.target.label, wanted.target.role
    is_possible = (
        role in ("all", "spam", "trash")
        if label is None
        else label == folder_roles.INBOX_LABEL or folder_roles.is_user_label(label)
    )
    return None if is_possible else "provider_rejected"


def plan_label_steps(wanted: MessageAction, message: LocatedMessage) -> LabelSteps:
    """Return the changes to a message for an action that is possible by `why_labels_impossible`."""
    if (edit := flag_edit(wanted)) is not None:
        return LabelSteps(edit=edit)
    target = wanted.target
    if wanted.action == "move" and target is not None and target.label is not None:
        gone = {folder_roles.INBOX_LABEL} - {target.label}
        return LabelSteps(_leaves_to_all_mail(message), FlagEdit(frozenset({target.label}), frozenset(gone)))
    if wanted.action == "move" and target is not None and target.role != "all":
        return LabelSteps(target.role)
    if wanted.action == "delete":
        return LabelSteps(is_removed=True)
    if wanted.action == "untrash":
        is_draft = "\\draft" in {flag.lower() for flag in message.flags}
        return LabelSteps("all", NO_EDIT if is_draft else FlagEdit(frozenset({folder_roles.INBOX_LABEL}), frozenset()))
    if wanted.action == "trash":
        return LabelSteps("trash")
    # A server may keep the labels of a message in spam or trash.
    return LabelSteps(_leaves_to_all_mail(message), FlagEdit(frozenset(), frozenset({folder_roles.INBOX_LABEL})))


def _leaves_to_all_mail(message: LocatedMessage) -> FolderRole | None:
    return "all" if message.folder.role in _OUTSIDE_ALL_MAIL else None


def is_already_labeled(wanted: MessageAction, message: LocatedMessage) -> bool:
    """Whether the action would leave a message as it is, on a server with labels.

    Only the folder of the message is checked. So the result is False for any action that also changes labels.
    """
    if message.uid is None:
        return False
    if wanted.action == "untrash":
        return message.folder.role != "trash"
    found = plan_label_steps(wanted, message)
    return found.goes_to is not None and found.goes_to == message.folder.role and found.edit == NO_EDIT


def group_by_steps(wanted: MessageAction, messages: Iterable[LocatedMessage]) -> tuple[ActionGroup[LabelSteps], ...]:
    """Group the messages by their folder and their changes, so that one or two commands suffice for each group."""
    found: dict[tuple[int, LabelSteps], list[LocatedMessage]] = {}
    for message in messages:
        found.setdefault((message.folder.number, plan_label_steps(wanted, message)), []).append(message)
    return tuple((each[0].folder, how, tuple(each)) for (_, how), each in found.items())


# --- With labels: carried out at the server ---


class LabelRunner(BulkRunner[LabelSteps]):
    """Runs a bulk action on a server with labels, where each message is in All Mail, spam or trash."""

    def _run_group(self, mailbox: ImapMailbox, group: ActionGroup[LabelSteps]) -> None:
        folder, way, messages = group
        found = self._match_on_server(mailbox, folder, messages)
        if not found:
            return
        if way.is_removed:
            self._remove(mailbox, folder, found)
        elif way.goes_to not in (None, folder.role):
            self._move_and_label(mailbox, folder, found, way)
        else:
            self._change_labels(mailbox, folder, found, way.edit)

    def _change_labels(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        shown = {each.label for each in self._store.folders.list(self._account_id) if each.label is not None}
        self.known_labels = frozenset(filter(is_user_label, shown))
        self._change_flags(mailbox, folder, messages, edit)
        new = {label.lower() for label in self._action.labels} - {label.lower() for label in shown}
        if new and self._action.action == "addLabels":
            bulk.refresh_folders(self._store, mailbox, self._account_id)  # the server has created folders for them

    def _remove(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        trash = self._target_folder(mailbox, messages, "trash")
        if trash is None:
            return
        with self._mark_on_fault(messages, folder.path, trash.path):
            bulk.permanent_delete(self._store, mailbox, folder, messages)
        self._store.mailbox_writer.delete_by_id(self._account_id, ids_of(messages))
        self._outcomes.mark_succeeded(ids_of(messages))

    def _move_and_label(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], way: LabelSteps
    ) -> None:
        target = self._target_folder(mailbox, messages, way.goes_to or "all")
        if target is None:
            return
        moved = self._move_messages(mailbox, folder, messages, target)
        if way.edit != NO_EDIT:
            self._change_moved(mailbox, target, moved, way.edit)
        self._outcomes.mark_succeeded(ids_of(moved))
        there = find_moved_uids(mailbox, target, moved)
        # Only the server knows which labels a message keeps in spam and trash.
        sightings = mailbox.identify(target.path, uids_of(there))[1] if there else {}
        after = [replace(each, flags=sightings[uid_of(each)].flags) for each in there if each.uid in sightings]
        self._outcomes.record_states(messages, after)
