"""Carries a bulk action out: at the server first, folder by folder in few commands, then in the store."""

from collections.abc import Callable, Sequence

from mailbox_appliance.errands import action_plan, label_plan
from mailbox_appliance.errands.action_plan import Outcomes, Wanted, ids
from mailbox_appliance.errands.bulk import Bulk, Group, uids
from mailbox_appliance.errands.connections import Connections
from mailbox_appliance.errands.label_actions import LabelBulk
from mailbox_appliance.events import Events
from mailbox_appliance.model.records import ActionResult, FolderRole, LocatedMessage, MirroredFolder
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.store.store import Store


def perform(connections: Connections, store: Store, events: Events, account_id: str, wanted: Wanted) -> ActionResult:
    """Do it, and say of each message what became of it.

    Raises RemoteFault where nothing could even be tried, and AllMailHidden.
    """
    outcomes = Outcomes(wanted)
    located = store.mailbox_writer.locate(account_id, wanted.message_ids)
    outcomes.mark_failed([each for each in wanted.message_ids if each not in located], "not_found")
    messages = [located[each] for each in wanted.message_ids if each in located]
    if store.folders.find_all_mail(account_id) is not None:
        if (code := label_plan.hopeless(wanted)) is not None:
            outcomes.mark_failed(ids(messages), code)
        else:
            to_do = _to_do(wanted, messages, outcomes, label_plan.stays)
            LabelBulk(connections, store, events, account_id, outcomes).run(label_plan.groups(wanted, to_do))
    elif (code := action_plan.hopeless(wanted)) is not None:
        outcomes.mark_failed(ids(messages), code)
    else:
        to_do = _to_do(wanted, messages, outcomes, action_plan.stays)
        _FolderBulk(connections, store, events, account_id, outcomes).run(action_plan.groups(wanted, to_do))
    return outcomes.result()


def _to_do(
    wanted: Wanted,
    messages: Sequence[LocatedMessage],
    outcomes: Outcomes,
    stays: Callable[[Wanted, LocatedMessage], bool],
) -> list[LocatedMessage]:
    """Those that do not lie already where the action would take them; of the others that is said."""
    there = [message for message in messages if stays(wanted, message)]
    outcomes.mark_succeeded(ids(there))
    return [message for message in messages if message not in there]


class _FolderBulk(Bulk[FolderRole | None]):
    """Where messages lie in folders. How: the role of the folder they go to, if it is a role that says so."""

    def _run_group(self, mailbox: ImapMailbox, group: Group[FolderRole | None]) -> None:
        folder, role, messages = group
        identified_ones = self._match_on_server(mailbox, folder, messages)
        found = [message for message in identified_ones if not action_plan.stays(self._action, message)]
        self._outcomes.mark_succeeded(ids([message for message in identified_ones if message not in found]))
        edit = action_plan.flag_edit(self._action)
        if not found:
            return
        if edit is not None:
            self._change_flags(mailbox, folder, found, edit)
        elif self._action.action == "delete":
            self._expunge(mailbox, folder, found)
        else:
            target = self._action.target if role is None else self._target_folder(mailbox, found, role)
            if target is not None:
                self._outcomes.mark_succeeded(ids(self._move_messages(mailbox, folder, found, target)))

    def _expunge(self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]) -> None:
        with self._mark_on_fault(messages, folder.path):
            mailbox.expunge(folder.path, uids(messages))
        self._store.mailbox_writer.delete_by_id(self._account_id, ids(messages))
        self._outcomes.mark_succeeded(ids(messages))
