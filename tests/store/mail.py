"""Members, mailboxes and messages for the store, with default values for unimportant fields."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

from mailbox_appliance.model.accounts import Connection, Endpoint, FolderRole, RoleSource
from mailbox_appliance.model.messages import Address, MessageFilter, ParsedAttachment, ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, ListedFolder, MirroredFolder
from mailbox_appliance.store.store import Store

MORNING = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ROLES: dict[str, tuple[FolderRole, RoleSource]] = {
    "INBOX": ("inbox", "name"),
    "Sent": ("sent", "extension"),
    "Junk": ("spam", "extension"),
}
_numbers = count(1)


def execute(store: Store, sql: str, values: Sequence[object] = ()) -> None:
    """Execute one statement in a transaction of its own."""
    with store.database.transaction():
        store.database.change(sql, values)


def add_member(store: Store, name: str = "Ada") -> str:
    """Add a member; return the ID."""
    with store.database.transaction():
        email = f"{name.lower()}{next(_numbers)}@example.org"
        return store.members.add(name=name, email=email, role="member", password_hash=None).id


def connection(email: str = "ada@example.test") -> Connection:
    """Return the servers of a mailbox."""
    return Connection(
        email,
        Endpoint("imap.example.test", 993, "tls", email, "imap-password"),
        Endpoint("smtp.example.test", 587, "starttls", email, "smtp-password"),
    )


def fetched(uid: int, flags: Sequence[str] = (), *, after: float = 0) -> FetchedMessage:
    """Return a message that arrived `after` seconds after `MORNING`."""
    return FetchedMessage(uid, frozenset(flags), MORNING + timedelta(seconds=after), 1000, b"")


def parsed(
    message_id: str | None = None,
    *,
    subject: str = "Subject",
    references: Sequence[str] = (),
    in_reply_to: Sequence[str] = (),
    attachments: Sequence[ParsedAttachment] = (),
    text: str = "Text",
) -> ParsedMessage:
    """Return a short message."""
    return ParsedMessage(
        message_id=message_id,
        in_reply_to=tuple(in_reply_to),
        references=tuple(references),
        subject=subject,
        sender=Address(email="bob@example.test", name="Bob"),
        to=(Address(email="ada@example.test"),),
        cc=(),
        bcc=(),
        reply_to=(),
        date=None,
        headers={"Message-ID": message_id or ""},
        text=text,
        html=None,
        snippet=text,
        attachments=tuple(attachments),
        warnings=(),
    )


class Mailbox:
    """A mailbox in a store, with three folders."""

    def __init__(self, store: Store, owner: str | None = None) -> None:
        self.store = store
        self.owner = owner or add_member(store)
        with store.database.transaction():
            self.id = store.accounts.add(self.owner, None, connection(f"box{next(_numbers)}@example.test"))
        listed = [ListedFolder(path, "/", frozenset()) for path in ("INBOX", "Sent", "Junk")]
        store.folders.replace(self.id, listed, ROLES)

    def folder(self, path: str = "INBOX") -> MirroredFolder:
        """Return one of its folders."""
        return next(folder for folder in self.store.folders.list(self.id) if folder.path == path)

    def add(self, uid: int, message: ParsedMessage | None = None, path: str = "INBOX", *, after: float = 0) -> str:
        """Add one message; return its ID."""
        (added,) = self.store.mailbox_writer.add(self.folder(path), [(fetched(uid, after=after), message or parsed())])
        return added

    def subjects(self, path: str | None = "INBOX", limit: int = 1000) -> list[str]:
        """Return the subjects of a folder or of the whole mailbox as listed, page by page, newest first."""
        folders = None if path is None else [self.folder(path).number]
        found: list[str] = []
        before: int | None = None
        while True:
            page, before = self.store.messages.list(
                [self.id], MessageFilter(), folders=folders, before=before, limit=limit
            )
            found += [message.subject for message in page]
            if before is None:
                return found

    def thread_of(self, message_id: str) -> str:
        """Return the ID of a message's thread."""
        return self.store.messages.get(self.id, message_id)[0].thread_id
