"""A store with one mailbox and the sync over it, and whether it equals what is on the server."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.events import Events
from mailbox_appliance.model.accounts import AccountError, AccountStatus, Connection, Endpoint
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.settings import load
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync.supervisor import Supervisor
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD, wait_until

_ROWS = """
SELECT m.subject, m.id, m.uid, m.flags, m.body, m.gone, b.text, b.warnings, f.path
FROM messages m JOIN folders f ON f.number = m.folder JOIN accounts a ON a.number = m.account
LEFT JOIN bodies b ON b.number = m.number WHERE a.id = ? AND (? IS NULL OR f.path = ?)"""


@dataclass(frozen=True)
class Mirrored:
    """A message as it stands in the store."""

    subject: str
    id: str
    uid: int | None
    flags: int
    body: int
    gone: int
    text: str | None
    warnings: str
    path: str


def source(subject: str, text: str = "body", *, size: int = 0) -> bytes:
    name = subject.encode()
    head = b"From: bob@example.test\r\nMessage-ID: <%s@example.test>\r\nSubject: %s\r\n" % (name, name)
    if not size:
        return head + b"\r\n" + text.encode() + b"\r\n"
    parts = (b"--x\r\n\r\n" + text.encode(), b"--x\r\nContent-Type: application/zip\r\n\r\n" + b"z" * 70)
    head += b"Content-Type: multipart/mixed; boundary=x\r\n"
    return b"\r\n".join((head, *parts, *[b"z" * 70] * (size // 72), b"--x--\r\n"))


def connection_to(server: MailServer, user: str, port: int | None = None) -> Connection:
    imap = Endpoint("127.0.0.1", port or server.imap_port, "none", user, PASSWORD)
    return Connection(user, imap, dataclasses.replace(imap, port=server.submission_port))


def connection_to_port(port: int) -> Connection:
    """To a server played here."""
    there = Endpoint("127.0.0.1", port, "none", "alice", "secret")
    return Connection("a@example.test", there, there)


class Mirror:
    """A store with one mailbox, and the supervisor over it."""

    def __init__(self, store: Store, connection: Connection, **settings: int) -> None:
        self.store, self.settings = store, {name.replace("__", "."): value for name, value in settings.items()}
        with store.database.transaction():
            owner = store.members.add(name="Ann", email="ann@example.test", role="admin", password_hash=None)
            self.account_id = store.accounts.add(owner.id, None, connection)
        self.events = Events()
        self.supervisor = self._supervisor()

    def _supervisor(self) -> Supervisor:
        settings = load(None, {}, self.settings)
        return Supervisor(self.store, Logins(self.store, settings), settings, self.events, SystemClock())

    def start(self) -> Self:
        """Begin, and wait until all is there for the first time."""
        self.supervisor.start()
        self.wait_for_status("ready")
        self.wait_for(lambda: self.supervisor.progress(self.account_id) is None, "the bodies")
        return self

    def restart(self, *, within: Callable[[], None] = lambda: None) -> None:
        """As if the process were started anew; `within` is done while nothing runs."""
        self.supervisor.stop()
        within()
        self.store.accounts.set_status(self.account_id, "connecting")
        self.supervisor = self._supervisor()
        self.start()

    @contextmanager
    def running(self, *, is_ready: bool = True) -> Iterator[Self]:
        """Started, and stopped at the end."""
        try:
            if is_ready:
                self.start()
            else:
                self.supervisor.start()
            yield self
        finally:
            self.supervisor.stop()

    def wake(self) -> None:
        """Have everything looked at."""
        self.supervisor.wake(self.account_id, None)

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = 10) -> None:
        wait_until(condition, lambda: f"{what}: {self.store.accounts.get(self.account_id)} {self.messages()}", timeout)

    def wait_for_status(self, status: AccountStatus) -> None:
        self.wait_for(lambda: self.store.accounts.get(self.account_id).status == status, status)

    def wait_for_error(self, status: AccountStatus = "error") -> AccountError:
        self.wait_for_status(status)
        error = self.store.accounts.get(self.account_id).error
        assert error is not None
        return error

    def messages(self, path: str | None = None) -> dict[str, Mirrored]:
        """Subject to message, of one folder or of all."""
        rows = self.store.database.rows(_ROWS, (self.account_id, path, path))
        return {row[0]: Mirrored(*row) for row in rows}

    def ids(self, path: str | None = None) -> dict[str, str]:
        """Subject to id."""
        return {subject: message.id for subject, message in self.messages(path).items()}

    def known(self) -> dict[str, dict[int, frozenset[str]]]:
        """Path to UID to flags, of what is in the store."""
        folders = self.store.folders.list(self.account_id)
        return {folder.path: self.store.mailbox_writer.load_flags(folder.number) for folder in folders}

    def wait_until_equal(self, server: MailServer, user: str) -> None:
        """Until the store has what the server has, with whole bodies, and nothing waits to be found."""
        there = on_server(server, user)
        self.wake()
        has_gone = self.store.mailbox_writer.has_gone

        def is_equal() -> bool:
            return not has_gone(self.account_id) and self.known() == there and not self._backlog()

        wait_until(is_equal, lambda: f"{there} is not {self.known()}, {self._backlog()} bodies are missing", 20)

    def _backlog(self) -> int:
        return self.store.mailbox_writer.count_without_body(self.account_id)


def on_server(server: MailServer, user: str) -> dict[str, dict[int, frozenset[str]]]:
    """Path to UID to flags, as the server tells it without any proxy."""
    with ImapMailbox.open(connection_to(server, user).imap, ca_file="", timeout=10) as mailbox:
        found = {}
        for folder in mailbox.list_folders():
            exists = mailbox.examine(folder.path).exists
            found[folder.path] = mailbox.fetch_flags() if exists else {}
        return found
