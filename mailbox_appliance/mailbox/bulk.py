"""The common parts of bulk actions, such as archiving many messages at once.

They plan the change for each message, find or create the target folder, check that the server still has the messages,
run the commands group by group, and delete permanently.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.model.accounts import FolderRole
from mailbox_appliance.model.messages import FailedMessageAction, MessageActionResult
from mailbox_appliance.model.sync import (
    FlagChange,
    FolderState,
    LocatedMessage,
    MessageIdentity,
    MessageState,
    MirroredFolder,
    StateChange,
)
from mailbox_appliance.remote.errors import FaultKind, RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.remote.imap.client import ImapMailbox

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

Action = Literal[
    "markRead",
    "markUnread",
    "star",
    "unstar",
    "archive",
    "trash",
    "untrash",
    "delete",
    "move",
    "addLabels",
    "removeLabels",
]
FailureCode = Literal[
    "not_found",
    "identity_changed",
    "changed",
    "folder_not_found",
    "label_invalid",
    "unsupported_capability",
    "provider_rejected",
    "provider_unavailable",
]

_FLAGS: dict[Action, tuple[frozenset[str], frozenset[str]]] = {  # RFC 9051 2.3.2: flags to add, flags to remove
    "markRead": (frozenset({"\\Seen"}), frozenset()),
    "markUnread": (frozenset(), frozenset({"\\Seen"})),
    "star": (frozenset({"\\Flagged"}), frozenset()),
    "unstar": (frozenset(), frozenset({"\\Flagged"})),
}
#: RFC 9051 9, flag-keyword: an atom. It has no backslash, so it is never a system flag.
_KEYWORD = re.compile(r"[!#$&'+,\-./0-9:;<=>?@A-Z\[^_`a-z|}~]+")
_ANY_KEYWORD = "\\*"


@dataclass(frozen=True)
class MessageAction:
    """A bulk action on messages. Each ID occurs once.

    `target`: the folder for `move`; None if it does not exist. `labels`: for `addLabels` and `removeLabels`.
    """

    action: Action
    message_ids: tuple[str, ...]
    target: MirroredFolder | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagEdit:
    """IMAP flags and keywords to add to messages and to remove from them. Case is ignored (RFC 9051 2.3.2)."""

    add: frozenset[str]
    remove: frozenset[str]

    def apply_to(self, flags: frozenset[str]) -> frozenset[str]:
        """Return these flags after the edit."""
        removed, there = _lower_case(self.remove), _lower_case(flags)
        kept = {flag for flag in flags if flag.lower() not in removed}
        return frozenset(kept.union(flag for flag in self.add if flag.lower() not in there))


@dataclass
class BulkOutcomes:
    """Collects the outcome of each message of a bulk action. Only the first mark of a message counts."""

    wanted: MessageAction
    _marks: dict[str, FailureCode | Literal["succeeded", "uncertain"]] = field(default_factory=dict)
    _states: dict[str, tuple[MessageState, MessageState]] = field(default_factory=dict)

    def mark_succeeded(self, message_ids: Iterable[str]) -> None:
        """Mark messages as done, both at the server and in the store."""
        self._mark(message_ids, "succeeded")

    def mark_failed(self, message_ids: Iterable[str], code: FailureCode) -> None:
        """Mark messages as failed: nothing was changed."""
        self._mark(message_ids, code)

    def mark_uncertain(self, message_ids: Iterable[str]) -> None:
        """Mark messages as uncertain: a command was sent, but the server did not answer."""
        self._mark(message_ids, "uncertain")

    @property
    def has_success(self) -> bool:
        """Whether any message succeeded."""
        return "succeeded" in self._marks.values()

    def record_states(self, before: Iterable[LocatedMessage], after: Iterable[LocatedMessage]) -> None:
        """Record the folder and flags of messages before and after a change, so that it can be undone."""
        known = {message.id: _state_of(message) for message in before}
        self._states |= {message.id: (known[message.id], _state_of(message)) for message in after}

    def changes(self) -> tuple[StateChange, ...]:
        """Return what the action changed, for its undo: of messages that succeeded, those that are not as before."""
        found: dict[tuple[MessageState, MessageState], list[str]] = {}
        for message_id, (before, after) in self._states.items():
            if before != after and self._marks.get(message_id) == "succeeded":
                found.setdefault((before, after), []).append(message_id)
        return tuple(StateChange(before, after, tuple(ids)) for (before, after), ids in found.items())

    def result(self) -> MessageActionResult:
        """Return all outcomes, in the order of the request. Every message must have been marked."""
        said = [(message_id, self._marks[message_id]) for message_id in self.wanted.message_ids]
        return MessageActionResult(
            action=self.wanted.action,
            succeeded_ids=tuple(message_id for message_id, word in said if word == "succeeded"),
            failed=tuple(
                FailedMessageAction(message_id=message_id, code=word)
                for message_id, word in said
                if word not in ("succeeded", "uncertain")
            ),
            uncertain_ids=tuple(message_id for message_id, word in said if word == "uncertain"),
        )

    def _mark(self, message_ids: Iterable[str], word: FailureCode | Literal["succeeded", "uncertain"]) -> None:
        for message_id in message_ids:
            self._marks.setdefault(message_id, word)


def flag_edit(wanted: MessageAction) -> FlagEdit | None:
    """Return the flags that an action changes; None for actions that move or delete."""
    if wanted.action == "addLabels":
        return FlagEdit(frozenset(wanted.labels), frozenset())
    if wanted.action == "removeLabels":
        return FlagEdit(frozenset(), frozenset(wanted.labels))
    edit = _FLAGS.get(wanted.action)
    return None if edit is None else FlagEdit(*edit)


def why_impossible(wanted: MessageAction) -> FailureCode | None:
    """Return why the action cannot succeed for any message on a server with folders, before the server is used.

    Returns None if it may succeed.
    """
    if wanted.action == "move" and wanted.target is None:
        return "folder_not_found"
    # $Forwarded is a state of a message (RFC 9051 2.3.2), and is never shown as a label.
    if not all(_KEYWORD.fullmatch(label) and label.lower() != "$forwarded" for label in wanted.labels):
        return "label_invalid"
    return None


def why_labels_refused(labels: Iterable[str], permanent: frozenset[str]) -> FailureCode | None:
    """Return the reason why a folder cannot store these labels; None if it can.

    `permanent`: its PERMANENTFLAGS (RFC 9051 7.1), the flags that the server stores there.
    """
    keywords = _lower_case(flag for flag in permanent if not flag.startswith("\\"))
    if _ANY_KEYWORD in permanent or _lower_case(labels) <= keywords:
        return None
    return "label_invalid" if keywords else "unsupported_capability"


def with_server_spelling(edit: FlagEdit, permanent: frozenset[str]) -> FlagEdit:
    """Return the edit with each label as the server already spells it; labels that differ only in case are equal.

    `permanent`: the flags and labels in the server's spelling.
    """
    written = {flag.lower(): flag for flag in permanent}
    return FlagEdit(
        *(frozenset(written.get(flag.lower(), flag) for flag in flags) for flags in (edit.add, edit.remove))
    )


def destination_role(action: Action, message: LocatedMessage) -> FolderRole | None:
    """Return the role of the folder to which an action moves a message.

    Returns None for `move`, whose folder the client names, and if the message is not moved.
    """
    if action in ("archive", "trash"):
        return "archive" if action == "archive" else "trash"
    if action == "untrash" and message.folder.role == "trash":
        return "drafts" if "\\draft" in _lower_case(message.flags) else "inbox"
    return None


def is_already_there(wanted: MessageAction, message: LocatedMessage) -> bool:
    """Whether a message is already in the folder to which the action would move it.

    False for a message without a known UID, since it may have been moved at the server in the meantime.
    """
    if message.uid is None:
        return False
    if wanted.action == "move":
        return wanted.target is not None and message.folder.number == wanted.target.number
    if wanted.action == "untrash":
        return message.folder.role != "trash"
    return wanted.action in ("archive", "trash") and message.folder.role == wanted.action


FolderGroup = tuple[MirroredFolder, FolderRole | None, tuple[LocatedMessage, ...]]


def group_by_folder(wanted: MessageAction, messages: Iterable[LocatedMessage]) -> tuple[FolderGroup, ...]:
    """Group the messages by their folder and the role of their target, so that one command suffices for a group."""
    found: dict[tuple[int, FolderRole | None], list[LocatedMessage]] = {}
    for message in messages:
        found.setdefault((message.folder.number, destination_role(wanted.action, message)), []).append(message)
    return tuple((each[0].folder, role, tuple(each)) for (_, role), each in found.items())


def why_not_same(message: LocatedMessage, state: FolderState, sighting: MessageIdentity | None) -> FailureCode | None:
    """Return the reason why the server no longer has a mirrored message under its UID; None if it has.

    `state`: the server's state of the folder. `sighting`: the message that now has the UID; None if there is none.
    """
    known = message.folder.state
    if known is not None and known.uidvalidity != state.uidvalidity:  # RFC 9051 2.3.1.1
        return "identity_changed"
    if sighting is None:
        return "not_found"
    return None if is_same_message(message, sighting, certain=known is not None) else "identity_changed"


def is_same_message(message: LocatedMessage, sighting: MessageIdentity, *, certain: bool) -> bool:
    """Whether a message at the server is the mirrored one, by Message-ID, size and date.

    If the provider has IDs for messages, only these are compared. `certain`: the date need not match, since the UID
    does, or since the appliance uploaded the message.
    """
    if message.provider_id is not None and sighting.provider_id is not None:
        return message.provider_id == sighting.provider_id
    agrees = (message.message_id, message.size) == (sighting.message_id, sighting.size)
    # RFC 9051 2.3.3: the server keeps seconds; the date of a message that the appliance uploaded is stored more
    # exactly.
    return agrees and (certain or int(message.internal_date.timestamp()) == int(sighting.internal_date.timestamp()))


def pick_uid(
    message: LocatedMessage, sightings: Mapping[int, MessageIdentity], taken: Collection[int | None]
) -> int | None:
    """Return the UID of a mirrored message whose UID is unknown; None if it is not among the candidates.

    - sightings: candidates at the server by UID, with the same Message-ID. If several match, the highest UID counts.
    - taken: UIDs that belong to other messages.

    A candidate must be the same message (`is_same_message`). The date of a message that the appliance uploaded is not
    compared, because the server may have recorded a different one.
    """
    is_ours = not message.gone
    fitting = [s.uid for s in sightings.values() if s.uid not in taken and is_same_message(message, s, certain=is_ours)]
    return max(fitting, default=None)


def ids_of(messages: Sequence[LocatedMessage]) -> tuple[str, ...]:
    """Return the IDs of messages, in the same order."""
    return tuple(message.id for message in messages)


def _state_of(message: LocatedMessage) -> MessageState:
    return MessageState(message.folder.id, message.flags)


def uid_of(message: LocatedMessage) -> int:
    """Return the UID of a message that must have one, as after `match_on_server`."""
    assert message.uid is not None  # noqa: S101 - identified messages have one
    return message.uid


def uids_of(messages: Sequence[LocatedMessage]) -> list[int]:
    """Return the UIDs of messages that must have one, in the same order."""
    return [uid_of(message) for message in messages]


def _lower_case(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


# --- Role folders: created at the server if there is none ---


#: A folder with such a name gets the role again when it is listed.
_ROLE_FOLDER_NAMES: dict[FolderRole, str] = {"archive": "Archive", "trash": "Trash", "drafts": "Drafts"}


def ensure_role_folder(store: "Store", mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    """Return the folder with this role, such as the archive. It is created if there is none.

    On a server with labels none is created, since it would be a label. Raises RemoteFault, of the kind `refused` if
    there is no such folder and it cannot be created.
    """
    found = store.folders.find_by_role(account_id, role)
    if found is not None:
        return found
    refresh_folders(store, mailbox, account_id)  # another client may have made it
    found = store.folders.find_by_role(account_id, role)
    if found is None and store.folders.find_all_mail(account_id) is not None:
        reason = (
            f"Gmail's folder for {role} is hidden from IMAP. In Gmail's settings, open Labels and select “Show in"
            " IMAP” for it."
        )
        raise RemoteFault("imap", "refused", reason)
    return found or _create_role_folder(store, mailbox, account_id, role)


def refresh_folders(store: "Store", mailbox: ImapMailbox, account_id: str) -> None:
    """Add the folders that the server lists to the store's mirror of the mailbox."""
    store.folders.add_listed(account_id, mailbox.list_folders())


def folder_exists(mailbox: ImapMailbox, path: str) -> bool:
    """Whether the server lists a folder with this path."""
    return path in {folder.path for folder in mailbox.list_folders()}


def _create_role_folder(store: "Store", mailbox: ImapMailbox, account_id: str, role: FolderRole) -> MirroredFolder:
    name = _ROLE_FOLDER_NAMES.get(role)
    if name is None:
        raise RemoteFault("imap", "refused", f"This mailbox has no {role} folder.")
    path = client.make_folder(mailbox, name)
    refresh_folders(store, mailbox, account_id)
    # A person may have mapped that folder to another role; it is still the right one.
    found = store.folders.find_by_role(account_id, role) or store.folders.find(account_id, path)
    if found is None:
        raise RemoteFault("imap", "refused", f"The IMAP server created a {role} folder but does not list it.")
    return found


# --- Matching: check that the server still has the mirrored messages before any of them is changed ---


def match_on_server(
    store: "Store", mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
) -> tuple[tuple[LocatedMessage, ...], dict[str, FailureCode]]:
    """Check which mirrored messages of a folder the server still has, before they are changed.

    Returns those messages with their current UIDs and flags, and by ID why not the others. Raises RemoteFault.

    If the UID of a message is unknown, such as after a move, the message is searched by its provider's ID, or else by
    its Message-ID. UIDs that belong to other messages are not considered.
    """
    try:
        candidates = {message.id: _candidate_uids(mailbox, message) for message in messages if message.uid is None}
        uids = {message.uid for message in messages if message.uid is not None}.union(*candidates.values())
        if not uids:
            return (), {message.id: "not_found" for message in messages}
        state, sightings = mailbox.identify(folder.path, sorted(uids))
    except RemoteFault as fault:
        if fault.kind != "refused" or folder_exists(mailbox, folder.path):
            raise
        if folder.number == _all_mail_number(store, folder):  # All Mail is hidden now; its messages still exist
            return (), {message.id: "unsupported_capability" for message in messages}
        return (), {message.id: "not_found" for message in messages}
    looked_for = {uid for some in candidates.values() for uid in some}
    taken = {message.uid for message in messages}.union(store.mailbox_writer.load_flags(folder.number, looked_for))
    found: list[LocatedMessage] = []
    problems: dict[str, FailureCode] = {}
    for message in messages:
        uid = message.uid
        if uid is None:
            some = {each: sightings[each] for each in candidates[message.id] if each in sightings}
            uid = pick_uid(message, some, taken)
        sighting = sightings.get(uid) if uid is not None else None
        code = why_not_same(message, state, sighting)
        if code is None and sighting is not None:
            taken.add(uid)
            found.append(replace(message, uid=uid, flags=sighting.flags))
            if message.uid is None:
                store.mailbox_writer.record_moves(folder.account_id, [(message.id, folder.number, uid)])
        else:
            problems[message.id] = code or "not_found"
    return tuple(found), problems


def find_moved_uids(
    mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
) -> tuple[LocatedMessage, ...]:
    """Return messages that were moved to this folder, with their UIDs there. Those that cannot be found are left out.

    A missing UID is searched by the provider's ID of the message. Raises RemoteFault.
    """
    found: list[LocatedMessage] = []
    for message in messages:
        uid = message.uid
        if uid is None and message.provider_id is not None:
            uid = mailbox.search_provider_id(folder.path, message.provider_id)
        found += [replace(message, folder=folder, uid=uid)] if uid is not None else []
    return tuple(found)


def _all_mail_number(store: "Store", folder: MirroredFolder) -> int | None:
    """Return the number (key in the store) of this mailbox's All Mail. None on a server without labels."""
    home = store.folders.find_all_mail(folder.account_id)
    return None if home is None else home.number


def _candidate_uids(mailbox: ImapMailbox, message: LocatedMessage) -> tuple[int, ...]:
    if message.provider_id is not None:
        uid = mailbox.search_provider_id(message.folder.path, message.provider_id)
        return (uid,) if uid is not None else ()
    return mailbox.search_message_id(message.folder.path, message.message_id) if message.message_id is not None else ()


# --- Running: groups of messages, each over a connection, and the outcome of each message ---
#
# Before a message is changed, the message with its UID is compared with the mirrored one. Folders are independent: a
# failure in one does not stop the others.


How = TypeVar("How")  # the change for the messages of a group
ActionGroup = tuple[MirroredFolder, How, tuple[LocatedMessage, ...]]

_CODES: dict[FaultKind, FailureCode] = {"refused": "provider_rejected", "unsupported": "unsupported_capability"}
#: After these faults another folder may still work; after others a further attempt would only delay the caller.
_FOLDER_FAULTS = frozenset({"refused", "unsupported", "disconnected", "malformed"})


class BulkRunner(ABC, Generic[How]):
    """Runs one bulk action on one mailbox. Subclasses implement it for servers with folders and with labels."""

    #: Labels in the server's spelling; their case does not count.
    known_labels: frozenset[str] = frozenset()

    def __init__(
        self, connections: Connections, store: "Store", events: Events, account_id: str, outcomes: BulkOutcomes
    ) -> None:
        self._connections, self._store, self._events = connections, store, events
        self._account_id, self._outcomes, self._action = account_id, outcomes, outcomes.wanted
        self._was_connected = False
        self._touched: dict[str, None] = {}

    def run(self, groups: Sequence[ActionGroup[How]]) -> None:
        """Process all groups in order, and record the outcome of every message.

        A group that fails does not stop the next ones, unless the server cannot be reached: then these fail as well.
        Raises RemoteFault if no connection could be opened and no message has succeeded.
        """
        fault: RemoteFault | None = None
        for group in groups:
            if fault is None or fault.kind in _FOLDER_FAULTS:
                try:
                    fault = self._try_group(group)
                finally:
                    self._notify_sync()  # after each group: a sync of the folder may have begun
            self._outcomes.mark_failed(ids_of(group[2]), "provider_unavailable")  # only messages without an outcome
        if fault is not None and not self._was_connected and not self._outcomes.has_success:
            raise fault

    def _try_group(self, group: ActionGroup[How]) -> RemoteFault | None:
        try:
            with self._connections.borrow(self._account_id) as mailbox:
                self._was_connected = True
                self._run_group(mailbox, group)
        except RemoteFault as fault:
            self._outcomes.mark_failed(ids_of(group[2]), _CODES.get(fault.kind, "provider_unavailable"))
            return fault
        return None

    def _notify_sync(self) -> None:
        for path in self._touched:
            self._events.publish(FolderWritten(self._account_id, path))
        self._touched.clear()

    @abstractmethod
    def _run_group(self, mailbox: ImapMailbox, group: ActionGroup[How]) -> None:
        """Run the action on one group of messages, and mark their outcomes. Raises RemoteFault."""

    def _match_on_server(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
    ) -> tuple[LocatedMessage, ...]:
        """Return the messages that the server still has, with current flags and UIDs; mark the others as failed."""
        found, problems = match_on_server(self._store, mailbox, folder, messages)
        for message_id, code in problems.items():
            self._outcomes.mark_failed([message_id], code)
        if problems:
            self._touched[folder.path] = None  # the mirror is outdated
        return found

    # --- commands to the server ---

    def _change_flags(
        self, mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        refusal: FailureCode = "provider_rejected"
        if self._action.labels:
            permanent = mailbox.permanent_flags(folder.path) | self.known_labels
            if (problem := why_labels_refused(edit.add, permanent)) is not None:
                self._outcomes.mark_failed(ids_of(messages), problem)
                return
            edit, refusal = with_server_spelling(edit, permanent), "label_invalid"
        changing = [message for message in messages if edit.apply_to(message.flags) != message.flags]
        self._record_flags(folder, [message for message in messages if message not in changing], edit)
        if changing:
            with self._mark_on_fault(changing, folder.path, refusal=refusal):
                mailbox.store_flags(folder.path, uids_of(changing), add=edit.add, remove=edit.remove)
            self._record_flags(folder, changing, edit)

    def _record_flags(self, folder: MirroredFolder, messages: Sequence[LocatedMessage], edit: FlagEdit) -> None:
        after = [replace(message, flags=edit.apply_to(message.flags)) for message in messages]
        changes = [FlagChange(uid_of(message), message.flags) for message in after]
        self._store.mailbox_writer.change_flags(folder.number, changes)
        self._outcomes.mark_succeeded(ids_of(messages))
        self._outcomes.record_states(messages, after)

    def _change_moved(
        self, mailbox: ImapMailbox, folder: MirroredFolder, moved: Sequence[LocatedMessage], edit: FlagEdit
    ) -> None:
        """Change the flags and labels of messages that were just moved to this folder.

        After a failure the outcome of these messages is uncertain, since they were moved.
        """
        try:
            found = find_moved_uids(mailbox, folder, moved)
            mailbox.store_flags(folder.path, uids_of(found), add=edit.add, remove=edit.remove)
        except RemoteFault:
            self._outcomes.mark_uncertain(ids_of(moved))
            raise
        changes = [FlagChange(uid_of(each), edit.apply_to(each.flags)) for each in found]
        self._store.mailbox_writer.record_moves(
            self._account_id, [(each.id, folder.number, each.uid) for each in found]
        )
        self._store.mailbox_writer.change_flags(folder.number, changes)
        self._outcomes.mark_uncertain(ids_of([each for each in moved if each.id not in set(ids_of(found))]))

    def _move_messages(
        self,
        mailbox: ImapMailbox,
        folder: MirroredFolder,
        messages: Sequence[LocatedMessage],
        target: MirroredFolder,
    ) -> tuple[LocatedMessage, ...]:
        """Move messages at the server and in the store. Returns the moved ones with their new folder and known UID.

        The others no longer exist, and are marked as failed.
        """
        try:
            with self._mark_on_fault(messages, folder.path, target.path, refusal=None):
                uidvalidity = target.state.uidvalidity if target.state is not None else None
                new_uids = mailbox.move(folder.path, uids_of(messages), target.path, uidvalidity)
        except RemoteFault as fault:
            if fault.kind == "refused" and not folder_exists(mailbox, target.path):
                self._outcomes.mark_failed(ids_of(messages), "folder_not_found")
            raise
        # If the server returned new UIDs, a message without one no longer existed.
        moved = [message for message in messages if not new_uids or message.uid in new_uids]
        there = tuple(replace(each, folder=target, uid=new_uids.get(uid_of(each))) for each in moved)
        self._store.mailbox_writer.record_moves(
            self._account_id, [(each.id, target.number, each.uid) for each in there]
        )
        self._outcomes.mark_failed(ids_of([message for message in messages if message not in moved]), "not_found")
        return there

    def _target_folder(
        self, mailbox: ImapMailbox, messages: Sequence[LocatedMessage], role: FolderRole
    ) -> MirroredFolder | None:
        """Return the folder with this role, created if possible; otherwise mark the messages as failed."""
        try:
            return ensure_role_folder(self._store, mailbox, self._account_id, role)
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            self._outcomes.mark_failed(ids_of(messages), "folder_not_found")
            return None

    @contextmanager
    def _mark_on_fault(
        self, messages: Sequence[LocatedMessage], *paths: str, refusal: FailureCode | None = "provider_rejected"
    ) -> Iterator[None]:
        """Context manager: if a command in the block raises RemoteFault, mark these messages and raise it again.

        - They are marked as uncertain if the server may have executed the command.
        - They are marked as failed with the code `refusal` if the server refused it. None leaves them unmarked then.
        - After any other fault they stay unmarked.

        `paths`: the folders that the command changes; they are synced afterwards.
        """
        self._touched.update(dict.fromkeys(paths))
        try:
            yield
        except RemoteFault as fault:
            if fault.in_doubt:
                self._outcomes.mark_uncertain(ids_of(messages))
            elif fault.kind == "refused" and refusal is not None:
                self._outcomes.mark_failed(ids_of(messages), refusal)
            raise


# --- Permanent deletion ---
#
# On a server with labels only messages in trash can be deleted: in other folders the settings of the mailbox decide
# whether EXPUNGE archives a message or does something else.
#
# (support.google.com/mail/answer/77657: "Auto-Expunge", "When a message is marked as deleted and expunged")


def permanent_delete(
    store: "Store", mailbox: ImapMailbox, folder: MirroredFolder, messages: Sequence[LocatedMessage]
) -> None:
    """Delete messages of this folder permanently at the server.

    On a server with labels they are moved to trash and deleted there. Raises RemoteFault. Its `in_doubt` is True if
    they may have been moved to trash without being deleted.
    """
    uids = [message.uid for message in messages if message.uid is not None]
    if folder.role == "trash" or store.folders.find_all_mail(folder.account_id) is None:
        mailbox.expunge(folder.path, uids)
        return
    trash = ensure_role_folder(store, mailbox, folder.account_id, "trash")
    new_uids = mailbox.move(folder.path, uids, trash.path)
    try:
        moved = [replace(each, uid=new_uids.get(each.uid or 0)) for each in messages]
        found = find_moved_uids(mailbox, trash, moved)
        mailbox.expunge(trash.path, [each.uid for each in found if each.uid is not None])
        if len(found) < len(messages):
            raise RemoteFault("imap", "malformed", "The IMAP server did not report where in the trash a message is.")
    except RemoteFault as fault:
        fault.in_doubt = True
        raise
