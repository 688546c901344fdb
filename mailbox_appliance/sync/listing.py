"""The folders of a mailbox, as its server lists them: which are followed, and which of them is home.

The home folder is where new mail is looked for first, and watched: INBOX. On a server with labels (X-GM-EXT-1) it is
the one of all mail; only folders in which messages lie are followed there, as the others show nothing but labels.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mailbox_appliance.mail import labels
from mailbox_appliance.model.records import ListedFolder, MirroredFolder
from mailbox_appliance.remote import named_faults
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.store.folders import Folders

INBOX = "INBOX"


@dataclass(frozen=True)
class Listing:
    """What is in the store of a list of folders.

    `followed`: those in which messages lie, in the order in which they are looked at. `labels`: the numbers of those
    that show a label, by path. `numbers`: of all. `has_dropped`: a folder in which messages lay is no longer one, or
    messages were set aside; they may lie elsewhere. `has_dropped_label`: one that showed a label is gone; labels may
    have other names now. `new_labels`: the paths of those that show one since just now. `counted`: of `labels`, those
    that people made, and the inbox. Beside the home folder may lie others that show what is nowhere else, such as
    chats.
    """

    followed: tuple[MirroredFolder, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()
    has_dropped: bool = False
    has_dropped_label: bool = False
    new_labels: frozenset[str] = frozenset()
    counted: Mapping[str, int] = field(default_factory=dict)


def find_home(listed: Sequence[ListedFolder], *, has_labels: bool) -> str:
    """The path of the home folder. Raises RemoteFault where it is not listed."""
    if not any(folder.path == INBOX for folder in listed):
        # It is always there (RFC 9051 5.1): a list without it is no reason to believe that all else is gone.
        raise RemoteFault("imap", "malformed", "The IMAP server lists no INBOX. Try again later.")
    if not has_labels:
        return INBOX
    if (home := labels.home_of(listed)) is None:
        raise named_faults.fault("all_mail_hidden", "imap")
    return home


def update_folders(
    folders: Folders, account_id: str, listed: Sequence[ListedFolder], home: str, *, is_first: bool = False
) -> Listing:
    """Make the folders in the store those that are listed. `is_first`: none is followed yet."""
    before = folders.list(account_id)
    paths = {folder.path for folder in listed}
    has_dropped_label = any(folder.label is not None and folder.path not in paths for folder in before)
    if has_dropped_label:  # noted first, so that it is not forgotten when we are stopped in between
        _require_label_compare(folders, before)
    stored = folders.replace(account_id, listed)
    if is_set_aside := is_first and folders.detach_unlabeled(account_id, home):
        stored = folders.list(account_id)
    followed = sorted((folder for folder in stored if folder.label is None), key=lambda each: _rank(each, home))
    left = {folder.number for folder in before if folder.label is None} - {folder.number for folder in followed}
    shown = {folder.path: folder.number for folder in stored if folder.label is not None}
    new = shown.keys() - {folder.path for folder in before if folder.label is not None} if before else frozenset()
    numbers = frozenset(folder.number for folder in stored)
    counted = {path: number for path, number in shown.items() if not _is_beside(path, home)}
    return Listing(
        tuple(followed), shown, numbers, bool(left) or is_set_aside, has_dropped_label, frozenset(new), counted
    )


def _require_label_compare(folders: Folders, mirrored: Sequence[MirroredFolder]) -> None:
    """Have all labels compared: that one has another name may not count as a change of its messages."""
    for folder in mirrored:
        if folder.label is None and folder.state is not None:
            folders.set_state(folder.number, dataclasses.replace(folder.state, highestmodseq=None))


def _is_beside(path: str, home: str) -> bool:
    above, _, _ = home.rpartition("/")
    return bool(above) and path.startswith(f"{above}/")


def _rank(folder: MirroredFolder, home: str) -> tuple[int, str]:
    """In which order folders are looked at."""
    last = folder.role in ("spam", "trash")
    return (0 if folder.path == home else 2 if last else 1, folder.path)
