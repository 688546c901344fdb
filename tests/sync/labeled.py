"""A mailbox at Gmail's double, and whether the mirror of it equals it."""

from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.store.store import Store
from tests.servers.gmail import PASSWORD, Gmail
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.mailboxes import wait_until
from tests.sync.mirrored import Mirror

_LYING = """
SELECT f.path, m.uid, CAST(m.provider_id AS INTEGER), t.provider_id FROM messages m
  JOIN folders f ON f.number = m.folder JOIN threads t ON t.number = m.thread JOIN accounts a ON a.number = m.account
  WHERE a.id = ?"""
_SHOWN = """
SELECT f.path, CAST(m.provider_id AS INTEGER) FROM message_labels l JOIN folders f ON f.number = l.folder
  JOIN messages m ON m.number = l.number JOIN accounts a ON a.number = f.account WHERE a.id = ?"""

#: What is known of a message: its thread, and its flags with its labels.
Known = tuple[int, frozenset[str]]


def endpoint_of(gmail: Gmail, box: GmailMailbox, port: int | None = None) -> Endpoint:
    return Endpoint(gmail.host, port or gmail.imap_port, "none", box.address, PASSWORD)


class LabeledMirror(Mirror):
    """A store that mirrors one mailbox of the double."""

    def __init__(self, store: Store, gmail: Gmail, box: GmailMailbox, port: int | None = None, **settings: int) -> None:
        imap = endpoint_of(gmail, box, port)
        super().__init__(store, Connection(box.address, imap, imap), **settings)
        self.box = box

    def wait_until_same(self, timeout: float = 10) -> None:
        """Until the store has what the double has, each message once, with its text, and shows it where that does."""
        self.wake()
        wait_until(self.is_same, lambda: f"{self.there()} {self._shown()}\nis not\n{expected(self.box)}", timeout)

    def is_same(self) -> bool:
        """Whether both have the same now."""
        lying, shown = expected(self.box)
        is_whole = not self.store.mailbox_writer.has_gone(self.account_id) and not self._backlog()
        is_once = self._count() == len(lying)
        return is_whole and is_once and self.there() == lying and self._shown() == shown

    def there(self) -> dict[tuple[str, int | None, int], Known]:
        """Path, UID and X-GM-MSGID of each message to what is known of it."""
        known = self.known()
        rows = self.store.database.rows(_LYING, (self.account_id,))
        return {
            (path, uid, number): (int(thread or 0), known[path].get(uid, frozenset()))
            for path, uid, number, thread in rows
        }

    def _count(self) -> int:
        return int(self.store.database.value("SELECT count(*) FROM messages"))

    def _shown(self) -> dict[str, set[int]]:
        shown: dict[str, set[int]] = {}
        for path, number in self.store.database.rows(_SHOWN, (self.account_id,)):
            shown.setdefault(path, set()).add(number)
        return shown


def expected(box: GmailMailbox) -> tuple[dict[tuple[str, int | None, int], Known], dict[str, set[int]]]:
    """What lies where, and which folders show what."""
    with box.lock:
        lying: dict[tuple[str, int | None, int], Known] = {}
        shown: dict[str, set[int]] = {}
        for folder in box.folders.values():
            for uid, letter in folder.members.items():
                if folder.label is not None and folder.is_shown:
                    shown.setdefault(folder.path, set()).add(letter.number)
                elif folder.label is None:
                    told = frozenset(map(folder_roles.canonical_label, letter.labels)) | letter.flags()
                    lying[folder.path, uid, letter.number] = (letter.thread, told)
        return lying, shown
