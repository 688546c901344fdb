"""Carries bulk actions out on a server with labels."""

from collections.abc import Sequence

from mailbox_appliance.errands import for_good, label_plan, role_folders
from mailbox_appliance.errands.action_plan import FlagEdit, ids
from mailbox_appliance.errands.bulk import Bulk, Group, uid_of, uids
from mailbox_appliance.errands.identity import with_uids
from mailbox_appliance.errands.label_plan import Way
from mailbox_appliance.mail.labels import is_of_user
from mailbox_appliance.records import FlagChange, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox


class LabelBulk(Bulk[Way]):
    """Where messages lie among all mail, in spam or in trash."""

    def _act(self, mailbox: ImapMailbox, group: Group[Way]) -> None:
        folder, way, messages = group
        found = self._identified(mailbox, folder, messages)
        if not found:
            return
        if way.is_removed:
            self._remove(mailbox, folder, found)
        elif way.goes_to not in (None, folder.role):
            self._move(mailbox, folder, found, way)
        else:
            self._change(mailbox, folder, found, way.edit)

    def _change(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        shown = {each.label for each in self._store.folders.list(self._account_id) if each.label is not None}
        self.known_labels = frozenset(filter(is_of_user, shown))
        self._flag(mailbox, folder, messages, edit)
        new = {label.lower() for label in self._wanted.labels} - {label.lower() for label in shown}
        if new and self._wanted.action == "addLabels":
            role_folders.relist(self._store, mailbox, self._account_id)  # the server has made folders for them

    def _remove(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        trash = self._target(mailbox, messages, "trash")
        if trash is None:
            return
        with self._telling(messages, folder.path, trash.path):
            for_good.remove(self._store, mailbox, folder, messages)
        self._store.mirror.forget(self._account_id, ids(messages))
        self._outcomes.succeed(ids(messages))

    def _move(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], way: Way) -> None:
        target = self._target(mailbox, messages, way.goes_to or "all")
        if target is None:
            return
        moved = self._moved(mailbox, folder, messages, target)
        if way.edit != label_plan.NOTHING:
            self._label(mailbox, target, moved, way.edit)
        self._outcomes.succeed(ids(moved))

    def _label(
        self, mailbox: ImapMailbox, folder: MirroredFolder, moved: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        """The second step, whatever labels the server left them. Half of it is done: none of them has just failed."""
        try:
            found = with_uids(mailbox, folder, moved)
            mailbox.store_flags(folder.path, uids(found), add=edit.add, remove=edit.remove)
        except RemoteFault:
            self._outcomes.doubt(ids(moved))
            raise
        changes = [FlagChange(uid_of(each), edit.applied(each.flags)) for each in found]
        self._store.mirror.moved(self._account_id, [(each.id, folder.number, each.uid) for each in found])
        self._store.mirror.change_flags(folder.number, changes)
        self._outcomes.doubt(ids([each for each in moved if each.id not in set(ids(found))]))
