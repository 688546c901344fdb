"""The whole service: it starts, many clients' first requests come at once, with large bodies, and it is ended.

Threads of the service take turns as quickly as those of the other stresses: see `hurried`.
"""

import base64
import json
import os
import random
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance
from tests.serving_proof.asking import connection_to

_CLIENTS, _LARGEST = 12, 3 << 20


class Died(AssertionError):
    """The service ended by itself; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"the service ended with {code}:\n{said}")
        self.code = code


@dataclass
class Service:
    """A service that is set up and has a mailbox; not running."""

    running: RunningAppliance
    account: str
    user: str


@contextmanager
def staged() -> Iterator[Service]:
    """Mail servers, and a service that was set up with them."""
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        mail = MailServer().start(folder)
        argv = (sys.executable, "-m", "tests.threads_proof.hurried")
        running = RunningAppliance(folder / "data", {"MAILBOX_APPLIANCE_SERVER_WORKERS": "16"}, argv).start()
        try:
            running.set_up()
            user = mail.fresh_user()
            account = running.connect(user, imap_port=mail.imap_port, smtp_port=mail.submission_port)
            assert running.stop() == 0
            yield Service(running, account, user)
        finally:
            if running.process is not None and running.process.poll() is None:
                running.kill()
            mail.stop()


def stress(chance: random.Random, service: Service) -> None:
    """One start, ended after the first requests, or amid them. Raises Died if the service ended by itself."""
    running = service.running
    running.start()
    assert running.process is not None
    passed = threading.Event()
    gate = threading.Barrier(_CLIENTS, passed.set)
    bodies = [_body(chance, service.user) for _ in range(_CLIENTS)]
    threads = [threading.Thread(target=partial(_send, service, body, gate, passed)) for body in bodies]
    for thread in threads:
        thread.start()
    end = chance.choice(("after", "after", "stop amid", "kill amid"))
    if end == "after":
        for thread in threads:
            thread.join()
    else:
        passed.wait(60)
        time.sleep(chance.uniform(0, 0.3))
    code = running.process.poll()
    if code is None and end == "stop amid":
        code = running.stop()
    elif code is None:
        running.kill()
    for thread in threads:
        thread.join()
    if code:
        raise Died(code, running.said())


def _body(chance: random.Random, user: str) -> bytes:
    """A send; most have no recipient and are refused once they are read, so that nobody gets them."""
    to = [{"email": user}] if chance.random() < 0.2 else []
    content = base64.b64encode(os.urandom(int(_LARGEST ** chance.uniform(0.8, 1)))).decode()
    file = {"filename": "a", "mimeType": "application/octet-stream", "content": content}
    return json.dumps({"body": {"text": "Hello"}, "to": to, "subject": "s", "attachments": [file]}).encode()


def _send(service: Service, body: bytes, gate: threading.Barrier, passed: threading.Event) -> None:
    """Send all but the last byte of a request, and that together with the other clients."""
    connection = connection_to(service.running.url)
    try:
        connection.putrequest("POST", f"/api/v1/accounts/{service.account}/send")
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        fields |= {"Authorization": f"Bearer {service.running.token}", "Idempotency-Key": uuid.uuid4().hex}
        for name, value in fields.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body[:-1])
        gate.wait(60)
        connection.send(body[-1:])
        assert connection.getresponse().read()
    except (OSError, HTTPException, threading.BrokenBarrierError):
        gate.abort()  # the service was ended, or has died, which `stress` finds out
        passed.set()
    finally:
        connection.close()
