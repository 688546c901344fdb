"""Members, keys and a mailbox with mail, put straight into the store: no mail server is asked."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.model.deliveries import NewDelivery
from mailbox_appliance.model.members import Role
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.model.sync import FetchedMessage, ListedFolder
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import hash_token, new_id, new_token
from tests.checked_client import PASSWORD, CheckedClient

SECRETS = ("imap-secret-f3a1", "smtp-secret-9c22")
FOLDERS = (
    ("INBOX", "\\inbox"),
    ("Sent", "\\sent"),
    ("Trash", "\\trash"),
    ("Junk", "\\junk"),
    ("Projects/Ärger & Co", ""),
    ("null", ""),
)


class FilledMailbox:
    """A mailbox in the store, with folders and whatever is delivered into them."""

    def __init__(self, appliance: Appliance, owner_id: str, email: str = "box@example.org") -> None:
        self.store = appliance.store
        listed = tuple(ListedFolder(path, "/", frozenset({mark} - {""})) for path, mark in FOLDERS)
        self._uids, self._moments = count(1), datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
        with self.store.database.transaction(durable=True):
            self.id = self.store.accounts.add(owner_id, "The box", _connection(email))
            self.store.folders.replace(self.id, listed, folder_roles.assign_roles(listed, {}))

    def deliver(self, *sources: bytes, folder: str = "INBOX", flags: Iterable[str] = ()) -> list[str]:
        """Put messages into a folder, each a minute after the one before; answers their ids."""
        found = self.store.folders.find(self.id, folder)
        assert found is not None
        batch = []
        for source in sources:
            self._moments += timedelta(minutes=1)
            fetched = FetchedMessage(next(self._uids), frozenset(flags), self._moments, len(source), source)
            batch.append((fetched, parse_message(source)))
        return list(self.store.mailbox_writer.add(found, batch))

    def accept(self, member_id: str, outcome: str = "", *, is_shown: bool = True, **more: Any) -> str:
        """An operation of now, and what became of it; answers its id. `more`: further fields of `NewDelivery`."""
        sender = Address(email="box@example.org")
        message = OutgoingMessage(sender=sender, to=(Address(email="eve@example.test"),), subject="s", text="t")
        composed = compose(message, message_id="<a@example.org>", date=self._moments)
        deliveries, key = self.store.deliveries, new_id("key")
        new = NewDelivery(self.id, "ses_1", member_id, key, "hash", more.pop("kind", "send"), composed, None, **more)
        operation = deliveries.accept(new).delivery.operation_id
        if is_shown:
            deliveries.mark_shown(operation)
        if outcome == "succeeded":
            deliveries.succeed(operation, None, reply_code=250)
        elif outcome:
            deliveries.set_outcome(operation, outcome)  # type: ignore[arg-type]
        return operation

    def grant(self, member_id: str) -> None:
        """Let another member reach the mailbox."""
        with self.store.database.transaction(durable=True):
            self.store.database.change("INSERT INTO account_grants VALUES (?, ?)", (self.id, member_id))


def letter(subject: str, text: str = "Hello", *, number: int | None = None, answers: int | None = None) -> bytes:
    """A plain message; `answers` is the number of the one it answers."""
    fields = ["From: Bob <bob@example.test>", "To: box@example.org", f"Subject: {subject}"]
    fields += [] if number is None else [f"Message-ID: <{number}@example.test>"]
    fields += [] if answers is None else [f"In-Reply-To: <{answers}@example.test>"]
    return "\r\n".join([*fields, "", text, ""]).encode()


def path_of(who: CheckedClient, rest: str = "") -> str:
    """Where administrators look after this member."""
    return f"/admin/members/{who.member['id']}{rest}"


def add_member(appliance: Appliance, name: str, role: Role = "member") -> str:
    """A member who may log in as `name`@example.org; answers the id."""
    email = f"{name}@example.org"
    with appliance.store.database.transaction(durable=True):
        member = appliance.store.members.add(name=name, email=email, role=role, password_hash=_hashed())
    return member.id


@cache
def _hashed() -> str:
    """The hash of everybody's password: made once, since that takes longer than all the rest."""
    return passwords.hash_password(PASSWORD)


def add_key(
    appliance: Appliance, member_id: str, *capabilities: str, accounts: list[str] | None = None
) -> tuple[str, str]:
    """An API key with these capabilities; answers its id and its token."""
    token, key_id = new_token("mbxk"), new_id("key")
    scope = None if accounts is None else json.dumps(accounts)
    row = (key_id, "a key", member_id, hash_token(token), "custom", json.dumps(capabilities), scope, "2026-01-01")
    with appliance.store.database.transaction(durable=True):
        appliance.store.database.change(
            "INSERT INTO api_keys (id, name, member_id, token_hash, permission_profile, capabilities, account_ids,"
            " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    return key_id, token


def suspend(appliance: Appliance, member_id: str) -> None:
    """Suspend a member."""
    with appliance.store.database.transaction(durable=True):
        appliance.store.database.change("UPDATE members SET status = 'suspended' WHERE id = ?", (member_id,))


def everything_stored(appliance: Appliance) -> str:
    """All there is in the store, as one text to look for something in."""
    database = appliance.store.database
    tables = [row[0] for row in database.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return "\n".join(repr(row) for table in tables for row in database.rows(f"SELECT * FROM {table}"))


def _connection(email: str) -> Connection:
    imap, smtp = (Endpoint("127.0.0.1", 1, "none", email, secret) for secret in SECRETS)
    return Connection(email, imap, smtp)
