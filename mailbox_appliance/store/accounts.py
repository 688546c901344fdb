"""Reads and writes connected mailboxes: owners, sharing, sign-ins, status, sender addresses, and OAuth applications.

Only `Accounts.get_connection`, `OAuthLogins` and `OAuthApps` return secrets.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import peewee
from msgspec import UNSET

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NotFound, NothingToRemove, Unsupported
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.accounts import (
    Account,
    AccountCapabilities,
    AccountError,
    AccountStatus,
    Connection,
    Endpoint,
    FolderRoles,
    OAuthApp,
    OAuthLogin,
    OAuthProvider,
    SenderAddress,
    SendsVia,
)
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database

ACCOUNTS = peewee.Table("accounts")
OAUTH_APPS = peewee.Table("oauth_apps")

# A mailbox with the members who have a grant and the folders that have a role, in one row. Until its server was reached
# for the first time, as after an upgrade, these are the folders that a person named.
_SELECT_ACCOUNTS = """
SELECT a.id, a.email, a.display_name, a.provider, a.owner_member_id, a.shared_with_all,
  (SELECT json_group_array(g.member_id) FROM account_grants g WHERE g.account_id = a.id),
  a.status, a.error_code, a.error_message, a.error_fault,
  CASE WHEN EXISTS (SELECT 1 FROM folders f WHERE f.account = a.number) THEN
    (SELECT json_group_object(f.role, f.path) FROM folders f WHERE f.account = a.number AND f.role IS NOT NULL)
    ELSE a.mapped_folders END,
  a.capabilities, a.created_at, a.last_sync_at
FROM accounts a"""
_REACHED = """
(a.owner_member_id = :member OR a.shared_with_all OR EXISTS
  (SELECT 1 FROM account_grants g WHERE g.account_id = a.id AND g.member_id = :member))"""
# The same, starting from the member: only the mailboxes of this member are read, however many others have.
_OF_REACHED = """
WHERE a.number IN (
  SELECT number FROM accounts WHERE owner_member_id = :member
  UNION ALL SELECT number FROM accounts WHERE shared_with_all = 1
  UNION ALL SELECT s.number FROM account_grants g JOIN accounts s ON s.id = g.account_id WHERE g.member_id = :member)
ORDER BY a.number"""
_LIST_REACHED = f"{_SELECT_ACCOUNTS} {_OF_REACHED}"
_LIST_REACHED_SYNCS = f"SELECT a.id, a.last_sync_at FROM accounts a {_OF_REACHED}"

_ENDPOINT_FIELDS = ("host", "port", "security", "username")
#: The columns of a mailbox's error.
ERROR_COLUMNS = ("error_code", "error_message", "error_fault")
_SET_STATUS = "UPDATE accounts SET status = ?, error_code = ?, error_message = ?, error_fault = ?, met_sending = ?"
_CLEAR_REMOVED = """
UPDATE accounts SET status = 'removed', id = ?, owner_member_id = NULL, email = '', display_name = NULL,
  sender_addresses = '[]',
  connection = '{}', secret = '{}', mapped_folders = '{}', shared_with_all = 0, error_code = NULL, error_message = NULL,
  error_fault = NULL WHERE number = ?"""


class Accounts:
    """Reads and writes the connected mailboxes. Only `get_connection` returns passwords."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def get(self, account_id: str) -> Account:
        """Return the mailbox with this ID. Raises NotFound."""
        row = self._database.row(f"{_SELECT_ACCOUNTS} WHERE a.id = ?", (account_id,))
        if row is None:
            raise NotFound(what="mailbox")
        return _to_account(row)

    def find_reachable(self, account_id: str, member_id: str) -> Account | None:
        """Return a mailbox if this member has access to it, otherwise None.

        A member has access as the owner, by a grant, or because the mailbox is shared with all members.
        """
        row = self._database.row(
            f"{_SELECT_ACCOUNTS} WHERE a.id = :id AND {_REACHED}", {"id": account_id, "member": member_id}
        )
        return None if row is None else _to_account(row)

    def list_reachable(self, member_id: str) -> tuple[Account, ...]:
        """Return the mailboxes that this member has access to, oldest first."""
        return tuple(map(_to_account, self._database.rows(_LIST_REACHED, {"member": member_id})))

    def list_reachable_syncs(self, member_id: str) -> tuple[tuple[str, str | None], ...]:
        """Return the IDs of the mailboxes that this member has access to, oldest first, each with its `last_sync_at`.

        With hundreds of mailboxes this takes a tenth of the time of `list_reachable`.
        """
        return tuple(self._database.rows(_LIST_REACHED_SYNCS, {"member": member_id}))

    def list_all(self) -> tuple[Account, ...]:
        """Return all mailboxes, oldest first."""
        rows = self._database.rows(f"{_SELECT_ACCOUNTS} WHERE a.status <> 'removed' ORDER BY a.number")
        return tuple(map(_to_account, rows))

    def count(self) -> int:
        """Return the number of mailboxes."""
        return int(self._database.value("SELECT count(*) FROM accounts WHERE status <> 'removed'"))

    def list_emails(self) -> tuple[str, ...]:
        """Return the addresses of all mailboxes."""
        return tuple(row[0] for row in self._database.rows("SELECT email FROM accounts WHERE status <> 'removed'"))

    def list_ids(self) -> tuple[str, ...]:
        """Return the IDs of all mailboxes, oldest first."""
        sql = "SELECT id FROM accounts WHERE status <> 'removed' ORDER BY number"
        return tuple(row[0] for row in self._database.rows(sql))

    def exists(self, email: str, owner_member_id: str) -> bool:
        """Whether this member has already connected a mailbox with this email address."""
        sql = "SELECT 1 FROM accounts WHERE email = ? AND owner_member_id = ?"
        return self._database.value(sql, (email, owner_member_id)) is not None

    def find_own(self, email: str, owner_member_id: str) -> Account | None:
        """Return the mailbox with this email address that belongs to this member, or None."""
        row = self._database.row(
            f"{_SELECT_ACCOUNTS} WHERE a.email = ? AND a.owner_member_id = ?", (email, owner_member_id)
        )
        return None if row is None else _to_account(row)

    def add(self, owner_member_id: str, display_name: str | None, connection: Connection) -> str:
        """Add a mailbox with its servers and passwords, and return its new ID. Call it inside a transaction."""
        row = {"email": connection.email, "provider": "imap", **_connection_columns(connection)}
        return _insert_account(self._database, owner_member_id, display_name, row, self._clock)

    def rename(self, account_id: str, display_name: str | None) -> None:
        """Change the display name of a mailbox. Call it inside a transaction."""
        self._database.run(ACCOUNTS.update(display_name=display_name).where(ACCOUNTS.c.id == account_id))

    def set_access(self, account_id: str, *, shared_with_all: bool, member_ids: Collection[str]) -> None:
        """Set who has access to a mailbox in addition to its owner, replacing the earlier grants.

        `member_ids`: the members who get a grant. Call it inside a transaction.
        """
        self._database.run(ACCOUNTS.update(shared_with_all=int(shared_with_all)).where(ACCOUNTS.c.id == account_id))
        self._database.change("DELETE FROM account_grants WHERE account_id = ?", (account_id,))
        rows = [(account_id, member_id) for member_id in member_ids]
        self._database.change_many("INSERT INTO account_grants VALUES (?, ?)", rows)

    def set_connection(self, account_id: str, connection: Connection) -> None:
        """Replace the servers and passwords, set `connecting`, and clear the error. Call it inside a transaction."""
        change = {**_connection_columns(connection), "status": "connecting"} | dict.fromkeys(ERROR_COLUMNS)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.c.id == account_id))

    def remove(self, account_id: str) -> None:
        """Remove a mailbox: delete its secrets and grants now, and let `StoreCleaner` delete its mirrored mail later.

        From now on no mailbox has this ID: until the mail is deleted, the row exists under a new ID with the status
        `removed`. Raises NotFound. Call it inside a transaction.
        """
        number = self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,))
        if number is None:
            raise NotFound(what="mailbox")
        for table in ("account_grants", "undo_tokens"):
            self._database.change(f"DELETE FROM {table} WHERE account_id = ?", (account_id,))
        self._database.change(_CLEAR_REMOVED, (new_id("acc"), number))

    def get_connection(self, account_id: str) -> Connection:
        """Return the servers of a mailbox, with the passwords.

        Raises NotFound if the mailbox does not exist. Raises Unsupported if it uses an OAuth sign-in: it has no
        password.
        """
        row = self._database.row("SELECT email, connection, secret, provider FROM accounts WHERE id = ?", (account_id,))
        if row is None:
            raise NotFound(what="mailbox")
        servers, secret = json.loads(row[1]), json.loads(row[2])
        if "imap" not in servers:
            raise Unsupported(reason="it is connected by its provider's sign-in and has no password.")
        imap, smtp = servers["imap"], servers["smtp"]
        return Connection(
            row[0], _to_endpoint(imap, secret["imapPassword"]), _to_endpoint(smtp, secret["smtpPassword"])
        )

    def get_imap_host(self, account_id: str) -> str:
        """Return the host name of a mailbox's IMAP server. For a mailbox with a provider's sign-in, that of the
        provider.
        """
        row = self._database.row(
            "SELECT provider, json_extract(connection, '$.imap.host') FROM accounts WHERE id = ?", (account_id,)
        )
        provider, host = row or ("", None)
        return {"google": "imap.gmail.com", "outlook": "outlook.office365.com"}.get(provider, str(host or ""))

    def set_status(self, account_id: str, status: AccountStatus, error: AccountError | None = None) -> None:
        """Set the status and error of a mailbox, unless it was removed. Runs in a transaction of its own."""
        self._set_status(status, error, "id = ?", account_id)

    def note_refused_token(self, account_id: str, refresh_token: str, error: AccountError) -> bool:
        """Set a mailbox to `reauth_required` because its provider refused this refresh token.

        Returns False and changes nothing if another token was stored or the mailbox was removed in the meantime. Runs
        in a transaction of its own.
        """
        where = "id = ? AND json_extract(secret, '$.refreshToken') = ?"
        return self._set_status("reauth_required", error, where, account_id, refresh_token)

    def note_refused_sending(self, account_id: str, error: AccountError) -> None:
        """Set a mailbox to `reauth_required` because its provider refused the sign-in for sending.

        If reading already needs a new sign-in, that earlier error is kept. Runs in a transaction of its own.
        """
        where = "id = ? AND (status <> 'reauth_required' OR met_sending = 1)"
        self._set_status("reauth_required", error, where, account_id, met_sending=True)

    def clear_refused_sending(self, account_id: str) -> None:
        """Set a mailbox to `ready` if its only error is from `note_refused_sending`. Runs in its own transaction."""
        where = "id = ? AND met_sending = 1 AND status = 'reauth_required'"
        if self._database.value(f"SELECT 1 FROM accounts WHERE {where}", (account_id,)):
            self._set_status("ready", None, where, account_id)

    def _set_status(
        self, status: AccountStatus, error: AccountError | None, where: str, *values: str, met_sending: bool = False
    ) -> bool:
        columns = error and (error.code, error.message, None if error.fault is UNSET else error.fault)
        with self._database.transaction():
            given = (status, *(columns or (None, None, None)), int(met_sending), *values)
            return self._database.change(f"{_SET_STATUS} WHERE {where}", given) == 1

    def set_capabilities(self, account_id: str, capabilities: AccountCapabilities) -> None:
        """Store the capabilities of the mailbox's server. Runs in a transaction of its own."""
        text = msgspec.json.encode(capabilities).decode()
        with self._database.transaction():
            self._database.change("UPDATE accounts SET capabilities = ? WHERE id = ?", (text, account_id))

    def mark_synced(self, account_id: str) -> None:
        """Record the current time as the end of a mailbox's last complete sync. Runs in a transaction of its own."""
        with self._database.transaction():
            at = to_timestamp(self._clock.now())
            self._database.change("UPDATE accounts SET last_sync_at = ? WHERE id = ?", (at, account_id))


def _insert_account(
    database: Database, owner_member_id: str, display_name: str | None, row: Mapping[str, Any], clock: Clock
) -> str:
    account_id = new_id("acc")
    owner = {"id": account_id, "owner_member_id": owner_member_id, "display_name": display_name}
    database.run(ACCOUNTS.insert(**owner, **row, created_at=to_timestamp(clock.now())))
    return account_id


def _connection_columns(connection: Connection) -> dict[str, str]:
    servers = {"imap": _endpoint_fields(connection.imap), "smtp": _endpoint_fields(connection.smtp)}
    secrets = {"imapPassword": connection.imap.password, "smtpPassword": connection.smtp.password}
    return {"connection": json.dumps(servers), "secret": json.dumps(secrets)}


def _endpoint_fields(endpoint: Endpoint) -> dict[str, object]:
    return {name: getattr(endpoint, name) for name in _ENDPOINT_FIELDS}


def _to_endpoint(server: dict[str, Any], password: str) -> Endpoint:
    """Unknown fields, as in an upgraded store, are ignored."""
    return Endpoint(**{name: server[name] for name in _ENDPOINT_FIELDS}, password=password)


def _to_account(row: Sequence[Any]) -> Account:
    roles = json.loads(row[11])
    error = None if row[8] is None else AccountError(code=row[8], message=row[9] or "", fault=row[10] or UNSET)
    return Account(
        id=row[0],
        email=row[1],
        display_name=row[2],
        provider=row[3],
        owner_member_id=row[4],
        shared_with_all=bool(row[5]),
        granted_member_ids=tuple(json.loads(row[6])),
        status=row[7],
        error=error,
        folders=FolderRoles(**{role: roles.get(role) for role in ("sent", "drafts", "trash", "archive", "spam")}),
        capabilities=decode_json(row[12], AccountCapabilities),
        created_at=row[13],
        last_sync_at=row[14],
    )


# --- Sender addresses: the mailbox's own, and others that its provider reports ---


class SenderAddresses:
    """Reads and writes the addresses that a mailbox can send from."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_of(self, account: Account) -> tuple[SenderAddress, ...]:
        """Return all addresses that a mailbox can send from, the mailbox's own address first. Raises NotFound."""
        text = self._database.value("SELECT sender_addresses FROM accounts WHERE id = ?", (account.id,))
        if text is None:
            raise NotFound(what="mailbox")
        told = decode_json(text, tuple[SenderAddress, ...])
        named = next((each.name for each in told if same_mailbox(each.email, account.email)), UNSET)
        own = SenderAddress(email=account.email, name=account.display_name or named, is_default=True)
        return (own, *(each for each in told if not same_mailbox(each.email, account.email)))

    def set_from_provider(self, account_id: str, addresses: Sequence[SenderAddress]) -> bool:
        """Replace the stored sender addresses by those that the provider reports.

        Returns False if nothing changed or the mailbox is gone. Runs in a transaction of its own.
        """
        text = msgspec.json.encode(tuple(addresses)).decode()
        where = "id = ? AND sender_addresses <> ?"
        if self._database.value(f"SELECT 1 FROM accounts WHERE {where}", (account_id, text)) is None:
            return False
        with self._database.transaction():
            sql = f"UPDATE accounts SET sender_addresses = ? WHERE {where}"
            return self._database.change(sql, (text, account_id, text)) == 1

    def list_accounts(self) -> tuple[str, ...]:
        """Return the IDs of the mailboxes whose provider can report sender addresses."""
        sql = "SELECT id FROM accounts WHERE provider IN ('google', 'outlook') AND status <> 'removed' ORDER BY number"
        return tuple(row[0] for row in self._database.rows(sql))


# --- OAuth applications for Google and Outlook mailboxes, as an administrator saved them ---


_SAVE_APP = """
INSERT INTO oauth_apps (provider, client_id, client_secret, tenant_id, public_client, updated_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (provider) DO UPDATE SET client_id = excluded.client_id,
  client_secret = excluded.client_secret, tenant_id = excluded.tenant_id, public_client = excluded.public_client,
  updated_at = excluded.updated_at"""


class OAuthApps:
    """Reads and writes OAuth applications with their secrets."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, provider: OAuthProvider) -> OAuthApp | None:
        """Return the OAuth application saved for a provider, or None."""
        sql = "SELECT client_id, client_secret, tenant_id, public_client FROM oauth_apps WHERE provider = ?"
        row = self._database.row(sql, (provider,))
        return None if row is None else OAuthApp(provider, row[0], row[1], row[2], bool(row[3]))

    def put(self, app: OAuthApp) -> None:
        """Save an OAuth application, replacing the provider's previous one. Call it inside a transaction."""
        at = to_timestamp(self._clock.now())
        facts = (app.provider, app.client_id, app.client_secret, app.tenant_id, int(app.public_client), at)
        self._database.change(_SAVE_APP, facts)

    def remove(self, provider: OAuthProvider) -> None:
        """Delete a saved OAuth application. Call it inside a transaction. Raises NothingToRemove if none is saved."""
        if not self._database.run(OAUTH_APPS.delete().where(OAUTH_APPS.c.provider == provider)):
            raise NothingToRemove(what="saved OAuth application")


# --- OAuth sign-ins of Google and Outlook mailboxes; only this part returns their refresh tokens ---


class OAuthLogins:
    """Reads and writes the OAuth sign-ins of Google and Outlook mailboxes, with their refresh tokens."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, account_id: str) -> OAuthLogin | None:
        """Return the OAuth sign-in of a mailbox; None for a mailbox with passwords. Raises NotFound.

        If an upgraded store has only the refresh token, the other fields are defaults: the mailbox's address as user
        name, and sending by SMTP.
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
        """Add a mailbox with this sign-in, and return its new ID. Call it inside a transaction."""
        row = {"email": login.email, "provider": login.provider, **_login_columns(login)}
        return _insert_account(self._database, owner_member_id, display_name, row, self._clock)

    def set(self, account_id: str, login: OAuthLogin) -> None:
        """Replace the sign-in, set the status to `connecting`, and clear the error. Call it inside a transaction."""
        change = {**_login_columns(login), "status": "connecting"} | dict.fromkeys(ERROR_COLUMNS)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.c.id == account_id))

    def confirm(self, account_id: str, via: SendsVia) -> None:
        """Record that the stored sign-in works: set the status to `connecting`, and clear the error.

        `via`: whether the mailbox sends by SMTP or by Microsoft Graph; it is stored. The refresh token is not written,
        since a newer one may have been stored during the test of the sign-in. Call it inside a transaction.
        """
        change = {"status": "connecting", "met_sending": 0} | dict.fromkeys(ERROR_COLUMNS)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.c.id == account_id))
        self.set_sends_via(account_id, via)

    def set_sends_via(self, account_id: str, via: SendsVia) -> None:
        """Store whether an Outlook mailbox sends by SMTP or by Microsoft Graph.

        Does nothing for other providers or a removed mailbox. Runs in a transaction of its own.
        """
        with self._database.transaction():
            sql = "UPDATE accounts SET connection = json_set(connection, '$.sendsVia', ?) WHERE id = ?"
            self._database.change(f"{sql} AND provider = 'outlook'", (via, account_id))

    def replace_token(self, account_id: str, before: str, after: str) -> bool:
        """Replace the refresh token `before` by `after`, its successor from the provider. `after` is on the disk on
        return.

        Returns False and changes nothing if `before` is not the stored token any more or the mailbox is gone. If both
        tokens are equal, nothing is written.
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


def _login_columns(login: OAuthLogin) -> Mapping[str, Any]:
    connection = {"username": login.username, "sendsVia": login.sends_via, "byDevice": login.by_device}
    return {"connection": json.dumps(connection), "secret": json.dumps({"refreshToken": login.refresh_token})}
