"""Carries bulk actions out on a server with labels."""

from collections.abc import Sequence

from mailbox_appliance.errands import for_good, label_plan, role_folders
from mailbox_appliance.errands.action_plan import FlagEdit, ids
from mailbox_appliance.errands.bulk import Bulk, Group, uid_of, uids
from mailbox_appliance.errands.identity import with_uids
from mailbox_appliance.errands.label_plan import Way
from mailbox_appliance.mail.labels import is_of_user
from mailbox_appliance.model.records import FlagChange, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox


class LabelBulk(Bulk[Way]):
    """Where messages lie among all mail, in spam or in trash."""

    def _run_group(self, mailbox: ImapMailbox, group: Group[Way]) -> None:
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
        self.known_labels = frozenset(filter(is_of_user, shown))
        self._change_flags(mailbox, folder, messages, edit)
        new = {label.lower() for label in self._action.labels} - {label.lower() for label in shown}
        if new and self._action.action == "addLabels":
            role_folders.relist(self._store, mailbox, self._account_id)  # the server has made folders for them

    def _remove(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        trash = self._target_folder(mailbox, messages, "trash")
        if trash is None:
            return
        with self._mark_on_fault(messages, folder.path, trash.path):
            for_good.remove(self._store, mailbox, folder, messages)
        self._store.mailbox_writer.delete_by_id(self._account_id, ids(messages))
        self._outcomes.mark_succeeded(ids(messages))

    def _move_and_label(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], way: Way
    ) -> None:
        target = self._target_folder(mailbox, messages, way.goes_to or "all")
        if target is None:
            return
        moved = self._move_messages(mailbox, folder, messages, target)
        if way.edit != label_plan.NOTHING:
            self._label(mailbox, target, moved, way.edit)
        self._outcomes.mark_succeeded(ids(moved))

    def _label(
        self, mailbox: ImapMailbox, folder: MirroredFolder, moved: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        """The second step, whatever labels the server left them. Half of it is done: none of them has just failed."""
        try:
            found = with_uids(mailbox, folder, moved)
            mailbox.store_flags(folder.path, uids(found), add=edit.add, remove=edit.remove)
        except RemoteFault:
            self._outcomes.mark_uncertain(ids(moved))
            raise
        changes = [FlagChange(uid_of(each), edit.apply_to(each.flags)) for each in found]
        self._store.mailbox_writer.record_moves(
            self._account_id, [(each.id, folder.number, each.uid) for each in found]
        )
        self._store.mailbox_writer.change_flags(folder.number, changes)
        self._outcomes.mark_uncertain(ids([each for each in moved if each.id not in set(ids(found))]))
