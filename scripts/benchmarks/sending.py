"""Messages sent through the API beside plain smtplib, one connection a message, to the same server."""

import http.client
import json
import smtplib
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from imapclient import IMAPClient

from benchmarks import stage
from benchmarks.figures import Figure, ratio_of, spread
from benchmarks.stage import Mail
from tests.servers.running import RunningAppliance

_ROUNDS, _MESSAGES = 5, 80
_TEXT = "The quick brown fox jumps over the lazy dog.\n" * 20


def measure() -> Iterator[Figure]:
    """One after the other, and 8 at once. A send counts when the server's reply is in the journal."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        sent = 0
        # At once the mail server takes both cores as well: there it is shown that nothing collapses.
        for at_once, target in ((1, 0.5), (8, 0.4)):
            sent += 8
            _both(running, account, mail, at_once, 8, sent)
            rates = [
                _both(running, account, mail, at_once, _MESSAGES, sent := sent + _MESSAGES) for _ in range(_ROUNDS)
            ]
            ours, floor = zip(*rates, strict=True)
            yield Figure(
                f"sends over smtplib, {at_once} at once",
                ratio_of(ours, floor),
                target,
                "at least",
                "",
                f"{spread(ours)} a second",
                f"smtplib to {mail.name}: {spread(floor)} a second",
            )


def _both(
    running: RunningAppliance, account: str, mail: Mail, at_once: int, count: int, sent: int
) -> tuple[float, float]:
    ours = _rate(lambda: _Api(running, account, mail), at_once, count)
    _wait_for_copies(mail, sent)
    return ours, _rate(lambda: _Smtplib(mail), at_once, count)


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


def _rate(client: Callable[[], _Api | _Smtplib], at_once: int, count: int) -> float:
    """Messages a second, until the last one is settled."""
    clients = [client() for _ in range(at_once)]

    def work(one: _Api | _Smtplib) -> None:
        for _ in range(count // at_once):
            one.send()
        one.close()

    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(work, clients))
    return count // at_once * at_once / (time.perf_counter() - began)


def _wait_for_copies(mail: Mail, count: int) -> None:
    """Return when so many copies are in Sent, so that the next one has the machine to itself."""
    end = time.monotonic() + 60
    with IMAPClient("127.0.0.1", mail.imap_port, ssl=False) as imap:
        imap.login(mail.sender, mail.password)
        while imap.folder_status("Sent", ["MESSAGES"])[b"MESSAGES"] < count:
            if time.monotonic() > end:
                raise SystemExit(f"fewer than {count} copies are in Sent after a minute")
            time.sleep(0.1)
