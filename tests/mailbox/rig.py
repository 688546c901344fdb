"""A mailbox at a real server behind a proxy, and its mirror, which changes only when a test requests it: no sync
runs.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from mailbox_appliance.events import Events, FolderWritten
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mailbox import actions, undo
from mailbox_appliance.mailbox.bulk import Action, MessageAction
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.model.messages import MessageActionResult
from mailbox_appliance.model.sync import FlagChange, MirroredFolder, StateChange
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.settings import load
from mailbox_appliance.store.mailbox_writer import to_sighting
from mailbox_appliance.store.store import Store
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import PASSWORD

#: A bulk action, and what it changed.
Done = tuple[Action, tuple[StateChange, ...]]
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def letter(subject: str, *, message_id: str | None = None) -> bytes:
    """Return a message; its Message-ID is derived from its subject unless one is given."""
    name = (message_id or f"<{subject}@example.test>").encode()
    return b"From: bob@example.test\r\nMessage-ID: %s\r\nSubject: %s\r\n\r\nHello\r\n" % (name, subject.encode())


class Rig:
    """The mailbox. Subjects identify messages; every subject occurs once."""

    def __init__(self, folder: Path, server: MailServer, **settings: int) -> None:
        self.server, self.user = server, server.fresh_user()
        self.proxy = FaultProxy(server.imap_port).start()
        self.store = Store.open(folder)
        flags = {name.replace("__", "."): value for name, value in ({"remote__timeout": 5} | settings).items()}
        self.settings = load(None, {}, flags)
        self.events, self.touched = Events(), list[str]()
        self.events.subscribe(FolderWritten, lambda event: self.touched.append(event.path))
        self.connections = Connections(Logins(self.store, self.settings), self.settings)
        self._endpoint = Endpoint("127.0.0.1", self.proxy.port, "none", self.user, PASSWORD)
        with self.store.database.transaction():
            owner = self.store.members.add(name="Ann", email="ann@example.test", role="admin", password_hash=None)
            smtp = Endpoint("127.0.0.1", 1, "none", self.user, PASSWORD)
            self.account_id = self.store.accounts.add(owner.id, None, Connection(self.user, self._endpoint, smtp))

    def close(self) -> None:
        """Stop everything."""
        self.connections.stop()
        self.direct.close()
        self.store.close()
        self.proxy.stop()

    @cached_property
    def direct(self) -> ImapMailbox:
        """Return the connection of another mail program, without the proxy."""
        endpoint = Endpoint("127.0.0.1", self.server.imap_port, "none", self.user, PASSWORD)
        return ImapMailbox.open(endpoint, ca_file="", timeout=10)

    def deliver(self, *subjects: str, folder: str = "INBOX", flags: str = "") -> tuple[str, ...]:
        """Put messages into a folder and mirror them; return their IDs."""
        self.server.deliver(self.user, *map(letter, subjects), folder=folder, flags=flags)
        self.mirror()
        return tuple(self.id(subject) for subject in subjects)

    def mirror(self) -> None:
        """Mirror new messages of the server."""
        listed = self.direct.list_folders()
        for folder in self.store.folders.replace(self.account_id, listed, folder_roles.assign_roles(listed, {})):
            state = self.direct.examine(folder.path)
            if state != folder.state:
                self._take_in(folder)
                self.store.folders.set_state(folder.number, state)

    def follow(self) -> None:
        """Mirror what another client has changed at the server: flags, moved and deleted messages, folders."""
        writer, listed = self.store.mailbox_writer, self.direct.list_folders()
        folders = self.store.folders.replace(self.account_id, listed, folder_roles.assign_roles(listed, {}))
        for folder in folders:
            self.direct.examine(folder.path)
            flags, known = self.direct.fetch_flags(), writer.load_flags(folder.number)
            writer.detach(folder.number, known.keys() - flags.keys())
            writer.change_flags(folder.number, [FlagChange(uid, flags[uid]) for uid in flags if uid in known])
        for folder in folders:
            state = self.direct.examine(folder.path)
            new = sorted(self.direct.fetch_flags().keys() - writer.load_flags(folder.number).keys())
            pairs = [(message, parse_message(message.source)) for message in self.direct.fetch_messages(new)]
            writer.reattach(folder, [to_sighting(*pair) for pair in pairs])
            writer.add(folder, pairs)
            self.store.folders.set_state(folder.number, state)
        writer.purge_gone(self.account_id)

    def _take_in(self, folder: MirroredFolder) -> None:
        new = sorted(set(self.direct.fetch_flags()) - self.store.mailbox_writer.load_flags(folder.number).keys())
        self.store.mailbox_writer.add(
            folder, [(message, parse_message(message.source)) for message in self.direct.fetch_messages(new)]
        )

    def act(
        self, action: Action, ids: Iterable[str], *, folder: str | None = None, labels: str = ""
    ) -> MessageActionResult:
        """Run a bulk action."""
        target = None if folder is None else self.store.folders.find(self.account_id, folder)
        wanted = MessageAction(action, tuple(ids), target, tuple(labels.split()))
        outcomes = actions.perform(self.connections, self.store, self.events, self.account_id, wanted)
        self.done: Done = wanted.action, outcomes.changes()
        return outcomes.result()

    def undo(self, done: Done | None = None) -> MessageActionResult:
        """Undo a bulk action; by default the last one."""
        action, changes = done or self.done
        wanted = MessageAction(action, tuple(each for change in changes for each in change.message_ids))
        return undo.undo(self.connections, self.store, self.events, self.account_id, wanted, changes).result()

    def at_server(self, folder: str = "INBOX") -> dict[str, frozenset[str]]:
        """Return the flags by subject of the messages in a folder of the server."""
        self.direct.examine(folder)
        flags = self.direct.fetch_flags()
        return {
            parse_message(one.source).subject: flags[one.uid] - {"\\Recent"}
            for one in self.direct.fetch_messages(sorted(flags))
        }

    def here(self, folder: str = "INBOX") -> dict[str, frozenset[str]]:
        """Return the flags by subject of the messages in a folder of the mirror."""
        found = self.store.folders.find(self.account_id, folder)
        if found is None:
            return {}
        rows = self.store.database.rows("SELECT id, subject FROM messages WHERE folder = ?", (found.number,))
        located = self.store.mailbox_writer.locate(self.account_id, [message_id for message_id, _ in rows])
        return {subject: located[message_id].flags for message_id, subject in rows}

    def agrees(self, *folders: str) -> bool:
        """Whether the mirror of these folders equals the server."""
        return all(self.here(folder) == self.at_server(folder) for folder in folders)

    def id(self, subject: str) -> str:
        """Return the ID of the message with this subject."""
        sql = "SELECT id FROM messages WHERE subject = ?"
        (row,) = self.store.database.rows(sql, (subject,))
        return str(row[0])
