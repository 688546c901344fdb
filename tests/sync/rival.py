"""Another program at work in a mailbox: random changes, the same ones for the same seed."""

import random
from collections.abc import Callable

from imapclient import IMAPClient

from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD

_FLAGS = (b"\\Seen", b"\\Flagged", b"\\Answered", b"\\Deleted", b"$Work", b"Later")
_FOLDERS = ("INBOX", "Archive", "Trash", "Sent", "Junk")


class Rival:
    """A client with its own connection, straight to the server."""

    def __init__(self, server: MailServer, user: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._client = IMAPClient(server.host, server.imap_port, ssl=False)
        self._client.login(user, PASSWORD)
        self._made: list[str] = []
        self._selected = ""
        self._uids: list[int] = []
        self._count = 0

    def change(self, count: int) -> None:
        """Make so many changes."""
        kinds: tuple[tuple[Callable[[], None], int], ...] = (
            (self._flag, 35),
            (self._unflag, 10),
            (self._move, 20),
            (self._copy, 5),
            (self._delete, 12),
            (self._append, 14),
            (self._folder, 2),
            (self._flag_many, 2),
        )
        acts, weights = zip(*kinds, strict=True)
        for number in range(count):
            if number % 25 == 0 or not self._uids:
                self._select(self._chance.choice((*_FOLDERS, "INBOX", "INBOX", *self._made)))
            self._chance.choices(acts, weights)[0]()

    def close(self) -> None:
        """Log out."""
        self._client.logout()

    def _select(self, path: str) -> None:
        self._client.select_folder(path)
        self._selected = path
        self._uids = list(self._client.search())

    def _one(self) -> list[int]:
        return [self._chance.choice(self._uids)] if self._uids else []

    def _taken(self) -> list[int]:
        uids = self._one()
        for uid in uids:
            self._uids.remove(uid)
        return uids

    def _flag(self) -> None:
        if uids := self._one():
            self._client.add_flags(uids, [self._chance.choice(_FLAGS)], silent=True)

    def _unflag(self) -> None:
        if uids := self._one():
            self._client.remove_flags(uids, [self._chance.choice(_FLAGS)], silent=True)

    def _flag_many(self) -> None:
        if uids := self._chance.sample(self._uids, min(40, len(self._uids))):
            self._client.add_flags(uids, [b"\\Seen"], silent=True)

    def _move(self) -> None:
        target = self._chance.choice([each for each in (*_FOLDERS, *self._made) if each != self._selected])
        if uids := self._taken():
            self._client.move(uids, target)

    def _copy(self) -> None:
        if uids := self._one():
            self._client.copy(uids, self._chance.choice(_FOLDERS))

    def _delete(self) -> None:
        if uids := self._taken():
            self._client.delete_messages(uids, silent=True)
            self._client.uid_expunge(uids)

    def _append(self) -> None:
        self._count += 1
        source = (
            f"From: rival@example.test\r\nSubject: new {self._count}\r\nMessage-ID: <r{self._count}@example.test>\r\n"
        )
        self._client.append(self._chance.choice(_FOLDERS), f"{source}\r\nIt is number {self._count}.\r\n".encode())

    def _folder(self) -> None:
        free = [each for each in self._made if each != self._selected]
        if len(self._made) < 3:
            self._made.append(f"Made {self._count} {self._chance.randrange(1 << 30)}")
            self._client.create_folder(self._made[-1])
        elif self._chance.random() < 0.5:
            self._client.rename_folder(free[0], f"{free[0]}x")
            self._made[self._made.index(free[0])] = f"{free[0]}x"
        else:
            self._client.delete_folder(free[0])
            self._made.remove(free[0])
