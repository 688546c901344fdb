"""How mailboxes of Google and Outlook are logged in to, as it is kept: by a refresh token, which leaves only here."""

import json
from collections.abc import Mapping
from typing import Any

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.records import OAuthLogin, SendsVia
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.accounts import TROUBLE
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import ACCOUNTS


class OAuthLogins:
    """Reads and writes these logins."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, account_id: str) -> OAuthLogin | None:
        """How a mailbox is logged in to; None for one that has passwords. Raises NotFound.

        One of an upgraded store may have no more than the token.
        """
        sql = "SELECT provider, email, connection, secret FROM accounts WHERE id = ?"
        row = self._database.row(sql, (account_id,))
        if row is None:
            raise NotFound(what="mailbox")
        if row[0] == "imap":
            return None
        known, token = json.loads(row[2]), json.loads(row[3]).get("refreshToken", "")
        username, via = known.get("username", row[1]), known.get("sendsVia", "smtp")
        return OAuthLogin(row[0], row[1], username, token, via, known.get("byDevice", False))

    def add(self, owner_member_id: str, display_name: str | None, login: OAuthLogin) -> str:
        """A new mailbox; answers its id. Inside a transaction."""
        account_id = new_id("acc")
        query = ACCOUNTS.insert(
            id=account_id,
            owner_member_id=owner_member_id,
            email=login.email,
            display_name=display_name,
            provider=login.provider,
            **_columns(login),
            created_at=to_timestamp(self._clock.now()),
        )
        self._database.run(query)
        return account_id

    def set(self, account_id: str, login: OAuthLogin) -> None:
        """How a mailbox is logged in to from now on; its trouble is forgotten. Inside a transaction."""
        change = {**_columns(login), "status": "connecting"} | dict.fromkeys(TROUBLE)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.id == account_id))

    def confirm(self, account_id: str, via: SendsVia) -> None:
        """The login that is there is good: its trouble is forgotten, and by what it sends is noted. In a transaction.

        Its refresh token is left alone: another one may have taken its place while the login was tried.
        """
        change = {"status": "connecting", "met_sending": 0} | dict.fromkeys(TROUBLE)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.id == account_id))
        self.set_sends_via(account_id, via)

    def set_sends_via(self, account_id: str, via: SendsVia) -> None:
        """By what a mailbox sends from now on. One transaction of its own; a removed mailbox is passed over."""
        with self._database.transaction():
            sql = "UPDATE accounts SET connection = json_set(connection, '$.sendsVia', ?) WHERE id = ?"
            self._database.change(f"{sql} AND provider = 'outlook'", (via, account_id))

    def replace_token(self, account_id: str, before: str, after: str) -> bool:
        """Put a refresh token in the place of the one that brought it, on the disk when this returns.

        False where another one has taken that place meanwhile, or the mailbox is gone: then nothing is changed. A token
        that brought itself is only looked for.
        """
        where = "id = ? AND json_extract(secret, '$.refreshToken') = ?"
        if before == after:
            return self._database.value(f"SELECT 1 FROM accounts WHERE {where}", (account_id, before)) is not None
        with self._database.transaction(durable=True):
            secret = json.dumps({"refreshToken": after})
            changed = self._database.change(
                f"UPDATE accounts SET secret = ? WHERE {where}", (secret, account_id, before)
            )
        return changed == 1


def _columns(login: OAuthLogin) -> Mapping[str, Any]:
    connection = {"username": login.username, "sendsVia": login.sends_via, "byDevice": login.by_device}
    return {"connection": json.dumps(connection), "secret": json.dumps({"refreshToken": login.refresh_token})}
