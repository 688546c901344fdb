"""An appliance with a mailbox, and an SMTP server that keeps what it gets."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.console.house import Box, House
from tests.servers.dovecot import MailServer
from tests.servers.running import Answer
from tests.servers.scripted_smtp import ScriptedSmtp

_keys = itertools.count(1)
ENVIRONMENT = {"MAILBOX_APPLIANCE_BACKUP_DAILY": "no", "MAILBOX_APPLIANCE_SYNC_POLL_INTERVAL": "1"}
OTHER = "bob@example.org"


@dataclass
class Desk:
    """A mailbox whose owner has an API key that may do everything with mail; both send."""

    house: House
    box: Box
    smtp: ScriptedSmtp
    key_id: str
    key: str

    def send(self, *to: str, token: str | None = None, key: str | None = None, **more: Any) -> Answer:
        """Send a message by the API key, or by another token."""
        body = {"to": [{"email": each} for each in to], "subject": "Hello", "body": {"text": "Hi."}, **more}
        return self.post("send", body, token, key)

    def post(self, path: str, body: object, token: str | None = None, key: str | None = None) -> Answer:
        """Make a request about the mailbox that needs an idempotency key."""
        given = {"Idempotency_Key": key or f"key-{next(_keys)}"}
        token = token or self.key
        return self.house.running.ask("POST", f"/accounts/{self.box.id}/{path}", body, token=token, timeout=60, **given)

    def owner(self, method: str, path: str, body: object = None) -> Answer:
        """Make a request by the owner's session."""
        return self.house.ask(self.box.owner, method, path, body)

    def set_policy(self, **policy: object) -> None:
        """Replace the mailbox's policy."""
        answer = self.owner("PUT", f"/accounts/{self.box.id}/sending-policy", policy)
        assert answer.status == 200, answer.body

    def set_key_policy(self, **policy: object) -> None:
        """Replace the API key's policy."""
        answer = self.owner("PUT", f"/me/api-keys/{self.key_id}/sending-policy", policy)
        assert answer.status == 200, answer.body

    def reached(self) -> list[str]:
        """The recipients of all messages that the server has accepted."""
        return [each for message in self.smtp.messages for each in message.recipients]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("approvals"), mail_server, environment=ENVIRONMENT)
    yield made
    made.stop()


@contextmanager
def new_desk(house: House) -> Iterator[Desk]:
    """Yield a new member with a mailbox and a key."""
    smtp = ScriptedSmtp().start()
    try:
        box = house.connect(house.add_member("ann"), smtp=smtp)
        made = house.ask(box.owner, "POST", "/me/api-keys", {"name": "Agent", "permissionProfile": "full"})
        assert made.status == 201, made.body
        yield Desk(house, box, smtp, made.data["apiKey"]["id"], made.data["token"])
    finally:
        smtp.stop()


@pytest.fixture
def desk(house: House) -> Iterator[Desk]:
    with new_desk(house) as made:
        yield made
