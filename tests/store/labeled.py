"""A mailbox whose messages are in all mail, spam or trash, and are shown by labels in other folders."""

from collections.abc import Sequence
from dataclasses import replace

from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import ListedFolder, MessageIdentity, MirroredFolder
from mailbox_appliance.store.store import Store
from tests.store.mail import MORNING, Mailbox, fetched, parsed

ALL, SPAM, TRASH = "[Gmail]/All Mail", "[Gmail]/Spam", "[Gmail]/Trash"
_ATTRIBUTES = {
    ALL: "\\all",
    SPAM: "\\junk",
    TRASH: "\\trash",
    "[Gmail]/Sent Mail": "\\sent",
    "[Gmail]/Drafts": "\\drafts",
    "[Gmail]/Starred": "\\flagged",
    "[Gmail]/Important": "\\important",
}


def listed(*users: str) -> list[ListedFolder]:
    """Return the folders as LIST reports them, with these labels of the user."""
    folders = [ListedFolder(path, "/", frozenset({name})) for path, name in _ATTRIBUTES.items()]
    folders += [ListedFolder(path, "/", frozenset()) for path in ("INBOX", *users)]
    return [replace(folder, label=folder_roles.label_of_folder(folder)) for folder in folders]


class LabeledMailbox(Mailbox):
    """A mailbox of a server with X-GM-EXT-1, in a store."""

    def __init__(self, store: Store, *users: str, owner: str | None = None) -> None:
        super().__init__(store, owner)
        self.relist(*users)

    def relist(self, *users: str) -> None:
        """Set the labels of the user."""
        folders = listed(*users)
        self.store.folders.replace(self.id, folders, folder_roles.assign_roles(folders))

    def bring(
        self,
        uid: int,
        flags: Sequence[str] = (),
        message: ParsedMessage | None = None,
        *,
        path: str = ALL,
        provider_id: str | None = None,
        thread: str | None = None,
        after: float | None = None,
    ) -> tuple[str, ...]:
        """Add a message; return its ID if it is new."""
        came = replace(
            fetched(uid, flags, after=uid if after is None else after),
            provider_id=provider_id or f"m{uid}",
            provider_thread_id=thread or f"t{provider_id or uid}",
        )
        return self.store.mailbox_writer.add(self.folder(path), [(came, message or parsed(subject=f"message {uid}"))])

    def see(self, uid: int, provider_id: str, flags: Sequence[str] = (), path: str = ALL) -> frozenset[int]:
        """Recognize a message that was seen in a folder."""
        sighting = MessageIdentity(uid, frozenset(flags), None, 1, MORNING, provider_id)
        return self.store.mailbox_writer.reattach(self.folder(path), [sighting])

    def shown(self) -> dict[str, list[int]]:
        """Return the UIDs of the messages that each label folder shows, without empty folders."""
        rows = self.store.database.rows(
            "SELECT f.path, m.uid FROM message_labels l JOIN folders f ON f.number = l.folder"
            " JOIN messages m ON m.number = l.number WHERE f.account ="
            " (SELECT number FROM accounts WHERE id = ?) ORDER BY f.path, m.uid",
            (self.id,),
        )
        assert self._kept("message_labels") == self._kept("messages_by_label")
        found: dict[str, list[int]] = {}
        for path, uid in rows:
            found.setdefault(path, []).append(uid)
        return found

    def _kept(self, table: str) -> set[tuple[int, ...]]:
        return {tuple(row) for row in self.store.database.rows(f"SELECT folder, number, flags FROM {table}")}

    def folder(self, path: str = ALL) -> MirroredFolder:
        """Return one of its folders."""
        return super().folder(path)
