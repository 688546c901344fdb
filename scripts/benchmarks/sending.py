"""Messages sent through the API beside plain smtplib, one connection a message, to the same server."""

import http.client
import json
import smtplib
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from imapclient import IMAPClient

from benchmarks import stage
from benchmarks.asking import p95
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.stage import Mail
from tests.servers.running import RunningAppliance

_ROUNDS, _MESSAGES = 5, 80
_MAILBOXES = 20
_TEXT = "The quick brown fox jumps over the lazy dog.\n" * 20


def measure() -> Iterator[Figure]:
    """One after the other, 8 at once, from 20 mailboxes. A send counts when the server's reply is in the journal."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        bench = _Bench(running, mail, [_connected(running, mail, sender) for sender in mail.senders[:_MAILBOXES]])
        # At once the mail server takes both cores as well: there it is shown that nothing collapses.
        for at_once, target in ((1, 0.8), (8, 0.6)):
            yield from bench.over_smtplib(at_once, target)
        yield bench.many_over_one()


@dataclass(frozen=True)
class _Run:
    """Messages a second until the last one was settled, and the milliseconds that each request took."""

    rate: float
    took: tuple[float, ...]


class _Bench:
    """Mailboxes at an appliance, and smtplib beside it: always at the same server, in turn."""

    def __init__(self, running: RunningAppliance, mail: Mail, accounts: list[str]) -> None:
        self._running, self._mail, self._accounts, self._sent = running, mail, accounts, 0

    def over_smtplib(self, at_once: int, target: float) -> Iterator[Figure]:
        """How many messages a second from one mailbox, and, one after the other, how long the slowest took."""
        self._both(at_once, 8)
        ours, floor = zip(*[self._both(at_once, _MESSAGES) for _ in range(_ROUNDS)], strict=True)
        rates, beside = [run.rate for run in ours], [run.rate for run in floor]
        yield Figure(
            f"sends over smtplib, {at_once} at once",
            ratio_of(rates, beside),
            target,
            "at least",
            "",
            f"{spread(rates)} a second",
            f"smtplib to {self._mail.name}: {spread(beside)} a second",
        )
        if at_once == 1:
            slow, plain = [p95(run.took) for run in ours], [p95(run.took) for run in floor]
            yield Figure(
                "p95 of a send over smtplib's",
                statistics.median(one - other for one, other in zip(slow, plain, strict=True)),
                60,
                "at most",
                " ms",
                f"{spread(slow, '.1f')} ms",
                f"smtplib: {spread(plain, '.1f')} ms",
            )

    def many_over_one(self) -> Figure:
        """Twenty clients that send at once, each from a mailbox of its own, over the same clients with one mailbox."""
        many, one = self._accounts, self._accounts[:1] * len(self._accounts)
        runs = [(self._ours(many, _MESSAGES), self._ours(one, _MESSAGES)) for _ in range(_ROUNDS)]
        together, alone = ([run.rate for run in each] for each in zip(*runs, strict=True))
        return Figure(
            f"{len(many)} mailboxes over one, {len(many)} at once",
            ratio_of(together, alone),
            1.2,
            "at least",
            "",
            f"{spread(together)} a second",
            f"one mailbox: {spread(alone)} a second",
        )

    def _both(self, at_once: int, count: int) -> tuple[_Run, _Run]:
        ours = self._ours(self._accounts[:1] * at_once, count)
        return ours, _run([_Smtplib(self._mail) for _ in range(at_once)], count)

    def _ours(self, accounts: list[str], count: int) -> _Run:
        """Then wait for the copies, so that what comes next has the machine to itself."""
        run = _run([_Api(self._running, account, self._mail) for account in accounts], count)
        self._sent += count // len(accounts) * len(accounts)
        _wait_for_copies(self._mail, self._sent)
        return run


def _connected(running: RunningAppliance, mail: Mail, sender: str) -> str:
    account = running.connect(sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password)
    stage.wait_until_ready(running, account)
    return account


class _Smtplib:
    """The floor: connect, log in, send, quit."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail

    def send(self) -> None:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self._mail.sender, self._mail.recipient, "Bench"
        message["Message-ID"] = f"<{uuid.uuid4().hex}@bench.example.test>"
        message.set_content(_TEXT)
        with smtplib.SMTP("127.0.0.1", self._mail.smtp_port, timeout=30) as server:
            server.login(self._mail.sender, self._mail.password)
            server.send_message(message)

    def close(self) -> None:
        """Nothing is kept."""


class _Api:
    """A client of the API that keeps its connection, and looks after what was not settled at once."""

    def __init__(self, running: RunningAppliance, account: str, mail: Mail) -> None:
        self._path = f"/api/v1/accounts/{account}"
        self._headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
        body = {"to": [{"email": mail.recipient}], "subject": "Bench", "body": {"text": _TEXT}}
        self._body = json.dumps(body)
        self._connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
        self._open: list[str] = []

    def send(self) -> None:
        answer = self._ask("POST", "/send", self._body, {"Idempotency-Key": uuid.uuid4().hex})
        if answer["status"] != "succeeded":
            self._open.append(answer["operationId"])

    def close(self) -> None:
        """Wait for what was not settled at once."""
        # One after the other, and not too often: asking costs the machine that sends.
        for operation in self._open:
            while self._status(operation) != "succeeded":
                time.sleep(0.05)
        self._connection.close()

    def _status(self, operation: str) -> str:
        status = str(self._ask("GET", f"/delivery-operations/{operation}")["status"])
        assert status in ("sending", "succeeded"), status
        return status

    def _ask(self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Any:
        self._connection.request(method, self._path + path, body, {**self._headers, **(headers or {})})
        answer = json.loads(self._connection.getresponse().read())
        assert "data" in answer, answer
        return answer["data"]


def _run(clients: Sequence[_Api | _Smtplib], count: int) -> _Run:
    """So many messages, shared among clients that send at once."""
    took: list[float] = []

    def work(one: _Api | _Smtplib) -> None:
        for _ in range(count // len(clients)):
            asked = time.perf_counter()
            one.send()
            took.append((time.perf_counter() - asked) * 1000)
        one.close()

    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(work, clients))
    return _Run(len(took) / (time.perf_counter() - began), tuple(took))


def _wait_for_copies(mail: Mail, count: int) -> None:
    """Return when so many copies are in the Sent folders."""
    end = time.monotonic() + 60
    while (there := sum(_copies(mail, sender) for sender in mail.senders[:_MAILBOXES])) < count:
        if time.monotonic() > end:
            raise SystemExit(f"after a minute {there} copies are in Sent, not {count}")
        time.sleep(0.1)


def _copies(mail: Mail, sender: str) -> int:
    with IMAPClient("127.0.0.1", mail.imap_port, ssl=False) as imap:
        imap.login(sender, mail.password)
        if not imap.folder_exists("Sent"):
            return 0
        return int(imap.folder_status("Sent", ["MESSAGES"])[b"MESSAGES"])
