"""What can happen to a message of Gmail, and what every folder shows after it."""

import itertools
import threading
from collections.abc import Callable, Collection

from tests.servers.gmail_folders import (
    DRAFT,
    FIXED,
    FLAG_OF,
    IMPORTANT,
    INBOX,
    SENT,
    STARRED,
    SYSTEM,
    Folder,
    Letter,
    Place,
)
from tests.servers.gmail_threads import Threads

#: The folders of Gmail itself, by what LIST says of them: attribute, label, place, and the name in English.
_OWN: tuple[tuple[str, str | None, Place, str], ...] = (
    ("\\All", None, "all", "All Mail"),
    ("\\Drafts", DRAFT, "all", "Drafts"),
    ("\\Important", IMPORTANT, "all", "Important"),
    ("\\Sent", SENT, "all", "Sent Mail"),
    ("\\Junk", None, "spam", "Spam"),
    ("\\Flagged", STARRED, "all", "Starred"),
    ("\\Trash", None, "trash", "Trash"),
)


class Changes:
    """One account's messages and folders. What is more than one step is done holding `lock`.

    As accounts are that nobody has set up otherwise: what is marked as deleted is expunged at once, and what is
    expunged where it was last shown is archived.
    """

    def __init__(self, address: str, *, prefix: str = "[Gmail]", names: dict[str, str] | None = None) -> None:
        self.address, self.prefix = address, prefix
        #: Other addresses that it may send as ("Send mail as", in Gmail's settings).
        self.aliases: set[str] = set()
        #: Whether a message in trash or spam still has its labels, which no folder shows then. Both are told of
        #: (github.com/mscdex/node-imap/issues/71).
        self.keeps_labels_in_trash = False
        #: Whether a message that is put here is one that is there already by its Message-ID alone, not byte for byte.
        self.knows_by_message_id = False
        #: Whether messages have changed (MODSEQ) whose label has another name, or is no more. No document tells.
        self.counts_renames = True
        self.lock = threading.RLock()
        self.letters: dict[int, Letter] = {}
        self.folders: dict[str, Folder] = {}
        #: Every change, oldest first: the message that changed.
        self.changes: list[Letter] = []
        #: How often somebody expunged in all mail, which does nothing here, and may do much with other settings.
        #: (github.com/sweetrb/apple-mail-mcp/pull/88)
        self.expunged_in_all_mail = 0
        self._threads = Threads()
        self._listeners: list[Callable[[], None]] = []
        self._modseq = 1
        self._numbers = itertools.count(1_700_000_000_000_000_001, 7)
        self._uidvalidities = itertools.count(1)
        self._add_folder("INBOX", "", INBOX, "all")
        for attribute, label, place, name in _OWN:
            self._add_folder(f"{prefix}/{(names or {}).get(name, name)}", attribute, label, place)

    @property
    def addresses(self) -> frozenset[str]:
        """What it may send as."""
        return frozenset({self.address.lower(), *self.aliases})

    def relabel(
        self,
        letter: Letter,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        *,
        to: Collection[str] | None = None,
    ) -> None:
        """Add and remove labels, or make them these."""
        with self.lock:
            gone = {self._label(name) for name in remove if self._is_known(name)}
            new = {self._label(name) for name in add}
            labels = (letter.labels if to is None else {self._label(name) for name in to}) - gone | new
            labels = (labels - FIXED) | (letter.labels & FIXED)
            if letter.place != "all" and new:
                letter.place = "all"
            elif labels == letter.labels:
                return
            flags = bool((labels ^ letter.labels) & FLAG_OF.keys())
            letter.labels = labels
            self._settle(letter, flags=flags)

    def reflag(self, letter: Letter, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """Add and remove flags. A draft is one by where it lies: no flag makes or unmakes it."""
        with self.lock:
            before = letter.flags()
            kept = {flag for flag in add if flag.lower() not in ("\\flagged", "\\draft", "\\deleted", "\\recent")}
            letter.kept_flags = (letter.kept_flags | kept) - set(remove)
            if "\\Flagged" in add:
                letter.labels = letter.labels | {STARRED}
            if "\\Flagged" in remove:
                letter.labels = letter.labels - {STARRED}
            if letter.flags() != before:
                self._settle(letter, flags=True)

    def put(self, letter: Letter, place: Place) -> None:
        """Move a message to trash or spam, or back to all mail."""
        with self.lock:
            if letter.place == place:
                return
            before = letter.flags()
            letter.place = place
            if place != "all":
                letter.labels = letter.labels if self.keeps_labels_in_trash else letter.labels & {STARRED, SENT}
            self._settle(letter, flags=letter.flags() != before)

    def remove(self, letter: Letter) -> None:
        """Remove a message for good."""
        with self.lock:
            letter.place = None
            self.letters.pop(letter.number, None)
            self._settle(letter)

    def expunge(self, letter: Letter, folder: Folder) -> None:
        """Expunged in a folder with a label, a message loses the label; in trash and spam it is gone for good."""
        with self.lock:
            if folder.place != "all":
                self.remove(letter)
                return
            if folder.label is None:
                self.expunged_in_all_mail += 1
            else:
                letter.labels = letter.labels - {folder.label}  # also where Gmail gives it, as from Sent
            self._settle(letter, flags=True)

    def add_to(self, letter: Letter, target: Folder, source: Folder | None = None) -> int:
        """Copy a message to a folder; moved out of `source`, if that is given. Its UID there."""
        with self.lock:
            lost = (source.label,) if source is not None and source.label and source is not target else ()
            if target.place != "all":
                self.put(letter, target.place)
            elif target.label is None:
                if letter.place != "all":
                    self.put(letter, "all")
                self.relabel(letter, remove=lost)
            else:
                self.relabel(letter, add=(target.label,), remove=lost)
            return letter.uids[target]

    def listen(self, wake: Callable[[], None]) -> None:
        """Have this called after every change, by whoever made it."""
        with self.lock:
            self._listeners.append(wake)

    def ignore(self, wake: Callable[[], None]) -> None:
        """No more."""
        with self.lock:
            self._listeners.remove(wake)

    def _settle(self, letter: Letter, *, flags: bool = False) -> None:
        """Have every folder show a message, or not, as it is now."""
        self._modseq += 1
        letter.modseq = self._modseq
        letter.flagged_at = self._modseq if flags else letter.flagged_at
        for folder in self.folders.values():
            uid = letter.uids.get(folder)
            if folder.shows(letter):
                if uid is None:
                    letter.uids[folder] = folder.uidnext
                    folder.members[folder.uidnext] = letter
                    folder.uidnext += 1
            elif uid is not None:
                del folder.members[letter.uids.pop(folder)]
            else:
                continue
            folder.modseq = self._modseq
        self.changes.append(letter)
        for wake in self._listeners:
            wake()

    def _is_known(self, name: str) -> bool:
        return name.lower() in SYSTEM or any(each.lower() == name.lower() for each in self.folders)

    def _label(self, name: str) -> str:
        """A label as it is written here; it is made where there is none. Names differ in more than case."""
        if name.lower() in SYSTEM:
            return SYSTEM[name.lower()]
        for path, folder in self.folders.items():
            if path.lower() == name.lower() and folder.label == path:
                return path
        return self._add_folder(name, "", name, "all").path

    def _add_folder(self, path: str, attribute: str, label: str | None, place: Place) -> Folder:
        self.folders[path] = folder = Folder(path, attribute, label, place, next(self._uidvalidities))
        return folder
