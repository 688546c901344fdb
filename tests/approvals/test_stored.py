"""What lies in the store: the bytes that wait, and policies that cannot be read."""

import hashlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.store.store import Store
from tests.approvals.conftest import OTHER
from tests.console.house import Box, House
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer
from tests.servers.scripted_smtp import ScriptedSmtp

# Serves with a library that composes nothing: whatever is sent was composed before.
_NEWER = """
import sys
from mailbox_appliance.mail import compose
def refuse(*arguments, **named):
    raise AssertionError("composed again")
for name in ("compose", "compose_message"):
    if hasattr(compose, name):
        setattr(compose, name, refuse)
from mailbox_appliance.__main__ import main
sys.exit(main())
"""


@dataclass
class Alone:
    """An appliance of its own, to be stopped, with a mailbox."""

    folder: Path
    house: House
    box: Box
    smtp: ScriptedSmtp

    def owner(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Make a request by the owner's session."""
        return self.house.ask(self.box.owner, method, path, body, **headers)

    def send(self, **more: Any) -> Answer:
        """Send a message with a file."""
        file = {"filename": "a.bin", "mimeType": "application/octet-stream", "content": "AAECAw=="}
        body = {"to": [{"email": OTHER}], "subject": "Größe", "body": {"html": "<p>Hällo</p>"}, "attachments": [file]}
        key = f"key-{len(more)}-{os.urandom(4).hex()}"
        return self.owner("POST", f"/accounts/{self.box.id}/send", body | more, Idempotency_Key=key)

    def pending(self) -> list[dict[str, Any]]:
        """Return the approvals that wait, newest first."""
        found: list[dict[str, Any]] = self.owner("GET", "/approvals?status=pending").data["items"]
        return found

    def approve(self, found: dict[str, Any]) -> Answer:
        """Approve a message."""
        return self.owner("POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]})

    def source(self, found: dict[str, Any]) -> bytes:
        """Return the bytes that are shown."""
        url = f"{self.house.url}/api/v1/approvals/{found['id']}/raw"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.box.owner.token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return bytes(answer.read())


@pytest.fixture
def alone(tmp_path: Path, mail_server: MailServer) -> Iterator[Alone]:
    smtp = ScriptedSmtp().start()
    house = House(tmp_path / "data", mail_server, environment={"MAILBOX_APPLIANCE_BACKUP_DAILY": "no"})
    yield Alone(tmp_path / "data", house, house.connect(house.ada, smtp=smtp), smtp)
    house.stop()
    smtp.stop()


def test_the_bytes_that_were_shown_go_out_after_a_restart_another_key_and_another_release(alone: Alone) -> None:
    alone.owner("PUT", f"/accounts/{alone.box.id}/sending-policy", {"approval": "always"})
    assert alone.send().status == 202
    (found,) = alone.pending()
    shown = alone.source(found)
    assert alone.house.running.stop() == 0
    environment = {**os.environ, "MAILBOX_APPLIANCE_KEYCHAIN": "off"}
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(alone.folder), "store", "rekey"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    program = alone.folder.parent / "newer.py"
    program.write_text(_NEWER)
    alone.house.running._argv = [sys.executable, str(program)]
    alone.house.running.start()
    assert alone.pending() == [found]
    assert alone.source(found) == shown
    assert alone.approve(found).status == 200
    wait_until(lambda: len(alone.smtp.messages) == 1, lambda: "not sent", 20)
    assert alone.smtp.messages[0].source == shown
    assert found["digest"] == f"sha256:{hashlib.sha256(shown).hexdigest()}"
    refused = alone.send()  # the other release really composes nothing
    assert refused.status == 500, refused.body


GARBAGE = ['{"allowed":[]}', "{"]


@pytest.mark.parametrize("text", GARBAGE)
def test_nothing_is_sent_by_a_policy_that_cannot_be_read(alone: Alone, text: str) -> None:
    path = f"/accounts/{alone.box.id}/sending-policy"
    alone.owner("PUT", path, {"approval": "always"})
    assert alone.send().status == 202
    assert alone.house.running.stop() == 0
    store = Store.open(alone.folder)
    with store.database.transaction():
        store.database.change("UPDATE accounts SET sending_policy = ?", (text,))
    store.close()
    alone.house.running.start()
    refused = alone.send()
    assert (refused.status, refused.code) == (403, "policy_denied"), refused.body
    assert "cannot be read" in refused.body["error"]["message"]
    (found,) = alone.pending()
    assert alone.approve(found).code == "policy_denied"
    shown = alone.owner("GET", path).data
    assert (shown["approval"], shown["allowedRecipients"]) == ("always", [])
    assert alone.smtp.messages == ()
    assert alone.owner("PUT", path, {}).status == 200
    assert alone.send().data["status"] == "succeeded"
    assert alone.approve(found).status == 200
