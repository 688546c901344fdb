"""The stage of golden command lines: an appliance with fixed mail, and scratch directories next to it."""

import contextlib
import imaplib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli.main import run
from mailbox_appliance.cli.terminal import Terminal
from tests.cli.golden_text import YEAR
from tests.servers.dovecot import MailServer
from tests.servers.issuer import PAYLOAD, PUBLIC_KEY, sign
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp

#: Within the year that a send may wait.
LATER = (datetime.now(UTC) + timedelta(days=100)).strftime("%Y-%m-%dT09:00:00Z")


@dataclass(frozen=True)
class Outcome:
    """The output, error output and exit code of a command line."""

    code: int
    out: str
    err: str


def play(words: list[str], environment: Mapping[str, str], stdin: str = "") -> Outcome:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(io.BytesIO(stdin.encode()), out, err, environment)
    # Help is written by click, which knows nothing of the terminal.
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words, SERVICES, terminal)
    return Outcome(code, out.getvalue(), err.getvalue())


@dataclass
class Stage:
    """The appliance, named values of it, and functions that change it."""

    folder: Path
    mail: MailServer
    appliance: RunningAppliance
    smtp: ScriptedSmtp
    values: dict[str, str] = field(default_factory=dict)
    count: int = 0

    @property
    def known(self) -> dict[str, str]:
        """Texts of this run -> their placeholders."""
        names = ("user", "doubter", "reader")
        mailboxes = {self.values[name]: f"box-{number:03}@example.test" for number, name in enumerate(names, 1)}
        ports = {self.values["imap"]: "00143", self.values["smtp"]: "00587", str(self.smtp.port): "00025"}
        return {**mailboxes, **ports, str(self.folder): "/tmp/golden", sys.executable: "/usr/bin/python3"}

    @property
    def environment(self) -> dict[str, str]:
        """The environment of an administrator on this computer."""
        return {
            "MAILBOX_APPLIANCE_CONFIG_DIR": str(self.folder / "config"),
            "MAILBOX_APPLIANCE_DATA_DIR": str(self.appliance.folder),
            "MAILBOX_APPLIANCE_KEYCHAIN": "off",
            "MAILBOX_APPLIANCE_TOKEN": str(self.appliance.token),
            "XDG_CONFIG_HOME": str(self.folder / "desktop"),
        }

    def surroundings_of(self, name: str) -> dict[str, str]:
        """Return the environment of a process: a client of the appliance, or one that runs next to it."""
        if name in ("mcp", "events follow"):
            return self.environment
        return {"MAILBOX_APPLIANCE_DATA_DIR": str(self.folder / name), "TMPDIR": str(self.folder)}

    def ask(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:
        """Return the data of an API response, which must not be an error."""
        answer = (
            self.appliance.ask(method, path, body, Idempotency_Key=key)
            if key
            else self.appliance.ask(method, path, body)
        )
        assert answer.status < 300, (path, answer)
        return answer.data

    def next(self) -> int:
        """Return a number that was not used before."""
        self.count += 1
        return self.count

    def write(self, name: str, text: str) -> None:
        """Write a file below the scratch directory."""
        file = Path(self.values["files"]) / name
        file.parent.mkdir(parents=True)
        file.write_text(text)

    @property
    def box(self) -> str:
        """The API path of the mailbox."""
        return f"/accounts/{self.values['account']}"


class Serving:
    """A command that runs until it is stopped, started as a separate process."""

    def __init__(self, line: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "mailbox_appliance", *line.split()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )

    def stopped(self, asked: str, mark: str) -> Outcome:
        """Send input, stop the process once a line with the mark was printed, and return its outcome."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if asked:
            self._process.stdin.write(f"{asked}\n")
            self._process.stdin.flush()
        heard = ""
        while mark not in heard:
            if not (line := self._process.stdout.readline()):
                break
            heard += line
        if not asked:
            self._process.send_signal(signal.SIGINT)
        out, err = self._process.communicate(timeout=60)
        return Outcome(self._process.returncode, heard + out, err)


def surroundings(folder: Path) -> dict[str, str | None]:
    """Return environment variables for this process that hide the user's files and select a simulated keychain."""
    gone = ("KEY_FILE", "PASSPHRASE", "KEYCHAIN_SECONDS", "TOKEN", "INSTANCE", "LINK", "PASSWORD")
    return {
        **{f"MAILBOX_APPLIANCE_{name}": None for name in gone},
        "CREDENTIALS_DIRECTORY": None,
        "COLUMNS": "100",
        "PYTHONPATH": str(folder / "backends"),
        "PYTHON_KEYRING_BACKEND": "made_up_keychains.InFile",
    }


# --- mail -------------------------------------------------------------------------------------------------------------


def letter(number: int, subject: str, **fields: str) -> EmailMessage:
    """Return a message with fixed content."""
    made = EmailMessage(policy=SMTP)
    made["From"], made["To"] = "Bob Builder <bob@example.net>", "Ada <ada@example.org>"
    made["Date"], made["Subject"] = datetime(YEAR, 1, number, 9, tzinfo=UTC), subject
    made["Message-ID"] = f"<letter-{number}@example.net>"
    for name, value in fields.items():
        made[name.replace("_", "-")] = value
    made.set_content(f"This is letter {number}.\n")
    return made


def letters() -> Iterator[tuple[str, EmailMessage]]:
    """Yield the messages of the mailbox with their folders, in the order of arrival."""
    yield "INBOX", letter(1, "Plans for the house")
    answer = letter(2, "Re: Plans for the house", In_Reply_To="<letter-1@example.net>")
    answer.add_attachment(b"%PDF-1.4 plan", "application", "pdf", filename="plan.pdf")
    yield "INBOX", answer
    yield "INBOX", letter(3, "Invoice 42: Größe und Preis")
    yield "Archive", letter(4, "An old story")
    for number in range(5, 25):
        yield "Heap", letter(number, f"To be handled {number}")


def fill(mail: MailServer, user: str) -> None:
    """Add the letters to a mailbox, each with its own time of arrival."""
    mail.make_folder(user, "Heap")
    with imaplib.IMAP4(mail.host, mail.imap_port, timeout=10) as client:
        client.login(user, "secret")
        for folder, message in letters():
            received = message["Date"].datetime
            status, answer = client.append(folder, "", imaplib.Time2Internaldate(received), message.as_bytes())
            assert status == "OK", answer


# --- set up -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(mail: MailServer) -> Iterator[Stage]:
    """Open a complete stage."""
    # The path is as long everywhere.
    folder = Path(tempfile.mkdtemp(prefix="golden-", dir="/tmp"))
    smtp = ScriptedSmtp().start()
    appliance = RunningAppliance(folder / "data")
    try:
        appliance.folder.mkdir(mode=0o700)
        (appliance.folder / "config.toml").write_text(f'[license]\nissuer_public_key = "{PUBLIC_KEY}"\n')
        stage = Stage(folder, mail, appliance.start(), smtp)
        _furnish(stage)
        yield stage
    finally:
        appliance.stop()
        smtp.stop()
        shutil.rmtree(folder)


def _furnish(stage: Stage) -> None:
    stage.appliance.set_up()
    values = stage.values
    values["user"], values["doubter"] = stage.mail.fresh_user(), stage.mail.fresh_user()
    values["reader"] = stage.mail.fresh_user()
    values["folder"], values["imap"], values["smtp"] = (
        str(stage.folder),
        str(stage.mail.imap_port),
        str(stage.mail.submission_port),
    )
    fill(stage.mail, values["user"])
    values["account"] = connected(stage, values["user"], stage.mail.submission_port)
    messages = stage.ask("GET", f"{stage.box}/messages?limit=100")["items"]
    assert len(messages) == 24
    by_subject = {one["subject"]: one for one in messages}
    values["message"] = by_subject["Re: Plans for the house"]["id"]
    values["thread"] = by_subject["Re: Plans for the house"]["threadId"]
    whole = stage.ask("GET", f"{stage.box}/messages/{values['message']}")
    values["attachment"] = whole["attachments"][0]["id"]
    for number in range(5, 25):
        values[f"heap{number}"] = by_subject[f"To be handled {number}"]["id"]
    _furnish_beside(stage)


def _furnish_beside(stage: Stage) -> None:
    values = stage.values
    values["me"] = stage.ask("GET", "/me")["member"]["id"]
    values["member"] = stage.ask(
        "POST", "/admin/members", {"name": "Bob", "email": "bob@example.org", "role": "member"}
    )["member"]["id"]
    values["session"] = stage.ask("GET", "/me/sessions")[0]["id"]
    key = stage.ask("POST", "/me/api-keys", {"name": "Reports", "permissionProfile": "read-only"})
    values["key"] = key["apiKey"]["id"]
    draft = {"to": [{"email": values["reader"]}], "subject": "A draft", "body": {"text": "Not yet."}}
    values["draft"] = stage.ask("POST", f"{stage.box}/drafts", draft)["id"]
    values["backup"] = stage.ask("POST", "/admin/backups")["id"]
    sent = {"to": [{"email": values["reader"]}], "subject": "Sent before", "body": {"text": "Hello."}}
    values["operation"] = stage.ask("POST", f"{stage.box}/send", sent, key="before")["operationId"]
    later = {**sent, "subject": "Later", "sendAt": LATER}
    values["schedule"] = stage.ask("POST", f"{stage.box}/send", later, key="later")["scheduleId"]
    wait_until(lambda: _counts(stage)["Sent"] == 1, lambda: "what was sent does not come to Sent", 20)
    values["license"] = sign({**PAYLOAD, "expiresAt": LATER, "maxMembers": 50, "maxAccounts": 50})
    write_instances(stage.folder)


def write_instances(folder: Path) -> None:
    """Store known appliances."""
    (folder / "config").mkdir(exist_ok=True)
    rows = {name: {"url": f"https://{name}", "fingerprint": None} for name in ("mail.example.org", "other.example")}
    (folder / "config" / "instances.json").write_text(json.dumps({"instances": rows}))


def connected(stage: Stage, user: str, smtp_port: int) -> str:
    """Connect a mailbox, wait until it is ready, and return its ID."""
    account = stage.appliance.connect(user, imap_port=stage.mail.imap_port, smtp_port=smtp_port)
    path = f"/accounts/{account}"
    wait_until(lambda: stage.ask("GET", path)["status"] == "ready", lambda: "the first sync does not end", 20)
    wait_until(lambda: _is_complete(stage, account), lambda: "the first sync does not come to its end", 20)
    return account


def _is_complete(stage: Stage, account: str) -> bool:
    """Whether every message has arrived with its body."""
    (found,) = (one for one in stage.ask("GET", "/status")["accounts"] if one["id"] == account)
    return found["lastSyncAt"] is not None and found["progress"] is None


def _counts(stage: Stage) -> dict[str, int]:
    return {one["path"]: one["totalCount"] for one in stage.ask("GET", f"{stage.box}/folders")}
