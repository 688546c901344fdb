"""A mailbox as Gmail keeps it: one message in many folders, each of which only shows those that have a label.

Messages lie in all mail, in spam or in trash; every other folder shows the messages of all mail that have its label,
each with a UID of its own there. What is done to a message shows in all folders at once.

    box.deliver(b"...", "Work")           answers its X-GM-MSGID, which is what a message is called here
    box.label(number, "Work/2024")        box.unlabel(number, "\\\\Inbox") archives it
    box.trash(number), box.junk(number), box.restore(number), box.delete(number)
    box.flag(number, "\\\\Seen")          box.unflag(...)

(developers.google.com/workspace/gmail/imap/imap-extensions; support.google.com/mail/answer/77657, "IMAP actions")
"""

import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Literal

# --- conversations ---


_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_PREFIX = re.compile(r"\s*(?:re|fwd?|aw|wg)\s*:\s*", re.I)


def header_of(source: bytes) -> "Message[str, str]":
    """The header fields of a message."""
    return BytesHeaderParser().parsebytes(source.partition(b"\r\n\r\n")[0])


def message_id_of(source: bytes) -> str:
    """The Message-ID without its brackets; empty where there is none."""
    return str(header_of(source).get("Message-ID", "")).strip().strip("<>")


class Threads:
    """Gives messages of one account to threads: same subject, and an answer to one that is there (by its references).

    (developers.google.com/workspace/gmail/api/guides/threads)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def thread_of(self, number: int, source: bytes) -> int:
        """The X-GM-THRID of a new message: that of a thread, or its own number."""
        header = header_of(source)
        subject = _PREFIX.sub("", str(header.get("Subject", ""))).strip().casefold()
        referred = _MESSAGE_ID.findall(f"{header.get('References', '')} {header.get('In-Reply-To', '')}")
        known = (self._known[one, subject] for one in reversed(referred) if (one, subject) in self._known)
        thread = next(known, number)
        for own in _MESSAGE_ID.findall(str(header.get("Message-ID", ""))):
            self._known.setdefault((own, subject), thread)
        return thread


# --- messages with labels, and folders that show them ---


Place = Literal["all", "trash", "spam"]
INBOX, SENT, IMPORTANT, STARRED, DRAFT = "\\Inbox", "\\Sent", "\\Important", "\\Starred", "\\Draft"
#: Labels that are a flag as well.
FLAG_OF = {STARRED: "\\Flagged", DRAFT: "\\Draft"}
#: Labels that are Gmail's own to give and take (developers.google.com/workspace/gmail/api/guides/labels).
FIXED = frozenset({SENT, DRAFT})
LABEL_OF = {flag: label for label, flag in FLAG_OF.items()}
SYSTEM = {name.lower(): name for name in (INBOX, SENT, IMPORTANT, STARRED, DRAFT)} | {"\\drafts": DRAFT}


@dataclass(eq=False)
class Letter:
    """A message. `uids`: what it is called in each folder that shows it."""

    number: int
    thread: int
    source: bytes = field(repr=False)
    date: datetime
    kept_flags: set[str]
    labels: set[str]
    place: Place | None
    modseq: int = 0
    #: The mod-sequence when its flags last changed; labels are no flags.
    flagged_at: int = 0
    uids: "dict[Folder, int]" = field(default_factory=dict, repr=False)

    def flags(self) -> frozenset[str]:
        return frozenset(self.kept_flags | {FLAG_OF[label] for label in self.labels & FLAG_OF.keys()})


@dataclass(eq=False)
class Folder:
    """A folder, and the messages that it shows by their UID, ascending."""

    path: str
    attribute: str
    label: str | None
    place: Place
    uidvalidity: int
    uidnext: int = 1
    modseq: int = 1
    members: dict[int, Letter] = field(default_factory=dict, repr=False)
    #: "Show in IMAP", in Gmail's settings.
    is_shown: bool = True

    def shows(self, letter: Letter) -> bool:
        """Whether a message is in here."""
        return letter.place == self.place and (self.label is None or self.label in letter.labels)


GERMAN = {
    "All Mail": "Alle Nachrichten",
    "Drafts": "Entwürfe",
    "Important": "Wichtig",
    "Sent Mail": "Gesendet",
    "Starred": "Markiert",
    "Trash": "Papierkorb",
}
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


class GmailMailbox:
    """One account. May be used from any thread; what is more than one step is done holding `lock`.

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

    # --- what the owner does elsewhere, and what comes in ---

    def deliver(
        self,
        source: bytes,
        *labels: str,
        flags: Iterable[str] = (),
        date: datetime | None = None,
        place: Place = "all",
        is_appended: bool = False,
    ) -> int:
        """A new message with these labels (none: the inbox's); its X-GM-MSGID. Its lines end in CRLF."""
        with self.lock:
            wanted = {self._label(name) for name in labels or ((INBOX,) if place == "all" and not is_appended else ())}
            given = set(flags)
            letter = Letter(
                number := next(self._numbers),
                self._threads.thread_of(number, source),
                source,
                date or datetime.now(UTC).replace(microsecond=0),
                {flag for flag in given if flag not in LABEL_OF and flag not in ("\\Recent", "\\Deleted")},
                wanted | {LABEL_OF[flag] for flag in given & LABEL_OF.keys()},
                place,
            )
            self.letters[number] = letter
            self._settle(letter, flags=True)
            return number

    def label(self, number: int, *names: str) -> None:
        """Add labels, which are made where there are none. That of trash or spam moves it there."""
        self.relabel(self.letters[number], add=names)

    def unlabel(self, number: int, *names: str) -> None:
        self.relabel(self.letters[number], remove=names)

    def flag(self, number: int, *flags: str) -> None:
        self.reflag(self.letters[number], add=flags)

    def unflag(self, number: int, *flags: str) -> None:
        self.reflag(self.letters[number], remove=flags)

    def trash(self, number: int) -> None:
        """Move a message to trash."""
        self.put(self.letters[number], "trash")

    def junk(self, number: int) -> None:
        """Move a message to spam."""
        self.put(self.letters[number], "spam")

    def restore(self, number: int, *labels: str) -> None:
        """Bring a message back from trash or spam, into the inbox if nothing else is said."""
        self.relabel(self.letters[number], add=labels or (INBOX,))

    def delete(self, number: int) -> None:
        """Remove a message for good."""
        self.remove(self.letters[number])

    def make_label(self, name: str) -> None:
        """Make a label that no message has yet."""
        with self.lock:
            self._label(name)

    def remove_label(self, name: str) -> None:
        """Remove a label, from all messages as well."""
        with self.lock:
            folder = self.folders.pop(name)
            for letter in [each for each in self.letters.values() if name in each.labels]:
                letter.labels = letter.labels - {name}
                letter.uids.pop(folder, None)
                self._settle_renamed(letter)

    def rename_label(self, name: str, new: str) -> None:
        """Give a label another name, and those below it (`Work/2024`)."""
        with self.lock:
            for path in [each for each in self.folders if each == name or each.startswith(name + "/")]:
                folder = self.folders.pop(path)
                renamed = new + path[len(name) :]
                folder.path = folder.label = renamed
                self.folders[renamed] = folder
                for letter in [each for each in self.letters.values() if path in each.labels]:
                    letter.labels = letter.labels - {path} | {renamed}
                    self._settle_renamed(letter)

    def renumber(self) -> None:
        """Give every folder another UIDVALIDITY, and its messages other UIDs. Nobody may have one open."""
        with self.lock:
            for folder in self.folders.values():
                letters, folder.uidvalidity = list(folder.members.values()), folder.uidvalidity + 1000
                folder.members = dict(enumerate(letters, 500))
                folder.uidnext = 500 + len(letters)
                for uid, letter in folder.members.items():
                    letter.uids[folder] = uid

    def _is_same(self, letter: Letter, source: bytes) -> bool:
        if self.knows_by_message_id and (known := message_id_of(source)):
            return message_id_of(letter.source) == known
        return letter.source == source

    def _settle_renamed(self, letter: Letter) -> None:
        if self.counts_renames:
            self._settle(letter)

    def hide(self, path: str) -> None:
        """Take "Show in IMAP" away from a folder; nobody is shown it any more."""
        self.folders[path].is_shown = False

    def show(self, path: str) -> None:
        self.folders[path].is_shown = True

    def hide_all_mail(self) -> None:
        """Hide the folder that has all messages."""
        self.hide(self.own("\\All").path)

    # --- what a test asks ---

    def own(self, attribute: str) -> Folder:
        """The folder of Gmail with this attribute, such as `\\Sent`."""
        with self.lock:
            return next(folder for folder in self.folders.values() if folder.attribute == attribute)

    def contents(self) -> dict[str, dict[int, int]]:
        """Path to UID to X-GM-MSGID, of every folder that is shown."""
        with self.lock:
            shown = [folder for folder in self.folders.values() if folder.is_shown]
            return {each.path: {uid: letter.number for uid, letter in each.members.items()} for each in shown}

    def append(self, source: bytes, target: Folder, flags: Collection[str], date: datetime | None) -> int:
        """A message that a client puts into a folder. One that is there already is not kept twice, but put there too.

        (github.com/google/import-mailbox-to-gmail/issues/56; github.com/rgladwell/imap-upload/issues/22)
        """
        with self.lock:
            same = next((each for each in self.letters.values() if self._is_same(each, source)), None)
            if same is not None:
                self.add_to(same, target)
                return same.number
            labels = (target.label,) if target.label else ()
            return self.deliver(source, *labels, flags=flags, date=date, place=target.place, is_appended=True)
