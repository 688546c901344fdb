"""The appliance as a process of its own, to be asked over HTTP, killed and started again."""

import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from mailbox_appliance.system.crashes import TRACE

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        """The `data` of the envelope."""
        return self.body["data"]

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.body["error"]["code"])


def _hear(stream: IO[str], told: deque[str]) -> None:
    """Keep the last lines that a process says, until it ends."""
    with stream:
        told.extend(stream)


def download(url: str, token: str | None = None) -> tuple[int, str]:
    """Size and SHA-256 of what is there, read slowly enough to be ahead of nobody."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", urlsplit(url).path, headers={"Authorization": f"Bearer {token}"} if token else {})
    response = connection.getresponse()
    assert response.status == 200, response.read(1000)
    digest, size = hashlib.sha256(), 0
    while chunk := response.read(64 * 1024):
        digest.update(chunk)
        size += len(chunk)
    connection.close()
    return size, digest.hexdigest()


class RunningAppliance:
    """`mailbox-appliance serve` on a data directory. `argv` may name another program that serves, for crash tests.

    `arguments`: what else `serve` is told, such as `--https-port 0`.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        argv: Sequence[str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.token: str | None = None
        self._environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})}
        self._argv = list(argv or (sys.executable, "-m", "mailbox_appliance"))
        self._arguments = list(arguments)
        self.process: subprocess.Popen[str] | None = None
        self._told = deque[str](maxlen=500)
        self._listener: threading.Thread | None = None
        self.url = ""
        #: Where it answers over HTTPS; None where it does not.
        self.https: str | None = None

    def start(self) -> "RunningAppliance":
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            [*self._argv, "--data-dir", str(self.folder), "serve", "--port", "0", "--ready-json", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # Not a file: it has the set-up code, which is to lie nowhere else.
        self._told.clear()
        hearing = (self.process.stderr, self._told)
        self._listener = threading.Thread(target=_hear, args=hearing, name="heard", daemon=True)
        self._listener.start()
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(60)
            raise AssertionError(f"the appliance ended with {code} before it was ready: {self.said()}")
        ready = json.loads(line)
        self.url, self.https = ready["http"], ready.get("https")
        return self

    @property
    def is_alive(self) -> bool:
        """Whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        assert self.process is not None
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process is None or self.process.poll() is not None:
            return 0 if self.process is None else self._reap()
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # Python says where each thread is
            self.process.wait(60)
            raise AssertionError(f"the appliance does not end: {self.said()}{self.threads()}") from None
        finally:
            self.process.stdout.close()

    def said(self) -> str:
        """The last lines that it has said on stderr, once it has ended."""
        assert self._listener is not None
        self._listener.join(10)
        return "".join(self._told)

    def threads(self) -> str:
        """Where each thread was when a fatal signal ended it."""
        trace = self.folder / "logs" / TRACE
        return trace.read_text() if trace.exists() else ""

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        timeout: float = 60,
        **headers: str,
    ) -> Answer:
        """One request to /api/v1 on a connection of its own. `Idempotency_Key=...` becomes a header field."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if (token or self.token) is not None:
            fields["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        try:
            connection.request(method, "/api/v1" + path, None if body is None else json.dumps(body), fields)
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()), dict(response.headers))
        finally:
            connection.close()

    def set_up(self) -> str:
        """Make the first administrator and keep the session's token."""
        code = (self.folder / "setup-code").read_text().strip()
        request = {"setupCode": code, "name": "Ada", "email": "ada@example.org", "deviceName": "test"}
        answer = self.ask("POST", "/setup", {**request, "password": PASSWORD})
        assert answer.status == 201, answer
        self.token = answer.data["token"]
        return str(self.token)

    def connect(self, email: str, *, imap_port: int, smtp_port: int, password: str = "secret", **names: str) -> str:
        """Connect a mailbox on loopback without TLS; answers its id."""
        server = {"host": "127.0.0.1", "security": "none", "username": email, "password": password}
        imap, smtp = server | {"port": imap_port}, server | {"port": smtp_port}
        if "smtp_username" in names:
            smtp["username"] = names["smtp_username"]
        answer = self.ask("POST", "/accounts", {"email": email, "imap": imap, "smtp": smtp})
        assert answer.status == 201, answer
        return str(answer.data["id"])
