"""What a bulk action means for each message on a server with labels, decided before anything is done. Pure.

    archive ... out of the inbox; from spam or trash to all mail first
    trash ..... moved to trash                  untrash ... moved to all mail, into the inbox where it is no draft
    delete .... moved to trash, and removed there: elsewhere the mailbox's settings say what EXPUNGE does
    move ...... to a label: with it, out of the inbox; from spam or trash to all mail first. To all mail: as `archive`
    all else .. flags, and labels

(support.google.com/mail/answer/77657, "IMAP actions"; developers.google.com/workspace/gmail/imap/imap-extensions)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mailbox_appliance.errands.action_plan import Code, FlagEdit, Wanted, flag_edit
from mailbox_appliance.errands.bulk import Group
from mailbox_appliance.mail import labels
from mailbox_appliance.model.records import FolderRole, LocatedMessage

#: Messages lie there, or among all mail.
_AWAY: frozenset[FolderRole | None] = frozenset({"spam", "trash"})
NOTHING = FlagEdit(frozenset(), frozenset())


@dataclass(frozen=True)
class Way:
    """What is said to the server: to which folder it is moved, which flags and labels are changed there, or that it is
    removed for good.
    """

    goes_to: FolderRole | None = None
    edit: FlagEdit = NOTHING
    is_removed: bool = False


def hopeless(wanted: Wanted) -> Code | None:
    """Why the action can be done to no message at all, as far as one sees without asking."""
    if not all(map(labels.is_nameable, wanted.labels)):
        return "label_invalid"
    if wanted.action != "move":
        return None
    if wanted.target is None:
        return "folder_not_found"
    label, role = wanted.target.label, wanted.target.role
    is_possible = (
        role in ("all", "spam", "trash") if label is None else label == labels.INBOX or labels.is_of_user(label)
    )
    return None if is_possible else "provider_rejected"


def way(wanted: Wanted, message: LocatedMessage) -> Way:
    """How the action is done to a message. Of one that is not hopeless."""
    if (edit := flag_edit(wanted)) is not None:
        return Way(edit=edit)
    target = wanted.target
    if wanted.action == "move" and target is not None and target.label is not None:
        gone = {labels.INBOX} - {target.label}
        return Way(_home(message), FlagEdit(frozenset({target.label}), frozenset(gone)))
    if wanted.action == "move" and target is not None and target.role != "all":
        return Way(target.role)
    if wanted.action == "delete":
        return Way(is_removed=True)
    if wanted.action == "untrash":
        is_draft = "\\draft" in {flag.lower() for flag in message.flags}
        return Way("all", NOTHING if is_draft else FlagEdit(frozenset({labels.INBOX}), frozenset()))
    if wanted.action == "trash":
        return Way("trash")
    # A server may leave a message in spam or trash its labels.
    return Way(_home(message), FlagEdit(frozenset(), frozenset({labels.INBOX})))


def _home(message: LocatedMessage) -> FolderRole | None:
    return "all" if message.folder.role in _AWAY else None


def stays(wanted: Wanted, message: LocatedMessage) -> bool:
    """Whether a message lies already where the action would take it, and nothing else is to be done to it."""
    if message.uid is None:
        return False
    if wanted.action == "untrash":
        return message.folder.role != "trash"
    found = way(wanted, message)
    return found.goes_to is not None and found.goes_to == message.folder.role and found.edit == NOTHING


def groups(wanted: Wanted, messages: Iterable[LocatedMessage]) -> tuple[Group[Way], ...]:
    """The messages by the folder they lie in and what is said of them: one command each, or two."""
    found: dict[tuple[int, Way], list[LocatedMessage]] = {}
    for message in messages:
        found.setdefault((message.folder.number, way(wanted, message)), []).append(message)
    return tuple((each[0].folder, how, tuple(each)) for (_, how), each in found.items())
