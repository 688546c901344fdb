"""Others at work in a mailbox of Gmail, on its web page and by IMAP: random changes, the same for the same seed."""

import random
import time
from collections.abc import Callable

from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_mailbox import DRAFT, IMPORTANT, INBOX, SENT, STARRED, GmailMailbox, Letter

LABELS = ("Work", "Work/2024", "Müll & mehr", "Очень важно", 'a "b" \\c', "受信", "later")
_FLAGS = ("\\Seen", "\\Seen", "\\Answered", "$Forwarded", "$Phishing", "Later")


class GmailRival:
    """Changes what lies in a mailbox: half of it as the web page does, half as a mail program does."""

    def __init__(self, gmail: Gmail, box: GmailMailbox, seed: int) -> None:
        self._box, self._chance = box, random.Random(seed)
        self._client = IMAPClient(gmail.host, gmail.imap_port, ssl=False, timeout=30)
        self._client.login(box.address, PASSWORD)
        self._paths = {name: box.own(f"\\{name}").path for name in ("All", "Trash", "Junk", "Sent", "Flagged")}
        self._selected, self._uids = "", list[int]()
        self._count = 0
        self._name = f"{seed}"

    def change(self, count: int) -> None:
        """Make so many changes; bursts, with pauses in which others see what there is."""
        kinds: tuple[tuple[Callable[[], object], int], ...] = (
            (self._relabel, 24),
            (self._archive, 10),
            (self._reflag, 14),
            (self._put_away, 8),
            (self._bring_back, 5),
            (self._delete, 2),
            (self._deliver, 9),
            (self._draft, 3),
            (self._rename, 1),
            (self._by_imap, 24),
        )
        acts, weights = zip(*kinds, strict=True)
        for number in range(count):
            if number % 10 == 0:
                time.sleep(self._chance.uniform(0, 0.05))
            self._chance.choices(acts, weights)[0]()

    def close(self) -> None:
        """Log out."""
        self._client.logout()

    # --- as the web page does ---

    def _one(self, *places: str) -> Letter | None:
        with self._box.lock:
            numbers = sorted(self._box.letters)
            some = (self._box.letters[self._chance.choice(numbers)] for _ in range(20) if numbers)
            return next((letter for letter in some if letter.place in (places or ("all",))), None)

    def _some_labels(self) -> list[str]:
        known = [path for path, folder in self._box.folders.items() if folder.label == path]
        pool = (*LABELS, *known, INBOX, STARRED, IMPORTANT)
        return self._chance.sample(pool, self._chance.randint(1, 3))

    def _relabel(self) -> None:
        letter = self._one()
        for number in [letter.number] if letter else []:
            self._box.label(number, *self._some_labels())
            self._box.unlabel(number, *self._some_labels())

    def _archive(self) -> None:
        if letter := self._one():
            is_in = INBOX in letter.labels
            (self._box.unlabel if is_in else self._box.label)(letter.number, INBOX)

    def _reflag(self) -> None:
        if letter := self._one("all", "all", "trash", "spam"):
            flag = self._chance.choice(_FLAGS)
            (self._box.unflag if flag in letter.kept_flags else self._box.flag)(letter.number, flag)

    def _put_away(self) -> None:
        if letter := self._one():
            self._chance.choice((self._box.trash, self._box.trash, self._box.junk))(letter.number)

    def _bring_back(self) -> None:
        if letter := self._one("trash", "spam"):
            self._box.restore(letter.number, *(self._some_labels() if self._chance.random() < 0.5 else ()))

    def _delete(self) -> None:
        letter = self._one("trash")
        if letter is not None and SENT not in letter.labels:  # so that what became of a sent one can be told
            self._box.delete(letter.number)

    def _deliver(self) -> None:
        self._count += 1
        name = f"r{self._name}-{self._count}"
        head = f"From: rival@example.test\r\nSubject: new {name}\r\nMessage-ID: <{name}@example.test>\r\n"
        source = f"{head}\r\nIt is number {self._count}.\r\n".encode()
        labels = self._chance.choice(((INBOX,), (INBOX, "Work"), (INBOX, IMPORTANT, *LABELS[:3]), ("later",), (SENT,)))
        self._box.deliver(source, *labels)

    def _draft(self) -> None:
        letter = self._one()
        if letter is not None and DRAFT in letter.labels:
            self._box.delete(letter.number)
        self._count += 1
        source = f"Subject: draft {self._name}-{self._count}\r\n\r\nDear all,\r\n".encode()
        self._box.deliver(source, DRAFT)

    def _rename(self) -> None:
        """Rename a label, remove one, or make one."""
        with self._box.lock:
            known = sorted(path for path, folder in self._box.folders.items() if folder.label == path)
            free = [path for path in known if path != self._selected]
            self._count += 1
            act = self._chance.random()
            if act < 0.4 or not free:
                self._box.make_label(f"made {self._count}")
            elif act < 0.7:
                self._box.remove_label(self._chance.choice(free))
            else:
                name = self._chance.choice(free)
                if not self._selected.startswith(name + "/"):
                    self._box.rename_label(name, f"{name.split('/')[-1]} {self._count}")

    # --- as a mail program does ---

    def _by_imap(self) -> None:
        """A change by IMAP; what is gone meanwhile is refused, and the folder opened anew."""
        try:
            if not self._uids or self._chance.random() < 0.1:
                self._select()
            if self._uids:
                self._change_one(self._chance.choice(self._uids))
        except IMAPClientError:
            self._select_all_mail()

    def _select(self) -> None:
        shown = sorted(path for path, folder in self._box.folders.items() if folder.members)
        self._selected = self._chance.choice((*shown, "INBOX", self._paths["All"]))
        self._client.select_folder(self._selected)
        self._uids = list(self._client.search())

    def _select_all_mail(self) -> None:
        self._selected = self._paths["All"]
        self._client.select_folder(self._selected)
        self._uids = list(self._client.search())

    def _change_one(self, uid: int) -> None:
        name = self._chance.choice(LABELS)
        client, paths = self._client, self._paths
        kept = (paths["All"], paths["Trash"], paths["Junk"], paths["Sent"])
        kinds: tuple[tuple[Callable[[], object], int], ...] = (
            (lambda: client.add_gmail_labels([uid], [name, "\\Starred"], silent=True), 4),
            (lambda: client.remove_gmail_labels([uid], [name, "\\Inbox", "\\Starred"], silent=True), 4),
            (lambda: client.set_gmail_labels([uid], self._chance.sample(LABELS, 2), silent=True), 2),
            (lambda: client.add_flags([uid], [b"\\Seen", b"\\Flagged"]), 3),
            (lambda: client.set_flags([uid], [b"\\Answered"]), 2),
            (
                lambda: client.move([uid], self._chance.choice(("INBOX", paths["Trash"], paths["Junk"], paths["All"]))),
                4,
            ),
            (lambda: client.copy([uid], self._chance.choice(("INBOX", paths["Trash"], paths["Flagged"]))), 2),
            (lambda: None if self._selected in kept else client.delete_messages([uid]), 2),
            (lambda: client.append("INBOX", f"Subject: put {self._name}-{uid}\r\n\r\nbody\r\n".encode()), 1),
        )
        acts, weights = zip(*kinds, strict=True)
        self._chance.choices(acts, weights)[0]()
