"""Mail as it comes in: from the moment at which the server tells of it to the moment at which the API shows it.

The server's moment is that at which another connection in IDLE reads EXISTS; Dovecot itself waits half a second there.
"""

import socket
import threading
import time
from collections.abc import Iterator

from benchmarks import stage
from benchmarks.asking import Asker, described, p95
from benchmarks.figures import Figure
from benchmarks.mailboxes import connect, dovecot, wait, wait_until_complete
from benchmarks.options import OPTIONS
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD

_DELIVERIES = 100


def measure() -> Iterator[Figure]:
    """One delivery after the other, each a message that is shown whole."""
    count = OPTIONS.scaled(_DELIVERIES, least=10)
    with stage.scratch() as folder, dovecot(folder) as server, stage.appliance(folder / "data") as running:
        user = server.fresh_user()
        server.deliver(user, _message("first"))
        with Asker(running) as asker:
            account = connect(running, server, user)
            wait_until_complete(asker, account)
            listener = _Listener(server, user)
            late = [_deliver(server, user, asker, account, listener, number) for number in range(count)]
            listener.close()
    said = described([each * 1000 for each in late], ".0f")
    yield Figure(f"p95 of {count} deliveries, announced to shown", p95(late), 0.1, "at most", " s", said)


def _deliver(server: MailServer, user: str, asker: Asker, account: str, listener: "_Listener", number: int) -> float:
    subject = f"delivery {number}"
    newest = f"/accounts/{account}/messages?limit=1"
    server.deliver(user, _message(subject))

    def is_shown() -> bool:
        [item] = asker.data(newest)["items"]
        return bool(item["subject"] == subject and item["snippet"].startswith("text of"))

    wait(is_shown, f"delivery {number} was never shown", 60, 0.003)
    shown = time.perf_counter()
    return max(0.0, shown - listener.heard(number + 2))


def _message(subject: str) -> bytes:
    text = f"text of {subject}, " + "and more of it, " * 200
    return (
        f"From: Ada <ada@example.org>\r\nTo: <me@example.test>\r\nSubject: {subject}\r\n"
        f"Message-ID: <{subject.replace(' ', '.')}@example.org>\r\n\r\n{text}\r\n"
    ).encode()


class _Listener:
    """A connection in IDLE that notes when it is told of how many messages there are."""

    def __init__(self, server: MailServer, user: str) -> None:
        self._told: dict[int, float] = {}
        self._changed = threading.Condition()
        self._socket = socket.create_connection((server.host, server.imap_port))
        self._lines = self._socket.makefile("rb")
        self._lines.readline()
        self._say("a", f'LOGIN "{user}" "{PASSWORD}"')
        self._say("b", "EXAMINE INBOX")
        self._socket.sendall(b"c IDLE\r\n")
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._thread.start()

    def heard(self, count: int) -> float:
        """When it was told that there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: count in self._told, 60), f"the server never told of {count} messages"
            return self._told[count]

    def close(self) -> None:
        """Hang up."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._lines.close()
        self._socket.close()

    def _say(self, tag: str, command: str) -> None:
        self._socket.sendall(f"{tag} {command}\r\n".encode())
        while not self._lines.readline().startswith(tag.encode()):
            pass

    def _listen(self) -> None:
        while line := self._lines.readline():
            at = time.perf_counter()
            words = line.split()
            if words[2:] == [b"EXISTS"]:
                with self._changed:
                    self._told.setdefault(int(words[1]), at)
                    self._changed.notify_all()
