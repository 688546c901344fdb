"""An appliance in this process, set up, that mailboxes can be connected to and sent from."""

import json
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from webtest import TestApp

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import Clock
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.settings import Value
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.web.app import App
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.running import PASSWORD, Answer

ADMIN = {"setupCode": "-", "name": "Ada", "email": "ada@example.org", "password": PASSWORD, "deviceName": "test"}
LOCAL = {"HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": "127.0.0.1"}


def a_key() -> str:
    """An idempotency key that nobody has used."""
    return uuid.uuid4().hex


def a_message(to: str = "bob@example.test", **fields: Any) -> dict[str, Any]:
    """The body of a send."""
    return {"body": {"text": "Hello"}, "to": [{"email": to}], "subject": "A test", **fields}


class Desk:
    """The appliance and its administrator. Ask it from as many threads as you like."""

    def __init__(self, folder: Path, clock: Clock | None = None, *, is_new: bool = True, **given: Value) -> None:
        """`given`: settings, with `__` for the dot. `is_new`: it is to be set up first."""
        flags = {name.replace("__", "."): value for name, value in given.items()}
        self.appliance = Appliance(folder, settings.load(None, {}, flags), clock)
        self._app = App(self.appliance)
        self.token = self._first_token(is_new)
        self.appliance.start()
        self._callers = ThreadPoolExecutor(64, "caller")

    def _first_token(self, is_new: bool) -> str:
        if is_new:
            return add_first_admin(self.appliance, convert_body(ADMIN, CreateFirstAdminRequest), Actor("local")).token
        login = {name: ADMIN[name] for name in ("email", "password", "deviceName")}
        return str(self.ask("POST", "/auth/login", login, token="none").data["token"])

    def close(self) -> None:
        """Stop, and close the store."""
        self.appliance.stop(0.5)
        self._callers.shutdown(cancel_futures=True)

    def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **fields: str | None
    ) -> Answer:
        """One request to /api/v1. `Idempotency_Key=...` becomes a header field, unless it is None."""
        headers = {name.replace("_", "-"): value for name, value in fields.items() if value is not None}
        headers["Authorization"] = f"Bearer {token or self.token}"
        content = b"" if body is None else json.dumps(body).encode()
        response = TestApp(self._app, extra_environ=LOCAL).request(
            "/api/v1" + path,
            method=method,
            http_version="HTTP/1.1",  # WebTest would ask as HTTP/1.0, which shows a proxy
            body=content,
            content_type="application/json",
            headers=headers,
            expect_errors=True,
        )
        return Answer(response.status_code, response.json, dict(response.headers))

    def connect(self, email: str, *, imap_port: int, smtp_port: int, **more: Any) -> str:
        """Connect a mailbox on loopback without TLS, and wait until its mirror is there; answers its id."""
        answer = self.ask("POST", "/accounts", account_at(email, imap_port, smtp_port, **more))
        assert answer.status == 201, answer
        account = str(answer.data["id"])
        wait_until(lambda: self.account(account)["status"] == "ready", lambda: str(self.account(account)), 10)
        return account

    def account(self, account: str) -> Any:
        """The mailbox as it is now."""
        return self.ask("GET", f"/accounts/{account}").data

    def send(self, account: str, body: object, key: str | None = None, *, token: str | None = None) -> Answer:
        return self.ask("POST", f"/accounts/{account}/send", body, token=token, Idempotency_Key=key or a_key())

    def begin(self, account: str, body: object, key: str | None = None) -> "Future[Answer]":
        """The same in a thread of its own."""
        return self._callers.submit(self.send, account, body, key)

    def delivery(self, account: str, operation_id: str) -> Answer:
        return self.ask("GET", f"/accounts/{account}/delivery-operations/{operation_id}")

    def wait_for(self, account: str, operation_id: str, status: str, timeout: float = 10) -> Any:
        """The operation, as soon as it has this status."""
        wait_until(
            lambda: self.delivery(account, operation_id).data["status"] == status,
            lambda: str(self.delivery(account, operation_id)),
            timeout,
        )
        return self.delivery(account, operation_id).data

    def message(self, account: str, message_id: str) -> Answer:
        return self.ask("GET", f"/accounts/{account}/messages/{message_id}")


def desk_of_a_scripted_server(folder: Path) -> Desk:
    """One that waits long for outcomes, and 2 seconds for the reply to a message.

    Each message has a connection of its own, so that what a server does at its beginning meets every one.
    """
    return Desk(
        folder,
        sending__answer_within=20,
        sending__dot_timeout=2,
        sending__keep_connection=0,
        sync__poll_interval=5,
    )
