"""A mailbox whose server cannot be reached, at an appliance whose workers rest and whose clock the test moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import FilledMailbox
from tests.servers.desk import a_key, a_message

#: What the clock of the tests shows at first.
START = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def at(**after: float) -> str:
    """A time to send at, so much after the start."""
    return to_timestamp(START + timedelta(**after))


class RestingMailbox(FilledMailbox):
    """What is handed in for later is kept and not sent; what is handed in for now comes back with 503."""

    def __init__(self, appliance: Appliance, email: str = "box@example.org") -> None:
        self.client = CheckedClient(appliance).set_up()
        super().__init__(appliance, self.client.member["id"], email)

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """A request below /accounts/ID."""
        return self.client.ask(method, f"/accounts/{self.id}{path}", body, **more)

    def send(self, body: object, key: str | None = None, **more: Any) -> Answer:
        """POST .../send."""
        return self.ask("POST", "/send", body, headers={"Idempotency-Key": key or a_key()}, **more)

    def schedule(self, key: str | None = None, *, token: str | None = None, **fields: Any) -> Answer:
        """A send in an hour, unless `sendAt` says otherwise."""
        return self.send(a_message(**{"sendAt": at(hours=1), **fields}), key, token=token)

    def operations(self) -> int:
        """How many delivery operations there are."""
        return int(self.store.database.value("SELECT count(*) FROM delivery_operations"))
