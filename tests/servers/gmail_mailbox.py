"""A mailbox as Gmail keeps it: one message in many folders, each of which only shows those that have a label.

Messages lie in all mail, in spam or in trash; every other folder shows the messages of all mail that have its label,
each with a UID of its own there. What is done to a message shows in all folders at once.

    box.deliver(b"...", "Work")           answers its X-GM-MSGID, which is what a message is called here
    box.label(number, "Work/2024")        box.unlabel(number, "\\\\Inbox") archives it
    box.trash(number), box.junk(number), box.restore(number), box.delete(number)
    box.flag(number, "\\\\Seen")          box.unflag(...)

(developers.google.com/workspace/gmail/imap/imap-extensions; support.google.com/mail/answer/77657, "IMAP actions")
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from tests.servers.gmail_changes import Changes
from tests.servers.gmail_folders import INBOX, LABEL_OF, Folder, Letter, Place
from tests.servers.gmail_threads import message_id_of

GERMAN = {
    "All Mail": "Alle Nachrichten",
    "Drafts": "Entwürfe",
    "Important": "Wichtig",
    "Sent Mail": "Gesendet",
    "Starred": "Markiert",
    "Trash": "Papierkorb",
}


class GmailMailbox(Changes):
    """One account. May be used from any thread."""

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
        """Take labels away."""
        self.relabel(self.letters[number], remove=names)

    def flag(self, number: int, *flags: str) -> None:
        """Add flags."""
        self.reflag(self.letters[number], add=flags)

    def unflag(self, number: int, *flags: str) -> None:
        """Take flags away."""
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
        """Show it again."""
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
