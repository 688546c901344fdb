"""The setup behind the console: an appliance as a process, two members, and mailboxes at Dovecot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Any

from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, Answer, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp

_numbers = count(1)


@dataclass(frozen=True)
class Person:
    """A member, and the session that the console keeps."""

    email: str
    logged_in: dict[str, Any]

    @property
    def token(self) -> str:
        """The session's token."""
        return str(self.logged_in["token"])

    @property
    def id(self) -> str:
        """The member's ID."""
        return str(self.logged_in["member"]["id"])


@dataclass(frozen=True)
class Box:
    """A mailbox at Dovecot that is connected to the appliance."""

    id: str
    email: str
    owner: Person = field(repr=False)


class House:
    """An appliance with `ada`, an administrator, and `bob`, a member. Create others for whatever a test changes."""

    def __init__(
        self, folder: Path, server: MailServer, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """`arguments`, `environment`: for `serve`."""
        self.server = server
        # Discovery must not make requests on the internet.
        nowhere = {"RESOLVER": "127.0.0.1:9", "AUTOCONFIG_DIRECTORY": ""}
        given = {f"MAILBOX_APPLIANCE_REMOTE_{name}": value for name, value in nowhere.items()}
        given |= {"MAILBOX_APPLIANCE_KEYCHAIN": "off", **(environment or {})}
        self.running = RunningAppliance(folder, given, arguments=arguments).start()
        self.running.set_up()
        self.ada = self.sign_in("ada@example.org")
        self.bob = self.add_member("bob")

    @property
    def url(self) -> str:
        """The address of the appliance, without a slash at the end."""
        return self.running.url.rstrip("/")

    def stop(self) -> None:
        """Stop the appliance."""
        self.running.stop()

    def ask(self, person: Person, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Make a request to the API as a member."""
        return self.running.ask(method, path, body, timeout=60, token=person.token, **headers)

    def sign_in(self, email: str, password: str = PASSWORD) -> Person:
        """Start a new session."""
        body = {"email": email, "password": password, "deviceName": "test"}
        answer = self.running.ask("POST", "/auth/login", body)
        assert answer.status == 200, answer.body
        return Person(email, answer.data)

    def invite(self, name: str, role: str = "member") -> tuple[str, str]:
        """Invite a member; return their email address and the token of the invitation."""
        email = f"{name}-{next(_numbers)}@example.org"
        answer = self.ask(self.ada, "POST", "/admin/members", {"name": name.title(), "email": email, "role": role})
        assert answer.status == 201, answer.body
        return email, str(answer.data["invitation"]["token"])

    def add_member(self, name: str, role: str = "member") -> Person:
        """Return a member who has accepted an invitation."""
        email, token = self.invite(name, role)
        body = {"token": token, "password": PASSWORD, "deviceName": "test"}
        answer = self.running.ask("POST", "/auth/enroll", body)
        assert answer.status == 200, answer.body
        return Person(email, answer.data)

    def connect(self, owner: Person, *sources: bytes, smtp: ScriptedSmtp | None = None, **more: Any) -> Box:
        """Return a new mailbox with these messages in its inbox, after the first sync. `smtp`: by which it sends."""
        user = self.server.fresh_user()
        if sources:
            self.server.deliver(user, *sources)
        servers = self.servers(user)
        if smtp is not None:
            smtp.user, servers["smtp"]["port"] = user, smtp.port
        answer = self.ask(owner, "POST", "/accounts", {"email": user, **servers, **more})
        assert answer.status == 201, answer.body
        box = Box(answer.data["id"], user, owner)
        self.wait_until_ready(box)
        return box

    def servers(self, user: str) -> dict[str, Any]:
        """Return `imap` and `smtp` for POST /accounts."""
        login = {"host": "127.0.0.1", "security": "none", "username": user, "password": "secret"}
        return {"imap": login | {"port": self.server.imap_port}, "smtp": login | {"port": self.server.submission_port}}

    def wait_until_ready(self, box: Box) -> None:
        """Wait until the mailbox is synced."""
        wait_until(
            lambda: self.ask(box.owner, "GET", f"/accounts/{box.id}").data["status"] == "ready", lambda: "not ready", 20
        )

    def messages(self, box: Box, **query: str) -> list[dict[str, Any]]:
        """Return the messages that the appliance lists, newest first."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        listed: list[dict[str, Any]] = self.ask(box.owner, "GET", f"/accounts/{box.id}/messages?{asked}").data["items"]
        return listed


def a_mail(subject: str = "Hello", text: str = "Hello there.", html: str | None = None, **headers: str) -> bytes:
    """Return a message in the format of a mailbox."""
    mail = EmailMessage()
    given = {"From": "Carol <carol@example.net>", "To": "ada@example.org", "Date": "Mon, 01 Jun 2026 10:00:00 +0000"}
    given |= {"Message-ID": f"<console-{next(_numbers)}@example.net>"}
    for name, value in {**given, **{key.replace("_", "-"): value for key, value in headers.items()}}.items():
        mail[name] = value
    mail["Subject"] = subject
    mail.set_content(text)
    if html is not None:
        mail.add_alternative(html, subtype="html")
    return mail.as_bytes()
