"""The demo as a client of the appliance's own API: set up, connect the mailbox, and wait until its mail is there."""

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mailbox_appliance.demo.children import Failed
from mailbox_appliance.demo.handshake import Ready


@dataclass(frozen=True)
class Login:
    """A member of the demo's appliance."""

    email: str
    password: str


class Client:
    """Asks the appliance; an error answer raises Failed."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._token = ""

    def set_up(self, code: str, login: Login) -> None:
        """Make the first administrator and act as it from now on."""
        body = {"setupCode": code, "name": "Robin Vale", "email": login.email, "password": login.password}
        self._token = self._ask("POST", "/setup", {**body, "deviceName": "demo"})["token"]

    def connect(self, email: str, name: str, servers: Ready) -> str:
        """Connect the mailbox and return the id of the account."""
        login = {"host": "127.0.0.1", "security": "none", "username": email, "password": servers.password}
        imap, smtp = {**login, "port": servers.imap_port}, {**login, "port": servers.smtp_port}
        account = self._ask("POST", "/accounts", {"email": email, "displayName": name, "imap": imap, "smtp": smtp})
        return str(account["id"])

    def wait_for_mail(self, account: str, expected: int, tick: Callable[[int], None], seconds: float = 60.0) -> None:
        """Wait until the mailbox is ready and shows as many messages; `tick` is called with the number so far."""
        end = time.monotonic() + seconds
        while True:
            state = self._ask("GET", f"/accounts/{account}")
            shown = len(self._ask("GET", f"/accounts/{account}/messages?limit=100")["items"])
            tick(shown)
            if state["status"] == "ready" and shown >= expected:
                return
            if state["status"] in ("error", "reauth_required") or time.monotonic() > end:
                raise Failed(f"The mailbox was not read: it is {state['status']} with {shown} of {expected} messages.")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        # Not urllib: it would ask the proxies of the environment for the way to this very computer.
        connection = http.client.HTTPConnection(self._host, timeout=60)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"The appliance did not answer {method} {path.partition('?')[0]}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise Failed(f"The appliance refused {method} {path.partition('?')[0]}: {content['error']['message']}")
        return content["data"]
