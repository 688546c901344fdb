"""An appliance with a mailbox at Gmail's double, asked through its API, and whether it has what the double has."""

from pathlib import Path
from typing import Any

from mailbox_appliance.clock import Clock
from mailbox_appliance.mail import folder_roles
from tests.servers.desk import Desk
from tests.servers.gmail import Gmail
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer

ADDRESS = "ada@gmail.test"
_KEPT = frozenset({"\\Seen", "\\Answered", "\\Flagged", "\\Draft", "$Forwarded"})
_LYING = """
SELECT m.provider_id, f.path, f.number, m.uid, t.provider_id FROM messages m
  JOIN folders f ON f.number = m.folder JOIN threads t ON t.number = m.thread"""
_SHOWN = """
SELECT f.path, m.provider_id FROM message_labels l JOIN folders f ON f.number = l.folder
  JOIN messages m ON m.number = l.number"""

#: Where a message lies, its UID, its flags and labels, its thread.
Kept = tuple[str, int | None, frozenset[str], str]


def letter(subject: str, *, message_id: str | None = None) -> bytes:
    """A message; its Message-ID is made of its subject unless one is given."""
    fields = [
        "From: bob@example.test",
        f"To: {ADDRESS}",
        f"Message-ID: {message_id or f'<{subject}@example.test>'}",
        f"Subject: {subject}",
    ]
    return "\r\n".join((*fields, "", "Hello", "")).encode()


class LabeledDesk:
    """The appliance, its mailbox, and the double. Subjects name messages."""

    def __init__(self, folder: Path, gmail: Gmail, clock: Clock | None = None, address: str = ADDRESS) -> None:
        self.gmail, self.box = gmail, gmail.add(address)
        for label in ("Work", "Work/2024"):
            self.box.make_label(label)
        self.desk = Desk(folder, clock)
        self.account = self.desk.connect(address, imap_port=gmail.imap_port, smtp_port=gmail.smtp_port)

    def close(self) -> None:
        self.desk.close()

    def bring(self, *subjects: str, labels: str = "\\Inbox", place: Any = "all") -> list[str]:
        """Deliver messages, and have them mirrored; answers their ids."""
        for subject in subjects:
            self.box.deliver(letter(subject), *labels.split(), place=place, is_appended=True)
        self.wait_until_same()
        return [self.id(subject) for subject in subjects]

    def id(self, subject: str) -> str:
        """The id of the message with this subject."""
        (row,) = self.desk.appliance.store.database.rows("SELECT id FROM messages WHERE subject = ?", (subject,))
        return str(row[0])

    def act(self, action: str, ids: list[str], **more: object) -> Any:
        body = {"action": action, "messageIds": ids, **more}
        answer = self.desk.ask("POST", f"/accounts/{self.account}/messages/actions", body)
        assert answer.status == 200, answer
        return answer.data

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """A request about the mailbox."""
        return self.desk.ask(method, f"/accounts/{self.account}{path}", body)

    def listed(self, folder: str) -> list[str]:
        """The subjects that a folder lists, newest first."""
        return [each["subject"] for each in self.ask("GET", f"/messages?folder={folder}").data["items"]]

    def at_gmail(self) -> tuple[dict[str, Kept], dict[str, set[str]]]:
        """What the double has: X-GM-MSGID to message, and what each folder with a label shows."""
        with self.box.lock:
            places = {folder.place: folder for folder in self.box.folders.values() if folder.label is None}
            kept: dict[str, Kept] = {}
            for each in self.box.letters.values():
                folder = places[each.place or "all"]
                flags = (each.flags() & _KEPT) | {folder_roles.canonical_label(label) for label in each.labels}
                kept[str(each.number)] = (folder.path, each.uids[folder], flags, str(each.thread))
            shown = {
                folder.path: {str(each.number) for each in folder.members.values()}
                for folder in self.box.folders.values()
                if folder.label is not None and folder.members
            }
            return kept, shown

    def here(self) -> tuple[dict[str, Kept], dict[str, set[str]]]:
        """The same of the mirror."""
        store = self.desk.appliance.store
        kept: dict[str, Kept] = {}
        for number, (provider_id, path, folder, uid, thread) in enumerate(store.database.rows(_LYING)):
            flags = store.mailbox_writer.load_flags(folder, [uid] if uid is not None else []).get(uid, frozenset())
            name = provider_id if provider_id and provider_id not in kept else f"row {number}"
            kept[name] = (path, uid, flags, str(thread))
        shown: dict[str, set[str]] = {}
        for path, provider_id in store.database.rows(_SHOWN):
            shown.setdefault(path, set()).add(provider_id)
        return kept, shown

    def is_same(self) -> bool:
        """Whether both have the same now."""
        return self.here() == self.at_gmail()

    def wait_until_same(self) -> None:
        """Until the mirror has what the double has, each message once."""
        self.desk.appliance.sync.wake(self.account, None)
        wait_until(self.is_same, lambda: f"{self.here()}\nis not\n{self.at_gmail()}", 10)
