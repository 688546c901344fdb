"""A large mailbox looked at again when nothing has happened in it, with QRESYNC and by a server without extensions.

A proxy cuts the connection. When the appliance is back, the time runs from its first command after the login to the
moment at which it notes that the mirror is complete (`lastSyncAt`), and is back in IDLE where there is IDLE. So neither
connecting nor the login is in it.
"""

import statistics
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import format_datetime

from benchmarks import stage
from benchmarks.asking import Asker
from benchmarks.figures import Figure, spread
from benchmarks.mailboxes import connect, dovecot, wait, wait_until_complete
from benchmarks.options import OPTIONS
from tests.servers.corpus import CorpusMessage
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy

_MESSAGES, _ROUNDS = 100_000, 5
_BEFORE = ("CAPABILITY", "LOGIN", "AUTHENTICATE", "ID", "STARTTLS")


def measure() -> Iterator[Figure]:
    """Rich first, then poor: the proxy changes what the server seems to be."""
    count = OPTIONS.scaled(_MESSAGES)
    with stage.scratch() as folder, dovecot(folder) as server, stage.appliance(folder / "data") as running:
        user = _filled(server, count)
        proxy = server.proxy()
        with Asker(running) as asker:
            account = connect(running, server, user, proxy.port)
            wait_until_complete(asker, account, 1200)
            _see_a_change(server, asker, user, account)
            rich = [_resync(proxy, asker, account, idles=True) for _ in range(_ROUNDS)]
            assert proxy.count(r"EXAMINE .*QRESYNC"), "QRESYNC was not used"
            proxy.make_poor()
            _resync(proxy, asker, account, idles=False)
            proxy.commands.clear()
            poor = [_resync(proxy, asker, account, idles=False) for _ in range(_ROUNDS)]
            assert not proxy.count(r"EXAMINE .*QRESYNC"), "QRESYNC was used"
    name = f"resync of {count:,}, nothing new"
    yield Figure(f"{name}, QRESYNC", statistics.median(rich), 0.2, "at most", " s", f"{spread(rich, '.3f')} s")
    yield Figure(f"{name}, no extension", statistics.median(poor), 2, "at most", " s", f"{spread(poor, '.3f')} s")


def _resync(proxy: FaultProxy, asker: Asker, account: str, *, idles: bool) -> float:
    heard: dict[str, float] = {}

    def listen(command: str) -> None:
        if command and command.split(" ")[0] not in _BEFORE:
            heard.setdefault("IDLE" if command == "IDLE" else "first", time.time())

    before = _synced_at(asker, account)
    proxy.on_command = listen
    proxy.cut_all()
    wait(
        lambda: _synced_at(asker, account) > before and (not idles or "IDLE" in heard),
        "the mailbox was not looked at again",
        60,
        0.05,
    )
    return max(_synced_at(asker, account), heard.get("IDLE", 0)) - heard["first"]


def _synced_at(asker: Asker, account: str) -> float:
    return datetime.fromisoformat(asker.data(f"/accounts/{account}")["lastSyncAt"]).timestamp()


def _see_a_change(server: MailServer, asker: Asker, user: str, account: str) -> None:
    """Change a flag: a mailbox that never had a change is quicker to tell that there is none."""
    server.doveadm("flags", "add", "-u", user, "\\Flagged", "mailbox", "INBOX", "uid", "5:7")
    starred = f"/accounts/{account}/messages?starred=true"
    wait(lambda: len(asker.data(starred)["items"]) == 3, "the change was not seen", 90, 0.1)


def _filled(server: MailServer, count: int) -> str:
    """The user of a mailbox with many small messages: of their content nothing is asked here."""
    user = server.fresh_user()
    server.fill(user, "INBOX", (_message(number) for number in range(count)))
    server.doveadm("index", "-u", user, "INBOX")
    return user


def _message(number: int) -> CorpusMessage:
    date = 1_500_000_000 + number * 60
    header = (
        f"From: Ada <ada{number % 100}@example.org>\r\nTo: <me@example.test>\r\nSubject: Note {number}\r\n"
        f"Date: {format_datetime(datetime.fromtimestamp(date).astimezone())}\r\nMessage-ID: <{number}@example.org>\r\n"
    )
    return CorpusMessage(f"{header}\r\nThe text of note {number}.\r\n".encode(), date, "S" if number % 5 else "")
