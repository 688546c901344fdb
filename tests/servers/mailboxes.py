"""The mailboxes of the test server: made, filled, read and changed past the server where that is quicker or surer."""

import imaplib
import os
import pwd
import random
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from imapclient import imap_utf7

from tests.servers.corpus import Corpus, CorpusMessage

PASSWORD = "secret"
#: Dovecot re-reads its users only every second or so, so all of them are made at the start.
POOL = tuple(f"user{number:03d}@example.test" for number in range(600))
USERS = ("alice@example.test", "bob@example.test", *POOL)
#: How much longer a busy machine may take than the seconds that tests name.
BUSY = 6


class Mailboxes:
    """The mailboxes of `users`, kept as Maildir below `folder`; each has the password `secret`."""

    host = "127.0.0.1"
    imap_port: int
    folder: Path

    def __init__(self) -> None:
        self._pool = iter(POOL)

    def fresh_user(self) -> str:
        """The address of a mailbox that nobody has used before."""
        try:
            return next(self._pool)
        except StopIteration:
            raise AssertionError("all mailboxes are used up: make POOL in tests/servers/mailboxes.py larger") from None

    def messages(self, user: str, folder: str = "INBOX") -> list[bytes]:
        """The sources of what really lies in a folder, in the order of arrival, with CRLF at the line ends."""
        maildir = self.maildir(user, folder)
        files = [file for part in ("new", "cur") for file in _listed(maildir / part)]
        # A Maildir name begins with the seconds, then M and the microseconds, of the arrival.
        files.sort(key=lambda file: (int(file.name.split(".")[0]), int(file.name.split("M")[1].split("P")[0])))
        return [_with_crlf(file.read_bytes()) for file in files]

    def wait_for_messages(self, user: str, count: int, folder: str = "INBOX", timeout: float = 10) -> list[bytes]:
        """The messages of a folder as soon as there are so many; AssertionError when that takes too long."""
        wait_until(
            lambda: len(self.messages(user, folder)) >= count,
            lambda: f"{len(self.messages(user, folder))} messages in {folder}, not {count}",
            timeout,
        )
        return self.messages(user, folder)

    def deliver(self, user: str, *sources: bytes, folder: str = "INBOX", flags: str = "") -> None:
        """Put messages into a folder, byte for byte, as another mail program would (APPEND); flags as in `\\Seen`."""
        with imaplib.IMAP4(self.host, self.imap_port, timeout=10) as client:
            client.login(user, PASSWORD)
            for source in sources:
                status, answer = client.append(_quoted(folder), f"({flags})", "", _with_crlf(source))
                assert status == "OK", answer

    def seed(self, user: str, counts: Mapping[str, int], seed: int = 1, *, largest_file: int = 1_000_000) -> int:
        """Fill folders of a mailbox that nobody has opened yet with so many messages each; how many bytes they are.

        They are of one corpus, the oldest first, and a thread runs through several folders.
        """
        chance = random.Random(seed)
        folders = [folder for folder, count in counts.items() for _ in range(count)]
        chance.shuffle(folders)
        self._make_maildirs(user, counts)
        paths = {folder: str(self.maildir(user, folder)) for folder in counts}
        written = 0
        messages = Corpus(user, seed, largest_file=largest_file).messages(len(folders))
        for number, (folder, message) in enumerate(zip(folders, messages, strict=True)):
            _write_message(paths[folder], number, message)
            written += len(message.source)
        return written

    def fill(self, user: str, folder: str, messages: Iterable[CorpusMessage]) -> None:
        """As `seed`, with messages of one's own; their lines end in CRLF."""
        self._make_maildirs(user, [folder])
        path = str(self.maildir(user, folder))
        for number, message in enumerate(messages):
            _write_message(path, number, message)

    def make_folder(self, user: str, folder: str) -> None:
        """Make a folder and subscribe to it."""
        self.doveadm("mailbox", "create", "-s", "-u", user, folder)

    def renumber(self, user: str, folder: str = "INBOX") -> int:
        """Give a folder another UIDVALIDITY, and its messages other UIDs, as a restored server does; the new one.

        Nobody may have the folder open.
        """
        found = self.doveadm("mailbox", "status", "-u", user, "uidvalidity uidnext", folder)
        before, following = (int(re.search(rf"{name}=(\d+)", found)[1]) for name in ("uidvalidity", "uidnext"))  # type: ignore[index]
        self.doveadm("mailbox", "update", "-u", user, "--uid-validity", str(before + 1), folder)
        self.doveadm("mailbox", "update", "-u", user, "--min-next-uid", str(following + 1000), folder)
        return before + 1

    def connections(self, user: str) -> int:
        """How many IMAP connections of a user the server has."""
        lines = self.doveadm("who", "-1", user).splitlines()
        return sum(1 for line in lines if line.split()[:2] == [user, "imap"])

    def doveadm(self, *arguments: str) -> str:
        """The output of Dovecot's administration command, e.g. `doveadm("flags", "add", "-u", user, ...)`."""
        command = ("doveadm", "-c", str(self.folder / "dovecot.conf"), *arguments)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, f"doveadm {arguments}: {done.stderr}"
        return done.stdout

    def maildir(self, user: str, folder: str = "INBOX") -> Path:
        home = self.folder / "mail" / user / "Maildir"
        if folder == "INBOX":
            return home
        return home / ("." + imap_utf7.encode(folder).decode().replace("/", "."))

    def _make_maildirs(self, user: str, folders: Collection[str]) -> None:
        mail = pwd.getpwnam("mail")
        home = self.maildir(user)
        made = [home.parent, home, *(self.maildir(user, folder) for folder in folders)]
        made += [self.maildir(user, folder) / part for folder in folders for part in ("tmp", "new", "cur")]
        for each in made:
            each.mkdir(exist_ok=True, mode=0o700)
            os.chown(each, mail.pw_uid, mail.pw_gid)


def account_at(email: str, imap: int, smtp: int, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
    """What connects a mailbox with servers at these ports of loopback, without TLS."""
    server = {"host": "127.0.0.1", "security": "none", "username": email, "password": password}
    return {"email": email, "imap": server | {"port": imap}, "smtp": server | {"port": smtp}, **more}


def environment() -> dict[str, str]:
    """What the servers and their commands are started with."""
    return {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"}


def wait_until(condition: Callable[[], bool], complaint: Callable[[], str], timeout: float) -> None:
    """Return as soon as the condition holds; AssertionError with the complaint after `BUSY` times the timeout."""
    end = time.monotonic() + timeout * BUSY
    while not condition():
        assert time.monotonic() < end, f"after {timeout * BUSY} s: {complaint()}"
        time.sleep(0.01)


def _write_message(maildir: str, number: int, message: CorpusMessage) -> None:
    # Dovecot gives UIDs in the order of the names, and takes the time of a file as that of the arrival.
    size = len(message.source)
    path = f"{maildir}/cur/1500000000.M{number:07d}P1.seed,S={size},W={size}:2,{message.flags}"
    with open(path, "wb", buffering=0) as file:
        file.write(message.source)
        os.fchmod(file.fileno(), 0o644)
    os.utime(path, (message.date, message.date))


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _with_crlf(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _quoted(folder: str) -> str:
    return '"' + imap_utf7.encode(folder).decode().replace("\\", "\\\\").replace('"', '\\"') + '"'
