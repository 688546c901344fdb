"""Writes a data directory of format 3, with one of everything: `python -m tests.stores.make_format_3 DIR [--rows N]`.

Nothing of the appliance is imported: what release 0.10 wrote does not change with it.
"""

import argparse
import base64
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SCHEMA = Path(__file__).with_name("format_3.sql")
PASSWORD = "correct horse battery"
SEND = "/api/v1/accounts/acc_1/send"
SECRETS = {
    "imapPassword": "imap-sécret",
    "smtpPassword": "smtp-sécret",
    "refreshToken": "1//refresh",
    "outlookToken": "0.outlook-refresh",
    "clientSecret": "GOCSPX-secret",
}
CONNECTION = {
    "imap": {"host": "127.0.0.1", "port": 10143, "security": "none", "username": "ada"},
    "smtp": {"host": "127.0.0.1", "port": 10025, "security": "none", "username": "ada"},
}
PLAIN = (
    b"From: ada@example.org\r\nTo: Bob <bob@example.org>\r\nSubject: later\r\n"
    b"Message-ID: <later-%d@example.org>\r\n\r\nhello\r\n"
)
#: With a Bcc and 8-bit text, lines that end in LF, and neither Date nor Message-ID.
HARD = (
    "From: Ada Möbius <ada@example.org>\nTo: bob@example.org\nBcc: eve@example.org\nSubject: Grüße ☂\n"
    "Content-Type: text/plain; charset=utf-8\n\nSchöne Grüße\n.\nfrom Ada\n"
).encode()


class Maker:
    """A directory that is being made: its key, its moment, and its database."""

    def __init__(self, folder: Path, key: bytes, now: datetime | None) -> None:
        self.now, self.key = now or datetime.now(UTC), key
        self.database = sqlite3.connect(folder / "mailbox.db")

    @classmethod
    def begin(cls, folder: Path, schema: str, now: datetime | None) -> "Maker":
        """A new directory, with the tables of this schema."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key, key_file = secrets.token_bytes(32), folder / "encryption.key"
        key_file.write_text(base64.b64encode(key).decode() + "\n")
        key_file.chmod(0o600)
        (folder / "config.toml").write_text("[server]\nport = 8025\n")
        made = cls(folder, key, now)
        made.database.executescript(schema)
        (folder / "mailbox.db").chmod(0o600)
        return made

    @classmethod
    def again(cls, folder: Path) -> "Maker":
        """A directory that is there already, to be changed."""
        return cls(folder, base64.b64decode((folder / "encryption.key").read_text()), None)

    def ago(self, **time: float) -> str:
        """A moment so long before, as text; a negative time lies ahead."""
        text = (self.now - timedelta(**time)).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def seal(self, table: str, row: str, column: str, value: str) -> bytes:
        """A secret as it stands in its column."""
        nonce = secrets.token_bytes(12)
        place = f"{table}:{row}:{column}".encode()
        return b"\x01" + nonce + AESGCM(self.key).encrypt(nonce, value.encode(), place)

    def put(self, table: str, *row: object) -> None:
        """Write a row."""
        self.database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def close(self) -> None:
        """Leave the directory as a process does that stops."""
        self.database.commit()
        self.database.close()


def make(folder: Path, rows: int = 0, now: datetime | None = None) -> dict[str, Any]:
    """A data directory as of a moment; answers its plain secrets. `rows`: of the audit log, and of stored answers."""
    made = Maker.begin(folder, SCHEMA.read_text(), now)
    tokens = put_people(made)
    put_mailboxes(made)
    made.put("api_keys", *custom_key(made, tokens["apiKey"]))
    made.put("api_keys", *named_key(made, tokens["readerKey"]))
    made.put("api_keys", *revoked_key(made, tokens["revokedKey"]))
    for answer in answers(made, rows):
        made.put("rest_idempotency", *answer)
    for number, status in enumerate(("pending", "sent", "failed", "canceled"), 1):
        code = "message_rejected" if status == "failed" else None
        sent = "old-sent" if status == "sent" else None
        times = (made.ago(hours=-1), status, code, sent, made.ago(days=1))
        made.put("scheduled_sends", f"sch_{number}", "acc_1", "mem_1", PLAIN % number, envelope("bob"), *times)
    times = (made.ago(hours=-2), "pending", None, None, made.ago(hours=5))
    made.put("scheduled_sends", "sch_5", "acc_1", "mem_1", HARD, envelope("bob", "eve"), *times)
    put_log(made, rows)
    made.close()
    return {**tokens, **SECRETS, "password": PASSWORD, "legacyRequests": {f"legacy-{n}": body(n) for n in (1, 2, 3)}}


def put_people(made: Maker) -> dict[str, str]:
    """Members, with what they log in by; answers the tokens."""
    ago = made.ago
    tokens = {name: f"mb3_{secrets.token_hex(20)}" for name in _TOKENS}
    made.put("meta", "instance_id", secrets.token_hex(8))
    made.put("meta", "created_at", ago(days=90))
    made.put("meta", "release", "0.10.4")
    made.put("settings", "attachments", json.dumps({"maxBytes": 26214400}))
    made.put("settings", "remote.timeout", "45")
    ada = ("Ada Admin", "Ada@Example.org", "admin", "active", scrypt(PASSWORD))
    made.put("members", "mem_1", *ada, ago(days=90), ago(days=3), ago(hours=2))
    moe = ("Möbius ☂", "moe@example.org", "member", "suspended", None)
    made.put("members", "mem_2", *moe, ago(days=60), ago(days=60), None)
    # To release 0.10 these two were different emails: it compared letters of ASCII without case, and no others.
    made.put("members", "mem_3", "Zoë", "zoë@example.org", "member", "active", None, *[ago(days=40)] * 2, None)
    made.put("members", "mem_4", "Zoë II", "ZOË@example.org", "member", "active", None, *[ago(days=39)] * 2, None)
    made.put("sessions", "ses_1", "mem_1", digest(tokens["session"]), "Ada's laptop", ago(days=2), ago(hours=1))
    made.put("sessions", "ses_2", "mem_1", digest(tokens["oldSession"]), "Old", ago(days=89.99), ago(hours=1))
    made.put("sessions", "ses_3", "mem_1", digest(tokens["unusedSession"]), "Unused", ago(days=60), ago(days=31))
    made.put("invitations", "inv_1", "mem_2", "invitation", digest(secrets.token_hex()), ago(days=-3), None)
    made.put("invitations", "inv_2", "mem_3", "invitation", digest(tokens["invitation"]), ago(days=-3), None)
    made.put("invitations", "inv_3", "mem_1", "password_reset", digest(tokens["usedReset"]), ago(days=-1), ago(days=1))
    return tokens


_TOKENS = (
    *("session", "oldSession", "unusedSession", "invitation", "usedReset"),
    *("apiKey", "readerKey", "revokedKey"),
)


def put_mailboxes(made: Maker) -> None:
    """Mailboxes of all providers, who may reach them, and the applications they are connected by."""
    ago = made.ago
    passwords = json.dumps({name: SECRETS[name] for name in ("imapPassword", "smtpPassword")})
    sealed = made.seal("accounts", "acc_1", "sealed_secret", passwords)
    ada = ("acc_1", "mem_1", "ada@example.org", "Ada", "imap", json.dumps(CONNECTION), sealed, '{"sent":"Gesendet"}')
    made.put("accounts", *ada, 0, ago(days=80))
    sealed = made.seal("accounts", "acc_2", "sealed_secret", json.dumps({"refreshToken": SECRETS["refreshToken"]}))
    made.put("accounts", "acc_2", "mem_1", "ada@gmail.example", None, "google", "{}", sealed, "{}", 1, ago(days=70))
    sealed = made.seal("accounts", "acc_3", "sealed_secret", json.dumps({"refreshToken": SECRETS["outlookToken"]}))
    made.put("accounts", "acc_3", "mem_3", "zoe@outlook.example", "Z", "outlook", "{}", sealed, "{}", 0, ago(days=30))
    made.put("account_grants", "acc_1", "mem_2")
    made.put("account_grants", "acc_1", "mem_3")
    sealed = made.seal("oauth_apps", "google", "sealed_client_secret", SECRETS["clientSecret"])
    made.put("oauth_apps", "google", "client.apps.example", None, 0, sealed, ago(days=71))
    made.put("oauth_apps", "outlook", "0000-client", "contoso", 1, None, ago(days=71))


def custom_key(made: Maker, token: str) -> tuple[object, ...]:
    """A key with capabilities of its own, for one mailbox."""
    what = ("custom", '["mail.read","mail.send","admin.audit"]', '["acc_1"]')
    return ("key_1", "ci", "mem_1", digest(token), *what, made.ago(days=30), made.ago(hours=5), None)


def named_key(made: Maker, token: str) -> tuple[object, ...]:
    """A key of a named profile that holds an administrator's right beside it."""
    what = ("read-only", '["mail.read","admin.members"]', None)
    return ("key_2", "reader", "mem_1", digest(token), *what, made.ago(days=9), None, None)


def revoked_key(made: Maker, token: str) -> tuple[object, ...]:
    """A key that is good for nothing any more."""
    times = (made.ago(days=50), made.ago(days=20), made.ago(days=10))
    return ("key_3", "gone", "mem_1", digest(token), "full", '["mail.read"]', None, *times)


def answers(made: Maker, rows: int) -> Iterator[tuple[object, ...]]:
    """Stored answers: of an hour ago, of 23 and of 25."""
    for number, hours in ((1, 1), (2, 23), (3, 25)):
        told = json.dumps({"data": {"id": f"old-{number}", "threadId": f"old-thread-{number}"}})
        fingerprint = request_hash(SEND, body(number))
        yield ("key_1", f"legacy-{number}", "POST", SEND, fingerprint, 200, told, made.ago(hours=hours))
    told, at = '{"data":{"id":"x","threadId":"y","warnings":["late"]}}', made.ago(hours=3)
    for number in range(rows):
        yield ("key_2", f"bulk-{number}", "POST", SEND, "0" * 64, 200, told, at)


def put_log(made: Maker, rows: int) -> None:
    """The audit log, with gaps in its numbers: acts of those who are there and of those who are not any more."""
    acts = [
        ("session", "ses_1", "member.update", "mem_2", "success", "127.0.0.1"),
        ("session", "ses_gone", "session.create", "ses_1", "success", "2001:db8::7"),
        ("api_key", "key_1", "account.update", "acc_1", "denied", None),
        ("system", None, "start", None, "success", None),
        ("local", None, "api_key.create", "key_2", "success", "127.0.0.1"),
        ("session", "ses_1", "settings.update", "attachments", "failure", "127.0.0.1"),
        ("session", "ses_1", "invitation.create", "inv_1", "success", "127.0.0.1"),
        ("session", "ses_1", "schedule.cancel", "sch_4", "success", "127.0.0.1"),
    ]
    sql = (
        "INSERT INTO audit_events (at, actor_kind, actor_id, action, target, outcome, client_address)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    count = max(rows, 20)
    told = ((made.ago(days=8, seconds=left), *acts[left % len(acts)]) for left in range(count, 0, -1))
    made.database.executemany(sql, told)
    made.database.execute("DELETE FROM audit_events WHERE id IN (3, 7, 8)")


def body(number: int) -> dict[str, Any]:
    """The body of a send that was made with an old key."""
    return {"to": [{"email": "bob@example.org"}], "subject": f"legacy {number}", "body": {"text": "hi"}}


def request_hash(path: str, content: object) -> str:
    """What a request was told from others by."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(f"POST\n{path}\n{canonical}".encode()).hexdigest()


def envelope(*recipients: str) -> str:
    """Whom a message is from and goes to."""
    return json.dumps({"from": "ada@example.org", "recipients": [f"{name}@example.org" for name in recipients]})


def digest(token: str) -> str:
    """A token as it is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def scrypt(password: str) -> str:
    """A password as it is stored."""
    salt = secrets.token_bytes(16)
    made = hashlib.scrypt(password.encode(), salt=salt, n=16384, r=8, p=1, dklen=32)
    return "scrypt$16384$8$1$" + "$".join(base64.b64encode(part).decode() for part in (salt, made))


def main(make: Callable[[Path, int], dict[str, Any]]) -> None:
    """What the command line does."""
    parser = argparse.ArgumentParser(description="Write a data directory of an old format; prints its secrets.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=0, help="rows of the audit log, and stored answers")
    given = parser.parse_args()
    os.umask(0o077)
    print(json.dumps(make(given.folder, given.rows), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(make)
